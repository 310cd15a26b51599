"""A density by its first Fourier coefficients, from k random signs of each person (Duchi, Jordan,
Wainwright 2018, section 5.2.2, and their sampler for vectors in a cube).

Notation    u ∈ [0,1] where a person's number lies between low and high, n people, β the smoothness;
            φ_j(u) = √2·cos(π(j+1)u) for odd j, √2·sin(πju) for even j: waves of whole periods,
            orthonormal, |φ_j| ≤ √2. k odd, the number of coefficients θ_j = E φ_j(u), j = 1, …, k.
Randomizer  Round each φ_j(u) to v_j ∈ {−√2, √2} at random, without bias. Draw z ∈ {−1,1}^k
            uniformly, and let T be + with probability 1 − t/2^64, near e^ε/(1+e^ε). Send z if
            ⟨z,v⟩ has the sign T, else −z. With k odd, ⟨z,v⟩ is never 0.
Analyzer    θ̂_j = B·(mean of z_j), with B = √2·C_k/(1 − 2t/2^64); C_k = 2^{k−1}/binom(k−1, (k−1)/2),
            which is k/E|⟨z,v⟩/√2|, near √(πk/2). The density is (1 + Σ θ̂_j φ_j)/(high−low).
Privacy     Pure: given v, all z with ⟨z,v⟩ > 0 are equally likely, and all others, with odds of
            (2^64−t)/t ≤ e^ε; so too for every mixture over v. For k = 1 and 3 some numbers reach
            that ratio. Beyond it is a bound, and so is the rest of the curve for k > 1, since no
            number rounds to one v for sure.
Error       Unbiased for 1 + Σ_{j≤k} θ_j φ_j. Given v and so given u, two of the z are uncorrelated
            about 0 (z and −z lie on different sides): at a place s the variance is
            (B²·Σ φ_j(s)² − (Σ φ_j(u)φ_j(s))²)/n, averaged over people. If people are drawn from a
            population, around that one's: (B²·Σ φ_j(s)² − (Σ θ_j φ_j(s))²)/n. Both are at most
            B²·Σ φ_j(s)²/n, which is stated: sampling adds nothing to it.
            What is left out, of a density that goes on smoothly from high to low and is no rougher
            than 1 + cos(4πu), which rises and falls twice: its waves of m periods have
            Σ m^{2β}·θ² ≤ 4^β/2, and ∫ bias² ≤ ((k+1)/4)^{−2β}/2. k is the odd number that minimizes
            this and the variance kB²/n together; for the paper the one nearest to
            (nε²)^{1/(2β+2)}. The integrated squared error falls like (nε²)^{−2β/(2β+2)}.
Messages    1 of k bits, set where z_j is +1.
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
from headcount.core.guarantee import Guarantee
from headcount.core.messages import Alphabet, Messages
from headcount.core.old_form import OldForm
from headcount.core.randomizer import MOST_BUNDLES, BundleLaw
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Density, Holding
from headcount.protocols import packed_bits
from headcount.protocols.responses import lie_weight, ratio_epsilon
from headcount.randomness.draws import WHOLE, bernoulli
from headcount.randomness.totals import binomials

MOST_TERMS = 1023
_DIGITS = 53  # of the probability with which a wave is rounded up
_PEOPLE = 1 << 13  # whose waves are computed at a time: they stay in the cache
_SENT = 1 << 20  # bits, up to which a simulation makes the messages


@dataclass(frozen=True)
class SeriesError(DensityError):
    """The noise, stated for the worst numbers, has room for who was drawn."""

    def population_margins(self, confidence: float) -> tuple[Answer, Answer]:
        return self.margins(confidence)


@dataclass(frozen=True)
class DensitySeries(OldForm):
    name = "local.density-series"
    trust = Trust.LOCAL
    tasks = (Density,)
    fixed_messages = 1

    task: Density
    terms: int | None = None  # the number k

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.terms is not None:
            terms = checks.whole("terms", self.terms, low=1, high=MOST_TERMS)
            if terms % 2 == 0:  # what ⟨z,v⟩ = 0 shall mean would have to be drawn as well
                raise InvalidParameter(f"`terms` must be odd, got {terms}")
            object.__setattr__(self, "terms", terms)

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet.packed(self._terms)

    @property
    def tally_size(self) -> int:
        return self._terms

    @cached_property
    def _weight(self) -> int:
        """The number t."""
        return lie_weight(2, self.budget.epsilon)

    @property
    def _lie(self) -> Fraction:
        return Fraction(self._weight, WHOLE)

    @cached_property
    def _terms(self) -> int:
        """The number k."""
        if self.terms is not None:
            return self.terms
        if self.calibration == "paper":
            exponent = 1 / (2 * self.task.smoothness + 2)
            near = math.pow(self.crowd.users * self.budget.epsilon**2, exponent)
            return min(2 * math.floor(near / 2) + 1, MOST_TERMS)
        return min(range(1, MOST_TERMS + 1, 2), key=self._squared_error)

    def _squared_error(self, terms: int) -> float:
        """((k+1)/4)^{−2β}/2 + kB²/n, on a range scaled to [0,1]."""
        bias = math.pow((terms + 1) / 4, -2 * self.task.smoothness) / 2
        return bias + terms * self._amplitude(terms) ** 2 / self.crowd.users

    @property
    def expected_error(self) -> float:
        return math.sqrt(self._squared_error(self._terms) / float(self.task.span))

    worst_is_attained = False  # no number rounds to the worst signs for sure

    def _amplitude(self, terms: int) -> float:
        """The number B."""
        spread = Fraction(1 << (terms - 1), math.comb(terms - 1, terms // 2))
        return math.sqrt(2) * float(spread / (1 - 2 * self._lie))

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"terms": self._terms, "lie_probability": float(self._lie)}

    @property
    def guarantee(self) -> Guarantee:
        return self._promise(
            "largest ratio of the law given the rounded waves",
            epsilon=min(self.budget.epsilon, self.local_epsilon),
            exact=False,
        )

    @cached_property
    def curve(self) -> PointCurve:
        # Of all that is private with one ε, randomized response tells most.
        return PointCurve(self.guarantee.epsilon, 0.0)

    @property
    def local_epsilon(self) -> float:
        return ratio_epsilon((1 - 2 * self._lie) / self._lie)

    def law(self, value: float) -> BundleLaw | None:
        """P(z) = 2^−(k−1)·(q + (1−2q)·P(⟨z,v⟩ > 0)), with q = t/2^64."""
        if 2**self._terms > MOST_BUNDLES:
            return None
        places = self.task.places(np.array([value]))
        ups = [int(_rounded_up(wave)[0]) for wave in waves(places, self._terms)]
        out: dict[Any, Fraction] = {}
        for bits in product((0, 1), repeat=self._terms):
            # How many signs of v are those of z: chances over 2^53 for each sign so far.
            agreeing = [1]
            for bit, up in zip(bits, ups, strict=True):
                same = up if bit else 2**_DIGITS - up
                other = 2**_DIGITS - same
                agreeing = [
                    more * same + less * other
                    for more, less in zip([0, *agreeing], [*agreeing, 0], strict=True)
                ]
            most = Fraction(sum(agreeing[self._terms // 2 + 1 :]), 2 ** (_DIGITS * self._terms))
            chance = (self._lie + (1 - 2 * self._lie) * most) / 2 ** (self._terms - 1)
            out[((packed_bits.message(np.array(bits)), 1),)] = chance
        return out

    def _target(self, held: Holding) -> Answer:
        places, shares = self.task.places(held.values), held.counts / held.users
        coefficients = [math.sqrt(2) * float(wave @ shares) for wave in waves(places, self._terms)]
        return self._series(np.array(coefficients))

    def _series(self, coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
        """1 + Σ θ_j φ_j on the grid, as a density of the task's numbers."""
        out = np.ones(self.task.points)
        for coefficient, wave in zip(coefficients, self._waves_on_grid(), strict=True):
            out += math.sqrt(2) * coefficient * wave
        return out / float(self.task.span)

    def _waves_on_grid(self) -> Iterator[NDArray[np.float64]]:
        return waves(self.task.places(self.task.grid), self._terms)

    @cached_property
    def _squares(self) -> NDArray[np.float64]:
        """Σ φ_j² on the grid."""
        out = np.zeros(self.task.points)
        for wave in self._waves_on_grid():
            out += 2 * wave**2
        return out

    def _standard_error(self, users: int, held: Holding | None) -> float:
        variance = self._amplitude(self._terms) ** 2 * self._squares
        if held is not None:
            variance -= self._known(held)
        return math.sqrt(float(variance.max()) / users) / float(self.task.span)

    def _known(self, held: Holding) -> NDArray[np.float64]:
        """The mean over people of (Σ φ_j(u)φ_j(s))², for every s of the grid."""
        # Their Σ φ_iφ_j first, piece by piece: then it is a quadratic form.
        products = np.zeros((self._terms, self._terms))
        for start in range(0, len(held.values), _PEOPLE):
            places = self.task.places(held.values[start : start + _PEOPLE])
            matrix = np.array(list(waves(places, self._terms)))
            products += 2 * (matrix * held.counts[start : start + _PEOPLE]) @ matrix.T
        grid = np.array(list(self._waves_on_grid()))
        means: NDArray[np.float64] = 2 * (grid * (products @ grid)).sum(axis=0) / held.users
        return means

    def _extremes(self, users: int, confidence: float) -> tuple[Answer, ...]:
        return (np.zeros(self.task.points),)  # the noise is stated for the worst numbers

    def _error_law(self, users: int, value: Answer) -> SeriesError:
        span = float(self.task.span)
        scale = self._amplitude(self._terms) / span
        # A bit of one person's moves the estimate by 2B·√2/n at the most.
        noise = NormalError(
            scale * np.sqrt(self._squares / users), step=2 * math.sqrt(2) * scale / users
        )
        # The variance of Σ φ_j(u)φ_j(s), where the density f(s) is about the same around s.
        density = span * value
        drawn = np.maximum(density * self._squares - (density - 1) ** 2, 0.0)
        return SeriesError(noise, np.sqrt(drawn / users) / span, self.task.points)

    def _randomize(self, encoded: NDArray[Any], source: Source) -> Messages:
        terms, people = self._terms, len(encoded)
        width = packed_bits.row_bytes(terms)
        rows = source.integers(people * width, np.uint8).reshape(people, width)
        packed_bits.cleared(rows, terms)
        lies = bernoulli(source, people, self._weight).view(np.bool_)
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
        rows = np.zeros((packed_bits.row_bytes(self._terms), len(places)), dtype=np.uint8)
        for j, wave in enumerate(waves(places, self._terms)):
            uniforms = source.integers(len(places), np.uint64) >> np.uint64(64 - _DIGITS)
            up = uniforms < _rounded_up(wave)
            rows[j >> 3] |= up.view(np.uint8) << np.uint8(j & 7)
        return np.ascontiguousarray(rows.T)

    def _tally(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        return packed_bits.column_sums(packed_bits.as_rows(payload, self._terms), self._terms)

    def _unbiased(self, tally: Tally, source: Source | None) -> Answer:
        means = (2 * tally.counts - tally.users) / tally.users
        return self._series(self._amplitude(self._terms) * means)

    @property
    def simulates_exactly(self) -> bool:
        return False

    def _simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        """From messages, where they are few. Else every sign has its law, with a probability
        rounded to 2^−53, but their covariance of −φ_iφ_j/B² is left out: where a crowd is in one
        place, the estimate spreads more there than it should, by up to half in variance.
        """
        if held.users * self._terms <= _SENT:
            return self._tally(self._randomize(np.repeat(held.values, held.counts), source).payload)
        places = self.task.places(held.values)
        slope = math.sqrt(2) / self._amplitude(self._terms)
        return np.array(
            [
                binomials(source, held.counts, _rounded_up(slope * wave), _DIGITS).sum()
                for wave in waves(places, self._terms)
            ]
        )


def waves(places: NDArray[np.float64], terms: int) -> Iterator[NDArray[np.float64]]:
    """φ_j/√2 at the places, for j = 1, …, k: cosine and sine of one period, of two, and so on."""
    angle = 2 * math.pi * places
    first_cosine, first_sine = np.cos(angle), np.sin(angle)
    cosine, sine = first_cosine, first_sine
    for j in range(1, terms + 1):
        yield cosine if j % 2 else sine
        if j % 2 == 0:  # by the angle sum: a tenth of the time that cosines take
            cosine, sine = (
                cosine * first_cosine - sine * first_sine,
                sine * first_cosine + cosine * first_sine,
            )


def _rounded_up(wave: NDArray[np.float64]) -> NDArray[np.uint64]:
    """(1 + wave)/2 as a number over 2^53: how likely a wave is rounded to 1, and not to −1.

    That floats compute it costs accuracy of about 10^−13, and no privacy: that does not depend on
    how the waves are rounded.
    """
    scale = 2.0 ** (_DIGITS - 1)
    weights: NDArray[np.uint64] = np.rint((1 + np.clip(wave, -1, 1)) * scale).astype(np.uint64)
    return weights
