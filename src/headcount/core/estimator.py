"""The analyzer's part of a protocol.

The estimator counts messages, computes the answer from the counts, and states its error.
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
    """Computes the answer to a task from the messages of a crowd. An estimator holds calibrated
    numbers and never changes.

    `users` is always the number of people who took part. Everybody is assumed to follow the
    protocol. A `Holding` says how many people hold each encoded value.
    """

    task: Task

    # Counting -----------------------------------------------------------------------------------

    @property
    @abstractmethod
    def tally_size(self) -> int:
        """The number of counts in a tally."""

    @property
    def tally_modulus(self) -> int | None:
        """The modulus of the counts in a tally. It is None unless messages are secret shares, which
        are added modulo a number.
        """
        return None

    @property
    def most_users(self) -> int:
        """The largest crowd that the estimator can handle. Its counts must fit into a tally."""
        return MOST_USERS

    def count(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        """The counts of these checked messages. By default, there is one count for each possible
        message.
        """
        if self.tally_size == 2:  # many times faster than `bincount`
            ones = np.count_nonzero(payload)
            return np.array([len(payload) - ones, ones])
        return np.bincount(payload, minlength=self.tally_size).astype(np.int64)

    @property
    def seconds_per_message(self) -> float:
        """About how many seconds one core takes to count a message after reading it. By default,
        this time is 0. An estimator that compares each message with many buckets states its time.
        """
        return 0.0

    @abstractmethod
    def simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        """The counts of a random tally, drawn without making messages. Each count has the law of a
        count of messages, up to the total variation that the source is told: see `Source.owe`. See
        `simulates_exactly` for the joint law.
        """

    @property
    def simulates_exactly(self) -> bool:
        """Whether `simulate` follows the joint law of all counts in a tally. If not, each count has
        the correct law, but the dependence between counts is wrong.
        """
        return True

    # Answering ----------------------------------------------------------------------------------

    def unbiased(self, tally: Tally, source: Source | None = None) -> Answer:
        """The unbiased estimate. In central trust, it includes the curator's noise. In other trust
        models, it includes the analyzer's noise if `adds_noise`. The noise is drawn from `source`,
        or from a secure source if `source` is None.
        """
        raise NotImplementedError(f"{type(self).__name__} has no unbiased estimate")

    def computed(self, tally: Tally, source: Source | None = None) -> Answer:
        """What is computed from the tally: by default, the unbiased estimate. An estimator that has
        no unbiased estimate defines this method instead of `unbiased`. Its `postprocessing` must
        then name a change, since an answer without any change counts as unbiased.
        """
        return self.unbiased(tally, source)

    @property
    def adds_noise(self) -> bool:
        """Whether `unbiased` adds noise although the trust model is not central. If so, every call
        of `unbiased` is a new release.
        """
        return False

    def answer(self, users: int, unbiased: Answer) -> Answer:
        """The answer to the task for an unbiased estimate. By default, it is the estimate itself.

        The two differ if the protocol estimates something other than the answer. For example, a
        protocol for a density may count bins.
        """
        return unbiased

    def postprocessing(self, tally: Tally) -> tuple[str, Callable[[Answer], Answer]] | None:
        """The name and the function of a change that the protocol itself makes to the answer, such
        as a threshold, or reading quantiles from shares. By default, None.
        """
        return None

    def release_law(self, tally: Tally) -> Mapping[Any, Fraction] | None:
        """The law of the release for this tally, if the curator or the analyzer adds noise. It is
        computed to 60 digits or more.

        Two outcomes may be merged if the ratio of their probabilities is the same for all tallies
        of this number of people. The law is None if it is unknown or too long to list.
        """
        return None

    # Influence ----------------------------------------------------------------------------------

    def shifts(self, users: int, alphabet: Alphabet) -> Shifts:
        """How much single messages add to the answer of `users` people.

        By default, every message is tried, which is correct if the answer is linear in the tally. A
        subclass must define this method if the answer is not linear, if the analyzer adds noise, if
        there are too many messages to list, or if the answer has no bounds, like a density.
        """
        messages = all_messages(alphabet)
        if messages is None or not np.isfinite(self.task.answer_range(1)).all():
            raise NotImplementedError(f"{type(self).__name__} must define `shifts`")
        return linear_shifts(self, users, messages)

    # Error --------------------------------------------------------------------------------------

    @abstractmethod
    def standard_error(self, users: int, held: Holding | None) -> float:
        """The root mean squared error of the answer for the values in `held`, or for the worst data
        if `held` is None. With several buckets, it is the error of the worst bucket.
        """

    @property
    def worst_is_attained(self) -> bool:
        """Whether the standard error for the worst data is attained by some data. If not, the
        stated error is only an upper bound.
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
        """The error by which plans rank protocols. By default, it is the standard error for the
        worst data.

        For a density, it is approximately the root of the mean integrated squared error, which
        includes noise, sampling and smoothing. The population is the worst one with a density no
        rougher than 1 + cos(4πu), where u goes from 0 to 1 over the range.

        For a tree of counts, which answers distributions and quantiles, it is the root mean squared
        error of the share of people below an edge, over all edges between cells. If this error
        depends on the data, as in local trust, people are assumed to be spread evenly over the
        cells.
        """
        return self.standard_error(users, None)

    def extremes(self, users: int, confidence: float) -> Iterable[Answer]:
        """A few unbiased estimates, one of which has the longest interval.

        Near an end of the possible range, the range cuts the interval. So the estimates start at
        both ends and go inward until the interval is no longer cut. The middle of the range is also
        included. If the answer has buckets, one vector has all of these numbers. Otherwise each
        number takes time of its own, so there are fewer of them.
        """
        low, high = self.task.answer_range(users)
        deviations = -NormalDist().inv_cdf((1 - confidence) / 2)
        reach = 2.5 * deviations * self.standard_error(users, None)
        alone = self.task.buckets is None
        near = np.minimum(np.linspace(0, reach, 3 if alone else 13), (high - low) / 2)
        values = np.concatenate([low + near, [(low + high) / 2], high - near])
        return values.tolist() if alone else (values,)


def is_average(task: Task) -> bool:
    """Whether the answer is an average. Then its range does not depend on the number of people."""
    return task.answer_range(1) == task.answer_range(2)


def linear_shifts(estimator: Estimator, users: int, messages: NDArray[Any]) -> Shifts:
    """How much messages add to an answer that is linear in the tally.

    `messages` must include the messages that add the most and the least.
    """
    low, high = estimator.task.answer_range(1)
    average = is_average(estimator.task)

    def total(counts: NDArray[np.int64], people: int) -> Answer:
        tally = Tally(counts, people, "", estimator.tally_modulus)
        answer = estimator.answer(people, estimator.computed(tally))
        return (answer - low) * people if average else answer

    nobody = np.zeros(estimator.tally_size, dtype=np.int64)
    base = total(nobody, 1)
    added = np.array(
        [total(estimator.count(messages[i : i + 1]), 1) - base for i in range(len(messages))]
    )
    most, least = added.max(axis=0), added.min(axis=0)
    # Find the number of places at which each message adds `most`, up to rounding errors.
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
