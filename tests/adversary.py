"""What an adversary sees of small crowds, and how much that tells: by listing, not by accounting.

The adversary knows everybody's value but the victim's, and what dishonest people do. So the honest
people of the victim's crowd are all that hides the victim, and they may hold anything: every way
in which they can is tried, for every change of the victim's values, in both directions.

Laws of messages are those that protocols state (`tests/test_conformance_privacy.py` holds them
against what is really sent). Nothing here comes from `headcount.accounting`. Divergences are sums
of positive floats, good to `_ERROR`; where that does not decide, they are computed again in whole
numbers and 50 digits.
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

_ERROR = 1e-12  # of a divergence in floats, times 1 + e^ε
_ROUNDED = 1e-15  # by which a float of a pure ε may say less than the ratio that it stands for
_CELLS = 20_000  # of one view
_RELEASED = 1500  # outcomes of a release, beyond which they are put together
_NOISE = 3000  # outcomes of a shuffler's noise
_PAIRS = 1500  # of views that are compared
_OTHERS = 40  # ways in which other people hold values, where all would be too many
_FLOOD = 3.0  # pairs of correlated noise, of laws that are listed
_BUNDLES = 3000  # of one person, beyond which a law is not looked at
_STEPS = 30_000  # of a listing in whole numbers
_BOX = 40  # messages of a kind, of laws without an end
_LOOKS = (0.1, 0.5, 0.9)  # between which a bundle looks less or more like one of two values
_LAPLACE_STEPS = 1024  # into which Laplace noise divides a person
_DIGITS = 10**49


@dataclass(frozen=True)
class Crowd:
    """The honest people of one protocol, and the victim among them.

    `honest` rows are theirs, and `rows` of these the victim's. `dishonest` people may send what
    they like. With `slots`, messages come in bundles of that size; these are sealed slot by slot,
    unless they are sealed `whole`. A shuffler that does not `withhold` passes on rare messages
    wherever the analyzer takes them.
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
    """Two laws of a view, of datasets that differ in the victim's rows alone.

    `exactly` gives both in rational numbers, or None where that would take long.
    """

    one: Array
    other: Array
    exactly: Callable[[], tuple[Law, Law] | None] = lambda: None


@dataclass(frozen=True, eq=False)
class Views:
    """All pairs that are looked at; `complete` if there are no others, and nothing is left out."""

    pairs: Sequence[Pair]
    complete: bool
    error: float = _ERROR


@dataclass(frozen=True)
class Truth:
    """The largest δ at an ε; `exact` in rational numbers, if floats were not enough."""

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
    """Of a victim whose rows are in these crowds; in rational numbers if δ is at `near`."""
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
    """The largest loss of all, as floats see it: the ε of a pure guarantee."""
    most = 0.0
    for pair in seen(crowds).pairs:
        some = pair.one > 0
        with np.errstate(divide="ignore"):
            most = max(most, float(np.max(np.log(pair.one[some]) - np.log(pair.other[some]))))
    return most


def _excess(one: Array, other: Array, factor: float) -> float:
    return float(np.maximum(one - factor * other, 0.0).sum())


def exact_divergence(one: Law, other: Law, epsilon: float) -> mpmath.mpf:
    """In whole numbers, with 50 digits of e^ε."""
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
    """Whatever was computed of protocols that are no longer what they were."""
    for kept in (truth, seen, _laws, takes_rare_messages):
        kept.cache_clear()


# Which pairs of views there are ---------------------------------------------------------------


@lru_cache(maxsize=6)
def seen(crowds: tuple[Crowd, ...]) -> Views:
    """Crowds are seen together, and randomized apart."""
    if len(crowds) == 1:
        return _views(crowds[0])
    every = [_views(crowd) for crowd in crowds]
    # The rows of one crowd may change alone; then the others tell nothing.
    pairs = [pair for one in every for pair in one.pairs]
    pairs += [
        Pair(_outer([p.one for p in chosen]), _outer([p.other for p in chosen]))
        for chosen in product(*(_spread(one.pairs, 8) for one in every))
        if math.prod(p.one.size for p in chosen) <= 10 * _CELLS
    ]
    return Views(pairs, False, max(one.error for one in every))


def _spread(items: Sequence[Any], most: int) -> list[Any]:
    """Some of them, the first and the last included."""
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
    """Of one person's bundle, for each value; of bundles that fit, where these are drawn anew.

    None if they are too long; and of long floods, which take seconds.
    """
    long = protocol.parameters.get("flood_pairs", 0.0) > _FLOOD
    if long or protocol.law(enumeration.asked(protocol)[0]) is None:
        return None
    laws: list[Law] = list(enumeration.laws_of(protocol))
    if slots is not None:
        laws = [_fitting(law, slots) for law in laws]
    return None if max(map(len, laws)) > _BUNDLES else laws


def can_be_listed(protocol: hc.Protocol) -> bool:
    """Whether there is a way to attack it here."""
    if protocol.trust is hc.Trust.CENTRAL or protocol.name in _DEFINED:
        return True
    noise = protocol.shuffler.noise_law(protocol.crowd.users)
    return noise is not None and len(noise) <= _NOISE and _laws(protocol) is not None


def _fitting(law: Law, slots: int) -> Law:
    fits = {b: p for b, p in law.items() if sum(copies for _, copies in b) <= slots}
    total = sum(fits.values(), Fraction(0))
    return {bundle: chance / total for bundle, chance in fits.items()}


def _changes(values: int, rows: int) -> list[tuple[Counts, Counts]]:
    """What the victim may hold instead of what: how many rows of each value."""
    held = [
        tuple(chosen.count(value) for value in range(values))
        for chosen in combinations_with_replacement(range(values), rows)
    ]
    return list(permutations(held, 2))


def _ways(people: int, values: int) -> tuple[list[Counts], bool]:
    """What other people may hold; if these are very many, those alike and some in between."""
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

    # All rows change from one value to another: no other change tells more.
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
    # One sum of levels; or a count for each bucket, of which a person is this many steps.
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
    """Laws of how often a person sends each kind of message, and whether kinds say everything.

    Where everybody sends one message, those that are as likely, up to a factor, whatever one holds,
    are one kind. If kinds are too many, only some are looked at.
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
    """Without the last kind."""
    fewer: dict[Counts, Fraction] = defaultdict(Fraction)
    for counts, chance in law.items():
        fewer[counts[:-1]] += chance
    return dict(fewer)


@dataclass(frozen=True, eq=False)
class _Sent:
    """What a person adds to a view, on a grid."""

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
    return np.where(found > 1e-15, found, 0.0)  # below is the noise of the transform


def _copies(crowd: Crowd, kinds: int) -> list[Counts]:
    """What dishonest people may add: a message each, or none."""
    return _spread([way[:-1] for way in enumeration.datasets(crowd.dishonest, kinds + 1)], 30)


def _passed_on(view: Array, copies: Counts, crowd: Crowd) -> Array:
    """What the shuffler leaves of it, dishonest people having added their copies."""
    least = crowd.protocol.shuffler.least_copies
    if least == 1:
        return view
    if not crowd.withholds:
        return _taken(view, crowd)
    for axis, more in enumerate(copies):
        view = np.moveaxis(view, axis, 0).copy()
        rare = max(0, least - more)  # fewer than so many copies by honest people are withheld
        view[0] = view[: max(1, rare)].sum(axis=0)
        view[1:rare] = 0.0
        view = np.moveaxis(view, 0, axis)
    return view


def _taken(view: Array, crowd: Crowd) -> Array:
    """Unless the analyzer takes messages that a shuffler should have withheld."""
    if not takes_rare_messages(crowd.protocol):
        return _passed_on(view, (0,) * view.ndim, Crowd(crowd.protocol, crowd.honest))
    return view


@lru_cache(maxsize=256)
def takes_rare_messages(protocol: hc.Protocol) -> bool:
    """Whether a batch is counted in which there is one copy of a message, and more are needed."""
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
    """The same in rational numbers, if that is quick."""

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
    """Bundles are mixed, and each is opened as one: how many look like one value, and how much."""
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
    """An attack by what is published of the noise; `share` of it is still there."""
    protocol = crowd.protocol
    share = crowd.honest / protocol.crowd.honest
    pairs = [Pair(one, other) for one, other in _DEFINED[protocol.name](protocol, share)]
    return Views([*pairs, *(Pair(pair.other, pair.one) for pair in pairs)], False, 1e-9)


def _cell(a: float, r: float, p: float, share: float) -> tuple[Array, Array]:
    """(number of +1, number of −1) of correlated noise, without and with one person more."""
    size = min(6 * _BOX, _BOX + round(3 * r * p / (1 - p)))
    k = np.arange(size)
    single, flood = nbinom.pmf(k, share, 1 - a), nbinom.pmf(k, r * share, 1 - p)
    table = np.zeros((size, size))
    for pairs in range(size):
        rest = size - pairs
        table[pairs:, pairs:] += flood[pairs] * np.multiply.outer(single[:rest], single[:rest])
    return table, np.vstack([np.zeros((1, size)), table[:-1]])


def _correlated(protocol: hc.Protocol, share: float) -> Iterator[tuple[Array, Array]]:
    found = protocol.parameters
    without, with_one = _cell(math.exp(-found["epsilon1"]), found["r"], found["flood_p"], share)
    if isinstance(protocol.task, hc.Count):
        yield without.ravel(), with_one.ravel()
        return
    likely = (without > 1e-7) | (with_one > 1e-7)
    one, other = with_one[likely][:1500], without[likely][:1500]
    yield _outer([one, other]), _outer([other, one])


def _hashed(protocol: hc.Protocol, share: float) -> Iterator[tuple[Array, Array]]:
    """How many messages match only one's key, only the other key, and both."""
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
    """Two-sided noise that is the difference of two negative binomials, moved by all levels."""
    found = protocol.parameters
    levels = int(found["levels"] if "levels" in found else found["precision"])
    rate = found.get("epsilon1", protocol.budget.epsilon) / levels
    size = 400 + levels
    single = nbinom.pmf(np.arange(size), share, -math.expm1(-rate))
    noise = np.convolve(single, single[::-1])
    still, moved = np.zeros(levels), np.zeros(levels)
    yield np.concatenate([noise, still]), np.concatenate([moved, noise])


_DEFINED = {
    "shuffle.correlated": _correlated,
    "shuffle.correlated-histogram": _correlated,
    "shuffle.hashed-histogram": _hashed,
    "shuffle.correlated-sum": _only_the_sum,
    "shuffle.split-and-mix": _only_the_sum,
}


def is_possible(protocol: hc.Protocol, sent: hc.Messages, value: int) -> bool:
    """Whether a person who holds the value can have sent this, dummies left out."""
    laws = _laws(protocol)
    if laws is None:
        return True
    payload = protocol.alphabet.messages(sent.payload)
    counted: dict[Any, int] = defaultdict(int)
    for message in payload.tolist():
        counted[tuple(message) if isinstance(message, list) else message] += 1
    bundle: Bundle = tuple(sorted(counted.items()))
    return bundle in laws[value]
