"""Correlated noise for sums of integers: how private it is, and how much of it is needed.

Notation    Everybody holds an x in 0..Δ (`levels`) and sends x unless it is 0. The honest people
            together also send noise. The first part of the noise consists of U₊ messages +1 and U₋
            messages −1, where U₊ and U₋ are NB(1, a) with a = e^−rate (see
            `laws.negative_binomial`). The second part is the flood, which consists of atoms. An
            atom is a set of numbers that add up to 0. The atoms are {+1, −1}, and the atom
            {i, −⌈i/2⌉, −⌊i/2⌋} of each i from −⌈Δ/2⌉ to Δ with |i| ≥ 2. Every element of an atom s
            is sent Z_s times, where Z_s is a sum of independent NB(r, e^−rate_s). The adversary
            sees how often each value is sent. Ghazi, Kumar, Manurangsi, Pagh and Sinha (2021) spend
            ε* = Δ·rate of the budget on the sum. They spend the rest, γε = ε − ε*, on the flood.
Privacy     A person's x is replaced by x'. All elements of the atom of i except i itself are
            smaller than i in absolute value. So one more message i has the same effect as one more
            atom of i and one less message of each other element. These other messages are replaced
            in the same way, until only messages ±1 are left (`peeled`). In these coordinates, the
            view consists of independent parts: the numbers Z_s + t_s for the atoms of all i with
            |i| ≥ 2, and the numbers (U₊ + Z + α, U₋ + Z + β) of messages +1 and −1, where Z is the
            Z_s of {+1, −1}. The integers t_s, α and β depend on x, and only their differences
            between x and x' matter. For the messages ±1, min(U₊, U₋) is NB(1, a²) and independent
            of U₊ − U₋, which is two-sided geometric. Since only differences matter, assume that
            α = β = 0 for x'. Let y = (number of +1) − (number of −1) and D = x − x'. The law of y
            is ∝ a^|y−D| for x and ∝ a^|y| for x'. Given y, the number of +1 is X + (y−D)⁺ + α for x
            and X + y⁺ for x', where X = min(U₊, U₋) + Z. The loss is the same for all
            y ≤ min(0, D), and for all y ≥ max(0, D). δ is the divergence of the product of all
            parts, maximized over the ordered pairs (x, x').
Numerics    See `losses`, which compares X + t with X for every t that occurs.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import cast

from headcount.accounting import laws
from headcount.accounting.laws import ROUNDING, Law
from headcount.accounting.losses import (
    ACCURACY,
    LossGrid,
    LossLaw,
    MovedLaw,
    Part,
    Products,
    View,
    products_for,
)
from headcount.accounting.product_curve import COARSE, ProductCurve
from headcount.core.cached import cached_property
from headcount.core.decimal_digits import decimal_digits, exponential

_MOST_MASSES = 1 << 22  # the largest number of masses in a law
_LEAST_R = 1e-3  # a search stops at this r, because some budgets need hardly any flood
_MOST_R = 1e6  # a search fails if it needs a larger r
_MOST_SWEEPS = 6  # how often `calibrate` changes each of its parameters at most
_LEAST_WEIGHT = 1e-300  # smaller probabilities are rounded up to this
_MOST_PRODUCTS = 10**9  # the most products of masses in a convolution


@lru_cache(maxsize=256)
def atoms(levels: int) -> tuple[tuple[int, ...], ...]:
    """All atoms. The first atom is {1, −1}; every other atom begins with its i."""
    out: list[tuple[int, ...]] = [(1, -1)]
    for i in [*range(2, levels + 1), *range(-2, -((levels + 1) // 2) - 1, -1)]:
        sign, half = (1 if i > 0 else -1), abs(i) // 2
        out.append((i, -sign * (abs(i) - half), -sign * half))
    return tuple(out)


@lru_cache(maxsize=256)
def peeled(levels: int) -> tuple[tuple[int, ...], ...]:
    """A table whose row x expresses a message x in the coordinates of "Privacy" above.

    The row holds the number of each atom except {1, −1}, then the number of messages +1, and then
    the number of messages −1.
    """
    index = {atom[0]: j for j, atom in enumerate(atoms(levels)) if j}
    rows: dict[int, list[int]] = {0: [0] * (len(index) + 2)}
    for message in sorted({1, -1, *index}, key=abs):
        row = [0] * (len(index) + 2)
        if abs(message) == 1:
            row[len(index) + (message < 0)] = 1
        else:
            row[index[message] - 1] = 1
            for element in atoms(levels)[index[message]][1:]:
                row = [mine - its for mine, its in zip(row, rows[element], strict=True)]
        rows[message] = row
    return tuple(tuple(rows[x]) for x in range(levels + 1))


@dataclass(frozen=True)
class CorrelatedSumNoise:
    """The noise of all honest people together. All floats are taken as exact.

    `floods[j]` describes the number of times that `atoms(levels)[j]` is sent: a sum of independent
    NB(r, e^−rate), given as pairs (r, rate).
    """

    levels: int
    rate: float
    floods: tuple[tuple[tuple[float, float], ...], ...] = field(repr=False)

    @property
    def messages(self) -> float:
        """The expected number of noise messages."""
        total = 2 * _mean(self.rate)
        for atom, flood in zip(atoms(self.levels), self.floods, strict=True):
            total += len(atom) * sum(r * _mean(rate) for r, rate in flood)
        return total

    def delta(self, epsilon: float) -> float:
        """The δ for replacing any value by any other, rounded up."""
        return self.curve.delta(epsilon)

    def pair_delta(self, held: int, other: int, epsilon: float) -> float:
        """The δ for replacing `held` by `other`, in this direction only, at ε ≥ 0."""
        accounts = Accounts(self)
        return products_for([accounts.view(held, other)], accounts.law, epsilon)[1]

    @cached_property
    def curve(self) -> ProductCurve:
        return ProductCurve(Accounts(self))


class Accounts:
    """The views of all pairs (x, x') of values, and the privacy losses of these views."""

    def __init__(self, noise: CorrelatedSumNoise) -> None:
        self.noise = noise
        self._laws: dict[int, MovedLaw] = {}
        self._seen_ones: dict[tuple[int, int], tuple[Part, ...]] = {}

    def law(self, name: Hashable, step: float, negligible: float) -> LossLaw:
        atom, by = cast(tuple[int, int], name)
        return self._moved(atom).losses(by, step, negligible)

    def _moved(self, atom: int) -> MovedLaw:
        if atom not in self._laws:
            flood = _flood_law(self.noise.floods[atom])
            if atom == 0:
                flood = _plus_least(flood, self.noise.rate)
            self._laws[atom] = MovedLaw(flood)
        return self._laws[atom]

    def view(self, held: int, other: int) -> list[tuple[Part, ...]]:
        """The observations whose laws differ between a person with `held` and one with `other`."""
        rows = peeled(self.noise.levels)
        *moves, plus, _ = (mine - its for mine, its in zip(rows[held], rows[other], strict=True))
        atoms_seen = [((1.0, 0.0, (j, by)),) for j, by in enumerate(moves, start=1) if by]
        return [self._ones(held - other, plus), *atoms_seen]

    def _ones(self, difference: int, plus: int) -> tuple[Part, ...]:
        """The observation of the messages ±1: one part per y = (number of +1) − (number of −1)."""
        if (difference, plus) in self._seen_ones:
            return self._seen_ones[difference, plus]
        rate, size = self.noise.rate, abs(difference)
        sign = 1 if difference > 0 else -1
        up = (1 + 8 * ROUNDING * (2 + rate * size)) / (1 + math.exp(-rate))
        out: list[Part] = []
        for steps in range(size + 1):
            y = sign * steps
            # The first and the last y also stand for all y beyond them, which have the same loss.
            single = 1.0 if steps in {0, size} else -math.expm1(-rate)
            weight = max(up * single * math.exp(-rate * (size - steps)), _LEAST_WEIGHT)
            by = max(y - difference, 0) + plus - max(y, 0)
            out.append((weight, rate * (2 * steps - size), (0, by)))
        self._seen_ones[difference, plus] = tuple(out)
        return tuple(out)

    @cached_property
    def views(self) -> list[View]:
        values = range(self.noise.levels + 1)
        return [self.view(x, y) for x in values for y in values if x != y]

    @cached_property
    def usual(self) -> list[View]:
        """The views of the two pairs that usually have the largest δ."""
        return [self.view(0, self.noise.levels), self.view(self.noise.levels, 0)]

    def delta(self, epsilon: float) -> float:
        """The largest δ over all pairs, at ε ≥ 0."""
        known = list(self.usual)
        while True:
            products, delta, _ = products_for(known, self.law, epsilon)
            largest, view = products.worst(self.views, [epsilon])
            # If another pair has a larger δ, the grid may not suit that pair, and its computed δ
            # may be inaccurate. So the next grid also considers that pair.
            if float(largest[0]) <= 1.001 * delta or len(known) > 5:
                return float(largest[0])
            known.append(view)


def _mean(rate: float) -> float:
    """The mean of NB(1, e^−rate)."""
    return math.exp(-rate) / -math.expm1(-rate)


def _ratio(rate: float) -> Fraction:
    """e^−rate, to 60 digits."""
    with decimal_digits(60):
        return Fraction(exponential(-rate))


def _flood_law(flood: Sequence[tuple[float, float]]) -> Law:
    """The law of the number of times that an atom is sent.

    This number is a sum of independent parts, one for each (r, rate) of the flood. If adding a part
    would take too long, the part is left out. Leaving out independent noise can only increase δ.
    """
    parts = [laws.negative_binomial(Fraction(r), _ratio(rate)) for r, rate in flood]
    parts.sort(key=lambda part: -len(part.mass))
    total = parts[0]
    for part in parts[1:]:
        if len(total.mass) * len(part.mass) <= _MOST_PRODUCTS:
            total = total.plus(part)
    return total


def _plus_least(law: Law, rate: float) -> Law:
    """The law of X + Y, where Y is the minimum of two independent NB(1, e^−rate). The law of Y is
    NB(1, e^−2rate).
    """
    ratio = math.exp(-2 * rate)
    out = law.plus_geometric(ratio)
    # The relative error of P(Y = k) is that of the ratio, multiplied by k + ratio/(1 − ratio).
    most = len(out.mass) - len(law.mass)
    return replace(
        out, slack=out.slack + 8 * ROUNDING * (1 + rate) * (most + 2 / -math.expm1(-2 * rate))
    )


def paper(levels: int, epsilon: float, delta: float, epsilon_star: float) -> CorrelatedSumNoise:
    """The published noise, which is proven (ε, δ)-private for any Δ.

    The published atoms of all i < −⌈Δ/2⌉ are left out. This does not change the privacy, because a
    message i < −⌈Δ/2⌉ occurs only in the atom of i. So an adversary who sees these messages knows
    how often each of these atoms was sent, and can remove all messages of these atoms.
    """
    part = min(1.0, epsilon - epsilon_star) / 2
    rounds = math.ceil(math.log2(levels)) + 1
    published = 2 * levels - 1  # the number of published atoms
    r = 3 * (1 + math.log(published / (delta / 2)))
    floods = [((r, 0.1 * part / math.ceil(levels * rounds / abs(i))),) for i, *_ in atoms(levels)]
    ones = (3 * (1 + math.log(1 / (delta / 2))), 0.2 * part / levels)
    return CorrelatedSumNoise(levels, epsilon_star / levels, ((ones, *floods[0]), *floods[1:]))


@dataclass(frozen=True)
class _Shape:
    """All parameters of the noise except r, which is the same for all atoms but {+1, −1}. The r of
    {+1, −1} is e^log_more times this r.

    `calibrate` explains c and c0.
    """

    levels: int
    rate: float
    spare: float  # γε, or less if γε is large
    log_c: float
    log_c0: float
    log_more: float

    def noise(self, r: float) -> CorrelatedSumNoise:
        rounds = math.ceil(math.log2(self.levels)) + 1
        unit = self.spare / self.levels
        floods = [((r * math.exp(self.log_more), math.exp(self.log_c0) * unit),)]
        for i, *_ in atoms(self.levels)[1:]:
            floods.append(((r, math.exp(self.log_c) * unit * abs(i) / rounds),))
        return CorrelatedSumNoise(self.levels, self.rate, tuple(floods))

    def moved(self, coordinate: str, by: float) -> "_Shape":
        return replace(self, **{coordinate: getattr(self, coordinate) + by})


class _Search:
    """Computes ln(δ/budget) at one ε for the two pairs that usually have the largest δ. Here the
    budget is the δ that is allowed. One search serves many similar floods.
    """

    def __init__(self, epsilon: float, delta: float) -> None:
        self.epsilon, self.delta = epsilon, delta
        self._grid: LossGrid | None = None
        self._slope = 10.0

    def look(self, noise: CorrelatedSumNoise, accuracy: float = COARSE) -> float:
        """ln(δ/budget), computed with a new grid for this flood."""
        accounts = Accounts(noise)
        products, delta, self._slope = products_for(
            accounts.usual,
            accounts.law,
            self.epsilon,
            scale=self.delta,
            slope=self._slope,
            accuracy=accuracy,
        )
        self._grid = products.grid
        return math.log(delta / self.delta)

    def glance(self, noise: CorrelatedSumNoise) -> float:
        """ln(δ/budget), computed with the last grid, which is faster and less accurate."""
        if self._grid is None:
            return self.look(noise)
        accounts = Accounts(noise)
        delta = Products(self._grid, accounts.law).deltas(accounts.usual, [self.epsilon])[0]
        return math.log(float(delta) / self.delta)


def _least_r(
    measure: Callable[[float], float], r: float, fall: float, tolerance: float
) -> tuple[float, float, float] | None:
    """An r with measure(r) ≤ 0, the slope at which measure falls, and measure(r).

    measure(r) is ln(δ/budget). The search ends when measure(r) is between −tolerance and 0, or when
    no smaller r is found. measure(r) is nearly linear in r. So the search follows the line through
    two points: the largest r with measure(r) > 0 so far, and the smallest r with measure(r) ≤ 0.
    `fall` is a first guess of the slope. The result is None if the search finds no r.
    """
    low, high = (0.0, math.inf), (math.inf, -math.inf)
    for _ in range(60):
        excess = measure(r)
        low, high = (low, (r, excess)) if excess <= 0 else ((r, excess), high)
        if low[0] and math.isfinite(high[0]):
            fall = (low[1] - high[1]) / (high[0] - low[0])
        if high[1] >= -tolerance or high[0] - low[0] < 1e-5 * high[0] or high[0] <= _LEAST_R:
            return high[0], fall, high[1]
        # Aim a little beyond the crossing, and keep away from both ends of the interval.
        aim = r + (excess + tolerance / 2) / fall
        least, most = max(low[0], r / 2), min(high[0], 2 * r)
        r = min(max(aim, least + 0.02 * (most - least)), most - 0.02 * (most - least))
        if r > _MOST_R:
            break
    return None


def calibrate(
    levels: int, epsilon: float, delta: float, epsilon_star: float
) -> CorrelatedSumNoise | None:
    """The (ε, δ)-private noise with this ε* and the fewest messages that the search finds. The
    result is None if the search finds no such noise.

    The rate of an atom is γε·c|i|/(Δ(⌈log2 Δ⌉ + 1)), and γε·c0/Δ for {+1, −1}. All atoms except
    {+1, −1} have the same r. The search changes c, c0 and the ratio of the two values of r in turn.
    For each of these, it computes the number of messages at three points, and moves to the minimum
    of a parabola through them. Then it finds the r that is needed.
    """
    spare = epsilon - epsilon_star
    if not (epsilon_star > 0 and spare > 0 and 0 < delta < 1):
        raise ValueError("ε* must be between 0 and ε, and δ between 0 and 1")
    size = math.log2(levels)
    shape = _Shape(
        levels,
        epsilon_star / levels,
        min(spare, 2 * (size + 1)),  # at higher rates, atoms would be too rare to hide anything
        math.log(min(1.1 + 0.08 * size, 1.6)),
        math.log(0.5) - 0.19 * size,
        -0.1 if levels > 4 else 0.0,
    )
    r = max(18 - 1.6 * size, 8.0) * math.log(1 / delta) / math.log(1e6)
    if 120 / min(rate for flood in shape.noise(r).floods for _, rate in flood) > _MOST_MASSES:
        return None
    search = _Search(epsilon, delta)
    solution = _least_r(lambda r: search.look(shape.noise(r)), r, math.log(1 / delta) / r, 0.5)
    if solution is None:
        return None
    r, fall, excess = solution

    def cost(tried: _Shape, excess: float) -> float:
        """The approximate number of messages if r is the smallest that makes this shape private.
        `excess` is ln(δ/budget) of this shape at the current r.
        """
        return tried.noise(max(r + excess / fall, r / 3)).messages

    width = 0.3
    for _ in range(_MOST_SWEEPS):
        before = cost(shape, excess)
        for coordinate in ("log_c0",) if levels == 1 else ("log_c0", "log_c", "log_more"):
            here = cost(shape, excess)
            beside = [shape.moved(coordinate, by) for by in (-width, width)]
            less, more = (cost(one, search.glance(one.noise(r))) for one in beside)
            bend = less + more - 2 * here
            way = 0.5 * (less - more) / bend if bend > 0 else math.copysign(1.0, less - more)
            tried = shape.moved(coordinate, width * min(max(way, -1.0), 1.0))
            solution = _least_r(partial(_glance, search, tried), r, fall, 0.5)
            if solution is not None:
                needed = max(solution[0] + solution[2] / solution[1], solution[0] / 3)
                if tried.noise(needed).messages < here:
                    shape, (r, fall, excess) = tried, solution
        if cost(shape, excess) > 0.995 * before:
            if width <= 0.15:
                break
            width /= 2
        excess = search.look(shape.noise(r))
    return _checked(shape, max(r + excess / fall, r / 2), fall, search)


def _glance(search: _Search, shape: _Shape, r: float) -> float:
    return search.glance(shape.noise(r))


def _checked(shape: _Shape, r: float, fall: float, search: _Search) -> CorrelatedSumNoise | None:
    """The noise with the smallest r that is private for the two pairs that usually have the largest
    δ. If this noise is not private for all pairs, r is increased until it is.
    """
    solution = _least_r(lambda r: search.look(shape.noise(r), ACCURACY), r, fall, 2e-3)
    if solution is None:
        return None
    r, fall, _ = solution
    while r < _MOST_R:
        noise = shape.noise(r)
        reached = noise.delta(search.epsilon)
        if reached <= search.delta:
            return noise
        r += 1.02 * math.log(reached / search.delta) / fall + 1e-4 * r
    return None
