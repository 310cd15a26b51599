"""Empirical audits: a mechanism is run many times on two neighboring datasets.

Some runs choose an event, by what is seen most on one side and least on the other; others, made
afterwards, count it. Clopper and Pearson's bounds of both chances give an ε that is certainly below
the true one, but for a chance of 1 − confidence. Every round has twice the runs of the one before,
which it learns from, and an own share of what may go wrong: the audit may stop at any of them.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.audit.bounds import lower_epsilon, smallest_seen
from headcount.audit.readings import Codes, Outputs, readings
from headcount.core import checks
from headcount.core.errors import InvalidParameter

FIRST_RUNS = 500
MOST_RUNS = 10**9


@dataclass(frozen=True)
class Audit:
    """What was claimed, and what was measured.

    `epsilon` is below the true one with the confidence. A claim below it is refuted; one above is
    consistent with it, no more. `smallest_seen` is about the least violation that so many runs
    would have shown.
    """

    claim: float
    delta: float
    confidence: float
    epsilon: float
    refuted: bool
    runs: int  # on each side
    event: str
    chance: float  # of the event, as counted, on the one side
    other_chance: float
    dataset: Any
    neighbor: Any
    smallest_seen: float

    def to_dict(self) -> dict[str, Any]:
        found = asdict(self)
        endless = math.isinf(self.smallest_seen)
        return {**found, "smallest_seen": None if endless else self.smallest_seen}


@dataclass(frozen=True)
class Event:
    """A reading, and the codes that belong to the event; `swapped` if the other side has more."""

    name: str
    read: Callable[[Outputs], Codes]
    codes: NDArray[np.int64]
    swapped: bool
    promise: float  # the ε that it would have shown on what it was chosen from

    def hits(self, outputs: Outputs) -> int:
        return int(np.isin(self.read(outputs), self.codes).sum())


def empirical_audit(
    mechanism: Callable[..., Any],
    datasets: Sequence[tuple[Any, Any]],
    *,
    claim: float,
    delta: float = 0.0,
    runs: int = 100_000,
    confidence: float = 0.99,
    batch: bool = False,
    progress: Callable[[str, float], None] = lambda name, share: None,
) -> Audit:
    """A certified lower bound on the ε of anything that randomizes, against a claim.

    `mechanism(dataset)` is run up to `runs` times on each side of pairs of neighboring datasets;
    with `batch=True` it is called as `mechanism(dataset, count)` and gives so many outputs at once.
    The first round tries all pairs, the others the one that told most.

        empirical_audit(my_noisy_count, [([0, 0, 1], [0, 1, 1])], claim=1.0)
    """
    claim = checks.real("claim", claim)
    if claim < 0 or not 0 <= checks.real("delta", delta) < 1:
        raise InvalidParameter(f"a claim must have ε ≥ 0 and δ in [0, 1), got {claim}, {delta}")
    confidence = checks.confidence(confidence)
    runs = checks.whole("runs", runs, low=2 * FIRST_RUNS, high=MOST_RUNS)
    if not datasets:
        raise InvalidParameter("`datasets` must be one pair of neighbors at least, got none")

    def sample(dataset: Any, count: int) -> Outputs:
        found = mechanism(dataset, count) if batch else [mechanism(dataset) for _ in range(count)]
        if len(found) != count:
            raise InvalidParameter(f"a mechanism must give {count} outputs, got {len(found)}")
        return found

    sizes = _rounds(runs)
    seen = [(sample(one, sizes[0]), sample(other, sizes[0])) for one, other in datasets]
    chosen = [best_event(*outputs, delta) for outputs in seen]
    at = max(range(len(datasets)), key=lambda pair: chosen[pair].promise)
    event, (dataset, neighbor) = chosen[at], datasets[at]
    best = (0.0, event, 0.0, 0.0)
    done = sizes[0]
    wrong = 1 - confidence
    for number, size in enumerate(sizes[1:], 1):
        progress(event.name, done / runs)
        outputs = sample(dataset, size), sample(neighbor, size)
        done += size
        # 1/2 + 1/6 + 1/12 + … = 1: a share for each round, however many there are.
        share = wrong / (number * (number + 1))
        hits = [event.hits(side) for side in (outputs[::-1] if event.swapped else outputs)]
        found = lower_epsilon(hits[0], hits[1], size, delta, share)
        best = max(best, (found, event, hits[0] / size, hits[1] / size), key=lambda entry: entry[0])
        if best[0] > claim:
            break
        event = best_event(*outputs, delta)
    epsilon, shown, chance, other_chance = best
    sides = (neighbor, dataset) if shown.swapped else (dataset, neighbor)
    return Audit(
        claim=claim,
        delta=delta,
        confidence=confidence,
        epsilon=epsilon,
        refuted=epsilon > claim,
        runs=done,
        event=shown.name,
        chance=chance,
        other_chance=other_chance,
        dataset=sides[0],
        neighbor=sides[1],
        smallest_seen=smallest_seen(claim, delta, sizes[-1], share),
    )


def _rounds(runs: int) -> list[int]:
    """Each twice the one before; the last is half of all."""
    sizes = [runs // 2]
    while sizes[0] >= 2 * FIRST_RUNS:
        sizes.insert(0, sizes[0] // 2)
    return sizes if len(sizes) > 1 else [runs - sizes[0], sizes[0]]


def best_event(outputs: Outputs, others: Outputs, delta: float) -> Event:
    """The event that would show the largest ε, if it were counted as often again.

    Which codes are in it is learned from one half of the runs, and which event is best from the
    other: what was seen once on one side only is no event yet.
    """
    half = len(outputs) // 2
    learned = [outputs[:half], others[:half]]
    tried = [outputs[half:], others[half:]]
    found = (
        _event(name, read, learned[::way], tried[::way], delta, swapped=way < 0)
        for name, read in readings(outputs, others)
        for way in (1, -1)
    )
    return max(found, key=lambda event: event.promise)


def _event(
    name: str,
    read: Callable[[Outputs], Codes],
    learned: Sequence[Outputs],
    tried: Sequence[Outputs],
    delta: float,
    *,
    swapped: bool,
) -> Event:
    one, two = map(read, learned)
    codes, which = np.unique(np.concatenate([one, two]), return_inverse=True)
    ours = np.bincount(which[: len(one)], minlength=len(codes))
    theirs = np.bincount(which[len(one) :], minlength=len(codes))
    # What was seen most often on the one side, for each time on the other, comes first.
    order = np.argsort(-(ours + 0.5) / (theirs + 0.5), kind="stable")
    place = np.empty(len(codes), dtype=np.int64)
    place[order] = np.arange(len(codes))
    hits, other_hits = (np.cumsum(_counted(read(side), codes, place)) for side in tried)
    runs = len(tried[0])
    # About what bounds would leave of it: three deviations of both.
    low = (hits - 3 * np.sqrt(hits + 1)) / runs - delta
    high = (other_hits + 3 * np.sqrt(other_hits + 1) + 3) / runs
    promise = np.log(np.maximum(low, 1e-300) / high)
    at = int(np.argmax(promise))
    return Event(name, read, codes[order[: at + 1]], swapped, float(promise[at]))


def _counted(found: Codes, codes: Codes, place: NDArray[np.int64]) -> NDArray[np.int64]:
    """How often each known code was found, in their order."""
    at = np.minimum(np.searchsorted(codes, found), len(codes) - 1)
    known = codes[at] == found
    return np.bincount(place[at[known]], minlength=len(codes))
