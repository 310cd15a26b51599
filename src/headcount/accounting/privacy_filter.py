"""A privacy filter: how much may be released if every next release is chosen by earlier answers.

Who chooses the next *curve* by what came out before can make more of privacy losses than composed
distributions say. A Rényi filter (Feldman and Zrnic 2021; Lécuyer 2021) allows for that. Its order
α is fixed before the first answer; each release then costs a number that depends on its curve
alone.

**What a release costs.** Take neighbors D, D', and let P and Q be the laws of a release on them. It
is (η, d)-private, and its curve lies nowhere above a dominating law's curve h, in both directions.
Cut P into two parts, P = G + B, where G = min(P, e^c·Q) for the c with which B has mass d. Then
c ≤ η, since at η no more than d is cut off. So

    G ≤ e^η·Q,     and     HS_ε(G‖Q) = (HS_ε(P‖Q) − d)₊ ≤ (h(ε) − d)₊,   which is 0 from η on.

The moment E_Q[(G/Q)^α] is a rising function of the curve of G (`divergence`), so these points bound
it, by e^((α−1)ρ). The release costs (η, d, ρ).

**What is accepted.** A limit (ε, δ) is divided in two halves. Releases are accepted while

    Σd ≤ δ/2,     and     Ση ≤ ε  or  Σρ ≤ R,     where   C·e^((α−1)(R − ε)) = δ/2

and C = (1 − 1/α)^(α−1)/α. All sums only grow: if a sequence of releases is accepted, each of its
beginnings is, too.

**Why the limit holds**, whatever strategy chooses the releases. Let P and Q now be the laws of all
answers together, and G the measure that is the product of the parts G along every path.

1. P exceeds G by the chance that some release takes its part B. Given what came before, that is d
   at each step, so it is at most the largest Σd along a path: δ/2.
2. Some paths end with Ση ≤ ε. On these, factors multiply to G ≤ e^(Ση)·Q ≤ e^ε·Q.
3. The other paths end with Σρ ≤ R. Stop all paths before the first release that would bring Σρ
   above R: that changes none of these. Let X be G/Q of the stopped path. Each step multiplies the
   mean of X^α·e^(−(α−1)Σρ) under Q by at most 1, so that E_Q[X^α] ≤ e^((α−1)R). And for all x ≥ 0,
   x − e^ε ≤ C·e^(−(α−1)ε)·x^α, with equality at x = e^ε·α/(α−1). So every event E of such paths has
   G(E) − e^ε·Q(E) ≤ E_Q[(X − e^ε)₊] ≤ δ/2.
4. So P(E) − e^ε·Q(E) of any event E is at most δ/2 by the first step, plus 0 for its paths of the
   second, plus δ/2 for its paths of the third.

The two halves cannot be one sum: the first is weighed by P and the second by another measure, and a
strategy may spend the one where P is large and the other elsewhere.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.dominating import DominatingLaw

PARTS = 2  # into which δ is divided: one for Σd, and one for the divergences
_ROUNDING = 1e-9  # sums of floats are rounded up by this share
_ORDERS = [1 + float(f"{10 ** (power / 40):.3g}") for power in range(-120, 361)]
_UNITS = 1e-15  # differences of probabilities are rounded up by this much
_WIDE = 0.01  # of α times an interval of losses: less would lose digits to cancellation


def best_order(epsilon: float, delta: float) -> float:
    """The order α for a limit: the one that allows the most releases, if the divergence of each is
    proportional to α, as with noise.
    """
    return max(_ORDERS, key=lambda order: allowance(order, epsilon, delta) / order)


def allowance(order: float, epsilon: float, delta: float) -> float:
    """R: what the divergences may add up to. It rounds down, and may be negative."""
    spare = _log_share(order, delta) / (order - 1)
    return epsilon - spare - 3 * _ROUNDING * (epsilon + abs(spare))


def least_epsilon(order: float, divergences: float, delta: float) -> float:
    """The least ε that allows these divergences; rounded up."""
    spare = _log_share(order, delta) / (order - 1)
    return max(0.0, divergences + spare + _ROUNDING * (divergences + abs(spare)))


def least_delta(order: float, divergences: float, epsilon: float) -> float:
    """The least δ that allows these divergences; rounded up, and at most 1."""
    if divergences <= 0:
        return 0.0
    spare = (order - 1) * (epsilon - divergences - _ROUNDING * (epsilon + divergences))
    return min(1.0, PARTS * math.exp(min(0.0, _log_constant(order) - spare)))


def _log_share(order: float, delta: float) -> float:
    """Ln of C over the half of δ."""
    return _log_constant(order) - math.log(delta / PARTS)


def _log_constant(order: float) -> float:
    """Ln C."""
    return (order - 1) * math.log1p(-1 / order) - math.log(order)


@lru_cache(maxsize=4096)
def divergence(law: DominatingLaw, epsilon: float, delta: float, order: float) -> float:
    """ρ of a release of (epsilon, delta) whose curve the law dominates; rounded up, maybe infinite.

    With X = G/Q and k = e^ε, the moment E[X^α] is at most 1 plus the integrals of α(α−1)k^(α−2)
    times E[(X − k)₊] above 1, and times E[(k − X)₊] below it (Taylor, and E[X] ≤ 1). Both means are
    convex in k, so chords between known points lie above them. E[(X − k)₊] is HS_ε(G‖Q), and
    E[(k − X)₊] is that, less the mass 1 − delta of G, plus k.
    """
    known = law.grid * law.step
    middle = [max(0.0, law.delta(0.0))]
    up, down = (known > 0) & (known < epsilon), known < 0
    above = np.concatenate([[0.0], known[up], [epsilon]])
    below = np.concatenate([known[down], [0.0]])
    excess = np.maximum(0.0, np.concatenate([middle, law.deltas[up], [delta]]) - delta) + _UNITS
    excess[above >= epsilon] = 0.0
    lack = np.maximum(np.concatenate([law.deltas[down], middle]), delta) + np.expm1(below)
    lack = np.maximum(0.0, lack) + _UNITS
    # Below the first point: a chord from 0 at k = 0.
    first = lack[0] * (order - 1) * math.exp((order - 1) * below[0])
    total = first + _integral(below, lack, order) + _integral(above, excess, order)
    return math.log1p(total * (1 + _ROUNDING)) / (order - 1) * (1 + _ROUNDING)


def _integral(losses: NDArray[np.float64], values: NDArray[np.float64], order: float) -> float:
    """Of α(α−1)k^(α−2) times the chords between the values at k = e^loss; rounded up."""
    low, high = losses[:-1], losses[1:]
    wide = high - low
    step = np.expm1(wide)  # of k, as a share of the lower one
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        # By parts, with k^α: ∫ (k^α)″·(upper − k) dk, and that to the lower end.
        growth = np.expm1(order * wide)
        falling = (growth - order * step) / step
        rising = (order * step * np.exp((order - 1) * wide) - growth) / step
        # Where they are too close for that: no more than the larger end's weight.
        most = order * (order - 1) * np.exp(np.maximum(0.0, (order - 2) * wide)) * step / 2
        close = order * wide < _WIDE
        scale = np.exp((order - 1) * low)
        falling, rising = (np.where(close, most, part) * scale for part in (falling, rising))
        parts = _times(falling, values[:-1]) + _times(rising, values[1:])
    return float(parts.sum())


def _times(weights: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """A product in which 0 times an infinite weight is 0, and what is no number is infinite."""
    product = np.where(values > 0, weights * values, 0.0)
    return np.nan_to_num(product, nan=math.inf, posinf=math.inf)
