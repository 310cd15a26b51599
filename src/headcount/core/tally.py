"""What the analyzer keeps of the messages: a few integers that add up."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headcount.core.errors import InvalidValue


@dataclass(frozen=True, eq=False)
class Tally:
    """Counts over the messages of `users` people. The tally of a whole is the sum of its parts'."""

    counts: NDArray[np.int64]
    users: int

    def __post_init__(self) -> None:
        if self.counts.dtype != np.int64 or self.counts.ndim != 1:
            raise InvalidValue(
                f"a tally must be a vector of int64, "
                f"got {self.counts.ndim} dimension(s) of {self.counts.dtype}"
            )
        if self.users < 1:
            raise InvalidValue(f"a tally must be of at least one person, got {self.users}")

    def __add__(self, other: "Tally") -> "Tally":
        if self.counts.shape != other.counts.shape:
            raise InvalidValue(
                f"tallies must be of one protocol to be added, "
                f"got {self.counts.size} and {other.counts.size} counts"
            )
        return Tally(self.counts + other.counts, self.users + other.users)
