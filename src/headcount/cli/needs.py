"""The inverse questions of `headcount plan`: which epsilon or how many people are needed."""

from dataclasses import dataclass

from headcount.cli.output import deliver, print_table, progress
from headcount.core.budget import Budget, Trust
from headcount.core.errors import Infeasible, InvalidParameter
from headcount.core.task import Task
from headcount.planner import needs
from headcount.planner.differences import Detection, needed_groups
from headcount.planner.margin import Margin


@dataclass(frozen=True)
class Needed:
    """Finds the epsilon or the number of people that a margin needs."""

    task: Task
    margin: Margin | None
    delta: float
    dishonest: float
    trust: Trust | None

    def deliver(self, users: int | None, epsilon: float | None, *, as_json: bool) -> None:
        """Find and print the number of people or the epsilon, whichever is None."""
        found = self._found(users, epsilon)
        reason = f"there is no protocol for {self.task}"
        if found.refused:
            reason = f"no protocol reaches this margin: {found.refused[0]}"
        deliver(
            found.to_dict,
            lambda saved: print_table(found.table()) if found.answers else None,
            as_json=as_json,
            refusal=None if found.answers else Infeasible(reason),
        )

    def _found(self, users: int | None, epsilon: float | None) -> needs.Needs:
        if self.margin is not None and epsilon is not None:
            with progress("searching") as step:
                return needs.needed_crowd(
                    self.task, Budget(epsilon, self.delta), self.margin,
                    dishonest=self.dishonest, trust=self.trust, progress=step,
                )  # fmt: skip
        if self.margin is not None and users is not None:
            crowd = needs.crowd_with(users, self.dishonest)
            with progress("searching") as step:
                return needs.needed_epsilon(
                    self.task, crowd, self.margin, delta=self.delta, trust=self.trust,
                    progress=step,
                )  # fmt: skip
        raise InvalidParameter("--users and --epsilon must be given, or --margin with one of them")


def deliver_groups(
    wanted: Detection,
    epsilon: float | None,
    delta: float,
    dishonest: float,
    trust: Trust | None,
    *,
    as_json: bool,
) -> None:
    """Find and print how many people each of two groups needs for a test to find a difference."""
    if epsilon is None:
        raise InvalidParameter("--difference must come with --epsilon, got none")
    with progress("searching") as step:
        found = needed_groups(
            wanted.difference, Budget(epsilon, delta), share=wanted.share, power=wanted.power,
            confidence=wanted.confidence, dishonest=dishonest, trust=trust, progress=step,
        )  # fmt: skip
    deliver(
        found.to_dict,
        lambda saved: print_table(found.table()),
        as_json=as_json,
        refusal=None if found.answers else Infeasible(f"no protocol fits: {found.refused[0]}"),
    )
