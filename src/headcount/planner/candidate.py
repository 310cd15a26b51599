"""Assesses one protocol for one setting: its errors and costs, or the reason for its refusal."""

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
from headcount.core.work import can_be_drawn_at_once, seconds_of_messages
from headcount.planner.cache import cached
from headcount.protocols.registry import is_outside, protocol, protocol_class


@dataclass(frozen=True)
class InfluenceRange:
    """How far one dishonest person can shift the answer, up and down: see `Influence`.

    A number is infinite if the shift has no limit.
    """

    up: float
    down: float

    @property
    def most(self) -> float:
        """The larger of the two shifts."""
        return max(abs(self.up), abs(self.down))

    def to_dict(self) -> dict[str, float | None]:
        """The two shifts as a dictionary for JSON. Infinite numbers become None."""
        return {
            side: None if math.isinf(number) else number for side, number in asdict(self).items()
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> "InfluenceRange":
        """The shifts that `to_dict` wrote."""
        up, down = (document[side] for side in ("up", "down"))
        return cls(
            math.inf if up is None else checks.real("up", up),
            -math.inf if down is None else checks.real("down", down),
        )


@dataclass(frozen=True)
class Candidate:
    """The errors and costs of a protocol.

    `standard_error` and `margin` are for worst-case data, and include privacy noise alone. `margin`
    is half the length of a confidence interval. Plans rank candidates by `expected_error` (see
    `Estimator.ranking_error`). For most tasks, this is the standard error. For a density, it also
    includes sampling and smoothing. For a distribution, it is the root mean squared error over all
    edges between cells. A person's bundle has a fixed number of slots, each for one message or
    dummy. `sealed_bytes` is the size of the bundle in bytes if each message is sealed (encrypted).
    `slots` and `sealed_bytes` are None if no bundle fits the budget. `influence` is None if the
    protocol does not state it. `shuffler_duties` is None if there is no shuffler. `seconds` is
    about how long one core takes to make and count everybody's messages. `seconds` is 0 if there
    are no messages, or if their tally can be drawn in a single step.
    """

    protocol: str
    trust: Trust
    standard_error: float
    standard_error_is: str  # "exact" if some data have this error, else "upper bound"
    expected_error: float
    margin: float
    confidence: float
    messages_per_user: float
    bits_per_message: int
    seconds: float
    slots: int | None
    sealed_bytes: int | None
    influence: InfluenceRange | None
    shuffler_duties: str | None
    local_epsilon: float
    guarantee: Guarantee
    parameters: Mapping[str, float]
    options: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The candidate as a dictionary for JSON. An infinite `local_epsilon` becomes None."""
        infinite = math.isinf(self.local_epsilon)
        return {
            **asdict(self),
            "influence": None if self.influence is None else self.influence.to_dict(),
            "relies_on_honest_people": self.relies_on_honest_people,
            "local_epsilon": None if infinite else self.local_epsilon,
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> "Candidate":
        """The candidate that `to_dict` wrote."""
        given = {key: one for key, one in document.items() if key != "relies_on_honest_people"}
        for key in ("standard_error", "expected_error", "margin", "messages_per_user", "seconds"):
            checks.real(key, given[key])
        checks.confidence(given["confidence"])
        checks.whole("bits_per_message", given["bits_per_message"], low=1, high=2**62)
        for key in ("slots", "sealed_bytes"):
            if given[key] is not None:
                checks.whole(key, given[key], low=1, high=2**62)
        if given["shuffler_duties"] is not None:
            checks.instance("shuffler_duties", given["shuffler_duties"], str)
        if given["influence"] is not None:
            given["influence"] = InfluenceRange.from_dict(given["influence"])
        for key, value in given["parameters"].items():
            checks.real(key, value)
        if not isinstance(given["options"], dict):
            raise InvalidParameter(f"`options` must map names to values, got {given['options']!r}")
        guarantee = {**given["guarantee"], "trust": Trust(given["guarantee"]["trust"])}
        if given["local_epsilon"] is None:
            given["local_epsilon"] = math.inf
        else:
            checks.real("local_epsilon", given["local_epsilon"])
        return cls(**{**given, "trust": Trust(given["trust"]), "guarantee": Guarantee(**guarantee)})

    @property
    def relies_on_honest_people(self) -> bool:
        """Whether the guarantee relies on several honest people."""
        return self.trust is Trust.SHUFFLE and self.guarantee.honest > 1

    @property
    def bits_per_user(self) -> float:
        """The expected number of bits that a person sends, for the value with the most messages."""
        return self.messages_per_user * self.bits_per_message


@dataclass(frozen=True)
class Refusal:
    """Why a protocol is refused. `feasible` has settings with which it would not be refused.

    If `missed` is true, the protocol could run, but it misses a requirement of the plan.
    """

    protocol: str
    trust: Trust
    reason: str
    feasible: Mapping[str, float] = field(default_factory=dict)
    missed: bool = False

    def __str__(self) -> str:
        named = self.reason.startswith(self.protocol)
        return self.reason if named else f"{self.protocol}: {self.reason}"

    def to_dict(self) -> dict[str, Any]:
        """The refusal as a dictionary for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> "Refusal":
        """The refusal that `to_dict` wrote."""
        for key, value in document["feasible"].items():
            checks.real(key, value)
        checks.flag("missed", document["missed"])
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
    """The errors and costs of a protocol, or its refusal. The result may come from the cache.

    Otherwise the protocol is built, and `keep` is called with the protocol. Results of protocols
    from outside Headcount are never cached, because the cache cannot notice changes in their code.
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
            seconds=0.0 if can_be_drawn_at_once(built) else seconds_of_messages(built, crowd.users),
            slots=_slots(built),
            sealed_bytes=None if _slots(built) is None else built.sealed_bytes,
            influence=_shift(built),
            shuffler_duties=built.shuffler_duties if built.trust is Trust.SHUFFLE else None,
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
    """Assess a protocol whose code is not part of Headcount.

    If its code fails, or if its guarantee exceeds the budget, the protocol is refused. The rest of
    the plan is not affected.
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
            return Refusal(name, kind.trust, f"its guarantee exceeds the budget: {promised}")
    return result


def _slots(built: Protocol) -> int | None:
    """The number of slots in a person's bundle, or None if no bundle fits the budget."""
    try:
        return built.slots
    except Infeasible:
        return None


def _shift(built: Protocol) -> InfluenceRange | None:
    """How far one person can shift the answer, or None if the protocol does not state it."""
    try:
        influence = built.influence
    except NotImplementedError:
        return None
    if influence.any_answer:
        return InfluenceRange(math.inf, -math.inf)
    return InfluenceRange(float(influence.up), float(influence.down))


def _plain(parameters: Mapping[str, float]) -> dict[str, float]:
    """The parameters as Python numbers, which do not change when JSON writes and reads them."""
    return {
        key: int(value) if isinstance(value, Integral) else float(value)
        for key, value in parameters.items()
    }
