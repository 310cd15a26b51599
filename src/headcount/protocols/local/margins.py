"""The totals of a table's rows and columns in local trust. In one protocol, each person answers
about rows or about columns. In the other, each person answers about cells, which are then added up.

The response about cells is that of Warner 1965 and Kairouz, Bonawitz, Ramage 2016. The sets of rows
or columns are those of Ye, Barg 2018.

Notation    There are n people, each in one cell of a table with d rows and e columns. A side of the
            table is all its rows, or all its columns. So k, the size of a side, is d or e. A bucket
            is a row, a column or a cell. p is the probability that a report supports its owner's
            bucket, and q is the probability that it supports a given other bucket (see
            `frequency_oracle`).
Randomizer  `local.margins`: draw rows or columns by a fair coin. Send the coin, and a set of rows,
            or of columns, as in `local.subset`. Devices draw the coin, so nobody has to assign the
            question. The coin does not depend on the value. `local.summed-cells`: send one
            cell, as in `local.k-ary`.
Analyzer    `local.margins`: if m people answer about rows, and N of their reports support a row,
            the total of this row is estimated by n/k + 2((N − mq)/(p − q) − m/k). Columns are
            treated in the same way. `local.summed-cells`: the estimate of a total is the sum of the
            estimated cells.
Privacy     Pure: each report is ε'-private with ε' ≤ ε. The coin is public. People who answer about
            the other side hide nobody, so no amplification by sampling is claimed.
Error       Unbiased. `local.margins`: people are independent. A person adds the variance
            2p(1−p)/(p−q)² + (1 − 1/k)² to the total of their own row, and 2q(1−q)/(p−q)² + 1/k² to
            the total of each other row. The terms (1 − 1/k)² and 1/k² come from the coins, since
            only about half of the crowd answers about rows. Intervals are those of
            `sampled_groups`. `local.summed-cells`: a report names a cell of its owner's row with
            probability p + (e−1)q, and a cell of a given other row with probability eq. So the
            error is that of an oracle with these probabilities. This error is smaller than that of
            `local.margins` if ε is above about 3, or above 1.3 for 2 rows and 2 columns. With an
            oracle that sends a bit for each cell, the variance of a row's total would be e times
            that of a cell.
Messages    1 message.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.divergence import PairCurve
from headcount.accounting.laws import ROUNDING, Law
from headcount.core.budget import Trust
from headcount.core.cached import cached_property
from headcount.core.estimate import Answer, ErrorLaw
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
from headcount.core.tasks.margins import Margins
from headcount.protocols import packed_bits
from headcount.protocols.frequency_oracle import FrequencyOracle, Support, SupportError
from headcount.protocols.local.k_ary import KAry, KAryEstimator
from headcount.protocols.local.subset import Subset, SubsetEstimator, SubsetRandomizer
from headcount.protocols.responses import KAryRandomizer
from headcount.protocols.sampled_groups import mean_margin
from headcount.randomness.draws import uniform
from headcount.randomness.totals import binomial, groups

_STEPS = 12  # steps of the search for the end of an interval; each at least halves the error


# Randomizer -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class OneSideRandomizer(Randomizer):
    """Sends 0 and a set of rows, or 1 and a set of columns.

    All messages have the same number of bits. Bits that a side does not need are 0.
    """

    sides: tuple[SubsetRandomizer, SubsetRandomizer]

    fixed_messages = 1

    @property
    def _most(self) -> int:
        return max(side.buckets for side in self.sides)

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet(np.uint8, range(2), *Alphabet.packed(self._most).columns)

    def _own(self, encoded: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """The row and the column of each cell."""
        rows, columns = np.divmod(encoded.astype(np.int64), self.sides[1].buckets)
        return rows, columns

    def send(self, encoded: NDArray[Any], source: Source) -> Messages:
        coins = uniform(source, len(encoded), 2, np.uint8)
        reports = np.zeros((len(encoded), len(self.alphabet.columns)), dtype=np.uint8)
        reports[:, 0] = coins
        for coin, (side, own) in enumerate(zip(self.sides, self._own(encoded), strict=True)):
            people = np.flatnonzero(coins == coin)
            if not len(people):
                continue
            sets = packed_bits.as_rows(side.send(own[people], source).payload, side.buckets)
            reports[people, 1 : 1 + sets.shape[1]] = sets
        return Messages.one_each(reports)

    def law(self, value: int) -> BundleLaw | None:
        out: dict[Any, Fraction] = {}
        width = packed_bits.row_bytes(self._most)
        for coin, (side, own) in enumerate(
            zip(self.sides, self._own(np.array([value])), strict=True)
        ):
            found = side.law(int(own[0]))
            if found is None or len(out) + len(found) > MOST_BUNDLES:
                return None
            for ((message, _),), chance in found.items():
                bits = message if isinstance(message, tuple) else (message,)
                out[(((coin, *bits, *[0] * (width - len(bits))), 1),)] = chance / 2
        return out


# Analyzers and their errors -------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SidesError:
    """The errors of the totals of all rows, and then of all columns."""

    sides: tuple[ErrorLaw, ErrorLaw]

    @property
    def standard_error(self) -> Answer:
        return np.concatenate([np.atleast_1d(side.standard_error) for side in self.sides])

    def margins(self, confidence: float) -> tuple[Answer, Answer]:
        below, above = zip(*(side.margins(confidence) for side in self.sides), strict=True)
        return np.concatenate(below), np.concatenate(above)


@dataclass(frozen=True, eq=False)
class AskedError:
    """The error of the totals of one side. About half of the people answer about this side."""

    users: int
    support: Support
    share: float  # 1/k
    value: NDArray[np.float64]

    @property
    def _variances(self) -> tuple[float, float]:
        """The variances that a person adds to the total of their own bucket and of another."""
        own, other = (2 * v / float(self.support.slope) ** 2 for v in self.support.variances)
        return own + (1 - self.share) ** 2, other + self.share**2

    def _mean_variances(self, totals: NDArray[np.float64]) -> NDArray[np.float64]:
        """The variance of a person, averaged over people, if these are the true totals."""
        own, other = self._variances
        return other + np.clip(totals / self.users, 0, 1) * (own - other)

    @property
    def standard_error(self) -> Answer:
        return np.sqrt(self.users * self._mean_variances(self.value))

    @property
    def _width(self) -> float:
        """The most by which one person's part of an estimated total can differ from its mean."""
        slope, q = float(self.support.slope), float(self.support.other)
        ends = (2 * (1 - q) / slope - self.share, -2 * q / slope - self.share)
        return max(abs(end - held) for end in ends for held in (0, 1))

    def margins(self, confidence: float) -> tuple[Answer, Answer]:
        return self._margin(confidence, 1), self._margin(confidence, -1)

    def _margin(self, confidence: float, sign: int) -> NDArray[np.float64]:
        """The margin above the estimate (sign 1), or below it (sign −1).

        The margin is computed for a crowd whose true total is the end of the interval. This fixes
        the variance, so that a small crowd does not need the largest variance of all crowds.
        """
        margin = np.zeros(len(self.value))
        for _ in range(_STEPS):
            variances = self._mean_variances(self.value + sign * margin)
            margin = self.users * mean_margin(
                self.users,
                groups=2,
                variances=variances,
                worst=variances,
                width=self._width,
                confidence=confidence,
            )
        return margin


@dataclass(frozen=True)
class TotalsEstimator(Estimator):
    """An analyzer of totals. A subclass states the errors of rows and of columns."""

    task: Margins

    @abstractmethod
    def side_errors(self, users: int, totals: tuple[Answer, Answer]) -> tuple[ErrorLaw, ErrorLaw]:
        """The errors of these totals of rows and of these totals of columns."""

    def error_law(self, users: int, unbiased: Answer) -> SidesError:
        rows, columns = np.split(np.asarray(unbiased), [self.task.shape[0]])
        return SidesError(self.side_errors(users, (rows, columns)))

    def standard_error(self, users: int, held: Holding | None) -> float:
        # The variance is linear in the total, so it is largest at 0 or at n.
        if held is not None:
            return float(np.max(self.error_law(users, self.task.answer(held)).standard_error))
        ends = np.array([0.0, users])
        return float(np.max(SidesError(self.side_errors(users, (ends, ends))).standard_error))

    def extremes(self, users: int, confidence: float) -> Iterable[Answer]:
        for values in super().extremes(users, confidence):
            for value in np.asarray(values):
                yield np.full(sum(self.task.shape), value)


@dataclass(frozen=True)
class OneSideEstimator(TotalsEstimator):
    """Estimates each side from the reports about this side.

    A tally has the number of reports that support each row, and then each column. The last number
    is how many people answer about rows.
    """

    sides: tuple[SubsetEstimator, SubsetEstimator]

    @property
    def tally_size(self) -> int:
        return sum(self.task.shape) + 1

    def count(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        found = []
        for coin, (side, buckets) in enumerate(zip(self.sides, self.task.shape, strict=True)):
            width = packed_bits.row_bytes(buckets)
            sets = payload[payload[:, 0] == coin, 1 : 1 + width]
            found.append(side.count(packed_bits.as_payload(sets)))
        return np.concatenate([*found, [np.count_nonzero(payload[:, 0] == 0)]])

    @property
    def simulates_exactly(self) -> bool:
        return all(side.simulates_exactly for side in self.sides)

    def simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        asked = np.zeros(self.task.domain, dtype=np.int64)  # people who answer about rows
        for number, alike in groups(held.counts):
            asked[alike] = binomial(source, number, Fraction(1, 2), len(alike))
        found = []
        for axis, (side, cells) in enumerate(
            zip(self.sides, (asked, held.counts - asked), strict=True)
        ):
            totals = cells.reshape(self.task.shape).sum(axis=1 - axis)
            found.append(side.simulate(Holding(np.arange(len(totals)), totals), source))
        return np.concatenate([*found, [int(asked.sum())]])

    def unbiased(self, tally: Tally, source: Source | None = None) -> Answer:
        rows, columns, asked = np.split(tally.counts, np.cumsum(self.task.shape))
        numbers = (int(asked[0]), tally.users - int(asked[0]))
        return np.concatenate(
            [
                self._totals(side, supports, number, tally.users)
                for side, supports, number in zip(self.sides, (rows, columns), numbers, strict=True)
            ]
        )

    def _totals(
        self, side: SubsetEstimator, supports: NDArray[np.int64], asked: int, users: int
    ) -> NDArray[np.float64]:
        """The estimated totals n/k + 2((N − mq)/(p − q) − m/k)."""
        among, support = side.task.domain, side.support
        answered = (supports - float(asked * support.other)) / float(support.slope)
        return np.asarray(users / among + 2 * (answered - asked / among), dtype=np.float64)

    def shifts(self, users: int, alphabet: Alphabet) -> Shifts:
        most, least, person = [], [], []
        for side, buckets in zip(self.sides, self.task.shape, strict=True):
            # A message about the other side adds nothing.
            gain, loss = (
                float(2 * ((held - side.support.other) / side.support.slope - Fraction(1, buckets)))
                for held in (1, 0)
            )
            most.append(np.full(buckets, max(gain, 0.0)))
            least.append(np.full(buckets, min(loss, 0.0)))
            person.append(np.full(buckets, 1 / buckets))
        sizes = [side.size for side in self.sides]
        return Shifts(
            most=np.concatenate(most),
            least=np.concatenate(least),
            person=np.concatenate(person),
            places=(min(sizes), max(sizes)),
        )

    def side_errors(self, users: int, totals: tuple[Answer, Answer]) -> tuple[ErrorLaw, ErrorLaw]:
        rows, columns = (
            AskedError(users, side.support, 1 / side.task.domain, np.asarray(value))
            for side, value in zip(self.sides, totals, strict=True)
        )
        return rows, columns


@dataclass(frozen=True)
class SummedCellsEstimator(TotalsEstimator):
    """Adds up the estimated cells of every row and column."""

    cells: KAryEstimator

    @property
    def tally_size(self) -> int:
        return self.cells.tally_size

    def simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        return self.cells.simulate(held, source)

    def unbiased(self, tally: Tally, source: Source | None = None) -> Answer:
        totals: Answer = self.task.totals(np.asarray(self.cells.unbiased(tally)))
        return totals

    def shifts(self, users: int, alphabet: Alphabet) -> Shifts:
        # A report names a cell, so it supports one row and one column.
        slope, q = self.cells.support.slope, self.cells.support.other
        person = np.repeat([float(-q * cells / slope) for cells in self._across], self.task.shape)
        return Shifts(most=float(1 / slope), least=0.0, person=person, places=(2, 2))

    @property
    def _across(self) -> tuple[int, int]:
        """The number of cells in a row, and in a column."""
        rows, columns = self.task.shape
        return columns, rows

    def side_errors(self, users: int, totals: tuple[Answer, Answer]) -> tuple[ErrorLaw, ErrorLaw]:
        p, q, none = self.cells.support.own, self.cells.support.other, Fraction(0)
        rows, columns = (
            SupportError(users, Support(p + (cells - 1) * q, cells * q, none, none), value)
            for cells, value in zip(self._across, totals, strict=True)
        )
        return rows, columns


# Calibration and privacy ----------------------------------------------------------------------


@dataclass(frozen=True)
class LocalMargins(Protocol):
    name = "local.margins"
    trust = Trust.LOCAL
    tasks: ClassVar[tuple[type[Task], ...]] = (Margins,)

    task: Margins

    @cached_property
    def oracles(self) -> tuple[Subset, Subset]:
        """The oracles that answer about rows and about columns."""
        rows, columns = (Subset(side, self.budget, self.crowd) for side in self.task.sides)
        return rows, columns

    @cached_property
    def randomizer(self) -> OneSideRandomizer:
        rows, columns = (oracle.randomizer for oracle in self.oracles)
        return OneSideRandomizer((rows, columns))

    @cached_property
    def estimator(self) -> OneSideEstimator:
        rows, columns = (oracle.estimator for oracle in self.oracles)
        return OneSideEstimator(self.task, (rows, columns))

    @property
    def parameters(self) -> Mapping[str, float]:
        rows, columns = self.oracles
        return {"rows_size": rows.size, "columns_size": columns.size}

    @cached_property
    def curve(self) -> PairCurve:
        """The curve for a person whose row and column both change. A report is about only one."""
        one: list[float] = []
        two: list[float] = []
        for oracle in self.oracles:
            own, other, *same = (float(chance / 2) for chance in oracle.support.cells)
            rest = [chance for chance in same if chance]
            one += [own, other, *rest]
            two += [other, own, *rest]
        return PairCurve.both_directions(*(Law(0, np.array(law), ROUNDING) for law in (one, two)))

    @property
    def guarantee(self) -> Guarantee:
        return promise_alone(self)

    @property
    def local_epsilon(self) -> float:
        return max(oracle.local_epsilon for oracle in self.oracles)


@dataclass(frozen=True)
class LocalSummedCells(FrequencyOracle):
    name = "local.summed-cells"
    tasks: ClassVar[tuple[type[Task], ...]] = (Margins,)

    task: Margins

    @cached_property
    def cells(self) -> KAry:
        """The oracle that answers about cells."""
        return KAry(self.task.table, self.budget, self.crowd)

    @property
    def support(self) -> Support:
        return self.cells.support

    @property
    def randomizer(self) -> KAryRandomizer:
        return self.cells.randomizer

    @cached_property
    def estimator(self) -> SummedCellsEstimator:
        return SummedCellsEstimator(self.task, self.cells.estimator)

    @property
    def parameters(self) -> Mapping[str, float]:
        return self.cells.parameters
