"""How far one dishonest person can shift an answer.

Notation    g is what a person's bundle adds to the unbiased answer: the answer with it, minus the
            answer of the others alone. s⁺ and s⁻ are the largest and the smallest g of all bundles
            that the alphabet and the size of bundles admit.
Linear      In most protocols g = Σ e(m) + b over the messages m of a bundle. e(m) is what one
            message adds, and b is what one more person adds, since the analyzer subtracts the
            expected noise of everybody. With K messages, s⁺ = K·max e + b. If dummies fill up a
            bundle, a person may also send fewer messages.
Honesty     If a person is honest, E g is the person's value, from x_min to x_max. So a dishonest
            person shifts the answer by up to s⁺ − x_min upwards and x_max − s⁻ downwards against
            being honest, on average.
Averages    A mean and a density are divided by the number n of people. n is public and taken as
            fixed, and e and b are divided by n. A mean is measured from the lowest value.
"""

import math
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.errors import InvalidParameter
from headcount.core.estimate import Answer
from headcount.core.messages import Alphabet
from headcount.core.table import Table, counted, short, size

MOST_MESSAGES = 2**14  # alphabets with more messages are not listed


@dataclass(frozen=True, eq=False)
class Shifts:
    """What messages add to an answer. If the answer has several places, the numbers may be arrays.

    One message adds `most` at some places and `least` at all others. `places` are the smallest and
    the largest number of places at which it can add `most`. `everywhere` says whether a message can
    add `most` at all of several places, or whether one person can choose the answers of all places.
    """

    most: Answer
    least: Answer
    person: Answer = 0.0  # b, what one more person adds without any message
    honest: tuple[Answer, Answer] = (0.0, 1.0)  # x_min and x_max
    places: tuple[int, int] = (1, 1)
    everywhere: bool = False
    # The most that a message adds if others' messages are passed on because of it.
    over_threshold: Answer | None = None
    # The least and the largest answer, if one message can lead to any answer.
    answers: tuple[float, float] | None = None

    def scaled(self, factor: float) -> "Shifts":
        """The shifts of an answer that is multiplied by a positive number."""
        over, low, high = self.over_threshold, *self.honest
        return replace(
            self,
            most=self.most * factor,
            least=self.least * factor,
            person=self.person * factor,
            honest=(low * factor, high * factor),
            over_threshold=None if over is None else over * factor,
        )

    def combined(self, weights: NDArray[np.float64]) -> "Shifts":
        """The shifts of weighted sums of all places. Each row of `weights` is one sum.

        On average, an honest person adds x_max to one place, and nothing to the others.
        """
        number, (_, added) = weights.shape[1], self.honest
        single = bool((np.count_nonzero(weights, axis=1) == 1).all())
        over = self.over_threshold
        return replace(
            self,
            most=self._largest(weights, self.most),
            least=-self._largest(-weights, self.most),
            person=weights @ np.broadcast_to(self.person, number),
            honest=(added * weights.min(axis=1), added * weights.max(axis=1)),
            places=(1, 1),
            everywhere=self.everywhere and single and bool((weights >= 0).all()),
            over_threshold=None if over is None else self._largest(weights, over),
        )

    def _largest(self, weights: NDArray[np.float64], most: Answer) -> NDArray[np.float64]:
        """The largest weighted sum that one message adds: `most` at some places, else `least`."""
        number = weights.shape[1]
        least = np.broadcast_to(self.least, number)
        gains = np.sort(weights * (np.broadcast_to(most, number) - least), axis=1)[:, ::-1]
        sums = np.cumsum(np.pad(gains, ((0, 0), (1, 0))), axis=1)
        fewest, many = self.places
        largest: NDArray[np.float64] = weights @ least + sums[:, fewest : many + 1].max(axis=1)
        return largest


def all_messages(alphabet: Alphabet) -> NDArray[Any] | None:
    """A payload with every message of an alphabet once; None if there are too many."""
    # `len` does not work for ranges of 2^64 numbers.
    if math.prod((c[-1] - c[0]) // c.step + 1 for c in alphabet.columns) > MOST_MESSAGES:
        return None
    if len(alphabet.columns) == 1:
        return np.array(alphabet.columns[0], dtype=alphabet.dtype)
    return np.array(list(product(*alphabet.columns)), dtype=alphabet.dtype)


def end_messages(alphabet: Alphabet) -> NDArray[Any]:
    """A payload of the smallest and the largest message, for alphabets of single numbers."""
    (column,) = alphabet.columns
    return np.array([column[0], column[-1]], dtype=alphabet.dtype)


@dataclass(frozen=True)
class SharedShift:
    """How far a share of the crowd can shift the answer, if these people conspire."""

    people: int
    up: float
    down: float
    standard_error: float

    @property
    def up_over_error(self) -> float:
        """The shift upwards, divided by the standard error of the answer."""
        return self.up / self.standard_error if self.standard_error else math.inf

    @property
    def down_over_error(self) -> float:
        """The shift downwards, divided by the standard error of the answer."""
        return self.down / self.standard_error if self.standard_error else -math.inf


@dataclass(frozen=True)
class Influence:
    """By how much one dishonest person can shift the answer, in the answer's own unit.

    `up` and `down` are the largest and the smallest number that one person can add to the answer,
    compared with staying away. With several buckets they are those of the worst bucket.
    `up_against_honesty` and `down_against_honesty` compare with an honest person, on average, and
    are not negative. If `all_at_once`, one person can shift all buckets by as much at the same
    time. If `any_answer`, one person can make the answer any number, and `up` and `down` are the
    largest and the smallest answer.

    `lost_message` is the largest shift if one message of an honest person is lost. It is infinite
    if nothing is left of the answer.

    Everybody sends `messages` messages, or a bundle of this size. The shuffler has to refuse other
    sizes. Without that, people could send any number of messages, and nothing would be bounded.
    """

    up: float
    down: float
    up_against_honesty: float
    down_against_honesty: float
    all_at_once: bool
    any_answer: bool
    lost_message: float
    messages: float  # infinite if no size of bundles is stated
    users: int
    standard_error: float  # of the answer, for the worst data
    each_more: float  # what every further dishonest person adds to `up`

    @classmethod
    def of(
        cls,
        shifts: Shifts,
        messages: float,
        *,
        dummies: bool,
        users: int,
        standard_error: float,
    ) -> "Influence":
        """The influence of a person who sends this number of messages, or fewer and dummies."""
        low, high = shifts.honest
        if shifts.answers is not None:
            least, largest = shifts.answers
            return cls(
                up=largest,
                down=least,
                up_against_honesty=largest,
                down_against_honesty=-least,
                all_at_once=shifts.everywhere,
                any_answer=True,
                lost_message=math.inf,
                messages=messages,
                users=users,
                standard_error=standard_error,
                each_more=0.0,
            )
        one_up = np.maximum(shifts.most, 0.0) if dummies else np.asarray(shifts.most)
        one_down = np.minimum(shifts.least, 0.0) if dummies else np.asarray(shifts.least)
        # K·e + b. If K is infinite and e is 0, K·e is 0.
        up, down = (
            np.where(one == 0, 0.0, messages * np.where(one == 0, 1.0, one)) + shifts.person
            for one in (one_up, one_down)
        )
        each_more = up
        lost = np.maximum(np.abs(shifts.most), np.abs(shifts.least))
        if not dummies and messages == 1:  # the person is lost, too
            lost = np.maximum(np.abs(up), np.abs(down))
        if shifts.over_threshold is not None:
            up = lost = up - shifts.most + shifts.over_threshold
        return cls(
            up=float(np.max(up)),
            down=float(np.min(down)),
            up_against_honesty=float(np.max(up - low)),
            down_against_honesty=float(np.max(high - down)),
            all_at_once=shifts.everywhere,
            any_answer=False,
            lost_message=float(np.max(lost)),
            messages=messages,
            users=users,
            standard_error=standard_error,
            each_more=float(np.max(each_more)),
        )

    def of_share(self, share: float) -> SharedShift:
        """How far this share of the crowd can shift the answer: `influence.of_share(0.01)`."""
        share = checks.real("share", share)
        if not 0 <= share <= 1:
            raise InvalidParameter(f"`share` must be between 0 and 1, got {short(share)}")
        people = math.floor(share * self.users)
        if not people:
            return SharedShift(0, 0.0, 0.0, self.standard_error)
        up = self.up + (people - 1) * self.each_more
        down = self.down if self.any_answer else people * self.down
        return SharedShift(people, up, down, self.standard_error)

    def to_dict(self) -> dict[str, Any]:
        """The influence for JSON. Infinite numbers are null."""
        return {
            name: None if isinstance(value, float) and math.isinf(value) else value
            for name, value in asdict(self).items()
        }

    def table(self) -> Table:
        """The influence of one person and of one person in a hundred, as a table."""
        rows = [
            ("one person, against staying away", self.up, self.down),
            ("one person, against honesty", self.up_against_honesty, -self.down_against_honesty),
        ]
        shared = self.of_share(0.01)
        if shared.people > 1:
            rows.append((f"{shared.people:,} people, one in a hundred", shared.up, shared.down))
        notes = [
            "One person can shift all buckets at the same time."
            if self.all_at_once and not self.any_answer
            else "",
            f"One person can make {self._any_answer}." if self.any_answer else "",
            f"The standard error is {size(self.standard_error)}.",
            f"The shuffler must refuse bundles of other sizes than {self.messages:,.0f}."
            if 1 < self.messages < math.inf
            else "",
            f"If one message is lost, {self._loss}.",
        ]
        return Table(
            ("dishonest", "up", "down"),
            tuple((name, size(up), size(down)) for name, up, down in rows),
            title="How far dishonest people can shift the answer",
            notes=tuple(note for note in notes if note),
        )

    @property
    def _any_answer(self) -> str:
        return "the answer any number" + " in all buckets at once" * self.all_at_once

    @property
    def _loss(self) -> str:
        if math.isinf(self.lost_message):
            return "nothing is left of the answer"
        return f"the answer shifts by up to {size(self.lost_message)}"

    def _repr_html_(self) -> str:
        return self.table().html()

    def __str__(self) -> str:
        if self.any_answer:
            return f"one dishonest person can make {self._any_answer}"
        everywhere = " in all buckets at once" if self.all_at_once else ""
        sent = "" if self.messages == 1 else f" with {counted_messages(self.messages)}"
        return (
            f"one dishonest person can add {size(self.down)} to {size(self.up)}{everywhere}{sent}"
        )


def counted_messages(messages: float) -> str:
    """A number of messages in words."""
    if math.isinf(messages):
        return "any number of messages"
    return counted(int(messages), "message")
