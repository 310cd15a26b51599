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

from headcount.auditor.bounds import lower_epsilon, smallest_seen
from headcount.auditor.events import Event, best_event
from headcount.auditor.readings import Outputs
from headcount.auditor.sampling import Sampler, sampler
from headcount.auditor.views import crowd_of, neighbors, promised, view_of
from headcount.core import checks
from headcount.core.budget import Trust
from headcount.core.errors import InvalidParameter
from headcount.core.protocol import Protocol
from headcount.core.source import Source
from headcount.core.table import Table, short
from headcount.randomness.sources import SecureSource

FIRST_RUNS = 500
MOST_RUNS = 10**9
_AT_ONCE = 1 << 17  # runs of a side
_LEARNED = 1 << 18  # runs of a side that an event is chosen from, at most


@dataclass(frozen=True)
class Audit:
    """What was claimed, and what was measured.

    `epsilon` is below the true one with the confidence. A claim below it is refuted; one above is
    consistent with it, no more. `smallest_seen` is about the least violation that so many runs
    would have shown.
    """

    claim: float | None
    delta: float
    confidence: float
    epsilon: float
    runs: int  # on each side
    event: str
    chance: float  # of the event, as counted, on the one side
    other_chance: float
    dataset: Any
    neighbor: Any
    smallest_seen: float | None  # without a claim there is nothing to violate

    @property
    def refuted(self) -> bool:
        """Whether less was claimed than was measured."""
        return self.claim is not None and self.epsilon > self.claim

    @property
    def verdict(self) -> str:
        return "no claim" if self.claim is None else "refuted" if self.refuted else "consistent"

    def to_dict(self) -> dict[str, Any]:
        found = {"verdict": self.verdict, **asdict(self)}
        seen = self.smallest_seen
        return {**found, "smallest_seen": None if seen is None or math.isinf(seen) else seen}

    def table(self) -> Table:
        claim = "none" if self.claim is None else f"{short(self.claim, 4)}"
        title = {
            "refuted": "Refuted: less privacy than was claimed",
            "consistent": "Consistent: no event showed less privacy than was claimed",
            "no claim": "Measured, without a claim",
        }[self.verdict]
        notes = [
            f"event: {self.event}",
            f"seen with a chance of {short(self.chance, 4)} for {self.dataset!r}",
            f"and of {short(self.other_chance, 4)} for {self.neighbor!r}",
        ]
        if self.smallest_seen is not None and not self.refuted:
            least = (
                "none" if math.isinf(self.smallest_seen) else f"ε ≥ {short(self.smallest_seen, 4)}"
            )
            notes.append(
                f"violations that so many runs would show, about half of the time: {least}"
            )
        return Table(
            ("claimed ε", "at δ", "measured ε, at least", "confidence", "runs on each side"),
            (
                (
                    claim,
                    f"{short(self.delta)}",
                    f"{math.floor(self.epsilon * 1e4) / 1e4:.4f}",
                    f"{self.confidence:.10g}",
                    f"{self.runs:,}",
                ),
            ),
            title=title,
            notes=tuple(notes),
            words=0,
        )

    def __str__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table().html()


def audit(
    target: Protocol | Callable[..., Any],
    datasets: Sequence[tuple[Any, Any]] | None = None,
    *,
    claim: float | None = None,
    delta: float | None = None,
    view: Trust | str | None = None,
    runs: int = 100_000,
    confidence: float = 0.99,
    batch: bool = False,
    parallel: bool = False,
    source: Source | None = None,
    progress: Callable[[str, float], None] = lambda name, share: None,
) -> Audit:
    """A certified lower bound on the ε of anything that randomizes, against a claim.

    `target(dataset)` is run up to `runs` times on each side of pairs of neighboring datasets; with
    `batch=True` it is called as `target(dataset, count)` and gives so many outputs at once. With
    `view="shuffle"` it is called for every value of a dataset, and what all of them gave is seen
    without its order. The first round tries all pairs, the others the one that told most.
    `parallel=True` runs each side in a process of its own.

    A protocol brings its claim, its trust as the view, and pairs to try; it draws from `source`,
    which is secure unless given.

        audit(my_noisy_count, [([0, 0, 1], [0, 1, 1])], claim=1.0)
        audit(protocol("shuffle.zero-exact", Count(), Budget(1, 0.01), Crowd(100)))
    """
    if isinstance(target, Protocol):
        seen = Trust(checks.choice("view", view or target.trust, tuple(Trust)))
        datasets = neighbors(target, seen) if datasets is None else datasets
        if claim is None:
            claim, delta = promised(target, seen, delta)
        mechanism = view_of(target, seen, source or SecureSource())
    elif callable(target):
        seen = Trust(checks.choice("view", view or Trust.CENTRAL, tuple(Trust)))
        mechanism = _called(target, batch)
        mechanism = crowd_of(mechanism) if seen is Trust.SHUFFLE else mechanism
    else:
        raise InvalidParameter(f"`target` must be a protocol or a function, got {target!r}")
    delta = 0.0 if delta is None else checks.real("delta", delta)
    if (claim is not None and not checks.real("claim", claim) >= 0) or not 0 <= delta < 1:
        raise InvalidParameter(f"a claim must have ε ≥ 0 and δ in [0, 1), got {claim}, {delta}")
    confidence = checks.confidence(confidence)
    runs = checks.whole("runs", runs, low=2 * FIRST_RUNS, high=MOST_RUNS)
    if not datasets or any(len(pair) != 2 for pair in datasets):
        raise InvalidParameter(f"`datasets` must be pairs of neighbors, got {datasets}")
    with sampler(mechanism, parallel=parallel) as both:
        return _audited(both, datasets, claim, delta, runs, confidence, progress)


def _called(target: Callable[..., Any], batch: bool) -> Callable[[Any, int], Outputs]:
    def sample(dataset: Any, count: int) -> Outputs:
        found = target(dataset, count) if batch else [target(dataset) for _ in range(count)]
        if len(found) != count:
            raise InvalidParameter(f"a mechanism must give {count} outputs, got {len(found)}")
        return found

    return sample


def _audited(
    both: Sampler,
    datasets: Sequence[tuple[Any, Any]],
    claim: float | None,
    delta: float,
    runs: int,
    confidence: float,
    progress: Callable[[str, float], None],
) -> Audit:
    sizes = _rounds(runs)
    chosen = []
    for number, (one, other) in enumerate(datasets):
        progress("trying pairs of datasets", sizes[0] / runs * number / len(datasets))
        chosen.append(best_event(*both(one, other, sizes[0]), delta))
    at = max(range(len(datasets)), key=lambda pair: chosen[pair].promise)
    event, (dataset, neighbor) = chosen[at], datasets[at]
    best = _Measured(0.0, event, 0.0, 0.0)
    done, wrong = sizes[0], 1 - confidence
    for number, size in enumerate(sizes[1:], 1):
        hits, learned = [0, 0], _Learned()
        for start in range(0, size, _AT_ONCE):
            progress(f"by {event.reading.name}", (done + start) / runs)
            outputs = both(dataset, neighbor, min(_AT_ONCE, size - start))
            for side, found in enumerate(outputs[::-1] if event.swapped else outputs):
                hits[side] += event.hits(found)
            learned.add(outputs)
        done += size
        # 1/2 + 1/6 + 1/12 + … = 1: a share for each round, however many there are.
        share = wrong / (number * (number + 1))
        epsilon = lower_epsilon(hits[0], hits[1], size, delta, share)
        if epsilon > best.epsilon or number == 1:
            best = _Measured(epsilon, event, hits[0] / size, hits[1] / size)
        if claim is not None and best.epsilon > claim:
            break
        if done < sum(sizes):
            event = best_event(*learned.sides(), delta)
    sides = (neighbor, dataset) if best.event.swapped else (dataset, neighbor)
    return Audit(
        claim=claim,
        delta=delta,
        confidence=confidence,
        epsilon=best.epsilon,
        runs=done,
        event=str(best.event),
        chance=best.chance,
        other_chance=best.other_chance,
        dataset=sides[0],
        neighbor=sides[1],
        smallest_seen=None if claim is None else smallest_seen(claim, delta, sizes[-1], share),
    )


@dataclass(frozen=True)
class _Measured:
    epsilon: float
    event: Event
    chance: float
    other_chance: float


class _Learned:
    """Outputs of a round, as many as an event is chosen from."""

    def __init__(self) -> None:
        self._parts: list[tuple[Outputs, Outputs]] = []

    def add(self, outputs: tuple[Outputs, Outputs]) -> None:
        if sum(len(one) for one, _ in self._parts) < _LEARNED:
            self._parts.append(outputs)

    def sides(self) -> tuple[Outputs, Outputs]:
        one, other = (_joined([part[side] for part in self._parts]) for side in (0, 1))
        return one, other


def _joined(parts: list[Outputs]) -> Outputs:
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    return [output for part in parts for output in part]


def _rounds(runs: int) -> list[int]:
    """Each twice the one before; the last is half of all."""
    sizes = [runs // 2]
    while sizes[0] >= 2 * FIRST_RUNS:
        sizes.insert(0, sizes[0] // 2)
    return sizes if len(sizes) > 1 else [runs - sizes[0], sizes[0]]
