"""Runs of the command line. Each has its own process, which is forked from a process that has
loaded everything. This is fast, and streams, limits and signals are real.

The *nursery* is the process that forks. It gets one `Run` after another, and answers with `Ended`.
"""

import atexit
import contextlib
import ctypes
import faulthandler
import io
import os
import pickle
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, NoReturn

MEMORY = 4 * 2**30  # bytes of memory; reserved address space does not count
CPU = 30.0  # seconds of work, after which a run counts as hung
IDLE = 4.0  # seconds without work, seen twice, after which a run counts as hung
# "kept" goes to a file, and so does "piped". The others lose some or all of it.
Stream = Literal["kept", "piped", "full", "closed", "pipe-closed", "pipe-one-line"]


class Fault(NamedTuple):
    """What happens at the `at`-th write, sync, rename or new file below the run's folder: an error
    (from then on, if it is `lasting`), or a signal.
    """

    at: int
    error: int = 0
    signal: int = 0
    lasting: bool = True


class Run(NamedTuple):
    arguments: tuple[str, ...]
    folder: str  # the folder in which it starts
    environment: Mapping[str, str]
    fresh: bool = False  # a new Python, not a forked one
    stdout: Stream = "kept"
    stderr: Stream = "kept"
    file_size: int | None = None  # the most bytes of a file
    after: tuple[float, int] | None = None  # the seconds before a signal, and the signal
    fault: Fault | None = None
    plant: str = ""  # a mistake of `plants`, to test that it is found
    patience: float = 1.0  # the shares of `CPU` and `IDLE`


@dataclass(frozen=True)
class Ended:
    """How a run ended. `status` is negative for a signal. `place` is where it hung."""

    status: int
    out: bytes
    err: bytes
    work: float  # seconds
    hung: bool = False
    place: str = ""
    struck: bool = False  # the fault was reached
    left: bool = False  # processes that it had started were still running


class Nursery:
    """The process that forks. If `faulty`, it can also make system calls fail."""

    def __init__(self, shim: Path | None = None) -> None:
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        environment["PYTHONPATH"] = str(Path(__file__).parents[1])
        if shim is not None:
            environment["LD_PRELOAD"] = str(shim)
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from fuzzing import runs; runs.serve()"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def run(self, run: Run) -> Ended:
        assert self._process.stdin
        assert self._process.stdout
        pickle.dump(run, self._process.stdin)
        self._process.stdin.flush()
        ended = pickle.load(self._process.stdout)
        assert isinstance(ended, Ended)
        return ended

    def close(self) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


@contextlib.contextmanager
def nursery(shim: Path | None = None) -> Iterator[Nursery]:
    made = Nursery(shim)
    try:
        yield made
    finally:
        made.close()


# The following code runs in the nursery and in its children.


@dataclass
class _Side:
    """The nursery's files for a child: its streams, and where it hangs."""

    out: BinaryIO = field(default_factory=tempfile.TemporaryFile)
    err: BinaryIO = field(default_factory=tempfile.TemporaryFile)
    place: BinaryIO = field(default_factory=tempfile.TemporaryFile)
    struck: BinaryIO = field(default_factory=tempfile.TemporaryFile)

    def text(self, which: BinaryIO) -> bytes:
        which.seek(0)
        return which.read()

    def close(self) -> None:
        for file in (self.out, self.err, self.place, self.struck):
            file.close()


class _Pipe(NamedTuple):
    reader: int
    kind: Stream
    kept: BinaryIO

    def read(self) -> None:
        end = {"pipe-closed": None, "pipe-one-line": b"\n", "piped": b""}[self.kind]
        byte = None
        while end is not None and byte not in (b"", end):
            byte = os.read(self.reader, 1)
            self.kept.write(byte)
        os.close(self.reader)


def serve() -> None:
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    _load()
    while True:
        try:
            run = pickle.load(requests)
        except EOFError:
            os._exit(0)
        side = _Side()
        reading: list[_Pipe] = []
        ends = {
            1: _stream(run.stdout, side.out, reading),
            2: _stream(run.stderr, side.err, reading),
        }
        began = time.monotonic()
        child = os.fork()
        if not child:
            for pipe in reading:
                os.close(pipe.reader)
            requests.close()
            # It is not closed, since its buffer belongs to the nursery.
            os.dup2(nowhere, answers.fileno())
            _prepare(run, ends, side)
            _be(run)
        for end in {end for end in ends.values() if end is not None}:
            if end not in (side.out.fileno(), side.err.fileno()):
                os.close(end)
        readers = [threading.Thread(target=pipe.read) for pipe in reading]
        for reader in readers:
            reader.start()
        status, work, hung = _watch(child, run, began)
        left = _left(child)
        for reader in readers:
            reader.join()
        ended = Ended(
            status, side.text(side.out), side.text(side.err), work, hung,
            side.text(side.place).decode(errors="replace"), bool(side.text(side.struck)),
            left,
        )  # fmt: skip
        side.close()
        pickle.dump(ended, answers)
        answers.flush()


def _load() -> None:
    """Load everything that commands load on demand."""
    import altair  # noqa: F401
    import duckdb  # noqa: F401
    import pyarrow.csv
    import pyarrow.dataset
    import pyarrow.json
    import pyarrow.parquet  # noqa: F401
    import scipy.fft
    import scipy.optimize
    import scipy.special
    import scipy.stats  # noqa: F401
    import vl_convert  # noqa: F401

    import headcount.accounting.composition  # noqa: F401
    from headcount.cli.app import app

    app()
    # A command reads its environment while it loads.
    for name in [name for name in sys.modules if name.startswith("headcount.cli")]:
        del sys.modules[name]
    tempfile.tempdir = None


def _stream(kind: Stream, kept: BinaryIO, reading: list[_Pipe]) -> int | None:
    if kind == "kept":
        return kept.fileno()
    if kind == "full":
        return os.open("/dev/full", os.O_WRONLY)
    if kind == "closed":
        return None
    reader, writer = os.pipe()
    reading.append(_Pipe(reader, kind, kept))
    return writer


def _watch(child: int, run: Run, began: float) -> tuple[int, float, bool]:
    """How the child ended, how long it worked, and whether it hung."""
    pause, worked, since = 0.001, -1.0, time.monotonic()
    others: list[tuple[str, float]] = []
    to_send = run.after
    while True:
        ended, status, used = os.wait4(child, os.WNOHANG)
        if ended:
            work = used.ru_utime + used.ru_stime
            return os.waitstatus_to_exitcode(status), work, False
        now = time.monotonic()
        if to_send and now - began >= to_send[0]:
            # A terminal interrupts all processes of a command.
            (os.killpg if to_send[1] == signal.SIGINT else os.kill)(child, to_send[1])
            to_send = None
        state, work = _work(child)
        if work != worked or state == "R":
            worked, since = work, now
        idle = now - since > run.patience * IDLE
        if idle and others != (found := _helpers(child)):
            others, since, idle = found, now, False  # processes that it waits for may have worked
        if work > run.patience * CPU or idle:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGUSR1)  # says where it is
                time.sleep(0.2)
                os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            return os.waitstatus_to_exitcode(status), work, True
        pause = min(0.02, pause * 1.3, (to_send[0] - (now - began)) if to_send else 1.0)
        time.sleep(max(0.0, pause))


def _left(child: int) -> bool:
    """Whether processes outlive the one that started them by a second. They are killed."""
    for _ in range(20):
        try:
            os.killpg(child, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    return True


def _work(child: int) -> tuple[str, float]:
    """The state of a process, and its seconds of work in all threads."""
    fields = _facts(child)
    return fields[0], (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _helpers(child: int) -> list[tuple[str, float]]:
    """The same for the process and all processes that it started."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # some end meanwhile
            if int(_facts(int(place.name))[3]) == child:
                found.append((place.name, _work(int(place.name))[1]))
    return sorted(found)


def _facts(process: int) -> list[str]:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


def _prepare(run: Run, ends: Mapping[int, int | None], side: _Side) -> None:
    """Turn a copy of the nursery into what a shell would have started."""
    os.setsid()
    faulthandler.register(signal.SIGUSR1, side.place)
    os.chdir(run.folder)
    os.environ.clear()
    os.environ.update(run.environment)
    for number, end in ends.items():
        if end is not None:
            os.dup2(end, number)
    for number, end in ends.items():
        if end is None:
            os.close(number)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    if run.file_size is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (run.file_size, run.file_size))
    _give_up_power()
    if run.fault is not None:
        where = os.path.realpath(run.folder).encode()
        shim: Any = ctypes.CDLL(None)
        shim.fault_at(*run.fault, where, side.struck.fileno())
    if run.fresh:
        arguments = ["-P", "-m", "headcount", *run.arguments]
        os.execv(sys.executable, [sys.executable, *arguments])


def _give_up_power() -> None:
    """Make permissions hold for everyone, including the superuser."""
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = struct.pack("Ii", 0x20080522, 0)
    powers = ctypes.create_string_buffer(24)
    assert libc.capget(header, powers) == 0
    words = list(struct.unpack("6I", powers.raw))
    words[0] &= ~0b110  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    assert libc.capset(header, struct.pack("6I", *words)) == 0


def _text_stream(number: int, errors: str) -> io.TextIOWrapper | None:
    """A stream as Python makes it at its start, or None if it is closed."""
    try:
        raw = io.FileIO(number, "w", closefd=False)
    except OSError:
        return None
    encoding = os.environ.get("PYTHONIOENCODING", "utf-8")
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding, errors, line_buffering=number == 2, write_through=False
    )


def _be(run: Run) -> NoReturn:
    sys.stdout = _text_stream(1, "strict")
    sys.stderr = _text_stream(2, "backslashreplace")
    sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr  # type: ignore[misc]
    sys.argv = ["headcount", *run.arguments]
    if run.plant:
        from fuzzing import plants

        plants.plant(run.plant)
    sys.path.remove(str(Path(__file__).parents[1]))
    try:
        from headcount.cli.main import main

        main()
        status = 0
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException as error:
        traceback.print_exception(error)
        status = 1
    os._exit(_finish(status))


def _finish(status: int) -> int:
    """Do what Python does at its end, without freeing all that the nursery has loaded."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError as error:
            with contextlib.suppress(OSError):
                os.write(2, f"Exception ignored in: {stream}\n{error!r}\n".encode())
            status = 120
    return status
