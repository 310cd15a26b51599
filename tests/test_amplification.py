"""Amplification by shuffling, compared with enumeration, 50 digits, scipy and known figures.

None of the judges here comes from `headcount.accounting`.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from itertools import combinations_with_replacement, permutations
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from headcount import InvalidParameter
from headcount.accounting.amplification import (
    Amplification,
    BinaryResponse,
    Blanket,
    Clones,
    clones_closed_form,
    flip_delta,
)

mpmath.mp.dps = 50

Row = Sequence[Fraction]
View = dict[tuple[int, ...], Fraction]  # keys are the numbers of copies of each message


def e_to_the(power: float) -> Fraction:
    """e^power to 44 digits, rounded toward 1, so that a matrix made from it is exactly private."""
    nearest = Fraction(mpmath.nstr(mpmath.exp(mpmath.mpf(power)), 45))
    return nearest * (1 - Fraction(1, 10**44)) if power > 0 else nearest


def exactly(value: Fraction | int) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator


def joined(view: View, row: Row) -> View:
    """The view after adding the message of one more person."""
    grown: View = defaultdict(Fraction)
    for counts, chance in view.items():
        for y, probability in enumerate(row):
            grown[*counts[:y], counts[y] + 1, *counts[y + 1 :]] += chance * probability
    return grown


def crowd_view(rows: Sequence[Row], messages: int) -> View:
    view: View = {(0,) * messages: Fraction(1)}
    for row in rows:
        view = joined(view, row)
    return view


def divergences(upper: View, lower: View, epsilons: Sequence[float]) -> list[mpmath.mpf]:
    pairs = [(exactly(chance), exactly(lower.get(seen, 0))) for seen, chance in upper.items()]
    factors = [mpmath.exp(mpmath.mpf(epsilon)) for epsilon in epsilons]
    return [sum(max(one - factor * other, 0) for one, other in pairs) for factor in factors]


def view_deltas(
    rows: Sequence[Row], honest: int, epsilons: Sequence[float], victims: int | None = None
) -> list[mpmath.mpf]:
    """The truth: the largest divergence of the full view over all datasets and neighbors.

    If `victims` is given, only the first few values may be the victim's.
    """
    worst = [mpmath.mpf(0)] * len(epsilons)
    for others in combinations_with_replacement(rows, honest - 1):
        crowd = crowd_view(others, len(rows[0]))
        views = [joined(crowd, row) for row in rows[:victims]]
        for one, other in permutations(views, 2):
            worst = list(map(max, worst, divergences(one, other, epsilons)))
    return worst


def k_ary_rows(k: int, local_epsilon: float) -> list[Row]:
    ratio = e_to_the(local_epsilon)
    total = ratio + k - 1
    return [[(ratio if x == y else Fraction(1)) / total for y in range(k)] for x in range(k)]


def flip_truths(honest: int, lie: Fraction, epsilons: Sequence[float]) -> list[mpmath.mpf]:
    return view_deltas([[1 - lie, lie], [lie, 1 - lie]], honest, epsilons)


# Binary response ----------------------------------------------------------------------------


@pytest.mark.parametrize("honest", range(1, 9))
@pytest.mark.parametrize(
    "lie", [Fraction(1, 3), Fraction(1, 50), Fraction(9, 20), Fraction(2**62 + 12345, 2**64)]
)
def test_flips_of_tiny_crowds_are_exact(honest: int, lie: Fraction) -> None:
    local = math.log((1 - lie) / lie)
    epsilons = [share * local for share in (0, 1e-9, 0.01, 0.2, 0.5, 0.9, 0.999)]
    for epsilon, truth in zip(epsilons, flip_truths(honest, lie, epsilons), strict=True):
        stated = flip_delta(honest, lie, epsilon)
        assert truth <= stated <= truth * (1 + 1e-10)
        assert flip_delta(honest, 1 - lie, epsilon) == stated


def test_the_worst_dataset_is_not_at_the_edge() -> None:
    """With 20 people, q = 1/20 and ε = 0.02, δ is a quarter larger if half of them hold ones."""
    lie, epsilon = Fraction(1, 20), 0.02
    zero, one = [1 - lie, lie], [lie, 1 - lie]
    crowds = [crowd_view([zero] * zeros + [one] * (19 - zeros), 2) for zeros in (19, 9)]
    views = [[joined(crowd, zero), joined(crowd, one)] for crowd in crowds]
    edge, half = (
        max(divergences(one, other, [epsilon]) + divergences(other, one, [epsilon]))
        for one, other in views
    )
    assert half > 1.24 * edge
    assert half <= flip_delta(20, lie, epsilon) <= half * (1 + 1e-10)


def test_binary_response_rounds_its_lies_to_the_private_side() -> None:
    for local in (0.01, 1.0, 7.3):
        epsilons = [0, 0.3 * local, 0.99 * local]
        truths = flip_truths(5, 1 / (1 + e_to_the(local)), epsilons)
        for epsilon, truth in zip(epsilons, truths, strict=True):
            assert truth <= BinaryResponse(5).delta(local, epsilon) <= truth * (1 + 1e-9)


def scipy_deltas(
    honest: int, lie: float, epsilon: float, ones: NDArray[np.int64] | None = None
) -> NDArray[np.float64]:
    """δ of some datasets, or of all, in one direction. Mirrored datasets cover the other."""
    ones = np.arange(honest) if ones is None else ones
    width = int(honest * lie + 16 * math.sqrt(honest * lie) + 40)
    rising = stats.binom.pmf(np.arange(width), honest - 1 - ones[:, None], lie)
    falling = stats.binom.pmf(np.arange(width), ones[:, None], lie)
    out = []
    for up, down in zip(rising, falling, strict=True):
        others = np.convolve(up, down[::-1])
        no = np.convolve(others, [1 - lie, lie])
        yes = np.convolve(others, [lie, 1 - lie])
        out.append(np.maximum(yes - math.exp(epsilon) * no, 0).sum())
    return np.array(out)


@pytest.mark.parametrize(
    ("honest", "lie", "epsilon", "slack"),
    [
        (1000, 34 / 1000, 1.0, 1e-7),  # the spec's λ = 68
        (2000, 1 / (1 + math.e), 0.0862, 1e-7),
        (2500, 88 / 2500, 0.5, 1e-7),
        (2500, 20 / 2500, 0.3, 1e-7),
        (12_000, 33 / 12_000, 1.0, 1.1e-4),  # blocks of datasets
        (12_000, 10 / 12_000, 0.1, 1.1e-4),
    ],
)
def test_flips_against_scipy_over_every_dataset(
    honest: int, lie: float, epsilon: float, slack: float
) -> None:
    truth = scipy_deltas(honest, lie, epsilon)
    assert len(truth) == honest
    stated = flip_delta(honest, Fraction(lie), epsilon)
    assert truth.max() * (1 - 1e-9) <= stated <= truth.max() * (1 + slack)


def test_flips_of_many_crowds_against_scipy() -> None:
    """Blocks of datasets are split where necessary."""
    random = np.random.default_rng(7)
    for _ in range(300):
        honest, lie = int(random.integers(20, 90)), float(random.uniform(0.01, 0.45))
        epsilon = float(random.uniform(0.02, 0.7)) * math.log((1 - lie) / lie)
        truth = scipy_deltas(honest, lie, epsilon).max()
        stated = flip_delta(honest, Fraction(lie), epsilon)
        assert truth * (1 - 1e-11) <= stated <= truth * (1 + 1e-8)


def test_datasets_inside_a_block_are_covered() -> None:
    """The worst dataset of a million, and its neighbors. None of them was computed by itself."""
    truth = scipy_deltas(10**6, 1e-4, 0.05, np.arange(996_700, 997_200))
    assert 100 < truth.argmax() < 400
    stated = flip_delta(10**6, Fraction(1e-4), 0.05)
    assert truth.max() * (1 - 1e-9) <= stated <= truth.max() * (1 + 1.1e-4)


def test_only_the_edge_would_overspend() -> None:
    """With few lies δ oscillates with the dataset. The edge alone misses several percent."""
    worst_excess = 0.0
    for mean in np.arange(30, 36, 0.5):
        truth = scipy_deltas(1000, mean / 1000, 1.0)
        stated = flip_delta(1000, Fraction(mean / 1000), 1.0)
        assert stated >= truth.max() * (1 - 1e-9)
        worst_excess = max(worst_excess, stated / max(truth[0], truth[-1]) - 1)
    assert 0.01 < worst_excess < 0.03


@pytest.mark.parametrize("honest", [10**4, 10**6, 10**8])
def test_large_crowds_are_near_the_edge(honest: int) -> None:
    """If nearly all people hold one value, δ has a closed form. Other datasets are hardly worse."""
    lie = 1 / (1 + math.e)
    epsilon = 3.566 / math.sqrt(honest)
    trials, law = honest - 1, stats.binom(honest - 1, lie)
    middle = trials * lie
    t = np.arange(max(0, int(middle - 8 * law.std())), int(middle))
    gain, price = 1 - lie - math.exp(epsilon) * lie, math.expm1(epsilon)
    edge = (gain * law.pmf(t) - price * law.cdf(t - 1)).max()
    stated = BinaryResponse(honest).delta(1.0, epsilon)
    assert edge * (1 - 1e-6) <= stated <= edge * (1 + 2e-4)


def test_known_figures_of_binary_response() -> None:
    ten_thousand = BinaryResponse(10**4)
    epsilon = ten_thousand.epsilon(1.0, 1e-6)
    assert epsilon == pytest.approx(0.0356588, abs=5e-8)
    assert ten_thousand.delta(1.0, epsilon) <= 1e-6
    assert BinaryResponse(1000).epsilon(1.0, 1e-6) == pytest.approx(0.1266, abs=5e-5)
    # The best general bound for two values, and published bounds of the blanket.
    assert Blanket.k_ary(10**4, 2).epsilon(1.0, 1e-6) == pytest.approx(0.0432, abs=5e-5)
    assert BinaryResponse(5000).epsilon(0.4, 1e-6) < Blanket.k_ary(5000, 2).epsilon(0.4, 1e-6)
    assert 0.018 < Blanket.k_ary(5000, 2).epsilon(0.4, 1e-6) < min(0.0239788, 0.0242830)


@pytest.mark.parametrize(
    ("honest", "epsilon", "low", "high"),
    [(10**4, 1.0, 67, 68), (10**5, 1.0, 68, 68.5), (10**4, 0.5, 175, 176), (10**5, 0.5, 179, 180)],
)
def test_noise_that_a_count_needs(honest: int, epsilon: float, low: float, high: float) -> None:
    few, many = (flip_delta(honest, Fraction(x / 2 / honest), epsilon) for x in (low, high))
    assert many <= 1e-6 < few


def test_few_or_no_lies() -> None:
    assert flip_delta(10**4, Fraction(0), 1.0) == 1.0
    assert 0.99 < flip_delta(10**4, Fraction(1, 10**9), 1.0) <= 1.0
    assert flip_delta(10**4, Fraction(1, 2), 0.0) < 1e-15
    assert flip_delta(10**4, Fraction(1, 3), math.log(2) + 1e-9) == 0.0
    assert flip_delta(10**4, Fraction(1, 3), 1e4) == 0.0


# Blankets -----------------------------------------------------------------------------------


def blanket_truths(rows: Sequence[Row], honest: int, epsilons: Sequence[float]) -> list[mpmath.mpf]:
    """The theorem in its original form: the victim is among a random number of blankets."""
    omega = [min(column) for column in zip(*rows, strict=True)]
    gamma = sum(omega, Fraction(0))
    pairs = list(permutations(range(len(rows)), 2))
    totals = [[mpmath.mpf(0)] * len(epsilons) for _ in pairs]
    for j in range(honest):
        chance = math.comb(honest - 1, j) * gamma**j * (1 - gamma) ** (honest - 1 - j)
        crowd = crowd_view([[w / gamma for w in omega]] * j, len(omega))
        views = [joined(crowd, row) for row in rows]
        for total, (one, other) in zip(totals, pairs, strict=True):
            for i, loss in enumerate(divergences(views[one], views[other], epsilons)):
                total[i] += exactly(chance) * loss
    return [max(column) for column in zip(*totals, strict=True)]


LN_4 = math.nextafter(math.log(4), 2.0)


def lopsided(_: float = 0.0) -> list[Row]:
    """Three values, four messages, no symmetry; ε₀ = ln 4, which `LN_4` rounds up."""
    sixtieths = [[4, 20, 24, 12], [16, 8, 24, 12], [6, 20, 6, 28]]
    return [[Fraction(chance, 60) for chance in row] for row in sixtieths]


@pytest.mark.parametrize("honest", range(1, 6))
@pytest.mark.parametrize(
    ("rows", "local", "blanket"),
    [
        (lopsided(), LN_4, lambda honest: Blanket.of(honest, lopsided)),
        (k_ary_rows(2, 2.0), 2.0, lambda honest: Blanket.k_ary(honest, 2)),
        (k_ary_rows(4, 2.0), 2.0, lambda honest: Blanket.k_ary(honest, 4)),
    ],
)
def test_blankets_compute_their_theorem(
    honest: int, rows: Sequence[Row], local: float, blanket: Callable[[int], Blanket]
) -> None:
    epsilons = [share * local for share in (0, 0.05, 0.3, 0.6, 0.95)]
    truths = blanket_truths(rows, honest, epsilons)
    for epsilon, truth in zip(epsilons, truths, strict=True):
        assert truth <= blanket(honest).delta(local, epsilon) <= truth * (1 + 2e-3)


@pytest.mark.parametrize("k", [1000, 10**6])
def test_blankets_of_many_values_compute_their_theorem(k: int) -> None:
    """All messages but two are equally likely for both values of the victim, so they are merged."""
    local, ratio = 4.0, e_to_the(4.0)
    one, rest = Fraction(1), Fraction(k - 2)
    parts = ([ratio, one, rest], [one, ratio, rest])
    rows = [[part / (ratio + k - 1) for part in row] for row in parts]
    epsilons = (0.0, 1e-3, 0.5, 2.0, 3.5)
    for honest in (2, 9):
        truths = blanket_truths(rows, honest, epsilons)
        for epsilon, truth in zip(epsilons, truths, strict=True):
            assert truth <= Blanket.k_ary(honest, k).delta(local, epsilon) <= truth * (1 + 1e-5)


def clones_truths(honest: int, local_epsilon: float, epsilons: Sequence[float]) -> list[mpmath.mpf]:
    """The two laws of the theorem as they are written. Each is the mirror image of the other."""
    ratio = e_to_the(local_epsilon)
    one: View = defaultdict(Fraction)
    other: View = defaultdict(Fraction)
    for c in range(honest):
        count = math.comb(honest - 1, c) * ratio**-c * (1 - 1 / ratio) ** (honest - 1 - c)
        for a in range(c + 1):
            chance = count * Fraction(math.comb(c, a), 2**c)
            for d, share in ((1, ratio / (1 + ratio)), (0, 1 / (1 + ratio))):
                one[a + d, c - a + 1 - d] += chance * share
                other[a + 1 - d, c - a + d] += chance * share
    return divergences(one, other, epsilons)


@pytest.mark.parametrize("honest", [1, 2, 3, 8, 20])
@pytest.mark.parametrize("local", [0.1, 1.0, 3.0])
def test_clones_compute_their_theorem(honest: int, local: float) -> None:
    epsilons = [share * local for share in (0, 1e-6, 0.1, 0.5, 0.9)]
    truths = clones_truths(honest, local, epsilons)
    for epsilon, truth in zip(epsilons, truths, strict=True):
        assert truth <= Clones(honest).delta(local, epsilon) <= truth * (1 + 2e-3)


def clones_scipy(honest: int, local_epsilon: float, epsilon: float) -> float:
    truth = 1 / (1 + math.exp(-local_epsilon))
    clones = stats.binom(honest - 1, math.exp(-local_epsilon))
    total = 0.0
    for c in range(max(0, int(clones.ppf(1e-25)) - 1), int(clones.isf(1e-25)) + 1):
        half = np.concatenate([[0.0], stats.binom.pmf(np.arange(c + 1), c, 0.5), [0.0]])
        one = truth * half[:-1] + (1 - truth) * half[1:]
        other = truth * half[1:] + (1 - truth) * half[:-1]
        total += clones.pmf(c) * np.maximum(one - math.exp(epsilon) * other, 0).sum()
    return total


@pytest.mark.parametrize(
    ("honest", "local", "epsilon", "about"),
    [(2000, 1.0, 0.125, 1e-6), (2000, 1.0, 0.19, 1e-10), (2000, 1.0, 0.244, 1e-15)],
)
def test_small_deltas_keep_their_precision(
    honest: int, local: float, epsilon: float, about: float
) -> None:
    truth = clones_scipy(honest, local, epsilon)
    assert about / 5 < truth < about * 5
    assert truth * (1 - 1e-8) <= Clones(honest).delta(local, epsilon) <= truth * (1 + 1e-5)


def test_known_figures_of_clones() -> None:
    assert Clones(10**4).epsilon(1.0, 1e-6) == pytest.approx(0.0530053, abs=1e-7)
    epsilon = Clones(10**5).epsilon(4.0, 1e-6)
    assert epsilon == pytest.approx(0.1697697, abs=1e-7)
    assert 0.16754 < epsilon < 0.17279  # the authors' own numeric bounds


def test_the_closed_form_of_clones() -> None:
    # The authors' script divides by 1 + e^(−ε₀−ε') in place of 1 + e^−ε₀, and prints 0.53780.
    stated = clones_closed_form(10**5, 4.0, 1e-6)
    ratio = mpmath.exp(4)
    root = 8 * mpmath.sqrt(ratio * mpmath.log(4 / mpmath.mpf(1e-6)) / 10**5) + 8 * ratio / 10**5
    formula = mpmath.log(1 + (ratio - 1) / (ratio + 1) * root)
    assert formula <= stated <= formula * (1 + 1e-12)
    assert stated == pytest.approx(0.534634, abs=1e-6)
    script = math.log(1 + (1 - math.exp(-4)) / (1 + math.exp(-4) / (1 + root)) * root)
    assert script == pytest.approx(0.53780, abs=5e-6)
    assert Clones(10**5).epsilon(4.0, 1e-6) < stated < script
    last = math.log(10**5 / (16 * math.log(4e6)))
    assert clones_closed_form(10**5, last - 1e-9, 1e-6) > 0
    for honest, local, delta in ((10**5, last + 1e-9, 1e-6), (10**5, 1.0, 0.0), (10, 1e4, 0.1)):
        with pytest.raises(InvalidParameter, match="closed form"):
            clones_closed_form(honest, local, delta)


# Against the full view ----------------------------------------------------------------------


@pytest.mark.parametrize(("k", "honest"), [(3, 2), (3, 4), (3, 6), (4, 3), (4, 6)])
def test_no_k_ary_view_shows_more_than_stated(k: int, honest: int) -> None:
    local, epsilons = 1.5, (0.0, 0.2, 0.7, 1.2, 1.49)
    # By symmetry a victim with one of two values is enough.
    truths = view_deltas(k_ary_rows(k, local), honest, epsilons, victims=2)
    for epsilon, truth in zip(epsilons, truths, strict=True):
        blanket = Blanket.k_ary(honest, k).delta(local, epsilon)
        clones = Clones(honest).delta(local, epsilon)
        assert truth <= blanket <= clones
        assert blanket <= truth * (1.002 if epsilon <= 0.2 else 1.2)


def test_a_lopsided_randomizer_shows_no_more_than_stated() -> None:
    local, epsilons = LN_4, (0.0, 0.3, 0.8, 1.3)
    for honest in (1, 2, 4):
        for epsilon, truth in zip(epsilons, view_deltas(lopsided(), honest, epsilons), strict=True):
            blanket = Blanket.of(honest, lopsided).delta(local, epsilon)
            assert truth <= blanket
            assert truth <= Clones(honest).delta(local, epsilon)
            if honest == 1:
                assert blanket <= truth * (1 + 1e-4)


def pair_delta(honest: int, k: int, local: float, epsilon: float) -> float:
    """A lower bound from the victim's two buckets. Everybody else is in other buckets."""
    p = 1 / (math.exp(local) + k - 1)
    others = stats.binom(honest - 1, 2 * p)
    factor, total = math.exp(epsilon), 0.0
    counts = np.arange(int(others.ppf(1e-15)), int(others.isf(1e-15)) + 1)
    chances = others.pmf(counts)
    for i, c in enumerate(counts):
        # The victim is in one of the buckets with c others, or in neither, and then c + 1 others
        # are there.
        alone = np.concatenate([[0.0], stats.binom.pmf(np.arange(c + 1), c, 0.5), [0.0]])
        one = p * (math.exp(local) * alone[:-1] + alone[1:]) * chances[i]
        other = p * (math.exp(local) * alone[1:] + alone[:-1]) * chances[i]
        if k > 2 and i + 1 < len(counts):
            neither = (1 - p - math.exp(local) * p) * chances[i + 1]
            neither = neither * stats.binom.pmf(np.arange(c + 2), c + 1, 0.5)
            one, other = one + neither, other + neither
        total += np.maximum(one - factor * other, 0).sum()
    return total


@pytest.mark.parametrize(("k", "figure"), [(3, 0.1170), (10, 0.1099), (100, 0.0684)])
def test_blankets_are_close_to_the_pair_of_buckets(k: int, figure: float) -> None:
    blanket = Blanket.k_ary(10**5, k)
    epsilon = blanket.epsilon(4.0, 1e-6)
    assert epsilon == pytest.approx(figure, abs=1e-4)
    pair = pair_delta(10**5, k, 4.0, epsilon)
    assert pair * (1 - 1e-6) <= blanket.delta(4.0, epsilon) <= pair * 1.05


def test_known_figure_of_the_blanket() -> None:
    stated = Blanket.k_ary(1000, 4).delta(3.0, 0.6)
    assert stated > 3.376e-5  # the full view's
    assert stated == pytest.approx(3.39e-5, abs=0.005e-5)


def test_many_values() -> None:
    """With a million values, the victim is hidden because hardly anybody sends the same message."""
    epsilons = [Blanket.k_ary(10**5, k).epsilon(4.0, 1e-6) for k in (10, 1000, 10**5, 10**6)]
    assert epsilons == sorted(epsilons, reverse=True)
    # At ε = 0, with almost nobody in the buckets, δ is nearly the total variation of one message.
    ratio = math.exp(4.0)
    alone = (ratio - 1) / (ratio + 10**6 - 1)
    assert alone * 0.98 < Blanket.k_ary(100, 10**6).delta(4.0, 0.0) <= alone


# One randomizer, given in two ways ----------------------------------------------------------


def test_a_matrix_and_its_formula_agree() -> None:
    for honest, epsilon in ((3, 0.4), (500, 0.2)):
        named = Blanket.k_ary(honest, 4)
        given = Blanket.of(honest, lambda local: k_ary_rows(4, local))
        floats = Blanket.of(
            honest,
            lambda local: [[float(chance) for chance in row] for row in k_ary_rows(4, local)],
        )
        assert len(given.pairs(1.5)) == 1
        for other in (given, floats):
            assert other.delta(1.5, epsilon) == pytest.approx(
                named.delta(1.5, epsilon), rel=1e-9, abs=0
            )


@pytest.mark.parametrize(
    "rows",
    [
        [[Fraction(1)]],
        [[0.5, 0.5], [0.5, 0.25, 0.25]],
        [[0.5, 0.5], [0.5, 0.4]],
        [[1.5, -0.5], [1.5, -0.5]],
        [[0.9, 0.1], [0.1, 0.9]],  # ε₀ = ln 9
        [[1.0, 0.0], [0.5, 0.5]],
        [[math.nan, 0.5], [0.5, 0.5]],
    ],
)
def test_matrices_that_are_no_private_randomizers(rows: Sequence[Sequence[float]]) -> None:
    with pytest.raises(InvalidParameter, match="randomizer"):
        Blanket.of(10, lambda _: rows).delta(2.0, 0.5)


def response_rows(ratio: Fraction) -> list[Row]:
    truth, lie = ratio / (1 + ratio), 1 / (1 + ratio)
    return [[truth, lie], [lie, truth]]


def given(
    rows: Sequence[Sequence[Fraction | float]], _: float
) -> Sequence[Sequence[Fraction | float]]:
    return rows


def every_question(crowd: Amplification) -> list[Callable[[], float]]:
    """All questions that assume that the randomizer is 1-private."""
    return [
        lambda: crowd.delta(1.0, 0.5),
        lambda: crowd.delta(1.0, 1.0),
        lambda: crowd.delta(1.0, 2.0),
        lambda: crowd.epsilon(1.0, 0.0),
        lambda: crowd.epsilon(1.0, 0.01),
        lambda: crowd.local_epsilon(1.0, 0.0),
        lambda: crowd.local_epsilon(1.0, 0.01),
    ]


def test_a_randomizer_is_checked_whatever_is_asked() -> None:
    """The check is exact for fractions, and is made even if only ε₀ would matter."""
    e_less = e_to_the(1.0)
    e_more = e_less * (1 + Fraction(3, 10**44))
    broken: list[Sequence[Sequence[Fraction | float]]] = [
        [[Fraction(1), Fraction(0)], [Fraction(0), Fraction(1)]],
        [[1.0, 0.0], [0.0, 1.0]],
        [[0.9, 0.1], [0.1, 0.9]],
        response_rows(e_more),
        [[float(chance) for chance in row] for row in response_rows(e_more + Fraction(1, 10**10))],
        [[Fraction(1, 2), Fraction(1, 2) - Fraction(1, 2**60)]] * 2,  # some of it is missing
    ]
    for rows in broken:
        for question in every_question(Blanket.of(100, partial(given, rows))):
            with pytest.raises(InvalidParameter, match="randomizer"):
                question()
    for question in every_question(Blanket.of(100, lambda _: response_rows(e_less))):
        assert question() >= 0
    assert Blanket.of(100, lambda _: response_rows(e_less)).delta(1.0, 1.0) == 0
    for huge in (1e4, 1e300):
        assert Blanket.of(100, lambda _: response_rows(Fraction(10**4000))).delta(huge, huge) == 0


def test_floats_that_round_a_private_law_count_as_less_private() -> None:
    """Some of these floats are not quite 1-private, and the law that they round is unknown."""
    rows = [[float(chance) for chance in row] for row in response_rows(e_to_the(1.0))]
    crowd = Blanket.of(100, lambda _: rows)
    assert 0 < crowd.delta(1.0, 1.0) < 1e-10
    assert crowd.delta(1.0, 1.0 + 1e-11) == 0
    assert 1 < crowd.epsilon(1.0, 0.0) < 1 + 1e-11
    rounded = Blanket.of(
        100,
        lambda local: [[float(chance) for chance in row] for row in response_rows(e_to_the(local))],
    )
    most = rounded.local_epsilon(1.0, 0.0)
    assert 1 - 1e-11 < most < 1
    assert rounded.delta(most, 1.0) == 0
    assert rounded.local_epsilon(1.0, 1e-6) > 1
    with pytest.raises(InvalidParameter, match="must give fractions"):
        rounded.local_epsilon(0.0, 0.0)


@pytest.mark.parametrize("randomizer", [None, [[0.5, 0.5], [0.5, 0.5]], "k-ary"])
def test_what_is_no_function_is_no_randomizer(randomizer: Any) -> None:
    with pytest.raises(InvalidParameter, match="`randomizer` must be a function"):
        Blanket.of(100, randomizer)


@pytest.mark.parametrize("rows", [None, 5, [5, 6], [], "ab", [["x", "y"], ["y", "x"]]])
def test_what_is_no_matrix_is_refused(rows: Any) -> None:
    with pytest.raises(InvalidParameter, match="randomizer"):
        Blanket.of(100, lambda _: rows).delta(1.0, 1.0)


# The three questions ------------------------------------------------------------------------

KINDS: list[Callable[[int], Amplification]] = [
    BinaryResponse,
    Clones,
    lambda honest: Blanket.k_ary(honest, 5),
    lambda honest: Blanket.of(honest, lambda local: k_ary_rows(3, local)),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("honest", "local", "delta"),
    [(300, 1.0, 1e-2), (2000, 0.5, 1e-6), (20_000, 3.0, 1e-9), (10**6, 2.0, 1e-12)],
)
def test_the_three_answers_agree(
    kind: Callable[[int], Amplification], honest: int, local: float, delta: float
) -> None:
    crowd = kind(honest)
    epsilon = crowd.epsilon(local, delta)
    assert 0 < epsilon < local
    assert crowd.delta(local, epsilon) <= delta
    assert crowd.delta(local, epsilon * 0.99) > delta
    most = crowd.local_epsilon(epsilon, delta)
    assert most >= epsilon
    assert crowd.delta(most, epsilon) <= delta
    assert crowd.delta(most * 1.01, epsilon) > delta
    assert most == pytest.approx(local, rel=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_more_people_hide_each_other_better(kind: Callable[[int], Amplification]) -> None:
    sizes = (1, 2, 10, 1000, 30_000, 10**6)
    deltas = [kind(honest).delta(1.0, 0.3) for honest in sizes]
    assert deltas == sorted(deltas, reverse=True)
    epsilons = [kind(honest).epsilon(1.0, 1e-6) for honest in (2, 300, 30_000)]
    assert epsilons == sorted(epsilons, reverse=True)
    # Beyond the size that is computed, more people do no harm.
    assert kind(10**12).delta(1.0, 1e-5) <= kind(10**7).delta(1.0, 1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_delta_falls_with_epsilon_and_rises_with_local_epsilon(
    kind: Callable[[int], Amplification],
) -> None:
    crowd = kind(300)
    by_epsilon = [crowd.delta(2.0, epsilon) for epsilon in np.linspace(0, 2, 15)]
    assert by_epsilon == sorted(by_epsilon, reverse=True)
    assert by_epsilon[0] < 1
    by_local = [crowd.delta(local, 0.3) for local in np.linspace(0.2, 9, 15)]
    assert by_local == sorted(by_local)


@pytest.mark.parametrize("kind", KINDS)
def test_local_privacy_survives(kind: Callable[[int], Amplification]) -> None:
    crowd = kind(2000)
    assert crowd.delta(1.0, 1.0) == crowd.delta(1.0, 7.0) == crowd.delta(0.0, 0.0) == 0.0
    assert crowd.epsilon(1.0, 0.0) == 1.0
    assert crowd.local_epsilon(1.0, 0.0) == 1.0
    assert crowd.epsilon(0.0, 1e-6) == 0.0
    assert crowd.epsilon(0.01, 0.5) == 0.0
    assert 0 < crowd.local_epsilon(0.0, 1e-3) < 1
    assert crowd.local_epsilon(0.5, 1e-300) >= 0.5


@pytest.mark.parametrize("kind", KINDS)
def test_a_lonely_victim_has_what_he_has_locally(kind: Callable[[int], Amplification]) -> None:
    values = (2, 2, 5, 3)[KINDS.index(kind)]
    for local in (0.2, 2.0, 9.0):
        for share in (0.0, 0.5, 0.9):
            ratio, factor = mpmath.exp(mpmath.mpf(local)), mpmath.exp(mpmath.mpf(share * local))
            truth = (ratio - factor) / (ratio + values - 1)
            assert truth <= kind(1).delta(local, share * local) <= truth * (1 + 1e-3)
            assert kind(2).delta(local, share * local) < truth


@pytest.mark.parametrize("kind", KINDS)
def test_no_privacy_to_amplify(kind: Callable[[int], Amplification]) -> None:
    for local in (40.0, 250.0, 299.0, 400.0, 1e6):
        if kind is not KINDS[3]:
            assert kind(1000).delta(local, 1.0) == pytest.approx(1.0, abs=1e-9)
            assert 0.99 * local - 5 < kind(1000).epsilon(local, 1e-6) <= local
    assert kind(1000).local_epsilon(400.0, 1e-6) == 400.0


def test_what_is_exact_says_so() -> None:
    assert BinaryResponse(2000).exact
    assert BinaryResponse(2000).method == "law of the number of ones, every dataset"
    assert not BinaryResponse(10**6).exact
    assert (
        BinaryResponse(10**6).method == "law of the number of ones, bounded over blocks of datasets"
    )
    assert not Clones(10).exact
    assert "2021" in Clones(10).method
    assert not Blanket.k_ary(10, 3).exact
    assert "2019" in Blanket.k_ary(10, 3).method


@pytest.mark.parametrize("honest", [0, -1, 2.5, "many", True, 2**60])
def test_crowds_that_are_none(honest: int) -> None:
    for kind in KINDS:
        with pytest.raises(InvalidParameter, match="honest"):
            kind(honest)
    with pytest.raises(InvalidParameter, match="honest"):
        flip_delta(honest, Fraction(1, 3), 0.1)


@pytest.mark.parametrize("bad", [-1e-9, math.nan, math.inf, "1", None])
def test_parameters_outside_their_domain(bad: float) -> None:
    crowd = Clones(100)
    questions: list[tuple[Callable[[], float], str]] = [
        (lambda: crowd.delta(bad, 0.1), "local_epsilon"),
        (lambda: crowd.delta(1.0, bad), "epsilon"),
        (lambda: crowd.epsilon(bad, 0.1), "local_epsilon"),
        (lambda: crowd.epsilon(1.0, bad), "delta"),
        (lambda: crowd.local_epsilon(bad, 0.1), "epsilon"),
        (lambda: crowd.local_epsilon(1.0, bad), "delta"),
        (lambda: clones_closed_form(10**6, bad, 1e-6), "local_epsilon"),
        (lambda: clones_closed_form(10**6, 1.0, bad), "delta"),
        (lambda: flip_delta(100, Fraction(1, 3), bad), "epsilon"),
    ]
    for question, name in questions:
        with pytest.raises(InvalidParameter, match=f"`{name}`"):
            question()


def test_other_parameters_outside_their_domain() -> None:
    with pytest.raises(InvalidParameter, match="`delta`"):
        Clones(100).epsilon(1.0, 1.0)
    with pytest.raises(InvalidParameter, match="`k`"):
        Blanket.k_ary(100, 1)
    for lie in (Fraction(-1, 2), Fraction(3, 2)):
        with pytest.raises(InvalidParameter, match="`lie`"):
            flip_delta(100, lie, 0.1)


def test_no_smaller_epsilon_is_pure() -> None:
    """If all others send the same message, one message has the likelihood ratio e^ε₀. So δ is never
    0 below ε₀, even if it is too small for a float.
    """
    for crowd in (Blanket.k_ary(10**4, 3), Clones(10**6), BinaryResponse(10**4)):
        for epsilon in (0.2, 0.5, 0.999):
            assert 0 < crowd.delta(1.0, epsilon) < 1e-3
        assert crowd.delta(1.0, 1.0) == 0


def test_one_person_with_a_fair_coin() -> None:
    assert 0 <= flip_delta(1, Fraction(2**63 - 1, 2**64), 0.0) < 1e-15
