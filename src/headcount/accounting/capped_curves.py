"""The privacy curve of capped noise. `capped` describes the noise and the adversary's view."""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.buckets import MovedCurve
from headcount.accounting.capped import RARE, CappedNoise, CrowdLaw, HonestPeople, crowd_law
from headcount.accounting.divergence import PairCurve
from headcount.accounting.laws import ROUNDING, Law
from headcount.core.cached import cached_property
from headcount.core.guarantee import PrivacyCurve

_STEPS = 1000  # losses are split between neighboring multiples of ε/1000
_LARGEST = 4.0  # losses above max(4, 4ε) count as infinite
_LARGEST_EXPONENT = 100.0  # the cut-off is lowered by e^−ε, but by no more than e^−100
_BENDS = 400  # the number of points that an `AverageCurve` lists as its bends


def capped_curve(
    noise: CappedNoise, crowds: HonestPeople, epsilon: float, delta: float
) -> PrivacyCurve:
    """The privacy curve of this noise. It is most accurate near the budget (ε, δ).

    Outcomes with probabilities far below δ are cut off, and these probabilities are added to the
    curve.
    """
    thin, rare = crowds.thinned(noise), delta * RARE[crowds.moved]
    if not crowds.moved:
        # Cutting off an outcome raises the computed δ by up to e^ε times its probability.
        rare *= math.exp(-min(epsilon, _LARGEST_EXPONENT))
    views = (crowd_law(thin, some.people, rare) for some in crowds.ranges)
    if crowds.moved:
        curves = [_moved(view, epsilon, rare) for view in views]
    else:
        curves = [PairCurve.both_directions(view.law, view.moved) for view in views]
    if crowds.exact:
        return curves[0]
    weights = np.array([some.weight for some in crowds.ranges])
    return AverageCurve(tuple(curves), weights, crowds.missed)


def _moved(view: CrowdLaw, epsilon: float, rare: float) -> PrivacyCurve:
    law, nobody = view.law, np.zeros(view.width)
    left, held = np.concatenate([law.mass, nobody]), np.concatenate([nobody, law.mass])
    step = epsilon / _STEPS
    leaving, entering = (
        _coarse(upper, lower, law, step, rare) for upper, lower in ((held, left), (left, held))
    )
    return MovedCurve(leaving, entering)


def _coarse(
    upper: NDArray[np.float64], lower: NDArray[np.float64], law: Law, step: float, rare: float
) -> tuple[Law, Law]:
    """A pair of laws with fewer outcomes that dominates the pair of `upper` and `lower`.

    Each outcome is split into two outcomes. Their losses are the nearest multiples of `step` below
    and above the loss of the original outcome. The split can be undone, so the new pair dominates
    the old pair. Outcomes with tiny masses count as having an infinite loss.
    """
    likely = np.flatnonzero(upper > rare / len(upper))
    high, low = upper[likely], lower[likely]
    with np.errstate(divide="ignore"):
        losses = np.log(high / low)
    # The masses have a relative error of `slack`. Finite logarithms are between −800 and 800, so
    # 2000·ROUNDING exceeds their rounding errors.
    losses += 2.1 * law.slack + 2000 * ROUNDING
    most = int(max(_LARGEST, _LARGEST * step * _STEPS) / step)
    infinite = losses > most * step
    before = np.clip(np.floor(losses / step), -most, most - 1)
    # `smaller` is the share of an outcome that gets the smaller loss. With this share, the split
    # also keeps the total mass of `lower`.
    smaller = np.clip(np.expm1((before + 1) * step - losses) / math.expm1(step), 0.0, 1.0)
    smaller[infinite] = 0.0
    # The grid point most + 1 stands for an infinite loss.
    at = before.astype(np.int64) + most
    at[infinite] = 2 * most
    size = 2 * most + 2
    mass = np.zeros(size)
    for places, masses in ((at, high * smaller), (at + 1, high * (1 - smaller))):
        mass += np.bincount(places, weights=masses, minlength=size) * (1 + law.slack)
    other = mass * np.exp(-step * np.arange(-most, most + 2))
    other[-1] = 0.0
    slack = (len(high) + 64) * ROUNDING
    return Law(0, mass, slack, law.tail + rare), Law(0, other, slack)


@dataclass(frozen=True, eq=False)
class AverageCurve(PrivacyCurve):
    """The curve if one of several curves applies at random, and the adversary knows which curve.

    Each curve applies with its probability in `weights`. With probability `missed`, none of them
    applies, and this probability is added to δ in full.
    """

    curves: tuple[PrivacyCurve, ...]
    weights: NDArray[np.float64] = field(repr=False)
    missed: float

    def _delta(self, epsilon: float) -> float:
        known = np.array([curve.delta(epsilon) for curve in self.curves])
        return min(1.0, self.missed + float(self.weights @ known) * (1 + 64 * ROUNDING))

    def _deltas(self, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        known = np.array([curve.deltas(epsilons) for curve in self.curves])
        total: NDArray[np.float64] = self.weights @ known * (1 + 64 * ROUNDING)
        return np.minimum(1.0, self.missed + total)

    @cached_property
    def bends(self) -> NDArray[np.float64]:
        """Points between which δ may be interpolated. The curve has too many bends to list them
        all.
        """
        ends = [(curve.bends[0], curve.bends[-1]) for curve in self.curves]
        return np.linspace(min(low for low, _ in ends), max(high for _, high in ends), _BENDS)
