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


class Server:
    """A server that listens only on a socket in its folder. It can be stopped and started."""

    def __init__(self, folder: Path, owner: dict[str, Any]) -> None:
        self._folder, self._owner = folder, owner
        self.data = folder / "data"
        self.url = f"postgresql:///postgres?host={folder}&user=postgres"
        _run([binary("initdb"), "-D", str(self.data), "-U", "postgres", "-A", "trust", "-N",
              "--encoding=UTF8", "--no-locale"], owner, folder)  # fmt: skip

    def start(self) -> None:
        settings = f"-c listen_addresses='' -c unix_socket_directories='{self._folder}'"
        self._control("-l", str(self._folder / "log"), "-o", settings, "start")

    def stop(self) -> None:
        """Stop as in a crash: the server writes nothing more."""
        self._control("-m", "immediate", "stop")

    def _control(self, *words: str) -> None:
        # On a busy disk, a server that was stopped as in a crash may take minutes to start.
        command = [binary("pg_ctl"), "-D", str(self.data), "-w", "-t", "600", *words]
        _run(command, self._owner, self._folder)


@contextmanager
def server() -> Iterator[Server]:
    """A server that runs when the block begins."""
    owner = _owner()
    folder = Path(tempfile.mkdtemp(prefix="hc-"))  # names of sockets must be short
    try:
        if owner:
            os.chown(folder, owner["user"], owner["group"])
        made = Server(folder, owner)
        made.start()
        try:
            yield made
        finally:
            made.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def small_disk(kibibytes: int) -> Iterator[Path]:
    """A disk in memory with little room, for files of a server. It must not be used afterwards."""
    owner = _owner()
    folder = Path(tempfile.mkdtemp(prefix="hc-"))
    try:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={kibibytes}k", "tmpfs", str(folder)]
        done = subprocess.run(mount, capture_output=True, check=False)
        if done.returncode:
            raise RuntimeError(
                "a test with a full disk must be able to mount a tmpfs, so it needs root with the "
                f"capability CAP_SYS_ADMIN: {done.stderr.decode(errors='replace')}"
            )
        try:
            os.chown(folder, owner["user"], owner["group"])
            yield folder
        finally:
            subprocess.run(["umount", str(folder)], check=True)
    finally:
        folder.rmdir()


@contextmanager
def running() -> Iterator[str]:
    """The address of a server."""
    with server() as made:
        yield made.url


def _run(command: list[str], owner: dict[str, Any], folder: Path) -> None:
    done = subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, check=False, **owner,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {done.stderr.decode(errors='replace')}")
