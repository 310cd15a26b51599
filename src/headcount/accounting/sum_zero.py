"""Two-sided geometric noise in all buckets of a histogram, given that the noise adds up to 0.

Notation    z is the noise of d buckets, n = d − 1, and x = e^−ε. P(z) is proportional to
            e^{−(ε/2)·Σ|z_b|} for all z that add up to 0. Q_n(x) = Σ_k C(n,k)²·x^k.
Total       z = u − v for independent geometric numbers u_b and v_b of ratio e^{−ε/2}, given that
            Σu = Σv = t. Given t, u and v are uniform among all ways to write t as a sum of d
            numbers. P(t) is proportional to C(t+n,n)²·x^t. Since Σ_t C(t+n,n)²·x^t =
            Q_n(x)/(1−x)^{2n+1}, t is K plus 2n + 1 independent geometric numbers of ratio x, with
            P(K = k) proportional to C(n,k)²·x^k.
Privacy     A person who moves from bucket j to bucket i changes z to z + e_i − e_j, and Σ|z_b| by
            2, 0 or −2. So the loss is ε, 0 or −ε. It is ε if z_i ≥ 0 and z_j ≤ 0. The probability
            of the loss ε is Q_{n−1}(x)/Q_n(x), and the loss −ε has e^−ε times this probability.
Error       Given t, u_b has the variance t(t+d)n/(d²(d+1)). E[t²] = x(2d·E[t] + d²)/(1−x), by the
            differential equation of the sum above. So the variance of a bucket is
            2n/(d(d+1))·((1+x)·E[t] + xd)/(1−x). The covariance of two buckets is −1/n times this
            variance. Compared with independent noise, P(z_b = z) has one more factor, which falls
            with |z|. So margins of error that are valid for independent noise are valid here too.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import product

import numpy as np

from headcount.accounting.divergence import SymmetricCurve
from headcount.accounting.laws import ROUNDING, Law
from headcount.core.cached import cached_property
from headcount.core.decimal_digits import decimal_digits, exponential

_DIGITS = 50
_LISTED_DIGITS = 90  # the probability of a release is computed with this many digits
_WHOLE = 1 << 300  # the probability of a release is an integer divided by this
_MOST_TERMS = 20_000  # a law of releases is not listed if its sums have more terms
_LONGEST = 1 << 22  # the law of one bucket is not tabulated if it needs a longer transform
_RARE = 60.0  # probabilities below e^−60 are cut off
_NOISE_OF_TRANSFORM = 64 * ROUNDING  # the error of a transform, relative to its largest value


@dataclass(frozen=True)
class SumZero:
    """The noise of d buckets."""

    epsilon: Fraction
    buckets: int  # d

    # The total ----------------------------------------------------------------------------------

    def weights(self, digits: int) -> list[Decimal]:
        """C(n,k)²·x^k for all k, with a relative error below 10^−digits."""
        return _squared_binomials(self.buckets - 1, self.epsilon, digits)

    @property
    def parts(self) -> int:
        """The number of geometric numbers that are added to K."""
        return 2 * self.buckets - 1

    # Privacy ------------------------------------------------------------------------------------

    @cached_property
    def likely(self) -> float:
        """The probability of the loss ε, rounded up."""
        with decimal_digits(_DIGITS):
            fewer = sum(_squared_binomials(self.buckets - 2, self.epsilon, _DIGITS))
            share = fewer / sum(self.weights(_DIGITS))
        return float(share) * (1 + 4 * ROUNDING)

    @property
    def curve(self) -> SymmetricCurve:
        epsilon = float(self.epsilon)
        return SymmetricCurve(
            lambda smaller: -math.expm1(smaller - epsilon) * self.likely * (1 + 4 * ROUNDING),
            epsilon,
            2,
            one_pair=True,
        )

    # Error --------------------------------------------------------------------------------------

    @cached_property
    def variance(self) -> float:
        """The variance of the noise of one bucket."""
        weights, d = self.weights(_DIGITS), self.buckets
        with decimal_digits(_DIGITS):
            x = exponential(-self.epsilon)
            moved = sum((k * weight for k, weight in enumerate(weights)), Decimal(0)) / sum(weights)
            mean = moved + self.parts * x / (1 - x)
            return float(2 * (d - 1) * ((1 + x) * mean + x * d) / (d * (d + 1) * (1 - x)))

    @cached_property
    def one(self) -> Law | None:
        """The law of one bucket's noise, or None if it would take too long to compute.

        P(z) is proportional to e^{−(ε/2)|z|} times the probability that n independent noise
        values add up to −z. At the frequency φ, the transform of one noise value is
        1/(1 + (sin(φ/2)/sinh(ε/4))²).
        """
        rate, others = float(self.epsilon) / 2, self.buckets - 1
        size = 1 << (2 * math.ceil(_reach(rate, others)) + 2).bit_length()
        if size > _LONGEST:
            return None
        angles = np.pi / size * np.arange(size // 2 + 1)
        transform = np.exp(-others * np.log1p((np.sin(angles) / math.sinh(rate / 2)) ** 2))
        sums = np.fft.irfft(transform, size)
        reach = min(size // 2 - 1, math.ceil(_RARE / rate))
        half = np.exp(-rate * np.arange(reach + 1)) * np.maximum(sums[: reach + 1], 0.0)
        mass = np.concatenate([half[:0:-1], half])
        total = float(mass.sum())
        # All entries of a transform have about the same absolute error. The errors of all entries
        # together count as missing probability.
        error = _NOISE_OF_TRANSFORM * float(sums[0]) / math.tanh(rate / 2) / total
        return Law(-reach, mass / total, slack=_NOISE_OF_TRANSFORM, tail=error + math.exp(-_RARE))

    # Releases -----------------------------------------------------------------------------------

    def listed(self, counts: tuple[int, ...], users: int) -> Mapping[tuple[int, ...], Fraction]:
        """The law of counts plus noise, as fractions with 80 digits.

        In each bucket, outcomes below 0 count as 0, and outcomes above `users` count as `users`.
        This does not change the privacy: beyond these ends, Σ|y_b − c_b| of an outcome y grows by
        the same amount for all counts c.
        """
        n = self.buckets - 1
        with decimal_digits(_LISTED_DIGITS):
            x = exponential(-self.epsilon)
            root = x.sqrt()
            every = sum(self.weights(_LISTED_DIGITS - 10)) / (1 - x) ** n
            beyond: dict[tuple[int, int, int], Decimal] = {}
            law: dict[tuple[int, ...], Fraction] = {}
            for seen in product(range(users + 1), repeat=self.buckets):
                key = seen.count(0), seen.count(users), sum(seen) - users
                if key not in beyond:
                    beyond[key] = _beyond(*key, root)
                size = sum(abs(y - c) for y, c in zip(seen, counts, strict=True))
                law[seen] = Fraction(int(root**size * beyond[key] / every * _WHOLE), _WHOLE)
        law[counts] += 1 - sum(law.values())
        return law

    def can_list(self, users: int, most: int) -> bool:
        """Whether `listed` can compute the law for this number of people, and the law has at most
        `most` outcomes.
        """
        terms = _LISTED_DIGITS * math.log(10) / float(self.epsilon)
        return (users + 1) ** self.buckets <= most and terms <= _MOST_TERMS


def _squared_binomials(n: int, epsilon: Fraction, digits: int) -> list[Decimal]:
    """C(n,k)²·e^{−εk} for k = 0, …, n. These are products of positive factors, so relative errors
    only add up.
    """
    with decimal_digits(digits + 12):
        x, found = exponential(-epsilon), [Decimal(1)]
        for k in range(n):
            found.append(found[-1] * (n - k) ** 2 / (k + 1) ** 2 * x)
        return found


def _reach(rate: float, count: int) -> float:
    """A number that a sum of `count` two-sided geometric numbers exceeds with probability below
    e^−60. By Chernoff's bound, any θ between 0 and the rate gives such a number:
    (60 + count·K(θ))/θ, with K(θ) = −ln(1 − (sinh(θ/2)/sinh(rate/2))²).
    """
    theta = rate * min(0.5, math.sqrt(_RARE / (1.2 * count)))
    spread = -math.log1p(-((math.sinh(theta / 2) / math.sinh(rate / 2)) ** 2))
    return (_RARE + count * spread) / theta


def _beyond(low: int, high: int, excess: int, root: Decimal) -> Decimal:
    """The sum of e^{−(ε/2)·(U + V)} over all noise beyond the ends.

    `low` buckets are at the lower end. Their distances below this end add up to U. `high` buckets
    are at the upper end. Their distances above this end add up to V. U − V is `excess`.
    """
    above = max(0, -excess)

    def term() -> Decimal:
        ways = _ways(excess + above, low) * _ways(above, high)
        return ways * root ** (excess + 2 * above)

    total = last = term()
    while low and high and last > total.scaleb(-_LISTED_DIGITS):
        above += 1
        last = term()
        total += last
    return total


def _ways(total: int, parts: int) -> int:
    """The number of ways to write `total` as a sum of `parts` numbers ≥ 0."""
    return math.comb(total + parts - 1, parts - 1) if parts else int(total == 0)
