"""The answers to one question for several groups."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from headcount.core.cells import BETWEEN
from headcount.core.estimate import Estimate
from headcount.core.exported import Exported
from headcount.core.guarantee import Guarantee
from headcount.core.table import Table, counted
from headcount.data.encoded_rows import group_name
from headcount.road.people import Group


@dataclass(frozen=True, eq=False)
class GroupedEstimate(Exported, Mapping[Group, Estimate]):
    """The estimate for each group, sorted by group.

    `guarantee` covers all estimates together. Each value is in only one group, so the guarantee is
    the weakest one of all groups. The names of the groups and the number of people in each group
    are public. The function `contrasts` compares the groups.
    """

    group: str
    estimates: Mapping[Group, Estimate]
    guarantee: Guarantee

    def __getitem__(self, group: Group | tuple[Group, ...]) -> Estimate:
        """The estimate of a group. If groups come from several columns, `group` may be a tuple with
        a value of each column.
        """
        return self.estimates[group_name(group)]

    def __iter__(self) -> Iterator[Group]:
        return iter(self.estimates)

    def __len__(self) -> int:
        return len(self.estimates)

    @property
    def users(self) -> int:
        """The number of people in all groups together."""
        return sum(estimate.users for estimate in self.values())

    @property
    def noun(self) -> str:
        """What `users` counts: see `Estimate.noun`."""
        return next(iter(self.values())).noun

    @property
    def crowd(self) -> str:
        """The number of people or rows in all groups together, in words."""
        return replace(next(iter(self.values())), users=self.users).crowd

    @property
    def task(self) -> str:
        """The name of the task, such as "count"."""
        return next(iter(self.values())).task

    def postprocess(self, name: str) -> "GroupedEstimate":
        """The estimates after postprocessing. `name` is the name of a step, as in
        `Estimate.postprocess`.
        """
        changed = {group: estimate.postprocess(name) for group, estimate in self.items()}
        return replace(self, estimates=changed)

    def table(
        self, confidence: float = 0.95, *, sampling: bool = False, simultaneous: bool = False
    ) -> Table:
        """One table with the rows of all groups. Its first two columns are the name of the group
        and the number of people or rows in the group.
        """
        kind = {"sampling": sampling, "simultaneous": simultaneous}
        tables = {group: one.table(confidence, **kind) for group, one in self.items()}
        first = next(iter(tables.values()))
        return Table(
            (self.group, self.noun, *first.columns),
            tuple(
                (str(group), f"{self[group].users:,}", *row)
                for group, table in tables.items()
                for row in table.rows
            ),
            words=1,
            bars=first.bars,
            spare=first.spare,
            notes=tuple(dict.fromkeys(note for table in tables.values() for note in table.notes)),
        )

    def records(
        self, confidence: float = 0.95, *, sampling: bool = False, simultaneous: bool = False
    ) -> dict[str, list[Any]]:
        """The records of all groups, with a column `group`. If groups come from several columns,
        the records also have each of these columns.
        """
        kind = {"sampling": sampling, "simultaneous": simultaneous}
        whole: dict[str, list[Any]] = {}
        for group, estimate in self.items():
            columns = estimate.records(confidence, **kind)
            rows = len(columns["value"])
            for name, values in {**self._names(group, rows), **columns}.items():
                whole.setdefault(name, []).extend(values)
        return whole

    def _names(self, group: Group, rows: int) -> dict[str, list[Any]]:
        columns, parts = self.group.split(BETWEEN), str(group).split(BETWEEN)
        several = len(columns) == len(parts) > 1
        named = dict(zip(columns, parts, strict=True)) if several else {}
        return {name: [part] * rows for name, part in {"group": group, **named}.items()}

    def to_dict(
        self, confidence: float = 0.95, *, sampling: bool = False, simultaneous: bool = False
    ) -> dict[str, Any]:
        """All estimates and their intervals as a dictionary for JSON. `Estimate.interval` explains
        the parameters.
        """
        kind = {"sampling": sampling, "simultaneous": simultaneous}
        return {
            "task": self.task,
            "grouped_by": self.group,
            "groups": [
                {"group": group, **estimate.to_dict(confidence, **kind)}
                for group, estimate in self.items()
            ],
            "users": self.users,
            **({} if self.noun == "people" else {"users_are": self.noun}),
            "guarantee": self.guarantee.to_dict(),
        }

    def __str__(self) -> str:
        return f"{self.table()}\n\n{self._summary}"

    def _repr_html_(self) -> str:
        table = self.table()
        return replace(table, notes=(*table.notes, self._summary)).html()

    @property
    def _summary(self) -> str:
        return (
            f"{counted(len(self), 'group')}, {self.crowd}; "
            f"{self.guarantee}; {self.guarantee.neighbors}"
        )
