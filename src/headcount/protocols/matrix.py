"""A local randomizer that is defined by a matrix of probabilities.

Notation    x ∈ {0, …, k−1} is a person's value, and y ∈ {0, …, m−1} is a message. R(x,y) is the
            probability that a person who holds x sends y, and μ(y) is the mean of R(x,y) over all
            x. Of n people, c(x) hold x and N(y) send y.
Randomizer  A person who holds x draws one message from row x. Probabilities are multiples of 2^−64.
            In each row, all probabilities except the largest are rounded up, and the largest gets
            the rest. The privacy loss of the rounded rows may exceed ε slightly, for example if the
            matrix has floats. In that case, a share of μ is mixed into all rows, which makes them
            more alike and so more private. The share is the smallest of 2^−60, 2^−56, …, 2^−20 that
            is enough. Messages have exactly the resulting law.
Analyzer    The estimate of c(j) is ĉ(j) = n/k + Σ a(j,y)·N(y), where the sum is over all y. This is
            the least-squares estimate with weights 1/μ(y). Let C(x,y) = (R(x,y)−μ(y))/√μ(y), and
            let C⁺ be the pseudoinverse of C. Then a(j,y) = C⁺(y,j)/√μ(y). The matrix is refused if
            the rank of C is below k−1, because different crowds would then send the same messages
            on average.
Privacy     Each message is private by itself. The guarantee is pure if no ratio R(x,y)/R(x',y)
            exceeds e^ε. Otherwise δ must be at least the largest hockey-stick divergence between
            two rows at ε.
Error       The estimate is unbiased. The variance of ĉ(j) is Σ c(x)·V(x,j), where
            V(x,j) = Σ R(x,y)·a(j,y)² − (1[x=j]−1/k)². Intervals have at least the stated coverage.
            The error is a sum of independent parts, one for each person. There are two bounds on
            its tails: Bennett's inequality, and the normal law plus the error bound of Berry and
            Esseen (constant 0.56, Shevtsova 2010). Both assume the worst values for the people
            who do not hold j, and the smaller bound is used.
Messages    Each person sends 1 of m messages.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import permutations
from numbers import Integral, Rational
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.divergence import PairCurve
from headcount.accounting.laws import ROUNDING, Law
from headcount.core import checks
from headcount.core.budget import Budget, Trust
from headcount.core.cached import cached_property
from headcount.core.decimal_digits import decimal_digits
from headcount.core.errors import Infeasible, InvalidParameter
from headcount.core.estimate import Answer
from headcount.core.estimator import Estimator
from headcount.core.guarantee import Guarantee
from headcount.core.messages import Alphabet, Messages
from headcount.core.promise import promise, promise_alone
from headcount.core.protocol import Protocol
from headcount.core.randomizer import MOST_BUNDLES, BundleLaw, Randomizer
from headcount.core.source import Source
from headcount.core.table import counted, short
from headcount.core.tally import Tally
from headcount.core.task import Holding, Task
from headcount.core.tasks.count import Count
from headcount.core.tasks.histogram import Histogram
from headcount.protocols.responses import ratio_epsilon
from headcount.randomness.draws import WHOLE
from headcount.randomness.table import ThresholdTable
from headcount.randomness.totals import multinomial

Matrix: TypeAlias = Sequence[Sequence[Any]] | NDArray[Any]
Weights: TypeAlias = tuple[tuple[int, ...], ...]  # R(x,y)·2^64
Reals: TypeAlias = NDArray[np.float64]

MOST_CELLS = 2**14  # the largest number of probabilities in a matrix
_LOOSE = Fraction(1, 2**40)  # the sum of a row of floats may differ from 1 by this much
_SHARES = [Fraction(1, 2**power) for power in range(60, 19, -4)]  # shares of μ to try
_LEAST_SIZE = 1e-7  # smaller singular values, relative to the largest, count as 0
_ESSEEN = 0.56  # the constant of Berry and Esseen
_HALVINGS = 60  # steps of a bisection


# Randomizer -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class MatrixRandomizer(Randomizer):
    """Sends one message, which is drawn from the row of the person's value."""

    weights: Weights

    fixed_messages = 1

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet.numbers(len(self.weights[0]))

    @cached_property
    def _tables(self) -> list[ThresholdTable]:
        return [ThresholdTable(row) for row in self.weights]

    def send(self, encoded: NDArray[Any], source: Source) -> Messages:
        reports = np.empty(len(encoded), dtype=self.alphabet.dtype)
        order = np.argsort(encoded, kind="stable")
        ends = np.cumsum(np.bincount(encoded, minlength=len(self.weights)))
        for table, people in zip(self._tables, np.split(order, ends[:-1]), strict=True):
            reports[people] = table.sample(source, len(people))
        return Messages.one_each(reports)

    def law(self, value: int) -> BundleLaw:
        row = self.weights[value]
        return {((y, 1),): Fraction(weight, WHOLE) for y, weight in enumerate(row) if weight}

    @property
    def local_epsilon(self) -> float:
        """The logarithm of the largest ratio of two probabilities in a column.

        It is infinite if some, but not all, probabilities in a column are 0.
        """
        ends = [(min(column), max(column)) for column in zip(*self.weights, strict=True)]
        if any(least == 0 < most for least, most in ends):
            return float("inf")
        return max(ratio_epsilon(Fraction(most - least, least)) for least, most in ends if most)

    def keeps(self, budget: Budget) -> bool:
        """Whether one message satisfies this budget."""
        with decimal_digits(60):
            most = Fraction(Decimal(budget.epsilon).exp() * (1 - Decimal("1e-50")))
        columns = zip(*self.weights, strict=True)
        if all(max(column) <= most * min(column) for column in columns):
            return True
        return budget.delta > 0 and self.curve.delta(budget.epsilon) <= budget.delta

    @cached_property
    def curve(self) -> PairCurve:
        """The privacy curve over all pairs of rows, in both directions.

        Pairs that differ only in the order of their columns have the same curve, so one is kept.
        """
        kinds = {tuple(sorted(zip(*pair, strict=True))) for pair in permutations(self.weights, 2)}
        pairs = [np.array(kind, dtype=object).T / WHOLE for kind in kinds]
        laws = [[Law(0, row.astype(np.float64), ROUNDING) for row in pair] for pair in pairs]
        return PairCurve(tuple((upper, lower) for upper, lower in laws))


def rounded(laws: Sequence[Sequence[Fraction]], share: Fraction) -> MatrixRandomizer:
    """The laws as multiples of 2^−64, after a share of their mean is mixed into each law."""
    means = [sum(column, Fraction(0)) / len(laws) for column in zip(*laws, strict=True)]
    rows = []
    for law in laws:
        # ⌈(1−share)·R + share·μ⌉, in multiples of 2^−64. The largest number gets the rest.
        chances = [p + share * (mean - p) for p, mean in zip(law, means, strict=True)]
        row = [-(-chance.numerator * WHOLE // chance.denominator) for chance in chances]
        row[row.index(max(row))] -= sum(row) - WHOLE
        rows.append(tuple(row))
    return MatrixRandomizer(tuple(rows))


def laws_of(matrix: Matrix, values: int) -> list[list[Fraction]]:
    """The rows of a matrix as exact laws, one for each value.

    Whole numbers are divided by the sum of their row, which must be the same for all rows. In each
    row, fractions must sum to 1. Floats must sum to nearly 1, and are divided by their sum.
    """
    rows = [list(row) if isinstance(row, Iterable) else [] for row in matrix]
    lengths = {len(row) for row in rows}
    if len(rows) != values or len(lengths) != 1 or not 2 <= min(lengths) <= MOST_BUNDLES:
        raise InvalidParameter(
            f"`matrix` must have a row for each of {values} values, and 2 to {MOST_BUNDLES} "
            f"probabilities in each row, got {counted(len(rows), 'row')} with "
            f"{checks.few(sorted(lengths))} probabilities"
        )
    if len(rows) * min(lengths) > MOST_CELLS:
        raise InvalidParameter(
            f"`matrix` must have at most {MOST_CELLS} probabilities, got {len(rows) * min(lengths)}"
        )
    cells = [cell for row in rows for cell in row]
    laws = [[_fraction(cell) for cell in row] for row in rows]
    sums = [sum(law, Fraction(0)) for law in laws]
    least = min(map(min, laws))
    if all(isinstance(cell, Integral) for cell in cells):
        wrong, rule = sums[0] <= 0 or min(sums) != max(sums), "rows with the same positive sum"
    elif all(isinstance(cell, Rational) for cell in cells):
        wrong, rule = any(total != 1 for total in sums), "rows that sum to 1"
    else:
        wrong, rule = any(abs(total - 1) > _LOOSE for total in sums), "rows that sum to 1"
    if wrong or least < 0:
        shown = checks.few([short(float(total)) for total in sums])
        raise InvalidParameter(
            f"`matrix` must have {rule} and no number below 0, got the sums {shown} and the "
            f"smallest number {short(float(least))}"
        )
    return [[p / total for p in law] for law, total in zip(laws, sums, strict=True)]


def _fraction(cell: Any) -> Fraction:
    if isinstance(cell, Rational):
        return Fraction(int(cell.numerator), int(cell.denominator))
    return Fraction(checks.real("matrix", cell))


# Analyzer and its error -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class MatrixError:
    """The error of the estimated counts. It is a sum of independent parts, one for each person.

    Every array has one entry for each value j whose count is estimated.
    """

    users: int
    value: Reals
    likely: Reals  # the standard errors for a crowd with the estimated counts
    own: Reals  # V(j,j)
    others: tuple[Reals, Reals]  # the least and the largest V(x,j) over x ≠ j
    reach: tuple[Reals, Reals]  # how far one person's part may be below and above its mean
    skew: Reals  # the largest E|part|³/V(x,j)
    single: bool  # whether the estimate is one number and not a vector

    @property
    def standard_error(self) -> Answer:
        return self._shaped(self.likely)

    def margins(self, confidence: float) -> tuple[Answer, Answer]:
        wrong = (1 - confidence) / 2
        seen = np.clip(self.value, 0.0, self.users)
        low, high = (self._end(seen, end, wrong) for end in (0.0, float(self.users)))
        return self._shaped(high - self.value), self._shaped(self.value - low)

    def _shaped(self, numbers: Reals) -> Answer:
        return float(numbers[0]) if self.single else numbers

    def _end(self, seen: Reals, end: float, wrong: float) -> Reals:
        """The first count between the estimate and `end` that is too unlikely.

        A count is too unlikely if, with this true count, the observed estimate or one beyond it has
        a probability of at most `wrong`. `_tail` bounds this probability. If no count is too
        unlikely, the result is `end` itself. The bound falls with the distance between the count
        and the estimate, because the variance grows no faster than the distance.
        """
        near, far = seen, np.full(len(seen), end)
        possible = self._tail(seen, far) > wrong
        for _ in range(_HALVINGS):
            middle = (near + far) / 2
            kept = self._tail(seen, middle) > wrong
            near, far = np.where(kept, middle, near), np.where(kept, far, middle)
        return np.where(possible, end, far)

    def _tail(self, seen: Reals, count: Reals) -> Reals:
        """An upper bound on the probability of `seen`, or of an estimate beyond `seen`.

        The true count is `count`. An estimate is beyond `seen` if it is farther from `count`, on
        the same side.
        """
        from scipy import special  # takes a while to load

        distance, least = np.abs(seen - count), self.users * np.minimum(self.own, self.others[0])
        variance = np.maximum(count * self.own + (self.users - count) * self.others[1], 1e-150)
        reach = np.maximum(np.where(count < seen, self.reach[1], self.reach[0]), 1e-100)
        # Bennett's bound for variance v, reach b and distance t is exp(−v/b²·h(bt/v)), where
        # h(u) = (1+u)·ln(1+u) − u.
        u = reach * distance / variance
        bennett = np.exp(-variance / reach**2 * ((1 + u) * np.log1p(u) - u))
        off = _ESSEEN * self.skew / np.sqrt(np.maximum(least, 1e-150))
        normal = special.ndtr(-distance / np.sqrt(variance)) + off
        tail: Reals = np.minimum(bennett, normal)
        return tail


@dataclass(frozen=True)
class MatrixEstimator(Estimator):
    """Counts messages, and estimates by least squares how many people hold each value."""

    weights: Weights

    @property
    def tally_size(self) -> int:
        return len(self.weights[0])

    def count(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        return np.bincount(payload, minlength=self.tally_size).astype(np.int64)

    def simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        rows = zip(self.weights, held.counts.tolist(), strict=True)
        sent = [multinomial(source, people, row) for row, people in rows]
        total: NDArray[np.int64] = np.sum(sent, axis=0)
        return total

    @property
    def _estimated(self) -> slice:
        """The values whose counts are estimated. The task `Count` needs only the value 1."""
        return slice(1, None) if self.task.buckets is None else slice(None)

    @cached_property
    def _chances(self) -> Reals:
        """The probabilities R(x,y)."""
        chances: Reals = (np.array(self.weights, dtype=object) / WHOLE).astype(np.float64)
        return chances

    @cached_property
    def _means(self) -> Reals:
        """The means μ(y)."""
        means: Reals = self._chances.mean(axis=0)
        return means

    @cached_property
    def _roots(self) -> Reals:
        """The numbers 1/√μ(y), or 0 for a message that nobody sends."""
        sent = self._means > 0
        return np.where(sent, 1 / np.sqrt(np.where(sent, self._means, 1.0)), 0.0)

    @cached_property
    def _centered(self) -> Reals:
        """The matrix C. Differences are computed with whole numbers, so that no digits are lost."""
        whole = np.array(self.weights, dtype=object)
        differences = (len(whole) * whole - whole.sum(axis=0)) / (len(whole) * WHOLE)
        centered: Reals = differences.astype(np.float64) * self._roots
        return centered

    @property
    def tells_all_apart(self) -> bool:
        """Whether different crowds send different messages on average."""
        sizes = np.linalg.svd(self._centered, compute_uv=False)
        rank = np.count_nonzero(sizes > _LEAST_SIZE * sizes[0])
        return int(rank) == len(self.weights) - 1

    @cached_property
    def _scores(self) -> Reals:
        """The coefficients a(j,y)."""
        inverse: Reals = np.asarray(np.linalg.pinv(self._centered, _LEAST_SIZE), np.float64)
        return (inverse.T * self._roots)[self._estimated]

    @cached_property
    def _parts(self) -> Reals:
        """The error of ĉ(j) from a person who holds x and sends y, indexed by x, j and y."""
        own = np.eye(len(self.weights))[:, self._estimated] - 1 / len(self.weights)
        return self._scores[None, :, :] - own[:, :, None]

    @cached_property
    def _moments(self) -> tuple[Reals, Reals]:
        """The moments V(x,j) and E|part|³, indexed by x and j."""
        second, third = (
            np.einsum("xjy,xy->xj", np.abs(self._parts) ** power, self._chances) for power in (2, 3)
        )
        return second, third

    def unbiased(self, tally: Tally, source: Source | None = None) -> Answer:
        surplus = tally.counts - tally.users * self._means
        counts = tally.users / len(self.weights) + self._scores @ surplus
        return float(counts[0]) if self.task.buckets is None else counts

    def standard_error(self, users: int, held: Holding | None) -> float:
        variances, _ = self._moments
        if held is None:
            # The variance is linear in the counts, so it is largest if all hold the same value.
            return float(np.sqrt(users * variances.max()))
        return float(np.sqrt((held.counts @ variances).max()))

    def error_law(self, users: int, unbiased: Answer) -> MatrixError:
        value = np.atleast_1d(np.asarray(unbiased, dtype=np.float64))
        counts = np.clip(value, 0.0, users)
        if self.task.buckets is None:
            counts = np.array([users - counts[0], counts[0]])
        shares = counts / counts.sum() if counts.any() else np.full(len(counts), 1 / len(counts))
        variances, thirds = self._moments
        own = np.eye(len(variances), dtype=np.bool_)[:, self._estimated]
        most = np.where(own, 0.0, variances).max(axis=0)
        least = np.where(own, np.inf, variances).min(axis=0)
        sent = self._chances[:, None, :] > 0
        reach = (np.where(sent, sign * self._parts, 0.0).max(axis=(0, 2)) for sign in (-1, 1))
        below, above = reach
        return MatrixError(
            users=users,
            value=value,
            likely=np.sqrt(users * (shares @ variances)),
            own=variances[own],
            others=(least, most),
            reach=(below, above),
            skew=(thirds / np.maximum(variances, 1e-150)).max(axis=0),
            single=self.task.buckets is None,
        )

    def extremes(self, users: int, confidence: float) -> Iterator[Answer]:
        for values in super().extremes(users, confidence):
            if self.task.buckets is None:
                yield values
            else:  # each bucket has its own law, so each value is tried in all buckets
                yield from (np.full(len(self.weights), value) for value in values)


# Calibration and privacy ----------------------------------------------------------------------


@dataclass(frozen=True)
class MatrixProtocol(Protocol):
    """A local protocol defined by a matrix. A subclass has a `name` and the method `matrix`.

    @register
    class FairCoin(MatrixProtocol):
        name = "local.fair-coin"
        tasks = (Count,)

        def matrix(self):
            return [[3, 1], [1, 3]]
    """

    trust = Trust.LOCAL
    tasks: ClassVar[tuple[type[Task], ...]] = (Count, Histogram)

    @abstractmethod
    def matrix(self) -> Matrix:
        """The matrix of probabilities: a row for each value, and a column for each message.

        It has `self.task.domain` rows and should satisfy `self.budget`. Its numbers are
        fractions or floats, or whole numbers with the same sum in all rows.
        """

    @cached_property
    def randomizer(self) -> MatrixRandomizer:
        """Draws a message from the row of a person's value."""
        laws = laws_of(self.matrix(), self.task.domain)
        shares = [Fraction(0), *_SHARES]
        for aim in (Budget(self.budget.epsilon), self.budget):  # try pure privacy first
            if rounded(laws, shares[0]).keeps(aim) or rounded(laws, shares[-1]).keeps(aim):
                tried = (rounded(laws, share) for share in shares)
                return next(randomizer for randomizer in tried if randomizer.keeps(aim))
        raise Infeasible(
            f"the matrix of {self.name} does not satisfy epsilon={short(self.budget.epsilon)}, "
            f"delta={short(self.budget.delta)}: the largest ratio of its probabilities is "
            f"e^{short(rounded(laws, shares[0]).local_epsilon)}"
        )

    @cached_property
    def estimator(self) -> MatrixEstimator:
        """Estimates counts from the numbers of messages, by weighted least squares."""
        estimator = MatrixEstimator(self.task, self.randomizer.weights)
        if not estimator.tells_all_apart:
            raise Infeasible(
                f"the rows of the matrix of {self.name} must be linearly independent, got rows "
                "from which the counts cannot be estimated"
            )
        return estimator

    @property
    def parameters(self) -> Mapping[str, float]:
        sent = [weight for row in self.randomizer.weights for weight in row if weight]
        return {
            "messages": len(self.randomizer.weights[0]),
            "least_probability": min(sent) / WHOLE,
            "largest_probability": max(sent) / WHOLE,
        }

    @property
    def curve(self) -> PairCurve:
        return self.randomizer.curve

    @cached_property
    def guarantee(self) -> Guarantee:
        """Pure privacy if the largest ratio allows it, otherwise the exact δ at the budget's ε."""
        if self.randomizer.keeps(Budget(self.budget.epsilon)):
            return promise_alone(self)
        delta = self.curve.delta(self.budget.epsilon)
        return promise(self, "divergence of the randomizer's law", delta=delta)

    @property
    def local_epsilon(self) -> float:
        return self.randomizer.local_epsilon
