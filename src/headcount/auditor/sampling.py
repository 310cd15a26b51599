"""Runs a mechanism on both datasets of a pair, in this process or in one process for each side.

A side consists of all runs on one of the two datasets. Two processes may start with the same state
of a mechanism's random generator. This does no harm, because the two sides need not be independent:
each side has its own confidence bounds, and the error probabilities of both sides are added. But
the runs of one side must be independent. So all runs of a side are made in the same process.
"""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

from headcount.auditor.features import Outputs
from headcount.core.errors import HeadcountError, InvalidParameter

# A function of a dataset and a number n. It returns the outputs of n runs.
Mechanism: TypeAlias = Callable[[Any, int], Outputs]
# A function of two datasets and a number n. It returns the outputs of n runs on each dataset.
Sampler: TypeAlias = Callable[[Any, Any, int], tuple[Outputs, Outputs]]
_CAN_FORK = "fork" in multiprocessing.get_all_start_methods()
_INTERVAL = 0.5  # seconds between two checks that the parent process still runs


@contextmanager
def sampler(mechanism: Mechanism, *, parallel: bool) -> Iterator[Sampler]:
    """A function that runs a mechanism on both datasets of a pair. If `parallel`, each side runs in
    its own process, provided that this process can fork.
    """
    if not parallel or not _can_fork():
        yield lambda one, other, count: (_run(mechanism, one, count), _run(mechanism, other, count))
        return
    with _Apart(mechanism) as first, _Apart(mechanism) as second:

        def both(one: Any, other: Any, count: int) -> tuple[Outputs, Outputs]:
            first.ask(one, count)
            second.ask(other, count)
            return first.answer(), second.answer()

        yield both


def apart(work: Callable[[], Any]) -> Any:
    """The result of calling `work`. If this process can fork, `work` runs in a process of its own,
    since it may stop its process.
    """
    if not _can_fork():
        return work()
    with _Apart(work) as process:
        process.ask()
        return process.answer()


def _can_fork() -> bool:
    """Whether this process may fork. A daemonic process, such as one of a pool, may not."""
    return _CAN_FORK and not multiprocessing.current_process().daemon


class _Apart:
    """A process that calls a function on request."""

    def __init__(self, function: Callable[..., Any]) -> None:
        context = multiprocessing.get_context("fork")
        self._end, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(function, theirs, self._end, os.getpid()), daemon=True
        )
        self._process.start()
        theirs.close()  # otherwise this process would not notice that the other process has ended

    def __enter__(self) -> "_Apart":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()

    def ask(self, *arguments: Any) -> None:
        try:
            self._end.send(arguments)
        except OSError:
            raise self._stopped() from None

    def answer(self) -> Any:
        try:
            good, result = self._end.recv()
        except (EOFError, OSError):
            raise self._stopped() from None
        except Exception as error:  # an output cannot be unpickled
            raise InvalidParameter(
                f"a mechanism must give outputs, got {type(error).__name__}: {error}"
            ) from None
        if not good:
            raise InvalidParameter(result)
        return result

    def _stopped(self) -> InvalidParameter:
        self._process.join(timeout=1)
        status = self._process.exitcode
        how = "a closed pipe" if status is None else f"exit status {status}"
        how = f"signal {-status}" if status is not None and status < 0 else how
        return InvalidParameter(f"a mechanism must not stop the process that runs it, got {how}")


def _run(mechanism: Mechanism, dataset: Any, count: int) -> Outputs:
    try:
        return mechanism(dataset, count)
    except HeadcountError:
        raise
    except (Exception, SystemExit) as error:  # a user's mechanism may raise anything
        raise InvalidParameter(
            f"a mechanism must give outputs, got {type(error).__name__}: {error}"
        ) from error


def _end_with(parent: int) -> None:
    """End this process soon after its parent has ended, even if the function still runs."""
    while os.getppid() == parent:
        time.sleep(_INTERVAL)
    os._exit(1)


def _serve(function: Callable[..., Any], end: Connection, asking: Connection, parent: int) -> None:
    """Call the function for every request, until the process that sends the requests has ended."""
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    asking.close()  # a forked process has both ends of the pipe, and would wait for itself
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the requesting process handles Ctrl-C
    while True:
        try:
            arguments = end.recv()
        except EOFError:  # the requesting process has ended
            return
        try:
            end.send((True, function(*arguments)))
        except HeadcountError as error:
            end.send((False, str(error)))
        except BaseException as error:  # this includes outputs that cannot be pickled
            got = f"{type(error).__name__}: {error}"
            end.send((False, f"a mechanism must give outputs, got {got}"))
