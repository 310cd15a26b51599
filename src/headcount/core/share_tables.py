"""Shares of several buckets or cells, to be shown together."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from headcount.core import checks
from headcount.core.errors import InvalidParameter
from headcount.core.estimate import Estimate
from headcount.core.shares import Share, share
from headcount.core.table import Table
from headcount.core.two_way import Direction, TableEstimate


@dataclass(frozen=True)
class ShareTable:
    """Shares with their intervals, line by line. `among` says in words what they are shares of."""

    among: str
    lines: tuple[str, ...]
    columns: tuple[str, ...]
    shares: tuple[tuple[Share, ...], ...]
    confidence: float
    sampling: bool
    noun: str = "people"  # what the shares are shares of: people, or rows

    @classmethod
    def of_cells(
        cls,
        estimate: Estimate,
        side: Direction,
        confidence: float = 0.95,
        *,
        sampling: bool = False,
    ) -> "ShareTable":
        """The shares within each row or within each column of a table."""
        if not isinstance(estimate, TableEstimate):
            raise InvalidParameter(
                f"`estimate` must be that of a table, got {checks.a_task(estimate.task)}"
            )
        found = estimate.shares(side, confidence, sampling=sampling)
        return cls(
            f"within {side}",
            tuple(map(str, estimate.names.rows)),
            tuple(map(str, estimate.names.columns)),
            tuple(map(tuple, found)),
            confidence,
            sampling,
            estimate.noun,
        )

    @classmethod
    def of_buckets(
        cls,
        estimate: Estimate,
        buckets: Iterable[int | str],
        confidence: float = 0.95,
        *,
        sampling: bool = False,
    ) -> "ShareTable":
        """The share of each of these buckets of a histogram among all of them."""
        listed = list(buckets)
        found = (
            share(estimate, bucket, listed, confidence, sampling=sampling) for bucket in listed
        )
        return cls(
            f"among {checks.few(listed)}",
            tuple(map(str, listed)),
            ("share",),
            tuple((one,) for one in found),
            confidence,
            sampling,
            estimate.noun,
        )

    def table(self) -> Table:
        of = "the population" if self.sampling else f"the {self.noun}"
        return Table(
            ("", *self.columns),
            tuple(
                (line, *map(str, found))
                for line, found in zip(self.lines, self.shares, strict=True)
            ),
            notes=(
                f"shares {self.among}, of {of}, with {100 * self.confidence:.10g} % intervals "
                f"({self.shares[0][0].method})",
            ),
        )

    def to_dict(self) -> dict[str, Any]:
        """The shares for JSON."""
        return {
            "shares": {
                "among": self.among,
                "of": "population" if self.sampling else "crowd",
                "lines": [
                    {"line": line, "shares": [one.to_dict() for one in found]}
                    for line, found in zip(self.lines, self.shares, strict=True)
                ],
                "columns": list(self.columns),
            }
        }
