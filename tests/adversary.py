"""What an adversary sees of small crowds, and how much it reveals. Views are listed, not accounted.

The adversary knows the values of all people except the victim, and what dishonest people do. So
only the honest people of the victim's crowd hide the victim, and they may hold any values. Every
way to hold values is tried, for every change of the victim's values and in both directions.

The laws of messages are those that protocols state. `tests/test_conformance_privacy.py` compares
them with the messages that are sent. Nothing here comes from `headcount.accounting`. Divergences
are sums of positive floats with an error of at most `_ERROR`. Where that does not decide, they are
computed again in whole numbers with 50 digits.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache, reduce
from itertools import combinations_with_replacement, permutations, product
from typing import Any, TypeAlias

import mpmath
import numpy as np
from numpy.typing import NDArray
from scipy.stats import nbinom, poisson

import enumeration
import headcount as hc
from headcount.core.randomizer import Bundle
from headcount.road.pieces import collect

Array: TypeAlias = NDArray[np.float64]
Counts: TypeAlias = tuple[int, ...]
Law: TypeAlias = Mapping[Any, Fraction]

_ERROR = 1e-12  # the error of a divergence in floats, divided by 1 + e^ε
_ROUNDED = 1e-15  # the float of a pure ε may be below the exact value by this much
_CELLS = 20_000  # the most cells of one view
_RELEASED = 1500  # if a release has more outcomes, they are merged
_NOISE = 3000  # the most outcomes of a shuffler's noise
_PAIRS = 1500  # the most pairs of views that are compared
_OTHERS = 40  # how many ways to hold values are tried if there are too many
_FLOOD = 3.0  # laws with more pairs of correlated noise are not listed
_BUNDLES = 3000  # a person's law with more bundles than this is not listed
_STEPS = 30_000  # the most steps of a listing in whole numbers
_BOX = 40  # the most messages of a kind, for laws without a maximum
_LOOKS = (0.1, 0.5, 0.9)  # borders between bundles that look less or more like one of two values
_LAPLACE_STEPS = 1024  # the number of steps into which Laplace noise divides a person
_DIGITS = 10**49


@dataclass(frozen=True)
class Crowd:
    """The honest people of one protocol, and the victim among them.

    There are `honest` rows of honest people, and `rows` of them are the victim's. `dishonest`
    people may send anything. With `slots`, messages come in bundles of that size. Bundles are
    sealed slot by slot, or as a `whole`. A shuffler that does not withhold (`withholds`) passes on
    rare messages if the analyzer takes them.
    """

    protocol: hc.Protocol
    honest: int
    rows: int = 1
    dishonest: int = 0
    slots: int | None = None
    whole: bool = False
    withholds: bool = True


@dataclass(frozen=True, eq=False)
class Pair:
    """The laws of a view for two datasets that differ only in the victim's rows.

    `exactly` gives both laws in rational numbers, or None if that would take long.
    """

    one: Array
    other: Array
    exactly: Callable[[], tuple[Law, Law] | None] = lambda: None


@dataclass(frozen=True, eq=False)
class Views:
    """All pairs that are compared. They are `complete` if there are no others and nothing is left
    out.
    """

    pairs: Sequence[Pair]
    complete: bool
    error: float = _ERROR


@dataclass(frozen=True)
class Truth:
    """The largest δ at an ε. `exact` is the same in rational numbers, if floats were not enough."""

    delta: float
    complete: bool
    error: float
    exact: mpmath.mpf | None = None

    def exceeds(self, delta: float) -> bool:
        if self.delta - self.error > delta:
            return True
        return self.exact is not None and self.exact - _ROUNDED > delta


@lru_cache(maxsize=256)
def truth(crowds: tuple[Crowd, ...], epsilon: float, near: float = math.inf) -> Truth:
    """The truth about a victim whose rows are in these crowds. It is rational if δ is close to
    `near`.
    """
    views = seen(crowds)
    factor = math.exp(epsilon)
    deltas = [_excess(pair.one, pair.other, factor) for pair in views.pairs]
    at = int(np.argmax(deltas))
    error = views.error * (1 + factor)
    exact = None
    if abs(deltas[at] - near) <= error and (laws := views.pairs[at].exactly()) is not None:
        exact = exact_divergence(*laws, epsilon)
    return Truth(deltas[at], views.complete, error, exact)


def least_epsilon(crowds: tuple[Crowd, ...]) -> float:
    """The largest loss of all pairs in floats, which is the ε of a pure guarantee."""
    most = 0.0
    for pair in seen(crowds).pairs:
        some = pair.one > 0
        with np.errstate(divide="ignore"):
            most = max(most, float(np.max(np.log(pair.one[some]) - np.log(pair.other[some]))))
    return most


def _excess(one: Array, other: Array, factor: float) -> float:
    return float(np.maximum(one - factor * other, 0.0).sum())


def exact_divergence(one: Law, other: Law, epsilon: float) -> mpmath.mpf:
    """The divergence in whole numbers, with 50 digits of e^ε."""
    unit = math.lcm(*(chance.denominator for law in (one, other) for chance in law.values()))
    factor = int(mpmath.exp(mpmath.mpf(epsilon)) * _DIGITS)
    above = 0
    for outcome, chance in one.items():
        less = other.get(outcome, Fraction(0))
        gain = _DIGITS * chance.numerator * (unit // chance.denominator)
        gain -= factor * less.numerator * (unit // less.denominator)
        above += max(gain, 0)
    return mpmath.mpf(above) / _DIGITS / unit


def forget() -> None:
    """Clear the caches, for protocols that have changed."""
    for kept in (truth, seen, _laws, takes_rare_messages):
        kept.cache_clear()


# Which pairs of views there are ---------------------------------------------------------------


@lru_cache(maxsize=6)
def seen(crowds: tuple[Crowd, ...]) -> Views:
    """The views of several crowds together. Each crowd is randomized by itself."""
    if len(crowds) == 1:
        return _views(crowds[0])
    every = [_views(crowd) for crowd in crowds]
    # If only the rows of one crowd change, the other crowds reveal nothing.
    pairs = [pair for one in every for pair in one.pairs]
    pairs += [
        Pair(_outer([p.one for p in chosen]), _outer([p.other for p in chosen]))
        for chosen in product(*(_spread(one.pairs, 8) for one in every))
        if math.prod(p.one.size for p in chosen) <= 10 * _CELLS
    ]
    return Views(pairs, False, max(one.error for one in every))


def _spread(items: Sequence[Any], most: int) -> list[Any]:
    """Some of the items, including the first and the last."""
    if len(items) <= most:
        return list(items)
    return [items[round(at * (len(items) - 1) / (most - 1))] for at in range(most)]


def _outer(arrays: Sequence[Array]) -> Array:
    return reduce(lambda one, other: np.multiply.outer(one, other).ravel(), arrays)


def _views(crowd: Crowd) -> Views:
    protocol = crowd.protocol
    if protocol.trust is hc.Trust.CENTRAL:
        return _released(crowd)
    laws = _laws(protocol, crowd.slots)
    if protocol.trust is hc.Trust.LOCAL:
        assert laws is not None, f"{protocol.name} has too many bundles to list"
        return _alone(laws, crowd.rows)
    if laws is None:
        return _defined(crowd)
    if crowd.whole:
        return _sealed_whole(laws, crowd)
    return _noised(laws, crowd) if protocol.shuffler.adds else _shuffled(laws, crowd)


@lru_cache(maxsize=16)
def _laws(protocol: hc.Protocol, slots: int | None = None) -> list[Law] | None:
    """The law of one person's bundle, for each value. With `slots`, only bundles that fit are
    drawn.

    It is None if a law is too long, or if it has a long flood, which would take seconds.
    """
    long = protocol.parameters.get("flood_pairs", 0.0) > _FLOOD
    if long or protocol.law(enumeration.asked(protocol)[0]) is None:
        return None
    laws: list[Law] = list(enumeration.laws_of(protocol))
    if slots is not None:
        laws = enumeration.fitting(laws, slots)
    return None if max(map(len, laws)) > _BUNDLES else laws


def can_be_listed(protocol: hc.Protocol) -> bool:
    """Whether this file has a way to attack the protocol."""
    if protocol.trust is hc.Trust.CENTRAL:
        return not isinstance(protocol.task, _COUNTED_TOGETHER) or _release_is_listed(protocol)
    if protocol.name in _DEFINED and not protocol.shuffler.adds:
        return True
    noise = protocol.shuffler.noise_law(protocol.crowd.users)
    return noise is not None and len(noise) <= _NOISE and _laws(protocol) is not None


_COUNTED_TOGETHER = hc.Boxes | hc.Distribution | hc.Margins | hc.Table


def _release_is_listed(protocol: hc.Protocol) -> bool:
    """Whether a release of several numbers, of which a person changes several, has few outcomes."""
    value = enumeration.asked(protocol)[0]
    tally = collect(protocol, np.full(protocol.crowd.users, value), hc.SeededSource(0))
    if (tally.users + 1) ** len(tally.counts) > _RELEASED:
        return False
    found = protocol.estimator.release_law(tally)
    return found is not None and len(found) <= _RELEASED


def _changes(values: int, rows: int) -> list[tuple[Counts, Counts]]:
    """All changes of the victim's rows. Rows are given by their number for each value."""
    held = [
        tuple(chosen.count(value) for value in range(values))
        for chosen in combinations_with_replacement(range(values), rows)
    ]
    return list(permutations(held, 2))


def _ways(people: int, values: int) -> tuple[list[Counts], bool]:
    """The values that other people may hold. If there are very many ways, only some are tried: all
    hold the same value, or a mixture.
    """
    if math.comb(people + values - 1, values - 1) <= _OTHERS:
        return list(enumeration.datasets(people, values)), True
    alike = [tuple(people * (v == value) for v in range(values)) for value in range(values)]
    mixed = _spread(list(enumeration.datasets(people, values)), _OTHERS)
    return list(dict.fromkeys([*alike, *mixed])), False


def _plus(one: Counts, other: Counts) -> Counts:
    return tuple(map(sum, zip(one, other, strict=True)))


# Local trust: one person's messages -----------------------------------------------------------


def _alone(laws: Sequence[Law], rows: int) -> Views:
    kinds = sorted({bundle for law in laws for bundle in law})
    arrays = [np.array([float(law.get(kind, 0)) for kind in kinds]) for law in laws]
    looked = rows
    while len(kinds) ** looked > 50 * _CELLS:  # then some of the rows are enough for an attack
        looked -= 1

    def pair(change: tuple[Sequence[int], Sequence[int]]) -> Pair:
        def exactly() -> tuple[Law, Law] | None:
            if len(kinds) ** looked > _STEPS:
                return None
            return _product([laws[v] for v in change[0]]), _product([laws[v] for v in change[1]])

        one, other = (_outer([arrays[value] for value in side]) for side in change)
        return Pair(one, other, exactly)

    # All rows change from one value to another. No other change reveals more.
    changes = [((v,) * looked, (w,) * looked) for v, w in permutations(range(len(laws)), 2)]
    return Views([pair(change) for change in changes], looked == rows)


def _product(laws: Sequence[Law]) -> Law:
    whole: dict[Any, Fraction] = {(): Fraction(1)}
    for law in laws:
        whole = {(*o, b): p * q for o, p in whole.items() for b, q in law.items()}
    return whole


# Central trust: what is released --------------------------------------------------------------


def _released(crowd: Crowd) -> Views:
    protocol = crowd.protocol
    held = zip(enumeration.asked(protocol), enumeration.laws_of(protocol), strict=True)
    values = [value for value, law in held if len(law) == 1]  # that are not rounded
    ways, complete = _ways(crowd.honest - crowd.rows, len(values))
    ways = _spread(ways, 6)

    @cache
    def law(holding: Counts) -> tuple[Array, Law]:
        people = np.repeat(np.array(values), holding)
        tally = collect(protocol, people, hc.SeededSource(0))
        long = protocol.parameters.get("levels", 1) * tally.users > _RELEASED
        found = None if long else protocol.estimator.release_law(tally)
        if found is None:
            return _noisy(protocol, tally), {}
        return np.array([float(chance) for chance in found.values()]), found

    pairs = []
    for others in ways:
        for one, other in _changes(len(values), crowd.rows):
            sides = [law(_plus(others, held)) for held in (one, other)]
            exactly = _as_found(sides[0][1], sides[1][1])
            pairs.append(Pair(sides[0][0], sides[1][0], exactly))
    return Views(pairs, complete and bool(pairs))


def _as_found(one: Law, other: Law) -> Callable[[], tuple[Law, Law] | None]:
    return lambda: (one, other) if one else None


def _noisy(protocol: hc.Protocol, tally: hc.Tally) -> Array:
    """Two-sided geometric or Laplace noise by its definition, where its law is too long to list:
    between which of some points each released number lies.
    """
    # One sum of levels, or a count for each bucket. A person changes it by this many steps.
    found, epsilon = protocol.parameters, protocol.budget.epsilon
    levels = found.get("levels")
    fine = _LAPLACE_STEPS if protocol.name == "central.laplace" else 1
    steps = fine if levels is None else levels
    a = math.exp(-1 / (found["scale"] * steps) if levels is None else -epsilon / levels)
    points = np.unique(np.linspace(0, tally.users * steps, 41).round())
    every = []
    for count in tally.counts[:3] * (steps if levels is None else 1):
        away = points - count
        below = np.where(away < 0, a ** -np.minimum(away, 0), 1 + a - a ** (np.abs(away) + 1))
        above = a ** (max(away[-1], 0.0) + 1) if away[-1] >= 0 else 1 + a - below[-1]
        every.append(np.concatenate([below[:1], np.diff(below), [above]]) / (1 + a))
    return _outer(every)


# Shuffle trust: how often each message occurs -------------------------------------------------


def _shuffled(laws: Sequence[Law], crowd: Crowd) -> Views:
    least = crowd.protocol.shuffler.least_copies
    kinds, by_value, complete = _counted(laws, crowd)
    most = tuple(max(column) for column in zip(*(c for law in by_value for c in law), strict=True))
    large = max(map(len, by_value)) > 300
    sent = [_Sent.of(law, most) for law in by_value]

    @cache
    def view(holding: Counts) -> Array:
        if not sum(holding):
            return np.ones((1,) * len(most))
        value = next(v for v, people in enumerate(holding) if people)
        fewer = tuple(people - (v == value) for v, people in enumerate(holding))
        return sent[value].added_to(view(fewer), by_transform=large)

    ways, all_ways = _ways(crowd.honest - crowd.rows, len(laws))
    size = math.prod(number * crowd.honest + 1 for number in most)
    if size * len(ways) > 100 * _CELLS:
        ways, all_ways = _spread(ways, max(2, 100 * _CELLS // size)), False
    added = _copies(crowd, len(kinds)) if least > 1 else [(0,) * len(kinds)]
    changes = _changes(len(laws), crowd.rows)
    if len(ways) * len(added) * len(changes) > _PAIRS:
        ways, all_ways = _spread(ways, max(2, _PAIRS // (len(added) * len(changes)))), False

    @cache
    def passed_on(holding: Counts, copies: Counts) -> Array:
        return _passed_on(view(holding), copies, crowd).ravel()

    pairs = []
    for others, copies, change in product(ways, added, changes):
        holdings = [_plus(others, held) for held in change]
        one, other = (passed_on(held, copies) for held in holdings)
        pairs.append(Pair(one, other, _listed(by_value, holdings, copies, crowd)))
    return Views(pairs, complete and all_ways, 1e-10 if large else _ERROR)


def _noised(laws: Sequence[Law], crowd: Crowd) -> Views:
    """With the shuffler's noise, by its stated law. Dishonest people hold the first value: it is
    known what they send, and it matters only if all messages are thrown away.
    """
    noise = crowd.protocol.shuffler.noise_law(crowd.honest + crowd.dishonest)
    assert noise is not None
    kinds = enumeration.kinds([*laws, {bundle: chance for (bundle, _), chance in noise.items()}])
    by_value = [enumeration.as_counts(law, kinds) for law in laws]
    added = [
        (tuple(dict(bundle).get(kind, 0) for kind in kinds), alone, chance)
        for (bundle, alone), chance in noise.items()
    ]

    @cache
    def view(holding: Counts) -> Law:
        sent: dict[Counts, Fraction] = {(0,) * len(kinds): Fraction(1)}
        everybody = (holding[0] + crowd.dishonest, *holding[1:])
        for law, people in zip(by_value, everybody, strict=True):
            for _ in range(people):
                grown: dict[Counts, Fraction] = defaultdict(Fraction)
                for (counts, chance), (more, other) in product(sent.items(), law.items()):
                    grown[_plus(counts, more)] += chance * other
                sent = grown
        seen: dict[Counts, Fraction] = defaultdict(Fraction)
        for more, alone, other in added:
            if alone:
                seen[more] += other
                continue
            for counts, chance in sent.items():
                seen[_plus(counts, more)] += chance * other
        return dict(seen)

    ways, all_ways = _ways(crowd.honest - crowd.rows, len(laws))
    changes = _changes(len(laws), crowd.rows)
    most = max(2, _STEPS // (len(added) * max(map(len, by_value)) * len(changes)))
    if len(ways) > most:
        ways, all_ways = _spread(ways, most), False
    pairs = []
    for others, change in product(ways, changes):
        one, other = (view(_plus(others, held)) for held in change)
        every = sorted({*one, *other})
        first, second = (np.array([float(law.get(at, 0)) for at in every]) for law in (one, other))
        pairs.append(Pair(first, second, _as_found(one, other)))
    return Views(pairs, all_ways)


def _counted(
    laws: Sequence[Law], crowd: Crowd
) -> tuple[list[Any], list[dict[Counts, Fraction]], bool]:
    """The laws of how often a person sends each kind of message, and whether the kinds are
    complete.

    If everybody sends one message, messages whose probabilities for all values are proportional
    form one kind. If there are too many kinds, only some of them are used.
    """
    kinds = enumeration.kinds(laws)
    complete = True
    if crowd.protocol.randomizer.fixed_messages == 1:
        name = {kind: _shape_of(kind, laws) for kind in kinds}
        merged: list[dict[Any, Fraction]] = []
        for law in laws:
            counted: dict[Any, Fraction] = defaultdict(Fraction)
            for ((kind, _),), chance in law.items():
                counted[((name[kind], 1),)] += chance
            merged.append(dict(counted))
        laws, kinds = merged, sorted(set(name.values()))
    by_value = [enumeration.as_counts(law, kinds) for law in laws]
    while len(kinds) > 1:
        most = [max(column) for column in zip(*(c for law in by_value for c in law), strict=True)]
        if math.prod(number * crowd.honest + 1 for number in most) <= _CELLS:
            break
        kinds, complete = kinds[:-1], False
        by_value = [_forgotten(law) for law in by_value]
    return kinds, by_value, complete


def _shape_of(kind: Any, laws: Sequence[Law]) -> tuple[Fraction, ...]:
    chances = [law.get(((kind, 1),), Fraction(0)) for law in laws]
    return tuple(chance / sum(chances) for chance in chances)


def _forgotten(law: Mapping[Counts, Fraction]) -> dict[Counts, Fraction]:
    """The law without the last kind."""
    fewer: dict[Counts, Fraction] = defaultdict(Fraction)
    for counts, chance in law.items():
        fewer[counts[:-1]] += chance
    return dict(fewer)


@dataclass(frozen=True, eq=False)
class _Sent:
    """A person's contribution to a view, on a grid."""

    law: list[tuple[Counts, float]]
    grid: Array

    @classmethod
    def of(cls, law: Mapping[Counts, Fraction], most: Counts) -> "_Sent":
        grid = np.zeros([number + 1 for number in most])
        for counts, chance in law.items():
            grid[counts] = float(chance)
        return cls([(counts, float(chance)) for counts, chance in law.items()], grid)

    def added_to(self, view: Array, *, by_transform: bool) -> Array:
        if by_transform:
            return _convolved(view, self.grid)
        whole = np.zeros(np.add(view.shape, self.grid.shape) - 1)
        for counts, chance in self.law:
            place = tuple(slice(at, at + size) for at, size in zip(counts, view.shape, strict=True))
            whole[place] += chance * view
        return whole


def _convolved(one: Array, other: Array) -> Array:
    shape = [first + second - 1 for first, second in zip(one.shape, other.shape, strict=True)]
    axes = range(len(shape))
    transforms = [np.fft.rfftn(array, shape, axes=axes) for array in (one, other)]
    found = np.fft.irfftn(transforms[0] * transforms[1], shape, axes=axes)
    return np.where(found > 1e-15, found, 0.0)  # smaller numbers are noise of the transform


def _copies(crowd: Crowd, kinds: int) -> list[Counts]:
    """The messages that dishonest people may add. Each adds one message or none."""
    return _spread([way[:-1] for way in enumeration.datasets(crowd.dishonest, kinds + 1)], 30)


def _passed_on(view: Array, copies: Counts, crowd: Crowd) -> Array:
    """What the shuffler passes on, after dishonest people have added their copies."""
    least = crowd.protocol.shuffler.least_copies
    if least == 1:
        return view
    if not crowd.withholds:
        return _taken(view, crowd)
    for axis, more in enumerate(copies):
        view = np.moveaxis(view, axis, 0).copy()
        rare = max(0, least - more)  # fewer copies than this from honest people are withheld
        view[0] = view[: max(1, rare)].sum(axis=0)
        view[1:rare] = 0.0
        view = np.moveaxis(view, 0, axis)
    return view


def _taken(view: Array, crowd: Crowd) -> Array:
    """What the analyzer sees if the shuffler withholds nothing. It may refuse rare messages."""
    if not takes_rare_messages(crowd.protocol):
        return _passed_on(view, (0,) * view.ndim, Crowd(crowd.protocol, crowd.honest))
    return view


@lru_cache(maxsize=256)
def takes_rare_messages(protocol: hc.Protocol) -> bool:
    """Whether a batch is counted that has one copy of a message where more copies are required."""
    rare = np.zeros(1, dtype=protocol.alphabet.dtype)
    try:
        protocol.estimate(protocol.tally(hc.Batch(rare, protocol.crowd.users)))
    except hc.HeadcountError:
        return False
    return protocol.shuffler.least_copies > 1


def _listed(
    by_value: Sequence[Mapping[Counts, Fraction]],
    holdings: Sequence[Counts],
    copies: Counts,
    crowd: Crowd,
) -> Callable[[], tuple[Law, Law] | None]:
    """The same view in rational numbers, if that is quick."""

    def law(holding: Counts) -> Law | None:
        whole: dict[Counts, Fraction] = {(0,) * len(copies): Fraction(1)}
        for value, people in enumerate(holding):
            for _ in range(people):
                if len(whole) * len(by_value[value]) > _STEPS // 4:
                    return None
                grown: dict[Counts, Fraction] = defaultdict(Fraction)
                for counts, chance in whole.items():
                    for more, other in by_value[value].items():
                        grown[_plus(counts, more)] += chance * other
                whole = dict(grown)
        return whole

    def exactly() -> tuple[Law, Law] | None:
        if crowd.protocol.shuffler.least_copies > 1:
            return None
        one, other = (law(holding) for holding in holdings)
        return None if one is None or other is None else (one, other)

    return exactly


def _sealed_whole(laws: Sequence[Law], crowd: Crowd) -> Views:
    """Bundles are mixed, and each is opened as a whole. The view counts bundles by how much they
    look like one of two values.
    """
    pairs = []
    for one, other in permutations(laws, 2):
        looks: list[dict[Counts, Fraction]] = []
        for law in (one, other):
            counted: dict[Counts, Fraction] = defaultdict(Fraction)
            for bundle, chance in law.items():
                told = [float(side.get(bundle, 0)) for side in (one, other)]
                look = int(np.searchsorted(_LOOKS, told[0] / sum(told)))
                counted[tuple(int(at == look) for at in range(len(_LOOKS) + 1))] += chance
            looks.append(dict(counted))
        sent = [_Sent.of(look, (1,) * (len(_LOOKS) + 1)) for look in looks]
        for hiding in sent:
            others = np.ones((1,) * (len(_LOOKS) + 1))
            for _ in range(crowd.honest - 1):
                others = hiding.added_to(others, by_transform=False)
            seen_of = [victim.added_to(others, by_transform=False).ravel() for victim in sent]
            pairs.append(Pair(seen_of[0], seen_of[1]))
    return Views(pairs, False)


# Shuffle trust: laws too long to list, by their definition ------------------------------------


def _defined(crowd: Crowd) -> Views:
    """An attack on the published definition of the noise. The `share` of the noise remains."""
    protocol = crowd.protocol
    share = crowd.honest / protocol.crowd.honest
    pairs = [Pair(one, other) for one, other in _DEFINED[protocol.name](protocol, share)]
    return Views([*pairs, *(Pair(pair.other, pair.one) for pair in pairs)], False, 1e-9)


def _cell(b: float, a: float, r: float, p: float, share: float) -> tuple[Array, Array]:
    """The law of (number of +1, number of −1), without and with one more person in the cell."""
    size = min(6 * _BOX, _BOX + round(3 * r * p / (1 - p)))
    k = np.arange(size)
    plus, minus = nbinom.pmf(k, share, 1 - b), nbinom.pmf(k, share, 1 - a)
    flood = nbinom.pmf(k, r * share, 1 - p)
    table = np.zeros((size, size))
    for pairs in range(size):
        rest = size - pairs
        table[pairs:, pairs:] += flood[pairs] * np.multiply.outer(plus[:rest], minus[:rest])
    return table, np.vstack([np.zeros((1, size)), table[:-1]])


def _correlated(protocol: hc.Protocol, share: float) -> Iterator[tuple[Array, Array]]:
    found = protocol.parameters
    minus = math.exp(-found["epsilon1"])
    plus = math.exp(-found["epsilon_plus"]) if "epsilon_plus" in found else minus
    without, with_one = _cell(plus, minus, found["r"], found["flood_p"], share)
    if isinstance(protocol.task, hc.Count):
        yield without.ravel(), with_one.ravel()
        return
    likely = (without > 1e-7) | (with_one > 1e-7)
    one, other = with_one[likely][:1500], without[likely][:1500]
    yield _outer([one, other]), _outer([other, one])


def _correlated_levels(protocol: hc.Protocol, share: float) -> Iterator[tuple[Array, Array]]:
    """Two nodes of each of up to two levels of a tree."""
    found = protocol.parameters
    a = math.exp(-found["epsilon1"])
    left, held = _cell(a, a, found["r"], found["flood_p"], share)
    one, other = (np.ones(1),) * 2
    for pair in [(held, left), (left, held)] * min(2, int(found["levels"])):
        first, second = _by_ratio(*(law.ravel() for law in pair))
        one, other = _by_ratio(_outer([one, first]), _outer([other, second]))
    yield one, other


def _by_ratio(one: Array, other: Array) -> tuple[Array, Array]:
    """Two laws in which outcomes of nearly the same likelihood ratio are one outcome."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.round(np.nan_to_num(np.log(one) - np.log(other), posinf=99, neginf=-99), 3)
    _, where = np.unique(ratios, return_inverse=True)
    merged = [np.bincount(where, law).astype(np.float64) for law in (one, other)]
    return merged[0], merged[1]


def _hashed(protocol: hc.Protocol, share: float) -> Iterator[tuple[Array, Array]]:
    """The numbers of messages that match only one key, only the other key, and both."""
    noise, cells = protocol.parameters["noise_per_bucket"] * share, protocol.parameters["cells"]
    k = np.arange(_BOX)
    only, both = poisson.pmf(k, noise * (1 - 1 / cells)), poisson.pmf(k, noise / cells)
    more_only, more_both = (np.concatenate([[0.0], law[:-1]]) for law in (only, both))
    common = _outer([only, only, more_both]) / cells
    yield (
        _outer([more_only, only, both]) * (1 - 1 / cells) + common,
        _outer([only, more_only, both]) * (1 - 1 / cells) + common,
    )


def _only_the_sum(protocol: hc.Protocol, share: float) -> Iterator[tuple[Array, Array]]:
    """Two-sided noise that is the difference of two negative binomials, moved by all levels.

    Of a histogram, two buckets with noise of half of ε each, both moved by one person.
    """
    if isinstance(protocol.task, hc.Histogram):
        rate = protocol.budget.epsilon / 2
        single = nbinom.pmf(np.arange(round(25 / rate) + 10), share, -math.expm1(-rate))
        noise = np.convolve(single, single[::-1])
        without, with_one = np.append(noise, 0.0), np.append(0.0, noise)
        yield _outer([with_one, without]), _outer([without, with_one])
        return
    found = protocol.parameters
    levels = int(found["levels"] if "levels" in found else found["precision"])
    rate = found.get("epsilon1", protocol.budget.epsilon) / levels
    size = 400 + levels
    single = nbinom.pmf(np.arange(size), share, -math.expm1(-rate))
    noise = np.convolve(single, single[::-1])
    still, moved = np.zeros(levels), np.zeros(levels)
    yield np.concatenate([noise, still]), np.concatenate([moved, noise])


def _poisson_pairs(protocol: hc.Protocol, share: float) -> Iterator[tuple[Array, Array]]:
    """One pair of messages for each move: two in a table, and one on each level of a tree."""
    found = protocol.parameters
    noise = found["noise_per_total" if "noise_per_total" in found else "noise_per_node"] * share
    without = poisson.pmf(np.arange(_BOX), noise)
    with_one = np.concatenate([[0.0], without[:-1]])
    one, other = _outer([with_one, without]), _outer([without, with_one])
    likely = (one > 1e-9) | (other > 1e-9)
    moves = min(2, int(found.get("levels", 2)))
    yield _outer([one[likely]] * moves), _outer([other[likely]] * moves)


_DEFINED = {
    "shuffle.margins": _poisson_pairs,
    "shuffle.tree": _poisson_pairs,
    "shuffle.correlated": _correlated,
    "shuffle.correlated-histogram": _correlated,
    "shuffle.correlated-tree": _correlated_levels,
    "shuffle.hashed-histogram": _hashed,
    "shuffle.correlated-sum": _only_the_sum,
    "shuffle.split-and-mix": _only_the_sum,
}


def is_possible(protocol: hc.Protocol, sent: hc.Messages, value: int) -> bool:
    """Whether a person who holds the value can have sent these messages, apart from dummies."""
    laws = _laws(protocol)
    if laws is None:
        return True
    payload = protocol.alphabet.messages(sent.payload)
    counted: dict[Any, int] = defaultdict(int)
    for message in payload.tolist():
        counted[tuple(message) if isinstance(message, list) else message] += 1
    bundle: Bundle = tuple(sorted(counted.items()))
    return bundle in laws[value]
