"""Inversion of the generating functions that `amplification` needs, without cancellation.

Notation    The module `amplification` defines g(t) and the G_i. This module computes g(t), and
            E[(ΣG − t)₊] at t = 0. Each of these functions of t has a generating function
            κ(s)·e^{Λ(s)}. Here e^{Λ(s)} is E[e^{sX}] for a sum X of independent random numbers, one
            for each bit or person. κ(s) is a simple factor, which `Flips` and `positive_part`
            define.
Numerics    The generating function is inverted on a line Re s = θ > 0 by a sum over integers j:
                (1/N) Σ_j κ(s_j)·e^{Λ(s_j) − s_j t},  s_j = θ + 2πij/N.
            On this line the terms do not cancel, however small δ is. The sum has period N in t, up
            to a factor, so values at t + jN are added to the value at t. N is chosen so large that
            these additional values are small. Three error bounds are added to the result: for these
            values, for the frequencies that are left out, and for rounding.
"""

import math
from fractions import Fraction
from operator import sub

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.laws import LEAST_FLOAT, ROUNDING

# The largest expected number of flipped bits, or of messages from the blanket, in a crowd. A crowd
# that exceeds this limit is treated as smaller, which can only increase δ.
MOST_NOISE = 1e8
# If people have many bits, the limit is raised, at most to this. Beyond it, rounding errors matter.
_MOST_FLIPS = 3e13
_MOST_BITS = 2**62  # the largest number of the other people's bits, which must fit into 64 bits
_WINDOW = np.arange(-3, 3)  # g(t) is evaluated at these multiples of a stride around its peak
# `positive_part` adds noise with the standard deviation σ/θ, where σ is this number. The noise
# raises δ by a relative amount of σ²/2.
_SMOOTHING = 2e-3
# Chernoff bounds at the tilt (1+h)θ are tried for these values of h.
_TILTS = tuple(2.0**-i for i in range(7))

Reals = NDArray[np.float64]
Integers = NDArray[np.int64]


class Flips:
    """The divergences of many datasets at once, rounded up. The module `amplification` explains g,
    W, k, q and t.

    With one bit per person, Σ_t g(t) e^{st} = κ(s)·E[e^{sW}] with κ(s) = c − f/(e^s−1),
    c = 1−q−e^ε q, f = e^ε−1, E[e^{sW}] = a(s)^k·a(−s)^{n−1−k} and a(s) = 1−q+qe^s. The ratio
    P(W=t)/P(W=t−1) is near c/(c+f) at the t with the largest g(t). So a tilt by e^θ = 1 + f/c moves
    the middle of the tilted law to this t.

    With r bits per person, the victim's bits are changed one by one. Then g(t) is a sum over i < r
    of e^{iε/r} times the g(t) of one bit at ε/r, where i of the victim's other bits are zeros and
    r−1−i are ones. So c and f are computed at ε/r, and κ gets an additional factor. With
    x = e^s a(−s), y = e^{ε/r} a(s) and D = ln x − ln y, this factor is
        Σ_i y^i x^{r−1−i} = x^{r−1}·(1 − e^{−rD})/(1 − e^{−D}).
    At the tilt above, D = 0. Re D grows with θ and with |Im s|, so |y| never exceeds |x|.

    Near its peak, g may be so flat that rounding errors hide its fall. Then g is evaluated at
    points that are farther apart (at larger strides). Of the two views, let V be the one with fewer
    ones. The masses of V fall beyond its mode. As a function of P(V ≤ t), g is concave, and its
    slope is e^ε minus the likelihood ratio. So beyond the mode of V, g rises less and less: if it
    rises by d in one stride, it rises by at most 4d in the next four strides.
    """

    def __init__(self, honest: int, lie: Fraction, epsilon: float, bits: int = 1) -> None:
        # `more` is the number of the victim's bits apart from the one that is being changed.
        self.bits, self.more = bits, bits - 1
        self.part = min(epsilon, 700.0) / bits
        factor = math.exp(self.part) * (1 - 4 * ROUNDING)
        self.lie = float(lie)
        self.c = min(1.0, float(1 - lie * (1 + Fraction(factor))) * (1 + 4 * ROUNDING))
        self.f = math.expm1(self.part) * (1 - 4 * ROUNDING)
        if self.c <= 0:
            return
        self.peak = min(math.log1p(self.f / self.c), 50.0)
        self.tilted_up, self.tilted_down = self._tilted(self.peak), self._tilted(-self.peak)
        # At most `enough` bits of other people are used, because so many bits already make δ about
        # e^−300. With r > 1 bits per person, these bits must also give noise as large as the change
        # that the victim causes.
        fall = -max(self._rates(self.peak)[:2])
        enough = 300 / fall if fall > 0 else math.inf
        moved = bits * (1 - 2 * self.lie)  # the mean change that the victim causes in the view
        if bits > 1:
            enough = max(enough, moved**2 / max(self.lie * (1 - self.lie), 1e-30))
        lies = max(MOST_NOISE, min((50 * moved) ** 2, _MOST_FLIPS))
        most = min(lies / max(self.lie, 1e-30), enough)
        self.others = int(min((honest - 1) * bits, most, _MOST_BITS))
        # Any tilt is valid, but a smaller tilt needs a longer period.
        variance = (self.others + self.more) * self.lie * (1 - self.lie)
        self.theta = theta = max(self.peak, 1 / math.sqrt(variance + 1))
        # Without a crowd, the change of bit number i < r adds at most c·e^{iε/r} to g(t).
        turns = math.expm1(self.part * bits) / self.f * (1 + 32 * ROUNDING) if self.f else bits
        self.alone = self.c if bits == 1 else min(1.0, self.c * turns)
        # Consider the midpoint between the view's means for the victim's two extreme values. If
        # `clear`, the view is on the wrong side of this midpoint with probability at most
        # e^{−40−ε}, by Bernstein's inequality. Then δ is 1 up to the precision of floats.
        clear = moved > 0 and moved**2 / (8 * variance + 2 * moved) > 40 + epsilon
        self.hopeless = bits > 1 and clear
        # In two strides, g usually falls by a relative amount of 2(θ·stride)², which exceeds the
        # rounding errors. If it falls less, larger strides are tried.
        stride = max(1, int(math.sqrt(5e-13 * variance / theta)))
        self.strides = [stride * 4**i for i in range(4) if i == 0 or stride * 4**i * theta < 0.05]

        # The period N adds the images e^{θjN} g(t + jN), j ≠ 0, to g(t). For each of the r changed
        # bits, |g(t)| is at most (c + f)·min(1, E[e^{zW}] e^{−zt}). The bound uses 1 for images on
        # the left, and z = (1+h)θ for images on the right. N is chosen so large that e^{−θN} and
        # e^{−hθN} are negligible compared with g.
        *rates, own = self._rates(theta)
        left = 50 - self.others * min(rates) - self.more * (own - self.part)
        right, self.h = math.inf, 1.0
        for h in _TILTS:
            *steeper, own_steeper = self._rates((1 + h) * theta)
            rise = self.others * max(0.0, *map(sub, steeper, rates))
            rise += self.more * (own_steeper - own)
            rise += 50 - (1 + h) * theta * self.strides[-1] * float(_WINDOW[0])
            right, self.h = min((right, self.h), (rise / h, h))
        self.period = 2 * math.ceil(max(left, right) / (2 * theta)) + 1

        # With p = q e^θ/a(θ), |a(θ+iu)/a(θ)|² is 1 − 2p(1−p)(1−cos u), which falls as |u| grows
        # from 0 to π. Each bit contributes such a ratio for θ or −θ. Frequencies u at which the
        # product of the ratios |a(θ+iu)/a(θ)| of all bits is surely below e^−60 are left out.
        fall = min(p * (1 - p) for p in (self._tilted(theta), self._tilted(-theta)))
        fall *= self.others + self.more
        last = math.acos(max(-1.0, 1 - 60 / fall)) if fall else math.pi
        count = min(self.period // 2, math.ceil(last * self.period / (2 * math.pi)))
        self.all_frequencies = count == self.period // 2
        angles: Reals = 2 * math.pi / self.period * np.arange(count + 1.0)
        self.s = theta + 1j * angles
        self.up, self.down = self._logs(theta, angles)
        every = (self.up, self.down, self.s)
        self.real_and_imaginary = tuple(one.real for one in every), tuple(one.imag for one in every)
        self.largest = tuple(float(np.abs(one).max()) for one in every)
        self._weigh(np.where(angles > 0, 2.0, 1.0) / self.period)

    def _weigh(self, share: Reals) -> None:
        """Sets three weights of each frequency: κ, |κ|, and a bound on the terms that make up κ.
        Also sets the arrays that depend on the weights and on the stride.
        """
        distance = np.expm1(self.s)
        kappa = self.c - self.f / distance
        self.weight = (self.c + self.f / np.abs(distance)) * share
        if self.more:
            ones = self.s + self.down
            power = np.exp(self.more * (ones - ones[0]))
            kappa *= power * _geometric(self.bits, ones - self.up - self.part)
            self.weight *= self.bits * np.abs(power)
        self.size = np.abs(kappa) * share
        self.total_weight = self.weight.sum()
        self.kernels = {
            stride: (kappa * share)[:, None] * np.exp(-np.outer(self.s, stride * _WINDOW))
            for stride in self.strides
        }
        self.tilts = {stride: np.exp(-self.theta * (stride * _WINDOW)) for stride in self.strides}
        z = (1 + self.h) * self.theta
        self.steeper = z, self._log(z), self._log(-z)

    def _tilted(self, tilt: float) -> float:
        """The tilted probability p = q e^θ/a(θ) of a lie."""
        return self.lie / (self.lie + (1 - self.lie) * math.exp(-tilt))

    def _log(self, tilt: float) -> float:
        """The logarithm ln a(θ), where θ is `tilt`."""
        return math.log1p(self.lie * math.expm1(tilt))

    def _logs(self, tilt: float, angles: Reals) -> NDArray[np.complex128]:
        """Two rows: the logarithms ln a(θ + iu) = ln a(θ) + ln(1 + p(e^{iu} − 1)) for all angles u,
        and the same for −θ and −u.
        """
        tilts = (tilt, -tilt)
        p = np.array([[self._tilted(one)] for one in tilts])
        sines = np.sin(angles)
        log, phase = polar(-2 * p * np.sin(angles / 2) ** 2, p * np.stack([sines, -sines]))
        return np.array([[self._log(one)] for one in tilts]) + log + 1j * phase

    def _rates(self, tilt: float) -> tuple[float, float, float]:
        """Three growth rates at a tilt θ, with t near the largest g(t).

        The first two are the amounts that each bit 0 and each bit 1 of the other people add to
        ln E[e^{θ(W−t)}]. The third is the amount that each of the victim's other bits adds to the
        logarithm of the largest term of κ·e^{−θt}. Here t is near the largest g(t) if half of these
        other bits are zeros and half are ones.
        """
        zero, one = self.tilted_up, 1 - self.tilted_down
        up, down = self._log(tilt), self._log(-tilt)
        return up - tilt * zero, down + tilt * (1 - one), down + tilt * (1 - (zero + one) / 2)

    def edge(self) -> float:
        """The largest δ of datasets in which all other people hold the same value."""
        return float(self.bounds(np.array([0, self.others])).max())

    def bounds(self, first: Integers, spared: Integers | int = 0) -> Reals:
        """For each `first`, an upper bound on the divergences at k = first, …, first + spared."""
        first, last = np.broadcast_arrays(first, self.others - first - spared)
        if self.hopeless:
            return np.full(len(first), self.alone)
        rows = max(1, 2**16 // len(self.s))
        slices = [slice(i, i + rows) for i in range(0, len(first), rows)]
        return np.concatenate([self._bounds(first[part], last[part]) for part in slices])

    def _bounds(self, zeros: Integers, ones: Integers) -> Reals:
        up, down = self.tilted_up, self.tilted_down
        middle = (zeros + self.more / 2) * up - (ones + self.more / 2) * down + self.more / 2
        middle = np.clip(np.floor(middle + 0.5), -ones, zeros + self.more)
        top, found, _ = self._peak(zeros, ones, middle, self.strides[0])
        if found.all():  # this is almost always the case
            return np.clip(top, LEAST_FLOAT, self.alone)
        bound = np.full(len(zeros), self.alone)  # a smaller bound replaces it where a peak is found
        left = np.arange(len(zeros))
        for stride in self.strides:
            walking, flat = left, left[:0]
            for _ in range(64):
                here = zeros[walking], ones[walking], middle[walking]
                top, found, move = self._peak(*here, stride)
                bound[walking[found]] = np.clip(top, LEAST_FLOAT, self.alone)[found]
                middle[walking] += move
                flat = np.concatenate([flat, walking[~found & (move == 0)]])
                walking = walking[~found & (move != 0)]
                if not len(walking):
                    break
            left = np.concatenate([flat, walking])
            if not len(left):
                break
        return bound

    def _peak(
        self, zeros: Integers, ones: Integers, middle: Reals, stride: int
    ) -> tuple[Reals, NDArray[np.bool_], Reals]:
        """Three results for each dataset: the largest g(t), rounded up; whether the largest g(t) is
        surely in the window around `middle`; and how far to move the window if it is not.
        """
        values, error, log_unit = self._divergences(zeros, ones, middle, stride)
        low, high, values = values - error, (values + error)[:, 1:], values[:, 1:]
        # g first rises, then falls. So if g is surely lower at both ends of the window than inside,
        # it is lower beyond the ends too.
        before, sure = low[:, 0], low[:, 1:].max(axis=1)
        found = np.maximum(high[:, 0], high[:, -1]) < sure
        top = high.max(axis=1)
        if stride > 1:
            # `mode` is an upper bound on the mode of the view with fewer ones.
            mode = (zeros - ones + self.bits) * self.lie + 2
            found &= middle + stride * _WINDOW[0] > mode
            top = high[:, 0] + 4 * (high[:, 0] - before)
        with np.errstate(over="ignore"):  # overflows occur only where no peak is found
            top = top * np.exp(log_unit) * (1 + 8 * ROUNDING)
        return top, found, stride * _WINDOW[1:][values.argmax(axis=1)]

    def _divergences(
        self, zeros: Integers, ones: Integers, middle: Reals, stride: int
    ) -> tuple[Reals, Reals, Reals]:
        """g(t) in a window around `middle`, a bound on its error, and the logarithm of the unit in
        which both are given.
        """
        logs, phases = (
            zeros[:, None] * up + ones[:, None] * down - middle[:, None] * s
            for up, down, s in self.real_and_imaginary
        )
        log_unit = logs[:, 0].copy()
        sizes = np.exp(logs - log_unit[:, None])
        kernel, window = self.kernels[stride], stride * _WINDOW
        values = (sizes * np.cos(phases)) @ kernel.real
        values -= (sizes * np.sin(phases)) @ kernel.imag

        # The error of an exponent is a few times `ROUNDING` times the sum of the absolute values of
        # its terms.
        up, down, s = self.largest
        terms = zeros * up + ones * down + np.abs(middle) * s
        error = ROUNDING * 16 * terms * (sizes @ self.size)
        turns = self.more * (3 + s + up + down)
        error += ROUNDING * (16 * turns + len(self.s) + 32) * (sizes @ self.weight)
        error += 16 * ROUNDING * self.total_weight
        if not self.all_frequencies:
            error += sizes[:, -1] * self.weight[-1] * self.period / 2
        errors = error[:, None] * self.tilts[stride]

        log_unit += self.more * (self.theta + self._log(-self.theta))
        z, log_up, log_down = self.steeper
        right = zeros * log_up + ones * log_down - z * (middle + window[0])
        right += self.more * (z + log_down)
        left = self.more * self.part
        images = left - self.theta * self.period, right - self.h * self.theta * self.period
        for image in images:
            folded = np.exp(np.minimum(image - log_unit, 600.0))
            errors += 2 * (self.c + self.f) * self.bits * folded[:, None]
        return values, errors, log_unit


def edge_delta(honest: int, lie: Fraction, epsilon: float) -> float:
    """The largest δ of the two datasets in which all other people hold the same bit. It is fast to
    compute, and it is a lower bound on the largest δ of all datasets.
    """
    flips = Flips(honest, lie, epsilon)
    return flips.edge() if flips.c > 0 else 0.0


def positive_part(n: int, gain: Reals, mass: Reals) -> float:
    """E[(G₁ + … + G_n)₊], rounded up.

    Each G_i is gain[j] with probability mass[j], and otherwise 0. Here κ(s) = 1/s², t = 0 and
    Λ(s) = n ln M(s) with M(s) = E[e^{sG}]. A little normal noise is added to G₁ + … + G_n to make
    the series over j converge. Independent noise of mean zero can only increase the expectation of
    a convex function. The values that the period adds are positive, so they too can only increase
    the result.
    """
    theta = _tilt(n, gain, mass)
    if theta * gain.max() > 600:
        return math.inf  # floats cannot represent such rare events
    log_total = _log_total(theta, gain, mass)
    # Chernoff's bound follows from (x)₊ ≤ e^{θx}/(eθ). If this bound is below any δ that matters,
    # it is the result.
    if n * log_total < -100:
        return math.exp(n * log_total) / theta
    tilted = mass * np.exp(theta * gain - log_total)
    # By Chernoff's bound, the tilted sum is almost never a period or more away from 0.
    rises = ((h, _log_total((1 + h) * theta, gain, mass) - log_total) for h in _TILTS)
    period = max(35 - n * log_total, min((25 + n * rise) / h for h, rise in rises)) / theta
    noise = _SMOOTHING / theta
    count = math.ceil(5 / noise * period / (2 * math.pi))
    u = 2 * math.pi / period * np.arange(count + 1)
    # `share` is |e^{(noise·s)²/2}/s²|, up to a constant factor. It is doubled for u > 0, because −u
    # adds the same amount.
    share = np.where(u > 0, 2.0, 1.0) * np.exp(-((noise * u) ** 2) / 2) / (theta**2 + u**2)
    # The first term bounds the frequencies that are dropped below. The second term is an integral
    # that bounds all j > count.
    left_out = 2 * math.exp(-60) * float(share.sum())
    left_out += 2 * period * math.exp(-12.5) / (25 * math.pi * float(u[-1]))

    # The first row of x + iy is M(θ+iu)/M(θ) − 1 = Σ_j tilted[j]·(e^{iu·gain[j]} − 1). The second
    # row leaves out the positive gains. A sum without positive gains has the positive part 0, but
    # the added noise would raise it above 0. So the second row's powers are subtracted.
    sine, cosine = np.sin(np.outer(gain / 2, u)), np.cos(np.outer(gain / 2, u))
    real, imaginary = 1 - 2 * sine**2, 2 * sine * cosine
    above = np.where(gain > 0, tilted, 0.0)
    x, y = -2 * tilted @ sine**2, tilted @ imaginary
    x, y = np.array([x, x - above @ real]), np.array([y, y - above @ imaginary])
    kept = (2 * x + x**2 + y**2).max(axis=0) > math.expm1(-120 / n)
    x, y, u, share = x[:, kept], y[:, kept], u[kept], share[kept]
    log, phase = polar(x, y)
    turn = noise**2 * theta * u - 2 * np.arctan2(u, theta)
    powers = np.exp(n * log) * np.cos(n * phase + turn)
    total = float((powers[0] - powers[1]) @ share) + left_out

    # Let z be a computed number whose n-th power is used above, and z' its exact value. Then
    # |z^n − z'^n| ≤ n|z − z'|·max(|z|, |z'|)^{n−1}, and |z'| ≤ max(|z|, ½)(1 + 2|z − z'|).
    drift = (u + theta) * float(tilted @ np.abs(gain)) + abs(log_total)
    wrong = 16 * ROUNDING * (len(gain) + drift)
    slope = 2 * n * np.exp((n - 1) * np.maximum(log, -math.log(2))).sum(axis=0)
    total += float((slope * wrong + ROUNDING * (count + 64)) @ share)
    log_scale = n * log_total + _SMOOTHING**2 / 2
    log_scale += 16 * ROUNDING * n * (len(gain) + 1) * float(mass @ np.abs(np.expm1(theta * gain)))
    return math.exp(log_scale) * total / period * (1 + 256 * ROUNDING)


def _log_total(theta: float, gain: Reals, mass: Reals) -> float:
    """The logarithm of M(θ), where M(θ) is increased slightly to cover rounding errors."""
    return math.log1p(64 * ROUNDING + float(mass @ np.expm1(np.minimum(theta * gain, 700.0))))


def _tilt(n: int, gain: Reals, mass: Reals) -> float:
    """An approximation of the θ that minimizes M(θ)^n/θ². The terms are smallest at this θ."""

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


def polar(x: Reals, y: Reals) -> tuple[Reals, Reals]:
    """The logarithm of |z| and the angle of z, for z = 1 + x + iy. Both are accurate near z = 1."""
    square = 2 * x + x**2 + y**2
    near = square > -0.5
    far = np.maximum((1 + x) ** 2 + y**2, 1e-300)
    log_square = np.where(near, np.log1p(np.where(near, square, 0.0)), np.log(far))
    return log_square / 2, np.arctan2(y, 1 + x)


def _geometric(count: int, logs: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """The sums Σ_{i<count} e^{−i·log}."""
    total: NDArray[np.complex128] = np.full(len(logs), complex(count))
    apart = logs != 0
    total[apart] = np.expm1(-count * logs[apart]) / np.expm1(-logs[apart])
    return total
