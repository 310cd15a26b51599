"""A question about a table: the columns to read, and the rules for counting rows.

An engine needs no other information about the question.
"""

from dataclasses import dataclass

from headcount.core.cells import BETWEEN
from headcount.core.errors import InvalidParameter
from headcount.core.task import Task
from headcount.data.cleaning import Cleaning
from headcount.road.people import Group


@dataclass(frozen=True)
class Question:
    """A task about a column, for all people or for each group. `cleaning` says how to read values.

    If there is a `person` column, at most `rows_per_person` rows of each person count, chosen at
    random. If there are several `group_columns`, a group is a combination of their values. `groups`
    has the declared groups. None means all groups in the table. If `values_stay` is true, a census
    only counts people, and no values leave the machines that hold the rows.
    """

    cleaning: Cleaning
    person: str | None = None
    rows_per_person: int = 1
    group_columns: tuple[str, ...] = ()
    groups: tuple[Group, ...] | None = None
    values_stay: bool = False

    def __post_init__(self) -> None:
        columns = [("column", name) for name in self.cleaning.columns]
        groups = [("group", name) for name in self.group_columns]
        for role, name in (*columns, ("person", self.person), *groups):
            if not isinstance(name, str | None):
                raise InvalidParameter(f"`{role}` must be the name of a column, got {name!r}")
        for _, name in columns:
            if name in self.public:
                raise InvalidParameter(
                    f"`column` must differ from the columns of persons and groups, which are "
                    f"public, got {name!r} for both"
                )

    @property
    def public(self) -> tuple[str, ...]:
        """The columns of persons and of groups. These columns are public."""
        return tuple(name for name in (self.person, *self.group_columns) if name is not None)

    @property
    def group(self) -> str | None:
        """The names of the group columns, joined. It is None if there are no groups."""
        return BETWEEN.join(self.group_columns) if self.group_columns else None

    @property
    def counting(self) -> bool:
        """Whether a census also counts the people with each value."""
        return self.cleaning.few_values and not self.values_stay

    @property
    def task(self) -> Task:
        return self.cleaning.task

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns to read, without duplicates."""
        return tuple(dict.fromkeys((*self.cleaning.columns, *self.public)))
