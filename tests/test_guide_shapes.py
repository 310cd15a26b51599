"""Part 5 of the guide: densities from bins and waves, and how fast their errors fall."""

import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from playwright.sync_api import Browser, Locator, expect
from scipy import stats

from guide_pages import embedded, opened
from guide_widgets import number_in, reading, slide, table

Numbers = NDArray[np.float64]


@pytest.fixture
def density(browser: Browser) -> Iterator[Locator]:
    with opened(browser) as page:
        yield page.locator("[data-widget=density]")


@pytest.fixture
def rates(browser: Browser) -> Iterator[Locator]:
    with opened(browser) as page:
        yield page.locator("[data-widget=rates]")


# Numbers --------------------------------------------------------------------------------------


def true_density(places: Numbers) -> Numbers:
    """The two groups of the population."""
    total: Numbers = 0.65 * stats.beta(4, 10).pdf(places) + 0.35 * stats.beta(14, 6).pdf(places)
    return total


def fine(count: int) -> Numbers:
    return (np.arange(count) + 0.5) / count


def laplace_variance(epsilon: float) -> float:
    a = math.exp(-epsilon / 2)
    return 2 * a / (1 - a) ** 2


def amplitude(epsilon: float, waves: int) -> float:
    spread: float = 2 ** (waves - 1) / math.comb(waves - 1, (waves - 1) // 2)
    return math.sqrt(2) * spread / math.tanh(epsilon / 2)


def bin_error(bins: int, people: int, epsilon: float) -> dict[str, float]:
    """The parts of the error, by summing over a fine grid."""
    values = true_density(fine(bins * 2000)).reshape(bins, -1)
    shares = values.mean(axis=1) / bins
    return {
        "bias": float(np.mean((values - values.mean(axis=1, keepdims=True)) ** 2)),
        "sampling": bins * float(np.sum(shares * (1 - shares))) / people,
        "noise": bins**2 * laplace_variance(epsilon) / people,
    }


def wave_error(waves: int, people: int, epsilon: float) -> dict[str, float]:
    places = fine(20_000)
    values = true_density(places)
    fit = np.ones_like(values)
    known = 0.0
    for j in range(waves):
        angle = 2 * math.pi * (j // 2 + 1) * places
        basis = math.sqrt(2) * (np.sin(angle) if j % 2 else np.cos(angle))
        theta = float(np.mean(values * basis))
        known += theta**2
        fit += theta * basis
    noise = (waves * amplitude(epsilon, waves) ** 2 - known) / people
    return {"bias": float(np.mean((values - fit) ** 2)), "noise": noise}


def test_population_is_a_density() -> None:
    found = embedded()["shapes"]
    curve = np.array(found["density"])
    assert curve == pytest.approx(true_density(fine(len(curve))), rel=1e-6)
    assert curve.mean() == pytest.approx(1, abs=1e-6)
    assert found["square"] == pytest.approx(float(np.mean(true_density(fine(20_000)) ** 2)))


def test_bias_is_what_bins_smooth_away() -> None:
    found = embedded()["shapes"]
    for bins in (1, 2, 7, 25, 100, 220):
        expected = bin_error(bins, 1, 1)["bias"]
        assert found["bias"][bins - 1] == pytest.approx(expected, rel=1e-3)


def test_noise_is_that_of_the_formulas() -> None:
    for level in embedded()["shapes"]["levels"]:
        epsilon = level["epsilon"]
        assert level["variance"] == pytest.approx(laplace_variance(epsilon))
        assert int(level["ratio_weight"]) / 2**64 == pytest.approx(math.exp(-epsilon / 2))
        assert level["lie"] == pytest.approx(1 / (1 + math.exp(epsilon)))
        assert level["amplitudes"] == pytest.approx(
            [amplitude(epsilon, waves) for waves in range(1, 32, 2)]
        )
        # Central noise is two-sided geometric. The known total takes a fortieth of its variance.
        assert level["central"] == pytest.approx(laplace_variance(epsilon) * 39 / 40)
        assert level["shuffle"] > level["central"]


# Bias against noise ---------------------------------------------------------------------------


@pytest.mark.slow
def test_parts_of_the_error_of_bins(density: Locator) -> None:
    found = embedded()["shapes"]
    for crowd, level, bins in ((3, 1, 25), (0, 0, 1), (4, 3, 40), (2, 2, 8)):
        slide(density, "People, n", crowd)
        slide(density, "ε", level)
        slide(density, "Bins, K", bins - 1)
        expected = bin_error(bins, found["crowds"][crowd], found["levels"][level]["epsilon"])
        names = {
            "Bias: smoothed away": expected["bias"],
            "Noise": expected["noise"],
            "Chance of the sample": expected["sampling"],
            "Mean squared error": sum(expected.values()),
        }
        for name, value in names.items():
            assert number_in(reading(density, name)) == pytest.approx(value, rel=6e-3, abs=2e-7)


@pytest.mark.slow
def test_parts_of_the_error_of_waves(density: Locator) -> None:
    found = embedded()["shapes"]
    density.get_by_role("radio", name="Waves").check()
    expect(density.get_by_role("slider", name="Bins, K")).to_be_hidden()
    for crowd, level, waves in ((3, 1, 15), (0, 0, 1), (4, 3, 31)):
        slide(density, "People, n", crowd)
        slide(density, "ε", level)
        slide(density, "Waves, K", (waves - 1) // 2)
        expected = wave_error(waves, found["crowds"][crowd], found["levels"][level]["epsilon"])
        assert number_in(reading(density, "Noise")) == pytest.approx(expected["noise"], rel=6e-3)
        assert reading(density, "Chance of the sample") == "in the noise"
        total = sum(expected.values())
        assert number_in(reading(density, "Mean squared error")) == pytest.approx(total, rel=6e-3)


@pytest.mark.slow
def test_best_number_is_found(density: Locator) -> None:
    """The chart is hidden until the reader asks for it."""
    chart = density.locator(".chart").nth(1)
    expect(chart).to_be_hidden()
    density.get_by_role("button", name="Show the error of every K").click()
    expect(chart).to_be_visible()
    people = embedded()["shapes"]["crowds"][3]
    totals = [sum(bin_error(bins, people, 1.0).values()) for bins in range(1, 41)]
    best = int(np.argmin(totals)) + 1
    summary = chart.locator(".summary").inner_text()
    assert f"K = {best} is best" in summary
    ratio = re.search(r"which is ([\d.]+) times as much", summary)
    assert ratio
    assert float(ratio[1]) == pytest.approx(totals[24] / min(totals), rel=6e-3)
    slide(density, "Bins, K", best - 1)
    expect(chart).to_contain_text("which is 1 times as much")
    rows = table(density, 1)
    assert [row[0] for row in rows] == [str(bins) for bins in range(1, 41)]
    assert [number_in(row[1]) for row in rows] == pytest.approx(totals, rel=6e-3)


def measured(density: Locator) -> float:
    found = re.search(
        r"of this estimate is (.+?), averaged", density.locator(".result").inner_text()
    )
    assert found
    return number_in(found[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "number", "place"),
    [("bins", 12, 11), ("waves", 5, 2)],
)
def test_crowds_have_the_stated_error(density: Locator, way: str, number: int, place: int) -> None:
    """The mean of 30 squared errors is near the stated mean. Their spread is seen in the runs."""
    if way == "waves":
        density.get_by_role("radio", name="Waves").check()
    slide(density, "People, n", 1)
    slide(density, "Bins, K" if way == "bins" else "Waves, K", place)
    people = embedded()["shapes"]["crowds"][1]
    parts = bin_error(number, people, 1.0) if way == "bins" else wave_error(number, people, 1.0)
    errors = []
    for _ in range(30):
        density.get_by_role("button", name="Ask the crowd").click()
        errors.append(measured(density))
    spread = float(np.std(errors)) / math.sqrt(len(errors))
    assert abs(np.mean(errors) - sum(parts.values())) < 5 * spread
    assert spread < 0.2 * sum(parts.values())


def test_estimate_is_drawn(density: Locator) -> None:
    """A line of flat pieces, one for each bin, whose mean is about the mean of the density."""
    slide(density, "Bins, K", 3)
    assert all(row[2] == "" for row in table(density))
    density.get_by_role("button", name="Ask the crowd").click()
    rows = table(density)
    assert len({row[2] for row in rows}) == 4
    slide(density, "ε", 2)
    expect(density.locator(".summary").first).to_contain_text("Nobody has answered yet.")


# Rates ----------------------------------------------------------------------------------------


def best_local(people: int, level: dict[str, Any], found: dict[str, Any]) -> float:
    errors = (
        bias + (bins - found["square"] + bias) / people + bins**2 * level["variance"] / people
        for bins, bias in enumerate(found["bias"], 1)
    )
    return float(min(errors))


def test_exponents_and_crowds(rates: Locator) -> None:
    found = embedded()["shapes"]
    for place, beta in enumerate(found["smoothnesses"]):
        slide(rates, "Smoothness, β", place)
        shown = [
            -number_in(reading(rates, f"Exponent {one}"))
            for one in ("without privacy", "in local trust")
        ]
        assert shown == pytest.approx(
            [2 * beta / (2 * beta + 1), 2 * beta / (2 * beta + 2)], abs=6e-4
        )
        for size, people in ((0, found["sizes"][0]), (6, found["sizes"][6])):
            slide(rates, "Answers without privacy", size)
            needed = number_in(rates.locator(".result strong").inner_text())
            # Both errors are the same: (n'ε²)^(−2β/(2β+2)) = n^(−2β/(2β+1)), with ε = 1.
            private, open_ = (
                needed ** (-2 * beta / (2 * beta + 2)),
                people ** (-2 * beta / (2 * beta + 1)),
            )
            assert private == pytest.approx(open_, rel=0.06)


def test_bins_follow_the_rate_of_smoothness_one(rates: Locator) -> None:
    found = embedded()["shapes"]
    level = found["levels"][1]
    sizes = found["sizes"]
    near, far = (best_local(people, level, found) for people in (sizes[-3], sizes[-1]))
    slope = math.log(far / near) / math.log(sizes[-1] / sizes[-3])
    assert number_in(reading(rates, "Slope of our bins, local")) == pytest.approx(slope, abs=6e-4)
    assert slope == pytest.approx(-0.5, abs=0.02)


def test_lines_of_the_chart(rates: Locator) -> None:
    found = embedded()["shapes"]
    slide(rates, "ε", 0)
    slide(rates, "Smoothness, β", 3)
    expect(rates.locator("figcaption")).to_have_text("Error of a density at ε = 0.5, for β = 2")
    level = found["levels"][0]
    for row, people in zip(table(rates), found["sizes"], strict=True):
        local, without, own, shuffled, none = (number_in(cell) for cell in row[1:])
        assert local == pytest.approx((people * 0.25) ** (-4 / 6), rel=6e-3)
        assert without == pytest.approx(people ** (-4 / 5), rel=6e-3)
        assert own == pytest.approx(best_local(people, level, found), rel=6e-3)
        assert none < shuffled < own or people < 1000
