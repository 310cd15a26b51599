"""Describes a release before it is made, so that a ledger can record its cost."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from headcount.core.budget import Trust
from headcount.core.guarantee import GroupCurve, Guarantee, NearCurve, PrivacyCurve, WorstCurve
from headcount.core.protocol import Protocol
from headcount.core.table import short
from headcount.core.task import Task
from headcount.core.work import can_be_drawn_at_once
from headcount.data.engine import Crowds
from headcount.data.group_privacy import person_guarantee
from headcount.data.honesty import relied_on
from headcount.data.question import Question
from headcount.road.people import Group

# Drawing all messages in a single step gives only approximately the right distribution. This share
# of δ pays for the difference.
SHARE = 2.0**-4
_MANY = 2**22  # if there are more messages than this, they are drawn in a single step if possible


@dataclass(frozen=True, eq=False)
class Release:
    """The protocols and the joint cost of one answer, or of the answers for several groups."""

    protocols: tuple[Protocol, ...]  # the protocol of each group
    guarantee: Guarantee
    curve: PrivacyCurve

    @property
    def name(self) -> str:
        """The names of the protocols, without duplicates."""
        return ", ".join(dict.fromkeys(protocol.name for protocol in self.protocols))

    @property
    def task(self) -> Task:
        return self.protocols[0].task


def release(protocol: Protocol, question: Question, reserve: float, users: int) -> Release:
    """The release of one protocol for a crowd of `users`. `reserve` is the δ that pays for drawing
    all messages in a single step. Each row spends it in addition to the protocol's δ.
    """
    guarantee, curve = protocol.guarantee, protocol.curve
    guarantee = replace(guarantee, honest=min(guarantee.honest, users))
    if reserve:
        variation = reserve / (1 + math.exp(guarantee.epsilon)) * (1 - 1e-15)
        curve = NearCurve(curve, variation)
        guarantee = replace(
            guarantee,
            delta=math.nextafter(guarantee.delta + reserve, 1.0),
            exact=False,
            method=f"{guarantee.method}; {short(reserve, 2)} of δ for drawing all messages in a "
            "single step",
        )
    rows = question.rows_per_person
    guarantee = person_guarantee(guarantee, rows)
    if rows > 1:
        curve = GroupCurve(curve, rows)
    elif question.person is not None:
        guarantee = replace(guarantee, neighbors="replace all rows of one person")
    open_facts = [
        "; it is not hidden which people have no value" * question.cleaning.dropping,
        "; groups, and how many people each has, are not hidden" * (question.group is not None),
    ]
    neighbors = guarantee.neighbors + "".join(open_facts)
    return Release((protocol,), replace(guarantee, neighbors=neighbors), curve)


def joint(releases: Mapping[Group, Release], crowds: Crowds, question: Question) -> Release:
    """One release for all groups. Each value is in one group, so the weakest guarantee counts."""
    every = list(releases.values())
    first = every[0]
    if question.group is None:
        return first
    promises = [one.guarantee for one in every]
    alike = len({promise.epsilon for promise in promises}) == 1
    methods = [*dict.fromkeys(promise.method for promise in promises)]
    honest = min(promise.honest for promise in promises)
    # A guarantee with `honest` = 1 relies only on the person whose value is protected. Only other
    # guarantees need words about honest people.
    if first.guarantee.trust is Trust.SHUFFLE and any(one.honest > 1 for one in promises):
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
        relies_on="" if first.guarantee.relies_as_usual else first.guarantee.relies_on,
    )
    curve = first.curve if len(every) == 1 else WorstCurve(tuple(one.curve for one in every))
    return Release(tuple(one.protocols[0] for one in every), guarantee, curve)


def drawn_at_once(protocol: Protocol, question: Question, users: int) -> bool:
    """Whether all messages are drawn in a single step, from the counts of people by value. This is
    done only for very many messages, and never with δ = 0, so that a pure guarantee stays pure.
    """
    return (
        question.counting
        and protocol.trust is not Trust.CENTRAL
        and can_be_drawn_at_once(protocol)
        and users * protocol.messages_per_user > _MANY
    )
