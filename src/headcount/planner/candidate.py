"""Assesses one protocol for one setting: what it would cost, or why it is refused."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from numbers import Integral
from typing import Any

from headcount.core import checks
from headcount.core.budget import Budget, Crowd, Trust
from headcount.core.errors import Infeasible, InvalidParameter
from headcount.core.guarantee import Guarantee
from headcount.core.protocol import Protocol
from headcount.core.task import Task
from headcount.planner.cache import cached
from headcount.protocols.registry import is_outside, protocol, protocol_class


@dataclass(frozen=True)
class Candidate:
    """What a protocol costs.

    The errors are those of privacy noise alone, for the worst data. `margin` is half the length of
    an interval. Plans order candidates by `expected_error`: see `Estimator.ranking_error`.
    """

    protocol: str
    trust: Trust
    standard_error: float
    standard_error_is: str  # "exact", or "upper bound" if perhaps no data reach this error
    expected_error: float
    margin: float
    confidence: float
    messages_per_user: float
    bits_per_message: int
    local_epsilon: float
    guarantee: Guarantee
    parameters: Mapping[str, float]
    options: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The candidate for JSON, which has no infinity. An infinite `local_epsilon` is None."""
        infinite = math.isinf(self.local_epsilon)
        return {**asdict(self), "local_epsilon": None if infinite else self.local_epsilon}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> "Candidate":
        """The candidate that `to_dict` wrote."""
        given = dict(document)
        for key in ("standard_error", "expected_error", "margin", "messages_per_user"):
            checks.real(key, given[key])
        checks.confidence(given["confidence"])
        checks.whole("bits_per_message", given["bits_per_message"], low=1, high=2**62)
        for key, value in given["parameters"].items():
            checks.real(key, value)
        if not isinstance(given["options"], dict):
            raise InvalidParameter(f"options must have names, got {given['options']!r}")
        guarantee = {**given["guarantee"], "trust": Trust(given["guarantee"]["trust"])}
        if given["local_epsilon"] is None:
            given["local_epsilon"] = math.inf
        else:
            checks.real("local_epsilon", given["local_epsilon"])
        return cls(**{**given, "trust": Trust(given["trust"]), "guarantee": Guarantee(**guarantee)})

    @property
    def bits_per_user(self) -> float:
        """The expected number of bits of the person who sends most."""
        return self.messages_per_user * self.bits_per_message


@dataclass(frozen=True)
class Refusal:
    """Why a protocol is refused. `feasible` names settings with which it would not be refused."""

    protocol: str
    trust: Trust
    reason: str
    feasible: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        named = self.reason.startswith(self.protocol)
        return self.reason if named else f"{self.protocol}: {self.reason}"

    def to_dict(self) -> dict[str, Any]:
        """The refusal for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> "Refusal":
        """What `to_dict` wrote."""
        for key, value in document["feasible"].items():
            checks.real(key, value)
        return cls(**{**document, "trust": Trust(document["trust"])})


def assess(
    name: str,
    task: Task,
    budget: Budget,
    crowd: Crowd,
    confidence: float = 0.95,
    keep: Callable[[Protocol], None] = lambda built: None,
    **options: Any,
) -> Candidate | Refusal:
    """What a protocol costs, or why it is refused. The answer may come from the cache.

    If it does not, `keep` is called with the protocol that was built. Protocols from outside are
    always assessed anew, because the cache cannot know when their code has changed.
    """
    if any(map(is_outside, (name, *options.values()))):
        return _assess_outside(name, task, budget, crowd, confidence, keep, **options)
    question = {
        "protocol": name,
        "task": task.to_dict(),
        "budget": asdict(budget),
        "crowd": asdict(crowd),
        "confidence": confidence,
        "options": options,
    }

    def compute() -> dict[str, Any]:
        result = _assess(name, task, budget, crowd, confidence, keep, **options)
        kind = "candidate" if isinstance(result, Candidate) else "refusal"
        return {kind: result.to_dict()}

    def parse(answer: Any) -> Candidate | Refusal:
        if "refusal" in answer:
            return Refusal.from_dict(answer["refusal"])
        return Candidate.from_dict(answer["candidate"])

    return cached(question, compute, parse)


def _assess(
    name: str,
    task: Task,
    budget: Budget,
    crowd: Crowd,
    confidence: float,
    keep: Callable[[Protocol], None],
    **options: Any,
) -> Candidate | Refusal:
    try:
        built = protocol(name, task, budget, crowd, **options)
        keep(built)
        return Candidate(
            protocol=name,
            trust=built.trust,
            standard_error=float(built.standard_error()),
            standard_error_is="exact" if built.estimator.worst_is_attained else "upper bound",
            expected_error=float(built.estimator.ranking_error(built.crowd.users)),
            margin=built.margin(confidence),
            confidence=confidence,
            messages_per_user=float(built.messages_per_user),
            bits_per_message=built.alphabet.bits,
            local_epsilon=float(built.local_epsilon),
            guarantee=built.guarantee,
            parameters=_plain(built.parameters),
            options=options,
        )
    except Infeasible as refusal:
        trust = protocol_class(name, task).trust
        return Refusal(name, trust, refusal.message, refusal.nearest)


def _assess_outside(
    name: str, task: Task, budget: Budget, *others: Any, **options: Any
) -> Candidate | Refusal:
    """Assesses a protocol whose code is not Headcount's own.

    If its code fails, or if its guarantee exceeds the budget, the protocol is refused and the rest
    of the plan is not affected.
    """
    kind = protocol_class(name, task)
    try:
        result = _assess(name, task, budget, *others, **options)
    except Exception as error:
        reason = " ".join(f"its code fails with {type(error).__name__}: {error}".split())
        return Refusal(name, kind.trust, reason)
    if isinstance(result, Candidate):
        promised = result.guarantee
        if promised.epsilon > budget.epsilon or promised.delta > budget.delta:
            return Refusal(name, kind.trust, f"its guarantee is beyond the budget: {promised}")
    return result


def _plain(parameters: Mapping[str, float]) -> dict[str, float]:
    """The parameters as Python numbers, which are the same after JSON has written and read them."""
    return {
        key: int(value) if isinstance(value, Integral) else float(value)
        for key, value in parameters.items()
    }
