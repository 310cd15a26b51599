"""A privacy filter: it limits releases even if earlier answers decide which release comes next.

If earlier answers decide the next privacy *curve*, the privacy loss can exceed the result of
composing privacy loss distributions. A Rényi filter (Feldman and Zrnic 2021; Lécuyer 2021) remains
valid in this case. The order α of the filter is fixed before the first answer. The cost of a
release then depends only on the curve of this release.

**What a release costs.** Let P and Q be the laws of a release on neighboring datasets D and D', and
let HS_ε be the hockey-stick divergence. The release is (η, d)-private. In both directions, its
curve is at most the curve h of a dominating law. Divide P into two parts, P = G + B, where
G = min(P, e^c·Q), and c is chosen so that B has mass d. Then c ≤ η, because at c = η the mass of B
is at most d. So

    G ≤ e^η·Q,     and     HS_ε(G‖Q) = (HS_ε(P‖Q) − d)₊ ≤ (h(ε) − d)₊,   which is 0 for ε ≥ η.

The moment E_Q[(G/Q)^α] grows with the curve of G. So the bound on this curve gives a bound
e^((α−1)ρ) on the moment. The function `divergence` computes ρ. The release costs (η, d, ρ).

**What is accepted.** The δ of a limit (ε, δ) is divided into two halves. Releases are accepted
while

    Σd ≤ δ/2,     and     Ση ≤ ε  or  Σρ ≤ R,     where   C·e^((α−1)(R − ε)) = δ/2

and C = (1 − 1/α)^(α−1)/α. The sums never fall. So if a sequence of releases is accepted, every
prefix of this sequence is accepted too.

**Why the limit holds.** It holds for every strategy that chooses the releases. A path is a sequence
of answers. Let P and Q now be the laws of whole paths. Let G now be the product of the parts G of
all releases along a path.

1. The mass of P − G is the probability that at least one answer falls into the part B of its
   release. Given the earlier answers, the next answer falls into B with probability d. So the mass
   of P − G is at most the largest Σd of any path, and this is at most δ/2.
2. Some paths end with Ση ≤ ε. On these paths, G ≤ e^(Ση)·Q ≤ e^ε·Q.
3. The other paths end with Σρ ≤ R. Stop every path before the first release that would bring Σρ
   above R. This does not change the paths with Σρ ≤ R. Let X be G/Q of the stopped path. Each step
   multiplies the mean of X^α·e^(−(α−1)Σρ) under Q by at most 1, so E_Q[X^α] ≤ e^((α−1)R). For all
   x ≥ 0, x − e^ε ≤ C·e^(−(α−1)ε)·x^α, with equality at x = e^ε·α/(α−1). So every event E that
   consists of paths with Σρ ≤ R has G(E) − e^ε·Q(E) ≤ E_Q[(X − e^ε)₊] ≤ δ/2.
4. Hence, for any event E, P(E) − e^ε·Q(E) is at most the sum of three terms: δ/2 by step 1, 0 for
   the paths of step 2, and δ/2 for the paths of step 3.

The conditions on Σd and on Σρ cannot be replaced by one condition on a single sum. The first half
of δ bounds a probability under P. The second half bounds a probability under another measure. A
strategy may spend the first half where P is large, and the second half elsewhere.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.dominating import DominatingLaw

PARTS = 2  # δ is divided into this many parts: one for Σd and one for Σρ
_ROUNDING = 1e-9  # sums of floats are rounded up by this relative amount
# The orders α that `best_order` tries.
_ORDERS = [1 + float(f"{10 ** (power / 40):.3g}") for power in range(-120, 361)]
_MARGIN = 1e-15  # differences of probabilities are rounded up by this amount
_NARROW = 0.01  # if α times an interval's width is below this, the exact formula loses precision


def best_order(epsilon: float, delta: float) -> float:
    """The order α that allows the most releases within a limit, if the divergence of each release
    is proportional to α, as it is for Gaussian noise.
    """
    return max(_ORDERS, key=lambda order: allowance(order, epsilon, delta) / order)


def allowance(order: float, epsilon: float, delta: float) -> float:
    """R, the largest accepted sum of divergences. It is rounded down, and may be negative."""
    spare = _log_share(order, delta) / (order - 1)
    return epsilon - spare - 3 * _ROUNDING * (epsilon + abs(spare))


def least_epsilon(order: float, divergences: float, delta: float) -> float:
    """The smallest ε with which this sum of divergences is accepted, rounded up."""
    spare = _log_share(order, delta) / (order - 1)
    return max(0.0, divergences + spare + _ROUNDING * (divergences + abs(spare)))


def least_delta(order: float, divergences: float, epsilon: float) -> float:
    """The smallest δ with which this sum of divergences is accepted, rounded up and at most 1."""
    if divergences <= 0:
        return 0.0
    spare = (order - 1) * (epsilon - divergences - _ROUNDING * (epsilon + divergences))
    return min(1.0, PARTS * math.exp(min(0.0, _log_constant(order) - spare)))


def _log_share(order: float, delta: float) -> float:
    """The logarithm ln(C/(δ/2))."""
    return _log_constant(order) - math.log(delta / PARTS)


def _log_constant(order: float) -> float:
    """The logarithm of C."""
    return (order - 1) * math.log1p(-1 / order) - math.log(order)


@lru_cache(maxsize=4096)
def divergence(law: DominatingLaw, epsilon: float, delta: float, order: float) -> float:
    """The divergence ρ of an (epsilon, delta)-private release whose curve the law dominates.

    The result is rounded up, and may be infinite. Let X = G/Q and k = e^ε. All means are taken
    under Q. By Taylor's formula and E[X] ≤ 1, the moment E[X^α] is at most 1 plus two integrals
    with the weight α(α−1)k^(α−2). The first is the integral of E[(X − k)₊] over k > 1. The second
    is the integral of E[(k − X)₊] over k < 1. Both means are convex in k, so chords between known
    points lie above them. The first mean, E[(X − k)₊], is HS_ε(G‖Q). The second mean is
    E[(k − X)₊] = E[(X − k)₊] + k − (1 − delta), where 1 − delta is the mass of G.
    """
    known = law.grid * law.step
    middle = [max(0.0, law.delta(0.0))]
    up, down = (known > 0) & (known < epsilon), known < 0
    above = np.concatenate([[0.0], known[up], [epsilon]])
    below = np.concatenate([known[down], [0.0]])
    excess = np.maximum(0.0, np.concatenate([middle, law.deltas[up], [delta]]) - delta) + _MARGIN
    excess[above >= epsilon] = 0.0
    lack = np.maximum(np.concatenate([law.deltas[down], middle]), delta) + np.expm1(below)
    lack = np.maximum(0.0, lack) + _MARGIN
    # Below the first point, the chord starts at k = 0 with the value 0.
    first = lack[0] * (order - 1) * math.exp((order - 1) * below[0])
    total = first + _integral(below, lack, order) + _integral(above, excess, order)
    return math.log1p(total * (1 + _ROUNDING)) / (order - 1) * (1 + _ROUNDING)


def _integral(losses: NDArray[np.float64], values: NDArray[np.float64], order: float) -> float:
    """The integral over k of α(α−1)k^(α−2) times a function of k, rounded up.

    The function has the given values at k = e^loss, and is linear in between.
    """
    low, high = losses[:-1], losses[1:]
    wide = high - low
    step = np.expm1(wide)  # the length of the interval in k, relative to its lower end
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        # `falling` and `rising` are the weights of the values at the lower and the upper end.
        # Integration by parts gives ∫ (k^α)″·(upper − k) dk and ∫ (k^α)″·(k − lower) dk.
        growth = np.expm1(order * wide)
        falling = (growth - order * step) / step
        rising = (order * step * np.exp((order - 1) * wide) - growth) / step
        # If the ends are too close for these formulas, a bound is used instead. It replaces
        # α(α−1)k^(α−2) by its larger value at the two ends.
        most = order * (order - 1) * np.exp(np.maximum(0.0, (order - 2) * wide)) * step / 2
        close = order * wide < _NARROW
        scale = np.exp((order - 1) * low)
        falling, rising = (np.where(close, most, part) * scale for part in (falling, rising))
        parts = _times(falling, values[:-1]) + _times(rising, values[1:])
    return float(parts.sum())


def _times(weights: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The product, where 0 times an infinite weight is 0, and any other NaN becomes infinite."""
    product = np.where(values > 0, weights * values, 0.0)
    return np.nan_to_num(product, nan=math.inf, posinf=math.inf)
