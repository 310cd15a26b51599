"""Privacy amplification by shuffling: what a local randomizer gains in a crowd.

Notation    n honest people send one message each, through a shuffler, by a randomizer R that is
            ε₀-private alone; R_x(y) = P(message y | value x). The view is the multiset of the n
            messages. Local privacy survives the shuffler: δ(ε) = 0 for ε ≥ ε₀.
Binary      Everyone flips his bit with probability q = 1/(1+e^ε₀). If k of the other n−1 people
            hold a zero, the view is, up to a shift, W + Bernoulli(q) or W + Bernoulli(1−q) with
            W = Bin(k, q) − Bin(n−1−k, q). P(W = t) is log-concave in t, so the likelihood ratio
            of the two views is monotone, and their divergence is the largest
                g(t) = (1−q−e^ε q)·P(W = t) − (e^ε−1)·P(W > t);
            g first rises, then falls. The other direction is that of n−1−k zeros. δ is the
            maximum over k: often at an edge, not always. The views of k, …, k+m all arise from
            that of k zeros and n−1−k−m ones by adding independent noise, so its divergence bounds
            theirs. Blocks of datasets are halved until no bound exceeds the largest δ found.
Unary       Everyone holds x ∈ {0..r} and sends x ones and r−x zeros, each flipped with probability
            q; the view is the number V of ones. (Cheu et al. 2019.) If the others hold k zeros and
            (n−1)r−k ones, V is, up to a shift, W + Bin(r−x, q) + Bin(x, 1−q), W = Bin(k, q) −
            Bin((n−1)r−k, q). *Only x = 0 and x = r matter.* Turning one bit of the victim's from
            zero to one adds Bernoulli(1−q) in place of Bernoulli(q) to a log-concave law, so the
            likelihood ratio of the two views is monotone; this relation is transitive, so it holds
            for any x < x'. Hence the best event is {V > t} for (x', x) and {V ≤ t} for (x, x'),
            and, since P_x(V > t) rises with x, P_x'(V > t) − e^ε P_x(V > t) is largest for x' = r,
            x = 0. If all bits are turned, so is the direction: (0, r) at k is (r, 0) at (n−1)r−k.
            So δ is the maximum over k and t of g(t) = P_r(V > t) − e^ε P_0(V > t), which as before
            first rises, then falls; and blocks of k are bounded as before.
Blanket     (Balle, Bell, Gascón, Nissim 2019.) ω(y) = min over x of R_x(y), γ = Σω. Each of the
            others draws from ω/γ with probability γ; what the rest send is given away. Then, for
            values x and x' of the victim,
                δ(ε) ≤ E[(G₁ + … + G_n)₊] / n,
            G_i = (R_x − e^ε R_x')(Y)/ω(Y), Y ~ ω/γ, with probability γ, else 0.
Clones      (Feldman, McMillan, Talwar 2021.) For any R: C ~ Bin(n−1, e^−ε₀), A ~ Bin(C, ½),
            D ~ Bernoulli(e^ε₀/(1+e^ε₀)); the views are no further apart than (A+D, C−A+1−D) and
            (A+1−D, C−A+D). That is the blanket of two messages with ω = e^−ε₀/2 each, exactly.
Numerics    See `inversion`.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from numbers import Rational

import numpy as np

from headcount.accounting.inversion import MOST_NOISE, Flips, positive_part
from headcount.accounting.laws import LEAST_FLOAT, UNIT
from headcount.core import checks
from headcount.core.budget import MOST_USERS
from headcount.core.errors import InvalidParameter
from headcount.core.table import short

EVERY_DATASET = 10_000  # honest people's bits: so far δ is the maximum over datasets itself
_TOLERANCE = 1e-4  # how far above it δ may be for larger crowds, relatively
_NEGLIGIBLE = 1e-40  # a δ for which blocks of datasets need not be halved
MOST_BITS = 2**20  # of one person
_MOST_LOCAL = 300.0  # beyond, a local guarantee is none, and e^(2ε₀) no float
_LEAST_STEP = 1e-15  # of a search near 0
_LOOSE = 2.0**-40  # by which floats may exceed ε₀; counted as if they did

Classes = tuple[tuple[float, float, float], ...]


@dataclass(frozen=True)
class Amplification(ABC):
    """What `honest` people gain by shuffling their messages, asked in three ways.

    Every answer was evaluated, and is on the private side.
    """

    honest: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "honest", _crowd(self.honest))

    @property
    @abstractmethod
    def exact(self) -> bool:
        """Whether δ is the divergence of the view, the largest over all datasets."""

    @property
    @abstractmethod
    def method(self) -> str:
        """The computation or the theorem."""

    @abstractmethod
    def _delta(self, local_epsilon: float, epsilon: float) -> float:
        """`delta` for ε < ε₀."""

    def _quick_delta(self, local_epsilon: float, epsilon: float) -> float:
        """A lower bound on `_delta`, to search with."""
        return self._delta(local_epsilon, epsilon)

    def _pure_epsilon(self, local_epsilon: float) -> float:
        """The ε from which on δ is 0. It is ε₀, unless a randomizer is given in floats."""
        return local_epsilon

    def delta(self, local_epsilon: float, epsilon: float) -> float:
        """The least δ known for this ε, rounded up."""
        local = _at_least_0("local_epsilon", local_epsilon)
        epsilon = _at_least_0("epsilon", epsilon)
        if epsilon >= self._pure_epsilon(local):
            return 0.0
        if local > _MOST_LOCAL:
            return 1.0
        # It may be less than floats hold, but it is not nothing: no smaller ε is pure.
        return max(self._delta(local, epsilon), LEAST_FLOAT)

    def epsilon(self, local_epsilon: float, delta: float) -> float:
        """The least ε known for this δ; at most ε₀, but for the rounding of floats."""
        local, delta = _at_least_0("local_epsilon", local_epsilon), _probability("delta", delta)
        pure = self._pure_epsilon(local)
        if delta == 0 or local > _MOST_LOCAL:
            return pure
        return _search(
            lambda epsilon: self._quick_delta(local, epsilon) if epsilon < pure else 0.0,
            lambda epsilon: self.delta(local, epsilon),
            delta,
            private=pure,
            towards=0.0,
        )

    def local_epsilon(self, epsilon: float, delta: float) -> float:
        """The largest ε₀ known that the crowd makes (ε, δ)-private; at least ε, but for the
        rounding of floats.
        """
        epsilon, delta = _at_least_0("epsilon", epsilon), _probability("delta", delta)
        private = epsilon
        if self.delta(private, epsilon) > delta:
            private = max(0.0, epsilon - 2 * _LOOSE * max(1.0, epsilon))
            if self.delta(private, epsilon) > delta:
                raise InvalidParameter(
                    "`randomizer` must give fractions for so little privacy loss, got floats with "
                    f"epsilon={short(epsilon)} and delta={short(delta)}"
                )
        if delta == 0 or epsilon >= _MOST_LOCAL:
            return private
        return _search(
            lambda local: self._quick_delta(local, epsilon) if epsilon < local else 0.0,
            lambda local: self.delta(local, epsilon),
            delta,
            private=private,
            towards=min(epsilon + 64, _MOST_LOCAL),
        )


def _search(
    quick: Callable[[float], float],
    bound: Callable[[float], float],
    delta: float,
    *,
    private: float,
    towards: float,
) -> float:
    """The last point on the way from a private one with bound(point) ≤ delta.

    Bisects on `quick`, which is no larger, and aims lower as long as the bound is too large; then
    closes the gap that may have left.
    """
    aim, failed = delta, None
    while True:
        inside, outside = private, towards
        if quick(outside) <= aim:
            inside = outside
        while abs(inside - outside) > 2.0**-24 * inside + _LEAST_STEP:
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if quick(middle) <= aim else (inside, middle)
        reached = bound(inside)
        if reached <= delta:
            break
        failed = inside
        aim *= delta / reached * (1 - 1e-4)
    while failed is not None and abs(inside - failed) > 1e-5 * inside + _LEAST_STEP:
        middle = (inside + failed) / 2
        inside, failed = (middle, failed) if bound(middle) <= delta else (inside, middle)
    return inside


# Binary response ----------------------------------------------------------------------------


@dataclass(frozen=True)
class BinaryResponse(Amplification):
    """Everyone flips his bit with probability 1/(1 + e^ε₀)."""

    @property
    def exact(self) -> bool:
        return self.honest <= EVERY_DATASET

    @property
    def method(self) -> str:
        datasets = "every dataset" if self.exact else "bounded over blocks of datasets"
        return f"law of the number of ones, {datasets}"

    def _delta(self, local_epsilon: float, epsilon: float) -> float:
        return flip_delta(self.honest, _lie(local_epsilon), epsilon)

    def _quick_delta(self, local_epsilon: float, epsilon: float) -> float:
        flips = Flips(self.honest, _lie(local_epsilon), epsilon)
        return flips.edge() if flips.c > 0 else 0.0


def _lie(local_epsilon: float) -> Fraction:
    """1/(1 + e^ε₀), rounded down: fewer lies are less private."""
    return Fraction(1 / (1 + math.exp(local_epsilon)) * (1 - 8 * UNIT))


def flip_delta(honest: int, lie: Fraction, epsilon: float, bits: int = 1) -> float:
    """δ(ε) of `honest` people who flip their bits with probability `lie`, over every dataset.

    Each of them has so many bits, all ones for one value and all zeros for another. Rounded up; for
    more than 10,000 bits in all by one part in 10,000 or so. Of more than 10^8 lies that are
    expected, 10^8 count, and of people with r > 1 bits (50r)² if that is more, up to 3·10^13.
    """
    honest, epsilon = _crowd(honest), _at_least_0("epsilon", epsilon)
    bits = checks.whole("bits", bits, low=1, high=MOST_BITS)
    if not 0 <= lie <= 1:
        raise InvalidParameter(f"`lie` must be between 0 and 1, got {lie}")
    flips = Flips(honest, min(lie, 1 - lie), epsilon, bits)
    if flips.c <= 0:
        return 0.0
    every = honest * bits <= EVERY_DATASET
    tolerance, least = (0.0, 0.0) if every else (_TOLERANCE, _NEGLIGIBLE)
    bound = worst = flips.edge()
    # Blocks of so many datasets, from k = first on.
    ends = np.unique([(flips.others + 1) * i // 16 for i in range(17)])
    first, size = ends[:-1], np.diff(ends)
    while len(first):
        # A dataset in the middle of each block tells how high the others may go.
        worst = max(worst, flips.bounds(first + size // 2).max())
        bounds = flips.bounds(first, size - 1)
        worst = max(worst, bounds[size == 1].max(initial=0.0))
        split = (bounds > max(worst * (1 + tolerance), least)) & (size > 1)
        bound = max(bound, worst, bounds[~split].max(initial=0.0))
        first, size = first[split], size[split]
        half = size // 2
        first, size = np.concatenate([first, first + half]), np.concatenate([half, size - half])
    return float(bound)


def unary_lie(honest: int, bits: int, epsilon: float, delta: float) -> int | None:
    """The least t, or near it, such that bits flipped with probability q = t/2^64 < ½ are private.

    That is, flip_delta(honest, q, epsilon, bits) ≤ delta, which was evaluated. Near means: to one
    part in 10,000. None if there is no such t; q = ½ would be private, but says nothing.
    """
    honest, bits = _crowd(honest), checks.whole("bits", bits, low=1, high=MOST_BITS)
    epsilon, delta = _at_least_0("epsilon", epsilon), _probability("delta", delta)

    def weight(bit_epsilon: float) -> int:
        """2^64/(1 + e^ε₀), rounded up, for a bit that is ε₀-private alone; below one half."""
        lie = Fraction(1 / (1 + math.exp(bit_epsilon)) * (1 + 8 * UNIT))
        return min(math.ceil(lie * 2**64), 2**63 - 1)

    def bound(bit_epsilon: float) -> float:
        return flip_delta(honest, Fraction(weight(bit_epsilon), 2**64), epsilon, bits)

    def quick(bit_epsilon: float) -> float:
        flips = Flips(honest, Fraction(weight(bit_epsilon), 2**64), epsilon, bits)
        return flips.edge() if flips.c > 0 else 0.0

    # There r bits are ε-private without a crowd.
    private = min(epsilon / bits, _MOST_LOCAL)
    if bound(private) > delta:
        return None
    if delta == 0 or private == _MOST_LOCAL:
        return weight(private)
    towards = min(private + 64, _MOST_LOCAL)
    return weight(_search(quick, bound, delta, private=private, towards=towards))


# Blankets -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Blanket(Amplification):
    """A randomizer with finitely many messages, hidden by what all its laws have in common.

    `pairs` maps ε₀ to the ordered pairs of values to look at. A pair is given by classes of
    messages with the same R_x/ω and R_x'/ω: the sum of their ω, and these two ratios. `pure` maps
    ε₀ to an ε that no ratio of two chances of a message exceeds. Both refuse a law that is not
    ε₀-private.
    """

    pairs: Callable[[float], Sequence[Classes]] = field(repr=False)
    pure: Callable[[float], float] = field(repr=False)

    exact = False
    method = "privacy blanket (Balle, Bell, Gascón, Nissim 2019)"

    @classmethod
    def k_ary(cls, honest: int, k: int) -> "Blanket":
        """The truth with probability e^ε₀/(e^ε₀ + k − 1), else any of the k − 1 other values."""
        k = checks.whole("k", k, low=2, high=2**63)

        def pairs(local_epsilon: float) -> list[Classes]:
            ratio = math.exp(local_epsilon)
            omega = 1 / (ratio + (k - 1))
            return [((omega, ratio, 1.0), (omega, 1.0, ratio), ((k - 2) * omega, 1.0, 1.0))]

        return cls(honest, pairs, pure=float)  # ε₀ itself: the formula is private, floats round it

    @classmethod
    def of(
        cls, honest: int, randomizer: Callable[[float], Sequence[Sequence[Fraction | float]]]
    ) -> "Blanket":
        """`randomizer(ε₀)[x][y]` is R_x(y), a fraction, or a float good to one part in 2^50.

        Fractions must be ε₀-private exactly. Floats may exceed ε₀ by 2^−40; then δ is 0 only from
        ε₀ + 2^−40 on.
        """
        if not callable(randomizer):
            raise InvalidParameter(
                "`randomizer` must be a function that gives a matrix for every local_epsilon, "
                f"got {type(randomizer).__name__}"
            )
        known = lru_cache(maxsize=8)(lambda local: _given(randomizer(local), local))
        return cls(honest, lambda local: _pairs(known(local)[0]), lambda local: known(local)[1])

    def _pure_epsilon(self, local_epsilon: float) -> float:
        return self.pure(local_epsilon)

    def _delta(self, local_epsilon: float, epsilon: float) -> float:
        pairs = self.pairs(local_epsilon)
        return max(_blanket_delta(self.honest, classes, epsilon) for classes in pairs)


@dataclass(frozen=True)
class Clones(Amplification):
    """Any ε₀-private randomizer: e^−ε₀ of what anybody sends might have come from the victim."""

    exact = False
    method = "clones (Feldman, McMillan, Talwar 2021)"

    def _delta(self, local_epsilon: float, epsilon: float) -> float:
        ratio = math.exp(local_epsilon)
        omega, less = 1 / ratio / 2, 2 / (1 + 1 / ratio)
        classes = ((omega, less * ratio, less), (omega, less, less * ratio))
        return _blanket_delta(self.honest, classes, epsilon)


def clones_closed_form(honest: int, local_epsilon: float, delta: float) -> float:
    """An ε at δ by the theorem's formula, for ε₀ ≤ ln(n/(16 ln(4/δ))).

    ε = ln(1 + (e^ε₀−1)/(e^ε₀+1)·(8√(e^ε₀ ln(4/δ)/n) + 8e^ε₀/n)).
    """
    honest, delta = _crowd(honest), _probability("delta", delta)
    local = _at_least_0("local_epsilon", local_epsilon)
    log = math.log(4 / delta) if delta else math.inf
    if local > _MOST_LOCAL or 16 * log * math.exp(local) > honest:
        raise InvalidParameter(
            "`local_epsilon` must be at most ln(honest/(16 ln(4/delta))) for the closed form, "
            f"got {short(local)} with honest={honest} and delta={short(delta)}"
        )
    ratio = math.exp(local)
    gain = 8 * math.sqrt(ratio * log / honest) + 8 * ratio / honest
    return math.log1p(math.tanh(local / 2) * gain) * (1 + 16 * UNIT)


def _given(rows: object, local_epsilon: float) -> tuple[list[list[Fraction]], float]:
    """Laws that are ε₀-private, and an ε that no ratio of two chances of a message exceeds."""
    table, exactly = _matrix(rows)
    # A float may be off by one part in 2^50: two of them by 2^−49, which counts against it.
    blur = Fraction(0 if exactly else 2.0**-49)
    pure = local_epsilon if exactly else math.nextafter(local_epsilon + _LOOSE, math.inf)
    for chances in zip(*table, strict=True):
        least, most = min(chances), max(chances)
        private = not _above_exp(most / least * (1 + blur), pure) if least > 0 else most == 0
        if least < 0 or not private:
            raise InvalidParameter(
                "`randomizer` must give no message a chance below 0, or more than e^local_epsilon "
                "times as large for one value as for another, got a law that does at "
                f"{local_epsilon!r}"
            )
    return table, pure


def _matrix(rows: object) -> tuple[list[list[Fraction]], bool]:
    """The laws as fractions, a row for each value; and whether they were given as fractions."""
    try:
        given = [list(row) for row in rows]  # type: ignore[attr-defined]
    except TypeError:
        raise InvalidParameter(
            f"`randomizer` must give rows of chances, got {type(rows).__name__}"
        ) from None
    if len(given) < 2 or len({len(row) for row in given}) > 1:
        raise InvalidParameter("`randomizer` must give two rows or more, all of one length")
    exactly = all(isinstance(chance, Rational) for row in given for chance in row)
    table = [
        [
            Fraction(chance)
            if isinstance(chance, Rational)
            else Fraction(checks.real("randomizer", chance))
            for chance in row
        ]
        for row in given
    ]
    off = max(abs(sum(row, Fraction(0)) - 1) for row in table)
    if off > (0 if exactly else 2.0**-40):
        raise InvalidParameter("`randomizer` must give rows that sum to 1")
    return table, exactly


def _above_exp(ratio: Fraction, exponent: float) -> bool:
    """Whether ratio > e^exponent. Digits are added until the two differ: e^x is irrational unless
    x = 0, so at some digit they do.
    """
    if exponent == 0 or ratio <= 1:
        return ratio > 1
    digits = 30
    while True:
        context = Context(prec=digits, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
        power = context.exp(Decimal(exponent))
        found = context.divide(Decimal(ratio.numerator), Decimal(ratio.denominator))
        # A factor above 1 that makes up for the rounding of both numbers and of their products.
        more = context.add(Decimal(1), context.scaleb(Decimal(1), 3 - digits))
        if power > context.multiply(found, more):
            return False
        if found > context.multiply(power, more):
            return True
        digits *= 2


def _pairs(table: list[list[Fraction]]) -> list[Classes]:
    """The classes of every ordered pair of values, each kind of pair once."""
    columns = list(zip(*table, strict=True))
    kinds = set()
    for x, here in enumerate(table):
        for there in table[:x] + table[x + 1 :]:
            classes: dict[tuple[Fraction, Fraction], Fraction] = {}
            for column, one, other in zip(columns, here, there, strict=True):
                if least := min(column):
                    ratios = one / least, other / least
                    classes[ratios] = classes.get(ratios, Fraction(0)) + least
            kinds.add(frozenset((omega, *ratios) for ratios, omega in classes.items()))
    return [
        tuple((float(omega), float(one), float(other)) for omega, one, other in kind)
        for kind in kinds
    ]


def _blanket_delta(honest: int, classes: Classes, epsilon: float) -> float:
    """E[(G₁ + … + G_n)₊]/n, rounded up, for messages in classes of (ω, R_x/ω, R_x'/ω)."""
    omega, here, there = np.array(classes).T
    there = there * math.exp(epsilon)
    gain, blur = here - there, 32 * UNIT * (here + there)
    # Messages that speak for neither value count as if they came from outside the blanket.
    neutral = (np.abs(gain) <= blur) | (omega == 0)
    beyond = 4 * float(omega[neutral] @ blur[neutral])
    gain, mass = (gain + blur)[~neutral], omega[~neutral] * (1 + 16 * UNIT)
    if not (gain > 0).any():
        return beyond
    # A crowd does no harm; and where nobody is likely to send from the blanket, it is no help.
    delta = float(mass @ np.maximum(gain, 0.0))
    n, unit = int(min(honest, MOST_NOISE / mass.sum())), float(np.abs(gain).max())
    if n * mass.sum() > 1e-6:
        delta = min(delta, positive_part(n, gain / unit, mass) * unit / n)
    return min(1.0, delta * (1 + 8 * UNIT) + beyond)


def _crowd(honest: int) -> int:
    return checks.whole("honest", honest, low=1, high=MOST_USERS)


def _at_least_0(name: str, value: float) -> float:
    number = checks.real(name, value)
    if number < 0:
        raise InvalidParameter(f"`{name}` must be at least 0, got {number}")
    return number


def _probability(name: str, value: float) -> float:
    number = checks.real(name, value)
    if not 0 <= number < 1:
        raise InvalidParameter(f"`{name}` must be at least 0 and below 1, got {number}")
    return number
