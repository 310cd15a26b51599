"""A density from its first Fourier coefficients, with k random signs from each person (Duchi,
Jordan, Wainwright 2018, section 5.2.2, and their sampler for vectors in a cube).

Notation    u ∈ [0,1] is a person's number, scaled from [low, high]. n is the number of people, and
            β is the smoothness. The basis functions are φ_j(u) = √2·cos(π(j+1)u) for odd j and
            √2·sin(πju) for even j. They have whole periods on [0,1] and are orthonormal, and
            |φ_j| ≤ √2. The coefficients are θ_j = E φ_j(u) for j = 1, …, k. Their number k is odd.
Randomizer  Round each φ_j(u) to v_j ∈ {−√2, √2} at random, without bias. Draw z ∈ {−1,1}^k
            uniformly. Draw a sign T, which is + with probability 1 − t/2^64, near e^ε/(1+e^ε). Send
            z if ⟨z,v⟩ has the sign T, and −z otherwise. Since k is odd, ⟨z,v⟩ is never 0.
Analyzer    The estimate of θ_j is θ̂_j = B·(mean of z_j), with B = √2·C_k/(1 − 2t/2^64). Here
            C_k = 2^{k−1}/binom(k−1, (k−1)/2) = k/E|⟨z,v⟩/√2|, near √(πk/2). The estimated density
            is (1 + Σ θ̂_j φ_j)/(high−low).
Privacy     Pure: given v, all z with ⟨z,v⟩ > 0 are equally likely, and so are all other z. The
            ratio of the two probabilities is (2^64−t)/t ≤ e^ε. This ratio is also a bound for every
            mixture over v. For k = 1 and k = 3, some numbers u attain the bound. For larger k it is
            only an upper bound, because v is random even for a given u. For the same reason, the
            rest of the privacy curve is only an upper bound for k > 1.
Error       The estimate is unbiased for 1 + Σ_{j≤k} θ_j φ_j. Given v, and so given u,
            E[z_i z_j] = 0 for i ≠ j, because z and −z have the same product z_i z_j. So at a place
            s the variance is (B²·Σ φ_j(s)² − (Σ φ_j(u)φ_j(s))²)/n, averaged over people. If people
            are drawn from a population, the variance around the population's value is
            (B²·Σ φ_j(s)² − (Σ θ_j φ_j(s))²)/n. Both variances are at most B²·Σ φ_j(s)²/n, which is
            the stated variance. The stated variance includes the sampling error.
            The bias comes from the terms that are left out. Assume that the density, repeated
            periodically, is smooth where high meets low, and that it is no rougher than
            1 + cos(4πu), which rises and falls twice. Let m be the number of periods of a term.
            Then Σ m^{2β}·θ² ≤ 4^β/2 over all terms, and ∫ bias² ≤ ((k+1)/4)^{−2β}/2. k is the odd
            number that minimizes the sum of this bound and of the variance kB²/n. In the paper, k
            is the odd number nearest to (nε²)^{1/(2β+2)}. The integrated squared error falls like
            (nε²)^{−2β/(2β+2)}.
Messages    1 message of k bits. Bit j is set if z_j is +1.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.divergence import PointCurve
from headcount.core import checks
from headcount.core.budget import Trust
from headcount.core.cached import cached_property
from headcount.core.errors import InvalidParameter
from headcount.core.estimate import Answer, DensityError, NormalError
from headcount.core.estimator import Estimator
from headcount.core.guarantee import Guarantee
from headcount.core.influence import Shifts
from headcount.core.messages import Alphabet, Messages
from headcount.core.promise import promise
from headcount.core.protocol import Protocol
from headcount.core.randomizer import MOST_BUNDLES, BundleLaw, Randomizer
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Holding
from headcount.core.tasks.density import Density
from headcount.protocols import packed_bits
from headcount.protocols.responses import lie_weight, ratio_epsilon
from headcount.randomness.draws import WHOLE, bernoulli
from headcount.randomness.totals import binomials

MOST_TERMS = 1023
_DIGITS = 53  # the binary digits of the probability that a basis value is rounded up
_PEOPLE = 1 << 13  # basis values of this many people are computed at a time, to stay in the cache
_SENT = 1 << 20  # with at most this many bits, a simulation draws all messages


# Randomizer -----------------------------------------------------------------------------------


def waves(places: NDArray[np.float64], terms: int) -> Iterator[NDArray[np.float64]]:
    """The waves φ_j/√2 at these places, for j = 1, …, k.

    These are the cosine and sine of one period, then those of two periods, and so on.
    """
    angle = 2 * math.pi * places
    first_cosine, first_sine = np.cos(angle), np.sin(angle)
    cosine, sine = first_cosine, first_sine
    for j in range(1, terms + 1):
        yield cosine if j % 2 else sine
        if j % 2 == 0:  # angle-sum formulas are ten times faster than new cosines
            cosine, sine = (
                cosine * first_cosine - sine * first_sine,
                sine * first_cosine + cosine * first_sine,
            )


def _rounded_up(wave: NDArray[np.float64]) -> NDArray[np.uint64]:
    """The probability (1 + wave)/2 that a wave is rounded up to 1, times 2^53.

    The error of this probability is about 10^−13, because it is computed in floats. The error does
    not harm privacy, which does not depend on how waves are rounded.
    """
    scale = 2.0 ** (_DIGITS - 1)
    weights: NDArray[np.uint64] = np.rint((1 + np.clip(wave, -1, 1)) * scale).astype(np.uint64)
    return weights


@dataclass(frozen=True)
class SignRandomizer(Randomizer):
    """Sends k random signs. With probability 1 − t/2^64, most of them agree with the signs of v."""

    task: Density
    terms: int  # k
    weight: int  # t

    fixed_messages = 1

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet.packed(self.terms)

    @property
    def lie(self) -> Fraction:
        """The probability q = t/2^64 that most of the signs do not agree with those of v."""
        return Fraction(self.weight, WHOLE)

    def send(self, encoded: NDArray[Any], source: Source) -> Messages:
        terms, people = self.terms, len(encoded)
        width = packed_bits.row_bytes(terms)
        rows = source.integers(people * width, np.uint8).reshape(people, width)
        packed_bits.cleared(rows, terms)
        lies = bernoulli(source, people, self.weight).view(np.bool_)
        for start in range(0, people, _PEOPLE):
            piece = slice(start, start + _PEOPLE)
            places = self.task.places(encoded[piece])
            differing = packed_bits.row_sums(rows[piece] ^ self._rounded(places, source))
            # ⟨z,v⟩ < 0 if more than half of the signs differ.
            wrong = (2 * differing > terms) != lies[piece]
            rows[piece] ^= wrong.view(np.uint8)[:, None] * np.uint8(255)
        return Messages.one_each(packed_bits.as_payload(packed_bits.cleared(rows, terms)))

    def _rounded(self, places: NDArray[np.float64], source: Source) -> NDArray[np.uint8]:
        """The signs of v, as rows of bits."""
        rows = np.zeros((packed_bits.row_bytes(self.terms), len(places)), dtype=np.uint8)
        for j, wave in enumerate(waves(places, self.terms)):
            uniforms = source.integers(len(places), np.uint64) >> np.uint64(64 - _DIGITS)
            up = uniforms < _rounded_up(wave)
            rows[j >> 3] |= up.view(np.uint8) << np.uint8(j & 7)
        return np.ascontiguousarray(rows.T)

    def law(self, value: float) -> BundleLaw | None:
        """The law P(z) = 2^−(k−1)·(q + (1−2q)·P(⟨z,v⟩ > 0))."""
        terms, lie = self.terms, self.lie
        if 2**terms > MOST_BUNDLES:
            return None
        places = self.task.places(np.array([value]))
        ups = [int(_rounded_up(wave)[0]) for wave in waves(places, terms)]
        out: dict[Any, Fraction] = {}
        for bits in product((0, 1), repeat=terms):
            # The law of the number of signs that v and z have in common. After i signs, the entries
            # are probabilities times 2^(53i).
            agreeing = [1]
            for bit, up in zip(bits, ups, strict=True):
                same = up if bit else 2**_DIGITS - up
                other = 2**_DIGITS - same
                agreeing = [
                    more * same + less * other
                    for more, less in zip([0, *agreeing], [*agreeing, 0], strict=True)
                ]
            most = Fraction(sum(agreeing[terms // 2 + 1 :]), 2 ** (_DIGITS * terms))
            chance = (lie + (1 - 2 * lie) * most) / 2 ** (terms - 1)
            out[((packed_bits.message(np.array(bits)), 1),)] = chance
        return out


# Analyzer and its error -----------------------------------------------------------------------


@dataclass(frozen=True)
class SeriesError(DensityError):
    """The error of the series. Its noise is stated for the worst data, and already includes the
    error of sampling a crowd from a population.
    """

    def population_margins(self, confidence: float) -> tuple[Answer, Answer]:
        return self.margins(confidence)


@dataclass(frozen=True)
class SeriesEstimator(Estimator):
    """Adds up k basis functions, each multiplied by B and by the mean of its signs."""

    task: Density
    signs: SignRandomizer

    simulates_exactly = False
    worst_is_attained = False  # the stated variance is an upper bound, which data need not attain

    @cached_property
    def amplitude(self) -> float:
        """The factor B by which mean signs are multiplied."""
        terms = self.signs.terms
        spread = Fraction(1 << (terms - 1), math.comb(terms - 1, terms // 2))
        return math.sqrt(2) * float(spread / (1 - 2 * self.signs.lie))

    @cached_property
    def squares(self) -> NDArray[np.float64]:
        """The sum Σ φ_j² at each point of the grid."""
        out = np.zeros(self.task.points)
        for wave in self._waves_on_grid():
            out += 2 * wave**2
        return out

    def _waves_on_grid(self) -> Iterator[NDArray[np.float64]]:
        return waves(self.task.places(self.task.grid), self.signs.terms)

    @property
    def tally_size(self) -> int:
        return self.signs.terms

    def count(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        terms = self.signs.terms
        return packed_bits.column_sums(packed_bits.as_rows(payload, terms), terms)

    def simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        """A simulated tally. If there are few bits, all messages are drawn, which is exact.

        Otherwise each sign is drawn from its law, with probabilities rounded to 2^−53. The
        covariance −φ_iφ_j/B² of two signs is ignored. If many people hold about the same number,
        the variance of the estimate near that number is then up to 50 % too large.
        """
        terms = self.signs.terms
        if held.users * terms <= _SENT:
            everybody = np.repeat(held.values, held.counts)
            return self.count(self.signs.send(everybody, source).payload)
        places = self.task.places(held.values)
        slope = math.sqrt(2) / self.amplitude
        return np.array(
            [
                binomials(source, held.counts, _rounded_up(slope * wave), _DIGITS).sum()
                for wave in waves(places, terms)
            ]
        )

    def unbiased(self, tally: Tally, source: Source | None = None) -> Answer:
        means = (2 * tally.counts - tally.users) / tally.users
        return self._series(self.amplitude * means)

    def _series(self, coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
        """The density (1 + Σ θ_j φ_j)/(high−low) at each point of the grid."""
        out = np.ones(self.task.points)
        for coefficient, wave in zip(coefficients, self._waves_on_grid(), strict=True):
            out += math.sqrt(2) * coefficient * wave
        return out / float(self.task.span)

    def shifts(self, users: int, alphabet: Alphabet) -> Shifts:
        """A person adds B·Σ z_j φ_j(s)/n to the estimate at s. On average, an honest person with
        the number u adds Σ φ_j(u)φ_j(s)/n. All u of the grid are tried.
        """
        grid = np.array(list(self._waves_on_grid()))
        signs = self.amplitude * math.sqrt(2) * np.abs(grid).sum(axis=0)
        honest = 2 * (grid.T @ grid)
        alone = Shifts(signs, -signs, honest=(honest.min(axis=0), honest.max(axis=0)))
        return alone.scaled(1 / (users * float(self.task.span)))

    def standard_error(self, users: int, held: Holding | None) -> float:
        variance = self.amplitude**2 * self.squares
        if held is not None:
            variance -= self._known(held)
        return math.sqrt(float(variance.max()) / users) / float(self.task.span)

    def _known(self, held: Holding) -> NDArray[np.float64]:
        """The mean over people of (Σ φ_j(u)φ_j(s))², for every s of the grid."""
        # Sum the products φ_i(u)φ_j(u) over people first. The mean is then a quadratic form.
        terms = self.signs.terms
        products = np.zeros((terms, terms))
        for start in range(0, len(held.values), _PEOPLE):
            places = self.task.places(held.values[start : start + _PEOPLE])
            matrix = np.array(list(waves(places, terms)))
            products += 2 * (matrix * held.counts[start : start + _PEOPLE]) @ matrix.T
        grid = np.array(list(self._waves_on_grid()))
        means: NDArray[np.float64] = 2 * (grid * (products @ grid)).sum(axis=0) / held.users
        return means

    def error_law(self, users: int, unbiased: Answer) -> SeriesError:
        span = float(self.task.span)
        scale = self.amplitude / span
        # One bit of one person changes the estimate by at most 2B·√2/n.
        noise = NormalError(
            scale * np.sqrt(self.squares / users), step=2 * math.sqrt(2) * scale / users
        )
        # `drawn` is the variance of Σ φ_j(u)φ_j(s) if the density is nearly constant around s.
        density = span * unbiased
        drawn = np.maximum(density * self.squares - (density - 1) ** 2, 0.0)
        return SeriesError(noise, np.sqrt(drawn / users) / span, self.task.points)

    def truth(self, held: Holding) -> Answer:
        places, shares = self.task.places(held.values), held.counts / held.users
        crowd = waves(places, self.signs.terms)
        return self._series(np.array([math.sqrt(2) * float(wave @ shares) for wave in crowd]))

    def squared_error(self, users: int) -> float:
        """The mean squared error ((k+1)/4)^{−2β}/2 + kB²/n, on a range scaled to [0,1]."""
        terms = self.signs.terms
        bias = math.pow((terms + 1) / 4, -2 * self.task.smoothness) / 2
        return bias + terms * self.amplitude**2 / users

    def ranking_error(self, users: int) -> float:
        return math.sqrt(self.squared_error(users) / float(self.task.span))

    def extremes(self, users: int, confidence: float) -> tuple[Answer, ...]:
        return (np.zeros(self.task.points),)  # the noise is the same for all data


# Calibration and privacy ----------------------------------------------------------------------


@dataclass(frozen=True)
class DensitySeries(Protocol):
    name = "local.density-series"
    trust = Trust.LOCAL
    tasks = (Density,)

    task: Density
    terms: int | None = None  # the number k of coefficients

    def check_options(self) -> None:
        if self.terms is not None:
            terms = checks.whole("terms", self.terms, low=1, high=MOST_TERMS)
            if terms % 2 == 0:  # then ⟨z,v⟩ could be 0, which has no sign
                raise InvalidParameter(f"`terms` must be odd, got {terms}")
            object.__setattr__(self, "terms", terms)

    @property
    def randomizer(self) -> SignRandomizer:
        return self.estimator.signs

    @cached_property
    def estimator(self) -> SeriesEstimator:
        if self.terms is not None:
            return self._series_of(self.terms)
        if self.calibration == "paper":
            exponent = 1 / (2 * self.task.smoothness + 2)
            near = math.pow(self.crowd.users * self.budget.epsilon**2, exponent)
            return self._series_of(min(2 * math.floor(near / 2) + 1, MOST_TERMS))
        choices = map(self._series_of, range(1, MOST_TERMS + 1, 2))
        return min(choices, key=lambda one: one.squared_error(self.crowd.users))

    def _series_of(self, terms: int) -> SeriesEstimator:
        return SeriesEstimator(self.task, SignRandomizer(self.task, terms, self._weight))

    @cached_property
    def _weight(self) -> int:
        """The weight t. With probability t/2^64, most signs do not agree with those of v."""
        return lie_weight(2, self.budget.epsilon)

    @property
    def parameters(self) -> Mapping[str, float]:
        signs = self.randomizer
        return {"terms": signs.terms, "lie_probability": float(signs.lie)}

    @cached_property
    def curve(self) -> PointCurve:
        # Of all ε-private mechanisms, randomized response has the largest privacy curve. So its
        # curve is an upper bound.
        return PointCurve(self.guarantee.epsilon, 0.0)

    @property
    def guarantee(self) -> Guarantee:
        return promise(
            self,
            "largest ratio of probabilities, given the rounded waves",
            epsilon=min(self.budget.epsilon, self.local_epsilon),
            exact=False,
        )

    @property
    def local_epsilon(self) -> float:
        lie = self.randomizer.lie
        return ratio_epsilon((1 - 2 * lie) / lie)
