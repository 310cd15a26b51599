"""The contract that every protocol keeps. `docs/adding-a-protocol.md` has a skeleton.

    values ──randomize──▶ messages ──shuffle──▶ batch ──tally──▶ tally ──estimate──▶ estimate

Shared here: input checks, crowd limits, the assembly of an `Estimate`. A protocol's own file states
its law, its calibration, its estimator and its error; everything else is derived.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headcount.core import checks
from headcount.core.budget import MOST_USERS, Budget, Crowd, Trust
from headcount.core.errors import CrowdMismatch, InvalidParameter, InvalidValue
from headcount.core.estimate import ErrorLaw, Estimate
from headcount.core.guarantee import Guarantee, PrivacyCurve
from headcount.core.messages import Alphabet, Batch, Messages
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Task

Message: TypeAlias = int | tuple[int, ...]
# The probability of every bundle that a person may send: the bundle's messages, sorted.
BundleLaw: TypeAlias = Mapping[tuple[Message, ...], Fraction]
Calibration: TypeAlias = Literal["exact", "paper"]


@dataclass(frozen=True)
class Protocol(ABC):
    """A randomizer and an analyzer for one task, budget and crowd. Frozen: a value, not a state.

    `calibration="paper"` takes the closed form of the paper where that differs from the exact one.
    """

    name: ClassVar[str]
    trust: ClassVar[Trust]
    tasks: ClassVar[tuple[type[Task], ...]]
    fixed_messages: ClassVar[int | None] = None  # what everyone sends, where it is the same
    most_users: ClassVar[int] = MOST_USERS

    task: Task
    budget: Budget
    crowd: Crowd
    calibration: Calibration = "exact"

    def __post_init__(self) -> None:
        for name, kind in (("task", Task), ("budget", Budget), ("crowd", Crowd)):
            if not isinstance(getattr(self, name), kind):
                raise InvalidParameter(
                    f"`{name}` must be a {kind.__name__}, got {getattr(self, name)!r}"
                )
        if not isinstance(self.task, self.tasks):
            answered = ", ".join(task.name for task in self.tasks)
            raise InvalidParameter(f"{self.name} answers {answered}, got the task {self.task}")
        checks.choice("calibration", self.calibration, ("exact", "paper"))
        self._check_users(self.crowd.users)

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
    @abstractmethod
    def messages_per_user(self) -> float:
        """Expected number of messages of the person who sends most."""

    @property
    @abstractmethod
    def local_epsilon(self) -> float:
        """What is left if shuffler and analyzer collude; `inf` where nothing is."""

    @abstractmethod
    def law(self, value: int) -> BundleLaw:
        """The exact law of one person's bundle, by the encoded value that the person holds."""

    @abstractmethod
    def standard_error(self, counts: ArrayLike | None = None) -> float:
        """Root mean squared error of the estimate by privacy noise, everyone following.

        For a crowd in which `counts[v]` people hold value v; without them, for the worst data of
        `crowd.users` people.
        """

    @abstractmethod
    def _randomize(self, encoded: NDArray[Any], source: Source) -> Messages:
        """Messages of people whose values are already checked and encoded."""

    @abstractmethod
    def _tally(self, payload: NDArray[Any], users: int) -> NDArray[np.int64]:
        """Counts over checked messages."""

    @abstractmethod
    def _unbiased(self, tally: Tally, source: Source | None) -> float:
        """The unbiased estimate. In central trust the curator adds the noise here."""

    @abstractmethod
    def _error_law(self, users: int) -> ErrorLaw:
        """The law of the unbiased estimate's error when `users` people took part."""

    @abstractmethod
    def _simulate(self, counts: NDArray[np.int64], source: Source) -> NDArray[np.int64]:
        """A tally's counts, drawn from the law that the messages of such a crowd would give."""

    def _postprocessing(self, tally: Tally) -> tuple[str, Callable[[float], float]] | None:
        """What the chosen analyzer does to the unbiased value, by name; nothing by default."""
        return None

    # What follows from it ---------------------------------------------------------------------

    @property
    def bits_per_message(self) -> int:
        return self.alphabet.bits

    def randomize(self, values: ArrayLike, source: Source) -> Messages:
        """Each person's messages; one person is a vector of one."""
        self._check_source(source)
        return self._randomize(self.task.encode(values), source)

    def tally(self, batch: Batch) -> Tally:
        """Counts that are all the analyzer needs. Tallies of parts add up to that of the whole."""
        self.alphabet.check(batch.payload)
        sent = len(batch.payload)
        if self.fixed_messages and sent != self.fixed_messages * batch.users:
            raise InvalidValue(
                f"{batch.users} people must send {self.fixed_messages} message(s) each "
                f"with {self.name}, got {sent}"
            )
        return self._as_tally(self._tally(batch.payload, batch.users), batch.users)

    def estimate(self, tally: Tally, source: Source | None = None) -> Estimate:
        """The private answer.

        `source` is used in central trust alone, where the noise is added now, and every call is a
        release of its own; left out, it is the secure one.
        """
        self._check_users(tally.users)
        self._check_tally(tally)
        raw = Estimate(
            task=self.task.name,
            protocol=self.name,
            value=self._unbiased(tally, source),
            users=tally.users,
            guarantee=self.guarantee,
            answer_range=self.task.answer_range(tally.users),
            whole=self.task.whole_answers,
            error_law=self._error_law(tally.users),
        )
        step = self._postprocessing(tally)
        return raw.postprocess(*step) if step else raw

    def simulate(self, counts: ArrayLike, source: Source) -> Tally:
        """A tally with the law of `tally(randomize(…))`, without making the messages.

        `counts[v]` people hold value v. The law is that of the messages up to a total variation
        far below what could be seen: see `randomness.binomial`.
        """
        self._check_source(source)
        checked = self.task.check_counts(counts)
        return self._as_tally(self._simulate(checked, source), int(checked.sum()))

    def _as_tally(self, counts: NDArray[np.int64], users: int) -> Tally:
        return Tally(counts, users, self.name, self.tally_modulus)

    def _check_source(self, source: Source) -> None:
        if not isinstance(source, Source):
            raise InvalidParameter(f"`source` must be a SecureSource or a Source, got {source!r}")

    def _check_users(self, users: int) -> None:
        if users < self.crowd.users:
            raise CrowdMismatch(
                f"{self.name} was built for at least {self.crowd.users} people, got {users}",
                hint="build it for the crowd that takes part",
            )
        if users > self.most_users:
            raise CrowdMismatch(f"{self.name} holds at most {self.most_users} people, got {users}")

    def _check_tally(self, tally: Tally) -> None:
        if tally.protocol != self.name:
            raise InvalidValue(f"a tally must be of {self.name}, got one of {tally.protocol}")
        if tally.counts.size != self.tally_size or tally.counts.min() < 0:
            raise InvalidValue(
                f"a tally of {self.name} must be {self.tally_size} count(s), none negative, "
                f"got {tally.counts.size} from {tally.counts.min(initial=0)} up"
            )
