"""Any local protocol behind a shuffler: privacy amplification.

Notation    A local protocol with ε0, n people, h of them honest.
Randomizer  That of the local protocol, for ε0.
Analyzer    That of the local protocol.
Privacy     The best bound that is proven for the randomizer (see `accounting.amplification`): the
            exact maximum over datasets for binary response, the privacy blanket for any other with
            few messages, clones for the rest. ε0 is the largest that meets the budget.
            Paper: the closed form of Feldman, McMillan, Talwar 2021.
Error       That of the local protocol for ε0.
Messages    Those of the local protocol. If shuffler and analyzer collude, ε0 is left.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

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
from headcount.core.estimate import Answer, ErrorLaw
from headcount.core.guarantee import Guarantee, PrivacyCurve
from headcount.core.messages import Messages
from headcount.core.protocol import BundleLaw, Calibration, Protocol
from headcount.core.source import Source
from headcount.core.table import short
from headcount.core.tally import Tally
from headcount.core.task import Bounded, Count, Density, Histogram, Holding, Mean, Sum, Task
from headcount.protocols.inner import InnerProtocol
from headcount.protocols.registry import protocol, protocol_names

_DEFAULTS: dict[type[Task], str] = {
    Count: "local.randomized-response",
    Histogram: "local.k-ary",
    Sum: "local.one-bit-mean",
    Mean: "local.one-bit-mean",
    Density: "local.density-histogram",
}
_FROM_TO = (1e-3, MOST_EPSILON)  # ε0 for which oracles have the most messages, some or others
_FEW = 64  # values and messages up to which a randomizer's whole law is looked at


@lru_cache(maxsize=256)
def _bound(name: str, task: Task, honest: int) -> Amplification:
    """The tightest bound that is proven for the randomizer of a local protocol."""
    if name in ("local.randomized-response", "local.one-bit-mean"):
        return BinaryResponse(honest)
    if name == "local.k-ary":
        # For two values the law of binary response is tighter: nobody can hold a third.
        return BinaryResponse(honest) if task.domain == 2 else Blanket.k_ary(honest, task.domain)
    # Of numbers there is no list; and it must be short for whichever ε0.
    few = not isinstance(task, Bounded) and task.domain <= _FEW
    if few and all(_rows(name, task, epsilon) for epsilon in _FROM_TO):
        return Blanket.of(honest, lambda epsilon: _rows(name, task, epsilon) or [])
    return Clones(honest)


def _rows(name: str, task: Task, local_epsilon: float) -> list[list[Any]] | None:
    """The law of the randomizer, a row for each value; None if it has too many messages to list."""
    local = protocol(name, task, Budget(local_epsilon), Crowd(1))
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
    """The largest ε0 within the budget, and so at least ε; None if the paper has none."""
    if calibration == "exact":
        return min(amplification.local_epsilon(budget.epsilon, budget.delta), MOST_EPSILON)
    if not budget.delta:
        return budget.epsilon

    def private(local_epsilon: float) -> bool:
        try:
            found = clones_closed_form(amplification.honest, local_epsilon, budget.delta)
        except InvalidParameter:
            return False
        return found <= budget.epsilon

    low, high = 0.0, 64.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if private(middle) else (low, middle)
    return low if low >= budget.epsilon else None


@dataclass(frozen=True)
class Amplified(InnerProtocol):
    name = "shuffle.amplified"
    trust = Trust.SHUFFLE
    tasks: ClassVar[tuple[type[Task], ...]] = (Count, Histogram, Sum, Mean, Density)

    local: str | None = None  # the local protocol's name; by default a response to the task

    def __post_init__(self) -> None:
        if self.local is not None:
            checks.choice("local", self.local, protocol_names(self.task, Trust.LOCAL))
        super().__post_init__()
        _ = self._inner  # an infeasible request is refused now, not at the first use

    @property
    def _local_name(self) -> str:
        return self.local or next(
            name for task, name in _DEFAULTS.items() if isinstance(self.task, task)
        )

    @property
    def amplification(self) -> Amplification:
        """What this crowd gains: ε, δ or ε0 from the other two."""
        return _bound(self._local_name, self.task, self.crowd.honest)

    @cached_property
    def _inner(self) -> Protocol:
        """The local protocol that people run."""
        local_epsilon = _calibrate(self.amplification, self.budget, self.calibration)
        if local_epsilon is None:
            # With so many, the closed form of ε0 = ε is below ε.
            enough = 20 * math.log(4 / self.budget.delta) * math.exp(self.budget.epsilon)
            raise Infeasible(
                f"the paper's closed form for {self.name} gains nothing for epsilon="
                f"{short(self.budget.epsilon)}, delta={short(self.budget.delta)} with "
                f"{self.crowd.honest} honest people",
                nearest={"honest": math.ceil(enough)} if enough < MOST_USERS else None,
            )
        return protocol(self._local_name, self.task, Budget(local_epsilon), self.crowd)

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"local_epsilon": self._inner.budget.epsilon}

    @cached_property
    def guarantee(self) -> Guarantee:
        computed, bound = self.calibration == "exact", self.amplification
        return self._promise(
            bound.method if computed else "Feldman, McMillan and Talwar 2021",
            delta=self.curve.delta(self.budget.epsilon) if computed else self.budget.delta,
            exact=computed and bound.exact,
        )

    @cached_property
    def curve(self) -> PrivacyCurve:
        # The local protocol rounds its probabilities to the private side of ε0.
        local_epsilon = self._inner.budget.epsilon
        return SymmetricCurve(
            lambda epsilon: self.amplification.delta(local_epsilon, epsilon), local_epsilon
        )

    def law(self, value: Any) -> BundleLaw | None:
        return self._inner.law(value)

    def _answer_range(self, users: int) -> tuple[float, float]:
        return self._inner._answer_range(users)

    def _target(self, held: Holding) -> Answer:
        return self._inner._target(held)

    @property
    def worst_is_attained(self) -> bool:
        return self._inner.worst_is_attained

    @property
    def expected_error(self) -> float:
        return self._inner.expected_error

    def _standard_error(self, users: int, held: Holding | None) -> float:
        return self._inner._standard_error(users, held)

    def _extremes(self, users: int, confidence: float) -> Iterable[Answer]:
        return self._inner._extremes(users, confidence)

    def _error_law(self, users: int, value: Answer) -> ErrorLaw:
        return self._inner._error_law(users, value)

    def _randomize(self, encoded: NDArray[Any], source: Source) -> Messages:
        return self._inner._randomize(encoded, source)

    def _unbiased(self, tally: Tally, source: Source | None) -> Answer:
        return self._inner._unbiased(tally, source)

    def _answer(self, users: int, unbiased: Answer) -> Answer:
        return self._inner._answer(users, unbiased)

    def _simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        return self._inner._simulate(held, source)
