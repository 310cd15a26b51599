"""The wishes of a plan: the requirements on a protocol besides a small error."""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, TypedDict

from headcount.core import checks
from headcount.core.budget import Trust
from headcount.core.bundles import MOST_SLOTS
from headcount.core.errors import InvalidParameter
from headcount.core.limits import Limits
from headcount.core.sealing import LEAST_SIZE
from headcount.core.table import short, size
from headcount.core.task import Task
from headcount.planner.candidate import Candidate, Refusal
from headcount.planner.margin import Margin

# The default limits of a collection, for each person.
FEW_SLOTS = 64
FEW_BYTES = 16_000
FEW_ERRORS = 10  # the largest influence of one person, in standard errors of the answer


class Purpose(StrEnum):
    """The purpose of a plan: the least error, or a collection from real people."""

    ACCURACY = "accuracy"
    COLLECTION = "collection"


class LimitArguments(TypedDict, total=False):
    """The limits of a plan, as keyword arguments. None means no limit."""

    max_messages: float | None
    max_slots: int | None
    max_bytes: int | None
    max_influence: float | None


@dataclass(frozen=True)
class Miss:
    """One wish that a candidate does not fulfill."""

    reason: str
    times: float  # the candidate's number divided by the limit; infinity if no larger limit helps
    enough: tuple[str, float] | None = None  # the name and value of a limit that is large enough


@dataclass(frozen=True)
class Wishes:
    """The requirements on a protocol.

    The limits on messages, slots and bytes are for each person. A person's bundle has a fixed
    number of slots, each for one message or dummy. Its size in bytes is that of the sealed
    (encrypted) messages. Influence is the largest amount by which one dishonest person can shift
    the answer, up or down. A collection has default limits on slots, bytes and influence. Each of
    them applies unless the caller gives another limit of that kind. If `exact` is true, a guarantee
    that is only an upper bound is not enough.
    """

    purpose: Purpose = Purpose.ACCURACY
    max_messages: float | None = None
    max_slots: int | None = None
    max_bytes: int | None = None
    max_influence: float | None = None
    exact: bool = False

    def __post_init__(self) -> None:
        limits = Limits(self.max_messages, self.max_slots)
        most_bytes, influence = self.max_bytes, self.max_influence
        if most_bytes is not None:
            most_bytes = checks.whole("max_bytes", most_bytes, low=1, high=2**62)
        if influence is not None:
            influence = checks.real("max_influence", influence)
            if influence <= 0:
                raise InvalidParameter(f"`max_influence` must be positive, got {short(influence)}")
        slots = limits.slots
        if self.purpose is Purpose.COLLECTION:
            slots = FEW_SLOTS if slots is None else slots
            most_bytes = FEW_BYTES if most_bytes is None else most_bytes
        for name, value in {
            "max_messages": limits.messages,
            "max_slots": slots,
            "max_bytes": most_bytes,
            "max_influence": influence,
            "exact": checks.flag("exact", self.exact),
        }.items():
            object.__setattr__(self, name, value)

    def to_dict(self) -> dict[str, Any]:
        """The wishes as a dictionary for JSON."""
        return asdict(self)

    @property
    def limits(self) -> Limits:
        """The limits on messages and slots. A limit on bytes also limits slots."""
        slots = [] if self.max_slots is None else [self.max_slots]
        if self.max_bytes is not None:
            slots.append(min(max(self.max_bytes // LEAST_SIZE, 1), MOST_SLOTS))
        return Limits(self.max_messages, min(slots, default=None))

    def check_trust(self, trust: Trust | None) -> None:
        """Refuse a collection in central trust."""
        if self.purpose is Purpose.COLLECTION and trust is Trust.CENTRAL:
            raise InvalidParameter("`trust` must be shuffle or local for a collection, got central")

    def include(self, trust: Trust) -> bool:
        """Whether the plan includes protocols of this trust model."""
        return self.purpose is Purpose.ACCURACY or trust is not Trust.CENTRAL

    def allowed_influence(self, candidate: Candidate) -> float | None:
        """The largest influence that one person may have, or None if there is no limit."""
        if self.max_influence is None and self.purpose is Purpose.COLLECTION:
            return FEW_ERRORS * candidate.standard_error
        return self.max_influence

    def fewer_slots(self, candidate: Candidate) -> int | None:
        """A number of slots with which one person has about the allowed influence.

        The result is None if the influence is not too large, or if fewer slots cannot help. In many
        protocols, influence is proportional to the number of slots.
        """
        allowed = self.allowed_influence(candidate)
        slots, shift = candidate.slots, candidate.influence
        if allowed is None or slots is None or shift is None or shift.most <= allowed:
            return None
        fewer = min(math.floor(slots * allowed / shift.most), slots - 1)
        return fewer if fewer > 0 else None

    def misses(self, candidate: Candidate) -> Iterator[Miss]:
        """The wishes that a candidate does not fulfill."""
        for name, what, number, most in (
            ("max_messages", "messages per person", candidate.messages_per_user, self.max_messages),
            ("max_slots", "slots per person", candidate.slots, self.max_slots),
            ("max_bytes", "bytes per person", candidate.sealed_bytes, self.max_bytes),
        ):
            if most is None:
                continue
            if number is None:
                reason = f"it has no bundles, but at most {size(most)} {what} are allowed"
                yield Miss(reason, math.inf)
            elif number > most:
                needed = f"its number of {what} is {size(number)}"
                yield Miss(
                    f"{needed}, but at most {size(most)} is allowed",
                    number / most,
                    (name, _rounded_up(number)),
                )
        yield from self._influence_misses(candidate)
        if self.exact and not candidate.guarantee.exact:
            reason = "its guarantee is an upper bound, but an exact guarantee was asked for"
            yield Miss(reason, math.inf)

    def _influence_misses(self, candidate: Candidate) -> Iterator[Miss]:
        allowed = self.allowed_influence(candidate)
        if allowed is None:
            return
        default = "" if self.max_influence else f" ({FEW_ERRORS} standard errors)"
        limit = f"at most {size(allowed)}{default} is allowed"
        if candidate.influence is None:
            reason = f"it does not state how far one person can shift its answer, but {limit}"
            yield Miss(reason, math.inf)
            return
        got = candidate.influence.most
        if math.isinf(got):
            yield Miss(f"one person can make its answer any number, but {limit}", got)
        elif got > allowed:
            reason = f"one person can shift its answer by {size(got)}, but {limit}"
            yield Miss(reason, got / allowed, ("max_influence", _rounded_up(got)))


def purpose_of(purpose: Purpose | str) -> Purpose:
    """The purpose with this name."""
    return Purpose(checks.choice("purpose", purpose, list(Purpose)))


def missed(candidate: Candidate, misses: list[Miss]) -> Refusal:
    """The refusal of a protocol that could run, but does not fulfill all wishes."""
    enough = [miss.enough for miss in misses]
    named = {} if None in enough else dict(pair for pair in enough if pair is not None)
    return Refusal(candidate.protocol, candidate.trust, misses[0].reason, named, missed=True)


def margin_miss(candidate: Candidate, margin: Margin | None, task: Task, users: int) -> list[Miss]:
    """A miss if the candidate's margin is larger than the margin that was asked for."""
    if margin is None:
        return []
    margin.check(task)
    total = margin.total(candidate.margin, task, users)
    if total <= margin.allowed(task, users):
        return []
    reason = f"its margin is ±{short(total, 4)}, but {margin} was asked for"
    # If all candidates miss only the margin, each has the factor 1. Then the candidate with the
    # least error counts as the nearest.
    return [Miss(reason, 1.0)]


def _rounded_up(number: float) -> float:
    """The number, rounded up to a few digits. Whole numbers stay unchanged."""
    if number == round(number):
        return int(number)
    step = 10.0 ** (math.floor(math.log10(number)) - 3)
    return float(f"{(math.floor(number / step) + 1) * step:.6g}")
