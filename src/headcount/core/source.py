"""The interface of a source of random bits."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from headcount.core.errors import InvalidParameter


class Source(ABC):
    """A stream of independent fair bits. `headcount.randomness` has a secure and a seeded source.

    `secure` says that nobody can know or guess the bits. Results from bits that are not secure are
    not private. Messages, tallies, estimates and guarantees have an attribute of the same name.
    """

    secure: bool = False

    @abstractmethod
    def fill(self, buffer: NDArray[np.uint8]) -> None:
        """Overwrite a contiguous buffer with random bytes."""

    def part(self, number: int) -> "Source":
        """A source for a numbered part of the work. No two parts share their bits, so parts can be
        processed anywhere and in any order.

        By default, every part is this source itself. Then the parts must be processed one after
        another.
        """
        return self

    def owe(self, variation: float) -> None:  # noqa: B027
        """Tell the source that a draw was only approximate. The total variation distance between
        the draw and the exact law is at most `variation`. See `Owing`.
        """

    def integers(self, count: int, dtype: DTypeLike) -> NDArray[Any]:
        """`count` integers, uniform over the whole range of an unsigned type."""
        out = np.empty(count, dtype=dtype)
        self.fill(out.view(np.uint8))
        return out


def check_secure(source: Source | None) -> None:
    """Refuse to charge a ledger for a release whose random bits are not secure. None stands for a
    secure source.
    """
    if isinstance(source, Source) and not source.secure:
        raise InvalidParameter(
            f"`ledger` must come with a secure source, got a {type(source).__name__}, with which "
            "the recorded guarantee would not hold"
        )
