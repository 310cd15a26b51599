"""Densities from histograms: a histogram protocol counts people in bins.

Notation    n people hold numbers in [low, high]. There are K bins of equal width, and ĉ(b) is the
            unbiased estimate of the number of people in bin b. β is the smoothness of the density,
            and r = ⌈β⌉. V is the variance of ĉ(b) due to privacy noise when people are spread
            evenly over the bins.
Randomizer  The randomizer of the histogram protocol, applied to the bin of a person's number. The
            number `high` belongs to the last bin.
Analyzer    At a point t, take the r nearest bins. Take the polynomial of degree r − 1 whose average
            over each of these bins is the estimated density of the bin. The estimated density at t
            is the value of this polynomial: f̂(t) = K/(n(high−low))·Σ_b A(t,b)ĉ(b). The weights
            A(t,b) do not depend on the data. If r = 1, f̂ is constant on each bin.
Privacy     The privacy of the histogram protocol.
Error       f̂ is an unbiased estimate of the density that the same polynomials give for the exact
            counts. Suppose that people are drawn from a population, and that the range is scaled to
            [0,1]. Then the mean squared error of f̂ as an estimate of the population's density is
            about

                (π/K)^{2β}/6 + K²V/n² + K/n.

            The three terms are due to bias, privacy noise and sampling. K is the integer that
            minimizes the sum, so it does not depend on the data. The bias term is computed for the
            density 1 − cos(2πx), which rises and falls once over the range. For r = 1 and many
            bins, this term is exact. A density that varies faster would need more bins. If V grows
            like n, K grows like n^{1/(2β+2)}. If V does not grow, K grows like n^{1/(2β+1)}.
            Standard errors and intervals include privacy noise. With `sampling=True`, intervals
            also include the sampling error. Standard errors and intervals do not include the bias.
Messages    The messages of the histogram protocol.
"""

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.bucket_sums import KnownVariances
from headcount.core.budget import Trust
from headcount.core.cached import cached_property
from headcount.core.errors import Infeasible, InvalidParameter
from headcount.core.estimate import Answer, DensityError, ErrorLaw
from headcount.core.estimator import Estimator
from headcount.core.guarantee import Guarantee, PrivacyCurve
from headcount.core.influence import Shifts
from headcount.core.messages import Alphabet, Messages
from headcount.core.protocol import Protocol
from headcount.core.randomizer import BundleLaw, Randomizer
from headcount.core.shuffler import Shuffler
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Holding, Task
from headcount.core.tasks.density import Density
from headcount.core.tasks.histogram import Histogram
from headcount.protocols.registry import own_names

MOST_BINS = 4096
_CHUNK = 1 << 15  # the number of values whose bins are computed at a time


# Randomizer -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bins:
    """The K equal bins of a range."""

    task: Density
    number: int  # K

    def of(self, values: NDArray[Any]) -> NDArray[Any]:
        """The bin of each value, in the encoding of a histogram."""
        out = np.empty(len(values), dtype=np.min_scalar_type(self.number - 1))
        for start in range(0, len(values), _CHUNK):  # a chunk stays in the cache
            below = self.task.places(values[start : start + _CHUNK])
            below *= self.number
            out[start : start + _CHUNK] = np.minimum(below, self.number - 1, out=below)
        return out

    def holding(self, held: Holding) -> Holding:
        """The number of people in each bin."""
        counts = np.zeros(self.number, dtype=np.int64)
        np.add.at(counts, self.of(held.values), held.counts)
        return Holding(np.arange(self.number), counts)


@dataclass(frozen=True)
class BinRandomizer(Randomizer):
    """Applies the randomizer of a histogram protocol to the bin of a person's number."""

    bins: Bins
    histogram: Randomizer

    @property
    def alphabet(self) -> Alphabet:
        return self.histogram.alphabet

    @property
    def fixed_messages(self) -> int | None:
        return self.histogram.fixed_messages

    @property
    def messages_per_user(self) -> float:
        return self.histogram.messages_per_user

    def send(self, encoded: NDArray[Any], source: Source) -> Messages:
        return self.histogram.send(self.bins.of(encoded), source)

    def law(self, value: float) -> BundleLaw | None:
        return self.histogram.law(int(self.bins.of(np.array([value]))[0]))

    def fewer_messages(self, encoded: NDArray[Any]) -> int:
        return self.histogram.fewer_messages(self.bins.of(encoded))

    def overflow(self, slots: int) -> float:
        return self.histogram.overflow(slots)


# Analyzer and its error -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """The weights A(t,b) of the analyzer. Row t has the weights of the r bins from first[t] on."""

    bins: int
    first: NDArray[np.int64]
    weights: NDArray[np.float64]

    @classmethod
    def of(cls, places: NDArray[np.float64], bins: int, order: int) -> "Reconstruction":
        """The weights at these points of [0, 1], for polynomials with `order` coefficients."""
        scaled = places * bins
        first = np.clip(np.floor(scaled - order / 2 + 0.5), 0, bins - order).astype(np.int64)
        # `edges` are the edges of the r bins, measured from the middle of all r bins. `averages`
        # are the averages of 1, x, x², and so on over each bin.
        edges = np.arange(order + 1) - order / 2
        powers = np.arange(1, order + 1)
        averages = np.diff(edges[:, None] ** powers, axis=0) / powers
        inside = np.vander(scaled - first - order / 2, order, increasing=True)
        return cls(bins, first, inside @ np.linalg.inv(averages))

    @cached_property
    def columns(self) -> NDArray[np.int64]:
        """The bins to which the weights of each row belong."""
        bins: NDArray[np.int64] = self.first[:, None] + np.arange(self.weights.shape[1])
        return bins

    @cached_property
    def matrix(self) -> Any:
        from scipy import sparse  # loaded here, since it is slow to load

        points, order = self.weights.shape
        ends = np.arange(0, points * order + 1, order)
        return sparse.csr_array(
            (self.weights.ravel(), self.columns.ravel(), ends), shape=(points, self.bins)
        )

    @property
    def numbers(self) -> int:
        """The number of different values that the density can have on the grid."""
        points, order = self.weights.shape
        return len(np.unique(self.first)) if order == 1 else points


def spread(law: ErrorLaw, weights: Any) -> NDArray[np.float64]:
    """The standard errors of weighted sums of all counts. Each row of `weights` gives a sum."""
    if isinstance(law, KnownVariances):
        return law.combined(weights)
    squares = np.broadcast_to(law.standard_error, weights.shape[1]) ** 2
    independent: NDArray[np.float64] = np.sqrt(weights**2 @ squares)
    return independent


@dataclass(frozen=True, eq=False)
class BinnedError:
    """The error that privacy noise causes in a density that was reconstructed from bins.

    A margin is a multiple of the standard error. The multiple at a point is the largest multiple
    that any of the r bins for this point needs, and at least the multiple of the normal law. This
    choice is safe, because sums over bins have lighter tails than single bins.
    """

    bins: ErrorLaw  # the error of the counts in the bins
    reconstruction: Reconstruction = field(repr=False)
    scale: float  # the factor that converts counts to densities

    @cached_property
    def standard_error(self) -> NDArray[np.float64]:
        return self.scale * spread(self.bins, self.reconstruction.matrix)

    def margins(self, confidence: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        normal = -NormalDist().inv_cdf((1 - confidence) / 2)
        columns, up = self.reconstruction.columns, self.reconstruction.weights > 0
        below, above = (
            np.broadcast_to(margin / self.bins.standard_error, self.reconstruction.bins)[columns]
            for margin in self.bins.margins(confidence)
        )
        # If a bin has a negative weight, a count that is too high makes the density too low.
        sides = np.where(up, below, above), np.where(up, above, below)
        low, high = (self.standard_error * np.maximum(side.max(axis=1), normal) for side in sides)
        return low, high


@dataclass(frozen=True)
class BinnedDensity(Estimator):
    """Reconstructs the density from the counts of a histogram's estimator."""

    task: Density
    bins: Bins
    histogram: Estimator

    @cached_property
    def reconstruction(self) -> Reconstruction:
        order = min(math.ceil(self.task.smoothness), self.bins.number)
        return Reconstruction.of(self.task.places(self.task.grid), self.bins.number, order)

    def scale(self, users: int) -> float:
        """The factor that converts the count of a bin to its density."""
        return self.bins.number / (users * float(self.task.span))

    @property
    def tally_size(self) -> int:
        return self.histogram.tally_size

    @property
    def tally_modulus(self) -> int | None:
        return self.histogram.tally_modulus

    @property
    def most_users(self) -> int:
        return self.histogram.most_users

    @property
    def seconds_per_message(self) -> float:
        return self.histogram.seconds_per_message

    def count(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        return self.histogram.count(payload)

    def simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        return self.histogram.simulate(self.bins.holding(held), source)

    @property
    def simulates_exactly(self) -> bool:
        return self.histogram.simulates_exactly

    def unbiased(self, tally: Tally, source: Source | None = None) -> Answer:
        return self.histogram.unbiased(tally, source)

    @property
    def adds_noise(self) -> bool:
        return self.histogram.adds_noise

    def answer(self, users: int, unbiased: Answer) -> Answer:
        return self.scale(users) * (self.reconstruction.matrix @ unbiased)

    def shifts(self, users: int, alphabet: Alphabet) -> Shifts:
        bins = self.histogram.shifts(users, alphabet)
        return bins.combined(self.reconstruction.matrix.toarray()).scaled(self.scale(users))

    def standard_error(self, users: int, held: Holding | None) -> float:
        if held is not None:
            counts = self.bins.holding(held).counts.astype(np.float64)
            return float(self._noise(users, counts).standard_error.max())
        # The variance is linear in the counts, so it is largest with everybody in one bin. That
        # bin may be one of the r bins from which a point is reconstructed, or any other bin.
        order = self.reconstruction.weights.shape[1]
        worst = [
            spread(
                self.histogram.error_law(
                    users, users * (np.arange(order) == own).astype(np.float64)
                ),
                self.reconstruction.weights,
            ).max()
            for own in range(order + (self.bins.number > order))
        ]
        return self.scale(users) * float(max(worst))

    def error_law(self, users: int, unbiased: Answer) -> DensityError:
        # One person is added to every bin, because a bin that seems empty may not be empty.
        shares = np.maximum(unbiased, 0.0) + 1
        shares /= shares.sum()
        # The first three moments of A(t,b), where b is the bin of a randomly drawn person.
        first, second, third = (self.reconstruction.matrix**power @ shares for power in (1, 2, 3))
        variance = np.maximum(second - first**2, 0.0)
        skew = (third - 3 * first * second + 2 * first**3) / np.maximum(variance, 2.0**-50)
        return DensityError(
            noise=self._noise(users, unbiased),
            sampling_error=self.scale(users) * np.sqrt(users * variance),
            numbers=self.reconstruction.numbers,
            sampling_skew=self.scale(users) * skew,
        )

    def _noise(self, users: int, counts: Answer) -> BinnedError:
        law = self.histogram.error_law(users, counts)
        return BinnedError(law, self.reconstruction, self.scale(users))

    def truth(self, held: Holding) -> Answer:
        return self.answer(held.users, self.bins.holding(held).counts.astype(np.float64))

    def answer_range(self, users: int) -> tuple[float, float]:
        if self.reconstruction.weights.shape[1] > 1:
            return super().answer_range(users)
        # The density is largest if everybody is in one bin.
        return 0.0, self.bins.number / float(self.task.span)

    def squared_error(self, users: int, periods: int) -> float:
        """The mean squared error for a range scaled to [0,1].

        The density of the population is assumed to rise and fall `periods` times over the range.
        For one period, the module's docstring states the error. The bias term is at most ½.
        """
        number, smoothness = self.bins.number, self.task.smoothness
        even = self.histogram.error_law(users, np.full(number, users / number))
        noise = float(np.max(even.standard_error))
        # (periods·π/K)^{2β}/6 + K²V/n² + K/n
        bias: float = min((periods * math.pi / number) ** (2 * smoothness) / 6, 0.5)
        return bias + (number * noise / users) ** 2 + number / users

    def ranking_error(self, users: int) -> float:
        return math.sqrt(self.squared_error(users, periods=2) / float(self.task.span))

    def extremes(self, users: int, confidence: float) -> Iterator[Answer]:
        """Counts with everybody in one bin, or with some of the people in the next bin.

        The bins that are tried are those from which the first, the middle and the last point of the
        grid are reconstructed.
        """
        deviations = -NormalDist().inv_cdf((1 - confidence) / 2)
        error = self.histogram.standard_error(users, None)
        columns = self.reconstruction.columns
        for own in np.unique(columns[[0, len(columns) // 2, -1]]):
            alone = (np.arange(self.bins.number) == own).astype(np.float64)
            for reach in (0.0, deviations, 2 * deviations):
                elsewhere = min(reach * error, users / 2)
                yield (users - elsewhere) * alone + elsewhere * np.roll(alone, 1)


# Calibration and privacy ----------------------------------------------------------------------


@dataclass(frozen=True)
class DensityHistogram(Protocol):
    """A density protocol that counts people in bins. A subclass chooses the histogram protocol."""

    tasks: ClassVar[tuple[type[Task], ...]] = (Density,)

    task: Density
    bins: int | None = None  # the number of bins; by default, the number with the smallest error

    def check_options(self) -> None:
        if self.bins is not None:
            bins = checks.whole("bins", self.bins, low=2, high=MOST_BINS)
            object.__setattr__(self, "bins", bins)

    @abstractmethod
    def counting(self, bins: int) -> Protocol:
        """The histogram protocol for this number of bins."""

    @cached_property
    def inner(self) -> Protocol:
        """The histogram protocol that people run."""
        return self.counting(self.bins or self.best_bins())

    @property
    def least_bins(self) -> int:
        """The least number of bins that the polynomials need."""
        return max(2, math.ceil(self.task.smoothness))

    def best_bins(self) -> int:
        """The number K of bins with the smallest error."""
        # As K grows, the error falls up to the best K and then rises. Some protocols take a long
        # time to calibrate for a large K. So large K are tried only if smaller K are not enough.
        low = high = self.least_bins
        while high < MOST_BINS and not self._enough(high):
            low, high = high + 1, min(2 * high, MOST_BINS)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._enough(middle) else (middle + 1, high)
        return low

    def _enough(self, bins: int) -> bool:
        """Whether one more bin would not reduce the error."""
        return self._squared_error(bins) <= self._squared_error(bins + 1)

    def _squared_error(self, bins: int) -> float:
        try:
            histogram = self.counting(bins).estimator
        except Infeasible:
            return math.inf
        estimator = BinnedDensity(self.task, Bins(self.task, bins), histogram)
        return estimator.squared_error(self.crowd.users, periods=1)

    @cached_property
    def randomizer(self) -> BinRandomizer:
        return BinRandomizer(Bins(self.task, self.inner.task.domain), self.inner.randomizer)

    @cached_property
    def estimator(self) -> BinnedDensity:
        return BinnedDensity(self.task, self.randomizer.bins, self.inner.estimator)

    @property
    def shuffler(self) -> Shuffler:
        return self.inner.shuffler

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"bins": self.randomizer.bins.number, **self.inner.parameters}

    @property
    def curve(self) -> PrivacyCurve:
        return self.inner.curve

    @property
    def guarantee(self) -> Guarantee:
        return self.inner.guarantee

    @property
    def local_epsilon(self) -> float:
        return self.inner.local_epsilon


def check_histogram(name: str, trust: Trust) -> None:
    """Raise an error unless Headcount has a histogram protocol of this name and trust model.

    The error of a density depends on the correlations between the errors of bins. Protocols from
    outside Headcount do not state these correlations.
    """
    known = own_names(Histogram(2), trust)
    if name not in known:
        raise InvalidParameter(f"`histogram` must be one of {', '.join(known)}, got {name!r}")
