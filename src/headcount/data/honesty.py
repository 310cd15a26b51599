"""Computes how many honest people a guarantee relies on, in each group and in the whole table.

`honest` is the number of honest people in the whole table. It includes people without a value,
whose rows are left out. In the worst case, all dishonest people have a value and are in the same
group. So if D people may be dishonest and nobody has more than k rows, a group of n rows has at
least n − kD honest rows. Conversely, suppose that the guarantee of a group relies on h honest rows
among its n rows. Then the guarantee holds as long as at most (n − h)/k people are dishonest.

This matters only in shuffle trust. In central and local trust, nobody relies on other people's
noise.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from headcount.core import checks
from headcount.core.budget import Crowd, Trust
from headcount.core.cached import cached_property
from headcount.core.errors import Infeasible, InvalidParameter
from headcount.data.engine import Crowds
from headcount.data.question import Question
from headcount.road.people import Group

# How many people are honest: one number for the table, or a number for each group. None means that
# everybody is honest.
Honest: TypeAlias = int | Mapping[Group, int] | None
_LISTED = 5  # `relied_on` lists the numbers of all groups if there are at most this many groups


def check_honest(honest: Honest, question: Question) -> None:
    """Refuse a mapping from groups to numbers, unless the question has groups and no person
    column. No rows are read.
    """
    if isinstance(honest, Mapping) and (question.group is None or question.person is not None):
        raise InvalidParameter(
            "`honest` must be a number, unless there are groups and each row is one person; "
            f"got {checks.shown(dict(honest))}"
        )


@dataclass(frozen=True, eq=False)
class Honesty:
    """The caller's number of honest people (`said`), and a lower bound for each group.

    The lower bounds count rows. Without a person column, each row is a person.
    """

    said: Honest
    crowds: Crowds
    question: Question
    trust: Trust
    _least: Mapping[Group, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_least", self._surely())  # this refuses impossible numbers

    def crowd(self, group: Group) -> Crowd:
        """The crowd of a group. The crowd's number of honest people is a lower bound."""
        least = self._least[group]
        if least < 1:
            raise self._nobody(group)
        return Crowd(self._users[group], least)

    @cached_property
    def _users(self) -> dict[Group, int]:
        return dict(self.crowds.users)

    def _surely(self) -> dict[Group, int]:
        """In shuffle trust, a lower bound on the number of honest rows in each group. It may be
        negative. In other trust models, guarantees do not depend on this number, so dishonest
        people are not subtracted.
        """
        if self.said is None:
            return self._users
        shuffled = self.trust is Trust.SHUFFLE
        if isinstance(self.said, Mapping):
            said = self._by_group(self.said)
            absent = self._absent if shuffled else 0  # up to this many honest people have no value
            return {group: min(rows, said[group] - absent) for group, rows in self._users.items()}
        number = self._number(self.said)
        if not shuffled:
            return {group: min(rows, number) for group, rows in self._users.items()}
        dishonest = self.question.rows_per_person * (self.crowds.people - number)
        return {group: rows - dishonest for group, rows in self._users.items()}

    @property
    def _absent(self) -> int:
        """The number of people without a value. It is used only if each row is a person."""
        return self.crowds.people - sum(self._users.values())

    def _number(self, said: int) -> int:
        return checks.whole("honest", said, low=1, high=self.crowds.people)

    def _by_group(self, said: Mapping[Group, int]) -> dict[Group, int]:
        # Names are compared as text, since text files have no types.
        by_name = {str(group): number for group, number in said.items()}
        names = {str(group) for group in self._users}
        if by_name.keys() != names:
            odd = min(by_name.keys() ^ names)
            wrong = f"{odd!r}, which has no people" if odd in by_name else f"none for {odd!r}"
            raise InvalidParameter(f"`honest` must have a number for each group, got {wrong}")
        return {
            group: checks.whole(
                f"honest[{group!r}]", by_name[str(group)], low=1, high=rows + self._absent
            )
            for group, rows in self._users.items()
        }

    def _nobody(self, group: Group) -> Infeasible:
        """The error for a group in which everybody may be dishonest."""
        if isinstance(self.said, Mapping) or self.said is None:
            return Infeasible(
                f"all honest people may be among the {self._absent:,} people who have no value; "
                f"`honest` must be at least {self._absent + 1:,} in this group"
            )
        people, rows = self.crowds.people, self._users[group]
        enough = people - (rows - 1) // self.question.rows_per_person
        may_map = self.question.group is not None and self.question.person is None
        return Infeasible(
            f"{people - self._number(self.said):,} of {people:,} people may be dishonest, and the "
            f"whole crowd of {rows:,} may be among them; `honest` must be at least {enough:,}"
            + ", or give a number for each group: honest={group: people}"
            * may_map
        )


def relied_on(honest: Mapping[Group, int], crowds: Crowds, question: Question) -> tuple[int, str]:
    """The number of people in the table who must be honest, and a phrase that says how many honest
    people each group relies on. `honest` has the number of honest rows that each group needs.
    """
    spare = min(crowds.users[group] - needed for group, needed in honest.items())
    least, most = min(honest.values()), max(honest.values())
    who = "people" if question.rows_per_person == 1 else "people's rows"
    if least == most:
        words = f"relies on {least:,} honest {who} in each group"
    elif len(honest) <= _LISTED:
        each = [f"{needed:,} in {group!r}" for group, needed in honest.items()]
        words = f"relies on honest {who}: {', '.join(each)}"
    else:
        words = (
            f"relies on {least:,} to {most:,} honest {who} in a group, as the guarantee of each "
            "group says"
        )
    return crowds.people - spare // question.rows_per_person, words
