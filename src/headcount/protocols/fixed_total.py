"""Histograms in which the errors of all buckets add up to 0.

Such errors are possible because the number of people is public. Either the noise itself adds up to
0, or the analyzer corrects the counts so that they add up to the number of people (see
`known_total`). If the errors of all d buckets have the same variance V, and any two of them have
the same covariance, then this covariance is −V/(d−1).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class FixedTotalError(ABC):
    """The error of one of d buckets. The errors of all buckets have one law and add up to 0."""

    buckets: int  # d

    @property
    @abstractmethod
    def standard_error(self) -> float: ...

    @abstractmethod
    def margins(self, confidence: float) -> tuple[float, float]: ...

    def combined(self, weights: Any) -> NDArray[np.float64]:
        """The standard errors of weighted sums of all buckets. Each row of `weights` gives a sum.

        The variance is V·d/(d−1)·(Σw² − (Σw)²/d).
        """
        squares, sums = (weights**2).sum(axis=1), weights.sum(axis=1)
        apart = np.maximum(squares - sums**2 / self.buckets, 0.0)
        spreads: NDArray[np.float64] = np.sqrt(self.buckets / (self.buckets - 1) * apart)
        return self.standard_error * spreads
