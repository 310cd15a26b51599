"""Where random bits come from, as everybody else sees it."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


class Source(ABC):
    """A stream of independent fair bits; `headcount.randomness` has a secure and a seeded one.

    `secure` says that nobody can know or guess the bits. Whatever is made from other bits is not
    private. Messages, tallies, estimates and guarantees have a mark of the same name.
    """

    secure: bool = False

    @abstractmethod
    def fill(self, buffer: NDArray[np.uint8]) -> None:
        """Overwrite a contiguous buffer with random bytes."""

    def part(self, number: int) -> "Source":
        """A source for a numbered part of the work: bits that no other part has, so that it does
        not matter who does which part when.

        Here the source itself, whose parts must be worked on one after another.
        """
        return self

    def owe(self, variation: float) -> None:  # noqa: B027
        """Told when what is drawn is only so near to its law, in total variation; see `Owing`."""

    def integers(self, count: int, dtype: DTypeLike) -> NDArray[Any]:
        """`count` integers, uniform over the whole range of an unsigned type."""
        out = np.empty(count, dtype=dtype)
        self.fill(out.view(np.uint8))
        return out
