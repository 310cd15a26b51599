"""Histograms with independent noise, corrected so that the counts add up to the number of people.

Notation    There are n people and d buckets. c_b people are in bucket b, and y_b = c_b + Z_b is the
            noisy count of the bucket. The noises Z_b of all buckets are independent. They have one
            law with mean 0 and variance σ².
Analyzer    The true counts add up to n. So (Σy − n)/d is subtracted from each y_b, and the results
            add up to n, too.
Error       Unbiased. The error of bucket b is Z_b − ΣZ/d, with the variance σ²·(1 − 1/d). Its exact
            law is that of ((d−1)·Z_b − Σ_{a≠b} Z_a)/d. With many buckets or much noise, this law is
            too long to compute. Then the margins of Z_b plus those of ΣZ/d are an upper bound.
Messages    If a message adds e to the count of its bucket, it adds (1 − 1/d)·e to the answer for
            this bucket, and −e/d to the answer for each other bucket. One more person adds 1/d to
            every answer.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.lattice_sums import LONGEST, Term, reach, sum_law
from headcount.accounting.laws import Law
from headcount.core.bucket_sums import Part, Weights, independent_parts, thinned
from headcount.core.influence import Shifts
from headcount.core.lattice import LatticeLaw
from headcount.protocols.fixed_total import FixedTotalError

# The most and the fewest steps per standard deviation in a tabulated law.
_FINEST, _COARSEST = 256, 32
_WINDOW = 64  # about the length of a tabulated law, in standard deviations
_SHARE = 0.02  # if margins are bounded, the margin of ΣZ/d gets this share of the error probability


def with_known_total(counts: NDArray[Any], users: int) -> NDArray[np.float64]:
    """The counts minus (Σy − n)/d, so that they add up to the number n of people."""
    found: NDArray[np.float64] = counts - (counts.sum() - users) / len(counts)
    return found


def known_total_shifts(buckets: int, most: float = 1.0, least: float = 0.0) -> Shifts:
    """The shifts of answers if a message adds from `least` to `most` to the count of its bucket."""
    own, others = 1 - 1 / buckets, -1 / buckets
    return Shifts(
        most=max(most * own, least * others),
        least=min(least * own, most * others),
        person=1 / buckets,
    )


class IndependentNoise(Protocol):
    """The noise of one bucket: Z_b, or a number that differs from Z_b by a constant."""

    def __hash__(self) -> int: ...

    @property
    def standard_error(self) -> float: ...

    @property
    def law(self) -> Law:
        """The law of the noise in steps of `grain`."""

    @property
    def grain(self) -> int:
        """The step of `law`. If it is above 1, values of `law` are off by less than one step."""


@dataclass(frozen=True)
class KnownTotalError(FixedTotalError):
    """The error of a bucket after (Σy − n)/d was subtracted from its count."""

    noise: IndependentNoise
    unit: float = 1.0  # how much the answer changes if the noise changes by one

    @property
    def standard_error(self) -> float:
        return self.unit * math.sqrt(1 - 1 / self.buckets) * self.noise.standard_error

    def margins(self, confidence: float) -> tuple[float, float]:
        below, above = _margins(self.noise, self.buckets, (1 - confidence) / 2)
        return self.unit * below, self.unit * above

    def lattice(self) -> LatticeLaw:
        law, step = _exact(self.noise, self.buckets)
        if law is None:
            return LatticeLaw.normal(self.standard_error, self.standard_error / 16)
        grain = self.noise.grain
        blur = (2 * grain if grain > 1 else 0) + (grain * step if step > 1 else 0)
        scaled = law.lattice(0).scaled(self.unit * grain * step / self.buckets)
        return replace(scaled, blur=self.unit * blur)

    def weighted(self, weights: Weights) -> list[Part]:
        # Σ w(Z − ΣZ/d) = Σ (w − w̄)Z. A constant that is added to each Z cancels.
        parts = independent_parts(_noise_lattice(self.noise), weights - weights.mean())
        return [(self.unit * factor, law) for factor, law in parts]


@lru_cache(maxsize=64)
def _noise_lattice(noise: IndependentNoise) -> LatticeLaw:
    """The law of the noise of one bucket, minus its mean."""
    law, grain = noise.law, noise.grain
    found = law.lattice(float(law.mass @ law.values)).scaled(grain)
    return thinned(replace(found, blur=float(grain) if grain > 1 else 0.0))


@lru_cache(maxsize=1024)
def _margins(noise: IndependentNoise, buckets: int, half: float) -> tuple[float, float]:
    """(a, b) such that P(error < −a) ≤ `half` and P(error > b) ≤ `half`."""
    # If `grain` is above 1, each Z is off by less than `grain`, up or down. So the error is off by
    # less than twice `grain`.
    off, unit = (2 * noise.grain if noise.grain > 1 else 0), noise.grain
    law, step = _exact(noise, buckets)
    if law is not None and law.tail <= half / 64:
        low, high = law.central_interval(1 - 2 * half)
        rounding = unit * step if step > 1 else 0
        scale = unit * step / buckets
        return -low * scale + off + rounding, high * scale + off + rounding
    sums = Term.of(noise.law, times=buckets)
    mean = sums.mean / buckets

    def one(confidence: float) -> tuple[float, float]:
        low, high = noise.law.central_interval(confidence)
        return mean - low, high - mean

    below, above = bounded_margins(one, sums, buckets, half)
    return unit * below + off, unit * above + off


def bounded_margins(
    one: Callable[[float], tuple[float, float]], sums: Term, buckets: int, half: float
) -> tuple[float, float]:
    """Margins of one bucket's noise minus ΣZ/d. They hold even if the two depend on each other.

    `one` returns the margins of one bucket's noise at a confidence level. `sums` is ΣZ.
    """
    below, above = one(1 - 2 * half * (1 - _SHARE))
    under, over = reach([sums], half * _SHARE)
    # ΣZ/d is subtracted. So a large sum makes the answer too low.
    return below + over / buckets, above + under / buckets


@lru_cache(maxsize=32)
def _exact(noise: IndependentNoise, buckets: int) -> tuple[Law | None, int]:
    """The law of d times the error, and its step.

    If the step is above 1, the noise is rounded down to multiples of the step. The law is None if
    it is too long to compute.
    """
    deviation = noise.standard_error / noise.grain
    step = math.ceil(deviation * max(1 / _FINEST, _WINDOW * buckets / LONGEST))
    if step > 1 and deviation < _COARSEST * step:
        return None, 1
    law = noise.law if step == 1 else noise.law.binned(step)
    found = sum_law([Term.of(law, buckets - 1), Term.of(law, -1, buckets - 1)])
    return found if found is None else found.trimmed(2.0**-60), step
