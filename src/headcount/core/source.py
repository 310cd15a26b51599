"""Where random bits come from, as everybody else sees it."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


class Source(ABC):
    """A stream of independent fair bits; `headcount.randomness` has a secure and a seeded one."""

    @abstractmethod
    def fill(self, buffer: NDArray[np.uint8]) -> None:
        """Overwrite a contiguous buffer with random bytes."""

    def integers(self, count: int, dtype: DTypeLike) -> NDArray[Any]:
        """`count` integers, uniform over the whole range of an unsigned type."""
        out = np.empty(count, dtype=dtype)
        self.fill(out.view(np.uint8))
        return out
