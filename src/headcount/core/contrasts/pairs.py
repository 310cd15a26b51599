"""Intervals and tests that compare the numbers of two estimates, pair by pair."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from headcount.core.cached import cached_property
from headcount.core.contrasts.crowds import TwoErrors, margin, ratios, square_and_add
from headcount.core.contrasts.populations import equal_shares, is_bound
from headcount.core.contrasts.side import Ends, Side

Kind: TypeAlias = Literal["difference", "ratio"]
Bounds: TypeAlias = tuple[float, float]
_LEAST_P = 1e-12  # the least p-value that is computed from intervals
_HALVINGS = 30


@dataclass(frozen=True, eq=False)
class Pairs:
    """The numbers of two estimates that are compared: one pair, or one pair for each bucket."""

    first: Side
    second: Side

    @property
    def values(self) -> list[tuple[float, float]]:
        """The estimates of both sides."""
        return list(zip(self.first.values, self.second.values, strict=True))

    @property
    def standard_errors(self) -> list[tuple[float, float]]:
        """The standard errors of both sides."""
        return list(zip(self.first.standard_errors, self.second.standard_errors, strict=True))

    # Crowds -------------------------------------------------------------------------------------

    @cached_property
    def _errors(self) -> list[TwoErrors] | None:
        """The laws of both errors for each pair, or None if they are not known."""
        made: dict[tuple[int, int], TwoErrors] = {}  # buckets often share their laws
        found = []
        for at in range(len(self.values)):
            one, other = self.first.law(at), self.second.law(at)
            if one is None or other is None:
                return None
            found.append(made.setdefault((id(one), id(other)), TwoErrors(one, other)))
        return found

    def crowd_intervals(self, kind: Kind, confidence: float) -> list[Bounds]:
        """For each pair, an interval for the difference or the ratio of the two crowds."""
        if self._errors is None:
            first, second = (side.crowd_ends(confidence) for side in (self.first, self.second))
            return _from_ends(kind, first, second)
        return [
            _from_laws(kind, errors, one, other, 1 - confidence)
            for errors, (one, other) in zip(self._errors, self.values, strict=True)
        ]

    def crowd_chances(self) -> list[float]:
        """For each pair, the p-value of the hypothesis that both crowds have the same quantity."""
        if self._errors is None:
            return self._inverted(sampling=False)
        return [
            errors.reached(abs(one - other))
            for errors, (one, other) in zip(self._errors, self.values, strict=True)
        ]

    @property
    def crowd_method(self) -> str:
        """How the crowds are compared, in words."""
        if self._errors is None:
            return "approximate: square-and-add of both intervals"
        reports = (self.first.reports, self.second.reports)
        if any(one is not None and one.responding for one in reports):
            return "approximate: the widest law of the reports for true counts near the estimates"
        if not all(law.exact for law in (self._errors[0].first, self._errors[0].second)):
            return "law of the noise, approximate: rounding is treated as normal"
        return "exact law of the noise"

    # Populations --------------------------------------------------------------------------------

    def population_intervals(self, kind: Kind, confidence: float) -> list[Bounds]:
        """For each pair, an interval for the difference or the ratio of the two populations."""
        first, second = (side.population_ends(confidence) for side in (self.first, self.second))
        return _from_ends(kind, first, second, limits=self.first.limits)

    def population_chances(self) -> list[float]:
        """For each pair, the p-value of the hypothesis that both populations are equal."""
        if not self._sampled:
            return self._inverted(sampling=True)
        samples = zip(self.first.samples, self.second.samples, strict=True)
        return [equal_shares(one, other) for one, other in samples]

    def only_bounds(self, chances: Sequence[float]) -> list[bool]:
        """Whether each p-value of populations is only an upper bound on a p-value."""
        return [self._sampled and is_bound(one) for one in chances]

    @property
    def _sampled(self) -> bool:
        """Whether both sides are shares with a known law."""
        return self.first.reports is not None and self.second.reports is not None

    @property
    def population_method(self) -> str:
        """How the populations are compared, in words."""
        if not self._sampled:
            return "approximate: square-and-add of both intervals"
        return "square-and-add of two exact intervals; the p-value is valid for all shares"

    def _inverted(self, *, sampling: bool) -> list[float]:
        """The p-value for each pair: the largest α for which the interval of the difference, with
        confidence 1 − α, contains 0.
        """
        least, most = np.full(len(self.values), math.log(_LEAST_P)), np.zeros(len(self.values))
        intervals = self.population_intervals if sampling else self.crowd_intervals
        for _ in range(_HALVINGS):
            middle = (least + most) / 2
            for at, log in enumerate(middle.tolist()):
                low, high = intervals("difference", -math.expm1(log))[at]
                (least if low <= 0 <= high else most)[at] = log
        chances: list[float] = np.exp(most).tolist()
        return chances


def _from_laws(kind: Kind, errors: TwoErrors, one: float, other: float, wrong: float) -> Bounds:
    if kind == "difference":
        by = margin(errors, wrong)
        return one - other - by, one - other + by
    return ratios(
        lambda angle: errors.same_ratio(angle, one, other) > wrong, math.atan2(one, other)
    )


def _from_ends(
    kind: Kind,
    first: Sequence[Ends],
    second: Sequence[Ends],
    limits: Bounds = (-math.inf, math.inf),
) -> list[Bounds]:
    """The interval of each pair, from the intervals of both sides, which were cut to `limits`."""

    def difference(one: Ends, other: Ends) -> Bounds:
        return square_and_add(one, other, limits=limits)

    def ratio(one: Ends, other: Ends) -> Bounds:
        """The range of all ρ for which the square-and-add interval of A − ρB contains 0."""

        def possible(angle: float) -> bool:
            weights = math.cos(angle), math.sin(angle)
            low, high = square_and_add(one, other, weights, limits)
            return low <= 0 <= high

        return ratios(possible, math.atan2(one[1], other[1]))

    combined = difference if kind == "difference" else ratio
    return [combined(one, other) for one, other in zip(first, second, strict=True)]
