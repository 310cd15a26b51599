"""A console in a process of its own."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from collection import free_port


@contextmanager
def console(*arguments: str) -> Iterator[str]:
    """A console that runs during the block, and the address that it prints."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "headcount", "console", "--port", str(port), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().removeprefix("open: ").strip()
        assert address.startswith(f"http://127.0.0.1:{port}/?token=")
        yield address
    finally:
        process.terminate()
        process.communicate(timeout=120)
