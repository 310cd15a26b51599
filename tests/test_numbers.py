"""Sums and means: the values that people hold, and how they are rounded to levels.

The judges are rational numbers, enumeration, and scipy's laws.
"""

import math
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import headcount as hc
from enumeration import log_likelihood_ratio
from headcount.protocols.fixed_point import Grid

ALARM = 1e-6
QUARTERS = [(a, b) for a in (False, True) for b in (False, True)]
WORD = 2**64
HUGE = np.finfo(np.longdouble).max > 1e308  # whether there is a float longer than float64


class Words(hc.Source):
    """A source that returns only the given 64-bit words."""

    def __init__(self, words: Iterable[int]) -> None:
        self.words = list(words)
        self.used = 0

    def fill(self, buffer: NDArray[np.uint8]) -> None:
        count, rest = divmod(len(buffer), 8)
        assert not rest
        assert self.used + count <= len(self.words)
        chosen = self.words[self.used : self.used + count]
        buffer[:] = np.array(chosen, dtype=np.uint64).view(np.uint8)
        self.used += count


# Values ------------------------------------------------------------------------------------------

INTEGERS = [np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)]
FLOATS = [np.dtype(kind) for kind in (np.float16, np.float32, np.float64, np.longdouble)]


@pytest.mark.parametrize("dtype", [np.dtype(np.bool_), *INTEGERS, *FLOATS], ids=str)
@pytest.mark.parametrize("clamp", [False, True])
def test_every_kind_of_number_is_taken(dtype: np.dtype[Any], clamp: bool) -> None:
    values = np.array([0, 1, 1, 0], dtype=dtype)
    for whole, kind in ((True, np.int64), (False, np.float64)):
        encoded = hc.Sum(-1, 2, whole=whole, clamp=clamp).encode(values)
        assert encoded.dtype == kind
        assert encoded.tolist() == [0, 1, 1, 0]
        assert hc.Mean(-1, 2, whole=whole, clamp=clamp).encode(values.tolist()).tolist() == [
            0, 1, 1, 0,
        ]  # fmt: skip


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS], ids=str)
@pytest.mark.parametrize("whole", [False, True])
def test_every_kind_of_number_is_held_to_the_bounds(dtype: np.dtype[Any], whole: bool) -> None:
    extremes = np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype)
    values = np.array([3, extremes.max, extremes.min], dtype=dtype)
    signed = extremes.min < 0
    assert hc.Sum(2, 5, whole=whole, clamp=True).encode(values).tolist() == [3, 5, 2]
    for outside in values[1:]:
        with pytest.raises(hc.InvalidValue, match="must be"):
            hc.Sum(2, 5, whole=whole).encode([*values[:1].tolist(), outside])
    if signed:
        assert hc.Sum(-5, 2, whole=whole, clamp=True).encode(values).tolist() == [2, 2, -5]


@pytest.mark.parametrize("whole", [False, True])
def test_a_bool_may_hold_any_byte(whole: bool) -> None:
    values = np.array([1, 255], dtype=np.uint8).view(np.bool_)
    with pytest.raises(hc.InvalidValue, match="person 2"):
        hc.Sum(0, 1, whole=whole).encode(values)
    # Both sides of a check read the same byte, never 1 on one side and 255 on the other.
    assert hc.Sum(0, 300, whole=whole).encode(values).tolist() == [1, 255]
    assert hc.Sum(0, 1, whole=whole, clamp=True).encode(values).tolist() == [1, 1]


def test_bounds_are_those_of_float64() -> None:
    near = np.array([0.1], dtype=np.float32)  # a little above the float64 of this name
    with pytest.raises(hc.InvalidValue, match="must be a number from"):
        hc.Sum(0, 0.1).encode(near)
    assert hc.Sum(0, 0.1, clamp=True).encode(near).tolist() == [0.1]
    assert hc.Sum(0.1, 1).encode(near).tolist() == [float(near[0])]
    above = math.nextafter(0.1, 1)
    with pytest.raises(hc.InvalidValue):
        hc.Sum(0, 0.1).encode([above])
    with pytest.raises(hc.InvalidValue):
        hc.Sum(above, 1).encode([0.1])
    assert hc.Sum(0, above).encode([above, 0.1]).tolist() == [above, 0.1]


@pytest.mark.parametrize("make", [list, np.array])
def test_large_whole_numbers_are_exact(make: Any) -> None:
    most = 2**61
    values = [2**53 + 1, -(2**53) - 1, 2**60 + 1, most - 1, 1 - most, most, -most]
    task = hc.Sum(-most, most, whole=True)
    assert task.encode(make(values)).tolist() == values
    with pytest.raises(hc.InvalidValue):
        task.encode(make([most + 1]))
    with pytest.raises(hc.InvalidValue):
        hc.Sum(0, 2**53, whole=True).encode(make([2**53 + 1]))
    clamped = hc.Sum(-most, most, whole=True, clamp=True)
    assert clamped.encode(make([most + 1, 2**63 - 1, -(2**63)])).tolist() == [most, most, -most]
    beyond = [most + 1, 2**63, 2**64 - 1]
    given = beyond if make is list else np.array(beyond, dtype=np.uint64)
    assert clamped.encode(given).tolist() == [most] * 3
    with pytest.raises(hc.InvalidValue, match=r"whole numbers from 2\^53 on"):
        clamped.encode(np.array(beyond, dtype=np.float64))


def test_lists_on_both_sides_of_what_integers_hold() -> None:
    """NumPy turns such a list into floats, which lose the last digits."""
    most = 2**61
    task = hc.Sum(-most, most, whole=True, clamp=True)
    assert task.encode([2**63, 2**60 + 1, -1]).tolist() == [most, 2**60 + 1, -1]
    with pytest.raises(hc.InvalidValue, match="person 1"):
        hc.Sum(-most, most, whole=True).encode([2**63, 2**60 + 1, -1])
    # Beyond all integer types, NumPy makes no array of numbers.
    refused: list[Any] = [[2**70, 1], np.array([1, 0], dtype=object), [None, 1], ["1"], [1j], [[1]]]
    for values in refused:
        with pytest.raises(hc.InvalidValue, match="must be"):
            task.encode(values)


@pytest.mark.parametrize("clamp", [False, True])
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_what_is_no_number_is_refused(whole: bool, clamp: bool, dtype: np.dtype[Any]) -> None:
    task = hc.Sum(0, 1, whole=whole, clamp=clamp)
    with pytest.raises(hc.InvalidValue, match=r"must be .* got .*nan.* from person 2"):
        task.encode(np.array([1, math.nan, 0], dtype=dtype))
    infinite = np.array([math.inf, -math.inf], dtype=dtype)
    if clamp:
        assert task.encode(infinite).tolist() == [1, 0]
    else:
        with pytest.raises(hc.InvalidValue, match="and 1 more"):
            task.encode(infinite)


@pytest.mark.parametrize("clamp", [False, True])
def test_parts_are_no_whole_numbers_even_if_clamped(clamp: bool) -> None:
    task = hc.Sum(0, 1, whole=True, clamp=clamp)
    for value in (0.5, 1.5, -0.5, 7.25, math.nextafter(1, 0)):
        with pytest.raises(hc.InvalidValue, match="must be a whole number from 0 to 1"):
            task.encode([0, value])
    assert task.encode([1.0, -0.0]).tolist() == [1, 0]


@pytest.mark.skipif(not HUGE, reason="long floats are those of 64 bits here")
@pytest.mark.parametrize("whole", [False, True])
def test_floats_beyond_float64(whole: bool) -> None:
    beyond = np.array(["1e400", "-1e400"], dtype=np.longdouble)
    assert hc.Sum(-1, 1, whole=whole, clamp=True).encode(beyond).tolist() == [1, -1]
    with pytest.raises(hc.InvalidValue):
        hc.Sum(-1, 1, whole=whole).encode(beyond)
    exact = np.array([2**60], dtype=np.longdouble) + 1
    assert hc.Sum(0, 2**61, whole=True).encode(exact).tolist() == [2**60 + 1]


@pytest.mark.parametrize("task", [hc.Sum, hc.Mean])
@pytest.mark.parametrize(
    ("low", "high"),
    [
        (1, 1), (2, 1), (0, -0.0), (math.nan, 1), (0, math.nan), (-math.inf, 1), (0, math.inf),
        ("0", 1), (0, "1"), (None, 1), (True, 2), (0, 1j), (0, 1.1e150), (-1.1e150, 0),
        (0, 0.9e-150), (-0.9e-150, 1), (0, 10**400),
    ],
)  # fmt: skip
def test_bounds_that_are_none(task: Any, low: Any, high: Any) -> None:
    with pytest.raises(hc.InvalidParameter, match="must be"):
        task(low, high)
    with pytest.raises(hc.InvalidParameter, match="must be"):
        task(low, high, whole=True)


def test_bounds_of_whole_numbers() -> None:
    for low, high in ((0.5, 2), (0, 1.5), (0, 2**61 + 1), (-(2**61) - 1, 0), (0, 1e300)):
        with pytest.raises(hc.InvalidParameter, match="must be"):
            hc.Sum(low, high, whole=True)
    task = hc.Sum(-(2**61), 2.0, whole=True)
    assert (task.low, task.high) == (-(2**61), 2)
    assert task.span == 2**61 + 2
    assert task.domain == 2**61 + 3
    assert task.whole_answers
    assert not hc.Mean(0, 1, whole=True).whole_answers
    assert hc.Sum(0, 1) == hc.Sum(0.0, 1.0)
    mean: hc.Task = hc.Mean(0, 1)
    assert mean != hc.Sum(0, 1)
    assert hc.Sum(0.1, 0.3).span == Fraction(0.3) - Fraction(0.1)


def test_holdings_and_answers() -> None:
    task = hc.Sum(-1, 0.5)
    held = task.holding({0.1: 3, -1: 2, 0.5: 0})
    assert held.users == 5
    assert held.values.tolist() == [0.1, -1, 0.5]
    assert task.exact_sum(held) == 3 * Fraction(0.1) - 2
    assert task.answer(held) == float(3 * Fraction(0.1) - 2)
    assert hc.Mean(-1, 0.5).answer(held) == float((3 * Fraction(0.1) - 2) / 5)
    large = hc.Sum(0, 2**61, whole=True)
    held = large.holding({2**60 + 1: 2**40, 3: 1})
    assert large.exact_sum(held) == (2**60 + 1) * 2**40 + 3
    many = hc.Sum(0, 1).holding({0.1: 2**49, 1: 2**49})
    assert hc.Sum(0, 1).exact_sum(many) == 2**49 * (1 + Fraction(0.1))
    clamped = hc.Sum(0, 1, clamp=True).holding({7: 2, -1: 1})
    assert clamped.values.tolist() == [1, 0]


@pytest.mark.parametrize(
    "counts",
    [
        {}, [1, 2], 3, None, {0: -1, 1: 2}, {0: 0}, {0: 1.5}, {0: True}, {0: "1"}, {0: 2**51},
        {0: 2**50, 1: 1}, {0: 2**70}, {0: [1, 2], 1: 3}, {2: 1}, {math.nan: 1}, {"a": 1}, {None: 1},
        {0: None}, {0: np.uint64(2**63), 1: np.uint64(2**63)},
    ],
    ids=str,
)  # fmt: skip
def test_holdings_that_are_none(counts: Any) -> None:
    with pytest.raises(hc.InvalidValue, match="must"):
        hc.Sum(0, 1).holding(counts)


def test_counts_of_different_lengths_are_refused() -> None:
    ragged: Any = [[1, 2], 3]
    with pytest.raises(hc.InvalidValue, match="must be"):
        hc.Count().holding(ragged)


@pytest.mark.parametrize("users", [1, 3, 10**6 + 1])
def test_no_answer_lies_outside_of_the_range(users: int) -> None:
    for low, high in ((2**53 + 1, 2**53 + 3), (-(2**60) - 1, 2**60 + 1), (5, 2**61 - 1)):
        task = hc.Sum(low, high, whole=True)
        least, most = task.answer_range(users)
        assert least == task.answer(task.holding({low: users})) == float(low * users)
        assert most == task.answer(task.holding({high: users})) == float(high * users)
    real = hc.Sum(0.1, 0.7)
    assert real.answer_range(users) == tuple(
        real.answer(real.holding({end: users})) for end in (0.1, 0.7)
    )


# Rounding ----------------------------------------------------------------------------------------


def decided(t: Fraction, words: Iterable[int]) -> int:
    """⌈t − U⌉ for U = 0.w₁w₂… in digits of 64 bits, decided word by word."""
    floor = t.numerator // t.denominator
    share, least, width = t - floor, Fraction(0), Fraction(1)
    for word in words:
        width /= WORD
        least += word * width
        if least >= share:
            return floor
        if least + width <= share:
            return floor + 1
    raise AssertionError("there are not enough words")


def digits(share: Fraction, count: int) -> list[int]:
    """The first digits of a number to base 2^64."""
    found = []
    for _ in range(count):
        digit, share = divmod(share * WORD, 1)
        found.append(int(digit))
    return found


# Bounds and levels for which floating point errs in one way or another.
GRIDS = [
    (0.0, 1.0, 1), (0.0, 1.0, 3), (0.0, 1.0, 3 * 2**20), (0.0, 3.0, 2**40), (0.1, 0.3, 7),
    (0.1, 0.3, 1), (-0.7, 0.1, 1000), (-1e150, 1e-150, 5), (1.0, math.nextafter(1, 2), 1),
    (1.0, 1 + 2.0**-50, 3), (-1e-150, 1e150, 3 * 2**30), (1e-150, 2e-150, 2**40 - 1),
    (1e6, 1e6 + 1e-3, 12345), (0.0, 1.0, 2**40), (-3.0, 3.0, 2**47), (0.0, 1.0, 2**50),
]  # fmt: skip


def awkward(grid: Grid, rng: np.random.Generator) -> list[float]:
    """Values at the ends, next to them, next to levels and to halves of levels, and anywhere."""
    low, high = grid.task.low, grid.task.high
    values = [low, high, math.nextafter(low, high), math.nextafter(high, low), 0.0, 5e-324, -1e-310]
    for place in (1, 2, Fraction(1, 2), Fraction(1, 3), grid.levels // 3, grid.levels - 1):
        near = float(Fraction(low) + place * grid.unit)
        values += [near, math.nextafter(near, low), math.nextafter(near, high)]
    values += rng.uniform(low / 2, high / 2, 8).tolist()
    return [2 * v if low <= 2 * v <= high else v for v in values if low <= v <= high]


@pytest.mark.parametrize(("low", "high", "levels"), GRIDS)
def test_rounding_is_exact_at_its_threshold(low: float, high: float, levels: int) -> None:
    grid = Grid(hc.Sum(low, high), levels)
    for value in awkward(grid, np.random.default_rng(5)):
        t = (Fraction(value) - Fraction(low)) * levels / (Fraction(high) - Fraction(low))
        assert grid.place(value) == t
        first, second, third = digits(t - math.floor(t), 3)
        tries = [[first + by, 0] for by in (-1, 0, 1, -(2**12), 2**12, -(2**20), 2**20)]
        tries += [[first, second + by, 0] for by in (-1, 0, 1)]
        tries += [[first, second, third + by, 0, 0] for by in (-1, 0, 1)]
        tries += [[0, 0], [1, 0], [WORD - 1, WORD - 1, WORD - 1], [WORD // 2, 0]]
        for words in tries:
            if all(0 <= word < WORD for word in words):
                more = [*words, 1, 2, 3]
                found = grid.round(np.array([value]), Words(more))
                assert found.tolist() == [decided(t, more)], (value, words)


@pytest.mark.parametrize(("low", "high", "levels"), GRIDS)
def test_ends_are_levels_whatever_the_bits(low: float, high: float, levels: int) -> None:
    grid = Grid(hc.Mean(low, high), levels)
    words = [0, 1, 2**11, 2**12, 2**63, WORD - 2**12, WORD - 1]
    ends = np.repeat([low, high], len(words))
    assert grid.round(ends, Words(words * 2)).tolist() == [0] * len(words) + [levels] * len(words)


def check_rounding(grid: Grid, values: NDArray[Any], rng: np.random.Generator) -> None:
    """Many values at once. Half of the words are at or next to a point where rounding changes."""
    low, span = Fraction(grid.task.low), grid.task.span
    words = rng.integers(0, 2**64, len(values), dtype=np.uint64).tolist()
    offsets = rng.integers(-3, 4, len(values)) << rng.integers(0, 18, len(values))
    expected, open_ones = [], []
    for i, value in enumerate(values.tolist()):
        top, bottom = value.as_integer_ratio()
        # (value − low)·levels/span, in whole numbers.
        size = bottom * low.denominator * span.numerator
        place = (top * low.denominator - low.numerator * bottom) * grid.levels * span.denominator
        whole, rest = divmod(place, size)
        digit, left = divmod(rest * WORD, size)
        if i % 2:
            words[i] = min(max(digit + int(offsets[i]), 0), WORD - 1)
        expected.append(whole + (words[i] < digit))
        if words[i] == digit and left:
            open_ones.append((i, whole, Fraction(left, size)))
    more = rng.integers(0, 2**64, len(open_ones), dtype=np.uint64).tolist()
    for (i, whole, share), word in zip(open_ones, more, strict=True):
        expected[i] = decided(whole + share, [word])
    source = Words(words + more)
    found = grid.round(values, source)
    assert found.tolist() == expected
    assert source.used == len(source.words)


@pytest.mark.parametrize("seed", range(4))
def test_rounding_agrees_with_rational_numbers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(60):
        exponents = rng.uniform(-12, 12, 2)
        low = float(rng.choice([-1, 0, 1])) * 10.0 ** exponents[0]
        high = low + 10.0 ** exponents[1]
        if low < high:
            levels = int(2 ** rng.uniform(0, 41))
            values = np.clip(rng.uniform(low, high, 700), low, high)
            check_rounding(Grid(hc.Sum(low, high), levels), values, rng)
    for _ in range(30):
        ends = sorted({int(x) for x in rng.integers(-(2**61), 2**61, 2) >> rng.integers(0, 60)})
        if len(ends) == 2:
            grid = Grid(hc.Sum(*ends, whole=True), int(2 ** rng.uniform(0, 40)))
            if not grid.exact:
                check_rounding(grid, rng.integers(ends[0], ends[1], 700, endpoint=True), rng)


@pytest.mark.slow
def test_rounding_agrees_a_million_times() -> None:
    for seed in range(100, 120):
        test_rounding_agrees_with_rational_numbers(seed)


def test_rounding_of_more_than_a_chunk() -> None:
    rng = np.random.default_rng(2)
    grid = Grid(hc.Sum(0, 1), 3)
    values, words = rng.uniform(0, 1, 40_000), rng.integers(0, 2**64, 40_000, dtype=np.uint64)
    found = grid.round(values, Words(words.tolist()))
    judged = [
        decided(grid.place(v), [w]) for v, w in zip(values.tolist(), words.tolist(), strict=True)
    ]
    assert found.tolist() == judged


@pytest.mark.parametrize("value", [0.1, 0.25, 0.3, 0.5, 2 / 3, 0.97])
def test_chances_are_those_of_rounding(value: float) -> None:
    grid, runs = Grid(hc.Sum(-0.1, 1.2), 3), 400_000
    law = dict(grid.chances(value))
    t = grid.place(value)
    floor = math.floor(t)
    assert law == {floor: 1 - (t - floor), floor + 1: t - floor}
    found = Counter(grid.round(np.full(runs, value), hc.SeededSource(3)).tolist())
    assert log_likelihood_ratio(found, {k: float(p) for k, p in law.items()})[1] > ALARM
    for by in (-0.02, 0.02):
        wrong = {floor: float(1 - t + floor) - by, floor + 1: float(t - floor) + by}
        assert log_likelihood_ratio(found, wrong)[1] < ALARM


def test_whole_places_have_one_chance() -> None:
    assert Grid(hc.Sum(0, 1), 4).chances(0.5) == [(2, Fraction(1))]
    assert Grid(hc.Sum(0, 1), 4).chances(0) == [(0, Fraction(1))]
    assert Grid(hc.Sum(0, 1), 4).chances(1) == [(4, Fraction(1))]
    assert Grid(hc.Sum(0, 3, whole=True), 2).chances(1) == [
        (0, Fraction(1, 3)),
        (1, Fraction(2, 3)),
    ]


@pytest.mark.parametrize("span", range(1, 9))
@pytest.mark.parametrize("levels", range(1, 13))
def test_grids_of_whole_numbers(span: int, levels: int) -> None:
    task = hc.Sum(-2, span - 2, whole=True)
    grid = Grid(task, levels)
    places = [Fraction(k * levels, span) for k in range(span + 1)]
    assert grid.unit == Fraction(span, levels)
    assert [grid.place(k - 2) for k in range(span + 1)] == places
    assert grid.exact == all(place.denominator == 1 for place in places)
    assert grid.full == all(level in places for level in range(levels + 1))
    variances = []
    for k in range(span + 1):
        law = grid.chances(k - 2)
        assert sum(p for _, p in law) == 1
        assert sum(p * level for level, p in law) == places[k]
        variances.append(sum(p * (level - places[k]) ** 2 for level, p in law))
    assert grid.variance(5, None) == pytest.approx(5 * float(max(variances)), rel=1e-15)
    held = task.holding({k - 2: k + 1 for k in range(span + 1)})
    truth = sum((k + 1) * v for k, v in enumerate(variances))
    assert grid.variance(held.users, held) == pytest.approx(float(truth), rel=1e-14)
    if grid.exact:
        values = np.arange(-2, span - 1)
        assert grid.round(values, Words([])).tolist() == places


def test_grids_of_reals() -> None:
    grid = Grid(hc.Mean(0, 2), 5)
    assert grid.full
    assert not grid.exact
    assert grid.variance(12, None) == 3
    held = grid.task.holding({0.1: 3, 0.5: 2, 2: 9})
    shares = [(Fraction(0.1) * 5 / 2, 3), (Fraction(1, 4), 2)]
    truth = sum(n * f * (1 - f) for f, n in shares)
    assert grid.variance(14, held) == pytest.approx(float(truth), rel=1e-14)


def test_a_crowd_is_rounded_at_once_with_the_same_law() -> None:
    """The law of how many of fifty people, and of thirty others, are rounded up."""
    task = hc.Sum(0, 1)
    grid, runs, source = Grid(task, 4), 2_000, hc.SeededSource(9)
    held = task.holding({0.05: 50, 0.6: 30, 0.75: 4, 1: 2, 0.5: 0})
    found: Counter[tuple[int, ...]] = Counter()
    for _ in range(runs):
        rounded = grid.rounded(held, source)
        assert rounded.users == 86
        by_level = dict(zip(rounded.values.tolist(), rounded.counts.tolist(), strict=True))
        assert len(by_level) == len(rounded.values)
        found[tuple(by_level.get(level, 0) for level in range(5))] += 1

    def law_of(*shares: float) -> dict[tuple[int, ...], float]:
        first = stats.binom.pmf(np.arange(51), 50, shares[0])
        other = stats.binom.pmf(np.arange(31), 30, shares[1])
        return {
            (50 - i, i, 30 - j, j + 4, 2): float(p * q)
            for i, p in enumerate(first)
            for j, q in enumerate(other)
        }

    def seen(one: int, law: dict[tuple[int, ...], float]) -> float:
        """The p-value of a single level, since there are many pairs of levels."""
        marginal: dict[int, float] = {}
        for outcome, chance in law.items():
            marginal[outcome[one]] = marginal.get(outcome[one], 0.0) + chance
        counts: Counter[int] = Counter()
        for outcome, times in found.items():
            counts[outcome[one]] += times
        return log_likelihood_ratio(counts, marginal)[1]

    assert set(found) <= set(law_of(0.2, 0.4))
    for one in (1, 3):
        assert seen(one, law_of(0.2, 0.4)) > ALARM
    for by in (-0.02, 0.02):
        assert seen(1, law_of(0.2 + by, 0.4)) < ALARM
        assert seen(3, law_of(0.2, 0.4 + by)) < ALARM
    # The two are independent.
    low = {
        k: sum(n for key, n in found.items() if (key[1] < 10, key[3] < 16) == k) for k in QUARTERS
    }
    first, second = (float(stats.binom.cdf(k, n, p)) for k, n, p in ((9, 50, 0.2), (11, 30, 0.4)))
    both = {
        (a, b): (first if a else 1 - first) * (second if b else 1 - second) for a, b in QUARTERS
    }
    assert log_likelihood_ratio(Counter(low), both)[1] > ALARM


def test_chances_too_small_for_a_float() -> None:
    for task, value, level in (
        (hc.Sum(0, 1e150), 5e-324, 0),
        (hc.Sum(-1e150, 1e150), -5e-324, 2),
        (hc.Sum(-1e150, 1e150), 5e-324, 2),
    ):
        held = task.holding({value: 1000})
        rounded = Grid(task, 4).rounded(held, hc.SeededSource(1))
        assert rounded.values.tolist() == [level]
        assert rounded.counts.tolist() == [1000]
