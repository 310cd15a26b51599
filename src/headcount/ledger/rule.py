"""The rule that decides whether charges fit a limit. It is chosen together with the limit."""

import math
from dataclasses import dataclass
from enum import StrEnum

from headcount.accounting import privacy_filter
from headcount.core.budget import Budget
from headcount.ledger.account import Account, Charge
from headcount.ledger.adaptive import AdaptiveAccount
from headcount.ledger.composed import ComposedAccount


class Rule(StrEnum):
    """`composed` allows the most releases. `adaptive` lets privacy curves depend on earlier
    answers.
    """

    COMPOSED = "composed"
    ADAPTIVE = "adaptive"


@dataclass(frozen=True)
class Terms:
    """A limit and its rule. `order` is the order of the Rényi divergences in the adaptive rule. It
    is None if the rule uses no divergences.
    """

    limit: Budget
    rule: Rule
    order: float | None

    @classmethod
    def of(cls, limit: Budget, rule: Rule) -> "Terms":
        if rule is Rule.COMPOSED or not limit.delta:
            return cls(limit, rule, None)
        return cls(limit, rule, privacy_filter.best_order(limit.epsilon, limit.delta))

    def account(self, charges: tuple[Charge, ...]) -> Account:
        if self.rule is Rule.COMPOSED:
            return ComposedAccount(self.limit, charges)
        return AdaptiveAccount(self.limit, charges, math.nan if self.order is None else self.order)

    @property
    def condition(self) -> str:
        """A sentence that states the condition under which the limit holds."""
        if not self.limit.delta:
            return "Plain sums hold even if each release is chosen based on earlier answers."
        if self.rule is Rule.COMPOSED:
            return (
                "The composed rule holds if the sequence of privacy curves (protocol, budget, "
                "crowd and options of each release) was fixed before the first answer."
            )
        return (
            "The adaptive rule holds even if each release, including its privacy curve, is chosen "
            "based on earlier answers."
        )
