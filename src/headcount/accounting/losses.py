"""Privacy losses on a grid, and the δ of many independent observations together.

Notation    P and Q are the laws of the view for two values of a person. The loss of an outcome is
            ln(P/Q). "X + t against X" means that P is the law of X + t and Q is the law of X. h is
            the step of the grid, and θ is a tilt (see Product). The window is the range of grid
            points that the transforms cover.
Grid        Let the loss of an outcome (P, Q) lie between two neighboring points g and g + h of the
            grid. The outcome is split into two outcomes with the losses g and g + h. Their P and Q
            add up to the P and Q of the original outcome. Merging them again undoes the split, so
            the split law dominates the original law. The same holds for products with other laws.
            Splitting is linear in (P, Q), so all outcomes in a cell of the grid are split together.
            The split changes a loss by at most h, which changes ln δ by O(h²).
            P is rounded up and Q down, which can only increase losses, so the result still
            dominates. Some outcomes count as having an infinite loss: those that a law cut off,
            those where Q is unknown, and those too rare to matter. Their mass under P is added to δ
            in full.
Product     Losses of independent observations add up. Let m(l) be the mass of P at the loss l, and
            let M(θ) = Σ m(l)e^{θl}. Then

                δ(ε) = Σ m(l)(1 − e^{ε−l})₊ = M(θ)e^{−θε} Σ w(l)·K(l − ε),

            where w(l) = m(l)e^{θl}/M(θ) sums to 1 and K(u) = e^{−θu}(1 − e^{−u})₊ < 1. If θ is near
            the minimum of M(θ)e^{−θε}, the sum over w is not small. The rounding error of the
            Fourier transforms is then small relative to δ, however small δ is.
Numerics    By Parseval's theorem, the sum over w is a sum of products of transforms, whose entries
            are at most 1. Let u be `ROUNDING`. The error of a transform of N terms is at most
            8u·log2(N) times its Euclidean norm. So each entry has an error of at most
            e = 8u·log2(N)·√N, and a product of n transforms has an error of at most n(e + 8u). The
            error of the sum is at most n(e + 8u) times the norm of K. This bound is added to δ.
            Transforms are circular, so losses outside the window reappear inside it. The window
            begins at or before ε. Losses below the window should not count, because K is 0 below
            ε. Where these losses reappear, they can only increase the computed δ. Losses above the
            window may reappear where K = 0 and be missed. Their mass under P is at most
            M(θ')e^{−θ'·top} for any θ' > 0, where `top` is the end of the window. This bound is
            added to δ.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from headcount.accounting.laws import ROUNDING, Law
from headcount.core.cached import cached_property

_LEAST_MASS = 1e-250  # smaller masses of a law count as cut off
_ROUGH = 1e-11  # losses out of order by at most this get their running maximum, and are not sorted
ACCURACY = 2e-4  # the relative error of δ that the grid may cause
_NEGLIGIBLE = 1e-4  # the relative error of δ that cutting off masses may cause
_LEAST_SCALE = 1e-22  # grids do not resolve a smaller δ
STEEPEST = 1e4  # grids do not resolve a steeper fall of ln δ, which occurs near the largest loss
_MOST_POINTS = 1 << 20  # the largest number of points of a grid
# The values of θ that are tried.
_TILTS = np.concatenate([-np.geomspace(1e4, 0.1, 16), np.geomspace(0.1, 1e5, 43)])
_LEAST_TILT = 0.2  # the smallest θ that a grid uses
_LEAST_SUM = 1e-290  # added to the sum over w, which loses less than this by underflow
_KEPT = 8  # the number of laws that are cached, since a search asks for a law several times

# A part is one alternative of an observation. It has a probability under P, the loss of learning
# that the part occurred, and the name of the law that is then observed.
Part = tuple[float, float, Hashable]
# An observation shows which of its parts occurred. A view consists of several independent
# observations, and each observation is a tuple of parts.
View = Sequence[tuple[Part, ...]]
# Maps a law's name, the grid's step and the mass that may be cut off to the law's losses.
Losses = Callable[[Hashable, float, float], "LossLaw"]


@dataclass(frozen=True, eq=False)
class LossLaw:
    """A law of losses: P has mass[i] at the loss (start + i)·step, and `infinite` at infinity.

    All masses are rounded up. At each loss, the mass of Q is the mass of P times e^−loss.
    """

    start: int
    step: float
    mass: NDArray[np.float64] = field(repr=False)
    infinite: float

    @cached_property
    def losses(self) -> NDArray[np.float64]:
        losses: NDArray[np.float64] = np.arange(len(self.mass), dtype=np.float64)
        return (losses + self.start) * self.step

    @cached_property
    def moments_at_tilts(self) -> NDArray[np.float64]:
        """The logarithm of M(θ) for each θ of `_TILTS`."""
        return self.log_moments(_TILTS)

    def log_moments(self, tilts: NDArray[np.float64]) -> NDArray[np.float64]:
        """The logarithm of M(θ) for each θ of `tilts`, up to rounding."""
        with np.errstate(divide="ignore"):
            exponents = np.log(self.mass) + np.multiply.outer(tilts, self.losses)
        peaks = exponents.max(axis=-1)
        logs: NDArray[np.float64] = peaks + np.log(np.exp(exponents - peaks[..., None]).sum(-1))
        return logs


class KeptLaws:
    """A cache of the laws of losses that were used last. Several threads may use one cache."""

    def __init__(self) -> None:
        self._laws: dict[Hashable, LossLaw] = {}

    def get(self, parameters: Hashable, compute: Callable[[], LossLaw]) -> LossLaw:
        """The law with these parameters. It is computed if it is not in the cache."""
        law = self._laws.get(parameters) or compute()
        # The dict is replaced and never changed, since another thread may be reading it.
        others = [one for one in self._laws.items() if one[0] != parameters]
        self._laws = dict([*others[1 - _KEPT :], (parameters, law)])
        return law


class MovedLaw:
    """The losses of X + t against X, for a given law of X and any t."""

    def __init__(self, law: Law) -> None:
        kept = np.flatnonzero(law.mass > _LEAST_MASS)
        first, last = int(kept[0]), int(kept[-1]) + 1
        if len(kept) != last - first:
            raise ValueError("the law must not have gaps")
        self._mass = law.mass[first:last]
        self._slack = law.slack + 4 * ROUNDING
        self._tail = law.tail + len(law.mass) * _LEAST_MASS * (1 + law.slack)
        self._logs = np.log(self._mass)
        self._largest_log = float(np.abs(self._logs).max())
        self._below = np.cumsum(self._mass)
        self._above = np.cumsum(self._mass[::-1])[::-1]
        self._kept = KeptLaws()

    def _overlap(
        self, by: int, negligible: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], slice]:
        """The masses and losses of all values x of X for which the mass of x + by is known too.

        The rarest values at both ends are left out. The slice gives the positions of the values
        x + by in the list of masses.
        """
        size = len(self._mass)
        start = max(int(np.searchsorted(self._below, negligible, side="right")), -by, 0)
        stop = size - int(np.searchsorted(self._above[::-1], negligible, side="right"))
        stop = max(min(stop, size - by), start)
        losses = self._logs[start:stop] - self._logs[start + by : stop + by]
        return self._mass[start:stop], losses, slice(start + by, stop + by)

    def losses(self, by: int, step: float, negligible: float) -> LossLaw:
        """The losses of X + by against X. At each end of the law, masses with a sum of at most
        `negligible` may be cut off.
        """
        return self._kept.get((by, step, negligible), lambda: self._computed(by, step, negligible))

    def _computed(self, by: int, step: float, negligible: float) -> LossLaw:
        if by == 0:
            return LossLaw(0, step, np.ones(1), 0.0)
        mass, losses, where = self._overlap(by, negligible)
        # A sum or a running sum of n terms has a relative error below n times `ROUNDING`.
        rounding = 4 * ROUNDING * len(self._mass)
        grow = (1 + self._slack) * (1 + rounding)
        start, stop = where.start - by, where.stop - by
        cut = float(self._below[start - 1]) if start else 0.0
        cut += float(self._above[stop]) if stop < len(self._mass) else 0.0
        infinite = min(1.0, cut * grow + self._tail)
        if not len(mass):
            return LossLaw(0, step, np.zeros(1), 1.0)
        other = self._mass[where]
        if losses[0] > losses[-1]:
            mass, losses, other = mass[::-1], losses[::-1], other[::-1]
        rising = np.maximum.accumulate(losses)
        gap = float((rising - losses).max())
        if gap > _ROUGH:
            order = np.argsort(losses)
            mass, rising, other, gap = mass[order], losses[order], other[order], 0.0
        # `lift` raises the losses to those of P rounded up and Q rounded down. `blur` bounds the
        # errors of the running maximum, of a logarithm and of a product with the step. No true loss
        # in the cell from g to g + h exceeds g + h, but some may be below g by 2·blur. Multiplying
        # Q by 1 − 4·blur raises these losses above g. The mass that is placed at g + h is at most
        # the mass of the whole cell, because no true loss exceeds g + h.
        blur = gap + 16 * ROUNDING * (8 + self._largest_log)
        lift = 2 * self._slack / (1 - self._slack) + blur
        rising = rising + lift
        first, last = math.floor(rising[0] / step), math.floor(rising[-1] / step)
        edges = np.searchsorted(rising, step * np.arange(first + 1, last + 1))
        starts, stops = np.concatenate([[0], edges]), np.concatenate([edges, [len(rising)]])
        filled = np.flatnonzero(starts != stops)
        starts = starts[filled]
        upper = np.add.reduceat(mass, starts) * grow
        shrink = (1 - self._slack) * (1 - rounding) * (1 - 4 * blur)
        lower = np.add.reduceat(other, starts) * max(0.0, shrink)
        excess = upper - lower * np.exp(np.minimum((first + filled) * step, 700.0))
        above = np.maximum(excess / -math.expm1(-step) * (1 + 8 * ROUNDING), 0.0)
        above = np.minimum(above, upper)
        split = np.zeros(last - first + 2)
        split[filled] = upper - above
        split[filled + 1] += above
        return LossLaw(first, step, split * (1 + 8 * ROUNDING), infinite)


@dataclass(frozen=True)
class LossGrid:
    """The grid on which losses are placed, and the tilt of their law.

    Any grid gives a valid upper bound on δ, but only a good grid gives an accurate bound. A grid
    cannot be used for an ε below its window.
    """

    step: float
    size: int  # the number of grid points in the window
    start: int  # the first grid point of the window
    tilt: float
    top_tilt: float  # the θ' that bounds the losses above the window
    negligible: float  # the mass that each law may cut off


class Products:
    """Computes the δ of views, for any ε near the ε for which the grid was made."""

    def __init__(self, grid: LossGrid, law: Losses) -> None:
        self.grid = grid
        self._law = law
        self._laws: dict[Hashable, tuple[LossLaw, float, float]] = {}
        self._transforms: dict[Hashable, NDArray[np.complex128]] = {}
        self._observations: dict[tuple[Part, ...], NDArray[np.complex128]] = {}
        self._points: dict[float, tuple[float, float, int, float]] = {}
        self._turns: dict[float, NDArray[np.complex128]] = {}
        self._sums: dict[tuple[Part, ...], tuple[float, float, float]] = {}
        self._roots = np.exp(-2j * np.pi / grid.size * np.arange(grid.size))

    def _known(self, name: Hashable) -> tuple[LossLaw, float, float]:
        """The law with this name, and its ln M(θ) and ln M(θ')."""
        if name not in self._laws:
            law = self._law(name, self.grid.step, self.grid.negligible)
            tilts = np.array([self.grid.tilt, self.grid.top_tilt])
            logs = law.log_moments(tilts)
            self._laws[name] = (law, float(logs[0]), float(logs[1]))
        return self._laws[name]

    def _transform(self, name: Hashable) -> NDArray[np.complex128]:
        if name not in self._transforms:
            law, log_moment, _ = self._known(name)
            tilted = law.mass * np.exp(self.grid.tilt * law.losses - log_moment)
            wrapped = np.zeros(-(-len(tilted) // self.grid.size) * self.grid.size)
            wrapped[: len(tilted)] = tilted
            folded = wrapped.reshape(-1, self.grid.size).sum(axis=0)
            self._transforms[name] = fft.rfft(_rolled(folded, law.start % self.grid.size))
        return self._transforms[name]

    def _point(self, loss: float) -> tuple[float, float, int, float]:
        """An outcome of mass P = 1 and this loss, split between its neighbors on the grid.

        The result is ln M(θ), ln M(θ'), the lower neighbor, and the upper neighbor's share of M(θ).
        """
        if loss in self._points:
            return self._points[loss]
        step, tilt, top = self.grid.step, self.grid.tilt, self.grid.top_tilt
        raised = loss + 8 * ROUNDING * (abs(loss) + step)
        below = math.floor(raised / step)
        above = math.expm1(-max(0.0, raised - below * step)) / math.expm1(-step)
        above = min(1.0, above + 16 * ROUNDING * (1 + abs(below)))
        log_above = math.log(above)
        log_below = math.log1p(-above) if above < 1 else -math.inf
        log_moment, top_moment = (
            float(np.logaddexp(log_below + t * below * step, log_above + t * (below + 1) * step))
            for t in (tilt, top)
        )
        share = math.exp(min(0.0, log_above + tilt * (below + 1) * step - log_moment))
        self._points[loss] = log_moment, top_moment, below, share
        return self._points[loss]

    def _moments(self, parts: tuple[Part, ...]) -> tuple[float, float, float]:
        """The ln M(θ) and ln M(θ') of an observation, and the probability of an infinite loss."""
        if len(parts) == 1 and parts[0][1] == 0:
            law, log_moment, top_moment = self._known(parts[0][2])
            return log_moment, top_moment, law.infinite
        if parts in self._sums:
            return self._sums[parts]
        logs, tops, infinite = [], [], 0.0
        for weight, loss, name in parts:
            law, log_moment, top_moment = self._known(name)
            point = self._point(loss)
            logs.append(math.log(weight) + log_moment + point[0])
            tops.append(math.log(weight) + top_moment + point[1])
            infinite += weight * law.infinite
        log_sum, top_sum = (float(np.logaddexp.reduce(column)) for column in (logs, tops))
        self._sums[parts] = log_sum, top_sum, infinite
        return self._sums[parts]

    def _turn(self, loss: float) -> NDArray[np.complex128]:
        """The transform of a single outcome with this loss."""
        if loss not in self._turns:
            _, _, below, share = self._point(loss)
            frequencies = np.arange(self.grid.size // 2 + 1)
            phase = self._roots[frequencies * below % self.grid.size]
            self._turns[loss] = phase * (1 - share + share * self._roots[frequencies])
        return self._turns[loss]

    def _observation(self, parts: tuple[Part, ...]) -> NDArray[np.complex128]:
        if len(parts) == 1 and parts[0][1] == 0:
            return self._transform(parts[0][2])
        if parts not in self._observations:
            total = self._moments(parts)[0]
            out = np.zeros(self.grid.size // 2 + 1, dtype=np.complex128)
            for weight, loss, name in parts:
                log_moment = self._point(loss)[0] + self._known(name)[1]
                share = math.exp(math.log(weight) + log_moment - total)
                out += share * self._turn(loss) * self._transform(name)
            self._observations[parts] = out
        return self._observations[parts]

    def _kernels(
        self, epsilons: NDArray[np.float64]
    ) -> tuple[NDArray[np.complex128], NDArray[np.float64]]:
        """The transform of K and the norm of K, for each ε.

        The transforms are conjugated. They are weighted so that a sum over half of the frequencies
        gives the sum over all of them.
        """
        size, start, step = self.grid.size, self.grid.start, self.grid.step
        # K is 0 below ε, so it is computed only from the grid point `first` on.
        first = min(max(0, math.floor(epsilons.min() / step) - start - 1), size)
        excess = np.arange(start + first, start + size) * step - epsilons[:, None]
        blur = 8 * ROUNDING * (np.abs(epsilons)[:, None] + np.abs(excess))
        excess = np.maximum(excess + blur, 0.0)
        kernels = np.zeros((len(epsilons), size))
        kernels[:, first:] = np.exp(-self.grid.tilt * excess) * -np.expm1(-excess)
        weights = np.full(size // 2 + 1, 2.0 / size)
        weights[0] = 1.0 / size
        if size % 2 == 0:
            weights[-1] = 1.0 / size
        transforms = np.conj(fft.rfft(_rolled(kernels, start % size))) * weights
        # A plain sum of squares is faster here than `np.linalg.norm`, which starts threads.
        norms = np.sqrt(np.sum(kernels * kernels, axis=1)) * (1 + 1e-9)
        return transforms, norms

    def deltas(self, views: Sequence[View], epsilons: Sequence[float]) -> NDArray[np.float64]:
        """The largest δ of all views for each ε, rounded up."""
        return self.worst(views, epsilons)[0]

    def worst(
        self, views: Sequence[View], epsilons: Sequence[float]
    ) -> tuple[NDArray[np.float64], View]:
        """The largest δ of all views for each ε, rounded up, and a view that attains it at some ε.

        Let κ be the maximum of K. A view's δ is at most M(θ)e^−θε·κ plus the mass of infinite
        losses. The view is skipped if this bound is at most the δ of other views at each ε.
        """
        grid, tilt = self.grid, self.grid.tilt
        points = np.array(epsilons, dtype=np.float64)
        if points.min() < (grid.start - 1) * grid.step:
            raise ValueError("the window must begin at ε or before")
        most = math.exp(tilt * math.log(tilt / (1 + tilt))) / (1 + tilt) * (1 + 1e-9)
        top = (grid.start + grid.size) * grid.step
        bounds = []
        for view in views:
            moments = [self._moments(parts) for parts in view]
            total, other = (math.fsum(column[j] for column in moments) for j in (0, 1))
            finite = math.fsum(math.log1p(-min(lost, 1 - ROUNDING)) for _, _, lost in moments)
            # `blur` is the largest error of the exponents.
            sizes = math.fsum(abs(one) + abs(two) for one, two, _ in moments)
            blur = 1e-9 + 64 * ROUNDING * (sizes + (tilt + grid.top_tilt) * abs(top))
            above = min(total - tilt * top, other - grid.top_tilt * top) + blur
            infinite = (-math.expm1(finite) + math.exp(min(0.0, above))) * (1 + 1e-9)
            logs = total - tilt * points + blur
            # Sums are multiplied by a scale. Even a scale of e^600 leaves the amounts that a sum
            # loses by underflow far below the smallest δ.
            scales = np.where(logs < 600, np.exp(np.minimum(logs, 600.0)), np.inf)
            bounds.append((total, scales, infinite, view))
        bounds.sort(key=lambda bound: -bound[0])
        matrix, norms = self._kernels(points)
        each = 8 * ROUNDING * (math.log2(grid.size) * math.sqrt(grid.size) + 16)
        largest, worst = np.zeros(len(epsilons)), bounds[0][3]
        for _, scales, infinite, view in bounds:
            if np.all(scales * most + infinite <= largest):
                continue
            product = self._observation(view[0])
            for parts in view[1:]:
                product = product * self._observation(parts)
            sums = matrix.real @ product.real - matrix.imag @ product.imag
            # `error` covers the errors of the transforms, of K, and of the sums over parts and
            # frequencies.
            error = (len(view) + 2) * each + 4 * ROUNDING * (sum(map(len, view)) + grid.size)
            sums = np.maximum(sums, 0.0) + error * norms + _LEAST_SUM
            deltas = np.minimum(scales * np.minimum(sums, most) + infinite, 1.0)
            worst = view if np.any(deltas > largest) else worst
            largest = np.maximum(largest, deltas)
        return np.minimum(largest * (1 + 1e-9), 1.0), worst


def _rolled(rows: NDArray[np.float64], by: int) -> NDArray[np.float64]:
    """The same as `np.roll` along the last axis, but faster. `by` must not be negative."""
    at = rows.shape[-1] - by
    return np.concatenate([rows[..., at:], rows[..., :at]], axis=-1)


def grid_for(
    views: Sequence[View],
    law: Losses,
    epsilon: float,
    *,
    scale: float,
    slope: float,
    reach: float = 0.0,
    accuracy: float = ACCURACY,
) -> LossGrid:
    """A grid for these views from ε to ε + reach.

    The caller expects that δ is at least about `scale` in this range, and that −ln δ grows by
    `slope` for each unit of ε.
    """
    number = max(len(view) for view in views)
    negligible = _NEGLIGIBLE * scale / number
    names = {name for view in views for parts in view for _, _, name in parts}
    # A coarse grid is enough to choose the parameters of the final grid.
    coarse = 0.5 / slope
    rough = {name: law(name, coarse, negligible).moments_at_tilts for name in names}
    totals = []
    for view in views:
        logs = np.zeros(len(_TILTS))
        for parts in view:
            terms = [math.log(weight) + _TILTS * loss + rough[name] for weight, loss, name in parts]
            logs += np.logaddexp.reduce(terms)
        totals.append(logs)
    logs = np.max(totals, axis=0)
    first = int(np.searchsorted(_TILTS, _LEAST_TILT))
    at = first + int(np.argmin((logs - _TILTS * (epsilon + reach / 2))[first:-1]))
    at = min(at, max(first, int(np.searchsorted(_TILTS, 4 * slope))))
    tilt = float(_TILTS[at])
    # `allowed` is the logarithm of the tilted mass that may lie outside the window. More mass would
    # inflate δ when it wraps around.
    allowed = tilt * epsilon - float(logs[at]) + math.log(_NEGLIGIBLE * scale)
    growth = logs - logs[at] - min(allowed, -1.0)
    tops = growth[at + 1 :] / (_TILTS[at + 1 :] - tilt)
    bottoms = growth[:at] / (_TILTS[:at] - tilt)
    best = int(np.argmin(tops))
    top, bottom = max(float(tops[best]), epsilon + reach), min(float(bottoms.max()), epsilon)
    # Each split adds at most h²/4 to the variance of the loss. An increase v of the variance adds
    # at most v·slope²/2 to ln δ.
    step = max(math.sqrt(8 * accuracy / number) / slope, (top - bottom) / _MOST_POINTS)
    start = math.floor(bottom / step)
    size = fft.next_fast_len(math.ceil(top / step) - start + 1, real=True)
    return LossGrid(step, size, start, tilt, float(_TILTS[at + 1 + best]), negligible)


def products_for(
    views: Sequence[View],
    law: Losses,
    epsilon: float,
    *,
    scale: float = 1e-6,
    slope: float = 10.0,
    accuracy: float = ACCURACY,
) -> tuple[Products, float, float]:
    """Products with a good grid for these views at ε, the views' largest δ, and the slope at which
    −ln δ grows with ε.

    `scale` and `slope` are first guesses of δ and of the slope. Grids are tried until the guesses
    fit. The products can also be used for other views whose δ is no larger.
    """
    for _ in range(20):
        grid = grid_for(views, law, epsilon, scale=scale, slope=slope, accuracy=accuracy)
        products = Products(grid, law)
        beside = epsilon + 0.3 / slope
        delta, less = (float(value) for value in products.deltas(views, [epsilon, beside]))
        steep = max(1.0, math.log(delta / less) / (beside - epsilon)) if less else slope
        if (delta > scale / 4 or scale <= _LEAST_SCALE) and steep < 1.3 * slope:
            break
        scale = max(min(scale, delta / 2), _LEAST_SCALE)
        if slope >= STEEPEST:
            break
        slope = min(max(slope, 1.2 * steep), STEEPEST)
    return products, delta, steep
