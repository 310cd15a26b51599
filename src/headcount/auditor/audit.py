"""Empirical audits: a mechanism is run many times on two neighboring datasets.

A side consists of all runs on one of the two datasets. An audit runs in rounds. From the outputs of
one round, the audit chooses an event that is frequent on one side and rare on the other. The next
round has twice as many runs. It counts how often the event occurs on each side. The two counts give
Clopper-Pearson bounds on the event's two probabilities, and these give a lower bound on ε. This
lower bound is wrong with a probability of at most 1 − confidence. Each round gets its own share of
this error probability, so the audit may stop after any round.

A leak is an output that occurred at least twice on one side of the previous round and never on the
other side. A round also counts every leak, because a rare leak might not be chosen as the event.
The module `power` computes the smallest violations that an audit is likely to find.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

import numpy as np

from headcount.auditor.bounds import lower_epsilon
from headcount.auditor.events import Event, Leaks, best_event, leaks
from headcount.auditor.features import Outputs, checked, says_nothing
from headcount.auditor.power import POWER, smallest_leak, smallest_response
from headcount.auditor.sampling import Sampler, sampler
from headcount.auditor.view import View
from headcount.auditor.views import checked_view, crowd_of, neighbors, promised, view_of
from headcount.core import checks
from headcount.core.budget import Trust
from headcount.core.errors import InvalidParameter
from headcount.core.guarantee import rounded_up
from headcount.core.protocol import Protocol
from headcount.core.source import Source
from headcount.core.table import Table, short
from headcount.randomness.sources import SecureSource

FIRST_RUNS = 500
MOST_RUNS = 10**9
_MOST_SHOWN = 20  # at most this many values, or groups of equal adjacent values, are shown
_AT_ONCE = 1 << 17  # at most this many runs are made at a time on each side
_LEARNED = 1 << 18  # an event is chosen from at most this many runs on each side


@dataclass(frozen=True)
class Audit:
    """A claimed ε, and a measured lower bound.

    With the given confidence, `epsilon` is at most the true ε. A claim below `epsilon` is refuted.
    A larger claim is consistent with the measurement, but the measurement does not prove it.

    An audit with these settings finds each of two kinds of violations with a probability of at
    least `power`. The first kind is a randomized response with ε ≥ `smallest_seen`. The second kind
    is an output that occurs on only one of the two datasets, with a chance of at least
    `smallest_leak`.
    """

    claim: float | None
    delta: float
    confidence: float
    epsilon: float
    runs: int  # the number of runs on each side
    event: str
    chance: float  # the measured chance of the event for `dataset`
    other_chance: float  # the measured chance of the event for `neighbor`
    dataset: Any
    neighbor: Any
    smallest_seen: float | None  # None without a claim
    smallest_leak: float | None  # None without a claim
    power: float = POWER

    @property
    def refuted(self) -> bool:
        """Whether the claim is less than the measured lower bound."""
        return self.claim is not None and self.epsilon > self.claim

    @property
    def verdict(self) -> str:
        """One of "refuted", "consistent" and "no claim"."""
        return "no claim" if self.claim is None else "refuted" if self.refuted else "consistent"

    def to_dict(self) -> dict[str, Any]:
        """The audit and its verdict as a dictionary for JSON. None stands for infinity."""
        fields = {"verdict": self.verdict, **asdict(self)}
        return {name: None if value == math.inf else value for name, value in fields.items()}

    def table(self) -> Table:
        """The claim, the measured ε, and the event that showed it."""
        claim = "none" if self.claim is None else short(self.claim, 4)
        title = {
            "refuted": "Refuted: less privacy than was claimed",
            "consistent": "Consistent: no event showed less privacy than was claimed",
            "no claim": "Measured, without a claim",
        }[self.verdict]
        notes = [
            f"event: {self.event}",
            f"seen with a chance of {short(self.chance, 4)} for {_shown(self.dataset)}",
            f"and of {short(self.other_chance, 4)} for {_shown(self.neighbor)}",
        ]
        if self.claim is not None and not self.refuted:
            notes += self._surely_found
        return Table(
            ("claimed ε", "at δ", "measured ε, at least", "confidence", "runs on each side"),
            (
                (
                    claim,
                    short(self.delta),
                    f"{math.floor(self.epsilon * 1e4) / 1e4:.4f}",
                    f"{self.confidence:.10g}",
                    f"{self.runs:,}",
                ),
            ),
            title=title,
            notes=tuple(notes),
            words=0,
        )

    @property
    def _surely_found(self) -> tuple[str, str]:
        leak = "no output that only one of these two datasets gives"
        if self.smallest_leak is not None and math.isfinite(self.smallest_leak):
            leak = (
                "an output that only one of these two datasets gives, with a chance "
                f"≥ {rounded_up(self.smallest_leak)}"
            )
        response = "no randomized response"
        if self.smallest_seen is not None and math.isfinite(self.smallest_seen):
            response = f"a randomized response with ε ≥ {rounded_up(self.smallest_seen)}"
        often = f"found by at least {100 * self.power:g} % of such audits"
        return f"{often}: {leak}", f"{often}: {response}"

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
    view: View | Trust | str | None = None,
    runs: int = 100_000,
    confidence: float = 0.99,
    batch: bool = False,
    parallel: bool = False,
    source: Source | None = None,
    progress: Callable[[str, float], None] = lambda name, share: None,
) -> Audit:
    """Measures a certified lower bound on the ε of a mechanism, and compares it with a claim.

    `datasets` is a list of pairs of neighboring datasets. `target(dataset)` is run up to `runs`
    times on each dataset of a pair. With `batch=True`, `target(dataset, count)` is called and must
    return `count` outputs. With `view="shuffle"`, `target` is called for every value of a dataset,
    and the audit sees all messages together, without their order. The first round tries all pairs.
    The other rounds use the pair that showed the largest difference. `parallel=True` runs each side
    in its own process, provided that this process can fork.

    If `target` is a protocol, `claim`, `view` and `datasets` have defaults. The default view is
    that of the protocol's trust model. The protocol draws random bits from `source`. The default
    source is secure. If the protocol's shuffler adds noise, `view="shuffler"` shows what the
    shuffler knows once the answer is published.

        audit(my_noisy_count, [([0, 0, 1], [0, 1, 1])], claim=1.0)
        audit(protocol("shuffle.zero-exact", Count(), Budget(1, 0.01), Crowd(100)))
    """
    if isinstance(target, Protocol):
        seen = checked_view(target.trust if view is None else view, target)
        datasets = neighbors(target, seen) if datasets is None else datasets
        if claim is None:
            claim, delta = promised(target, seen, delta)
        mechanism = view_of(target, seen, SecureSource() if source is None else source)
    elif callable(target):
        seen = checked_view(View.CENTRAL if view is None else view, target)
        mechanism = _called(target, batch)
        mechanism = crowd_of(mechanism) if seen is View.SHUFFLE else mechanism
    else:
        raise InvalidParameter(
            f"`target` must be a protocol or a function, got {checks.shown(target)}"
        )
    delta = 0.0 if delta is None else checks.real("delta", delta)
    claim = None if claim is None else checks.real("claim", claim)
    if (claim is not None and claim < 0) or not 0 <= delta < 1:
        raise InvalidParameter(f"a claim must have ε ≥ 0 and δ in [0, 1), got {claim}, {delta}")
    confidence = checks.confidence(confidence)
    runs = checks.whole("runs", runs, low=2 * FIRST_RUNS, high=MOST_RUNS)
    listed = seen in (View.SHUFFLE, View.SHUFFLER)
    listed = listed or (seen is View.CENTRAL and isinstance(target, Protocol))
    pairs = _pairs(datasets, listed=listed)
    with sampler(mechanism, parallel=parallel) as both:
        return _audited(both, pairs, claim, delta, runs, confidence, progress)


def _shown(dataset: Any) -> str:
    """A dataset on one line. If it is long, equal adjacent values are merged: [1, 999 × 0]."""
    if not _is_list(dataset) or len(dataset) <= _MOST_SHOWN:
        return repr(dataset)
    values = dataset.tolist() if isinstance(dataset, np.ndarray) else dataset
    runs = [(value, len(list(equal))) for value, equal in groupby(map(repr, values))]
    if len(runs) > _MOST_SHOWN:
        return f"{len(dataset):,} values, {checks.shown(dataset)}"
    return f"[{', '.join(f'{times:,} × {value}' if times > 1 else value for value, times in runs)}]"


def _pairs(datasets: Any, *, listed: bool) -> list[tuple[Any, Any]]:
    """The pairs of datasets, after a check. If `listed`, each dataset must be a list of people's
    values.
    """
    if not _is_list(datasets) or not all(_is_list(pair) and len(pair) == 2 for pair in datasets):
        raise InvalidParameter(
            "`datasets` must be pairs of neighbors, such as [([0, 1], [0, 0])], got "
            f"{checks.shown(datasets)}"
        )
    for dataset in (dataset for pair in datasets for dataset in pair):
        if listed and not _is_list(dataset):
            raise InvalidParameter(
                "`datasets` must be lists of people's values in this view, such as [0, 1], got "
                f"{checks.shown(dataset)}"
            )
    return [(one, other) for one, other in datasets]


def _is_list(given: Any) -> bool:
    array = isinstance(given, np.ndarray) and given.ndim > 0
    return (array or isinstance(given, list | tuple)) and len(given) > 0


def _called(target: Callable[..., Any], batch: bool) -> Callable[[Any, int], Outputs]:
    def sample(dataset: Any, count: int) -> Outputs:
        if not batch:
            return [target(dataset) for _ in range(count)]
        outputs: Outputs = target(dataset, count)
        if not _is_list(outputs) or len(outputs) != count:
            raise InvalidParameter(
                f"a mechanism must give a list of {count} outputs, got {checks.shown(outputs)}"
            )
        return outputs

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
    shares = [(1 - confidence) * share for share in _shares(len(sizes) - 1)]
    silent = True

    def seen(pair: tuple[Any, Any], count: int) -> tuple[Outputs, Outputs]:
        nonlocal silent
        one, other = map(checked, both(*pair, count))
        silent = silent and says_nothing(one) and says_nothing(other)
        return one, other

    learned, event = [], []
    for number, pair in enumerate(datasets):
        progress("trying pairs of datasets", sizes[0] / runs * number / len(datasets))
        learned.append(seen(pair, sizes[0]))
        event.append(best_event(*learned[-1], delta))
    at = max(range(len(datasets)), key=lambda pair: event[pair].expected_epsilon)
    current = _Round(event[at], leaks(*learned[at]))
    best = _Measured(0.0, str(event[at]), event[at].swapped, 0.0, 0.0)
    done = sizes[0]
    for size, wrong in zip(sizes[1:], shares, strict=True):
        outputs = _Learned()
        for start in range(0, size, _AT_ONCE):
            progress(f"by {current.event.feature.name}", (done + start) / runs)
            some = seen(datasets[at], min(_AT_ONCE, size - start))
            current.count(some)
            outputs.add(some)
        measured = current.measured(size, delta, wrong)
        best = measured if measured.epsilon > best.epsilon or done == sizes[0] else best
        done += size
        if claim is not None and best.epsilon > claim:
            break
        if done < sum(sizes):
            current = _Round(best_event(*outputs.sides(), delta), leaks(*outputs.sides()))
    if silent:
        raise InvalidParameter("a mechanism must give something, got None from every run")
    dataset, neighbor = datasets[at][::-1] if best.swapped else datasets[at]
    # The power is that of the last round. The event gets half of this round's error probability,
    # and the leaks get the other half.
    planned = min(sizes[-2], _LEARNED), sizes[-1], shares[-1] / 2
    return Audit(
        claim=claim,
        delta=delta,
        confidence=confidence,
        epsilon=best.epsilon,
        runs=done,
        event=best.event,
        chance=best.chance,
        other_chance=best.other_chance,
        dataset=dataset,
        neighbor=neighbor,
        smallest_seen=None if claim is None else smallest_response(claim, delta, *planned),
        smallest_leak=None if claim is None else smallest_leak(claim, delta, *planned),
    )


@dataclass(frozen=True)
class _Measured:
    epsilon: float
    event: str
    swapped: bool
    chance: float
    other_chance: float


class _Round:
    """Counts the chosen event and the leaks in the outputs of one round."""

    def __init__(self, event: Event, told: Leaks) -> None:
        self.event, self._leaks = event, told
        self._event_hits = [0, 0]
        self._leak_hits = np.zeros((2, len(told.codes)), dtype=np.int64)

    def count(self, outputs: tuple[Outputs, Outputs]) -> None:
        for side, given in enumerate(outputs):
            self._event_hits[side] += self.event.hits(given)
            self._leak_hits[side] += self._leaks.hits(given)

    def measured(self, runs: int, delta: float, wrong: float) -> _Measured:
        """The largest lower bound on ε that the counts give. It is wrong with a probability of at
        most `wrong`. Half of `wrong` is for the event, and half is for all leaks together.
        """
        hits, others = self._event_hits[::-1] if self.event.swapped else self._event_hits
        epsilon = lower_epsilon(hits, others, runs, delta, wrong / 2)
        chances = hits / runs, others / runs
        best = _Measured(epsilon, str(self.event), self.event.swapped, *chances)
        swapped = self._leaks.swapped
        ours, theirs = np.where(swapped, self._leak_hits[::-1], self._leak_hits)
        # A leak's lower bound on e^ε never exceeds `most`, so hopeless leaks are skipped.
        most = np.maximum(ours / runs - delta, 0.0) / (np.maximum(theirs, 0.5) / runs)
        for at in np.argsort(-most, kind="stable"):
            if most[at] <= math.exp(best.epsilon):
                break
            share = wrong / 2 * float(self._leaks.shares[at])
            epsilon = lower_epsilon(int(ours[at]), int(theirs[at]), runs, delta, share)
            if epsilon > best.epsilon:
                output = checks.shown(self._leaks.outputs[at])
                chances = float(ours[at] / runs), float(theirs[at] / runs)
                best = _Measured(epsilon, f"output {output}", bool(swapped[at]), *chances)
        return best


class _Learned:
    """Collects the outputs of a round from which the next event is chosen."""

    def __init__(self) -> None:
        self._batches: list[tuple[Outputs, Outputs]] = []

    def add(self, outputs: tuple[Outputs, Outputs]) -> None:
        if sum(len(one) for one, _ in self._batches) < _LEARNED:
            self._batches.append(outputs)

    def sides(self) -> tuple[Outputs, Outputs]:
        one, other = (_joined([batch[side] for batch in self._batches]) for side in (0, 1))
        return one, other


def _joined(batches: list[Outputs]) -> Outputs:
    if all(isinstance(batch, np.ndarray) for batch in batches):
        return np.concatenate(batches)
    return [output for batch in batches for output in batch]


def _rounds(runs: int) -> list[int]:
    """The number of runs in each round. Each round has twice as many runs as the previous round,
    and the last round has half of all runs.
    """
    sizes = [runs // 2]
    while sizes[0] >= 2 * FIRST_RUNS:
        sizes.insert(0, sizes[0] // 2)
    return sizes if len(sizes) > 1 else [runs - sizes[0], sizes[0]]


def _shares(rounds: int) -> list[float]:
    """The share of the error probability for each round except the first, which counts no event.
    The sum of the shares is at most 1. The last round has the most runs, and gets a share of one
    half. The earlier rounds get 1/2, 1/6, 1/12, … of the other half.
    """
    if rounds == 1:
        return [1.0]
    return [*(1 / (2 * number * (number + 1)) for number in range(1, rounds)), 1 / 2]
