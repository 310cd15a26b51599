"""What is about to be released: all that a record of what was spent has to know."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from headcount.core.budget import Trust
from headcount.core.guarantee import GroupCurve, Guarantee, NearCurve, PrivacyCurve, WorstCurve
from headcount.core.protocol import Protocol
from headcount.core.table import short
from headcount.core.task import Task
from headcount.data.engine import Crowds
from headcount.data.group_privacy import person_guarantee
from headcount.data.honesty import relied_on
from headcount.data.question import Question
from headcount.road.people import Group

# Of δ, for drawing all people's messages at once, which is near their law and not exactly it.
SHARE = 2.0**-4
_MANY = 2**22  # messages, beyond which they are drawn at once if that can be done


@dataclass(frozen=True, eq=False)
class Release:
    """One answer, or those of several groups: what answers them, and what is spent in all."""

    protocols: tuple[Protocol, ...]  # of each group, in order
    guarantee: Guarantee
    curve: PrivacyCurve

    @property
    def name(self) -> str:
        """Of the protocols, each once."""
        return ", ".join(dict.fromkeys(protocol.name for protocol in self.protocols))

    @property
    def task(self) -> Task:
        return self.protocols[0].task


def release(protocol: Protocol, question: Question, reserve: float) -> Release:
    """What a protocol spends on people, `reserve` being what is added to its δ."""
    guarantee, curve = protocol.guarantee, protocol.curve
    if reserve:
        variation = reserve / (1 + math.exp(guarantee.epsilon)) * (1 - 1e-15)
        curve = NearCurve(curve, variation)
        guarantee = replace(
            guarantee,
            delta=math.nextafter(guarantee.delta + reserve, 1.0),
            exact=False,
            method=f"{guarantee.method}; {short(reserve, 2)} of δ for drawing all messages at once",
        )
    rows = question.rows_per_person
    guarantee = person_guarantee(guarantee, rows)
    if rows > 1:
        curve = GroupCurve(curve, rows)
    elif question.person is not None:
        guarantee = replace(guarantee, neighbors="replace all rows of one person")
    open_facts = [
        "; who has no value is not hidden" * question.cleaning.dropping,
        "; groups, and how many people each has, are not hidden" * (question.group is not None),
    ]
    neighbors = guarantee.neighbors + "".join(open_facts)
    return Release((protocol,), replace(guarantee, neighbors=neighbors), curve)


def joint(releases: Mapping[Group, Release], crowds: Crowds, question: Question) -> Release:
    """Of several groups: a person's value is in one of them, and it may be any."""
    every = list(releases.values())
    first = every[0]
    if question.group is None:
        return first
    promises = [one.guarantee for one in every]
    alike = len({promise.epsilon for promise in promises}) == 1
    methods = [*dict.fromkeys(promise.method for promise in promises)]
    honest = min(promise.honest for promise in promises)
    if first.guarantee.trust is Trust.SHUFFLE:
        needed = {group: one.guarantee.honest for group, one in releases.items()}
        honest, words = relied_on(needed, crowds, question)
        methods.append(words)
    guarantee = replace(
        first.guarantee,
        epsilon=max(promise.epsilon for promise in promises),
        delta=max(promise.delta for promise in promises),
        exact=alike and all(promise.exact for promise in promises),
        honest=honest,
        method="; ".join(methods),
    )
    curve = first.curve if len(every) == 1 else WorstCurve(tuple(one.curve for one in every))
    return Release(tuple(one.protocols[0] for one in every), guarantee, curve)


def drawn_at_once(protocol: Protocol, question: Question, users: int) -> bool:
    """Whether messages are so many that all of them should be drawn at once, and δ has room: what
    is pure stays so.
    """
    return (
        question.counting
        and protocol.trust is not Trust.CENTRAL
        and protocol.estimator.simulates_exactly
        and protocol.guarantee.delta > 0
        and users * protocol.messages_per_user > _MANY
    )
