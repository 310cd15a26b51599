"""An independent judge: the laws of small crowds by enumeration.

Nothing here comes from `headcount.accounting`. If a view has few outcomes, its probabilities are
rational and e^ε has 50 digits. If it has many, it is a grid of floats with an error of at most
`GRID_ERROR`.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache, reduce
from itertools import permutations
from math import comb, exp, fsum, log, prod
from typing import Any, TypeAlias, TypeVar

import mpmath
import numpy as np
from numpy.typing import NDArray

from headcount import Boxes, Density, Mean, Messages, PrivacyCurve, Protocol, Sum, Trust
from headcount.core import bundles
from headcount.core.randomizer import BundleLaw

mpmath.mp.dps = 50

Outcome = TypeVar("Outcome")
# How often each kind of message occurs, in the order of `kinds`.
Counts: TypeAlias = tuple[int, ...]
View: TypeAlias = Mapping[Any, Fraction] | NDArray[np.float64]

GRID_ERROR = 1e-11
_FEW = 200_000  # the most steps of an exact enumeration
_MANY = 200  # if a view has more outcomes, its divergence is summed in floats


def asked(protocol: Protocol) -> Sequence[float]:
    """The values that people hold: all of them, or for real numbers the ends, one with the most
    uncertain rounding, and the middle if there is one level between the ends.
    """
    task = protocol.task
    if isinstance(task, Density):
        return [task.low + (task.high - task.low) * place for place in (0.0, 0.25, 0.6)]
    if isinstance(task, Sum | Mean):
        if task.whole:
            return range(int(task.low), int(task.high) + 1)
        levels, span = levels_of(protocol), task.high - task.low
        middle = [task.low + span / 2] if levels == 2 else []
        return [task.low, task.low + span / (2 * levels), *middle, task.high]
    return task.codes if isinstance(task, Boxes) else range(task.domain)


def levels_of(protocol: Protocol) -> int:
    """The number of levels to which real numbers are rounded. Without such a parameter, it is 1."""
    names = ("levels", "bits", "precision")
    return int(next((protocol.parameters[key] for key in names if key in protocol.parameters), 1))


def held(protocol: Protocol, holding: Sequence[int]) -> Any:
    """The values of a crowd in the form that `simulate` and `standard_error` take."""
    if isinstance(protocol.task, Sum | Mean | Density):
        return dict(zip(asked(protocol), holding, strict=True))
    return list(holding)


def truth_of(protocol: Protocol, counts: Any) -> Any:
    """What the unbiased estimate is on average for a crowd that holds these values."""
    return protocol.estimator.truth(protocol.task.holding(counts))


def bundled_curve(protocol: Protocol) -> PrivacyCurve:
    """The privacy curve of bundles of the least size."""
    parts = protocol.randomizer, protocol.curve, protocol.crowd.honest
    return bundles.bundled_curve(*parts, protocol.slots)


def laws_of(protocol: Protocol) -> list[BundleLaw]:
    """The law of a bundle for each value, for protocols that state one."""
    found = [protocol.law(value) for value in asked(protocol)]
    assert all(law is not None for law in found)
    return [law for law in found if law is not None]


def kinds(laws: Sequence[BundleLaw]) -> list[Any]:
    return sorted({message for law in laws for bundle in law for message, _ in bundle})


def seen_kinds(protocol: Protocol, users: int) -> list[Any]:
    """The messages that people send, and those that the shuffler adds."""
    noise = protocol.shuffler.noise_law(users)
    assert noise is not None
    added: BundleLaw = {bundle: chance for (bundle, _), chance in noise.items()}
    return kinds([*laws_of(protocol), added])


def as_counts(law: BundleLaw, messages: list[Any]) -> dict[Counts, Fraction]:
    return {
        tuple(dict(bundle).get(message, 0) for message in messages): chance
        for bundle, chance in law.items()
    }


def size_of(bundle: Any) -> int:
    return sum(copies for _, copies in bundle)


def fitting(laws: Sequence[BundleLaw], slots: int) -> list[BundleLaw]:
    """The laws of bundles that are drawn again until their noise fits, whatever the value.

    A value itself sends as many messages as the smallest of its bundles has; what is beyond that is
    noise. Every bundle has room for the value that sends most.
    """
    own = [min(map(size_of, law)) for law in laws]
    out: list[BundleLaw] = []
    for law, mine in zip(laws, own, strict=True):
        fits = {b: p for b, p in law.items() if size_of(b) - mine + max(own) <= slots}
        total = sum(fits.values())
        out.append({bundle: chance / total for bundle, chance in fits.items()})
    return out


def datasets(people: int, values: int) -> Iterator[Counts]:
    """Every way in which people can hold values, as the number of people with each value."""
    if values == 1:
        yield (people,)
        return
    for first in range(people + 1):
        for rest in datasets(people - first, values - 1):
            yield (first, *rest)


@lru_cache(maxsize=4096)
def crowd_view(protocol: Protocol, holding: Counts) -> View:
    """The law of how often each message occurs if holding[v] people hold value v.

    Messages that the shuffler withholds, because they have too few copies, are not seen. Messages
    that it adds are seen.
    """
    laws = laws_of(protocol)
    if protocol.shuffler.adds:
        return _noised(protocol, laws, holding)
    messages = kinds(laws)
    by_value = [as_counts(law, messages) for law in laws]
    shape = shape_of(by_value, sum(holding))
    view: View
    if sum(holding) * prod(shape) * max(map(len, by_value)) <= _FEW:
        view = _exact_view(by_value, holding)
    else:
        view = grid_view(by_value, holding, shape)
    return _withheld(view, protocol.shuffler.least_copies)


@lru_cache(maxsize=4096)
def tally_view(protocol: Protocol, holding: Counts) -> View:
    """The law of the tally in local trust, where there are many messages but tallies are short."""
    by_value = tally_laws(protocol)
    shape = shape_of(by_value, sum(holding))
    if sum(holding) * prod(shape) * max(map(len, by_value)) <= _FEW:
        return _exact_view(by_value, holding)
    return grid_view(by_value, holding, shape)


@lru_cache(maxsize=256)
def tally_laws(protocol: Protocol) -> list[dict[Counts, Fraction]]:
    """The law of the tally of one person's bundle, for each value."""
    out: list[dict[Counts, Fraction]] = []
    for law in laws_of(protocol):
        tallies: dict[Counts, Fraction] = defaultdict(Fraction)
        for bundle, chance in law.items():
            sent = [message for message, copies in bundle for _ in range(copies)]
            payload = np.array(sent, dtype=protocol.alphabet.dtype)
            tally = protocol.tally(Messages(payload, 1, np.array([len(sent)])))
            tallies[tuple(tally.counts.tolist())] += chance
        out.append(dict(tallies))
    return out


def shape_of(by_value: list[dict[Counts, Fraction]], people: int) -> tuple[int, ...]:
    """The shape of a grid: for each message, how many counts are possible, including 0."""
    largest = [max(column) for column in zip(*(c for law in by_value for c in law), strict=True)]
    return tuple(most * people + 1 for most in largest)


def is_small(protocol: Protocol) -> bool:
    """Whether there are few enough bundles, noises and views to enumerate them all quickly."""
    if protocol.law(asked(protocol)[0]) is None:
        return False
    if protocol.shuffler.noise_law(protocol.crowd.users) is None:
        return False
    laws = laws_of(protocol)
    if max(map(len, laws)) > 1500:
        return False
    if protocol.trust is Trust.LOCAL:
        return prod(shape_of(tally_laws(protocol), protocol.crowd.users)) <= 300_000
    by_value = [as_counts(law, kinds(laws)) for law in laws]
    return prod(shape_of(by_value, protocol.crowd.users)) <= 300_000


def _exact_view(by_value: list[dict[Counts, Fraction]], holding: Counts) -> dict[Counts, Fraction]:
    axes = len(next(iter(by_value[0])))
    view: dict[Counts, Fraction] = {(0,) * axes: Fraction(1)}
    for law, people in zip(by_value, holding, strict=True):
        for _ in range(people):
            grown: dict[Counts, Fraction] = defaultdict(Fraction)
            for seen, chance in view.items():
                for sent, probability in law.items():
                    grown[tuple(map(sum, zip(seen, sent, strict=True)))] += chance * probability
            view = dict(grown)
    return view


def grid_view(
    by_value: list[dict[Counts, Fraction]], holding: Counts, shape: tuple[int, ...]
) -> NDArray[np.float64]:
    transforms = []
    for law, people in zip(by_value, holding, strict=True):
        if people:
            grid = np.zeros(shape)
            for counts, chance in law.items():
                grid[counts] = float(chance)
            transforms.append(np.fft.rfftn(grid) ** people)
    whole = reduce(np.multiply, transforms)
    grid = np.fft.irfftn(whole, shape, axes=tuple(range(len(shape))))
    return np.where(grid > 1e-15, grid, 0.0)  # smaller numbers are noise of the transform


def _noised(protocol: Protocol, laws: list[BundleLaw], holding: Counts) -> View:
    """The view with the shuffler's noise, by its stated law."""
    noise = protocol.shuffler.noise_law(sum(holding))
    assert noise is not None
    messages = seen_kinds(protocol, sum(holding))
    sent = _exact_view([as_counts(law, messages) for law in laws], holding)
    seen: dict[Counts, Fraction] = defaultdict(Fraction)
    for (bundle, alone), chance in noise.items():
        added = tuple(dict(bundle).get(message, 0) for message in messages)
        if alone:
            seen[added] += chance
            continue
        for counts, probability in sent.items():
            seen[tuple(map(sum, zip(counts, added, strict=True)))] += chance * probability
    return dict(seen)


def _withheld(view: View, least: int) -> View:
    if least <= 1:
        return view
    assert isinstance(view, dict), "withholding is enumerated exactly"
    seen: dict[Counts, Fraction] = defaultdict(Fraction)
    for counts, chance in view.items():
        seen[tuple(count if count >= least else 0 for count in counts)] += chance
    return dict(seen)


def outcomes(view: View) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Every outcome of a view, each as a row of counts, and their probabilities."""
    if isinstance(view, np.ndarray):
        at = np.argwhere(view > 0)
        return at, view[tuple(at.T)]
    return np.array(list(view)), np.array([float(chance) for chance in view.values()])


def hockey_stick(upper: View, lower: View, epsilon: float) -> mpmath.mpf:
    if isinstance(upper, np.ndarray):
        return mpmath.mpf(float(np.maximum(upper - np.exp(epsilon) * lower, 0).sum()))
    assert isinstance(lower, Mapping)
    if len(upper) > _MANY:
        scale = exp(epsilon)
        return mpmath.mpf(
            fsum(max(float(p) - scale * float(lower.get(o, 0)), 0.0) for o, p in upper.items())
        )
    factor = mpmath.exp(mpmath.mpf(epsilon))
    total = mpmath.mpf(0)
    for outcome, probability in upper.items():
        total += max(exactly(probability) - factor * exactly(lower.get(outcome, Fraction(0))), 0)
    return total


def error_of(view: View, epsilon: float) -> float:
    """A bound on the error of a divergence of such views."""
    if isinstance(view, np.ndarray):
        return GRID_ERROR * exp(epsilon)
    return 1e-14 * exp(epsilon) if len(view) > _MANY else 0.0


def exactly(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator


def neighboring_views(protocol: Protocol, honest: int | None = None) -> list[tuple[View, View]]:
    """Every ordered pair of views that differ in one honest person's value. `honest` people are
    honest; by default, as many as the protocol relies on.

    Dishonest people may tell the adversary all their messages, so only the messages of honest
    people hide anybody. In local trust the view is one person's bundle.
    """
    if protocol.trust is Trust.LOCAL:
        return list(permutations(laws_of(protocol), 2))
    values, people = range(len(asked(protocol))), honest or protocol.crowd.honest
    pairs: list[tuple[View, View]] = []
    for others in datasets(people - 1, len(values)):
        with_each = [
            crowd_view(protocol, tuple(n + (v == value) for v, n in enumerate(others)))
            for value in values
        ]
        pairs += permutations(with_each, 2)
    return pairs


def worst_delta(protocol: Protocol, epsilon: float, honest: int | None = None) -> mpmath.mpf:
    pairs = neighboring_views(protocol, honest)
    return max(hockey_stick(one, other, epsilon) for one, other in pairs)


def geometric_mass(epsilon: float, z: int) -> mpmath.mpf:
    """The two-sided geometric law, to 50 digits."""
    a = mpmath.exp(-mpmath.mpf(epsilon))
    return (1 - a) / (1 + a) * a ** abs(z)


def binomial_mass(trials: int, p: Fraction, k: int) -> mpmath.mpf:
    if trials <= 2000:
        return exactly(comb(trials, k) * p**k * (1 - p) ** (trials - k))
    log = mpmath.loggamma(trials + 1) - mpmath.loggamma(k + 1) - mpmath.loggamma(trials - k + 1)
    return mpmath.exp(log + k * mpmath.log(exactly(p)) + (trials - k) * mpmath.log(exactly(1 - p)))


def log_likelihood_ratio(
    observed: Counter[Outcome], law: Mapping[Outcome, float]
) -> tuple[float, float]:
    """The G statistic of counts against a law, and its p-value. Rare outcomes are merged."""
    total = sum(observed.values())
    if any(law.get(outcome, 0.0) <= 0 for outcome in observed):
        return float("inf"), 0.0
    common = [outcome for outcome, probability in law.items() if probability * total >= 10]
    groups = [(observed[outcome], law[outcome]) for outcome in common]
    rest = max(0.0, 1 - sum(probability for _, probability in groups))
    others = total - sum(count for count, _ in groups)
    if rest * total > 1e-9 or others:
        if rest <= 0:
            return float("inf"), 0.0
        groups.append((others, rest))
    g = sum(2 * n * log(n / (total * p)) for n, p in groups if n)
    freedom = len(groups) - 1
    if freedom == 0:
        return g, 1.0
    return g, float(mpmath.gammainc(freedom / 2, max(g, 0.0) / 2, regularized=True))
