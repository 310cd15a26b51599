"""Timing that is fair to all sides of a comparison."""

import time
from collections.abc import Callable
from typing import TypeAlias

Contender: TypeAlias = Callable[[], object]


def seconds(contender: Contender) -> float:
    """The time of one call. Its result is freed after the clock has stopped."""
    start = time.perf_counter()
    result = contender()
    stop = time.perf_counter()
    del result
    return stop - start


def race(*contenders: Contender, rounds: int) -> list[float]:
    """The best time of each function, after one call that does not count.

    The functions take turns, so that other work of the machine affects all of them. Other work can
    only add to a time, so the shortest time is the most accurate.
    """
    for contender in contenders:
        contender()
    laps = [[seconds(contender) for contender in contenders] for _ in range(rounds)]
    return [min(times) for times in zip(*laps, strict=True)]
