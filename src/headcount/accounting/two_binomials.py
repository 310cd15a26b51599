"""Tail probabilities of many sums of two binomial variables, computed at once.

Notation    N is the sum of independent Bin(c, p) and Bin(c', p') variables, M(s) = E[e^{sN}], and m
            is an integer above E[N].
Numerics    For any θ > 0 and any period k, P(N ≥ m) is about

                (1/k) Σ_j M(s_j) e^{−s_j m}/(1 − e^{−s_j}),  s_j = θ + 2πij/k.

            Because of the period, the sum also contains e^{jθk}·P(N ≥ m+jk) for all j ≠ 0. These
            extra terms are called images. Each image with j < 0 is at most e^{−θk}. By Chernoff's
            bound, each image with j > 0 is at most M((1+h)θ)·e^{−(1+h)θm − hθk} for any h > 0. All
            images are positive, so the sum remains an upper bound. A frequency s that is left out
            has |M(s)| ≤ M(θ)·e^{−v(1−cos Im s)}, where v is the variance of N under the tilted law.
            Bounds on the frequencies left out and on rounding errors are added to the sum.
"""

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import special

from headcount.accounting.inversion import polar
from headcount.accounting.laws import ROUNDING

Reals: TypeAlias = NDArray[np.float64]
_SPARE = 16.0  # each error is at most e^−16 times the wanted precision, apart from rounding
_LARGEST_TILT = 4.0  # the largest θ that is used
_TILTS = 4  # the number of steps in the search for a good tilt
_RISES = (1.0, 0.5, 0.25, 0.125)  # the values of h that are tried
_BLOCK = 1024  # the number of sums that are computed at a time
_TINY = 1e-300


@dataclass(frozen=True)
class TwoBinomials:
    """Many laws of N. Each law has its own numbers of trials c and c'.

    All laws share the two probabilities of success p and p', and the two probabilities of failure.
    """

    trials: tuple[Reals, Reals]
    success: tuple[float, float]
    failure: tuple[float, float]

    @property
    def mean(self) -> Reals:
        return self._sum(*self.success)

    @property
    def variance(self) -> Reals:
        return self._sum(*(p * q for p, q in zip(self.success, self.failure, strict=True)))

    def at_least(self, numbers: Reals, precision: float) -> Reals:
        """P(N ≥ m) for each m, rounded up.

        The result is too large by less than a millionth of `precision`, plus rounding errors.
        """
        above, tails = numbers > self.mean, np.empty(len(numbers))
        tails[above] = self._where(above)._beyond(numbers[above], precision)[0]
        # For m below the mean, use the complement: fewer than m trials succeed, so more than
        # (all trials − m) trials fail.
        failing = TwoBinomials(self.trials, self.failure, self.success)._where(~above)
        least_failures = self._sum(1.0, 1.0)[~above] - numbers[~above] + 1
        complement, error = failing._beyond(least_failures, precision)
        tails[~above] = np.minimum(1 - complement + error, 1.0)
        return tails

    def _where(self, some: NDArray[np.bool_] | NDArray[np.int64]) -> "TwoBinomials":
        one, two = self.trials
        return TwoBinomials((one[some], two[some]), self.success, self.failure)

    def _sum(self, one: Reals | float, two: Reals | float) -> Reals:
        """The sum over all trials. Trials of the first kind add `one`, all others add `two`."""
        return self.trials[0] * one + self.trials[1] * two

    def _log(self, tilt: Reals) -> Reals:
        """The logarithm ln M(θ)."""
        return self._sum(*(np.log1p(p * np.expm1(tilt)) for p in self.success))

    def _tilted(self, tilt: Reals) -> tuple[Reals, Reals]:
        """The tilted probabilities of success."""
        one, two = (
            p / np.maximum(p + q * np.exp(-tilt), _TINY)
            for p, q in zip(self.success, self.failure, strict=True)
        )
        return one, two

    def _tilt(self, numbers: Reals) -> Reals:
        """A tilt θ that moves the mean of N to about m. Then all terms of the sum are about as
        small as the tail.

        The mean is moved by at least two standard deviations. If p = p', the first step of the
        search is already exact.
        """
        most, deviation = self._sum(1.0, 1.0), np.sqrt(self.variance)
        wanted = np.minimum(np.maximum(numbers, self.mean + 2 * deviation), most - 0.5) / most
        tilt = np.zeros(len(numbers))
        for _ in range(_TILTS):
            one, two = self._tilted(tilt)
            share = np.clip(self._sum(one, two) / most, _TINY, 1 - ROUNDING)
            spread = self._sum(one * (1 - one), two * (1 - two)) / most
            rise = np.maximum(spread / (share * (1 - share)), _TINY)
            tilt = tilt + (special.logit(wanted) - special.logit(share)) / rise
            tilt = np.clip(tilt, 0.5 / (1 + deviation), _LARGEST_TILT)
        return tilt

    def _beyond(self, numbers: Reals, precision: float) -> tuple[Reals, Reals]:
        """P(N ≥ m) for each m above the mean, rounded up, and bounds on the amounts that were added
        to round up.
        """
        spare = _SPARE - math.log(precision)
        tilt = self._tilt(numbers)
        # `bound` is an upper bound on ln P(N ≥ m).
        bound = self._log(tilt) - tilt * numbers - np.log(-np.expm1(-tilt))
        tails = np.full(len(numbers), math.exp(-spare))
        errors = tails.copy()
        likely = (bound > -spare) & (numbers <= self._sum(1.0, 1.0))
        images = [
            (spare + self._log((1 + h) * tilt) - (1 + h) * tilt * numbers) / (h * tilt)
            for h in _RISES
        ]
        period = np.ceil(np.maximum(spare / tilt, np.min(images, axis=0)))
        one, two = self._tilted(tilt)
        variance = np.maximum(self._sum(one * (1 - one), two * (1 - two)), _TINY)
        cut = np.arccos(np.maximum(1 - (spare + np.maximum(bound, 0.0)) / variance, -1.0))
        nodes = np.ceil(cut * period / (2 * math.pi))
        order = np.flatnonzero(likely)[np.argsort(nodes[likely])]
        for start in range(0, len(order), _BLOCK):
            at = order[start : start + _BLOCK]
            tails[at], errors[at] = self._where(at)._inverted(
                numbers[at], tilt[at], period[at], nodes[at].max(), math.exp(-spare)
            )
        return tails, errors

    def _inverted(
        self, numbers: Reals, tilt: Reals, period: Reals, nodes: float, left_out: float
    ) -> tuple[Reals, Reals]:
        """The sums over frequencies, rounded up, and bounds on the amounts that were added to round
        up.
        """
        place = np.arange(nodes + 1)[:, None]
        angle = 2 * math.pi / period * place
        # A frequency and its negative add equal amounts, so one of them counts twice. At half the
        # period, the two coincide and count once.
        weight = np.where(place == 0, 1.0, 2.0) * (2 * place < period) + (2 * place == period)
        size, phase = np.zeros(angle.shape), -angle * numbers
        for trials, p in zip(self.trials, self._tilted(tilt), strict=True):
            log, turn = polar(-2 * p * np.sin(angle / 2) ** 2, p * np.sin(angle))
            size += trials * log
            phase += trials * turn
        kernel = 1 / -np.expm1(-(tilt + 1j * angle))
        share = weight * np.exp(size) / period
        scale = np.exp(self._log(tilt) - tilt * numbers)
        total = scale * np.sum(share * (np.exp(1j * phase) * kernel).real, axis=0)
        one, two = self._tilted(tilt)
        terms = (tilt + angle[-1]) * (numbers + self._sum(one, two))
        wrong = (
            ROUNDING * (64 + nodes + 16 * terms) * scale * np.sum(share * np.abs(kernel), axis=0)
        )
        # The images on both sides together are less than twice `left_out`.
        return np.clip(total + wrong + left_out, 0.0, 1.0), 2 * wrong + 5 * left_out
