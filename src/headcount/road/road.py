"""People's values become messages, then a tally, and then an estimate.

    values ──┬─ one by one ────▶ messages ─┬─ mixed by the shuffler ─────▶ tally ──▶ estimate
             └▶ counts ─ one by one ▶──────┘                                ▲
                  └─────────── the tally is drawn in a single step ─────────┘

"One by one" means that each person's messages are made separately. `walk` runs these steps. `run`
calls `walk` for values in memory, and `data.estimate` calls `walk` for tables.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headcount.core import checks
from headcount.core.budget import Trust
from headcount.core.estimate import Estimate
from headcount.core.protocol import Protocol, passed_on
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.randomness.sources import Owing, SecureSource
from headcount.road.people import Group, People, Progress, Values
from headcount.road.pieces import collected, counted_pieces, workers_for
from headcount.road.ways import Way


@dataclass(frozen=True, eq=False)
class Route:
    """The protocol of a group, and the part of δ that is reserved for drawing its tally in a single
    step.
    """

    protocol: Protocol
    reserve: float = 0.0


class Bits(NamedTuple):
    """The source of random bits for each step: for messages, for tallies that are drawn in a single
    step, and for the noise of shufflers and analyzers. With `parts`, each group has its own part of
    a source.
    """

    messages: Source
    totals: Source
    noise: Source
    parts: bool = True

    @classmethod
    def of(cls, source: Source, first: int) -> "Bits":
        """Bits from the parts `first`, `first + 1` and `first + 2` of a source."""
        return cls(source.part(first), source.part(first + 1), source.part(first + 2))

    @classmethod
    def all_from(cls, source: Source) -> "Bits":
        """Bits from the same source for every step and every group."""
        return cls(source, source, source, parts=False)

    def own(self, source: Source, number: int) -> Source:
        """The source of the group with this number: a part of `source`, or `source` itself."""
        return source.part(number) if self.parts else source


def run(protocol: Protocol, values: ArrayLike, source: Source | None = None) -> Estimate:
    """Randomize people's values, shuffle the messages (in shuffle trust), tally and estimate.

    By default, the source is secure.
    """
    checks.instance("protocol", protocol, Protocol)
    source = SecureSource() if source is None else source
    checks.instance("source", source, Source)
    people = Values(protocol.task.encode(values))
    return walk(people, {None: Route(protocol)}, Bits.all_from(source))[None]


def walk(
    people: People,
    routes: Mapping[Group, Route],
    bits: Bits,
    progress: Progress = lambda share: None,
) -> dict[Group, Estimate]:
    """The estimate of each group. If `_drawn` gives no tally for a group, the tally is made from
    messages.
    """
    tallies: dict[Group, Tally] = {}
    for number, (group, route) in enumerate(routes.items()):
        drawn = _drawn(route, people.counts(group), bits.own(bits.totals, number))
        if drawn is not None:
            tallies[group] = drawn
    sending = {group: one.protocol for group, one in routes.items() if group not in tallies}
    if sending:
        tallies |= _sent(people, sending, bits.messages, progress)
    estimates: dict[Group, Estimate] = {}
    for number, (group, route) in enumerate(routes.items()):
        noise = bits.own(bits.noise, number)
        tally = passed_on(route.protocol, tallies[group], noise)
        estimate = route.protocol.estimate(tally, noise)
        way = _way(route, counted=people.counts(group) is not None)
        estimates[group] = replace(estimate, way=way.words)
    return estimates


def _way(route: Route, *, counted: bool) -> Way:
    """How the tally of a group was made. The result does not say whether the tally was really drawn
    in a single step, since this depends on people's values.
    """
    if not counted:
        return Way.MESSAGES
    if route.protocol.trust is Trust.CENTRAL:
        return Way.COUNTED
    return Way.AT_ONCE if route.reserve else Way.FROM_COUNTS


def _drawn(route: Route, counts: NDArray[np.int64] | None, source: Source) -> Tally | None:
    """A tally that is made without messages, or None if messages are needed.

    In central trust, the tally consists of the counts. Otherwise, the tally is drawn in a single
    step, provided that the reserved part of δ covers the total variation between this draw and a
    tally of messages.
    """
    protocol = route.protocol
    if counts is None:
        return None
    if protocol.trust is Trust.CENTRAL:
        return protocol.simulate(counts, source)
    if not route.reserve:
        return None
    owing = Owing(source)
    tally = protocol.simulate(counts, owing)
    epsilon = protocol.guarantee.epsilon
    enough = (1 + math.exp(epsilon)) * (1 + 1e-12) * owing.owed <= route.reserve
    return tally if enough else None


def _sent(
    people: People, protocols: Mapping[Group, Protocol], source: Source, progress: Progress
) -> Mapping[Group, Tally]:
    """The tally of each group's messages. If every group has counts, the messages are made from the
    counts. Otherwise they are made from people's values.
    """
    counts = {group: people.counts(group) for group in protocols}
    if any(one is None for one in counts.values()):
        return people.tallies(protocols, source, progress)
    pieces = (
        (group, piece)
        for number, group in enumerate(people.users)
        if (held := counts.get(group)) is not None
        for piece in counted_pieces(protocols[group], held, source.part(number))
    )
    most = max(people.users[group] for group in protocols)
    return collected(pieces, workers_for(source, protocols, most))
