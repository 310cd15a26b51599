"""The options for shares within a table or among some buckets. Shares cost no further budget."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from headcount.cli.texts import labels_of
from headcount.core import checks
from headcount.core.errors import InvalidParameter
from headcount.core.estimate import Estimate
from headcount.core.task import Task

if TYPE_CHECKING:
    from headcount.core.share_tables import ShareTable


class Within(StrEnum):
    """Whether the shares of a table add up to 1 in each row or in each column."""

    ROWS = "rows"
    COLUMNS = "columns"


@dataclass(frozen=True)
class ShareOptions:
    """The options that say which shares are shown in addition to an estimate."""

    within: Annotated[
        Within | None,
        typer.Option(help="Also show the shares within each row or each column of a table."),
    ] = None
    among: Annotated[
        str | None,
        typer.Option(
            help="Buckets of a histogram, such as yes,no. Also show the share of each, among the "
            "people in these buckets. All others, such as people who did not answer, are left out."
        ),
    ] = None

    @property
    def wanted(self) -> bool:
        return self.within is not None or self.among is not None

    def check(self, task: Task, group: str | None) -> None:
        """Refuse options that do not fit the task or the groups."""
        for option, given, among, wanted in (
            ("--within", self.within, "cells", "a table"),
            ("--among", self.among, "buckets", "a histogram"),
        ):
            if given is not None and task.uses.shares != among:
                raise InvalidParameter(
                    f"{option} must come with {wanted}, got {checks.a_task(task.name)}"
                )
            if given is not None and group is not None:
                raise InvalidParameter(f"{option} must come without groups, got --group {group}")
        if self.among is not None:
            for label in self.labels:
                if label not in (task.buckets or ()):
                    raise InvalidParameter(
                        f"--among must name buckets of {checks.few(list(task.buckets or ()))}, "
                        f"got {checks.shown(label)}"
                    )

    @property
    def labels(self) -> list[int | str]:
        return [] if self.among is None else labels_of("among", self.among)

    def of(self, estimate: Estimate, confidence: float, *, sampling: bool) -> "ShareTable | None":
        """The shares that the options ask for, or None if they ask for none."""
        if not self.wanted:
            return None
        from headcount.core.share_tables import ShareTable

        if self.within is not None:
            return ShareTable.of_cells(estimate, self.within.value, confidence, sampling=sampling)
        return ShareTable.of_buckets(estimate, self.labels, confidence, sampling=sampling)
