"""Shows the margins of error for several shares of dishonest people, side by side."""

import math
from dataclasses import dataclass

from headcount.cli.output import deliver, print_table, progress
from headcount.core.budget import Budget, Trust
from headcount.core.table import Table, counted_people, short, size
from headcount.core.task import Task
from headcount.planner.needs import dishonest_plans
from headcount.planner.plan import Plan


@dataclass(frozen=True)
class Honesty:
    """Compares the margins of plans for several shares of dishonest people."""

    task: Task
    budget: Budget
    users: int
    confidence: float

    def deliver(self, shares: list[float], trust: Trust | None, *, as_json: bool) -> None:
        with progress("planning") as step:
            plans = dishonest_plans(
                self.task, self.budget, self.users, shares,
                confidence=self.confidence, trust=trust, progress=step,
            )  # fmt: skip
        deliver(
            lambda: {"plans": [{"dishonest": one, **p.to_dict()} for one, p in plans.items()]},
            lambda saved: print_table(self._table(plans)),
            as_json=as_json,
        )

    def _table(self, plans: dict[float, Plan]) -> Table:
        names = sorted({one.protocol for found in plans.values() for one in found.candidates})
        first = next(iter(plans.values()))
        names.sort(key=lambda name: _margins(first).get(name, math.inf))
        rows = tuple(
            (name, *(_shown(_margins(found).get(name)) for found in plans.values()))
            for name in names
        )
        return Table(
            ("protocol", *(f"{100 * one:g} % dishonest" for one in plans)),
            rows,
            title=f"{self.task}: ± {100 * self.confidence:.4g} %, {counted_people(self.users)}, "
            f"ε = {short(self.budget.epsilon)}, δ = {short(self.budget.delta)}",
            notes=(
                "The noise is calibrated for the honest people only. Margins do not include "
                "errors that dishonest people may cause.",
            ),
        )


def _margins(found: Plan) -> dict[str, float]:
    return {one.protocol: one.margin for one in found.candidates}


def _shown(margin: float | None) -> str:
    return "–" if margin is None else size(margin)
