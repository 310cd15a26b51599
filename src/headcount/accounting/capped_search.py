"""The search for capped noise with the smallest error.

The search computes an approximate δ from characteristic functions. This is fast, but not rigorous.
So the noise that the search finds must be checked with its certified curve (see `capped_curves`).
The module `capped` defines slots, cells, jumps and pairs, and the symbols c, κ, D and V. The law of
(D, V) is computed for every D. If many people send pairs, the law is smooth in V, and a grid of
values of V is enough.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.capped import CappedNoise, HonestPeople, pair_law

_POINTS = 96  # the number of values of V in a grid for a count, if the law is smooth
_FEW_POINTS = 32  # the number of values of V for two buckets: fewer, because their δ takes longer
_DEVIATIONS = 15  # the window of V is this many standard deviations wide, plus `Wish.reach`
_FEW_PEOPLE = 60  # with fewer people, the law is not smooth, and every V is computed
_ROUNDS = (50, 25)  # the largest numbers of iterations, for a count and for two buckets
# The cost if no private noise is found. Other costs are the logarithm of `error_ratio`.
_HOPELESS = 10.0
_RARE = 1e-18  # for two buckets, rarer outcomes are added to δ with their whole probability
# The search begins with c from `_SCALES` and κ from `_LASTS`. Both are interpolated at
# x = (longest jump)·(rate of a curator's noise)·ln(1e6)/ln(1/δ). `_LONGEST` lists the values of x.
_LONGEST = [1.0, 2.0, 4.0, 6.0, 8.0, 9.0, 10.0, 11.0, 14.0, 30.0]
_SCALES = [8.0, 3.0, 1.48, 1.18, 1.07, 1.04, 1.02, 1.008, 1.005, 1.005]
_LASTS = [1.5, 3.0, 6.8, 10.5, 24.0, 32.0, 36.0, 3.5, 2.0, 1.0]


@dataclass(frozen=True)
class Wish:
    """The privacy that the noise must have, for these honest people and this number of slots."""

    crowds: HonestPeople
    slots: int
    epsilon: float
    delta: float

    @property
    def rate(self) -> float:
        """The rate of the geometric noise that a curator would add to a cell."""
        return self.epsilon / 2 if self.crowds.moved else self.epsilon

    @property
    def reach(self) -> int:
        """A distance from 0 that D rarely exceeds."""
        return math.ceil((math.log(1 / self.delta) + 6) / self.rate) + self.slots

    def central_variance(self) -> float:
        return 1 / (2 * math.sinh(self.rate / 2) ** 2)

    def error_ratio(self, noise: CappedNoise) -> float:
        """The standard error of the honest people's noise, divided by that of a curator's noise."""
        return math.sqrt(noise.variance / self.central_variance())


@lru_cache(maxsize=128)
def best_noise(wish: Wish) -> CappedNoise | None:
    """The noise with the smallest error that the search finds, or None if it finds none."""
    if not wish.crowds.ranges:
        return None
    # `length` is the x of `_LONGEST`: the longest jump compared with ln(1/δ)/rate. The longest jump
    # that is needed is about proportional to ln(1/δ)/rate.
    length = (wish.slots - 1) * wish.rate * math.log(1e6) / max(math.log(1 / wish.delta), 1.0)
    start = CappedNoise(
        wish.slots,
        wish.crowds.average,
        wish.rate,
        wish.rate,
        float(np.interp(length, _LONGEST, _SCALES)),
        float(np.interp(length, _LONGEST, _LASTS)),
    )
    fit = Fit(lambda noise: quick_delta(wish, noise), wish.delta)
    tried = (fit.near(replace(start, last=start.last * factor)) for factor in (1, 0.3, 4))
    first_found = next((noise for noise in tried if noise is not None), None)
    if first_found is None:
        return None
    start = latest = first_found
    best: tuple[float, CappedNoise | None] = (_HOPELESS, None)

    def cost(point: NDArray[np.float64]) -> float:
        nonlocal best, latest
        logs = point.tolist()
        if max(map(abs, logs[:-1])) > 1.5 or not -3 < logs[-1] < 8:
            return _HOPELESS
        noise = replace(
            latest,
            plus_rate=wish.rate * math.exp(logs[0]),
            minus_rate=wish.rate * math.exp(logs[-2]),
            last=math.exp(logs[-1]),
        )
        found = fit.near(noise)
        if found is None:
            return _HOPELESS
        log = math.log(wish.error_ratio(found))
        if log < best[0]:
            best, latest = (log, found), found
        return log

    # A person who moves adds 1 to one cell and subtracts 1 from another. In this case, equal rates
    # for both signs of a jump are best. So only one rate is searched.
    rates = 1 if wish.crowds.moved else 2
    first = np.array([*[0.0, -0.01][:rates], math.log(start.last)])
    corners = [first, *(first + step for step in np.diag([*[-0.02, -0.02][:rates], 0.4]))]
    options = {
        "initial_simplex": corners,
        "maxiter": _ROUNDS[wish.crowds.moved],
        "xatol": 3e-3,
        "fatol": 2e-5,
    }
    from scipy.optimize import minimize  # loaded here, since it is slow to load

    minimize(cost, first, method="Nelder-Mead", options=options)
    return best[1]


@dataclass
class Fit:
    """Finds the scale c at which noise has the wanted δ.

    ln δ falls as ln c grows, and is nearly linear in ln c. But δ is the larger of two divergences,
    one for each direction. Where the two divergences are equal, the slope of ln δ jumps. So the
    steps of the secant method stay within a bracket.
    """

    delta_of: Callable[[CappedNoise], float]
    delta: float
    slope: float = -20.0  # the latest slope of ln δ as a function of ln c

    def near(self, noise: CappedNoise, close: float = 0.02) -> CappedNoise | None:
        """Noise with about the wanted δ, or None if the search fails.

        Once ln δ is within `close` of its target, one last secant step gives the result.
        """
        log = math.log(noise.scale)
        excess = self._excess(noise, log)
        low, high = -math.inf, math.inf  # δ is too large at low, and small enough at high
        for _ in range(24):
            low, high = (max(low, log), high) if excess > 0 else (low, min(high, log))
            after = log + min(max(-excess / self.slope, -0.3), 0.3)
            outside = not low < after < high
            if abs(excess) < close:
                return replace(noise, scale=math.exp(log if outside else after))
            if outside:
                after = (low + high) / 2
            if after in (low, high):  # δ jumps here, and it is small enough at `high`
                return replace(noise, scale=math.exp(high))
            before, excess = excess, self._excess(noise, after)
            # If the slope were too flat, the next step would be too long.
            self.slope = min((excess - before) / (after - log), -1.0)
            log = after
        return None

    def _excess(self, noise: CappedNoise, log: float) -> float:
        delta = self.delta_of(replace(noise, scale=math.exp(log)))
        return math.log(max(delta, 1e-300) / self.delta)


# The approximate δ ----------------------------------------------------------------------------


def quick_delta(wish: Wish, noise: CappedNoise) -> float:
    """The approximate δ of this noise, or 1 if the probabilities of jumps add up to 1 or more."""
    thin = wish.crowds.thinned(noise)
    if thin.chances.sum() >= 1:
        return 1.0
    total = wish.crowds.missed
    for some in wish.crowds.ranges:
        total += some.weight * _delta_with(wish, thin, some.people)
    return total


def _delta_with(wish: Wish, noise: CappedNoise, people: int) -> float:
    points = _FEW_POINTS if wish.crowds.moved else _POINTS
    law = _law(noise, people, wish.reach, points)
    moved = np.roll(law, 1, axis=0)
    if wish.crowds.moved:
        return _moved_delta(moved.ravel(), law.ravel(), wish.epsilon)
    factor = math.exp(wish.epsilon)
    forth, back = law - factor * moved, moved - factor * law
    return max(float(forth[forth > 0].sum()), float(back[back > 0].sum()))


def _law(noise: CappedNoise, people: int, reach: int, points: int) -> NDArray[np.float64]:
    """The joint law of D (modulo the number of rows) and V (on a grid)."""
    rows, points, free, jumped = _transforms(noise.slots, people, reach, points)
    person = np.zeros((rows, len(free)), dtype=np.complex128)
    person[0] = (1 - noise.chances.sum()) * free
    np.add.at(person, noise.jumps % rows, jumped * noise.chances[:, None])
    # The transform of a sum of independent numbers is the product of their transforms.
    crowd = _power(np.fft.ifft(person, axis=0, norm="forward"), people)
    law = np.fft.irfft(np.fft.fft(crowd, axis=0, norm="forward"), points, axis=1)
    return np.maximum(law, 0.0)


def _power(base: NDArray[np.complex128], exponent: int) -> NDArray[np.complex128]:
    """base^exponent by repeated squaring, which is faster than logarithms."""
    result = np.ones_like(base)
    while exponent:
        if exponent % 2:
            result *= base
        exponent //= 2
        base = base * base
    return result


@lru_cache(maxsize=32)
def _transforms(
    slots: int, people: int, reach: int, points: int
) -> tuple[int, int, NDArray[np.complex128], NDArray[np.complex128]]:
    """The number of values of D, the number of values of V, and two arrays with transforms of the
    law of a person's V.

    The first array is the transform for a person who does not jump. The second array has one
    transform for each jump.
    """
    longest = slots - 1
    jumps = [*range(-1, -slots, -1), *range(1, slots)]
    free = pair_law(longest // 2)
    mean = sum(pairs * float(chance) for pairs, chance in free.items())
    variance = sum((pairs - mean) ** 2 * float(chance) for pairs, chance in free.items())
    span = _DEVIATIONS * math.sqrt(people * variance) + reach
    if people < _FEW_PEOPLE or span < points:
        span = points = 2 * math.ceil(span / 2)
    angles = 2 * np.pi * np.arange(points // 2 + 1) / span
    turns = np.exp(1j * angles)
    by_room = [
        np.sum([float(part) * turns**pairs for pairs, part in pair_law(room).items()], axis=0)
        * np.exp(-1j * angles * mean)
        for room in range(longest // 2 + 1)
    ]
    rooms = [(longest - abs(jump)) // 2 for jump in jumps]
    jumped = np.array(
        [by_room[room] * turns ** max(-jump, 0) for room, jump in zip(rooms, jumps, strict=True)]
    )
    from scipy.fft import next_fast_len  # loaded here, since it is slow to load

    return next_fast_len(2 * reach), points, by_room[-1], jumped


def _moved_delta(held: NDArray[np.float64], left: NDArray[np.float64], epsilon: float) -> float:
    """The approximate δ of a move: Σ_y held(y)·HS_{ε − ln(held(y)/left(y))}(left‖held), as in
    `buckets`.
    """
    likely = (held > _RARE) & (left > _RARE)
    # Outcomes that are too rare under one of the two laws add their whole probability to δ.
    lost = float(held[~likely].sum() + left[~likely].sum())
    held, left = held[likely], left[likely]
    falls = -left / held  # in ascending order below, so the losses ln(left/held) descend
    order = np.argsort(falls)
    held, left, falls = held[order], left[order], falls[order]
    left_sums, held_sums = (np.concatenate([[0.0], np.cumsum(law)]) for law in (left, held))
    beyond = falls * math.exp(epsilon)
    inside = np.searchsorted(falls, beyond, side="left")
    return float(held @ (left_sums[inside] + beyond * held_sums[inside])) + lost
