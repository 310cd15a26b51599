"""What a protocol promises, and why one may believe it."""

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from decimal import ROUND_CEILING, Context
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core.budget import Trust
from headcount.core.table import Table


@dataclass(frozen=True)
class Guarantee:
    """(epsilon, delta)-differential privacy for replacing the value of one honest person.

    `exact` says that delta is the divergence of the view at epsilon, computed from its law and
    rounded up; otherwise (epsilon, delta) is a proven upper bound. `method` names the computation
    or the theorem. `honest` is how many people it relies on to follow the protocol, at the most:
    in shuffle trust their noise hides each other; in local trust a person's own is enough.
    """

    epsilon: float
    delta: float
    trust: Trust
    exact: bool
    method: str
    honest: int
    neighbors: str = "replace one person's value"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def table(self) -> Table:
        return Table(
            ("trust", "epsilon", "delta", "honest people", "computed"),
            (
                (
                    str(self.trust),
                    rounded_up(self.epsilon),
                    rounded_up(self.delta),
                    f"{self.honest:,}",
                    "exactly" if self.exact else "as an upper bound",
                ),
            ),
            title=f"Differential privacy: {self.neighbors}, and nobody can tell",
            notes=(self.method,),
        )

    def _repr_html_(self) -> str:
        return self.table().html()

    def __str__(self) -> str:
        kind = "exact" if self.exact else "upper bound"
        pair = f"({rounded_up(self.epsilon)}, {rounded_up(self.delta)})"
        return f"{pair}-DP, {self.trust} trust, {kind}"


def rounded_up(value: float) -> str:
    """An epsilon or delta in four digits that promise no more than the number itself."""
    shown = Context(prec=4, rounding=ROUND_CEILING).create_decimal(repr(value))
    return f"{float(shown):g}"


class PrivacyCurve(ABC):
    """All the (epsilon, delta) that a mechanism satisfies, over all neighbors. It rounds up."""

    @abstractmethod
    def delta(self, epsilon: float) -> float:
        """The least delta known for this epsilon."""

    @abstractmethod
    def deltas(self, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        """`delta` for many epsilons, negative ones too; it may round up a little more."""

    @property
    @abstractmethod
    def bends(self) -> NDArray[np.float64]:
        """Finite epsilons, rising, from the least loss to the largest.

        Delta is convex in e^epsilon, so that straight lines between them lie on it or above: on it,
        if these are all the losses.
        """

    def epsilon(self, delta: float) -> float:
        """The least epsilon ≥ 0 known for this delta, to one part in 2^50; `inf` if there is none.

        It is on the private side: `delta(epsilon(d)) <= d`.
        """
        low, high = 0.0, self.last
        if self.delta(low) <= delta:
            return low
        if self.delta(high) > delta:
            return math.inf
        while high - low > high * 2.0**-50:
            middle = (low + high) / 2
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
        return high

    @property
    def last(self) -> float:
        """An epsilon above every finite loss: beyond it delta falls no more."""
        return max(0.0, float(self.bends.max(initial=0.0))) * (1 + 1e-12) + 1e-15


@dataclass(frozen=True, eq=False)
class NearCurve(PrivacyCurve):
    """The curve of a mechanism whose views are within `variation` of those of a known curve.

    Events differ by at most that: δ grows by (1 + e^ε)·variation.
    """

    known: PrivacyCurve
    variation: float

    def delta(self, epsilon: float) -> float:
        return min(1.0, self.known.delta(epsilon) + float(self._charge(np.array(epsilon))))

    def deltas(self, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.minimum(1.0, self.known.deltas(epsilons) + self._charge(epsilons))

    @property
    def bends(self) -> NDArray[np.float64]:
        return self.known.bends

    def epsilon(self, delta: float) -> float:
        """By the known curve's own way, which may be quicker: for what the charge leaves of δ."""
        epsilon = self.known.epsilon(delta)
        for _ in range(20):
            left = delta - float(self._charge(np.array(epsilon)))
            if not left > 0:
                break
            enough = self.known.epsilon(left)
            if enough <= epsilon:
                return epsilon
            epsilon = enough * (1 + 2.0**-40)
        return super().epsilon(delta)

    def _charge(self, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(over="ignore"):
            charge: NDArray[np.float64] = (1 + np.exp(epsilons)) * (self.variation * (1 + 1e-15))
        return charge
