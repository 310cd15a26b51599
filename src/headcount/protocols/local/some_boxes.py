"""Boxes that people tick, in local trust: each person gives a randomized answer about a few boxes.

Responses are those of Warner 1965 and of Kairouz, Bonawitz, Ramage 2016.

Notation    There are m boxes, and n people. Each person answers about s boxes. There are D = 2^s
            combinations of ticks in s boxes. q is the probability of each false combination, and
            Q = qD/2 is the probability that the answer about one box is false. Let g = 1 − 2Q.
Randomizer  Draw a uniform box j. The person answers about the s boxes j, j+1, … (after the last
            box comes the first one). Report j and a combination of ticks in these boxes. Report
            each false combination with probability q, and otherwise the true one. Devices draw the
            box, so nobody has to assign it. The box does not depend on the value.
Analyzer    If y reports say that a box is ticked, and z reports say that it is not, the number of
            people who ticked the box is estimated by n/2 + (m/s)·(y − z)/(2g).
Privacy     Pure: the probabilities of a report for two values have a ratio of at most
            (1 − (D−1)q)/q ≤ e^ε. The box j is public. So nobody is hidden by people who answer
            about other boxes, and no amplification by sampling is claimed.
Error       Unbiased. The variance is n·((m/s)/(4g²) − ¼) for all data. It includes the variance
            from the random choice of boxes, since not everybody answers about each box. Without the
            option `boxes_each`, s minimizes this variance, and s = 1 for a small ε. Intervals treat
            the error as normal if 50 people or more answer about each box. In smaller crowds, they
            use Bernstein's inequality.
Messages    1 message, with a box and s bits.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.divergence import PairCurve
from headcount.core import checks
from headcount.core.budget import Trust
from headcount.core.cached import cached_property
from headcount.core.estimate import Answer
from headcount.core.estimator import Estimator
from headcount.core.guarantee import Guarantee
from headcount.core.influence import Shifts
from headcount.core.messages import Alphabet, Messages
from headcount.core.promise import promise_alone
from headcount.core.protocol import Protocol
from headcount.core.randomizer import MOST_BUNDLES, BundleLaw, Randomizer
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Holding, Task
from headcount.core.tasks.boxes import Boxes
from headcount.protocols.responses import (
    lie_weight,
    ratio_epsilon,
    respond,
    responded,
    response_curve,
)
from headcount.randomness.draws import WHOLE, uniform
from headcount.randomness.totals import multinomial

MOST_EACH = 8  # the largest number of boxes about which a person answers
_MANY = 50  # with this many people per box or more, the error is treated as normal


def blocks(codes: NDArray[Any], firsts: NDArray[Any], boxes: int, each: int) -> NDArray[np.int64]:
    """Each person's ticks in `each` consecutive boxes, as the bits of a number.

    `firsts` has the first of these boxes for each person.
    """
    numbers = codes.astype(np.uint64)
    found = np.zeros(len(numbers), dtype=np.int64)
    for place in range(each):
        box = ((firsts.astype(np.int64) + place) % boxes).astype(np.uint64)
        found |= ((numbers >> box) & np.uint64(1)).astype(np.int64) << place
    return found


# Randomizer -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class BlockRandomizer(Randomizer):
    """Sends a uniform box, and a response about this box and the boxes after it."""

    boxes: int  # m
    each: int  # s
    weight: int  # q·2^64
    first: int | None = None  # the first box, if a device has already drawn it

    fixed_messages = 1

    def drawn(self, source: Source) -> "BlockRandomizer":
        """A randomizer for one person, whose boxes are drawn now."""
        return replace(self, first=int(uniform(source, 1, self.boxes, np.uint8)[0]))

    @property
    def asked(self) -> tuple[int, ...]:
        """The boxes about which a person answers, or all boxes if they have not been drawn yet."""
        start = 0 if self.first is None else self.first
        count = self.boxes if self.first is None else min(self.each, self.boxes)
        return tuple(sorted((start + place) % self.boxes for place in range(count)))

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet(np.uint8, range(self.boxes), range(1 << self.each))

    @property
    def instructions(self) -> Mapping[str, Any]:
        return {
            "kind": "blocks",
            "boxes": self.boxes,
            "each": self.each,
            "weight": str(self.weight),
        }

    def send(self, encoded: NDArray[Any], source: Source) -> Messages:
        if self.first is None:
            firsts = uniform(source, len(encoded), self.boxes, np.uint8)
        else:
            firsts = np.full(len(encoded), self.first, dtype=np.uint8)
        ticks = blocks(encoded, firsts, self.boxes, self.each)
        reports = respond(ticks.astype(np.uint8), 1 << self.each, self.weight, source)
        return Messages.one_each(np.stack([firsts, reports.astype(np.uint8)], axis=1))

    def law(self, value: int) -> BundleLaw | None:
        among = 1 << self.each
        if self.boxes * among > MOST_BUNDLES:
            return None
        lie = Fraction(self.weight, WHOLE)
        out: dict[Any, Fraction] = {}
        firsts = range(self.boxes) if self.first is None else (self.first,)
        for first in firsts:
            own = int(blocks(np.array([value]), np.array([first]), self.boxes, self.each)[0])
            for ticks in range(among):
                chance = 1 - (among - 1) * lie if ticks == own else lie
                out[(((first, ticks), 1),)] = chance / len(firsts)
        return out


# Analyzer and its error -----------------------------------------------------------------------


@dataclass(frozen=True)
class BlockError:
    """The error of one box. Each report about it shifts the estimate by `reach`, up or down."""

    users: int
    asked: float  # s/m
    reach: float  # (m/s)/(2g)

    @property
    def standard_error(self) -> float:
        return math.sqrt(self.users * (self.asked * self.reach**2 - 0.25))

    def margins(self, confidence: float) -> tuple[float, float]:
        if self.users * self.asked >= _MANY:
            deviations = -NormalDist().inv_cdf((1 - confidence) / 2)
            margin = deviations * self.standard_error + self.reach / 2
        else:
            # Bernstein: P(error > x) ≤ exp(−x²/(2(variance + width·x/3))). Here the width is
            # `reach` + ½.
            log = math.log(2 / (1 - confidence))
            third = log * (self.reach + 0.5) / 3
            margin = third + math.sqrt(third**2 + 2 * log * self.standard_error**2)
        return margin, margin


@dataclass(frozen=True)
class BlockEstimator(Estimator):
    """Computes n/2 + (m/s)·(y − z)/(2g) for each box.

    A tally has the number y of reports with a tick for each box, and then the number z of reports
    without a tick for each box.
    """

    task: Boxes
    each: int
    lie: Fraction  # q

    @property
    def _boxes(self) -> int:
        return len(self.task.labels)

    @property
    def tally_size(self) -> int:
        return 2 * self._boxes

    @property
    def _reach(self) -> float:
        gap = 1 - 2 * self.lie * (1 << (self.each - 1))
        return float(Fraction(self._boxes, self.each) / (2 * gap))

    def count(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        size = self._boxes << self.each
        numbers = payload[:, 0].astype(np.int64) << self.each | payload[:, 1]
        return self._from_reports(np.bincount(numbers, minlength=size))

    def _from_reports(self, reports: NDArray[Any]) -> NDArray[np.int64]:
        """The tally, where reports[j·2^s + ticks] is the number of reports of box j and `ticks`."""
        table = reports.reshape(self._boxes, -1)
        combinations = np.arange(table.shape[1])
        counts = np.zeros((2, self._boxes), dtype=np.int64)
        for place in range(self.each):
            ticked = (combinations >> place & 1).astype(np.int64)
            for row, chosen in ((0, ticked), (1, 1 - ticked)):
                counts[row] += np.roll(table @ chosen, place)
        return counts.reshape(-1)

    def simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        asking = np.zeros((self._boxes, 1 << self.each), dtype=np.int64)
        firsts = np.arange(self._boxes)
        for value, people in zip(held.values.tolist(), held.counts.tolist(), strict=True):
            if people:
                of_first = multinomial(source, people, [1] * self._boxes)
                codes = np.full(self._boxes, value, dtype=np.uint64)
                asking[firsts, blocks(codes, firsts, self._boxes, self.each)] += of_first
        reports = np.stack([responded(row, self.lie, source) for row in asking])
        return self._from_reports(reports.reshape(-1))

    def unbiased(self, tally: Tally, source: Source | None = None) -> Answer:
        ticked, other = tally.counts.reshape(2, -1)
        return tally.users / 2 + self._reach * (ticked - other)

    def shifts(self, users: int, alphabet: Alphabet) -> Shifts:
        everywhere = 1 < self._boxes == self.each
        reach = self._reach
        return Shifts(
            most=reach, least=-reach, person=0.5, places=(0, self.each), everywhere=everywhere
        )

    def standard_error(self, users: int, held: Holding | None) -> float:
        return self.error_law(users, None).standard_error

    def error_law(self, users: int, unbiased: Answer) -> BlockError:
        return BlockError(users, self.each / self._boxes, self._reach)


# Calibration and privacy ----------------------------------------------------------------------


def variance(boxes: int, each: int, epsilon: float) -> float:
    """The variance per person: (m/s)/(4g²) − ¼ with g = (e^ε − 1)/(e^ε + 2^s − 1)."""
    gap = -math.expm1(-epsilon) / (1 + (2.0**each - 1) * math.exp(-epsilon))
    return boxes / each / (4 * gap**2) - 0.25


@dataclass(frozen=True)
class SomeBoxes(Protocol):
    name = "local.some-boxes"
    trust = Trust.LOCAL
    tasks: ClassVar[tuple[type[Task], ...]] = (Boxes,)

    task: Boxes
    boxes_each: int | None = None  # the number s of boxes about which a person answers

    def check_options(self) -> None:
        if self.boxes_each is not None:
            checks.whole("boxes_each", self.boxes_each, low=1, high=self._most_each)

    @property
    def _most_each(self) -> int:
        return min(len(self.task.labels), MOST_EACH)

    @cached_property
    def each(self) -> int:
        """The number s of boxes."""
        if self.boxes_each is not None:
            return int(self.boxes_each)
        boxes, epsilon = len(self.task.labels), self.budget.epsilon
        return min(range(1, self._most_each + 1), key=lambda s: variance(boxes, s, epsilon))

    @cached_property
    def randomizer(self) -> BlockRandomizer:
        weight = lie_weight(1 << self.each, self.budget.epsilon)
        return BlockRandomizer(len(self.task.labels), self.each, weight)

    @property
    def _lie(self) -> Fraction:
        return Fraction(self.randomizer.weight, WHOLE)

    @property
    def _truth(self) -> Fraction:
        return 1 - ((1 << self.each) - 1) * self._lie

    @cached_property
    def estimator(self) -> BlockEstimator:
        return BlockEstimator(self.task, self.each, self._lie)

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"boxes_each": self.each, "lie_probability": float(1 - self._truth)}

    @cached_property
    def curve(self) -> PairCurve:
        others = (1 << self.each) - 2
        return response_curve(self._truth, self._lie, others * self._lie)

    @property
    def guarantee(self) -> Guarantee:
        return promise_alone(self)

    @property
    def local_epsilon(self) -> float:
        return ratio_epsilon((self._truth - self._lie) / self._lie)
