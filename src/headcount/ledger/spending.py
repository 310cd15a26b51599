"""Reports the budget that was spent on a dataset, as a table or as a dictionary for JSON."""

from dataclasses import asdict, dataclass
from typing import Any

from headcount.core.budget import Budget
from headcount.core.errors import MissingPackage
from headcount.core.guarantee import rounded_down, rounded_up
from headcount.core.table import Table, exact, short
from headcount.ledger.account import Account
from headcount.ledger.entry import Entry
from headcount.ledger.rule import Rule, Terms

_SHOWN = 20  # the largest number of entries that a table shows


@dataclass(frozen=True)
class Spending:
    """All entries of a dataset, the budget that they spent, and the budget that is left.

    `epsilon` was spent at the limit's δ, and `delta` was spent at the limit's ε. Each of the two is
    the least value with which a limit allows the same entries under the same rule. One more release
    of any kind still fits if it costs (`pure_remaining`, 0) or (`remaining_epsilon`,
    `remaining_delta`). These are alternatives: after one of them is spent, the other need not fit
    (see `Account.room`). `composed` says whether privacy-loss distributions were composed.
    `condition` says when the rule holds.
    """

    dataset: str
    limit: Budget
    rule: Rule
    condition: str
    entries: tuple[Entry, ...]
    releases: int
    epsilon: float
    delta: float
    pure_remaining: float
    remaining_epsilon: float
    remaining_delta: float
    composed: bool

    @classmethod
    def of(
        cls, dataset: str, terms: Terms, account: Account, entries: tuple[Entry, ...]
    ) -> "Spending":
        """The spending of an account with these entries."""
        try:
            composed = account.is_composed
        except MissingPackage:  # plain sums are also correct, but they allow less
            account, composed = account.without_laws, False
        spare = account.spare_delta
        return cls(
            dataset=dataset,
            limit=terms.limit,
            rule=terms.rule,
            condition=terms.condition,
            entries=entries,
            releases=account.releases,
            epsilon=account.epsilon,
            delta=account.delta,
            pure_remaining=account.room(0.0),
            remaining_epsilon=account.room(spare),
            remaining_delta=spare,
            composed=composed,
        )

    def table(self) -> Table:
        """A table of the latest entries. Notes state the spent and the remaining budget."""
        shown = self.entries[-_SHOWN:]
        return Table(
            title=f"{self.dataset}: {len(self.entries):,} "
            f"{'entry' if len(self.entries) == 1 else 'entries'}, limit "
            f"ε = {short(self.limit.epsilon)}, δ = {short(self.limit.delta)}",
            columns=("entry", "time", "protocol", "task", "trust", "ε", "δ", "times"),
            rows=tuple(
                (
                    f"{one.number}",
                    f"{one.time[:19].replace('T', ' ')}",
                    one.protocol,
                    one.task,
                    str(one.trust),
                    rounded_up(one.epsilon),
                    rounded_up(one.delta),
                    f"{one.times:,}",
                )
                for one in shown
            ),
            words=5,
            spare=("times", "task", "trust", "time"),
            notes=tuple(self._notes(len(shown))),
        )

    def _notes(self, shown: int) -> list[str]:
        before = len(self.entries) - shown
        notes = [f"{before:,} earlier entries are not shown."] if before else []
        notes.append(
            f"spent: ε = {rounded_up(self.epsilon)} at δ = {short(self.limit.delta)}"
            + (
                f", δ = {rounded_up(self.delta)} at ε = {short(self.limit.epsilon)}"
                * (self.delta > 0)
            )
        )
        pairs = [(self.pure_remaining, 0.0)]
        if self.remaining_delta:
            pairs.append((self.remaining_epsilon, self.remaining_delta))
        left = " or ".join(
            f"ε = {exact(epsilon)} at δ = {exact(rounded_down(delta))}" for epsilon, delta in pairs
        )
        notes.append(f"remaining: {left}")
        protected = {str(one.note["protected"]) for one in self.entries if "protected" in one.note}
        if len(protected) > 1:
            notes.append(
                "Entries protect against different changes of the data. The total holds only for "
                "changes that all entries protect against. The changes are: "
                + "; or ".join(sorted(protected))
            )
        notes.append(self.condition)
        return notes

    def __str__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table().html()

    def to_dict(self) -> dict[str, Any]:
        """The spending as a dictionary for JSON."""
        return {
            "dataset": self.dataset,
            "limit": asdict(self.limit),
            "number": len(self.entries),
            "releases": self.releases,
            "rule": str(self.rule),
            "spent": [
                {"epsilon": self.epsilon, "delta": self.limit.delta},
                {"epsilon": self.limit.epsilon, "delta": self.delta},
            ],
            "remaining": [
                {"epsilon": self.pure_remaining, "delta": 0.0},
                {"epsilon": self.remaining_epsilon, "delta": self.remaining_delta},
            ],
            "composed": self.composed,
            "entries": [entry.to_dict() for entry in self.entries],
        }
