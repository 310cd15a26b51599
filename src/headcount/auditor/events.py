"""Events that tell two datasets apart: learned from some outputs, to be counted on others."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.auditor.features import Codes, Feature, Outputs, features, same

_TWICE = 2  # how often an output must be seen to be taken for a leak


@dataclass(frozen=True)
class Event:
    """A feature, and the codes that belong to the event; `swapped` if the other side has more."""

    feature: Feature
    codes: NDArray[np.int64]
    swapped: bool
    promise: float  # the ε that it would have shown on what it was chosen from

    def hits(self, outputs: Outputs) -> int:
        return int(np.isin(self.feature.codes_of(outputs), self.codes).sum())

    def __str__(self) -> str:
        return self.feature.describe(np.sort(self.codes))


def best_event(outputs: Outputs, others: Outputs, delta: float) -> Event:
    """The event that would show the largest ε, if it were counted as often again.

    Which codes are in it is learned from one half of the runs, and which event is best from the
    other: what was seen once on one side only is no event yet.
    """
    half = len(outputs) // 2
    learned = [outputs[:half], others[:half]]
    tried = [outputs[half:], others[half:]]
    found = (
        _event(feature, learned[::way], tried[::way], delta, swapped=way < 0)
        for feature in features(outputs, others)
        for way in (1, -1)
    )
    return max(found, key=lambda event: event.promise)


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
    # What was seen most often on the one side, for each time on the other, comes first.
    order = np.argsort(-(ours + 0.5) / (theirs + 0.5), kind="stable")
    place = np.empty(len(codes), dtype=np.int64)
    place[order] = np.arange(len(codes))
    hits, other_hits = (np.cumsum(_counted(feature.codes_of(side), codes, place)) for side in tried)
    runs = len(tried[0])
    shown = promise(hits, other_hits, runs, delta)
    at = int(np.argmax(shown))
    return Event(feature, codes[order[: at + 1]], swapped, float(shown[at]))


def promise(
    hits: NDArray[Any], other_hits: NDArray[Any], runs: int, delta: float
) -> NDArray[np.float64]:
    """About the ε that confidence bounds would show: counts are moved by three deviations."""
    low = (hits - 3 * np.sqrt(hits + 1)) / runs - delta
    high = (other_hits + 3 * np.sqrt(other_hits + 1) + 3) / runs
    shown: NDArray[np.float64] = np.log(np.maximum(low, 1e-300) / high)
    return shown


@dataclass(frozen=True, eq=False)
class Leaks:
    """Outputs, by rising codes, that one side gave twice or more and the other never.

    Each has a share of what may go wrong, in proportion to how often it was seen; they add up to 1.
    `swapped` is True for those that the other side gave.
    """

    codes: Codes
    swapped: NDArray[np.bool_]
    shares: NDArray[np.float64]
    outputs: tuple[Any, ...]

    def hits(self, outputs: Outputs) -> NDArray[np.int64]:
        """How often each of them occurs among some outputs."""
        places = np.arange(len(self.codes))
        return _counted(same(outputs), self.codes, places) if len(places) else places


def leaks(outputs: Outputs, others: Outputs) -> Leaks:
    """The outputs that may tell the two sides apart for certain."""
    sides = [
        np.unique(same(side), return_index=True, return_counts=True) for side in (outputs, others)
    ]
    codes, counts, swapped, found = [], [], [], []
    for number, side in enumerate((outputs, others)):
        seen, first, often = sides[number]
        alone = (often >= _TWICE) & ~np.isin(seen, sides[1 - number][0])
        codes.append(seen[alone])
        counts.append(often[alone])
        swapped.append(np.full(alone.sum(), number == 1))
        found += [side[at] for at in first[alone]]
    order = np.argsort(np.concatenate(codes))
    often = np.concatenate(counts)[order]
    return Leaks(
        np.concatenate(codes)[order],
        np.concatenate(swapped)[order],
        often / max(1, often.sum()),
        tuple(found[at] for at in order),
    )


def _counted(found: Codes, codes: Codes, place: NDArray[np.int64]) -> NDArray[np.int64]:
    """How often each known code was found, in their order."""
    at = np.minimum(np.searchsorted(codes, found), len(codes) - 1)
    known = codes[at] == found
    return np.bincount(place[at[known]], minlength=len(codes))
