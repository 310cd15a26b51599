"""A protocol: the role of each party, and the privacy that is proven.

    values ──randomize──▶ messages ──shuffle──▶ batch ──tally──▶ tally ──estimate──▶ estimate
             randomizer             shuffler           estimator

A protocol calibrates objects for a task, a budget and a crowd: the `Randomizer` that each person
runs, the `Estimator` that the analyzer runs, and a `Shuffler` if the shuffler must do more than mix
messages. The protocol also states the privacy of all three together. The class `Protocol` derives
all other methods from these. `docs/adding-a-protocol.md` has a skeleton.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headcount.core import checks
from headcount.core.budget import Budget, Crowd, Trust
from headcount.core.bundles import MOST_SLOTS, bundled, filled_bundle, least_slots
from headcount.core.cached import cached_property
from headcount.core.errors import CrowdMismatch, Infeasible, InvalidParameter, InvalidValue
from headcount.core.estimate import Estimate
from headcount.core.estimator import Estimator
from headcount.core.guarantee import Guarantee, PrivacyCurve
from headcount.core.influence import Influence
from headcount.core.limits import Limits
from headcount.core.messages import Alphabet, Batch, Messages
from headcount.core.randomizer import BundleLaw, Randomizer
from headcount.core.sealing import sealed_size
from headcount.core.shuffler import Shuffler
from headcount.core.source import Source
from headcount.core.table import counted, counted_people, short
from headcount.core.tally import Tally
from headcount.core.task import Counts, Task

Calibration: TypeAlias = Literal["exact", "paper"]


@dataclass(frozen=True)
class Protocol(ABC):
    """A randomizer and an estimator for one task, budget and crowd, with their privacy guarantee.

    `calibration="paper"` uses the closed-form parameters of the protocol's paper instead of the
    exact computation.
    """

    name: ClassVar[str]
    trust: ClassVar[Trust]
    tasks: ClassVar[tuple[type[Task], ...]]
    open_buckets: ClassVar[bool] = False  # whether people may hold values outside all buckets

    task: Task
    budget: Budget
    crowd: Crowd
    calibration: Calibration = "exact"

    def __post_init__(self) -> None:
        checks.instance("task", self.task, Task)
        checks.instance("budget", self.budget, Budget)
        checks.instance("crowd", self.crowd, Crowd)
        if not self.answers(self.task):
            raise other_task(self.task, type(self), *self.tasks)
        checks.choice("calibration", self.calibration, ("exact", "paper"))
        self.check_options()
        _ = self.randomizer, self.estimator  # this refuses a budget that cannot be met
        check_users(self, self.crowd.users)

    def __getstate__(self) -> dict[str, Any]:
        """The state that is sent to other machines. They only randomize and count, so the state has
        the calibrated numbers, but no curve, guarantee or influence.
        """
        proof = ("curve", "guarantee", "bundled_guarantee", "influence")
        return {name: state for name, state in vars(self).items() if name not in proof}

    # Methods that a protocol defines ------------------------------------------------------------

    def check_options(self) -> None:
        """Refuse invalid options. The task, the budget and the crowd have already been checked."""
        return

    @property
    @abstractmethod
    def randomizer(self) -> Randomizer:
        """The randomizer that each person runs. A budget that cannot be met raises `Infeasible`."""

    @property
    @abstractmethod
    def estimator(self) -> Estimator:
        """The estimator that the analyzer runs."""

    @property
    def shuffler(self) -> Shuffler:
        """The shuffler of this protocol. By default, it only mixes."""
        return Shuffler()

    @property
    @abstractmethod
    def parameters(self) -> Mapping[str, float]:
        """The calibrated numbers, by their public names."""

    @property
    @abstractmethod
    def curve(self) -> PrivacyCurve:
        """The privacy curve: the largest δ over all neighbors, in both directions, for every ε."""

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """The guarantee at the budget's ε."""

    @property
    @abstractmethod
    def local_epsilon(self) -> float:
        """The ε that still holds if the shuffler and the analyzer collude. It is `inf` if no finite
        ε holds.
        """

    @classmethod
    def settings_within(
        cls, task: Task, budget: Budget, crowd: Crowd, limits: Limits
    ) -> Iterator[dict[str, Any]]:
        """The option settings to try if there are limits on how much a person sends.

        They must include the best settings within the limits. If no settings are within the limits,
        they must include the settings that come nearest. Further settings do no harm. By default,
        only the default options are tried. This fits protocols that cannot trade messages for
        error.
        """
        yield {}

    # Methods that follow from them --------------------------------------------------------------

    @classmethod
    def answers(cls, task: Task) -> bool:
        """Whether the protocol can answer this task."""
        return isinstance(task, cls.tasks) and (cls.open_buckets or not task.open_values)

    @property
    def alphabet(self) -> Alphabet:
        """The possible messages."""
        return self.randomizer.alphabet

    @property
    def messages_per_user(self) -> float:
        """The expected number of messages per person, for the value that needs most messages."""
        return self.randomizer.messages_per_user

    @property
    def shuffler_duties(self) -> str:
        """The duties of the shuffler, in words: "mix", "mix and withhold", "mix and add dummies".

        The text is "none" in central and local trust, where there is no shuffler.
        """
        return self.shuffler.duties if self.trust is Trust.SHUFFLE else "none"

    def law(self, value: Any) -> BundleLaw | None:
        """The exact law of one person's messages for an encoded value: see `Randomizer.law`."""
        return self.randomizer.law(value)

    @cached_property
    def slots(self) -> int:
        """The smallest bundle size that the budget allows (see `core.bundles`)."""
        slots = least_slots(self.randomizer, self.curve, self.budget, self.crowd.honest)
        if slots is None:
            raise Infeasible(
                f"{self.name} needs bundles of more than {MOST_SLOTS} messages for "
                f"epsilon={short(self.budget.epsilon)}, delta={short(self.budget.delta)}"
            )
        return slots

    @property
    def sealed_bytes(self) -> int:
        """The number of bytes that a person sends if each message of a bundle is sealed
        (encrypted).
        """
        return self.slots * sealed_size(self.alphabet)

    @cached_property
    def bundled_guarantee(self) -> Guarantee:
        """The guarantee if people send bundles of the smallest size. Estimates from bundles state
        this guarantee.

        Messages that do not fit into a bundle are drawn again, which changes their law a little.
        """
        try:
            return bundled(self.guarantee, self.randomizer, self.curve, self.slots)
        except Infeasible:  # then nobody can make a bundle
            return self.guarantee

    @cached_property
    def influence(self) -> Influence:
        """How far one dishonest person can shift the answer of the crowd that the protocol was
        built for.

        If people send different numbers of messages, everybody is assumed to send a bundle of the
        smallest size.
        """
        users, fixed = self.crowd.users, self.randomizer.fixed_messages
        return Influence.of(
            self.estimator.shifts(users, self.alphabet),
            _most_messages(self) if fixed is None else fixed,
            dummies=fixed is None,
            users=users,
            standard_error=self.estimator.standard_error(users, None),
        )

    def bundle(
        self, value: Any, source: Source | None = None, *, slots: int | None = None
    ) -> Messages:
        """One person's messages, padded with dummies to hide their number.

        The bundles of all people must have the same size. This size is `slots`, or by default the
        smallest size that the budget allows. A `source` of random bits must be given.
        """
        encoded = self.task.encode([value])
        source = _checked(source)
        least = self.slots
        most = MOST_SLOTS if self.randomizer.fixed_messages is None else least
        size = least if slots is None else checks.whole("slots", slots, low=least, high=most)
        return filled_bundle(self.randomizer, encoded, source, size)

    def randomize(self, values: ArrayLike, source: Source) -> Messages:
        """Each person's messages. For one person, give a list with one value."""
        encoded = self.task.encode(values)
        return replace(self.randomizer.send(encoded, _checked(source)), secure=source.secure)

    def tally(self, batch: Batch) -> Tally:
        """The counts that the analyzer needs. Tallies of several batches can be added.

        A batch from the whole crowd is refused if it has messages that the shuffler should have
        withheld.
        """
        checks.instance("batch", batch, Batch)
        payload = self.alphabet.messages(batch.payload)
        counts = self.estimator.count(payload)
        tally = tally_of(self, counts, batch.users, secure=batch.secure, bundled=batch.bundled)
        tally = replace(tally, noises=int(has_noise(self, len(payload), batch.users)))
        if batch.users >= self.crowd.users:  # a smaller batch may have few copies of any message
            _check_withheld(self, tally)
        return tally

    def estimate(self, tally: Tally, source: Source | None = None) -> Estimate:
        """The private answer.

        The source is used only if the trust is central or the analyzer adds noise. In these cases,
        the noise is drawn here, and every call is a new release. By default, the source is secure.
        """
        checks.instance("tally", tally, Tally)
        if source is not None:
            _checked(source)
        check_users(self, tally.users)
        _check_tally(self, tally)
        noise_now = self.trust is Trust.CENTRAL or self.estimator.adds_noise
        noise_is_secure = not noise_now or source is None or source.secure
        promise = self.bundled_guarantee if tally.bundled else self.guarantee
        honest = min(promise.honest, max(1, tally.users))
        computed = self.estimator.computed(tally, source)
        raw = self.task.estimate(
            task=self.task.name,
            protocol=self.name,
            value=self.estimator.answer(tally.users, computed),
            users=tally.users,
            guarantee=replace(promise, honest=honest, secure=tally.secure and noise_is_secure),
            answer_range=self.estimator.answer_range(tally.users),
            whole=self.task.whole_answers,
            error_law=self.estimator.error_law(tally.users, computed),
            buckets=self.task.buckets,
            total=self.task.total(tally.users),
        )
        step = self.estimator.postprocessing(tally)
        return raw.changed(*step) if step else raw

    def simulate(self, counts: Counts, source: Source) -> Tally:
        """A random tally for a crowd with these values, without making the messages.

        `counts[v]` people hold value v. For numbers within bounds, `counts` maps values to numbers
        of people. The tally has the same law as a tally of messages, up to a negligible total
        variation: see `randomness.totals`. If not `estimator.simulates_exactly`, this is true only
        of each count by itself. If the protocol asks the shuffler to withhold or add messages, the
        tally reflects this.
        """
        held = self.task.holding(counts)
        drawn = self.estimator.simulate(held, _checked(source))
        sent = tally_of(self, drawn, held.users, secure=source.secure)
        return passed_on(self, sent, source)

    def standard_error(self, counts: Counts | None = None) -> float:
        """The root mean squared error of the estimate, due to privacy noise.

        Everybody is assumed to follow the protocol. `counts[v]` people hold value v. For numbers
        within bounds, `counts` maps values to numbers of people. Without counts, the result is the
        error for the worst data of `crowd.users` people. For a histogram, it is the error of the
        worst bucket. Random rounding of numbers is included.
        """
        if counts is None:
            return self.estimator.standard_error(self.crowd.users, None)
        held = self.task.holding(counts)
        return self.estimator.standard_error(held.users, held)

    def margin(self, confidence: float = 0.95) -> float:
        """The margin of error: half the length of the confidence interval for the worst data.

        Everybody is assumed to follow the protocol. The margin is at most half of the possible
        range. For a density, it includes privacy noise alone.
        """
        confidence, users = checks.confidence(confidence), self.crowd.users
        margins = (
            self.estimator.error_law(users, value).margins(confidence)
            for value in self.estimator.extremes(users, confidence)
        )
        low, high = self.task.answer_range(users)
        return min(max(float(np.max(below + above)) for below, above in margins), high - low) / 2


def option_names(kind: type[Protocol]) -> tuple[str, ...]:
    """The names of a protocol's options: all fields except the task, the budget and the crowd."""
    given = ("task", "budget", "crowd")
    return tuple(field.name for field in fields(kind) if field.name not in given)


def tally_of(
    protocol: Protocol,
    counts: NDArray[np.int64],
    users: int,
    *,
    secure: bool,
    bundled: bool = False,
) -> Tally:
    """A tally of this protocol with these counts."""
    return Tally(counts, users, protocol.name, protocol.estimator.tally_modulus, secure, bundled)


def passed_on(protocol: Protocol, tally: Tally, source: Source) -> Tally:
    """The tally of the messages that the shuffler passes on, computed from the tally of all
    messages.

    If the shuffler has already passed on the messages of `tally`, nothing changes.
    """
    shuffler = protocol.shuffler
    if shuffler.adds and not tally.noises:
        noise = shuffler.noise(tally.users, source)
        added = protocol.estimator.count(noise.messages)
        tally = tally.noised(added, alone=noise.alone, secure=source.secure)
    if shuffler.withholds:
        tally = replace(tally, counts=np.where(shuffler.passes(tally.counts), tally.counts, 0))
    return tally


def has_noise(protocol: Protocol, sent: int, users: int) -> bool:
    """Whether the `sent` messages include the shuffler's noise besides the messages of `users`
    people. A number of messages that is possible neither with nor without noise is refused.
    """
    each, shuffler = protocol.randomizer.fixed_messages, protocol.shuffler
    if not each or sent == each * users:
        return False
    if shuffler.adds and shuffler.fits(users, sent):
        return True
    raise InvalidValue(
        f"with {protocol.name} each person must send {counted(each, 'message')}, got "
        f"{counted(sent, 'message')} from {counted_people(users)}"
    )


def other_task(task: Task, kind: type[Protocol], *answered: type[Task]) -> InvalidParameter:
    """The error for a task that a protocol does not answer. `answered` has the tasks it answers."""
    closed = ", with all buckets declared" if task.open_values and not kind.open_buckets else ""
    names = " or ".join(one.name for one in answered)
    wanted = checks.a_task(names)
    return InvalidParameter(f"`task` must be {wanted}{closed} for {kind.name}, got {task}")


def least_users(trust: Trust, crowd: Crowd) -> int:
    """The least number of people who must take part in a protocol that was built for a crowd.

    In shuffle trust, people's messages hide each other, so the whole crowd must take part. In local
    trust, each person's own noise is enough. In central trust, the curator's noise is enough. So in
    these two trust models, fewer people only make the error relative to the crowd larger than
    planned.
    """
    return crowd.users if trust is Trust.SHUFFLE else 1


def check_users(protocol: Protocol, users: int) -> None:
    """Refuse a crowd that is too small for the guarantee or too large for the estimator."""
    users = checks.whole("users", users, low=-(2**63), high=2**63)
    least = least_users(protocol.trust, protocol.crowd)
    if users < least:
        raise CrowdMismatch(
            f"{protocol.name} was built for at least {counted_people(least)}, got {users:,}",
            hint="people's messages hide each other; build it for the crowd that takes part",
        )
    most = protocol.estimator.most_users
    if users > most:
        raise CrowdMismatch(
            f"{protocol.name} can handle at most {counted_people(most)}, got {users:,}"
            if not protocol.shuffler.withholds
            # More people may include more dishonest ones, who could copy a rare message until the
            # shuffler passes it on.
            else f"{protocol.name} must know how many people may be dishonest, and was "
            f"built for at most {counted_people(most)}, got {users:,}"
        )


def check_crowd(protocol: Protocol, crowd: Crowd) -> None:
    """Like `check_users`, but also refuse a crowd with too few honest people for the guarantee."""
    check_users(protocol, crowd.users)
    needed = min(protocol.guarantee.honest, protocol.crowd.honest)
    if protocol.trust is Trust.SHUFFLE and crowd.honest < needed:
        raise CrowdMismatch(
            f"{protocol.name} was built for at least {counted_people(needed, 'honest')}, "
            f"got {crowd.honest:,} among {counted_people(crowd.users)}",
            hint="build it for the crowd that takes part",
        )


def _most_messages(protocol: Protocol) -> float:
    """The number of messages that fit into a bundle. It is infinite if bundles are not feasible."""
    try:
        return protocol.slots
    except Infeasible:
        return math.inf


def _checked(source: Source | None) -> Source:
    if not isinstance(source, Source):
        raise InvalidParameter(
            f"`source` must be a SecureSource or another Source, got {checks.shown(source)}"
        )
    return source


def _check_tally(protocol: Protocol, tally: Tally) -> None:
    name, estimator = protocol.name, protocol.estimator
    if tally.protocol != name:
        raise InvalidValue(f"a tally must come from {name}, got a tally from {tally.protocol}")
    if tally.modulus != estimator.tally_modulus:
        raise InvalidValue(
            f"a tally of {name} must be modulo {estimator.tally_modulus}, got {tally.modulus}"
        )
    if tally.counts.size != estimator.tally_size or tally.counts.min() < 0:
        raise InvalidValue(
            f"a tally of {name} must be {counted(estimator.tally_size, 'count')}, none negative, "
            f"got {tally.counts.size}, of which the smallest is {tally.counts.min(initial=0)}"
        )
    _check_withheld(protocol, tally)
    if not protocol.shuffler.adds:
        return
    if tally.noises == 1 and tally.noised_people != tally.users:
        raise InvalidValue(
            f"the shuffler must add the noise of {name} for everybody, got noise for "
            f"{tally.noised_people:,} of {counted_people(tally.users)}",
            hint="pass the protocol to shuffle, once for the whole crowd",
        )
    if tally.noises != 1:
        raise InvalidValue(
            f"the shuffler must add the noise of {name} once, got a tally to which it was added "
            f"{counted(tally.noises, 'time')}",
            hint="pass the protocol to shuffle, once for the whole crowd",
        )


def _check_withheld(protocol: Protocol, tally: Tally) -> None:
    """Refuse rare messages. The shuffler should have withheld them, since few people sent them."""
    least = protocol.shuffler.least_copies
    rare = tally.counts[(tally.counts > 0) & (tally.counts < least)]
    if rare.size:
        raise InvalidValue(
            f"the shuffler must withhold messages of {protocol.name} with fewer than "
            f"{least} copies, got a message with {rare[0]} copies",
            hint="pass the protocol to shuffle",
        )
