"""How far one dishonest person can shift an answer.

Notation    g is the amount that a person's bundle adds to the unbiased answer: the answer with the
            bundle, minus the answer without this person. s⁺ and s⁻ are the largest and the smallest
            g of all bundles that the alphabet and the bundle size allow.
Linear      In most protocols g = Σ e(m) + b, summed over the messages m of a bundle. e(m) is the
            amount that message m adds. b is the amount that one more person adds without any
            message, since the analyzer subtracts each person's expected noise. With K messages,
            s⁺ = K·max e + b. If bundles may contain dummies, a person may also send fewer messages.
Honesty     If a person is honest, the expectation of g is the person's value, which is between
            x_min and x_max. So, on average and compared with being honest, a dishonest person can
            shift the answer up by s⁺ − x_min, or down by x_max − s⁻.
Averages    A mean or a density is divided by the number n of people, and so are e and b. n is
            public and taken as fixed. The values of a mean are measured from the lowest value, so
            x_min is 0.
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
    """How much messages add to an answer. The places of an answer are its buckets or grid points.
    If there are several places, an amount such as `most` may be an array.

    One message adds `most` at some places and `least` at all others. `places` holds the smallest
    and the largest number of places at which a message can add `most`. `everywhere` is true if
    there are several places and a message can add `most` at all of them. It is also true if one
    person can choose the answer at every place.
    """

    most: Answer
    least: Answer
    person: Answer = 0.0  # b: the amount that one more person adds without any message
    honest: tuple[Answer, Answer] = (0.0, 1.0)  # x_min and x_max
    places: tuple[int, int] = (1, 1)
    everywhere: bool = False
    # The most that a message adds if it also makes the shuffler pass on other people's messages.
    over_threshold: Answer | None = None
    # The least and the largest possible answer, if one message can lead to any answer.
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
        """The shifts of weighted sums of all places. Each row of `weights` has the weights of one
        sum.

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
        """The largest weighted sum of what a message adds: `most` at some places, else `least`."""
        number = weights.shape[1]
        least = np.broadcast_to(self.least, number)
        gains = np.sort(weights * (np.broadcast_to(most, number) - least), axis=1)[:, ::-1]
        sums = np.cumsum(np.pad(gains, ((0, 0), (1, 0))), axis=1)
        fewest, many = self.places
        largest: NDArray[np.float64] = weights @ least + sums[:, fewest : many + 1].max(axis=1)
        return largest


def all_messages(alphabet: Alphabet) -> NDArray[Any] | None:
    """A payload with every message of an alphabet once, or None if there are too many messages."""
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
    """How far a share of the crowd can shift the answer, if these people collude."""

    people: int
    up: float
    down: float
    standard_error: float

    @property
    def up_over_error(self) -> float:
        """The upward shift, divided by the standard error of the answer."""
        return self.up / self.standard_error if self.standard_error else math.inf

    @property
    def down_over_error(self) -> float:
        """The downward shift, divided by the standard error of the answer."""
        return self.down / self.standard_error if self.standard_error else -math.inf


@dataclass(frozen=True)
class Influence:
    """How far one dishonest person can shift the answer, in the answer's own unit.

    `up` and `down` are the largest and the smallest number that one person can add to the answer,
    compared with staying away. With several buckets, they are the numbers of the worst bucket.
    `up_against_honesty` and `down_against_honesty` are the largest average shifts up and down,
    compared with being honest. Neither is negative. If `all_at_once`, one person can shift all
    buckets by these amounts at the same time. If `any_answer`, one person can make the answer any
    number, and `up` and `down` are the largest and the smallest possible answer.

    `lost_message` is the largest shift if one message of an honest person is lost. It is infinite
    if the answer then becomes useless.

    Everybody sends `messages` messages, or a bundle of this size. The shuffler must refuse bundles
    of other sizes. Otherwise, people could send any number of messages, and their influence would
    have no bound.
    """

    up: float
    down: float
    up_against_honesty: float
    down_against_honesty: float
    all_at_once: bool
    any_answer: bool
    lost_message: float
    messages: float  # infinite if bundles are not feasible
    users: int
    standard_error: float  # the standard error of the answer for the worst data
    each_more: float  # the amount that each additional dishonest person adds to `up`

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
        """The influence of a person who sends this number of messages. If `dummies`, some may be
        dummies.
        """
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
        if not dummies and messages == 1:  # without the only message, b is lost, too
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
        """The influence of one person and of one in a hundred people, as a table."""
        rows = [
            ("one person, compared with staying away", self.up, self.down),
            (
                "one person, compared with honesty",
                self.up_against_honesty,
                -self.down_against_honesty,
            ),
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
            f"The shuffler must refuse all bundles whose size is not {self.messages:,.0f}."
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
            return "the answer becomes useless"
        return f"the answer shifts by up to {size(self.lost_message)}"

    def _repr_html_(self) -> str:
        return self.table().html()

    def __str__(self) -> str:
        if self.any_answer:
            return f"one dishonest person can make {self._any_answer}"
        everywhere = " in all buckets at once" if self.all_at_once else ""
        sent = "" if self.messages == 1 else f" with {counted_messages(self.messages)}"
        return (
            f"one dishonest person can shift the answer by {size(self.down)} to {size(self.up)}"
            f"{everywhere}{sent}"
        )


def counted_messages(messages: float) -> str:
    """A number of messages in words."""
    if math.isinf(messages):
        return "any number of messages"
    return counted(int(messages), "message")
