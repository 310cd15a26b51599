"""Boxes that people tick, in local trust: each person's ticks are filled up to k values, and the
person reports a random set of values (PrivSet: Wang, Huang, Nie, Wang, Xu, Yang 2018).

Notation    There are m boxes, and each person ticks at most k of them. There are d = m + k values:
            the boxes and k fillers. x is a person's set of exactly k values: the ticked boxes, and
            as many of the first fillers as are missing. w is the size of reports, and i is the
            number of values of x in a report. n is the number of people, and c of them ticked a
            given box.
Randomizer  Report a set of w values. There are C(k,i)·C(m,w−i) sets for each i. Each set with i > 0
            is about e^ε times as likely as each set with i = 0. The probability of each i is
            t_i/2^64 with t_i = ⌊2^64·C(k,i)·C(m,w−i)·e^ε/((C(d,w) − C(m,w))·e^ε + C(m,w))⌋ for
            i > 0, and t_0 is the rest. All sets with the same i are equally likely.
Analyzer    A report supports the boxes in it. It supports a ticked box with probability p = E(i)/k,
            and another box with probability q = (w − E(i))/m. If N reports support a box,
            (N − nq)/(p − q) estimates the number of people who ticked it.
Privacy     Pure: a set with i > 0 is at most e^ε times as likely as one with i = 0, since t_i is
            rounded down for i > 0. Ratios near e^ε occur between two people without a common value,
            since a report may then have i > 0 for one of them, and i = 0 for the other.
Error       Unbiased. The variance is (cp(1−p) + (n−c)q(1−q))/(p−q)². w minimizes the larger of the
            variances for c = 0 and for c = n. Intervals are computed from the exact law of N. If
            people instead drew one of their k values and reported it with a histogram protocol, the
            variance would be k² times that of the histogram protocol, and thus much larger.
Messages    1 message of d bits.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.divergence import PairCurve
from headcount.accounting.laws import ROUNDING, Law
from headcount.core.budget import Trust
from headcount.core.cached import cached_property
from headcount.core.decimal_digits import decimal_digits
from headcount.core.errors import InvalidValue
from headcount.core.estimate import Answer
from headcount.core.estimator import Estimator
from headcount.core.guarantee import Guarantee
from headcount.core.influence import Shifts
from headcount.core.lattice import Reports
from headcount.core.messages import Alphabet, Messages
from headcount.core.promise import promise_alone
from headcount.core.protocol import Protocol
from headcount.core.randomizer import MOST_BUNDLES, BundleLaw, Randomizer
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Holding, Task
from headcount.core.tasks.boxes import Boxes, box_counts
from headcount.protocols import packed_bits
from headcount.protocols.frequency_oracle import MOST_DRAWS, Support, SupportError
from headcount.protocols.responses import ratio_epsilon
from headcount.randomness.draws import WHOLE, uniform
from headcount.randomness.table import ThresholdTable
from headcount.randomness.totals import binomial, multinomial

_PEOPLE = 1 << 16  # the number of people whose reports are made at a time


@dataclass(frozen=True)
class SetLaw:
    """The law of reports, which are sets of w values."""

    boxes: int  # m
    ticks: int  # k
    size: int  # w
    weights: tuple[int, ...]  # t_0, t_1, …

    @property
    def values(self) -> int:
        return self.boxes + self.ticks

    def sets(self, common: int) -> int:
        """The number of sets with i values of x."""
        return math.comb(self.ticks, common) * math.comb(self.boxes, self.size - common)

    def chance(self, common: int) -> Fraction:
        """The probability of one set with i values of x."""
        return Fraction(self.weights[common], WHOLE * self.sets(common))

    @property
    def support(self) -> Support:
        common = sum(Fraction(i * weight, WHOLE) for i, weight in enumerate(self.weights))
        own, other = common / self.ticks, (self.size - common) / self.boxes
        # The s and r of `frequency_oracle` have no fixed value, because they depend on how people
        # combine ticks. They are not used.
        none = Fraction(0)
        return Support(Fraction(own), Fraction(other), none, none)


def set_law(boxes: int, ticks: int, size: int, epsilon: float) -> SetLaw:
    """The law of reports with sets of this size."""
    most = min(ticks, size)
    sets = [math.comb(ticks, i) * math.comb(boxes, size - i) for i in range(most + 1)]
    with decimal_digits(100):
        factor = Decimal(min(epsilon, 700.0)).exp()
        total = sum(sets[1:]) * factor + sets[0]
        shares = [WHOLE * number * factor / total - Decimal("1e-30") for number in sets[1:]]
        weights = [max(0, int(one.to_integral_value(ROUND_FLOOR))) for one in shares]
    return SetLaw(boxes, ticks, size, (WHOLE - sum(weights), *weights))


@lru_cache(maxsize=512)
def best_law(boxes: int, ticks: int, epsilon: float) -> SetLaw:
    """The law with the smallest error for the worst data.

    For a tiny ε, rounded probabilities may lead to p ≤ q for large sets. Such sets are left out.
    For sets of one value, p > q always holds.
    """
    laws = [set_law(boxes, ticks, size, epsilon) for size in range(1, boxes + 1)]
    telling = [law for law in laws if law.support.slope > 0]

    def variance(law: SetLaw) -> float:
        return max(law.support.variances) / float(law.support.slope) ** 2

    return min(telling, key=variance)


# Randomizer -----------------------------------------------------------------------------------


def filled(codes: NDArray[Any], boxes: int, ticks: int) -> NDArray[np.bool_]:
    """Each person's k values, as a row of d bits."""
    places = np.arange(boxes, dtype=np.uint64)
    ticked = ((codes.astype(np.uint64)[:, None] >> places) & np.uint64(1)).astype(np.bool_)
    fillers = np.arange(ticks) < ticks - ticked.sum(axis=1)[:, None]
    return np.concatenate([ticked, fillers], axis=1)


@dataclass(frozen=True)
class SetRandomizer(Randomizer):
    """Sends a random set of values."""

    reports: SetLaw

    fixed_messages = 1

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet.packed(self.reports.values)

    @property
    def instructions(self) -> Mapping[str, Any]:
        return {
            "kind": "filled-set",
            "boxes": self.reports.boxes,
            "ticks": self.reports.ticks,
            "size": self.reports.size,
            "weights": [str(weight) for weight in self.reports.weights],
        }

    @cached_property
    def _table(self) -> ThresholdTable:
        return ThresholdTable(self.reports.weights)

    def send(self, encoded: NDArray[Any], source: Source) -> Messages:
        parts = [
            self._sent(encoded[start : start + _PEOPLE], source)
            for start in range(0, len(encoded), _PEOPLE)
        ]
        return Messages.one_each(packed_bits.as_payload(np.concatenate(parts)))

    def _sent(self, encoded: NDArray[Any], source: Source) -> NDArray[np.uint8]:
        boxes, ticks, size = self.reports.boxes, self.reports.ticks, self.reports.size
        own = filled(encoded, boxes, ticks)
        common = self._table.sample(source, len(encoded))
        inside = _chosen(common, ticks, source)
        outside = _chosen(size - common, boxes, source)
        # The r-th own value is in the report if the r-th bit of `inside` is set. In the same way,
        # `outside` decides about the other values.
        place = np.maximum(np.cumsum(own, axis=1) - 1, 0)
        other = np.maximum(np.cumsum(~own, axis=1) - 1, 0)
        bits = np.where(
            own,
            np.take_along_axis(inside, place, axis=1),
            np.take_along_axis(outside, other, axis=1),
        )
        return np.packbits(bits, axis=1, bitorder="little")

    def law(self, value: int) -> BundleLaw | None:
        values, size = self.reports.values, self.reports.size
        if math.comb(values, size) > MOST_BUNDLES:
            return None
        own = filled(np.array([value]), self.reports.boxes, self.reports.ticks)[0]
        out: dict[Any, Fraction] = {}
        for members in combinations(range(values), size):
            bits = np.isin(np.arange(values), members)
            out[((packed_bits.message(bits), 1),)] = self.reports.chance(int(bits[own].sum()))
        return {bundle: chance for bundle, chance in out.items() if chance}


def _chosen(sizes: NDArray[np.int64], among: int, source: Source) -> NDArray[np.bool_]:
    """For each of `sizes`, a uniform set of this size out of `among` elements, as a row of bits."""
    rows, left = np.empty((len(sizes), among), dtype=np.bool_), sizes.copy()
    for place in range(among):
        rows[:, place] = uniform(source, len(sizes), among - place, np.uint8) < left
        left -= rows[:, place]
    return rows


# Analyzer and its error -----------------------------------------------------------------------


@dataclass(frozen=True)
class SetError:
    """The error of each box, from the exact law of the number of reports that support it."""

    law: SupportError
    # The margins for each confidence, which are kept because intervals of shares need them often.
    _known: dict[float, tuple[Answer, Answer]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def standard_error(self) -> Answer:
        return self.law.standard_error

    def margins(self, confidence: float) -> tuple[Answer, Answer]:
        if confidence not in self._known:
            self._known[confidence] = self.law.margins(confidence)
        return self._known[confidence]

    def reports(self) -> Reports:
        return self.law.reports()


@dataclass(frozen=True)
class SetEstimator(Estimator):
    """Counts the reports that support each box, subtracts their expected number, and rescales."""

    task: Boxes
    reports: SetLaw

    @property
    def tally_size(self) -> int:
        return len(self.task.labels)

    @cached_property
    def support(self) -> Support:
        return self.reports.support

    def count(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        rows = packed_bits.as_rows(payload, self.reports.values)
        sizes, wanted = packed_bits.row_sums(rows), self.reports.size
        if (sizes != wanted).any():
            raise InvalidValue(
                f"messages of local.padded-boxes must be sets of {wanted} values, "
                f"got sets of {sizes.min()} to {sizes.max()} values"
            )
        return packed_bits.column_sums(rows, self.reports.values)[: self.tally_size]

    @cached_property
    def _rows(self) -> NDArray[np.bool_] | None:
        """All sets, as rows of bits. None if there are too many."""
        values, size = self.reports.values, self.reports.size
        if values * math.comb(values, size) > MOST_DRAWS:
            return None
        every = combinations(range(values), size)
        return np.array([np.isin(np.arange(values), members) for members in every])

    @property
    def simulates_exactly(self) -> bool:
        return self._rows is not None

    def simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        """The simulated number of reports that support each box.

        If there are few sets, the number of reports of each set is drawn. Otherwise, the number for
        each box is drawn from its own law, independently of the other boxes.
        """
        if self._rows is None:
            counts = box_counts(held.values, self.tally_size, held.counts).tolist()
            own, other = self.support.own, self.support.other
            drawn = [
                binomial(source, count, own) + binomial(source, held.users - count, other)
                for count in counts
            ]
            return np.concatenate(drawn)
        supported = np.zeros(self.reports.values, dtype=np.int64)
        own_values = filled(held.values, self.reports.boxes, self.reports.ticks)
        for own, people in zip(own_values, held.counts.tolist(), strict=True):
            common = self._rows[:, own].sum(axis=1)
            kinds = multinomial(source, people, self.reports.weights)
            for i, some in enumerate(kinds.tolist()):
                alike = self._rows[common == i]
                if some:
                    supported += multinomial(source, some, [1] * len(alike)) @ alike
        return supported[: self.tally_size]

    def unbiased(self, tally: Tally, source: Source | None = None) -> Answer:
        expected = float(tally.users * self.support.other)
        return (tally.counts - expected) / float(self.support.slope)

    def shifts(self, users: int, alphabet: Alphabet) -> Shifts:
        slope, boxes, size = self.support.slope, self.tally_size, self.reports.size
        return Shifts(
            most=float(1 / slope),
            least=0.0,
            person=float(-self.support.other / slope),
            places=(max(0, size - self.reports.ticks), min(size, boxes)),
            everywhere=1 < boxes <= size,
        )

    def standard_error(self, users: int, held: Holding | None) -> float:
        # The variance is linear in the count, so it is largest at 0 or at n.
        counts = np.array([0, users])
        if held is not None:
            counts = box_counts(held.values, self.tally_size, held.counts)
        return float(np.max(self.error_law(users, counts.astype(np.float64)).standard_error))

    def error_law(self, users: int, unbiased: Answer) -> SetError:
        return SetError(SupportError(users, self.support, unbiased))


# Calibration and privacy ----------------------------------------------------------------------


@dataclass(frozen=True)
class PaddedBoxes(Protocol):
    name = "local.padded-boxes"
    trust = Trust.LOCAL
    tasks: ClassVar[tuple[type[Task], ...]] = (Boxes,)

    task: Boxes

    @cached_property
    def reports(self) -> SetLaw:
        """The law of reports."""
        return best_law(len(self.task.labels), self.task.at_most, self.budget.epsilon)

    @cached_property
    def randomizer(self) -> SetRandomizer:
        return SetRandomizer(self.reports)

    @cached_property
    def estimator(self) -> SetEstimator:
        return SetEstimator(self.task, self.reports)

    @property
    def parameters(self) -> Mapping[str, float]:
        support = self.estimator.support
        return {"size": self.reports.size, "p": float(support.own), "q": float(support.other)}

    @cached_property
    def curve(self) -> PairCurve:
        """The privacy curve for two people whose sets x have no common value. Reports are grouped
        by how many values of each set they contain.
        """
        law, groups = self.reports, []
        for one, two in np.ndindex(len(law.weights), len(law.weights)):
            rest = law.size - one - two
            if 0 <= rest <= law.boxes - law.ticks:
                sets = math.comb(law.ticks, one) * math.comb(law.ticks, two)
                sets *= math.comb(law.boxes - law.ticks, rest)
                groups.append((float(sets * law.chance(one)), float(sets * law.chance(two))))
        laws = (Law(0, np.array(mass), ROUNDING) for mass in zip(*groups, strict=True))
        return PairCurve.both_directions(*laws)

    @property
    def guarantee(self) -> Guarantee:
        return promise_alone(self)

    @property
    def local_epsilon(self) -> float:
        chances = [self.reports.chance(i) for i in range(len(self.reports.weights))]
        return ratio_epsilon(max(chances[1:]) / chances[0] - 1)
