"""Counts people for a census, one batch of rows after another."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core.errors import InvalidValue
from headcount.data.encoded_rows import EncodedRows, Numbering, group_order
from headcount.data.engine import Census
from headcount.data.question import Question
from headcount.road.people import Group

_MOST_CELLS = 2**26  # the largest number of counts in a census: groups times values


@dataclass(eq=False)
class Counting:
    """Counts the people in each group. If `question.counting` is true, the people with each value
    are counted, too.
    """

    question: Question
    groups: Numbering
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @property
    def _values(self) -> int:
        return self.question.task.domain if self.question.counting else 1

    def add(self, rows: EncodedRows) -> None:
        groups = max(1, len(self.groups.numbers))
        if groups * self._values > _MOST_CELLS:
            raise InvalidValue(
                f"the number of groups times buckets must be at most {_MOST_CELLS:,}, "
                f"got {groups:,} times {self._values:,}"
            )
        if self._values == 1 and rows.groups is None:
            new = np.array([len(rows.codes)])
        else:
            cells: NDArray[Any] = rows.codes if self._values > 1 else np.zeros(1, dtype=np.int64)
            if rows.groups is not None:
                cells = rows.groups * self._values + cells
            new = np.bincount(cells, minlength=groups * self._values)
        if len(self.counts) < len(new):
            self.counts = np.concatenate(
                [self.counts, np.zeros(len(new) - len(self.counts), dtype=np.int64)]
            )
        self.counts[: len(new)] += new

    def censuses(self) -> dict[Group, Census]:
        """The census of each group that has people or was declared, in the order of `group_order`.
        If there are no people at all, the result is empty.
        """
        grouped = self.question.group is not None
        numbers: Mapping[Group, int] = self.groups.numbers if grouped else {None: 0}
        by_group = self.counts.reshape(-1, self._values)
        out: dict[Group, Census] = {}
        for name in group_order([*numbers]) if grouped else [None]:
            at = numbers[name]
            counts = by_group[at] if at < len(by_group) else np.zeros(self._values, dtype=np.int64)
            users = int(counts.sum())
            if users or self.groups.closed:
                out[name] = Census(users, counts if self.question.counting else None)
        return out if any(census.users for census in out.values()) else {}
