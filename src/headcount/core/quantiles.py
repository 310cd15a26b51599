"""Estimated quantiles, and their intervals."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from headcount.core import checks
from headcount.core.distribution import DistributionEstimate, SharesBelow
from headcount.core.estimate import Answer, Estimate, Interval
from headcount.core.postprocessing import monotone
from headcount.core.table import Table, number

MEDIAN = 0.5


@dataclass(frozen=True, eq=False)
class QuantilesEstimate(DistributionEstimate):
    """Estimated quantiles. For each share in `buckets`, `value` has the number below which this
    share of the people lies. A median is a single number, and has no buckets.

    `unbiased_value` has the share of people below each edge between two cells. The quantiles are
    read from these shares. Other quantiles can be read, too. Quantiles are slightly biased. If the
    protocol chooses quantiles itself, as `central.exponential-quantile` does, the shares are biased
    too: they rise only at the chosen quantiles.
    """

    error_suffix: ClassVar[str] = "_of_share"

    @property
    def shares(self) -> tuple[float, ...]:
        """The share of people below each quantile."""
        return (MEDIAN,) if self.buckets is None else tuple(map(float, self.buckets))

    @property
    def standard_error(self) -> Answer:
        """The standard error of the share of people below each quantile.

        It is the larger of the standard errors at the two edges of the quantile's cell. The error
        of the quantile itself depends on how many people are near it: see `interval`.
        """
        errors = np.pad(np.asarray(self._law.standard_error), 1)
        places = np.asarray(self.value)
        if self.calendar is not None:  # the middle of each day or second
            places = self.calendar.numbers(places) + 0.5
        cells = np.searchsorted(self._edges[1:-1], places, side="left")
        found = np.maximum(errors[cells], errors[cells + 1])
        return found if np.ndim(self.value) else float(found)

    @property
    def sampling_error(self) -> Answer:
        """The standard deviation of the share of sampled people below the population's quantile."""
        shares = np.array(self.shares)
        found = np.sqrt(shares * (1 - shares) / self.users)
        return found if np.ndim(self.value) else float(found[0])

    def interval(
        self, confidence: float = 0.95, *, sampling: bool = False, simultaneous: bool = False
    ) -> Interval:
        """An interval for each quantile, or with `simultaneous=True` intervals that hold for all
        quantiles at once. They consist of whole cells: see `quantile_interval`.
        """
        confidence, shares = checks.confidence(confidence), self.shares
        # The probability of an error is divided among all quantiles.
        wrong = (1 - confidence) / (len(shares) if simultaneous else 1)
        found = [self.quantile_interval(one, 1 - wrong, sampling=sampling) for one in shares]
        if not np.ndim(self.value):
            return Interval(found[0].low, found[0].high, confidence)
        low, high = (np.array([getattr(one, end) for one in found]) for end in ("low", "high"))
        return Interval(low, high, confidence)

    def table(
        self, confidence: float = 0.95, *, sampling: bool = False, simultaneous: bool = False
    ) -> Table:
        """The quantiles with their intervals, and the error of the share of people below each."""
        each = 1 - (1 - confidence) / (len(self.shares) if simultaneous else 1)
        rows = self._quantile_rows(self.shares, each, sampling=sampling)
        errors = np.atleast_1d(self.standard_error)
        whose, kept = " of the population" * sampling, ", all at once" * simultaneous
        return Table(
            (
                "quantile",
                "estimate",
                f"{100 * confidence:.10g} % interval{whose}{kept}",
                "error of the share below",
            ),
            tuple(
                (*row, f"{number(100 * error, 100 * error)} %")
                for row, error in zip(rows, errors.tolist(), strict=True)
            ),
            notes=self._warnings,
            spare=("error of the share below",),
        )

    def to_dict(
        self, confidence: float = 0.95, *, sampling: bool = False, simultaneous: bool = False
    ) -> dict[str, Any]:
        """The estimate for JSON, without the shares from which the quantiles are read."""
        whole = Estimate.to_dict(self, confidence, sampling=sampling, simultaneous=simultaneous)
        return {key: one for key, one in whole.items() if key not in ("edges", "unbiased_value")}

    @property
    def _shown(self) -> SharesBelow:
        return SharesBelow.of(self._edges, monotone(self.unbiased_value))
