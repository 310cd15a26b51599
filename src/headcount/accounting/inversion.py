"""Sums that decide amplification, inverted from generating functions where nothing cancels.

Numerics    g(t) and E[(ΣG)₊] are both inverted from generating functions on a line Re s = θ > 0,
                (1/N) Σ_j κ(s_j)·e^{Λ(s_j) − s_j t},  s_j = θ + 2πij/N,
            where nothing cancels however small δ is. What the period N folds in, what the
            frequencies left out amount to, and rounding are bounded and added.
"""

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.laws import LEAST_FLOAT, UNIT

MOST_NOISE = 1e8  # lies, or messages from the blanket: more people only add to it
_WINDOW = np.arange(-2, 3)  # where g(t) is looked at, around its largest value
_SMOOTHING = 2e-3  # a blanket's δ is too large by half its square, relatively
_TILTS = tuple(2.0**-i for i in range(7))  # tried in Chernoff's bounds

Reals = NDArray[np.float64]
Integers = NDArray[np.int64]


class Flips:
    """The divergences of many datasets at once, rounded up.

    Σ_t g(t) e^{st} = κ(s)·E[e^{sW}] with κ(s) = c − f/(e^s−1), c = 1−q−e^ε q, f = e^ε−1, and
    E[e^{sW}] = a(s)^k·a(−s)^{n−1−k}, a(s) = 1−q+qe^s. The largest g(t) has P(W=t)/P(W=t−1) near
    c/(c+f): a tilt by e^θ = 1 + f/c makes its neighborhood the middle of the tilted law.
    """

    def __init__(self, honest: int, lie: Fraction, epsilon: float) -> None:
        factor = math.exp(min(epsilon, 700.0)) * (1 - 4 * UNIT)
        self.lie = float(lie)
        self.c = min(1.0, float(1 - lie * (1 + Fraction(factor))) * (1 + 4 * UNIT))
        self.f = math.expm1(min(epsilon, 700.0)) * (1 - 4 * UNIT)
        if self.c <= 0:
            return
        self.peak = min(math.log1p(self.f / self.c), 50.0)
        # A crowd with a δ of e^−300 is large enough.
        fall = -max(self._rates(self.peak))
        enough = 300 / fall if fall > 0 else math.inf
        self.others = int(min(honest - 1, MOST_NOISE / max(self.lie, 1e-30), enough))
        # Any tilt is right; but the period grows as it gets small.
        variance = self.others * self.lie * (1 - self.lie)
        self.theta = theta = max(self.peak, 1 / math.sqrt(variance + 1))

        # The period adds to g(t) its images e^{θrN} g(t + rN), r ≠ 0, and |g(t)| is at most
        # (c + f)·min(1, E[e^{zW}] e^{−zt}). On the left take 1, on the right z = (1+h)θ. N makes
        # e^{−θN} and e^{−hθN} negligible before g itself.
        rates = self._rates(theta)
        left = 50 - self.others * min(rates)
        steeper = ((h, np.subtract(self._rates((1 + h) * theta), rates)) for h in _TILTS)
        right, self.h = min(
            ((50 + 2 * (1 + h) * theta + self.others * max(0.0, *rise)) / h, h)
            for h, rise in steeper
        )
        self.period = 2 * math.ceil(max(left, right) / (2 * theta)) + 1

        # |a(θ+iu)/a(θ)|² = 1 − 2p(1−p)(1−cos u) falls with |u| ≤ π: stop where its power is e^−60.
        fall = self.others * min(p * (1 - p) for p in (self._tilted(theta), self._tilted(-theta)))
        last = math.acos(max(-1.0, 1 - 60 / fall)) if fall else math.pi
        count = min(self.period // 2, math.ceil(last * self.period / (2 * math.pi)))
        self.all_frequencies = count == self.period // 2
        angles = 2 * math.pi / self.period * np.arange(count + 1)
        self.s = theta + 1j * angles
        self.up, self.down = self._logs(theta, angles), self._logs(-theta, -angles)

        distance = np.expm1(self.s)
        share = np.where(angles > 0, 2.0, 1.0) / self.period
        kappa = self.c - self.f / distance
        self.kernel = (kappa * share)[:, None] * np.exp(-np.outer(self.s, _WINDOW))
        self.weight = (self.c + self.f / np.abs(distance)) * share

    def _tilted(self, tilt: float) -> float:
        """The probability p = q e^θ/a(θ) of a lie, tilted."""
        return self.lie / (self.lie + (1 - self.lie) * math.exp(-tilt))

    def _log(self, tilt: float) -> float:
        """The logarithm ln a(θ)."""
        return math.log1p(self.lie * math.expm1(tilt))

    def _logs(self, tilt: float, angles: Reals) -> NDArray[np.complex128]:
        """By ln a(θ + iu) = ln a(θ) + ln(1 + p(e^{iu} − 1))."""
        p = self._tilted(tilt)
        log, phase = _polar(-2 * p * np.sin(angles / 2) ** 2, p * np.sin(angles))
        return self._log(tilt) + log + 1j * phase

    def _rates(self, tilt: float) -> tuple[float, float]:
        """What each zero and each one adds to ln E[e^{θ(W−t)}], with t near the largest g(t)."""
        return (
            self._log(tilt) - tilt * self._tilted(self.peak),
            self._log(-tilt) + tilt * self._tilted(-self.peak),
        )

    def edge(self) -> float:
        """δ where everybody else holds the same value."""
        return float(self.bounds(np.array([0, self.others])).max())

    def bounds(self, first: Integers, spared: Integers | int = 0) -> Reals:
        """An upper bound on the divergences for k = first, …, first + spared zeros, each."""
        first, last = np.broadcast_arrays(first, self.others - first - spared)
        rows = max(1, 2**16 // len(self.s))
        slices = [slice(i, i + rows) for i in range(0, len(first), rows)]
        return np.concatenate([self._bounds(first[part], last[part]) for part in slices])

    def _bounds(self, zeros: Integers, ones: Integers) -> Reals:
        bound = np.full(len(zeros), self.c)  # that of a victim on his own, unless a peak is found
        middle = zeros * self._tilted(self.peak) - ones * self._tilted(-self.peak)
        middle = np.clip(np.floor(middle + 0.5), -ones, zeros)
        left = np.arange(len(zeros))
        for _ in range(64):
            values, error, log_unit = self._divergences(zeros[left], ones[left], middle[left])
            # g rises, then falls: if it is lower at both ends for sure, then beyond them too.
            ends, sure = (values + error)[:, [0, -1]].max(axis=1), (values - error).max(axis=1)
            with np.errstate(over="ignore"):  # where the peak is not found yet
                top = (values + error).max(axis=1) * np.exp(log_unit) * (1 + 8 * UNIT)
            found = ends < sure
            bound[left[found]] = np.clip(top, LEAST_FLOAT, self.c)[found]
            move = _WINDOW[values.argmax(axis=1)]
            middle[left] += move
            left = left[~found & (move != 0)]
            if not len(left):
                break
        return bound

    def _divergences(
        self, zeros: Integers, ones: Integers, middle: Reals
    ) -> tuple[Reals, Reals, Reals]:
        """g(t) in a window around the middle, how far off it may be, and the log of their unit."""
        logs, phases = (
            np.outer(zeros, up) + np.outer(ones, down) - np.outer(middle, s)
            for up, down, s in (
                (self.up.real, self.down.real, self.s.real),
                (self.up.imag, self.down.imag, self.s.imag),
            )
        )
        log_unit = logs[:, 0].copy()
        sizes = np.exp(logs - log_unit[:, None])
        values = (sizes * np.cos(phases)) @ self.kernel.real
        values -= (sizes * np.sin(phases)) @ self.kernel.imag

        # Exponents are good to a few units of the terms that they are added up from.
        terms = zeros * np.abs(self.up).max() + ones * np.abs(self.down).max()
        terms += np.abs(middle) * np.abs(self.s).max()
        error = UNIT * (16 * terms + len(self.s) + 32) * (sizes @ self.weight)
        error += 16 * UNIT * self.weight.sum()
        if not self.all_frequencies:
            error += sizes[:, -1] * self.weight[-1] * self.period / 2
        errors = np.outer(error, np.exp(-self.theta * _WINDOW))

        z = (1 + self.h) * self.theta
        right = zeros * self._log(z) + ones * self._log(-z) - z * (middle + _WINDOW[0])
        images = -self.theta * self.period, right - self.h * self.theta * self.period
        for image in images:
            folded = np.exp(np.minimum(image - log_unit, 600.0))
            errors += 2 * (self.c + self.f) * folded[:, None]
        return values, errors, log_unit


def positive_part(n: int, gain: Reals, mass: Reals) -> float:
    """E[(G₁ + … + G_n)₊], rounded up, for independent gains of such masses, else 0.

    Here κ(s) = 1/s², t = 0 and Λ(s) = n ln M(s), M(s) = E[e^{sG}]. Independent noise of mean zero
    only adds to the expectation of a convex function; a little, normal, makes the sum converge.
    What the period folds in is positive, and only adds too.
    """
    theta = _tilt(n, gain, mass)
    if theta * gain.max() > 600:
        return math.inf  # rarer than floats can follow
    log_total = _log_total(theta, gain, mass)
    # Chernoff's bound, by (x)₊ ≤ e^{θx}/(eθ), will do for what is below any δ that matters.
    if n * log_total < -100:
        return math.exp(n * log_total) / theta
    tilted = mass * np.exp(theta * gain - log_total)
    # By the same bound, the tilted sum is hardly ever a period away from 0, on either side.
    rises = ((h, _log_total((1 + h) * theta, gain, mass) - log_total) for h in _TILTS)
    period = max(35 - n * log_total, min((25 + n * rise) / h for h, rise in rises)) / theta
    noise = _SMOOTHING / theta
    count = math.ceil(5 / noise * period / (2 * math.pi))
    u = 2 * math.pi / period * np.arange(count + 1)
    # |e^{(noise·s)²/2}/s²|, but for a constant.
    share = np.where(u > 0, 2.0, 1.0) * np.exp(-((noise * u) ** 2) / 2) / (theta**2 + u**2)
    # Frequencies dropped below, and Σ over j > count as an integral.
    left_out = 2 * math.exp(-60) * float(share.sum())
    left_out += 2 * period * math.exp(-12.5) / (25 * math.pi * float(u[-1]))

    # M(θ+iu)/M(θ) = 1 + Σ p(e^{iug} − 1), and its part without the gains above 0: with none of
    # them the sum is at most 0, which adds nothing, and must not get noise.
    sine, cosine = np.sin(np.outer(gain / 2, u)), np.cos(np.outer(gain / 2, u))
    real, imaginary = 1 - 2 * sine**2, 2 * sine * cosine
    above = np.where(gain > 0, tilted, 0.0)
    x, y = -2 * tilted @ sine**2, tilted @ imaginary
    x, y = np.array([x, x - above @ real]), np.array([y, y - above @ imaginary])
    kept = (2 * x + x**2 + y**2).max(axis=0) > math.expm1(-120 / n)
    x, y, u, share = x[:, kept], y[:, kept], u[kept], share[kept]
    log, phase = _polar(x, y)
    turn = noise**2 * theta * u - 2 * np.arctan2(u, theta)
    powers = np.exp(n * log) * np.cos(n * phase + turn)
    total = float((powers[0] - powers[1]) @ share) + left_out

    # |z^n − z'^n| ≤ n|z − z'|·max(|z|, |z'|)^{n−1}, and |z'| ≤ max(|z|, ½)(1 + 2|z − z'|).
    drift = (u + theta) * float(tilted @ np.abs(gain)) + abs(log_total)
    wrong = 16 * UNIT * (len(gain) + drift)
    slope = 2 * n * np.exp((n - 1) * np.maximum(log, -math.log(2))).sum(axis=0)
    total += float((slope * wrong + UNIT * (count + 64)) @ share)
    log_scale = n * log_total + _SMOOTHING**2 / 2
    log_scale += 16 * UNIT * n * (len(gain) + 1) * float(mass @ np.abs(np.expm1(theta * gain)))
    return math.exp(log_scale) * total / period * (1 + 256 * UNIT)


def _log_total(theta: float, gain: Reals, mass: Reals) -> float:
    """The logarithm ln M(θ), of a measure that dominates the true one and exceeds 1 by a little."""
    return math.log1p(64 * UNIT + float(mass @ np.expm1(np.minimum(theta * gain, 700.0))))


def _tilt(n: int, gain: Reals, mass: Reals) -> float:
    """About the θ that minimizes M(θ)^n/θ², where the terms are smallest."""

    def rising(theta: float) -> bool:
        tilted = mass * np.exp(np.minimum(theta * gain, 700.0))
        total = 1 - float(mass.sum()) + float(tilted.sum())
        return n * float(tilted @ gain) * theta > 2 * total

    low = 1e-3 / n
    while not rising(2 * low):
        low *= 2
    high = 2 * low
    for _ in range(8):
        middle = (low + high) / 2
        low, high = (low, middle) if rising(middle) else (middle, high)
    return high


def _polar(x: Reals, y: Reals) -> tuple[Reals, Reals]:
    """The log modulus and the angle of z = 1 + x + iy; near z = 1 to relative precision."""
    square = 2 * x + x**2 + y**2
    near = square > -0.5
    far = np.maximum((1 + x) ** 2 + y**2, 1e-300)
    log_square = np.where(near, np.log1p(np.where(near, square, 0.0)), np.log(far))
    return log_square / 2, np.arctan2(y, 1 + x)
