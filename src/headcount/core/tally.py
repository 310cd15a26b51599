"""The analyzer's counts of messages: a vector of integers. Tallies can be added."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.errors import InvalidValue
from headcount.core.table import counted


@dataclass(frozen=True, eq=False)
class Tally:
    """Counts of the messages of `users` people. The tally of several crowds is the sum of their
    tallies.

    If messages are shares modulo some number up to 2^63, this number is the `modulus`, and counts
    are added modulo this number. Otherwise, counts are plain integers. `secure` and `bundled` have
    the same meaning as in a `Batch`. `noises` is the number of times that a shuffler has added
    noise messages. `noised_users` is the number of people whose messages have such noise. If it is
    None and there is noise, the messages of all people have noise.
    """

    counts: NDArray[np.int64]
    users: int
    protocol: str
    modulus: int | None = None
    secure: bool = True
    bundled: bool = False
    noises: int = 0
    noised_users: int | None = None

    def __post_init__(self) -> None:
        checks.instance("counts", self.counts, np.ndarray)
        if self.counts.dtype != np.int64 or self.counts.ndim != 1:
            raise InvalidValue(
                f"a tally must be a vector of int64, "
                f"got {counted(self.counts.ndim, 'dimension')} of {self.counts.dtype}"
            )
        if checks.whole("users", self.users, low=-(2**63), high=2**63) < 1:
            raise InvalidValue(f"a tally must come from at least one person, got {self.users}")

    def __add__(self, other: "Tally") -> "Tally":
        mine, others = (
            (tally.protocol, tally.counts.size, tally.modulus) for tally in (self, other)
        )
        if mine != others:
            raise InvalidValue(
                f"tallies must come from the same protocol to be added, got {mine} and {others}"
            )
        return replace(
            self,
            counts=self._plus(other.counts),
            users=self.users + other.users,
            secure=self.secure and other.secure,
            bundled=self.bundled or other.bundled,
            noises=self.noises + other.noises,
            noised_users=self.noised_people + other.noised_people,
        )

    def noised(self, added: NDArray[np.int64], *, alone: bool, secure: bool) -> "Tally":
        """The tally with a shuffler's noise. If `alone`, the messages of people are discarded."""
        counts = added if alone else self._plus(added)
        return replace(
            self,
            counts=counts,
            secure=self.secure and secure,
            noises=self.noises + 1,
        )

    @property
    def noised_people(self) -> int:
        """The number of people to whose messages a shuffler has added noise."""
        if self.noised_users is not None:
            return self.noised_users
        return self.users if self.noises else 0

    def _plus(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        total = self.counts + counts
        if self.modulus is not None:
            # The sum of two residues below 2^63 fits into an unsigned 64-bit integer.
            total = (total.view(np.uint64) % np.uint64(self.modulus)).view(np.int64)
        return total
