"""Privacy amplification by shuffling: how much privacy a local randomizer gains in a crowd.

Notation    n honest people send one message each through a shuffler. Their randomizer R is
            ε₀-private without the shuffler; R_x(y) = P(message y | value x). The view is the
            multiset of the n messages. The victim is the person whose value the adversary wants
            to learn. The divergence of laws P and Q at ε is Σ (P − e^ε Q)₊. Shuffling never weakens
            local privacy: δ(ε) = 0 for ε ≥ ε₀.
Binary      Everyone flips their bit (lies) with probability q = 1/(1+e^ε₀). Let k of the other n−1
            people hold a zero, and let W = Bin(k, q) − Bin(n−1−k, q). Up to a shift, the view is
            W + Bernoulli(q) or W + Bernoulli(1−q). P(W = t) is log-concave in t, so the likelihood
            ratio of the two views is monotone. Their divergence is the largest value of
                g(t) = (1−q−e^ε q)·P(W = t) − (e^ε−1)·P(W > t),
            and g first rises, then falls. The divergence in the opposite direction at k equals this
            divergence at n−1−k. δ is the maximum over k. This maximum is often, but not always, at
            k = 0 or k = n−1. A block is a range k, …, k+m of numbers of zeros. Let V be the view if
            the others hold only k zeros and n−1−k−m ones. Every view of the block is V plus
            independent noise, so its divergence is at most that of V. Blocks are halved until no
            block's bound exceeds the largest divergence computed so far.
Unary       (Cheu et al. 2019.) Everyone holds x ∈ {0..r} and sends x ones and r−x zeros. Each bit
            is flipped with probability q. The view is the number V of ones. Let the others hold k
            zeros and (n−1)r−k ones, and let W = Bin(k, q) − Bin((n−1)r−k, q). If the victim holds
            x, V is W + Bin(r−x, q) + Bin(x, 1−q), up to a shift. Let P_x be this law of V. *Only
            x = 0 and x = r matter.* Changing one of the victim's bits from zero to one adds
            Bernoulli(1−q) instead of Bernoulli(q) to a log-concave law, so the likelihood ratio of
            the two views is monotone. Monotone likelihood ratios are transitive, so the ratio is
            monotone for any x < x'. Hence the best event is {V > t} for (x', x) and {V ≤ t} for
            (x, x'). P_x(V > t) rises with x, so P_x'(V > t) − e^ε P_x(V > t) is largest for x' = r
            and x = 0. Inverting all bits swaps the pair: (0, r) at k becomes (r, 0) at (n−1)r−k. So
            δ is the maximum over k and t of
                g(t) = P_r(V > t) − e^ε P_0(V > t).
            As before, g first rises, then falls, and blocks of k are bounded in the same way.
Blanket     (Balle, Bell, Gascón, Nissim 2019.) Let ω(y) = min over x of R_x(y), and γ = Σω. Each
            person except the victim draws from ω/γ, which is called the blanket, with probability
            γ. In the proof, the adversary also learns which messages were not drawn from the
            blanket. Then, for values x and x' of the victim,
                δ(ε) ≤ E[(G₁ + … + G_n)₊] / n.
            With probability γ, G_i is (R_x − e^ε R_x')(Y)/ω(Y) with Y ~ ω/γ. Otherwise G_i is 0.
Clones      (Feldman, McMillan, Talwar 2021.) For any R, let C ~ Bin(n−1, e^−ε₀), A ~ Bin(C, ½) and
            D ~ Bernoulli(e^ε₀/(1+e^ε₀)). The divergence of two neighboring views is at most that of
            (A+D, C−A+1−D) and (A+1−D, C−A+D). This is exactly the blanket bound of a randomizer
            with two messages, which have ω = e^−ε₀/2 each. See `inversion` for the numerics.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

import numpy as np

from headcount.accounting.inversion import MOST_NOISE, Flips, edge_delta, positive_part
from headcount.accounting.laws import LEAST_FLOAT, ROUNDING
from headcount.accounting.response_matrix import LOOSE, Classes, private_laws, value_pairs
from headcount.core import checks
from headcount.core.budget import MOST_USERS
from headcount.core.errors import InvalidParameter
from headcount.core.table import short

EVERY_DATASET = 10_000  # if a crowd has at most this many bits, δ is the maximum over all datasets
_TOLERANCE = 1e-4  # for crowds with more bits, δ may exceed the maximum by this relative amount
_NEGLIGIBLE = 1e-40  # blocks of datasets with a smaller δ are not halved
MOST_BITS = 2**20  # the largest number of bits that one person may hold
_MOST_LOCAL = 300.0  # a larger ε₀ protects nobody, and e^(2ε₀) might overflow
_LEAST_STEP = 1e-15  # the smallest step of a search near 0


@dataclass(frozen=True)
class Amplification(ABC):
    """How much privacy `honest` people gain when their messages are shuffled.

    Each of the methods `delta`, `epsilon` and `local_epsilon` computes δ, ε or ε₀ from the other
    two. Results are rounded so that they never overstate the privacy. Every ε or ε₀ that a search
    finds has been verified by computing δ.
    """

    honest: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "honest", _crowd(self.honest))

    @property
    @abstractmethod
    def exact(self) -> bool:
        """Whether δ is the exact maximum of the view's divergence over all datasets."""

    @property
    @abstractmethod
    def method(self) -> str:
        """The name of the computation or of the theorem that gives δ."""

    @abstractmethod
    def _delta(self, local_epsilon: float, epsilon: float) -> float:
        """The same as `delta`, but only for ε < ε₀."""

    def _quick_delta(self, local_epsilon: float, epsilon: float) -> float:
        """A lower bound on `_delta` that is fast to compute. Searches use it."""
        return self._delta(local_epsilon, epsilon)

    def _pure_epsilon(self, local_epsilon: float) -> float:
        """The smallest ε with δ = 0. It is ε₀, or slightly more if the randomizer gives floats."""
        return local_epsilon

    def delta(self, local_epsilon: float, epsilon: float) -> float:
        """The smallest known δ for this ε, rounded up."""
        local = _at_least_0("local_epsilon", local_epsilon)
        epsilon = _at_least_0("epsilon", epsilon)
        if epsilon >= self._pure_epsilon(local):
            return 0.0
        if local > _MOST_LOCAL:
            return 1.0
        # δ may be too small for a float, but it is not 0, because ε is below ε₀.
        return max(self._delta(local, epsilon), LEAST_FLOAT)

    def epsilon(self, local_epsilon: float, delta: float) -> float:
        """The smallest known ε for this δ. It is at most ε₀, up to the rounding of floats."""
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
        """The largest known ε₀ for which the shuffled messages are (ε, δ)-private. It is at least
        ε, up to the rounding of floats.
        """
        epsilon, delta = _at_least_0("epsilon", epsilon), _probability("delta", delta)
        private = epsilon
        if self.delta(private, epsilon) > delta:
            private = max(0.0, epsilon - 2 * LOOSE * max(1.0, epsilon))
            if self.delta(private, epsilon) > delta:
                raise InvalidParameter(
                    "`randomizer` must give fractions for a budget this small, got floats with "
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
    """The point farthest from `private` in the direction of `towards` with bound(point) ≤ delta.

    `quick` is a lower bound on `bound`. The search bisects for the last point at which `quick` is
    at most a target, which is `delta` at first. If `bound` is too large at this point, the search
    is repeated with a smaller target. Finally, the search bisects on `bound` between the point that
    it found and the last point at which `bound` was too large.
    """
    target, failed = delta, None
    while True:
        inside, outside = private, towards
        if quick(outside) <= target:
            inside = outside
        while abs(inside - outside) > 2.0**-24 * inside + _LEAST_STEP:
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if quick(middle) <= target else (inside, middle)
        reached = bound(inside)
        if reached <= delta:
            break
        failed = inside
        target *= delta / reached * (1 - 1e-4)
    while failed is not None and abs(inside - failed) > 1e-5 * inside + _LEAST_STEP:
        middle = (inside + failed) / 2
        inside, failed = (middle, failed) if bound(middle) <= delta else (inside, middle)
    return inside


# Binary response ----------------------------------------------------------------------------


@dataclass(frozen=True)
class BinaryResponse(Amplification):
    """Everyone flips their bit with probability 1/(1 + e^ε₀)."""

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
        return edge_delta(self.honest, _lie(local_epsilon), epsilon)


def _lie(local_epsilon: float) -> Fraction:
    """The probability 1/(1 + e^ε₀) of a lie, rounded down because fewer lies are less private."""
    return Fraction(1 / (1 + math.exp(local_epsilon)) * (1 - 8 * ROUNDING))


def flip_delta(honest: int, lie: Fraction, epsilon: float, bits: int = 1) -> float:
    """The largest δ(ε) over all datasets of `honest` people who flip bits with probability `lie`.

    Each person holds `bits` bits. The result is rounded up. If the crowd has more than 10,000 bits,
    the result may be too large by about one part in 10,000. If more than 10^8 lies are expected,
    the crowd is treated as smaller, which can only increase δ. With r > 1 bits per person, this
    limit rises to (50r(1 − 2·lie))² if that is larger, but not above 3·10^13.
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
    # A block holds the `size` datasets with k = first, first + 1, … zeros.
    ends = np.unique([(flips.others + 1) * i // 16 for i in range(17)])
    first, size = ends[:-1], np.diff(ends)
    while len(first):
        # The middle dataset of each block gives a lower bound on the largest δ. One call computes
        # these lower bounds and the upper bounds of all blocks, which is faster than two calls.
        starts, spared = np.stack([first + size // 2, first]), np.stack([0 * size, size - 1])
        middles, bounds = flips.bounds(starts.ravel(), spared.ravel()).reshape(2, -1)
        worst = max(worst, middles.max())
        worst = max(worst, bounds[size == 1].max(initial=0.0))
        split = (bounds > max(worst * (1 + tolerance), least)) & (size > 1)
        bound = max(bound, worst, bounds[~split].max(initial=0.0))
        first, size = first[split], size[split]
        half = size // 2
        first, size = np.concatenate([first, first + half]), np.concatenate([half, size - half])
    return float(bound)


def unary_lie(honest: int, bits: int, epsilon: float, delta: float) -> int | None:
    """The smallest t for which flipping each bit with probability q = t/2^64 < ½ is private.

    Private means flip_delta(honest, q, epsilon, bits) ≤ delta, which has been verified for the
    result. The result may be too large by one part in 10,000. It is None if no t is private.
    q = ½ is excluded, because the flipped bits would carry no information.
    """
    honest, bits = _crowd(honest), checks.whole("bits", bits, low=1, high=MOST_BITS)
    epsilon, delta = _at_least_0("epsilon", epsilon), _probability("delta", delta)

    def weight(bit_epsilon: float) -> int:
        """The t = 2^64/(1 + e^ε₀) that makes each bit ε₀-private, rounded up, but below 2^63."""
        lie = Fraction(1 / (1 + math.exp(bit_epsilon)) * (1 + 8 * ROUNDING))
        return min(math.ceil(lie * 2**64), 2**63 - 1)

    def bound(bit_epsilon: float) -> float:
        return flip_delta(honest, Fraction(weight(bit_epsilon), 2**64), epsilon, bits)

    def quick(bit_epsilon: float) -> float:
        flips = Flips(honest, Fraction(weight(bit_epsilon), 2**64), epsilon, bits)
        return flips.edge() if flips.c > 0 else 0.0

    # If each bit is (ε/r)-private, all r bits together are ε-private even without a crowd.
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
    """The blanket bound for a randomizer with finitely many messages.

    `pairs` maps ε₀ to the ordered pairs (x, x') of values to consider. For a pair, messages with
    the same ratios R_x/ω and R_x'/ω form a class. A pair is described by three numbers for each of
    its classes: the sum of ω over the class, and the two ratios. `pure` maps ε₀ to an upper bound
    on all local privacy losses. Both functions refuse a randomizer that is not ε₀-private.
    """

    pairs: Callable[[float], Sequence[Classes]] = field(repr=False)
    pure: Callable[[float], float] = field(repr=False)

    exact = False
    method = "privacy blanket (Balle, Bell, Gascón, Nissim 2019)"

    @classmethod
    def k_ary(cls, honest: int, k: int) -> "Blanket":
        """The k-ary randomized response. It tells the truth with probability e^ε₀/(e^ε₀ + k − 1),
        and otherwise sends one of the k − 1 other values, chosen uniformly.
        """
        k = checks.whole("k", k, low=2, high=2**63)

        def pairs(local_epsilon: float) -> list[Classes]:
            ratio = math.exp(local_epsilon)
            omega = 1 / (ratio + (k - 1))
            return [((omega, ratio, 1.0), (omega, 1.0, ratio), ((k - 2) * omega, 1.0, 1.0))]

        # The formula is exactly ε₀-private, although its floats are rounded. So `pure` returns ε₀.
        return cls(honest, pairs, pure=float)

    @classmethod
    def of(
        cls, honest: int, randomizer: Callable[[float], Sequence[Sequence[Fraction | float]]]
    ) -> "Blanket":
        """The blanket of a randomizer that is given as a matrix: `randomizer(ε₀)[x][y]` is R_x(y).

        Each entry is a fraction, or a float with a relative error of at most 2^−50. Fractions must
        be exactly ε₀-private. The loss of floats may exceed ε₀ by 2^−40, so δ is 0 only for
        ε ≥ ε₀ + 2^−40.
        """
        if not callable(randomizer):
            raise InvalidParameter(
                "`randomizer` must be a function that gives a matrix for every local_epsilon, "
                f"got {type(randomizer).__name__}"
            )
        known = lru_cache(maxsize=8)(lambda local: private_laws(randomizer(local), local))
        return cls(
            honest, lambda local: value_pairs(known(local)[0]), lambda local: known(local)[1]
        )

    def _pure_epsilon(self, local_epsilon: float) -> float:
        return self.pure(local_epsilon)

    def _delta(self, local_epsilon: float, epsilon: float) -> float:
        pairs = self.pairs(local_epsilon)
        return max(_blanket_delta(self.honest, classes, epsilon) for classes in pairs)


@dataclass(frozen=True)
class Clones(Amplification):
    """A bound for any ε₀-private randomizer.

    With probability e^−ε₀, another person's message is a clone: it might as well be the victim's.
    """

    exact = False
    method = "clones (Feldman, McMillan, Talwar 2021)"

    def _delta(self, local_epsilon: float, epsilon: float) -> float:
        ratio = math.exp(local_epsilon)
        omega, less = 1 / ratio / 2, 2 / (1 + 1 / ratio)
        classes = ((omega, less * ratio, less), (omega, less, less * ratio))
        return _blanket_delta(self.honest, classes, epsilon)


def clones_closed_form(honest: int, local_epsilon: float, delta: float) -> float:
    """The ε that the closed form of the clones bound gives for δ, if ε₀ ≤ ln(n/(16 ln(4/δ))).

    The closed form is ε = ln(1 + (e^ε₀−1)/(e^ε₀+1)·(8√(e^ε₀ ln(4/δ)/n) + 8e^ε₀/n)).
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
    return math.log1p(math.tanh(local / 2) * gain) * (1 + 16 * ROUNDING)


def _blanket_delta(honest: int, classes: Classes, epsilon: float) -> float:
    """E[(G₁ + … + G_n)₊]/n, rounded up, for messages in classes of (ω, R_x/ω, R_x'/ω)."""
    omega, here, there = np.array(classes).T
    there = there * math.exp(epsilon)
    gain, blur = here - there, 32 * ROUNDING * (here + there)
    # A message with a gain near 0 is treated as if it came from outside the blanket.
    neutral = (np.abs(gain) <= blur) | (omega == 0)
    beyond = 4 * float(omega[neutral] @ blur[neutral])
    gain, mass = (gain + blur)[~neutral], omega[~neutral] * (1 + 16 * ROUNDING)
    if not (gain > 0).any():
        return beyond
    # `delta` is first the δ without a crowd. A crowd can only lower δ. If probably nobody draws
    # from the blanket, the crowd hardly lowers δ, and its effect is not computed.
    delta = float(mass @ np.maximum(gain, 0.0))
    n, unit = int(min(honest, MOST_NOISE / mass.sum())), float(np.abs(gain).max())
    if n * mass.sum() > 1e-6:
        delta = min(delta, positive_part(n, gain / unit, mass) * unit / n)
    return min(1.0, delta * (1 + 8 * ROUNDING) + beyond)


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
