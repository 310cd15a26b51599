"""The analyzer's part of a protocol.

It counts messages, answers from the counts, and states errors.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core.budget import MOST_USERS
from headcount.core.estimate import Answer, ErrorLaw
from headcount.core.influence import Shifts, all_messages
from headcount.core.messages import Alphabet
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Holding, Task


@dataclass(frozen=True)
class Estimator(ABC):
    """Answers a task from the messages of a crowd. It holds calibrated numbers and is never
    changed.

    `users` is always the number of people who took part. Everybody is assumed to follow the
    protocol. A `Holding` says how many people hold which encoded value.
    """

    task: Task

    # Counting -----------------------------------------------------------------------------------

    @property
    @abstractmethod
    def tally_size(self) -> int:
        """How many numbers a tally has."""

    @property
    def tally_modulus(self) -> int | None:
        """The modulus of the numbers in a tally, if messages are shares modulo some number."""
        return None

    @property
    def most_users(self) -> int:
        """The largest crowd whose tally fits into its numbers."""
        return MOST_USERS

    def count(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        """What these checked messages add to a tally: by default, the count of each message."""
        if self.tally_size == 2:  # many times faster than counting both
            ones = np.count_nonzero(payload)
            return np.array([len(payload) - ones, ones])
        return np.bincount(payload, minlength=self.tally_size).astype(np.int64)

    @abstractmethod
    def simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        """The numbers of a random tally, drawn without making messages. They have the same law as
        those of a tally of messages.
        """

    @property
    def simulates_exactly(self) -> bool:
        """Whether `simulate` follows the joint law of all numbers in a tally. If not, each number
        has the correct law, but numbers do not depend on each other as they should.
        """
        return True

    # Answering ----------------------------------------------------------------------------------

    @abstractmethod
    def unbiased(self, tally: Tally, source: Source | None = None) -> Answer:
        """The unbiased estimate. In central trust the curator's noise is added here, and elsewhere
        the analyzer's noise if `adds_noise`. It is drawn from `source`, or from a secure source if
        that is None.
        """

    @property
    def adds_noise(self) -> bool:
        """Whether `unbiased` adds noise although the trust model is not central. Then every call is
        a new release.
        """
        return False

    def answer(self, users: int, unbiased: Answer) -> Answer:
        """The answer to the task for an unbiased estimate. By default, the estimate itself.

        It differs if the protocol counts something other than what the task asks for. For
        example, it counts bins for a density.
        """
        return unbiased

    def postprocessing(self, tally: Tally) -> tuple[str, Callable[[Answer], Answer]] | None:
        """A change that an option makes to the answer: its name and a function. By default None."""
        return None

    def release_law(self, tally: Tally) -> Mapping[Any, Fraction] | None:
        """In central trust, the law of the release for this tally, to 60 digits or more.

        Two outcomes may be merged if their likelihood ratio is the same for all tallies of this
        number of people. It is None if the law is unknown or too long to list.
        """
        return None

    # Influence ----------------------------------------------------------------------------------

    def shifts(self, users: int, alphabet: Alphabet) -> Shifts:
        """What single messages add to the answer of `users` people.

        By default, every message is tried. This is right if the answer is linear in the tally. A
        subclass must state the shifts if the answer is not linear, if the analyzer adds noise, if
        there are too many messages to list, or if the answer has no bounds, like a density.
        """
        messages = all_messages(alphabet)
        if messages is None or not np.isfinite(self.task.answer_range(1)).all():
            raise NotImplementedError(f"{type(self).__name__} must state shifts")
        return linear_shifts(self, users, messages)

    # Error --------------------------------------------------------------------------------------

    @abstractmethod
    def standard_error(self, users: int, held: Holding | None) -> float:
        """The root mean squared error of the answer for these values, or for the worst data if
        `held` is None. With several buckets, it is the error of the worst bucket.
        """

    @property
    def worst_is_attained(self) -> bool:
        """Whether the standard error for the worst data is attained by some data. If not, it is
        only an upper bound.
        """
        return True

    @abstractmethod
    def error_law(self, users: int, unbiased: Answer) -> ErrorLaw:
        """The law of the answer's error, as far as the unbiased estimate determines it."""

    def truth(self, held: Holding) -> Answer:
        """The expected answer before postprocessing, for a crowd with these values. By default, it
        is the true answer to the task.
        """
        return self.task.answer(held)

    def errors(self, answer: Answer, held: Holding) -> NDArray[np.float64]:
        """The errors of an answer for a crowd with these values, in the unit of standard errors. By
        default, answers and errors have the same unit.
        """
        missed: NDArray[np.float64] = np.asarray(answer) - np.asarray(self.truth(held))
        return missed

    def answer_range(self, users: int) -> tuple[float, float]:
        """The least and the largest possible truth."""
        return self.task.answer_range(users)

    def ranking_error(self, users: int) -> float:
        """The error by which plans rank protocols. By default, the standard error for the worst
        data.

        For a density it is about the root of the mean integrated squared error, which includes
        noise, sampling and smoothing. The population is the worst one whose density is no rougher
        than 1 + cos(4πu).
        """
        return self.standard_error(users, None)

    def extremes(self, users: int, confidence: float) -> Iterable[Answer]:
        """Some unbiased estimates. One of them has the longest interval.

        Near an end of the possible range, the range cuts the interval. So the estimates go inward
        from both ends, up to points at which the interval is no longer cut. The middle is added. A
        histogram gets all of these numbers in one vector. Other tasks get every sixth of them.
        """
        low, high = self.task.answer_range(users)
        deviations = -NormalDist().inv_cdf((1 - confidence) / 2)
        reach = 2.5 * deviations * self.standard_error(users, None)
        near = np.minimum(np.linspace(0, reach, 13), (high - low) / 2)
        values = np.concatenate([low + near, [(low + high) / 2], high - near])
        return values[::6].tolist() if self.task.buckets is None else (values,)


def is_average(task: Task) -> bool:
    """Whether the answer is divided by the number of people: its range is that of one person."""
    return task.answer_range(1) == task.answer_range(2)


def linear_shifts(estimator: Estimator, users: int, messages: NDArray[Any]) -> Shifts:
    """What messages add to an answer that is linear in the tally.

    `messages` must include those that add most and least.
    """
    low, high = estimator.task.answer_range(1)
    average = is_average(estimator.task)

    def total(counts: NDArray[np.int64], people: int) -> Answer:
        tally = Tally(counts, people, "", estimator.tally_modulus)
        answer = estimator.answer(people, estimator.unbiased(tally))
        return (answer - low) * people if average else answer

    nobody = np.zeros(estimator.tally_size, dtype=np.int64)
    base = total(nobody, 1)
    added = np.array(
        [total(estimator.count(messages[i : i + 1]), 1) - base for i in range(len(messages))]
    )
    most, least = added.max(axis=0), added.min(axis=0)
    # At how many places each message adds `most`, up to rounding errors.
    much = added > most - 1e-9 * (most - least)
    places = much.reshape(len(messages), -1).sum(axis=1)
    shifts = Shifts(
        most=most,
        least=least,
        person=total(nobody, 2) - base,
        honest=(0.0, high - low) if average else (low, high),
        places=(int(places.min()), int(places.max())),
        everywhere=1 < np.size(most) == int(places.max()),
    )
    return shifts.scaled(1 / users) if average else shifts
