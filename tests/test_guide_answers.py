"""Part 4 of the guide: flipped bits, shares in a triangle, and the worth of private answers."""

import math
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, expect

import headcount as hc
from guide_pages import embedded, opened, shown_number
from guide_widgets import number_in, reading, slide, table


@pytest.fixture
def one_hot(browser: Browser) -> Iterator[Locator]:
    with opened(browser) as page:
        yield page.locator("[data-widget=one-hot]")


@pytest.fixture
def simplex(browser: Browser) -> Iterator[Locator]:
    with opened(browser) as page:
        yield page.locator("[data-widget=simplex]")


@pytest.fixture
def worth(browser: Browser) -> Iterator[Locator]:
    with opened(browser) as page:
        yield page.locator("[data-widget=worth]")


# Numbers --------------------------------------------------------------------------------------


def flipped_variance(epsilon: float) -> float:
    return math.exp(epsilon / 2) / (math.exp(epsilon / 2) - 1) ** 2


def laplace_variance(epsilon: float) -> float:
    """The variance of integers with probabilities proportional to e^{−ε|w|/2}."""
    a = math.exp(-epsilon / 2)
    return 2 * a / (1 - a) ** 2


def subset_variance(epsilon: float, buckets: int) -> float:
    """The variance for people who are spread evenly, with the best subset size for rare buckets."""

    def variances(size: int) -> tuple[float, float]:
        p = math.exp(epsilon) * size / (math.exp(epsilon) * size + buckets - size)
        q = p * (size - 1) / (buckets - 1) + (1 - p) * size / (buckets - 1)
        rare = q * (1 - q) / (p - q) ** 2
        return rare, rare + (1 - p - q) / (p - q) / buckets

    return min(variances(size) for size in range(1, buckets))[1]


def test_variances_are_those_of_the_formulas() -> None:
    found = embedded()["answers"]["worth"]
    for place, epsilon in enumerate(found["epsilons"]):
        assert found["flipped"][place] == pytest.approx(flipped_variance(epsilon))
        assert found["laplace"][place] == pytest.approx(laplace_variance(epsilon))
        assert found["rate"][place] == (pytest.approx(epsilon**2) if epsilon <= 1 else None)
        for row, buckets in zip(found["subset"], found["buckets"], strict=True):
            # The crowd cannot always be divided evenly.
            assert row[place] == pytest.approx(subset_variance(epsilon, buckets), rel=1e-3)


def test_flips_follow_the_formula() -> None:
    for level in embedded()["answers"]["levels"]:
        flip = 1 / (1 + math.exp(level["epsilon"] / 2))
        assert level["flip"] == pytest.approx(flip)
        assert int(level["device"]["other"]) / 2**64 == pytest.approx(flip)
        assert int(level["device"]["own"]) / 2**64 == pytest.approx(1 - flip)
        assert level["variance"] == pytest.approx(flipped_variance(level["epsilon"]))


# A row of bits --------------------------------------------------------------------------------


def test_message_is_the_answer_with_flipped_bits(one_hot: Locator) -> None:
    answers = embedded()["answers"]["answers"]
    flips = 0
    for held, answer in enumerate(answers):
        one_hot.get_by_role("radio", name=answer).check()
        one_hot.get_by_role("button", name="Send your answer").click()
        rows = one_hot.locator(".bits tbody tr").all()
        cells = [row.locator("th, td").all_inner_texts() for row in rows]
        assert [row[0] for row in cells] == answers
        assert [row[1] for row in cells] == [str(int(at == held)) for at in range(len(answers))]
        changed = [row[2][0] != row[1] for row in cells]
        assert ["flipped" in row[2] for row in cells] == changed
        expect(one_hot).to_contain_text(f"{sum(changed)} of {len(answers)} bits were flipped.")
        flips += sum(changed)
    assert 0 < flips < 25


def test_an_answer_is_needed(one_hot: Locator) -> None:
    one_hot.get_by_role("button", name="Send your answer").click()
    expect(one_hot).to_contain_text("Choose an answer first.")


@pytest.mark.slow
def test_crowd_is_estimated_from_the_ones_that_came(one_hot: Locator) -> None:
    found = embedded()["answers"]
    people = found["people"]
    for place, level in enumerate(found["levels"]):
        slide(one_hot, "ε", place)
        one_hot.get_by_role("button", name="people answer").click()
        expect(one_hot).to_contain_text("people answered")
        epsilon = level["epsilon"]
        flip = 1 / (1 + math.exp(epsilon / 2))
        error = math.sqrt(flipped_variance(epsilon) / people)
        rows = table(one_hot)
        assert [row[0] for row in rows] == found["answers"]
        for row, count in zip(rows, found["counts"], strict=True):
            came, estimate, truth = (shown_number(cell) / 100 for cell in row[1:])
            assert truth == pytest.approx(count / people)
            assert estimate == pytest.approx((came - flip) / (1 - 2 * flip), abs=0.01)
            assert abs(estimate - truth) < 5 * error
        shown = re.search(r"each share is ([\d.]+) points", one_hot.inner_text())
        assert shown
        assert float(shown[1]) == pytest.approx(100 * error, abs=0.051)


# The triangle ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("crowd", "level"), [(0, 0), (1, 1), (2, 3)])
def test_estimates_have_the_error_of_the_formula(simplex: Locator, crowd: int, level: int) -> None:
    found = embedded()["answers"]
    slide(simplex, "People in each crowd", crowd)
    slide(simplex, "ε", level)
    people, epsilon = found["crowds"][crowd], found["levels"][level]["epsilon"]
    expected = 3 * flipped_variance(epsilon) / people
    theory = number_in(reading(simplex, "Squared error, in theory"))
    assert theory == pytest.approx(expected, rel=6e-3)
    simplex.get_by_role("button", name="crowds").click()
    measured = number_in(reading(simplex, "Squared error, measured"))
    assert 0.5 * expected < measured < 1.7 * expected  # the seed is fixed
    moved = number_in(reading(simplex, "Squared error, moved inside"))
    assert moved < measured


@pytest.mark.slow
def test_moved_points_are_the_nearest_in_the_triangle(simplex: Locator) -> None:
    """The nearest point is found by comparing all points of a fine grid."""
    slide(simplex, "People in each crowd", 0)
    slide(simplex, "ε", 1)
    simplex.get_by_role("button", name="crowds").click()
    expect(simplex).to_contain_text("outside the triangle")
    before = [[shown_number(cell) / 100 for cell in row[1:]] for row in table(simplex)]
    simplex.get_by_role("radio", name="moved inside").check()
    expect(simplex).to_contain_text("0 are outside the triangle")
    expect(simplex.locator(".triangle .hollow")).to_have_count(0)
    after = [[shown_number(cell) / 100 for cell in row[1:]] for row in table(simplex)]
    grid = [(a / 100, b / 100, 1 - (a + b) / 100) for a in range(101) for b in range(101 - a)]
    assert any(min(point) < 0 for point in before)
    for raw, moved in zip(before, after, strict=True):
        assert sum(raw) == pytest.approx(1, abs=2e-3)
        assert sum(moved) == pytest.approx(1, abs=2e-3)
        assert min(moved) >= 0
        best = min(math.dist(raw, point) for point in grid)
        assert math.dist(raw, moved) <= best + 2e-3


# The worth of answers -------------------------------------------------------------------------


@pytest.mark.parametrize(("buckets", "people", "level"), [(2, 2, 5), (0, 4, 0), (6, 3, 9)])
def test_worth_follows_from_the_variances(
    worth: Locator, buckets: int, people: int, level: int
) -> None:
    found = embedded()["answers"]["worth"]
    slide(worth, "Possible answers, d", buckets)
    slide(worth, "People, n", people)
    slide(worth, "ε", level)
    d, n, epsilon = found["buckets"][buckets], found["people"][people], found["epsilons"][level]
    sampling = 1 - 1 / d
    variances = {
        "Flipped bits": flipped_variance(epsilon),
        "Laplace noise": laplace_variance(epsilon),
    }
    for name, variance in variances.items():
        expected = n * sampling / (sampling + d * variance)
        assert shown_number(reading(worth, name)) == pytest.approx(expected, abs=0.51)
    # The error of random subsets is that of the library.
    users = 10_000
    even = [users // d + (bucket < users % d) for bucket in range(d)]
    p = hc.protocol("local.subset", hc.Histogram(d), hc.Budget(epsilon), hc.Crowd(users))
    error = d * (p.standard_error(even) / users) ** 2
    expected = sampling / (sampling / users + error) / users * n
    assert shown_number(reading(worth, "Random subsets")) == pytest.approx(expected, abs=0.51)
    rate = reading(worth, "The rate nε²/d")
    if epsilon <= 1:
        assert shown_number(rate) == pytest.approx(n * epsilon**2 / d, abs=0.51)
    else:
        assert rate == "only for ε ≤ 1"
    flipped = n * sampling / (sampling + d * variances["Flipped bits"])
    expect(worth).to_contain_text(f"{round(flipped):,} unprotected ones")


@pytest.mark.slow
def test_chart_of_worth_moves_with_the_sliders(worth: Locator) -> None:
    expect(worth.locator("figcaption")).to_contain_text("d = 5")
    slide(worth, "Possible answers, d", 3)
    expect(worth.locator("figcaption")).to_contain_text("d = 10")
    slide(worth, "ε", 3)
    expect(worth.locator(".rule text")).to_have_text("ε = 0.5")
    rows = table(worth)
    kept = 0.9 / (0.9 + 10 * flipped_variance(0.5))
    row = next(row for row in rows if row[0] == "0.5")
    assert shown_number(row[1]) / 100 == pytest.approx(kept, rel=1e-2)
    assert shown_number(row[4]) / 100 == pytest.approx(0.25 / 10)
