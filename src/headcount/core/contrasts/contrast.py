"""The difference or the ratio of two estimates."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from headcount.core import checks
from headcount.core.cached import cached_property
from headcount.core.contrasts.joint import joint_guarantee
from headcount.core.contrasts.pairs import Bounds, Kind, Pairs
from headcount.core.contrasts.side import Side
from headcount.core.errors import InvalidParameter
from headcount.core.estimate import Answer, Estimate, Interval
from headcount.core.guarantee import Guarantee
from headcount.core.table import Table, number, short


def difference(first: Estimate, second: Estimate, *, same_people: bool = False) -> "Contrast":
    """The difference of two estimates, which is also `first - second`.

        difference(north, south).interval(0.95)

    Counts and histograms are compared as shares of their crowds, and means as means. The unbiased
    values are compared, even if the estimates were post-processed. The estimates must come from two
    releases about different people. If a person may be in both, as in two waves of a panel, set
    `same_people=True`. Then the guarantee is that of both releases together, and populations cannot
    be compared, since the two samples are not independent.
    """
    return contrast("difference", first, second, same_people=same_people)


def ratio(first: Estimate, second: Estimate, *, same_people: bool = False) -> "Contrast":
    """The ratio of two estimates, which is also `first / second`: see `difference`.

    The upper end of the ratio's interval is infinite if the second quantity may be 0.
    """
    return contrast("ratio", first, second, same_people=same_people)


def contrast(
    kind: Kind,
    first: Estimate,
    second: Estimate,
    *,
    same_people: bool = False,
    names: tuple[str, str] = ("first", "second"),
    covering: Guarantee | None = None,
) -> "Contrast":
    """The difference or the ratio of two estimates: see `Contrast`."""
    for name, one in (("first", first), ("second", second)):
        checks.instance(name, one, Estimate)
        _check_one(one)
    sides = Side(first), Side(second)
    _check_both(*sides)
    least = sides[0].limits[0]
    if kind == "ratio" and least < 0:
        raise InvalidParameter(
            f"a ratio must be of means that are never negative, got a lower bound of {short(least)}"
        )
    same_people = checks.flag("same_people", same_people)
    return Contrast(kind, first, second, same_people, names, covering)


def _check_one(estimate: Estimate) -> None:
    uses = estimate.uses
    if uses.comparison is None:
        instead = f"; ask for {checks.a_task(uses.instead)}" if uses.instead else ""
        raise InvalidParameter(
            "estimates must be counts, histograms or means to be compared, got "
            f"{checks.a_task(estimate.task)}{instead}"
        )
    if "threshold" in estimate.postprocessing:
        raise InvalidParameter(
            f"estimates must be unbiased to be compared, got one of {estimate.protocol}, which "
            "withholds rare values"
        )


def _check_both(first: Side, second: Side) -> None:
    one, other = first.estimate, second.estimate
    if one.task != other.task:
        raise InvalidParameter(
            f"both estimates must answer the same question, got {checks.a_task(one.task)} and "
            f"{checks.a_task(other.task)}"
        )
    if one.error_law is other.error_law:  # the same release, even if one was post-processed
        raise InvalidParameter(
            "an estimate must be compared with another one, got the same release twice"
        )
    if (list(one.buckets or ()), one.edges) != (list(other.buckets or ()), other.edges):
        raise InvalidParameter("both histograms must have the same buckets, got different ones")
    if first.limits != second.limits:
        shown = [" to ".join(map(short, side.limits)) for side in (first, second)]
        raise InvalidParameter(f"both means must have the same bounds, got {' and '.join(shown)}")


@dataclass(frozen=True, eq=False)
class Contrast:
    """The difference or the ratio of two estimates.

    For histograms, `value`, `standard_error`, the p-values and the ends of intervals are vectors,
    with a number for each bucket.
    """

    kind: Kind
    first: Estimate
    second: Estimate
    same_people: bool = False
    names: tuple[str, str] = ("first", "second")
    covering: Guarantee | None = None  # a guarantee that is known to cover both releases

    @cached_property
    def _pairs(self) -> Pairs:
        return Pairs(Side(self.first), Side(self.second))

    @property
    def quantity(self) -> str:
        """What is compared: "share" or "mean"."""
        return str(self.first.uses.comparison)

    @cached_property
    def value(self) -> Answer:
        """The difference or ratio of the unbiased estimates.

        A ratio is NaN if the second estimate is not above 0.
        """
        if self.kind == "difference":
            return self._shaped([one - other for one, other in self._pairs.values])
        return self._shaped(
            [one / other if other > 0 else math.nan for one, other in self._pairs.values]
        )

    @property
    def standard_error(self) -> Answer:
        """The standard error that comes from privacy noise.

        For a ratio, it is approximated by the delta method. Intervals do not use this
        approximation.
        """
        errors = self._pairs.standard_errors
        if self.kind == "difference":
            return self._shaped([math.hypot(one, other) for one, other in errors])
        return self._shaped(
            [
                math.hypot(one / below, above / below * other / below) if below > 0 else math.nan
                for (one, other), (above, below) in zip(errors, self._pairs.values, strict=True)
            ]
        )

    def interval(self, confidence: float = 0.95, *, sampling: bool = False) -> Interval:
        """An interval for the true difference or ratio, for each bucket separately.

        The interval is about the people who took part. With `sampling=True`, it is about the
        populations from which these people were drawn at random. `method` and `population_method`
        say how it is computed. The upper end of a ratio's interval may be infinite.
        """
        confidence = checks.confidence(confidence)
        if checks.flag("sampling", sampling):
            self._check_samples()
            found = self._pairs.population_intervals(self.kind, confidence)
        else:
            found = self._pairs.crowd_intervals(self.kind, confidence)
        low, high = (np.array(ends) for ends in zip(*found, strict=True))
        least, most = self._limits
        # Rounding errors of floats must not make the interval shorter.
        low, high = low - 2.0**-45 * np.abs(low), high + 2.0**-45 * np.abs(high)
        return Interval(
            self._shaped(np.clip(low, least, most) + 0.0),  # + 0 turns −0 into 0
            self._shaped(np.clip(high, least, most) + 0.0),
            confidence,
        )

    @property
    def _limits(self) -> Bounds:
        least, most = self._pairs.first.limits
        return (0.0, math.inf) if self.kind == "ratio" else (least - most, most - least)

    @cached_property
    def p_value(self) -> Answer:
        """The p-value of the hypothesis that both crowds have the same share or mean."""
        return self._shaped(self._pairs.crowd_chances())

    @cached_property
    def population_p_value(self) -> Answer:
        """The p-value of the hypothesis that both populations have the same share or mean."""
        self._check_samples()
        return self._shaped(self._pairs.population_chances())

    @property
    def population_p_value_is_bound(self) -> Any:
        """Whether `population_p_value` is only an upper bound, because the test cannot give smaller
        p-values. For histograms, it is a vector.
        """
        found = np.array(self._pairs.only_bounds(np.atleast_1d(self.population_p_value).tolist()))
        return found if np.ndim(self.first.unbiased_value) else bool(found[0])

    def _check_samples(self) -> None:
        if self.same_people:
            raise InvalidParameter(
                "populations must be compared by samples of different people, got "
                "`same_people=True`; to learn how people changed, ask each of them for the change"
            )

    @property
    def method(self) -> str:
        """How intervals and p-values of the crowds are computed, in words."""
        return self._pairs.crowd_method

    @property
    def population_method(self) -> str:
        """How intervals and p-values of the populations are computed, in words."""
        return self._pairs.population_method

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of both releases together.

        If no person is in both, it has the larger epsilon and the larger delta. Otherwise the
        epsilons are added, and so are the deltas. If both estimates are groups of one grouped
        estimate, it is the guarantee of the grouped estimate.
        """
        return self.covering or joint_guarantee(
            self.first.guarantee,
            self.second.guarantee,
            (self.first.users, self.second.users),
            same_people=self.same_people,
        )

    # What people read ---------------------------------------------------------------------------

    @property
    def labels(self) -> list[str]:
        """What each number compares, in words."""
        sign = "−" if self.kind == "difference" else "/"
        title = f"{self.names[0]} {sign} {self.names[1]}"
        if self.first.buckets is None:
            return [title]
        return [f"{title}, {bucket}" for bucket in self.first.buckets]

    def columns(self, confidence: float = 0.95) -> dict[str, list[str]]:
        """The columns of a table, by their names."""
        between = f"{100 * checks.confidence(confidence):.10g} % interval"
        errors = np.atleast_1d(self.standard_error).tolist()
        values = np.atleast_1d(self.value).tolist()

        def shown(interval: Interval) -> list[str]:
            ends = zip(np.atleast_1d(interval.low), np.atleast_1d(interval.high), strict=True)
            return [
                f"{number(low, error)} to {number(high, error)}"
                for (low, high), error in zip(ends, errors, strict=True)
            ]

        columns = {
            f"{self.quantity}s": self.labels,
            self.kind: [number(*pair) for pair in zip(values, errors, strict=True)],
            between: shown(self.interval(confidence)),
            "p-value": shown_chances(self.p_value),
        }
        if not self.same_people:
            columns |= {
                f"populations: {between}": shown(self.interval(confidence, sampling=True)),
                "populations: p-value": shown_chances(
                    self.population_p_value, self.population_p_value_is_bound
                ),
            }
        return columns

    def table(self, confidence: float = 0.95) -> Table:
        """The comparison with its intervals and p-values."""
        columns = self.columns(confidence)
        return Table(tuple(columns), tuple(zip(*columns.values(), strict=True)), notes=self.notes)

    @property
    def notes(self) -> tuple[str, ...]:
        """How the comparison was made, in sentences for a table."""
        changes = dict.fromkeys((*self.first.postprocessing, *self.second.postprocessing))
        return (
            *filter(None, [self.guarantee.warning]),
            *([f"The values before {' and '.join(changes)} are compared."] if changes else []),
            f"crowds: {self.method}",
            *([] if self.same_people else [f"populations: {self.population_method}"]),
        )

    def __str__(self) -> str:
        return f"{self.table()}\n\n{self._summary}"

    def _repr_html_(self) -> str:
        table = self.table()
        return replace(table, notes=(*table.notes, self._summary)).html()

    @property
    def _summary(self) -> str:
        crowds = " and ".join(one.crowd for one in (self.first, self.second))
        names = ", ".join(dict.fromkeys((self.first.protocol, self.second.protocol)))
        return f"{names}, {crowds}; {self.guarantee}"

    def to_dict(self, confidence: float = 0.95) -> dict[str, Any]:
        """The comparison for JSON, which has no infinity. Infinite numbers and NaN are None."""
        named = {} if self.first.buckets is None else {"buckets": list(self.first.buckets)}
        populations = None
        if not self.same_people:
            populations = {
                "interval": _ends(self.interval(confidence, sampling=True)),
                "p_value": _plain(self.population_p_value),
                "p_value_is_upper_bound": np.asarray(self.population_p_value_is_bound).tolist(),
                "method": self.population_method,
            }
        return {
            "kind": self.kind,
            "of": self.quantity,
            "first": self.names[0],
            "second": self.names[1],
            **named,
            "value": _plain(self.value),
            "standard_error": _plain(self.standard_error),
            "interval": _ends(self.interval(confidence)),
            "p_value": _plain(self.p_value),
            "method": self.method,
            "populations": populations,
            "users": [self.first.users, self.second.users],
            "same_people": self.same_people,
            "guarantee": self.guarantee.to_dict(),
        }

    def _shaped(self, numbers: Any) -> Answer:
        array = np.asarray(numbers, dtype=np.float64)
        return array if np.ndim(self.first.unbiased_value) else float(array[0])


def shown_chances(chances: Answer, bounds: Any = False) -> list[str]:
    """P-values as a table shows them. `bounds` says which of them are only upper bounds."""
    listed = np.atleast_1d(chances)
    return [
        "< 0.0001" if p < 1e-4 else f"{'≤ ' if bound else ''}{short(p, 3)}"
        for p, bound in zip(listed.tolist(), np.broadcast_to(bounds, listed.shape), strict=True)
    ]


def _ends(interval: Interval) -> dict[str, Any]:
    return {**interval.to_dict(), "low": _plain(interval.low), "high": _plain(interval.high)}


def _plain(answer: Answer) -> Any:
    """A number or a list for JSON."""
    if isinstance(answer, np.ndarray):
        return [_plain(one) for one in answer.tolist()]
    return answer if math.isfinite(answer) else None
