"""Any local protocol with a shuffler: privacy amplification by shuffling.

Notation    ε0 is the ε of the local protocol. n is the number of people; h of them are honest.
Randomizer  The randomizer of the local protocol for ε0.
Analyzer    The analyzer of the local protocol.
Privacy     The best bound that is proven for the randomizer (see `accounting.amplification`). For
            binary response, it is the maximum over all datasets, which is exact for up to 10,000
            honest people. For k-ary response, and for other randomizers with few values and few
            messages, it is the privacy blanket. For all others, it is the clones bound of Feldman,
            McMillan, Talwar 2021. ε0 is as large as the budget allows.
            With `calibration="paper"`, the bound is the closed form of Feldman, McMillan, Talwar
            2021.
Error       The error of the local protocol for ε0.
Messages    The messages of the local protocol. If the shuffler and the analyzer collude, the
            privacy loss is ε0.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from headcount.accounting.amplification import (
    Amplification,
    BinaryResponse,
    Blanket,
    Clones,
    clones_closed_form,
)
from headcount.accounting.divergence import SymmetricCurve
from headcount.core import checks
from headcount.core.budget import MOST_EPSILON, MOST_USERS, Budget, Crowd, Trust
from headcount.core.cached import cached_property
from headcount.core.errors import Infeasible, InvalidParameter
from headcount.core.estimator import Estimator
from headcount.core.guarantee import Guarantee, PrivacyCurve
from headcount.core.promise import promise
from headcount.core.protocol import Calibration, Protocol
from headcount.core.randomizer import Randomizer
from headcount.core.table import short
from headcount.core.task import Task
from headcount.core.tasks.bounded import Mean, Sum
from headcount.core.tasks.count import Count
from headcount.core.tasks.density import Density
from headcount.core.tasks.histogram import Histogram
from headcount.protocols.registry import is_outside, own_names, protocol_class, protocol_names

_ENDS = (1e-3, MOST_EPSILON)  # the smallest and the largest ε0 for which laws are computed
_FEW = 64  # the blanket of the full law is used up to this many values and this many messages


@lru_cache(maxsize=256)
def _bound(kind: type[Protocol], task: Task, honest: int) -> Amplification:
    """The tightest bound that is proven for the randomizer of a local protocol."""
    name = kind.name  # no other class can have the name of one of Headcount's own protocols
    if name in ("local.randomized-response", "local.one-bit-mean"):
        return BinaryResponse(honest)
    if name == "local.k-ary":
        # For two values, k-ary response is binary response, which has a tighter bound.
        return BinaryResponse(honest) if task.domain == 2 else Blanket.k_ary(honest, task.domain)
    # The law must be short for every ε0. It is longest for the smallest or the largest ε0.
    few = task.numbered and task.domain <= _FEW
    if few and all(_rows(kind, task, epsilon) for epsilon in _ENDS):
        return Blanket.of(honest, lambda epsilon: _rows(kind, task, epsilon) or [])
    return Clones(honest)


def _rows(kind: type[Protocol], task: Task, local_epsilon: float) -> list[list[Any]] | None:
    """The law of the randomizer, with one row per value; None if the law is not known in full or
    has too many messages.

    If the local protocol is infeasible for this ε0, the rows are those of a randomizer that always
    sends the same message.
    """
    try:
        local = kind(task, Budget(local_epsilon), Crowd(1))
    except Infeasible:
        return [[1]] * task.domain
    laws = [local.law(value) for value in range(task.domain)]
    listed = [law for law in laws if law is not None]
    messages = sorted({bundle for law in listed for bundle in law})
    whole = len(listed) == len(laws) and all(sum(law.values()) == 1 for law in listed)
    if not whole or len(messages) > _FEW:
        return None
    return [[law.get(message, 0) for message in messages] for law in listed]


@lru_cache(maxsize=256)
def _calibrate(
    amplification: Amplification, budget: Budget, calibration: Calibration
) -> float | None:
    """The largest ε0 that the budget allows. It is at least ε. None if the paper's closed form
    allows no such ε0.
    """
    if calibration == "exact":
        return min(amplification.local_epsilon(budget.epsilon, budget.delta), MOST_EPSILON)
    if not budget.delta:
        return budget.epsilon

    def private(local_epsilon: float) -> bool:
        try:
            epsilon = clones_closed_form(amplification.honest, local_epsilon, budget.delta)
        except InvalidParameter:
            return False
        return epsilon <= budget.epsilon

    low, high = 0.0, 64.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if private(middle) else (low, middle)
    return low if low >= budget.epsilon else None


@dataclass(frozen=True)
class Amplified(Protocol):
    name = "shuffle.amplified"
    trust = Trust.SHUFFLE
    tasks: ClassVar[tuple[type[Task], ...]] = (Count, Histogram, Sum, Mean, Density)

    # The name of the local protocol. The default is the first local protocol for the task.
    local: str | None = None

    def check_options(self) -> None:
        if self.local is not None:
            checks.choice("local", self.local, protocol_names(self.task, Trust.LOCAL))

    @property
    def amplification(self) -> Amplification:
        """The bound for this crowd. Given two of ε, δ and ε0, it computes the third."""
        return _bound(self._kind, self.task, self.crowd.honest)

    @cached_property
    def _kind(self) -> type[Protocol]:
        """The class of the local protocol. It is cached, since finding it is slow."""
        return protocol_class(self.local or own_names(self.task, Trust.LOCAL)[0], self.task)

    @cached_property
    def inner(self) -> Protocol:
        """The local protocol that people run."""
        local_epsilon = _calibrate(self.amplification, self.budget, self.calibration)
        if local_epsilon is None:
            # With this many people, the closed form gives less than ε for ε0 = ε.
            enough = 20 * math.log(4 / self.budget.delta) * math.exp(self.budget.epsilon)
            raise Infeasible(
                f"the paper's closed form for {self.name} gains nothing for epsilon="
                f"{short(self.budget.epsilon)}, delta={short(self.budget.delta)} with "
                f"{self.crowd.honest} honest people",
                nearest={"honest": math.ceil(enough)} if enough < MOST_USERS else None,
            )
        kind = self._kind
        if is_outside(kind.name):
            return self._from_outside(local_epsilon)
        return kind(self.task, Budget(local_epsilon), self.crowd)

    def _from_outside(self, local_epsilon: float) -> Protocol:
        """The local protocol, if it is not one of Headcount's own. Its guarantee is checked, since
        the bounds require pure privacy.

        The ε that the local protocol guarantees may be smaller than ε0. If the randomizer is the
        same for this smaller ε, the protocol is built for it.
        """
        name, honest = self._kind.name, self.crowd.honest
        try:
            local = self._kind(self.task, Budget(local_epsilon), self.crowd)
        except Infeasible as refusal:
            raise Infeasible(
                f"{honest} honest people allow a local epsilon of at most "
                f"{short(local_epsilon)}: {refusal.message}"
            ) from None
        alone = local.guarantee
        if alone.delta > 0 or alone.epsilon > local_epsilon:
            raise Infeasible(
                f"{name} must keep a local epsilon of {short(local_epsilon)} to be amplified, "
                f"got epsilon={short(alone.epsilon)}, delta={short(alone.delta)}"
            )
        stated = self._kind(self.task, Budget(alone.epsilon), self.crowd)
        return stated if stated.randomizer == local.randomizer else local

    @property
    def randomizer(self) -> Randomizer:
        return self.inner.randomizer

    @property
    def estimator(self) -> Estimator:
        return self.inner.estimator

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"local_epsilon": self.inner.budget.epsilon}

    @cached_property
    def curve(self) -> PrivacyCurve:
        # The local protocol rounds its probabilities so that its privacy loss is at most ε0.
        local_epsilon = self.inner.budget.epsilon
        return SymmetricCurve(
            lambda epsilon: self.amplification.delta(local_epsilon, epsilon), local_epsilon
        )

    @cached_property
    def guarantee(self) -> Guarantee:
        computed, bound = self.calibration == "exact", self.amplification
        return promise(
            self,
            bound.method if computed else "Feldman, McMillan and Talwar 2021",
            delta=self.curve.delta(self.budget.epsilon) if computed else self.budget.delta,
            exact=computed and bound.exact,
        )

    @property
    def local_epsilon(self) -> float:
        return self.inner.local_epsilon
