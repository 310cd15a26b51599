"""The privacy guarantee of a protocol, and its privacy curve."""

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.budget import Trust
from headcount.core.cached import cached_property
from headcount.core.decimal_digits import decimal_digits
from headcount.core.errors import InvalidParameter
from headcount.core.table import Table, counted_people, short

PLAIN_NEIGHBORS = "replace one person's value"
_INSECURE = (
    "not private, since the random bits were not secure: "
    "anyone who knows their seed can remove the noise"
)


@dataclass(frozen=True)
class Guarantee:
    """(epsilon, delta)-differential privacy for replacing the value of one honest person.

    If `exact`, delta is the hockey-stick divergence of neighboring views at epsilon, computed from
    the law of the view and rounded up. Otherwise (epsilon, delta) is a proven upper bound. `method`
    names the computation or the theorem. The guarantee holds if at least `honest` (a number) of the
    people follow the protocol. In shuffle trust, they protect each other with their noise. In local
    trust, a person's own noise is enough. `relies_on` says in words whom people must trust. If some
    random bits were not `secure`, the guarantee does not hold, and `warning` says so.
    """

    epsilon: float
    delta: float
    trust: Trust
    exact: bool
    method: str
    honest: int
    neighbors: str = PLAIN_NEIGHBORS
    secure: bool = True
    relies_on: str = ""  # by default, `usual_reliance`

    def __post_init__(self) -> None:
        if not self.relies_on:
            object.__setattr__(self, "relies_on", usual_reliance(self.trust, self.honest))

    @property
    def relies_as_usual(self) -> bool:
        """Whether the guarantee relies only on the usual assumptions of its trust model."""
        return self.relies_on == usual_reliance(self.trust, self.honest)

    @property
    def warning(self) -> str:
        """Why the guarantee does not hold, or an empty string if it does."""
        return "" if self.secure else _INSECURE

    def to_dict(self) -> dict[str, Any]:
        """The guarantee for JSON, with its warning if there is one."""
        return {**asdict(self), **({"warning": self.warning} if self.warning else {})}

    def table(self) -> Table:
        """The guarantee as a table of one row."""
        cells = {
            "trust": str(self.trust),
            **dict(zip(("epsilon", "delta"), self.shown_pair, strict=True)),
            # Only in shuffle trust do people rely on each other.
            **({"honest people": f"{self.honest:,}"} if self.trust is Trust.SHUFFLE else {}),
            "computed": self._computed,
        }
        return Table(
            tuple(cells),
            (tuple(cells.values()),),
            title=self.warning or f"Differential privacy; neighboring datasets: {self.neighbors}",
            notes=(self.method, f"relies on {self.relies_on}"),
        )

    @property
    def shown_pair(self) -> tuple[str, str]:
        """Epsilon and delta as a table shows them. The numbers are left out if the guarantee does
        not hold.
        """
        if not self.secure:
            return "not kept", "not kept"
        return rounded_up(self.epsilon), rounded_up(self.delta)

    @property
    def _computed(self) -> str:
        if not self.secure:
            return "not kept"
        return "exactly" if self.exact else "as an upper bound"

    def _repr_html_(self) -> str:
        return self.table().html()

    def __str__(self) -> str:
        promised = f"({rounded_up(self.epsilon)}, {rounded_up(self.delta)})-DP, {self.trust} trust"
        if not self.secure:
            return f"not private; with secure random bits it would be {promised}"
        return f"{promised}, {'exact' if self.exact else 'upper bound'}"


def usual_reliance(trust: Trust, honest: int) -> str:
    """Whom a guarantee of this trust model usually relies on, in words."""
    return {
        Trust.CENTRAL: "the curator, who sees all values and adds the noise",
        Trust.SHUFFLE: f"the shuffler, and on {counted_people(honest)} to follow the protocol",
        Trust.LOCAL: "nobody else: people add the noise to what they send",
    }[trust]


def rounded_down(value: float) -> float:
    """The number, rounded down to four significant digits."""
    with decimal_digits(4, ROUND_FLOOR):
        return float(+Decimal(repr(value)))


def rounded_up(value: float) -> str:
    """An epsilon or delta, rounded up to four digits so that the text never promises too much."""
    with decimal_digits(4, ROUND_CEILING):
        shown = float(+Decimal(repr(value)))
    return short(shown)


class PrivacyCurve(ABC):
    """The pairs (epsilon, delta) that a mechanism satisfies for all neighbors.

    Delta is rounded up.
    """

    @abstractmethod
    def _delta(self, epsilon: float) -> float:
        """See `delta`."""

    @abstractmethod
    def _deltas(self, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        """See `deltas`."""

    @property
    @abstractmethod
    def bends(self) -> NDArray[np.float64]:
        """Finite epsilons in increasing order, from the smallest privacy loss to the largest.

        Delta is convex in e^epsilon. So straight lines in e^epsilon between the bends are upper
        bounds on delta. The lines are exact if every privacy loss that occurs is one of the bends.
        """

    @property
    def attained(self) -> bool:
        """Whether one pair of neighboring views has exactly this curve at every real epsilon, even
        if epsilon is negative.

        A privacy curve holds in both directions. So both directions of this pair have exactly this
        curve, and compositions of such curves are exact. If the task has buckets, any two different
        buckets must be such a pair.
        """
        return False

    def delta(self, epsilon: float) -> float:
        """The least known delta for this epsilon. Epsilon may be infinite."""
        infinite = isinstance(epsilon, float) and math.isinf(epsilon)
        return self._delta(epsilon if infinite else checks.real("epsilon", epsilon))

    def deltas(self, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        """`delta` for many epsilons, which may be negative. The results may be rounded up a little
        more than those of `delta`.
        """
        return self._deltas(checks.reals("epsilons", epsilons))

    def epsilon(self, delta: float) -> float:
        """The least known epsilon ≥ 0 for this delta, with a relative error of up to 2^−50. It is
        `inf` if there is none.

        It is rounded up, so that `delta(epsilon(d)) <= d`.
        """
        number = checks.real("delta", delta)
        if not 0 <= number <= 1:
            raise InvalidParameter(f"`delta` must be between 0 and 1, got {number}")
        return self._epsilon(number)

    def _epsilon(self, delta: float) -> float:
        """See `epsilon`."""
        low, high = 0.0, self.last
        if self._delta(low) <= delta:
            return low
        if self._delta(high) > delta:
            return math.inf
        while high - low > high * 2.0**-50:
            middle = (low + high) / 2
            low, high = (low, middle) if self._delta(middle) <= delta else (middle, high)
        return high

    @property
    def last(self) -> float:
        """An epsilon above every finite loss. Delta is the same for all larger epsilons."""
        return max(0.0, float(self.bends.max(initial=0.0))) * (1 + 1e-12) + 1e-15


@dataclass(frozen=True, eq=False)
class WorstCurve(PrivacyCurve):
    """The curve of several releases, if each person takes part in only one of them."""

    curves: tuple[PrivacyCurve, ...]

    def _delta(self, epsilon: float) -> float:
        return max(curve.delta(epsilon) for curve in self.curves)

    def _deltas(self, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        worst: NDArray[np.float64] = np.max([c.deltas(epsilons) for c in self.curves], axis=0)
        return worst

    @cached_property
    def bends(self) -> NDArray[np.float64]:
        """The bends of all curves. Each curve is convex between them, and so is the maximum."""
        return np.unique(np.concatenate([curve.bends for curve in self.curves]))


@dataclass(frozen=True, eq=False)
class GroupCurve(PrivacyCurve):
    """The curve for replacing `size` values at once, from the curve for one value (group privacy).

    Let P_0, …, P_k be the laws of the view for a chain of neighboring datasets, with k = `size`.
    Let η = ε/k, which may be negative. Then P_i ≤ e^η P_{i+1} + δ(η) for all i, and so
    P_0 ≤ e^{kη} P_k + δ(η) Σ_{i<k} e^{iη}. A δ that holds for ε also holds for every larger ε.
    """

    one: PrivacyCurve
    size: int

    def _delta(self, epsilon: float) -> float:
        return float(self._deltas(np.array([epsilon]))[0])

    def _deltas(self, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        before = np.searchsorted(self.bends, epsilons, side="right")
        return np.minimum(self._chained(epsilons), self._least[before])

    def _chained(self, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        # Rounding ε/k down can only make δ larger. The factor at the end covers the rounding errors
        # of the sum.
        each = np.nextafter(epsilons / self.size, -np.inf)
        with np.errstate(over="ignore", invalid="ignore"):
            steps = np.exp(np.multiply.outer(np.arange(self.size), each)).sum(axis=0)
            products = self.one.deltas(each) * steps * (1 + 1e-12 * self.size)
        chained: NDArray[np.float64] = np.minimum(1.0, np.nan_to_num(products, nan=0.0))
        return chained

    @cached_property
    def bends(self) -> NDArray[np.float64]:
        bends: NDArray[np.float64] = self.size * self.one.bends
        return bends

    @cached_property
    def _least(self) -> NDArray[np.float64]:
        """For each bend, the least δ at this bend or an earlier one. Before the first bend, it is
        1.
        """
        return np.minimum.accumulate(np.concatenate([[1.0], self._chained(self.bends)]))


@dataclass(frozen=True, eq=False)
class ChangedCurve(PrivacyCurve):
    """The curve of a mechanism that differs a little from a mechanism with a known curve."""

    known: PrivacyCurve

    @abstractmethod
    def _changed(self, deltas: NDArray[np.float64], epsilons: NDArray[np.float64]) -> Any:
        """The δ of the mechanism, from the δ of the known curve at the same ε."""

    @abstractmethod
    def _allowed(self, delta: float, epsilon: float) -> float:
        """The largest δ of the known curve for which the mechanism's δ is at most `delta`."""

    def _delta(self, epsilon: float) -> float:
        known = np.array(self.known.delta(epsilon))
        return min(1.0, float(self._changed(known, np.array(epsilon))))

    def _deltas(self, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        changed: NDArray[np.float64] = self._changed(self.known.deltas(epsilons), epsilons)
        return np.minimum(1.0, changed)

    @property
    def bends(self) -> NDArray[np.float64]:
        return self.known.bends

    def _epsilon(self, delta: float) -> float:
        """The least epsilon. The known curve finds it for the δ that `_allowed` returns, by its own
        method, which may be faster.
        """
        epsilon = self.known.epsilon(delta)
        for _ in range(20):
            allowed = self._allowed(delta, epsilon)
            if not allowed > 0:
                break
            enough = self.known.epsilon(allowed)
            if enough <= epsilon:
                return epsilon
            epsilon = enough * (1 + 2.0**-40)
        return super()._epsilon(delta)


@dataclass(frozen=True, eq=False)
class NearCurve(ChangedCurve):
    """The curve of a mechanism that is close to a mechanism with a known curve.

    The total variation distance between their views is at most `variation`. So the probability of
    each event differs by at most `variation`, and δ grows by at most (1 + e^ε)·variation.
    """

    variation: float

    @property
    def attained(self) -> bool:
        """Whether the known curve is attained. `variation` counts as a numerical error."""
        return self.known.attained

    def _changed(self, deltas: NDArray[np.float64], epsilons: NDArray[np.float64]) -> Any:
        return deltas + self._charge(epsilons)

    def _allowed(self, delta: float, epsilon: float) -> float:
        return delta - float(self._charge(np.array(epsilon)))

    def _charge(self, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        charge: NDArray[np.float64] = (1 + _factor(epsilons)) * (self.variation * (1 + 1e-15))
        return charge


@dataclass(frozen=True, eq=False)
class FittedCurve(ChangedCurve):
    """The curve of a mechanism that is run again until its noise fits (see `bundles`).

    Let F be the event that the noise of all honest people fits. F has the same probability f for
    all data, with 1 − f ≤ `redrawn`. Let P and Q be the laws of neighboring views, and let P(y, F)
    and Q(y, F) be the probabilities of the view y together with F. The divergence of the views
    given F is

        Σ_y (P(y, F) − e^ε Q(y, F))₊ / f ≤ (Σ_y (P(y) − e^ε Q(y))₊ + e^ε Q(not F)) / f,

    which is at most (δ + e^ε·redrawn)/(1 − redrawn).
    """

    redrawn: float

    def _changed(self, deltas: NDArray[np.float64], epsilons: NDArray[np.float64]) -> Any:
        return fitted_delta(deltas, epsilons, self.redrawn)

    def _allowed(self, delta: float, epsilon: float) -> float:
        charge = float(_factor(np.array(epsilon))) * self.redrawn
        return delta * (1 - self.redrawn) * (1 - 4e-14) - charge


def fitted_delta(deltas: Any, epsilons: Any, redrawn: float) -> Any:
    """The δ of `FittedCurve`, computed from the known δ. The result may be above 1."""
    if redrawn >= 1:
        return np.ones_like(deltas)
    return (deltas + _factor(epsilons) * redrawn) / (1 - redrawn) * (1 + 1e-14)


def _factor(epsilons: Any) -> Any:
    # Beyond 700, e^ε is too large for a float. The δ for ε = 700 also holds for larger ε.
    return np.exp(np.minimum(epsilons, 700.0))
