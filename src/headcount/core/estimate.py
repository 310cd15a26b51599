"""The answer that is published: a value, its error, and its privacy guarantee."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

import numpy as np

from headcount.core import checks
from headcount.core.answer_tables import answer_table
from headcount.core.dates import iso_texts
from headcount.core.errors import InvalidParameter
from headcount.core.exported import Exported
from headcount.core.guarantee import Guarantee
from headcount.core.postprocessing import postprocessed
from headcount.core.table import Table, counted
from headcount.core.tasks.registry import uses_of
from headcount.core.tasks.uses import Uses

if TYPE_CHECKING:
    from headcount.core.contrasts.contrast import Contrast

# An answer is a number. For a histogram or a density, it is a vector with a number for each bucket
# or grid point.
Answer: TypeAlias = Any


class ErrorLaw(Protocol):
    """The law of the error (unbiased estimate − truth), as far as it can be known without the
    truth.
    """

    @property
    def standard_error(self) -> Answer: ...

    def margins(self, confidence: float) -> tuple[Answer, Answer]:
        """A pair (a, b) such that −a ≤ estimate − truth ≤ b holds with at least this probability.

        If there are several buckets, the inequality holds for each bucket separately. If a and b
        are numbers, they are the same for all buckets.
        """


@dataclass(frozen=True)
class NormalError:
    """An error that is approximately normal, on a lattice with the given step.

    Margins are larger by half a step, so that the lattice does not lower the coverage.
    """

    standard_error: Answer
    step: float = 0.0

    def margins(self, confidence: float) -> tuple[Answer, Answer]:
        deviations = -NormalDist().inv_cdf((1 - confidence) / 2)
        margin = deviations * self.standard_error + self.step / 2
        return margin, margin


@dataclass(frozen=True)
class DensityError:
    """The error of a density on its grid. It has two parts: privacy noise, and sampling from the
    population.

    A protocol also smooths the density. Smoothing causes a bias, which is not part of this error.
    """

    noise: ErrorLaw
    sampling_error: Answer
    # The number of different values on the grid. Simultaneous intervals divide the error
    # probability by this number.
    numbers: int
    sampling_skew: Answer = 0.0  # the sampling error's third moment divided by its variance

    @property
    def standard_error(self) -> Answer:
        return self.noise.standard_error

    def margins(self, confidence: float) -> tuple[Answer, Answer]:
        return self.noise.margins(confidence)

    def population_margins(self, confidence: float) -> tuple[Answer, Answer]:
        """The margins for noise and sampling error together. The sampling error is assumed to be
        normal.

        The margins give a score interval: each possible density is tested with its own variance.
        The variance grows with the density, so the upper and lower margins differ. `sampling_skew`
        says how fast the variance grows.
        """
        square = NormalDist().inv_cdf((1 - confidence) / 2) ** 2
        skew = square * self.sampling_skew / 2
        drawn = square * self.sampling_error**2 + skew**2
        below, above = self.margins(confidence)
        return np.sqrt(below**2 + drawn) + skew, np.sqrt(above**2 + drawn) - skew


@dataclass(frozen=True)
class Interval:
    """A confidence interval for the true answer. For a histogram or a density, `low` and `high` are
    vectors with an end for each bucket or grid point.
    """

    low: Answer
    high: Answer
    confidence: float

    def __contains__(self, value: Answer) -> bool:
        return bool(np.all(self.low <= value) and np.all(value <= self.high))

    def to_dict(self) -> dict[str, Any]:
        """The interval for JSON."""
        return {
            "low": plain(self.low),
            "high": plain(self.high),
            "confidence": self.confidence,
        }


@dataclass(frozen=True, eq=False)
class Estimate(Exported):
    """A private answer. Its guarantee covers all of its fields.

    `value` is unbiased unless `postprocessing` names a change. `unbiased_value` is the value before
    all changes. Intervals are computed from the unbiased value. `standard_error` is the error of
    the protocol's own answer, before any change by `postprocess`. For a histogram or a density,
    `value`, `unbiased_value` and `standard_error` are vectors in the order of `buckets`.
    """

    # Follows "standard_error" in files if errors have another unit than `value`.
    error_suffix: ClassVar[str] = ""

    task: str
    protocol: str
    value: Answer
    users: int
    guarantee: Guarantee
    answer_range: tuple[float, float]
    whole: bool
    error_law: ErrorLaw = field(repr=False)
    buckets: Sequence[int | str | float] | None = None
    edges: tuple[float, ...] | None = None  # the edges of the buckets, if buckets are bins
    total: float | None = None  # the sum of all numbers in the answer, if it is known
    postprocessing: tuple[str, ...] = ()
    unbiased_value: Answer = math.nan
    way: str = ""  # how the tally was made; empty if the caller made it
    column_names: tuple[str, ...] = ()  # the columns of a table that hold people's values
    # The largest number of rows of one person. If it is above 1, `users` counts rows.
    rows_per_person: int = 1
    # Whether the buckets are periods of time. Such buckets are shown in the order of time.
    in_time: bool = False

    def __post_init__(self) -> None:
        if not self.postprocessing:
            object.__setattr__(self, "unbiased_value", self.value)

    @property
    def standard_error(self) -> Answer:
        """The root mean squared error of the protocol's answer, due to privacy noise.

        If the error depends on the truth, the truth is estimated by the answer. The protocols whose
        names contain "zero-exact" state the largest error over all possible truths instead.
        """
        return _shaped(self.error_law.standard_error, self.value)

    @property
    def uses(self) -> Uses:
        """What the estimate can be used for."""
        return uses_of(self.task)

    @property
    def noun(self) -> str:
        """What `users` counts: "people", or "rows" if a person may have several."""
        return "rows" if self.rows_per_person > 1 else "people"

    @property
    def crowd(self) -> str:
        """The number of people or rows, in words."""
        return counted(self.users, "row" if self.rows_per_person > 1 else "person", self.noun)

    @property
    def _sampled(self) -> bool:
        """Whether the answer is a mean or a density. Such an answer always states its sampling
        error. For numbers that count people, see `_binomial`.
        """
        return self.uses.sampling == "widest" or isinstance(self.error_law, DensityError)

    @property
    def _binomial(self) -> bool:
        """Whether each number counts people, so that its sampling error is binomial."""
        return self.uses.sampling == "binomial"

    @property
    def sampling_error(self) -> Answer:
        """The standard deviation that comes from drawing people independently from a population.

        For a count or a bucket, it is the standard deviation of a binomial variable with the
        estimated share. For a mean, it is an upper bound: numbers in [low, high] with mean m have a
        variance of at most (m−low)(high−m). For a density, it is approximate. It measures how far
        the smoothed density of the people deviates from the smoothed density of the population.
        """
        if isinstance(self.error_law, DensityError):
            return _shaped(self.error_law.sampling_error, self.value)
        if self._binomial:
            share = np.clip(np.asarray(self.unbiased_value) / self.users, 0.0, 1.0)
            return _shaped(np.sqrt(self.users * share * (1 - share)), self.value)
        if not self._sampled:
            raise InvalidParameter(
                "only a count, a histogram, a table, a mean or a density has a sampling error, got "
                f"{checks.a_task(self.task)}"
            )
        least, most = self.answer_range
        likely = min(max(self.unbiased_value, least), most)
        return math.sqrt((likely - least) * (most - likely) / self.users)

    def interval(
        self, confidence: float = 0.95, *, sampling: bool = False, simultaneous: bool = False
    ) -> Interval:
        """An interval that contains the true answer with probability `confidence`.

        With several buckets, this probability holds for each bucket separately. With
        `simultaneous=True`, it holds for all buckets at once. The probability is at least
        `confidence` if the law of the error is known exactly. It is close to `confidence` if the
        law is assumed to be normal. The interval is cut to possible answers: it stays within the
        range, and its ends are whole numbers if all answers are. Cutting costs no coverage.

        The true answer is the answer for the people who took part. With `sampling=True`, it is the
        answer for the population from which these people were drawn at random. For a count or a
        bucket, it is the share of the population times the number of people who took part. The
        interval covers this product with the stated probability, whatever the share is, if the law
        of the noise is known and there are at most 2,000 buckets. Otherwise the interval is
        approximate. For a mean, the spread of the values is unknown, so the interval assumes the
        widest spread. For a density, the true answer is the density after the protocol's smoothing.
        The interval does not include the bias of smoothing. A smoothed density may be negative at
        some points. There the smoothed density lies below the interval, which is cut at 0.
        """
        confidence = checks.confidence(confidence)
        # The error probability is divided among all buckets (Bonferroni). Buckets may be dependent.
        density = self.error_law if isinstance(self.error_law, DensityError) else None
        numbers = density.numbers if density else np.size(self.value)
        wrong = (1 - confidence) / (numbers if simultaneous else 1)
        if not sampling:
            low, high = self._ends(self.error_law.margins(1 - wrong))
        elif density:
            low, high = self._ends(density.population_margins(1 - wrong))
        elif self._binomial:
            return self._population_counts(wrong, confidence)
        else:
            # The error probability is divided between noise and sampling, in proportion to their
            # errors.
            drawn = self.sampling_error
            share = min(max(drawn / (float(self.standard_error) + drawn), 0.02), 0.98)
            low, high = self._ends(self.error_law.margins(1 - wrong * (1 - share)))
            low, high = self._population(low, high, wrong * share / 2)
        return self._possible(low, high, confidence)

    def _population_counts(self, wrong: float, confidence: float) -> Interval:
        """The interval of the population's shares times the number of people who took part."""
        from headcount.core.contrasts.side import Side

        counts = replace(self, task="count" if np.ndim(self.value) == 0 else "histogram")
        found = Side(counts).population_ends(1 - wrong)
        low, _, high = (np.array(ends) * self.users for ends in zip(*found, strict=True))
        if np.ndim(self.value) == 0:
            low, high = low[0], high[0]
        return Interval(_shaped(low, self.value), _shaped(high, self.value), confidence)

    def _possible(self, low: Answer, high: Answer, confidence: float) -> Interval:
        """The interval between these ends, cut to possible answers."""
        # Rounding errors of floats must not make the interval shorter.
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
        """The interval for the population mean, if the sample mean is between `low` and `high`.

        It contains every μ with |m − μ| ≤ z·√((μ−least)(most−μ)/n) for some possible sample mean m,
        where z is the normal quantile, and n is the number of people. The sample mean is assumed to
        be normal. If values are zeros and ones, and only one or two ones are expected, the coverage
        is lower than stated.
        """
        least, most = self.answer_range
        span, square = most - least, NormalDist().inv_cdf(half) ** 2 / self.users
        ends = []
        for end, sign in ((low, -1), (high, 1)):
            x = min(max((float(end) - least) / span, 0.0), 1.0)
            middle, spread = x + square / 2, math.sqrt(square * (x * (1 - x) + square / 4))
            ends.append(np.asarray(least + span * (middle + sign * spread) / (1 + square)))
        return ends[0], ends[1]

    def proportion(self, interval: Interval) -> tuple[float, float, float] | None:
        """The share of people that a count states, with the ends of its interval. `interval` is the
        interval of the count. None if the answer is not a single count of people.
        """
        single = self.uses.comparison == "share" and self.buckets is None
        if not single or self.rows_per_person > 1:
            return None
        return self.value / self.users, interval.low / self.users, interval.high / self.users

    def largest(self, count: int = 10) -> list[tuple[int | str | float, float]]:
        """The buckets with the largest values (the heavy hitters), each with its value."""
        if self.buckets is None:
            raise InvalidParameter(
                f"only a histogram has largest buckets, got {checks.a_task(self.task)}"
            )
        order = np.argsort(-self.value, kind="stable")[
            : checks.whole("count", count, low=1, high=2**62)
        ]
        return [(self.buckets[int(at)], float(self.value[at])) for at in order]

    def postprocess(self, name: str) -> "Estimate":
        """The same estimate after a step of `core.postprocessing`: "clip", "norm-sub", "simplex",
        "monotone" or "density". The new estimate names the step. The step costs no privacy.
        """

        def step(value: Answer) -> Answer:
            values = np.asarray(value, dtype=np.float64)
            changed = postprocessed(name, self.task, values, self.answer_range, self.total)
            return changed if np.ndim(value) else float(changed)

        return self.changed(name, step)

    def changed(self, name: str, change: Callable[[Answer], Answer]) -> "Estimate":
        """The same estimate with a changed value. `name` is the name of the change."""
        return replace(self, value=change(self.value), postprocessing=(*self.postprocessing, name))

    def __sub__(self, other: "Estimate") -> "Contrast":
        """The difference from an estimate about other people: see `difference`."""
        from headcount.core.contrasts.contrast import difference

        return difference(self, other) if isinstance(other, Estimate) else NotImplemented

    def __truediv__(self, other: "Estimate") -> "Contrast":
        """The ratio to an estimate about other people: see `ratio`."""
        from headcount.core.contrasts.contrast import ratio

        return ratio(self, other) if isinstance(other, Estimate) else NotImplemented

    def table(
        self, confidence: float = 0.95, *, sampling: bool = False, simultaneous: bool = False
    ) -> Table:
        """The answer with its interval. A long histogram or density is shown only in part."""
        return answer_table(self, confidence, sampling=sampling, simultaneous=simultaneous)

    def records(
        self, confidence: float = 0.95, *, sampling: bool = False, simultaneous: bool = False
    ) -> dict[str, list[Any]]:
        """The columns of a table with a row for each number, with the intervals of `interval`."""
        interval = self.interval(confidence, sampling=sampling, simultaneous=simultaneous)
        columns: dict[str, Any] = {} if self.buckets is None else {"bucket": list(self.buckets)}
        kind = {
            "confidence": interval.confidence,
            "interval_of": "population" if sampling else "crowd",
        }
        columns["value"] = self.value
        # For quantiles, `unbiased_value` has the shares from which the quantiles are read.
        if np.shape(self.unbiased_value) == np.shape(self.value):
            columns["unbiased_value"] = self.unbiased_value
        columns |= {
            f"standard_error{self.error_suffix}": self.standard_error,
            "low": interval.low,
            "high": interval.high,
            "users": self.users,
        }
        shares = self.proportion(interval)
        if shares is not None:
            columns |= dict(zip(("share", "share_low", "share_high"), shares, strict=True))
        columns |= kind
        rows = np.size(self.value)
        return {
            name: (np.asarray(values) if np.ndim(values) else np.full(rows, values)).tolist()
            for name, values in columns.items()
        }

    def __str__(self) -> str:
        return f"{self.table()}\n\n{self._summary}"

    def _repr_html_(self) -> str:
        table = self.table()
        return replace(table, notes=(*table.notes, self._summary)).html()

    @property
    def _counted(self) -> dict[str, Any]:
        """What JSON says about `users` if they are rows."""
        if self.rows_per_person == 1:
            return {}
        return {"users_are": self.noun, "rows_per_person": self.rows_per_person}

    @property
    def _summary(self) -> str:
        changed = f", post-processed: {' and '.join(self.postprocessing)}" * bool(
            self.postprocessing
        )
        return f"{self.protocol}, {self.crowd}{changed}; {self.guarantee}"

    def to_dict(
        self, confidence: float = 0.95, *, sampling: bool = False, simultaneous: bool = False
    ) -> dict[str, Any]:
        """The estimate for JSON, with the interval that `interval` returns."""
        named: dict[str, Any] = {} if self.buckets is None else {"buckets": list(self.buckets)}
        named |= {} if self.edges is None else {"edges": list(self.edges)}
        interval = self.interval(confidence, sampling=sampling, simultaneous=simultaneous)
        shares = self.proportion(interval)
        return {
            "task": self.task,
            "protocol": self.protocol,
            **named,
            "value": plain(self.value),
            "unbiased_value": plain(self.unbiased_value),
            "postprocessing": list(self.postprocessing),
            f"standard_error{self.error_suffix}": plain(self.standard_error),
            **(
                {f"sampling_error{self.error_suffix}": plain(self.sampling_error)}
                if self._sampled or (sampling and self._binomial)
                else {}
            ),
            "interval": {
                **interval.to_dict(),
                **({"of": "population"} if sampling else {}),
                **({"simultaneous": True} if simultaneous else {}),
            },
            **(
                {"share": dict(zip(("value", "low", "high"), shares, strict=True))}
                if shares is not None
                else {}
            ),
            "users": self.users,
            **self._counted,
            **({"way": self.way} if self.way else {}),
            "guarantee": self.guarantee.to_dict(),
        }


def _shaped(numbers: Answer, like: Answer) -> Answer:
    """The numbers in the shape of `like`: a number, or a vector."""
    if np.ndim(like) == 0:
        return float(numbers)
    return np.broadcast_to(np.asarray(numbers, dtype=np.float64), np.shape(like))


def plain(answer: Answer) -> Any:
    """An answer that JSON can hold: a number, a date as text, or a list of these."""
    if np.asarray(answer).dtype.kind == "M":
        return iso_texts(answer)
    return answer.tolist() if isinstance(answer, np.ndarray) else answer
