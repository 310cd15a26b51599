"""Unary bits with a shuffler, compared with enumeration, 50 digits and scipy.

Everyone holds a level x ∈ {0..r} and sends x ones and r−x zeros, each flipped with probability q.
The view is the number of ones. None of the judges here comes from `headcount.accounting`.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, permutations

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from headcount import InvalidParameter
from headcount.accounting import amplification
from headcount.accounting.amplification import flip_delta, unary_lie
from headcount.accounting.inversion import Flips

mpmath.mp.dps = 50

WHOLE = 2**64
Masses = list[Fraction]


def e_to_the(power: float) -> Fraction:
    """e^power to 45 digits."""
    return Fraction(mpmath.nstr(mpmath.exp(mpmath.mpf(power)), 45))


def convolved(one: Masses, other: Masses) -> Masses:
    out = [Fraction(0)] * (len(one) + len(other) - 1)
    for i, a in enumerate(one):
        for j, b in enumerate(other):
            out[i + j] += a * b
    return out


def bundle(level: int, bits: int, lie: Fraction) -> Masses:
    """The law of the number of ones that a person sends."""
    law = [Fraction(1)]
    for bit in range(bits):
        one = 1 - lie if bit < level else lie
        law = convolved(law, [1 - one, one])
    return law


def views(levels: Sequence[int], bits: int, lie: Fraction) -> list[Masses]:
    """The views of others with these levels and of a victim with level 0, …, r."""
    crowd = [Fraction(1)]
    for level in levels:
        crowd = convolved(crowd, bundle(level, bits, lie))
    return [convolved(crowd, bundle(level, bits, lie)) for level in range(bits + 1)]


def divergence(one: Masses, other: Masses, factor: Fraction) -> Fraction:
    return sum(
        (max(a - factor * b, Fraction(0)) for a, b in zip(one, other, strict=True)), Fraction(0)
    )


def crowds(honest: int, bits: int) -> list[tuple[int, ...]]:
    """Levels of the others: one crowd for each number of true ones, which is all that matters."""
    return [
        (bits,) * (ones // bits) + ((ones % bits,) if ones % bits else ())
        for ones in range((honest - 1) * bits + 1)
    ]


def padded(levels: tuple[int, ...], honest: int) -> tuple[int, ...]:
    return levels + (0,) * (honest - 1 - len(levels))


# All datasets of tiny crowds ----------------------------------------------------------------

LIES = [Fraction(1, 3), Fraction(1, 20), Fraction(9, 20), Fraction(2**61 + 12345, 2**64)]


@pytest.mark.parametrize(("honest", "bits"), [(3, 2), (3, 3), (4, 2)])
def test_only_the_number_of_true_ones_matters(honest: int, bits: int) -> None:
    by_total: dict[int, list[Masses]] = {}
    for levels in combinations_with_replacement(range(bits + 1), honest - 1):
        seen = views(levels, bits, Fraction(1, 7))
        assert by_total.setdefault(sum(levels), seen) == seen
    assert sorted(by_total) == list(range((honest - 1) * bits + 1))
    assert sorted(by_total) == [sum(levels) for levels in crowds(honest, bits)]


@pytest.mark.parametrize("honest", range(1, 7))
@pytest.mark.parametrize("bits", range(1, 6))
def test_tiny_crowds_are_exact(honest: int, bits: int) -> None:
    """All datasets and all pairs of levels are tried, in both directions."""
    for lie in LIES[: 4 if honest * bits < 16 else 2]:
        most = bits * math.log((1 - lie) / lie)
        epsilons = [min(share * most, 6.0) for share in (0, 1e-9, 0.03, 0.2, 0.6, 0.97)]
        factors = [e_to_the(epsilon) for epsilon in epsilons]
        seen = [views(padded(levels, honest), bits, lie) for levels in crowds(honest, bits)]
        pairs = [pair for view in seen for pair in permutations(view, 2)]
        if len(pairs) > 150:  # all pairs at one ε, the extreme pair at all ε
            extremes = [pair for view in seen for pair in permutations((view[0], view[-1]), 2)]
            every = max(divergence(*pair, factors[2]) for pair in pairs)
            assert every == max(divergence(*pair, factors[2]) for pair in extremes)
            pairs = extremes
        for epsilon, factor in zip(epsilons, factors, strict=True):
            truth = max(divergence(one, other, factor) for one, other in pairs)
            stated = Fraction(flip_delta(honest, lie, epsilon, bits))
            assert truth <= stated <= truth * (1 + Fraction(1, 10**9))
        assert flip_delta(honest, 1 - lie, epsilons[3], bits) == pytest.approx(
            flip_delta(honest, lie, epsilons[3], bits), rel=1e-12
        )


@pytest.mark.parametrize(("honest", "bits"), [(1, 4), (3, 3), (4, 2)])
@pytest.mark.parametrize("lie", [Fraction(1, 4), Fraction(1, 100)])
def test_likelihood_ratios_are_monotone(honest: int, bits: int, lie: Fraction) -> None:
    """With more true ones, ratios rise, and the view exceeds any t more often."""
    for levels in crowds(honest, bits):
        seen = views(padded(levels, honest), bits, lie)
        for less, more in combinations_with_replacement(range(bits + 1), 2):
            ratios = [a / b for a, b in zip(seen[more], seen[less], strict=True)]
            assert ratios == sorted(ratios)
            for t in range(len(seen[0])):
                assert sum(seen[more][:t]) <= sum(seen[less][:t])


def test_every_pair_is_covered_by_the_extreme_one() -> None:
    """Each dataset and each direction is tested, not only the maximum."""
    for lie in (Fraction(1, 5), Fraction(1, 50)):
        for levels in crowds(4, 4):
            seen = views(padded(levels, 4), 4, lie)
            for epsilon in (0.0, 0.4, 2.0):
                factor = e_to_the(epsilon)
                up = divergence(seen[-1], seen[0], factor)
                down = divergence(seen[0], seen[-1], factor)
                for x in range(5):
                    for y in range(x):
                        assert divergence(seen[x], seen[y], factor) <= up
                        assert divergence(seen[y], seen[x], factor) <= down


def test_directions_mirror_each_other() -> None:
    lie, factor = Fraction(1, 6), e_to_the(0.5)
    seen = [views(padded(levels, 4), 3, lie) for levels in crowds(4, 3)]
    for ones, mirror in zip(seen, reversed(seen), strict=True):
        assert divergence(ones[0], ones[-1], factor) == divergence(mirror[-1], mirror[0], factor)


# Larger crowds, against scipy ---------------------------------------------------------------


def scipy_deltas(
    honest: int, bits: int, lie: float, epsilon: float, ones: Sequence[int] | NDArray[np.int64]
) -> NDArray[np.float64]:
    """δ of datasets with this number of true ones among the others, in both directions, by
    convolution.
    """

    def law(trials: int, p: float) -> tuple[int, NDArray[np.float64]]:
        spread = 9 * math.sqrt(trials * p * (1 - p)) + 40
        low, high = max(0, int(trials * p - spread)), min(trials, int(trials * p + spread))
        return low, stats.binom.pmf(np.arange(low, high + 1), trials, p)

    def plus(
        one: tuple[int, NDArray[np.float64]], other: tuple[int, NDArray[np.float64]]
    ) -> tuple[int, NDArray[np.float64]]:
        return one[0] + other[0], np.convolve(one[1], other[1])

    out, factor = [], math.exp(epsilon)
    for k in ones:
        crowd = plus(law((honest - 1) * bits - int(k), lie), law(int(k), 1 - lie))
        all_zeros, all_ones = (plus(crowd, law(bits, p)) for p in (lie, 1 - lie))
        start = min(all_zeros[0], all_ones[0])
        stop = max(low + len(mass) for low, mass in (all_zeros, all_ones))
        zero, one = np.zeros((2, stop - start))
        for row, (low, mass) in ((zero, all_zeros), (one, all_ones)):
            row[low - start : low - start + len(mass)] = mass
        both = (zero - factor * one, one - factor * zero)
        out.append(max(float(np.maximum(excess, 0).sum()) for excess in both))
    return np.array(out)


def test_crowds_against_scipy_over_every_dataset() -> None:
    """Blocks of datasets are split where necessary."""
    random = np.random.default_rng(11)
    off_edge = 0
    for _ in range(50):
        honest, bits = int(random.integers(2, 40)), int(random.integers(2, 9))
        lie = float(random.choice([random.uniform(0.02, 0.48), 10 ** random.uniform(-3, -1)]))
        epsilon = min(random.uniform(0, 0.8) ** 2 * bits * math.log((1 - lie) / lie), 10.0)
        truth = scipy_deltas(honest, bits, lie, epsilon, range((honest - 1) * bits + 1))
        stated = flip_delta(honest, Fraction(lie), epsilon, bits)
        assert truth.max() * (1 - 1e-10) <= stated <= truth.max() * (1 + 1e-8)
        off_edge += truth.max() > 1.001 * max(truth[0], truth[-1])
    assert off_edge > 4  # the edge alone would not be enough


def test_the_worst_dataset_is_not_at_the_edge() -> None:
    truth = scipy_deltas(60, 4, 0.01, 0.3, range(59 * 4 + 1))
    assert truth.max() > 1.03 * max(truth[0], truth[-1])
    stated = flip_delta(60, Fraction(0.01), 0.3, 4)
    assert truth.max() * (1 - 1e-10) <= stated <= truth.max() * (1 + 1e-8)


@pytest.mark.parametrize(
    ("honest", "bits", "lie", "epsilon"),
    [(700, 20, 0.02, 1.0), (300, 50, 0.3, 1.0), (7000, 2, 0.001, 0.5), (20, 600, 0.4, 3.0)],
)
def test_blocks_of_datasets(honest: int, bits: int, lie: float, epsilon: float) -> None:
    """With more than 10,000 bits, a few hundred datasets and those around the worst are tried."""
    total = (honest - 1) * bits
    coarse = np.unique(np.linspace(0, total, 101).astype(np.int64))
    worst = int(coarse[scipy_deltas(honest, bits, lie, epsilon, coarse).argmax()])
    near = np.arange(max(0, worst - 100), min(total, worst + 100) + 1, 4)
    truth = scipy_deltas(honest, bits, lie, epsilon, np.concatenate([coarse, near])).max()
    stated = flip_delta(honest, Fraction(lie), epsilon, bits)
    assert truth * (1 - 1e-9) <= stated <= truth * (1 + 3e-4)


@pytest.mark.parametrize(
    ("honest", "bits", "lie", "epsilon"), [(40, 3, 0.1, 0.4), (200, 10, 0.05, 1.0)]
)
def test_bounds_of_blocks_cover_their_datasets(
    honest: int, bits: int, lie: float, epsilon: float
) -> None:
    """Blocks of k = first, …, first + spared zeros among the others, in one direction."""
    total = (honest - 1) * bits
    flips = Flips(honest, Fraction(lie), epsilon, bits)
    assert flips.others == total
    single = flips.bounds(np.arange(total + 1))
    ones = np.arange(0, total + 1, max(1, total // 60))
    both = np.maximum(single[ones], single[total - ones])
    assert both == pytest.approx(scipy_deltas(honest, bits, lie, epsilon, ones), rel=1e-8)
    for spared in (1, 2, 7, 30, total // 4):
        first = np.arange(0, total + 1 - spared, max(1, total // 97))
        bounds = flips.bounds(first, spared)
        inside = [single[k : k + spared + 1] for k in first]
        assert all(
            bound >= row.max() * (1 - 1e-12) for bound, row in zip(bounds, inside, strict=True)
        )
        if spared == 1:
            assert all(bound <= row.max() * 1.5 for bound, row in zip(bounds, inside, strict=True))


# Small deltas -------------------------------------------------------------------------------


def mpmath_delta(honest: int, bits: int, lie: Fraction, epsilon: float, ones: int) -> mpmath.mpf:
    """δ in both directions, in integers: masses times (denominator of q)^N."""
    numerator, denominator = lie.numerator, lie.denominator

    def power(base: tuple[int, int], exponent: int) -> list[int]:
        zero, one = base
        return [
            math.comb(exponent, i) * one**i * zero ** (exponent - i) for i in range(exponent + 1)
        ]

    def product(a: list[int], b: list[int]) -> list[int]:
        """The product of two polynomials, as one product of long integers."""
        width = (max(a) * max(b) * min(len(a), len(b))).bit_length() // 8 + 1
        one, other = (
            int.from_bytes(b"".join(x.to_bytes(width, "little") for x in row), "little")
            for row in (a, b)
        )
        raw = (one * other).to_bytes(width * (len(a) + len(b)), "little")
        return [
            int.from_bytes(raw[width * i : width * (i + 1)], "little")
            for i in range(len(a) + len(b) - 1)
        ]

    zero, one = (denominator - numerator, numerator), (numerator, denominator - numerator)
    crowd = product(power(zero, (honest - 1) * bits - ones), power(one, ones))
    none, full = product(crowd, power(zero, bits)), product(crowd, power(one, bits))
    unit = mpmath.mpf(denominator) ** (honest * bits)
    factor = mpmath.exp(mpmath.mpf(epsilon))
    return max(
        sum(max(a - factor * b, 0) for a, b in zip(upper, lower, strict=True)) / unit
        for upper, lower in ((none, full), (full, none))
    )


@pytest.mark.parametrize(
    ("epsilon", "about"), [(1.64, 1e-9), (2.05, 1e-12), (2.35, 1e-15), (2.8, 1e-20)]
)
def test_small_deltas_keep_their_precision(epsilon: float, about: float) -> None:
    honest, bits, lie = 60, 6, Fraction(3, 10)
    total = (honest - 1) * bits
    truths = [
        mpmath_delta(honest, bits, lie, epsilon, ones) for ones in range(0, total // 2 + 1, 8)
    ]
    worst = 8 * truths.index(max(truths))
    near = range(max(0, worst - 8), min(total, worst + 8) + 1)
    truth = max(mpmath_delta(honest, bits, lie, epsilon, ones) for ones in near)
    assert about / 10 < truth < about * 10
    assert truth <= flip_delta(honest, lie, epsilon, bits) <= truth * (1 + 1e-9)


# The figures --------------------------------------------------------------------------------


def test_the_noise_of_ten_thousand_people_with_a_hundred_levels() -> None:
    honest, bits, delta = 10**4, 100, 1e-6
    weight = unary_lie(honest, bits, 1.0, delta)
    assert weight is not None
    lie = Fraction(weight, WHOLE)
    assert 2370 <= 2 * honest * lie <= 2373
    deviation = math.sqrt(honest * bits * lie * (1 - lie)) / ((1 - 2 * lie) * bits)
    assert 4.23 < deviation < 4.24
    total = (honest - 1) * bits
    ones = np.unique([0, 1, 17, 100, total // 2, *np.linspace(0, total, 24).astype(np.int64)])
    truth = scipy_deltas(honest, bits, float(lie), 1.0, ones).max()
    assert 0.98 * delta < truth <= delta
    stated = flip_delta(honest, lie, 1.0, bits)
    assert truth * (1 - 1e-9) <= stated <= delta
    assert stated <= truth * (1 + 2e-4)
    # In the worst datasets, most of the others hold the same level.
    near = np.concatenate([np.arange(0, 1000, 100), np.arange(20_000, 200_000, 20_000)])
    assert scipy_deltas(honest, bits, float(lie), 1.0, near).max() <= stated


@pytest.mark.parametrize(
    ("honest", "bits", "epsilon", "delta"),
    [(50, 3, 1.0, 1e-3), (200, 5, 0.5, 1e-6), (1000, 10, 2.0, 1e-9), (1, 4, 1.0, 1e-2)],
)
def test_calibration_is_tight(honest: int, bits: int, epsilon: float, delta: float) -> None:
    weight = unary_lie(honest, bits, epsilon, delta)
    assert weight is not None
    lie = Fraction(weight, WHOLE)
    total = (honest - 1) * bits
    ones = np.unique(np.linspace(0, total, min(total + 1, 1000)).astype(np.int64))
    assert scipy_deltas(honest, bits, float(lie), epsilon, ones).max() <= delta * (1 + 1e-9)
    less = scipy_deltas(honest, bits, float(lie) * (1 - 1e-4), epsilon, ones).max()
    assert less > delta * (1 - 1e-5)
    assert flip_delta(honest, lie, epsilon, bits) <= delta


def test_large_crowds_and_many_bits() -> None:
    """If the others hold the same level, δ has a closed form. Other datasets are hardly worse."""
    for honest, bits, lie in ((10**6, 1000, 0.017), (10**6, 5000, 0.09), (10**7, 2**17, 0.23)):
        trials, middle = honest * bits, honest * bits * lie
        spread = math.sqrt(trials * lie * (1 - lie))
        # A local limit theorem: relative errors are of the order of 1/spread.
        apart = bits * (1 - 2 * lie) / spread
        normal = stats.norm.cdf(apart / 2 - 1 / apart) - math.e * stats.norm.cdf(
            -apart / 2 - 1 / apart
        )
        assert middle > 10**7
        stated = flip_delta(honest, Fraction(lie), 1.0, bits)
        assert stated == pytest.approx(normal, rel=100 / spread + 3e-4)


def test_a_million_people_with_a_thousand_levels() -> None:
    weight = unary_lie(10**6, 1000, 1.0, 1e-6)
    assert weight is not None
    lie = weight / WHOLE
    total = (10**6 - 1) * 1000
    truth = scipy_deltas(10**6, 1000, lie, 1.0, [0, total]).max()
    assert 0.98e-6 < truth <= 1e-6


def test_strides_are_as_good_as_steps() -> None:
    """The same crowds, searched step by step and in strides, also from a distant start."""
    flips = Flips(10**5, Fraction(0.1186), 0.3, 100)
    assert flips.strides[:2] == [1, 4]
    at = np.array([0, 1000, 4_000_000, 9_999_000])
    ones, steps = flips.others - at, flips.bounds(at)
    up, down = flips._tilted(flips.peak), flips._tilted(-flips.peak)
    start = np.round(at * up - ones * down + 99 / 2 * (1 + up - down))
    for stride in flips.strides[1:]:
        top, found, _ = flips._peak(at, ones, start, stride)
        assert found.all()
        assert (top >= steps).all()
        assert (top <= steps * (1 + 40 * (flips.theta * stride) ** 2)).all()
    for away in (-20, 20):
        _, found, move = flips._peak(at, ones, start + away, 1)
        assert not found.any()
        assert (move == -2 * np.sign(away)).all()


def test_no_dataset_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks have their largest δ as a bound. Then a single worst dataset is found."""

    class Spike:
        c, others, where = 1.0, 996, 0

        def __init__(self, *_: object) -> None:
            self.deltas = np.full(997, 0.1)
            self.deltas[self.where] = 0.2

        def edge(self) -> float:
            return float(self.deltas[[0, -1]].max())

        def bounds(
            self, first: NDArray[np.int64], spared: NDArray[np.int64] | int = 0
        ) -> NDArray[np.float64]:
            last = first + spared
            return np.array(
                [self.deltas[i : j + 1].max() for i, j in zip(first, last, strict=True)]
            )

    monkeypatch.setattr(amplification, "Flips", Spike)
    for Spike.where in range(997):
        assert flip_delta(250, Fraction(1, 4), 1.0, 4) == 0.2


# Monotone, and within its domain ------------------------------------------------------------


def test_delta_falls_with_noise_people_and_epsilon_and_rises_with_bits() -> None:
    for deltas in (
        [flip_delta(200, Fraction(lie), 0.5, 5) for lie in np.linspace(0.01, 0.49, 15)],
        [flip_delta(honest, Fraction(1, 10), 0.5, 5) for honest in (1, 2, 5, 50, 3000, 10**5)],
        [flip_delta(200, Fraction(1, 10), epsilon, 5) for epsilon in np.linspace(0, 10, 21)],
        [flip_delta(200, Fraction(1, 10), 0.5, bits) for bits in (50, 20, 8, 3, 2, 1)],
    ):
        assert deltas == sorted(deltas, reverse=True)
    # Beyond a size that is computed, more people do no harm.
    assert flip_delta(2**50, Fraction(1, 5), 0.1, 2**10) <= flip_delta(
        10**8, Fraction(1, 5), 0.1, 2**10
    )


def test_one_bit_is_binary_response() -> None:
    assert flip_delta(1000, Fraction(34, 1000), 1.0, 1) == flip_delta(1000, Fraction(34, 1000), 1.0)


def test_few_or_no_lies() -> None:
    for bits in (2, 7, 1000):
        assert flip_delta(100, Fraction(0), 1.0, bits) == 1.0
        assert 0.99 < flip_delta(100, Fraction(1, 10**9), 1.0, bits) <= 1.0
    assert flip_delta(100, Fraction(1, 2), 0.0, 5) < 1e-15
    # Five bits together are (5 ln 2)-private without a crowd.
    assert flip_delta(100, Fraction(1, 3), 5 * math.log(2) + 1e-9, 5) == 0.0
    assert 0 < flip_delta(1, Fraction(1, 3), 5 * math.log(2) - 1e-9, 5) < 1e-9
    assert flip_delta(100, Fraction(1, 3), 5 * math.log(2) * (1 - 1e-15), 5) < 1e-12
    assert flip_delta(100, Fraction(1, 3), 1e4, 5) == 0.0
    assert flip_delta(10**4, Fraction(1, 100), 600.0, 1000) < 1e-300


def test_every_epsilon_of_a_curve() -> None:
    """Every ε up to that of one person's bits alone is tried. None is lost to rounding."""
    deltas = [
        flip_delta(10**4, Fraction(0.1186), epsilon, 100) for epsilon in np.linspace(0, 6, 25)
    ]
    assert deltas == sorted(deltas, reverse=True)
    for epsilon in np.linspace(6, 200, 20):
        assert flip_delta(10**4, Fraction(0.1186), float(epsilon), 100) < 1e-20


def test_budgets_at_the_end_of_the_range() -> None:
    # Without a δ, the bits of one person must be private without a crowd.
    weight = unary_lie(1000, 4, 2.0, 0.0)
    assert weight is not None
    least = WHOLE / (1 + e_to_the(0.5))
    assert least <= weight <= least * (1 + Fraction(1, 10**12))
    assert unary_lie(1000, 4, 0.0, 0.0) is None
    assert unary_lie(1000, 4, 1e-18, 0.0) is None
    close = unary_lie(10, 3, 0.0, 1e-3)
    assert close is not None
    assert 0.49 < close / WHOLE < 0.5
    free = unary_lie(100, 3, 1e4, 1e-6)
    assert free is not None
    assert free / WHOLE < 1e-15


@pytest.mark.parametrize("bad", [0, -1, 2.5, "many", True, 2**20 + 1])
def test_bits_that_are_none(bad: int) -> None:
    with pytest.raises(InvalidParameter, match="`bits`"):
        flip_delta(100, Fraction(1, 3), 0.1, bad)
    with pytest.raises(InvalidParameter, match="`bits`"):
        unary_lie(100, bad, 0.1, 1e-6)


def test_other_parameters_outside_their_domain() -> None:
    with pytest.raises(InvalidParameter, match="`honest`"):
        unary_lie(0, 4, 0.1, 1e-6)
    with pytest.raises(InvalidParameter, match="`epsilon`"):
        unary_lie(100, 4, -0.1, 1e-6)
    with pytest.raises(InvalidParameter, match="`delta`"):
        unary_lie(100, 4, 0.1, 1.0)
