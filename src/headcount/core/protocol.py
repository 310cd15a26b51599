"""The contract that every protocol keeps. `docs/adding-a-protocol.md` has a skeleton.

    values ──randomize──▶ messages ──shuffle──▶ batch ──tally──▶ tally ──estimate──▶ estimate

Shared here: input checks, crowd limits, the assembly of an `Estimate`. A protocol's own file states
its law, its calibration, its estimator and its error; everything else is derived.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import reduce
from operator import add
from statistics import NormalDist
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headcount.core import checks
from headcount.core.budget import MOST_USERS, Budget, Crowd, Trust
from headcount.core.cached import cached_property
from headcount.core.errors import CrowdMismatch, Infeasible, InvalidParameter, InvalidValue
from headcount.core.estimate import Answer, ErrorLaw, Estimate
from headcount.core.guarantee import Guarantee, NearCurve, PrivacyCurve
from headcount.core.messages import Alphabet, Batch, Messages
from headcount.core.source import Source
from headcount.core.table import short
from headcount.core.tally import Tally
from headcount.core.task import Counts, Histogram, Holding, Task

Message: TypeAlias = int | tuple[int, ...]
# One person's messages without their order: each different one, sorted, and how often it occurs.
Bundle: TypeAlias = tuple[tuple[Message, int], ...]
BundleLaw: TypeAlias = Mapping[Bundle, Fraction]
RARE = Fraction(1, 2**50)  # bundles of less chance may be left out of a stated law
MOST_BUNDLES = 10_000  # that a law lists
Calibration: TypeAlias = Literal["exact", "paper"]
MOST_SLOTS = 2**24
# How many people's messages are made at a time, and in how much memory, where they are counted at
# once. Whoever changes these gets other messages from the same seed.
MOST_AT_ONCE = 2**20
_BYTES_AT_ONCE = 2**28
# Of δ, where people send different numbers of messages: for bundles of one size, and for tables.
RESERVED = 2.0**-10


@dataclass(frozen=True)
class Protocol(ABC):
    """A randomizer and an analyzer for one task, budget and crowd. Frozen: a value, not a state.

    `calibration="paper"` takes the closed form of the paper where that differs from the exact one.
    """

    name: ClassVar[str]
    trust: ClassVar[Trust]
    tasks: ClassVar[tuple[type[Task], ...]]
    open_buckets: ClassVar[bool] = False  # whether people may hold what is no bucket

    task: Task
    budget: Budget
    crowd: Crowd
    calibration: Calibration = "exact"

    @classmethod
    def options(cls) -> tuple[str, ...]:
        """The names of the options: everything but task, budget and crowd."""
        given = ("task", "budget", "crowd")
        return tuple(field.name for field in fields(cls) if field.name not in given)

    @classmethod
    def settings_within(
        cls, task: Task, budget: Budget, crowd: Crowd, max_messages: float
    ) -> Iterator[dict[str, Any]]:
        """Options among which are the best with which a person sends no more than this. Where no
        option trades messages for error, none.
        """
        yield {}

    @classmethod
    def answers(cls, task: Task) -> bool:
        """Whether the protocol is for such a task."""
        opened = isinstance(task, Histogram) and task.open
        return isinstance(task, cls.tasks) and (cls.open_buckets or not opened)

    @classmethod
    def other_task(cls, task: Task, answered: Iterable[type[Task]]) -> InvalidParameter:
        """The refusal of a task that is none of those answered."""
        opened = isinstance(task, Histogram) and task.open and not cls.open_buckets
        kinds = ", with all buckets declared" if opened else ""
        names = " or ".join(kind.name for kind in answered)
        return InvalidParameter(f"`task` must be a {names}{kinds} for {cls.name}, got {task}")

    def __post_init__(self) -> None:
        checks.instance("task", self.task, Task)
        checks.instance("budget", self.budget, Budget)
        checks.instance("crowd", self.crowd, Crowd)
        if not self.answers(self.task):
            raise self.other_task(self.task, self.tasks)
        checks.choice("calibration", self.calibration, ("exact", "paper"))
        self.check_users(self.crowd.users)

    def __getstate__(self) -> dict[str, Any]:
        """For other machines, which randomize and count: calibrated, without the proof of it."""
        proof = ("curve", "guarantee", "bundled_guarantee")
        return {name: state for name, state in vars(self).items() if name not in proof}

    # What a protocol states -------------------------------------------------------------------

    @property
    @abstractmethod
    def alphabet(self) -> Alphabet:
        """The messages that people send."""

    @property
    @abstractmethod
    def tally_size(self) -> int:
        """How many numbers a tally has."""

    @property
    def tally_modulus(self) -> int | None:
        """What tallies are taken modulo, where messages are shares."""
        return None

    @property
    def most_users(self) -> int:
        """How many people the tally has room for."""
        return MOST_USERS

    @property
    def fixed_messages(self) -> int | None:
        """How many messages everyone sends, where it is the same number."""
        return None

    @property
    def least_copies(self) -> int:
        """How many copies of a message there must be for the shuffler to pass them on."""
        return 1

    @property
    def simulates_exactly(self) -> bool:
        """Whether `simulate` draws all numbers of a tally by the joint law that messages give them;
        else each has its law, but not what they have to do with each other.
        """
        return True

    @property
    def worst_is_attained(self) -> bool:
        """Whether some data have the standard error that is stated for the worst ones; else that
        is an upper bound.
        """
        return True

    @property
    def expected_error(self) -> float:
        """What protocols for one task are ranked by: the standard error for the worst data.

        Of a density, about the root of the mean integrated squared error, with noise, sampling and
        smoothing, for the worst population whose density is no rougher than 1 + cos(4πu), which
        rises and falls twice over the range.
        """
        return self.standard_error()

    @property
    @abstractmethod
    def parameters(self) -> Mapping[str, float]:
        """The calibrated numbers, by their public names."""

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What is promised for this budget."""

    @property
    @abstractmethod
    def curve(self) -> PrivacyCurve:
        """Everything that is promised: delta for every epsilon, over all neighbors."""

    @property
    def messages_per_user(self) -> float:
        """Expected number of messages of the person who sends most: `fixed_messages` if that is
        stated, else to be stated.
        """
        if self.fixed_messages is None:
            raise NotImplementedError(f"{self.name} must state messages_per_user")
        return float(self.fixed_messages)

    @property
    @abstractmethod
    def local_epsilon(self) -> float:
        """What is left if shuffler and analyzer collude; `inf` where nothing is."""

    @abstractmethod
    def law(self, value: Any) -> BundleLaw | None:
        """The exact law of one person's bundle, by the encoded value that the person holds.

        Without bundles rarer than `RARE`; None where there are too many to list.
        """

    def release_law(self, tally: Tally) -> Mapping[Any, Fraction] | None:
        """In central trust, the law of what is released for a tally, to 60 digits or more. Outcomes
        that tell any two tallies of so many people apart alike may be one. None where it is not
        known, or too long to list.
        """
        return None

    @abstractmethod
    def _standard_error(self, users: int, held: Holding | None) -> float:
        """See `standard_error`; the largest of all buckets where there are several."""

    @abstractmethod
    def _randomize(self, encoded: NDArray[Any], source: Source) -> Messages:
        """Messages of people whose values are already checked and encoded."""

    def _tally(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        """Counts over checked messages; by default, how often each number occurs."""
        if self.tally_size == 2:  # many times faster than counting both
            ones = np.count_nonzero(payload)
            return np.array([len(payload) - ones, ones])
        return np.bincount(payload, minlength=self.tally_size).astype(np.int64)

    @abstractmethod
    def _unbiased(self, tally: Tally, source: Source | None) -> Answer:
        """The unbiased estimate. In central trust the curator adds the noise here."""

    def _answer(self, users: int, unbiased: Answer) -> Answer:
        """What is answered for an unbiased estimate: that itself, unless something else was counted
        than the task asks for, such as people in bins for a density.
        """
        return unbiased

    @abstractmethod
    def _error_law(self, users: int, value: Answer) -> ErrorLaw:
        """The law of the answer's error when `users` people took part.

        Where it depends on the truth, as far as the unbiased `value` tells.
        """

    @abstractmethod
    def _simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        """A tally's counts, drawn from the law that the messages of such a crowd would give."""

    def _target(self, held: Holding) -> Answer:
        """See `truth`."""
        return self.task.answer(held)

    def _answer_range(self, users: int) -> tuple[float, float]:
        """Between which bounds the truth lies, whatever people hold."""
        return self.task.answer_range(users)

    def _postprocessing(self, tally: Tally) -> tuple[str, Callable[[Answer], Answer]] | None:
        """What the chosen analyzer does to the unbiased value, by name; nothing by default."""
        return None

    def _excess(self, slots: int) -> float:
        """At least the probability that a person has more messages than slots, whatever the value;
        asked only where messages are not `fixed_messages`.
        """
        return 1.0

    # What follows from it ---------------------------------------------------------------------

    @property
    def bits_per_message(self) -> int:
        return self.alphabet.bits

    @property
    def bytes_per_user(self) -> float:
        """About how many bytes of memory it takes at most to make and count one person's messages:
        some numbers for the person and for each message, and some copies of the messages.
        """
        return 128 + self.messages_per_user * (64 + 4 * self.alphabet.bytes_per_message)

    @cached_property
    def people_at_once(self) -> int:
        """How many people's messages are made and counted together.

        It is a power of two. Their messages fit into a fixed amount of memory, so that the number
        depends on the protocol alone.
        """
        fitting = max(1, int(_BYTES_AT_ONCE / self.bytes_per_user))
        return min(MOST_AT_ONCE, 1 << (fitting.bit_length() - 1))

    def standard_error(self, counts: Counts | None = None) -> float:
        """Root mean squared error of the estimate by privacy noise, everyone following.

        For a crowd in which `counts[v]` people hold value v (of numbers a mapping, {value:
        people}); without them, for the worst data of `crowd.users` people. Of a histogram, in the
        worst bucket; rounding included where numbers are rounded at random.
        """
        if counts is None:
            return self._standard_error(self.crowd.users, None)
        held = self.task.holding(counts)
        return self._standard_error(held.users, held)

    def margin(self, confidence: float = 0.95) -> float:
        """Half the length of an interval with this confidence, for the worst data, everyone
        following: "plus or minus". At most half of what is possible. Of a density, by the privacy
        noise alone.
        """
        confidence = checks.confidence(confidence)
        users = self.crowd.users
        margins = (
            self._error_law(users, value).margins(confidence)
            for value in self._extremes(users, confidence)
        )
        low, high = self.task.answer_range(users)
        return min(max(float(np.max(below + above)) for below, above in margins), high - low) / 2

    def _extremes(self, users: int, confidence: float) -> Iterable[Answer]:
        """Unbiased values among which intervals are longest: the ends of what is possible, the
        middle, and near the ends, where intervals do not yet profit from them. Of a histogram they
        are those of one bucket each.
        """
        low, high = self.task.answer_range(users)
        deviations = -NormalDist().inv_cdf((1 - confidence) / 2)
        reach = 2.5 * deviations * self._standard_error(users, None)
        near = np.minimum(np.linspace(0, reach, 13), (high - low) / 2)
        values = np.concatenate([low + near, [(low + high) / 2], high - near])
        return values[::6].tolist() if self.task.buckets is None else (values,)

    def truth(self, counts: Counts) -> Answer:
        """What the unbiased estimate is on average, for a crowd that holds such values.

        The true answer; of a density, what the protocol's smoothing makes of the crowd's own.
        """
        return self._target(self.task.holding(counts))

    def overflow(self, slots: int) -> float:
        """At least the probability that one person has more messages than this."""
        slots = checks.whole("slots", slots, low=0, high=MOST_SLOTS)
        if self.fixed_messages is not None:
            return float(slots < self.fixed_messages)
        return self._excess(slots)

    @cached_property
    def slots(self) -> int:
        """The least size of bundles that the budget allows: see `bundle`.

        A person has more messages than this with probability `overflow(slots)`; as if it happened
        to none of the honest ones, that costs δ at most (1 + e^ε)·honest·overflow.
        """
        spare = self.budget.delta - self.curve.delta(self.budget.epsilon)
        price = (1 + math.exp(self.budget.epsilon)) * self.crowd.honest

        def too_few(slots: int) -> bool:
            cost = self.overflow(slots)
            return cost > 0 and cost * price > spare

        few, enough = 0, 1
        while too_few(enough):
            if enough >= MOST_SLOTS:
                raise Infeasible(
                    f"{self.name} has no bundles of up to {MOST_SLOTS} messages that surely fit "
                    f"within delta={short(self.budget.delta)} at "
                    f"epsilon={short(self.budget.epsilon)}"
                )
            few, enough = enough, 2 * enough
        while enough - few > 1:
            middle = (few + enough) // 2
            few, enough = (middle, enough) if too_few(middle) else (few, middle)
        return enough

    @property
    def bundled_curve(self) -> PrivacyCurve:
        """The curve with bundles of the least size; at the budget's epsilon it keeps its delta."""
        return NearCurve(self.curve, self.crowd.honest * self.overflow(self.slots))

    @cached_property
    def bundled_guarantee(self) -> Guarantee:
        """The guarantee with bundles of one size. An estimate from bundles states it.

        Messages that do not fit into a bundle are drawn anew, so their law changes a little.
        """
        try:
            overflow = self.overflow(self.slots)
        except Infeasible:  # nobody can have made a bundle
            overflow = 0.0
        if not overflow:
            return self.guarantee
        plain = self.guarantee
        return replace(
            plain,
            delta=self.bundled_curve.delta(plain.epsilon),
            exact=False,
            method=f"{plain.method}; bundles of {self.slots:,} slots, drawn until they fit",
        )

    def bundle(
        self, value: Any, source: Source | None = None, *, slots: int | None = None
    ) -> Messages:
        """One person's messages, filled up with dummies to a number that says nothing.

        All people's bundles have the same size: `slots`, or as few as the budget allows. A bundle
        that would not fit is drawn anew. Messages cannot be drawn without a `source`.
        """
        encoded = self.task.encode([value])
        source = self._check_source(source)
        least = self.slots
        most = MOST_SLOTS if self.fixed_messages is None else least
        size = least if slots is None else checks.whole("slots", slots, low=least, high=most)
        payload = self._randomize(encoded, source).payload
        while len(payload) > size:
            payload = self._randomize(encoded, source).payload
        if len(payload) < size:
            payload = np.concatenate([payload, self.alphabet.padding(size - len(payload))])
        return Messages(payload, 1, np.array([size]), secure=source.secure, bundled=True)

    def randomize(self, values: ArrayLike, source: Source) -> Messages:
        """Each person's messages; one person is a vector of one."""
        return self.randomize_encoded(self.task.encode(values), source)

    def randomize_encoded(self, encoded: NDArray[Any], source: Source) -> Messages:
        """`randomize` for values that the task has encoded before."""
        self._check_source(source)
        return replace(self._randomize(encoded, source), secure=source.secure)

    def count(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        """What some messages of a crowd add to its tally, where whose they are is not known."""
        return self._tally(self.alphabet.messages(payload))

    def tally(self, batch: Batch) -> Tally:
        """Counts that are all the analyzer needs. Tallies of parts add up to that of the whole.

        Rare messages that the shuffler had to withhold are refused in the batch of a whole crowd.
        """
        checks.instance("batch", batch, Batch)
        payload = self.alphabet.messages(batch.payload)
        sent = len(payload)
        if self.fixed_messages and sent != self.fixed_messages * batch.users:
            raise InvalidValue(
                f"{batch.users} people must send {self.fixed_messages} message(s) each "
                f"with {self.name}, got {sent}"
            )
        tally = self._as_tally(self._tally(payload), batch.users, batch.secure, batch.bundled)
        if batch.users >= self.crowd.users:  # a part may have few copies of any message
            self._check_withheld(tally)
        return tally

    def withhold(self, tally: Tally) -> Tally:
        """The tally of what a shuffler passes on: without messages that have too few copies.

        It is for callers who play all roles and count messages without mixing them.
        """
        counts = np.where(tally.counts >= self.least_copies, tally.counts, 0)
        return tally if self.least_copies == 1 else replace(tally, counts=counts)

    def check_users(self, users: int) -> None:
        """Refuse a crowd that the guarantee does not cover, or that a tally has no room for."""
        users = checks.whole("users", users, low=-(2**63), high=2**63)
        if users < self.crowd.users:
            raise CrowdMismatch(
                f"{self.name} was built for at least {self.crowd.users} people, got {users}",
                hint="build it for the crowd that takes part",
            )
        if users > self.most_users:
            raise CrowdMismatch(f"{self.name} holds at most {self.most_users} people, got {users}")

    def check_crowd(self, crowd: Crowd) -> None:
        """Like `check_users`; also refuse fewer honest people than the guarantee relies on."""
        self.check_users(crowd.users)
        if self.trust is Trust.SHUFFLE and crowd.honest < self.crowd.honest:
            raise CrowdMismatch(
                f"{self.name} was built for at least {self.crowd.honest} honest people, "
                f"got {crowd.honest} of {crowd.users} who surely are",
                hint="build it for the crowd that takes part",
            )

    def collect(self, values: ArrayLike, source: Source) -> Tally:
        """The tally of everybody's messages, made for some people at a time to save memory.

        Nothing is shuffled in between: the order of messages makes no difference to a tally. Rare
        messages are withheld if the protocol asks for it.
        """
        return self.withhold(self.collect_encoded(self.task.encode(values), source))

    def collect_encoded(self, encoded: NDArray[Any], source: Source) -> Tally:
        """`collect` for encoded values of a part of the crowd. Nothing is withheld yet: only the
        tally of the whole crowd shows which messages are rare.
        """
        self._check_source(source)
        size = self.people_at_once
        starts = range(0, len(encoded), size)
        pieces = (self._randomize(encoded[at : at + size], source) for at in starts)
        tallies = (self._as_tally(self.count(sent.payload), sent.users, True) for sent in pieces)
        return replace(reduce(add, tallies), secure=source.secure)

    def estimate(self, tally: Tally, source: Source | None = None) -> Estimate:
        """The private answer.

        `source` is used in central trust alone, where the noise is added now, and every call is a
        release of its own; left out, it is the secure one.
        """
        checks.instance("tally", tally, Tally)
        if source is not None:
            self._check_source(source)
        self.check_users(tally.users)
        self._check_tally(tally)
        noise_is_secure = self.trust is not Trust.CENTRAL or source is None or source.secure
        promise = self.bundled_guarantee if tally.bundled else self.guarantee
        unbiased = self._unbiased(tally, source)
        raw = Estimate(
            task=self.task.name,
            protocol=self.name,
            value=self._answer(tally.users, unbiased),
            users=tally.users,
            guarantee=replace(promise, secure=tally.secure and noise_is_secure),
            answer_range=self._answer_range(tally.users),
            whole=self.task.whole_answers,
            error_law=self._error_law(tally.users, unbiased),
            buckets=self.task.buckets,
            total=self.task.total(tally.users),
        )
        step = self._postprocessing(tally)
        return raw.changed(*step) if step else raw

    def simulate(self, counts: Counts, source: Source) -> Tally:
        """A tally with the law of `tally(shuffle(randomize(…)))`, without making the messages.

        `counts[v]` people hold value v (of numbers a mapping, {value: people}). The law is that of
        the messages up to a total variation
        far below what could be seen: see `randomness.totals`.
        """
        self._check_source(source)
        held = self.task.holding(counts)
        tally = self._as_tally(self._simulate(held, source), held.users, source.secure)
        return self.withhold(tally)

    def _promise(
        self, method: str, *, delta: float = 0.0, exact: bool = True, epsilon: float | None = None
    ) -> Guarantee:
        """The guarantee for the budget's epsilon, or a smaller one."""
        return Guarantee(
            epsilon=self.budget.epsilon if epsilon is None else epsilon,
            delta=delta,
            trust=self.trust,
            exact=exact,
            method=method,
            honest=self.crowd.honest,
        )

    def _promise_alone(self) -> Guarantee:
        """The guarantee of a local protocol: what one person's messages betray."""
        epsilon = min(self.budget.epsilon, self.local_epsilon)
        return self._promise("largest ratio of the randomizer's law", epsilon=epsilon)

    def _not_private(self) -> Infeasible:
        """The refusal of a paper's parameters."""
        return Infeasible(
            f"the paper's parameters for {self.name} do not keep epsilon="
            f"{short(self.budget.epsilon)}, delta={short(self.budget.delta)} with "
            f"{self.crowd.honest} honest people; the exact calibration does"
        )

    def _check_curve(self) -> None:
        """Refuse if what tables round off is more than the budget has left for it."""
        if self.curve.delta(self.budget.epsilon) > self.budget.delta:
            raise Infeasible(
                f"{self.name} cannot draw its noise exactly enough for epsilon="
                f"{short(self.budget.epsilon)}, delta={short(self.budget.delta)} with "
                f"{self.crowd.honest} honest people"
            )

    def _as_tally(
        self, counts: NDArray[np.int64], users: int, secure: bool, bundled: bool = False
    ) -> Tally:
        return Tally(counts, users, self.name, self.tally_modulus, secure, bundled)

    def _check_source(self, source: Source | None) -> Source:
        if not isinstance(source, Source):
            raise InvalidParameter(
                f"`source` must be a SecureSource or a Source, got {checks.shown(source)}"
            )
        return source

    def _check_tally(self, tally: Tally) -> None:
        if tally.protocol != self.name:
            raise InvalidValue(f"a tally must be of {self.name}, got one of {tally.protocol}")
        if tally.modulus != self.tally_modulus:
            raise InvalidValue(
                f"a tally of {self.name} must be modulo {self.tally_modulus}, got {tally.modulus}"
            )
        if tally.counts.size != self.tally_size or tally.counts.min() < 0:
            raise InvalidValue(
                f"a tally of {self.name} must be {self.tally_size} count(s), none negative, "
                f"got {tally.counts.size} from {tally.counts.min(initial=0)} up"
            )
        self._check_withheld(tally)

    def _check_withheld(self, tally: Tally) -> None:
        """Refuse rare messages: the shuffler had to withhold them, since few people sent them."""
        rare = tally.counts[(tally.counts > 0) & (tally.counts < self.least_copies)]
        if rare.size:
            raise InvalidValue(
                f"the shuffler must withhold messages of {self.name} with fewer than "
                f"{self.least_copies} copies, got {rare[0]} copies of one",
                hint="pass least_copies=protocol.least_copies to shuffle",
            )
