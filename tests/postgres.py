"""A PostgreSQL server for the tests. It runs in a temporary folder, which is removed afterwards."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_BINARIES = "/usr/lib/postgresql"


def binary(name: str) -> str:
    """The path of a server program in PATH or where Debian puts it. The newest one is used."""
    folders = sorted(
        Path(_BINARIES).glob("*/bin"), key=lambda folder: float(folder.parent.name), reverse=True
    )
    found = shutil.which(name) or shutil.which(name, path=":".join(map(str, folders)))
    if not found:
        raise RuntimeError(f"these tests need a PostgreSQL server, and there is no {name} here")
    return found


def _owner() -> dict[str, Any]:
    """The user that the server runs as, since it refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    names = {user.pw_name: user for user in pwd.getpwall()}
    user = names.get("postgres") or names["nobody"]
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


@contextmanager
def running() -> Iterator[str]:
    """The address of a server that listens only on a socket in its folder."""
    owner = _owner()
    folder = Path(tempfile.mkdtemp(prefix="hc-"))  # names of sockets must be short
    try:
        if owner:
            os.chown(folder, owner["user"], owner["group"])
        data = str(folder / "data")
        _run([binary("initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-N",
              "--encoding=UTF8", "--no-locale"], owner, folder)  # fmt: skip
        settings = f"-c listen_addresses='' -c unix_socket_directories='{folder}'"
        control = [binary("pg_ctl"), "-D", data, "-w"]
        _run([*control, "-l", str(folder / "log"), "-o", settings, "start"], owner, folder)
        try:
            yield f"postgresql:///postgres?host={folder}&user=postgres"
        finally:
            _run([*control, "-m", "immediate", "stop"], owner, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(command: list[str], owner: dict[str, Any], folder: Path) -> None:
    done = subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, check=False, **owner,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {done.stderr.decode(errors='replace')}")
