"""Both sides of a pair of datasets, run in this process or in one more for each side.

Two processes may start with the same state of a mechanism's own generator. Nothing here needs the
two sides to be independent: each has bounds of its own, and what may go wrong adds up. The runs of
one side must be, so that a side stays with its process from the first run to the last.
"""

import multiprocessing
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from typing import Any, TypeAlias

from headcount.auditor.readings import Outputs
from headcount.core.errors import HeadcountError, InvalidParameter

# So many outputs of a dataset.
Mechanism: TypeAlias = Callable[[Any, int], Outputs]
# The same of both datasets.
Sampler: TypeAlias = Callable[[Any, Any, int], tuple[Outputs, Outputs]]


@contextmanager
def sampler(mechanism: Mechanism, *, parallel: bool) -> Iterator[Sampler]:
    """Runs a mechanism on pairs of datasets; `parallel` where processes can be forked."""
    if not parallel or "fork" not in multiprocessing.get_all_start_methods():
        yield lambda one, other, count: (_run(mechanism, one, count), _run(mechanism, other, count))
        return
    context = multiprocessing.get_context("fork")
    ends: list[Connection] = []
    sides: list[ForkProcess] = []

    def both(one: Any, other: Any, count: int) -> tuple[Outputs, Outputs]:
        for end, dataset in zip(ends, (one, other), strict=True):
            end.send((dataset, count))
        return _received(ends[0]), _received(ends[1])

    try:
        for _ in range(2):
            ours, theirs = context.Pipe()
            side = context.Process(target=_serve, args=(mechanism, theirs), daemon=True)
            side.start()
            theirs.close()  # or its end would never be noticed
            ends.append(ours)
            sides.append(side)
        yield both
    finally:
        for side in sides:
            side.terminate()
            side.join()


def _run(mechanism: Mechanism, dataset: Any, count: int) -> Outputs:
    try:
        return mechanism(dataset, count)
    except HeadcountError:
        raise
    except Exception as error:  # of a mechanism that is not ours: whatever it is
        raise InvalidParameter(
            f"a mechanism must give outputs, got {type(error).__name__}: {error}"
        ) from error


def _serve(mechanism: Mechanism, end: Connection) -> None:
    """One side: outputs for every question, until it is stopped."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asks is interrupted, and stops
    while True:
        dataset, count = end.recv()
        try:
            end.send((True, _run(mechanism, dataset, count)))
        except Exception as error:  # outputs that no pipe can take, too
            end.send((False, str(error)))


def _received(end: Connection) -> Outputs:
    try:
        good, found = end.recv()
    except EOFError:
        raise InvalidParameter("a mechanism must not stop the process that runs it") from None
    if not good:
        raise InvalidParameter(found)
    outputs: Outputs = found
    return outputs
