"""The law of a sum of many independent integers, by a Fourier transform.

The error of each probability is absolute, not relative, so small probabilities are unreliable. The
law includes this error in its `tail`. Such laws are accurate enough for confidence intervals, but
not for privacy.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.laws import ROUNDING, Law
from headcount.core.cached import cached_property

LONGEST = 1 << 22  # the most integers in the window of a law
_RARE = 1e-15  # on each side, the probability outside a window is at most this
_SLOPES = np.geomspace(0.25, 64, 17)  # the θ of Chernoff's bound, in units of 1/deviation


@dataclass(frozen=True, eq=False)
class Term:
    """`times` independent copies of an integer that is values[i] with probability masses[i]."""

    values: NDArray[np.int64]
    masses: NDArray[np.float64]
    times: int = 1
    tail: float = 0.0  # the probability of all other values

    @classmethod
    def of(cls, law: Law, factor: int = 1, times: int = 1) -> "Term":
        """Copies of an integer with this law, multiplied by a factor."""
        return cls(law.values * factor, law.mass / law.mass.sum(), times, law.tail + law.slack)

    @cached_property
    def _middle(self) -> float:
        """The mean of one copy."""
        return float(self.values.astype(np.float64) @ self.masses)

    @cached_property
    def _away(self) -> NDArray[np.float64]:
        """How far the values are from the mean of one copy."""
        return self.values.astype(np.float64) - self._middle

    @property
    def mean(self) -> float:
        return self.times * self._middle

    @property
    def variance(self) -> float:
        return self.times * float(self._away**2 @ self.masses)

    def log_moment(self, slope: float) -> float:
        """The logarithm of E[e^{θ(X − E X)}] for the sum X of all copies."""
        powers = slope * self._away
        largest = float(powers.max())
        return self.times * (largest + math.log(float(self.masses @ np.exp(powers - largest))))


def reach(terms: Sequence[Term], rare: float) -> tuple[float, float]:
    """Two distances a and b. The sum is below mean − a with probability at most `rare`, and above
    mean + b with probability at most `rare`.

    By Chernoff's bound, (ln(1/rare) + ln E[e^{θ(X − E X)}])/θ is a possible b for any θ > 0, and
    the least over several θ is used. For a, θ has the opposite sign in the exponent. The bound
    leaves out the values in the `tail` of a term.
    """
    deviation = math.sqrt(sum(term.variance for term in terms)) or 1.0
    found = []
    for sign in (-1, 1):
        slopes = _SLOPES / deviation
        moments = [sum(term.log_moment(sign * slope) for term in terms) for slope in slopes]
        found.append(float(np.min((math.log(1 / rare) + np.array(moments)) / slopes)))
    return found[0], found[1]


def sum_law(terms: Sequence[Term]) -> Law | None:
    """The law of a sum, or None if its window would be longer than `LONGEST`."""
    below, above = reach(terms, _RARE)
    size = _size(below, above)
    return None if size > LONGEST else _transformed(terms, size, below)


def known_sum_law(terms: Sequence[Term]) -> Law:
    """The law of a sum, however long its window is."""
    below, above = reach(terms, _RARE)
    return _transformed(terms, _size(below, above), below)


def _size(below: float, above: float) -> int:
    """A power of two that is larger than the window."""
    return 1 << math.ceil(below + above + 4).bit_length()


def _transformed(terms: Sequence[Term], size: int, below: float) -> Law:
    transform: NDArray[np.complex128] = np.ones(size // 2 + 1, dtype=np.complex128)
    for term in terms:
        placed = np.bincount(term.values % size, term.masses, minlength=size)
        transform *= np.fft.rfft(placed) ** term.times
    mass = np.maximum(np.fft.irfft(transform, size), 0.0)
    # mass[i] is the probability that the sum is i modulo `size`. The window starts at the distance
    # `below` under the mean.
    start = math.floor(sum(term.mean for term in terms) - below) - 1
    mass = np.roll(mass, -(start % size))
    copies = sum(term.times for term in terms)
    error = 16 * ROUNDING * math.log2(size) * (copies + 4) + 2 * _RARE
    missing = sum(term.times * term.tail for term in terms)
    return Law(start, mass / mass.sum(), tail=error + missing)
