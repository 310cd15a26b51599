"""The answer that is published: a value, how far off it may be, and what it cost."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Any, Protocol, TypeAlias

import numpy as np

from headcount.core import checks
from headcount.core.answer_tables import answer_table
from headcount.core.errors import InvalidParameter
from headcount.core.guarantee import Guarantee
from headcount.core.postprocessing import postprocessed
from headcount.core.table import Table

# A number, or for a histogram a vector with one for each bucket.
Answer: TypeAlias = Any


class ErrorLaw(Protocol):
    """The law of (unbiased estimate − truth), as far as it is known without the truth."""

    @property
    def standard_error(self) -> Answer: ...

    def margins(self, confidence: float) -> tuple[Answer, Answer]:
        """(a, b) such that −a ≤ estimate − truth ≤ b holds with at least this probability.

        For each bucket by itself, where there are several; numbers hold for all of them.
        """


@dataclass(frozen=True)
class NormalError:
    """An error near normal, on a lattice of the given step; the half step keeps coverage up."""

    standard_error: Answer
    step: float = 0.0

    def margins(self, confidence: float) -> tuple[Answer, Answer]:
        deviations = -NormalDist().inv_cdf((1 - confidence) / 2)
        margin = deviations * self.standard_error + self.step / 2
        return margin, margin


@dataclass(frozen=True)
class DensityError:
    """The error of a density on its grid: by privacy noise, and by who was drawn from the
    population. That a protocol smooths the density, which is a bias, is in neither of them.
    """

    noise: ErrorLaw
    sampling_error: Answer
    numbers: int  # on the grid that differ from each other, for what shall hold of all at once
    sampling_skew: Answer = 0.0  # third moment over variance of what sampling adds

    @property
    def standard_error(self) -> Answer:
        return self.noise.standard_error

    def margins(self, confidence: float) -> tuple[Answer, Answer]:
        return self.noise.margins(confidence)

    def population_margins(self, confidence: float) -> tuple[Answer, Answer]:
        """With what sampling adds, which is taken to be normal.

        As in a score interval its variance is that of each density which is tried: where few people
        were seen, more may have been expected. Moments of a sum say how fast it grows.
        """
        square = NormalDist().inv_cdf((1 - confidence) / 2) ** 2
        skew = square * self.sampling_skew / 2
        drawn = square * self.sampling_error**2 + skew**2
        below, above = self.margins(confidence)
        return np.sqrt(below**2 + drawn) + skew, np.sqrt(above**2 + drawn) - skew


@dataclass(frozen=True)
class Interval:
    """Where the true answer lies; for a histogram, `low` and `high` have an end for each bucket."""

    low: Answer
    high: Answer
    confidence: float

    def __contains__(self, value: Answer) -> bool:
        return bool(np.all(self.low <= value) and np.all(value <= self.high))

    def to_dict(self) -> dict[str, Any]:
        """The interval for JSON."""
        return {
            "low": _plain(self.low),
            "high": _plain(self.high),
            "confidence": self.confidence,
        }


@dataclass(frozen=True, eq=False)
class Estimate:
    """A private answer. It contains nothing that the guarantee does not cover.

    `value` is unbiased unless `postprocessing` names what was done to it; `unbiased_value` is what
    it was before. Intervals are those of the unbiased value. `standard_error` is that of the
    protocol's own answer; what `postprocess` changes later is not in it. For a histogram these are
    vectors, in the order of `buckets`.
    """

    task: str
    protocol: str
    value: Answer
    users: int
    guarantee: Guarantee
    answer_range: tuple[float, float]
    whole: bool
    error_law: ErrorLaw = field(repr=False)
    buckets: Sequence[int | str | float] | None = None
    edges: tuple[float, ...] | None = None  # between the buckets of a histogram of numbers
    total: float | None = None  # what the numbers of the answer add up to, where that is known
    postprocessing: tuple[str, ...] = ()
    unbiased_value: Answer = math.nan
    way: str = ""  # how the tally was made, in words; empty if the caller made it

    def __post_init__(self) -> None:
        if not self.postprocessing:
            object.__setattr__(self, "unbiased_value", self.value)

    @property
    def standard_error(self) -> Answer:
        """Root mean squared error of the protocol's answer, by privacy noise.

        Where it depends on the truth, it is the error for the truth that the answer makes likely;
        with the zero-exact analyzers, the largest error for any truth that is possible.
        """
        return _shaped(self.error_law.standard_error, self.value)

    @property
    def _sampled(self) -> bool:
        """Whether people can stand for a population of which the same is asked."""
        return self.task == "mean" or isinstance(self.error_law, DensityError)

    @property
    def sampling_error(self) -> Answer:
        """Of a mean: at most the standard deviation of the people's mean around that of the
        population they were drawn from, each independently. Of a density: about that of the
        people's, smoothed, around the population's, smoothed.

        Numbers in [low, high] of mean m have a variance of at most (m−low)(high−m).
        """
        if isinstance(self.error_law, DensityError):
            return _shaped(self.error_law.sampling_error, self.value)
        if not self._sampled:
            raise InvalidParameter(
                f"only a mean has a sampling error, or a density, got a {self.task}"
            )
        least, most = self.answer_range
        likely = min(max(self.unbiased_value, least), most)
        return math.sqrt((likely - least) * (most - likely) / self.users)

    def interval(
        self, confidence: float = 0.95, *, sampling: bool = False, simultaneous: bool = False
    ) -> Interval:
        """An interval that holds the true answer with this probability, in each bucket by itself;
        with `simultaneous=True` in all of them at once.

        At least with this one where the error's law is known exactly, close to it where the law is
        taken to be normal. It is cut to the answers that are possible
        (within range, whole if the task's are), which costs no coverage.

        The true answer is that of the people who took part. With `sampling=True` it is the mean of
        the population that they were drawn from at random, for the most widely spread values of
        such a mean: how they spread was not asked. Of a density it is that of the people, or of the
        population, as the protocol smooths it: the bias of smoothing is not in the interval, and
        what is negative after smoothing is below its end.
        """
        confidence = checks.confidence(confidence)
        # What may go wrong is divided among all buckets, whatever they have to do with each other.
        density = self.error_law if isinstance(self.error_law, DensityError) else None
        numbers = density.numbers if density else np.size(self.value)
        wrong = (1 - confidence) / (numbers if simultaneous else 1)
        if not sampling:
            low, high = self._ends(self.error_law.margins(1 - wrong))
        elif density:
            low, high = self._ends(density.population_margins(1 - wrong))
        else:
            # What may go wrong is divided between the two errors, the larger one first.
            drawn = self.sampling_error
            share = min(max(drawn / (float(self.standard_error) + drawn), 0.02), 0.98)
            low, high = self._ends(self.error_law.margins(1 - wrong * (1 - share)))
            low, high = self._population(low, high, wrong * share / 2)
        # What floats lose on the way must not push an end past the number that it stands for.
        size = np.maximum(np.abs(low), np.abs(high))
        if self.whole:
            grain = 2.0**-40 * np.maximum(1.0, size)
            inner = np.ceil(low - grain), np.floor(high + grain)
            some = inner[0] <= inner[1]
            low, high = np.where(some, inner[0], low), np.where(some, inner[1], high)
        else:
            low, high = low - 2.0**-50 * size, high + 2.0**-50 * size
        least, most = self.answer_range
        return Interval(
            _shaped(np.clip(low, least, most) + 0.0, self.value),  # + 0 turns −0 into 0
            _shaped(np.clip(high, least, most) + 0.0, self.value),
            confidence,
        )

    def _ends(self, margins: tuple[Answer, Answer]) -> tuple[Answer, Answer]:
        below, above = margins
        return np.asarray(self.unbiased_value - above), np.asarray(self.unbiased_value + below)

    def _population(self, low: Answer, high: Answer, half: float) -> tuple[Answer, Answer]:
        """Where the population's mean lies if the people's lies between `low` and `high`.

        The μ with |mean − μ| ≤ z·√((μ−least)(most−μ)/n), solved for μ. The mean is taken to be
        normal: of zeros and ones so rare that one or two are expected, it holds less often.
        """
        least, most = self.answer_range
        span, square = most - least, NormalDist().inv_cdf(half) ** 2 / self.users
        ends = []
        for end, sign in ((low, -1), (high, 1)):
            x = min(max((float(end) - least) / span, 0.0), 1.0)
            middle, spread = x + square / 2, math.sqrt(square * (x * (1 - x) + square / 4))
            ends.append(np.asarray(least + span * (middle + sign * spread) / (1 + square)))
        return ends[0], ends[1]

    def largest(self, count: int = 10) -> list[tuple[int | str | float, float]]:
        """The buckets with the largest values, and these: the heavy hitters of a histogram."""
        if self.buckets is None:
            raise InvalidParameter(f"only a histogram has largest buckets, got a {self.task}")
        order = np.argsort(-self.value, kind="stable")[
            : checks.whole("count", count, low=1, high=2**62)
        ]
        return [(self.buckets[int(at)], float(self.value[at])) for at in order]

    def postprocess(self, name: str) -> "Estimate":
        """The same estimate after a step of `core.postprocessing`: "clip", "norm-sub", "simplex" or
        "density". It is marked as such, and costs no privacy.
        """

        def step(value: Answer) -> Answer:
            values = np.asarray(value, dtype=np.float64)
            found = postprocessed(name, self.task, values, self.answer_range, self.total)
            return found if np.ndim(value) else float(found)

        return self.changed(name, step)

    def changed(self, name: str, change: Callable[[Answer], Answer]) -> "Estimate":
        """The same estimate with its value changed in any way, marked by a name."""
        return replace(self, value=change(self.value), postprocessing=(*self.postprocessing, name))

    def table(
        self, confidence: float = 0.95, *, sampling: bool = False, simultaneous: bool = False
    ) -> Table:
        """The answer with its interval; the largest buckets, or some points of a density."""
        return answer_table(self, confidence, sampling=sampling, simultaneous=simultaneous)

    def __str__(self) -> str:
        return f"{self.table()}\n\n{self._summary}"

    def _repr_html_(self) -> str:
        table = self.table()
        return replace(table, notes=(*table.notes, self._summary)).html()

    @property
    def _summary(self) -> str:
        changed = f", post-processed: {' and '.join(self.postprocessing)}" * bool(
            self.postprocessing
        )
        return f"{self.protocol}, {self.users:,} people{changed}; {self.guarantee}"

    def to_dict(
        self, confidence: float = 0.95, *, sampling: bool = False, simultaneous: bool = False
    ) -> dict[str, Any]:
        """The estimate for JSON, with an interval: see `interval`."""
        named: dict[str, Any] = {} if self.buckets is None else {"buckets": list(self.buckets)}
        named |= {} if self.edges is None else {"edges": list(self.edges)}
        return {
            "task": self.task,
            "protocol": self.protocol,
            **named,
            "value": _plain(self.value),
            "unbiased_value": _plain(self.unbiased_value),
            "postprocessing": list(self.postprocessing),
            "standard_error": _plain(self.standard_error),
            **({"sampling_error": _plain(self.sampling_error)} if self._sampled else {}),
            "interval": {
                **self.interval(confidence, sampling=sampling, simultaneous=simultaneous).to_dict(),
                **({"of": "population"} if sampling else {}),
                **({"simultaneous": True} if simultaneous else {}),
            },
            "users": self.users,
            **({"way": self.way} if self.way else {}),
            "guarantee": self.guarantee.to_dict(),
        }


def _shaped(numbers: Answer, like: Answer) -> Answer:
    """A number for a number, a vector for a vector."""
    if np.ndim(like) == 0:
        return float(numbers)
    return np.broadcast_to(np.asarray(numbers, dtype=np.float64), np.shape(like))


def _plain(answer: Answer) -> Any:
    """For JSON."""
    return answer.tolist() if isinstance(answer, np.ndarray) else answer
