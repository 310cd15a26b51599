"""Makes all releases of a survey, from people's answers to estimates."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.budget import Budget, Trust
from headcount.core.errors import CrowdMismatch, InvalidParameter, InvalidValue
from headcount.core.estimate import Estimate
from headcount.core.guarantee import Guarantee, PrivacyCurve
from headcount.core.protocol import Protocol
from headcount.core.source import Source
from headcount.core.table import counted_people
from headcount.core.tally import Tally
from headcount.core.work import check_work
from headcount.ledger.ledger import Ledger
from headcount.randomness.sources import SecureSource
from headcount.road.memory import check_memory
from headcount.road.people import Group, People, Progress
from headcount.road.pieces import Piece, collected, workers_for
from headcount.road.road import Bits, Route, walk
from headcount.survey.design import Design
from headcount.survey.kept import KeptAnswers, Wave
from headcount.survey.local import dealt, drawn_releases, of_wave
from headcount.survey.promise import promise_of
from headcount.survey.spark import SparkColumns, SparkRespondents

_MOST_COUNTED = 2**16  # people are counted by value if a task has at most this many values


@dataclass(frozen=True, eq=False)
class Respondents(People):
    """The people who answered, with the encoded values of each release. A group is a release."""

    encoded: Mapping[Group, NDArray[Any]]
    protocols: Mapping[Group, Protocol]

    @property
    def users(self) -> Mapping[Group, int]:
        return {place: len(values) for place, values in self.encoded.items()}

    def counts(self, group: Group) -> NDArray[np.int64] | None:
        task = self.protocols[group].task
        if not task.numbered or task.domain > _MOST_COUNTED:
            return None
        return np.bincount(self.encoded[group], minlength=task.domain).astype(np.int64)

    def tallies(
        self, protocols: Mapping[Group, Protocol], source: Source, progress: Progress
    ) -> Mapping[Group, Tally]:
        most = max(self.users[place] for place in protocols)
        return collected(self._pieces(protocols, source), workers_for(source, protocols, most))

    def _pieces(
        self, protocols: Mapping[Group, Protocol], source: Source
    ) -> Iterator[tuple[Group, Piece]]:
        for at, place in enumerate(self.encoded):
            if place not in protocols:
                continue
            protocol, own, values = protocols[place], source.part(at), self.encoded[place]
            size = protocol.randomizer.people_at_once
            for number, start in enumerate(range(0, len(values), size)):
                piece = values[start : start + size]
                yield place, Piece(protocol, [piece], own.part(number))


@dataclass(frozen=True, eq=False)
class Ready:
    """Releases that were checked, but not made yet. Nothing has been released."""

    design: Design
    people: Respondents | SparkRespondents
    bits: Bits
    users: int
    # The name of each charge. A ledger records a charge with an empty name every time.
    charges: tuple[str, ...] = ("",)

    def released(self) -> dict[str, Estimate]:
        """Make all releases. Each estimate states the guarantee of the whole survey."""
        design, protocols = self.design, self.people.protocols
        routes: dict[Group, Route] = {place: Route(one) for place, one in protocols.items()}
        estimates = walk(self.people, routes, self.bits)
        return _answers(design, [estimates[at] for at in range(len(routes))], self.users)


@dataclass(frozen=True, eq=False)
class ReadyWave:
    """A wave of a survey that keeps answers. It was checked, but nothing has been released."""

    design: Design
    kept: KeptAnswers
    wave: Wave
    users: int

    @property
    def charges(self) -> tuple[str, ...]:
        """The names of all charges so far. A ledger that knows all of them is not charged again."""
        return self.wave.charges

    def released(self) -> dict[str, Estimate]:
        """Send all messages, and estimate the answers."""
        self.kept.sent(self.design, self.wave)
        protocols = [one.protocol for one in self.design.releases]
        estimates = [
            one.estimate(one.tally(batch))
            for one, batch in zip(protocols, self.wave.batches, strict=True)
        ]
        return _answers(self.design, estimates, self.users)


def _answers(design: Design, estimates: Sequence[Estimate], users: int) -> dict[str, Estimate]:
    """The estimate of each question. Each states the guarantee of the whole survey."""
    crowd = None if design.releases_each is None else users
    found: dict[str, Estimate] = {}
    for release, estimate in zip(design.releases, estimates, strict=True):
        promise = replace(design.guarantee, secure=estimate.guarantee.secure)
        separate = release.separate(estimate, crowd)
        found |= {name: replace(one, guarantee=promise) for name, one in separate.items()}
    return {ask.id: found[ask.id] for ask in design.asks}


def ready(design: Design, columns: Mapping[str, Any], source: Source | None) -> Ready:
    """Check everything that may be refused, before a ledger is charged."""
    source = SecureSource() if source is None else source
    checks.instance("source", source, Source)
    users = people_of(columns, design.crowd.users)
    if isinstance(columns, SparkColumns):
        return Ready(design, columns.respondents(design, source), Bits.of(source, 1), users)
    columns = design.with_tables(columns)
    places = range(len(design.releases))
    protocols: dict[Group, Protocol] = {at: design.releases[at].protocol for at in places}
    encoded: dict[Group, NDArray[Any]] = {at: design.releases[at].join(columns) for at in places}
    if design.releases_each is not None:
        answering = drawn_releases(design, dealt(users, source.part(0)))
        encoded = {at: encoded[at][answering[at]] for at in places}
    people = Respondents(encoded, protocols)
    check_memory(protocols, people.users)
    check_work(protocols, people.users)
    return Ready(design, people, Bits.of(source, 1), users)


def ready_wave(
    design: Design,
    columns: Mapping[str, NDArray[Any]],
    source: Source | None,
    kept: KeptAnswers,
    people: Sequence[Any],
) -> ReadyWave:
    """Draw what is new in this wave, and check everything that may be refused."""
    source = SecureSource() if source is None else source
    checks.instance("source", source, Source)
    checks.instance("kept", kept, KeptAnswers)
    users = people_of(columns, design.crowd.users)
    return ReadyWave(design, kept, kept.prepared(design, columns, people, source), users)


def people_of(columns: Mapping[str, Any], least: int) -> int:
    """The number of people. Fewer than `least` people are refused, and so are questions with
    different numbers of answers.
    """
    sizes = {name: len(column) for name, column in columns.items()}
    users = max(sizes.values())
    for name, size in sizes.items():
        if size != users:
            raise InvalidValue(
                f"every question must have an answer from each of {counted_people(users)}, "
                f"got {size:,} answers to {name!r}"
            )
    if users < least:
        raise CrowdMismatch(
            f"the survey needs the answers of at least {counted_people(least)}, got {users:,}"
        )
    return users


def charged(ready: Ready | ReadyWave, ledger: Ledger, dataset: str | None) -> None:
    """Charge all releases of this wave to a ledger, as one entry.

    If answers are kept, let v be the largest number of different answers that one person has given
    in one release, over all waves so far. Then all of these waves together are charged as v
    entries. Entries that the ledger already has are not charged again.
    """
    if isinstance(ready, ReadyWave) and not ready.wave.secure:
        raise InvalidParameter(
            "`kept` must come from waves with a secure source to be charged to a ledger, got "
            "messages from a seed"
        )
    design = ready.design
    names = dict.fromkeys(one.protocol.name for one in design.releases)
    promise, curve = of_one_wave(design)
    note: dict[str, Any] = {
        "questions": [ask.id for ask in design.asks],
        "protected": promise.neighbors,
    }
    if design.kept_waves > 1:
        note["kept answers"] = "one entry for each different answer of the same person"
    for once in ready.charges:
        ledger.charge(
            dataset, promise, curve, note,
            protocol=", ".join(names)[:200], task="survey", users=ready.users, once=once,
        )  # fmt: skip


def of_one_wave(design: Design) -> tuple[Guarantee, PrivacyCurve]:
    """What one wave spends. The guarantee of a design is that of all waves together."""
    budget, waves = design.budget, design.waves
    if waves == 1:
        return design.guarantee, design.curve
    if design.trust is Trust.LOCAL:
        return promise_of(design.releases, Budget(of_wave(budget, waves)), design.crowd)
    part = Budget(budget.epsilon / waves, budget.delta)
    promise, curve = promise_of(design.releases, part, design.crowd)
    if promise.delta > budget.delta / waves:
        delta = budget.delta / waves
        promise = replace(promise, epsilon=curve.epsilon(delta), delta=delta, exact=False)
    return promise, curve
