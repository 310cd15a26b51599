"""Events that distinguish two datasets.

An event is chosen with some outputs, and counted in other outputs. A side consists of all outputs
for one of the two datasets. The module `features` gives each output a code.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.auditor.features import Codes, Feature, Outputs, features, same

_LEAST_TIMES = 2  # an output must occur at least this often to be considered a leak


@dataclass(frozen=True)
class Event:
    """The event that an output's feature has one of the codes in `codes`. The event is more
    frequent on the first side, or on the second side if `swapped`.
    """

    feature: Feature
    codes: NDArray[np.int64]
    swapped: bool
    expected_epsilon: float  # an estimate from the outputs that were used to choose the event

    def hits(self, outputs: Outputs) -> int:
        return int(np.isin(self.feature.codes_of(outputs), self.codes).sum())

    def __str__(self) -> str:
        return self.feature.describe(np.sort(self.codes))


def best_event(outputs: Outputs, others: Outputs, delta: float) -> Event:
    """The event that is expected to show the largest ε.

    One half of the runs decides which codes belong to an event. The other half decides which event
    is best. So an output that occurs only once, on one side, is not enough for an event.
    """
    half = len(outputs) // 2
    learned = [outputs[:half], others[:half]]
    tried = [outputs[half:], others[half:]]
    events = (
        _event(feature, learned[::way], tried[::way], delta, swapped=way < 0)
        for feature in features(outputs, others)
        for way in (1, -1)
    )
    return max(events, key=lambda event: event.expected_epsilon)


def _event(
    feature: Feature,
    learned: Sequence[Outputs],
    tried: Sequence[Outputs],
    delta: float,
    *,
    swapped: bool,
) -> Event:
    one, two = map(feature.codes_of, learned)
    codes, which = np.unique(np.concatenate([one, two]), return_inverse=True)
    ours = np.bincount(which[: len(one)], minlength=len(codes))
    theirs = np.bincount(which[len(one) :], minlength=len(codes))
    # Codes are sorted by the ratio of their counts on the two sides, in descending order.
    order = np.argsort(-(ours + 0.5) / (theirs + 0.5), kind="stable")
    place = np.empty(len(codes), dtype=np.int64)
    place[order] = np.arange(len(codes))
    hits, other_hits = (np.cumsum(_counted(feature.codes_of(side), codes, place)) for side in tried)
    runs = len(tried[0])
    shown = expected_epsilon(hits, other_hits, runs, delta)
    at = int(np.argmax(shown))
    return Event(feature, codes[order[: at + 1]], swapped, float(shown[at]))


def expected_epsilon(
    hits: NDArray[Any], other_hits: NDArray[Any], runs: int, delta: float
) -> NDArray[np.float64]:
    """An estimate of the lower bound on ε that these counts would give.

    Instead of confidence bounds, it uses the counts moved by three standard deviations.
    """
    low = (hits - 3 * np.sqrt(hits + 1)) / runs - delta
    high = (other_hits + 3 * np.sqrt(other_hits + 1) + 3) / runs
    shown: NDArray[np.float64] = np.log(np.maximum(low, 1e-300) / high)
    return shown


@dataclass(frozen=True, eq=False)
class Leaks:
    """Outputs that occurred at least twice on one side and never on the other, sorted by code.

    Each output gets a share of the error probability, in proportion to how often it occurred. The
    sum of the shares is 1. `swapped` is True for outputs of the second side.
    """

    codes: Codes
    swapped: NDArray[np.bool_]
    shares: NDArray[np.float64]
    outputs: tuple[Any, ...]

    def hits(self, outputs: Outputs) -> NDArray[np.int64]:
        """How often each leak occurs among `outputs`."""
        places = np.arange(len(self.codes))
        return _counted(same(outputs), self.codes, places) if len(places) else places


def leaks(outputs: Outputs, others: Outputs) -> Leaks:
    """The outputs that occurred at least twice on one side and never on the other. Such an output
    may reveal with certainty which dataset was used.
    """
    sides = [
        np.unique(same(side), return_index=True, return_counts=True) for side in (outputs, others)
    ]
    codes, counts, swapped, leaked = [], [], [], []
    for number, side in enumerate((outputs, others)):
        seen, first, often = sides[number]
        alone = (often >= _LEAST_TIMES) & ~np.isin(seen, sides[1 - number][0])
        codes.append(seen[alone])
        counts.append(often[alone])
        swapped.append(np.full(alone.sum(), number == 1))
        leaked += [side[at] for at in first[alone]]
    order = np.argsort(np.concatenate(codes))
    often = np.concatenate(counts)[order]
    return Leaks(
        np.concatenate(codes)[order],
        np.concatenate(swapped)[order],
        often / max(1, often.sum()),
        tuple(leaked[at] for at in order),
    )


def _counted(seen: Codes, codes: Codes, place: NDArray[np.int64]) -> NDArray[np.int64]:
    """How often each of `codes` occurs in `seen`. The count of codes[i] is at place[i]."""
    at = np.minimum(np.searchsorted(codes, seen), len(codes) - 1)
    known = codes[at] == seen
    return np.bincount(place[at[known]], minlength=len(codes))
