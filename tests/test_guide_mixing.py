"""Part 6 of the guide: counts and means under three kinds of trust, and smooth noise."""

import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Locator, expect
from scipy import stats

import headcount as hc
from guide_pages import embedded, opened, shown_number
from guide_widgets import number_in, reading, slide, table
from headcount.guide import means as guide_means

WAYS = {
    "One bit each": ("response", "shuffle.randomized-response"),
    "A message for yes": ("zero", "shuffle.zero-exact"),
    "Noise that cancels": ("correlated", "shuffle.correlated"),
    "The shuffler adds noise": ("noisy", "shuffle.noisy-shuffler"),
}


def place(name: str) -> Any:
    @pytest.fixture
    def widget(browser: Browser) -> Iterator[Locator]:
        with opened(browser) as page:
            yield page.locator(f"[data-widget={name}]")

    return widget


lanes, growth, constants = place("lanes"), place("growth"), place("constants")
smooth, means = place("smooth"), place("means")


def row_of(people: int, epsilon: float) -> Any:
    rows = embedded()["mixing"]["rows"]
    return next(row for row in rows if (row["people"], row["epsilon"]) == (people, epsilon))


# Numbers --------------------------------------------------------------------------------------


def test_errors_of_three_trusts_follow_the_formulas() -> None:
    for row in embedded()["mixing"]["rows"]:
        people, epsilon = row["people"], row["epsilon"]
        a = math.exp(-epsilon)
        assert row["central"]["error"] == pytest.approx(math.sqrt(2 * a) / (1 - a))
        local = math.sqrt(people) / (2 * math.sinh(epsilon / 2))
        assert row["local"]["error"] == pytest.approx(local)
        for key in ("response", "local"):
            lie = int(row[key]["weight"]) / 2**64
            variance = people * lie * (1 - lie) / (1 - 2 * lie) ** 2
            assert row[key]["error"] == pytest.approx(math.sqrt(variance))
        if row["zero"] is None:
            assert people < 300
        else:
            q = int(row["zero"]["withheld"]) / 2**64
            assert row["zero"]["error"] == pytest.approx(math.sqrt(people * q * (1 - q)))
        parts = row["correlated"]
        noise = sum(parts[key] / (1 - parts[key]) ** 2 for key in ("plus", "minus"))
        assert parts["error"] == pytest.approx(math.sqrt(noise))


def test_noise_of_the_shuffler_is_the_least() -> None:
    """δ is the probability of no dummies. Two dummies fewer would not be enough."""
    for row in embedded()["mixing"]["rows"]:
        a = math.exp(-row["epsilon"])

        def delta(dummies: int, a: float = a) -> float:
            weights = a ** np.abs(np.arange(dummies + 1) - dummies / 2)
            return float(weights[0] / weights.sum())

        dummies = row["noisy"]["dummies"]
        assert delta(dummies) <= 1e-6 < delta(dummies - 2)
        weights = a ** np.abs(np.arange(dummies + 1) - dummies / 2)
        squares = (np.arange(dummies + 1) - dummies / 2) ** 2
        error = math.sqrt(float(weights @ squares / weights.sum()))
        assert row["noisy"]["error"] == pytest.approx(error)
    assert embedded()["mixing"]["noisy_delta"] == pytest.approx(3.84264e-7, rel=1e-5)


def test_constants_of_papers_follow_their_formulas() -> None:
    found = embedded()["mixing"]
    for level in found["noise"]:
        epsilon = level["epsilon"]
        rows = {row["protocol"]: row for row in level["rows"]}
        expected = {
            "shuffle.randomized-response": 64 / epsilon**2 * math.log(4e6),
            "shuffle.zero-exact": 50 / epsilon**2 * math.log(2e6),
            "shuffle.zero-exact-histogram": 200 / epsilon**2 * math.log(4e6),
        }
        for name, value in expected.items():
            assert rows[name]["paper"] == pytest.approx(value, rel=1e-6)
        assert all(row["exact"] < row["paper"] for row in level["rows"])


def binomial_steps(mean: float, epsilon: float) -> tuple[float, float]:
    """The δ of Bin(100,000, mean/100,000) by the definition of smoothness, and exactly."""
    law = stats.binom(100_000, mean / 100_000)
    top = int(mean + 40 * math.sqrt(mean) + 60)
    mass = law.pmf(np.arange(-1, top + 2))
    here, before, after = mass[1:-1], mass[:-2], mass[2:]
    factor = math.exp(epsilon)
    steep = max(float(here[here >= factor * other].sum()) for other in (before, after))
    excess = max(float(np.maximum(here - factor * other, 0).sum()) for other in (before, after))
    return steep, excess


def test_smoothness_by_three_methods() -> None:
    found = embedded()["smooth"]
    for level in found["levels"]:
        epsilon = level["epsilon"]
        alpha = math.tanh(epsilon / 2)
        for at, mean in enumerate(found["means"]):
            steep, excess = binomial_steps(mean, epsilon)
            if excess > 1e-15:
                assert level["exact"][at] == pytest.approx(excess, rel=1e-6)
                assert level["definition"][at] == pytest.approx(steep, rel=1e-6)
            if alpha * mean < 2:
                assert level["lemma"][at] is None
            else:
                power = alpha**2 * mean
                lemma = math.exp(-power / 8) + math.exp(-power / (8 + 2 * alpha))
                assert level["lemma"][at] == pytest.approx(min(1, lemma))
    needed = found["levels"][1]["needed"]
    assert (needed["lemma"], needed["definition"], needed["exact"]) == (584.91, 44.19, 34.07)
    for key, method in (("definition", 0), ("exact", 1)):
        assert binomial_steps(needed[key], 1.0)[method] <= 1e-6
        assert binomial_steps(needed[key] - 0.01, 1.0)[method] > 1e-6


@pytest.mark.parametrize(
    ("crowd", "level"),
    [
        pytest.param(crowd, level, marks=[pytest.mark.slow] if (crowd, level) != (0, 1) else [])
        for crowd in range(3)
        for level in range(3)
    ],
)
def test_levels_are_those_that_the_library_chooses(crowd: int, level: int) -> None:
    budget = hc.Budget(guide_means.EPSILONS[level], guide_means.DELTA)
    people = hc.Crowd(guide_means.CROWDS[crowd])
    made = hc.protocol("shuffle.fixed-point-sum", hc.Mean(0, 1), budget, people)
    assert made.parameters["levels"] == guide_means.LEVELS[crowd][level]


# One crowd, three lanes -----------------------------------------------------------------------


def ask(lanes: Locator) -> dict[str, float]:
    lanes.get_by_role("button", name="Ask the crowd").click()
    return {
        lane.locator("h3").inner_text().split()[0]: number_in(lane.locator("strong").inner_text())
        for lane in lanes.locator(".lane").all()
        if lane.locator("strong").count()
    }


@pytest.mark.slow
def test_errors_and_intervals_are_those_of_the_library(lanes: Locator) -> None:
    found = embedded()["mixing"]
    for crowd, level in ((1, 1), (3, 0), (2, 2)):
        slide(lanes, "People", crowd)
        slide(lanes, "ε", level)
        people, epsilon = found["crowds"][crowd], found["epsilons"][level]
        budget, asked = hc.Budget(epsilon, 1e-6), hc.Crowd(people)
        for way, (_, name) in WAYS.items():
            lanes.get_by_role("radio", name=way).check()
            names = ("central.geometric", name, "local.randomized-response")
            made = [hc.protocol(one, hc.Count(), budget, asked) for one in names]
            for trust, protocol in zip(("central", "shuffle", "local"), made, strict=True):
                shown = number_in(reading(lanes, f"Error, {trust}"))
                assert shown == pytest.approx(protocol.standard_error(), rel=6e-3)
            shown_margins = re.findall(r"± ([\d.,]+)", lanes.locator(".summary").inner_text())
            margins = [protocol.margin(0.95) for protocol in made]
            assert [shown_number(one) for one in shown_margins] == pytest.approx(margins, rel=6e-3)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_estimates_have_the_stated_errors(lanes: Locator, way: str) -> None:
    """The mean of some estimates is near the truth, and so is the error that the page measures."""
    key, _ = WAYS[way]
    lanes.get_by_role("radio", name=way).check()
    truth, row = 300, row_of(1000, 1.0)
    errors = {"Central": row["central"], "Shuffle": row[key], "Local": row["local"]}
    runs: list[dict[str, float]] = [ask(lanes) for _ in range(12)]
    for trust, stated in errors.items():
        mean = float(np.mean([run[trust] for run in runs]))
        assert abs(mean - truth) < 4.5 * stated["error"] / math.sqrt(len(runs)) + 0.1
    lanes.get_by_role("button", name="times").click()
    said = lanes.locator(".result").last.inner_text()
    for trust, stated in errors.items():
        found = re.search(rf"([\d.]+) in {trust.lower()} trust", said)
        assert found
        assert 0.45 * stated["error"] < float(found[1]) < 2 * stated["error"]


def test_analyzer_sees_what_the_lane_says(lanes: Locator) -> None:
    row = row_of(1000, 1.0)
    lanes.get_by_role("radio", name="One bit each").check()
    found = ask(lanes)
    text = lanes.locator(".lane").nth(1).inner_text()
    ones = re.search(r"1,000 bits without names. ([\d,]+) of them are yes", text)
    assert ones
    lie = int(row["response"]["weight"]) / 2**64
    estimate = (shown_number(ones[1]) - 1000 * lie) / (1 - 2 * lie)
    assert found["Shuffle"] == pytest.approx(estimate, abs=0.06)

    lanes.get_by_role("radio", name="Noise that cancels").check()
    found = ask(lanes)
    text = lanes.locator(".lane").nth(1).inner_text()
    signs = re.search(r"([\d,]+) times \+1 and ([\d,]+) times −1", text)
    assert signs
    parts = row["correlated"]
    mean = parts["plus"] / (1 - parts["plus"]) - parts["minus"] / (1 - parts["minus"])
    difference = shown_number(signs[1]) - shown_number(signs[2])
    assert found["Shuffle"] == pytest.approx(difference - mean, abs=0.06)

    lanes.get_by_role("radio", name="The shuffler adds noise").check()
    found = ask(lanes)
    text = lanes.locator(".lane").nth(1).inner_text()
    ones = re.search(r"1,028 answers without names. ([\d,]+) of them are yes", text)
    assert ones
    assert found["Shuffle"] == shown_number(ones[1]) - 14


@pytest.mark.slow
def test_nobody_is_counted_exactly(lanes: Locator) -> None:
    """The zero-exact answer for an empty crowd is 0, whatever the noise."""
    slide(lanes, "People who hold a yes", 0)
    lanes.get_by_role("radio", name="A message for yes").check()
    assert {ask(lanes)["Shuffle"] for _ in range(10)} == {0.0}


def test_small_crowds_are_refused(lanes: Locator) -> None:
    slide(lanes, "People", 0)
    slide(lanes, "ε", 0)
    lanes.get_by_role("radio", name="A message for yes").check()
    assert reading(lanes, "Error, shuffle") == "crowd too small"
    assert set(ask(lanes)) == {"Central", "Local"}
    expect(lanes).to_contain_text("This crowd is too small for this protocol at this ε.")


def test_error_grows_with_the_crowd_in_local_trust_alone(growth: Locator) -> None:
    slide(growth, "ε", 2)
    rows = table(growth)
    assert [row[0] for row in rows] == ["100", "1,000", "10,000", "100,000"]
    for row in rows:
        known = row_of(int(shown_number(row[0])), 2.0)
        expected = [known[key]["error"] for key in ("central", "correlated", "response", "local")]
        assert [number_in(cell) for cell in row[1:]] == pytest.approx(expected, rel=6e-3)


# Paper and exact, smooth noise, means ---------------------------------------------------------


def test_constants_are_shown(constants: Locator) -> None:
    found = embedded()["mixing"]
    for at, level in enumerate(found["noise"]):
        slide(constants, "ε", at)
        rows = table(constants)
        for row, known in zip(rows, level["rows"], strict=True):
            assert row[0] == known["label"]
            exact, paper = (number_in(cell) for cell in row[1:])
            assert exact == pytest.approx(known["exact"], rel=6e-3)
            assert paper == pytest.approx(known["paper"], rel=6e-3)


def test_law_of_the_noise_is_drawn(smooth: Locator) -> None:
    found = embedded()["smooth"]
    for at in (0, 8, 20):
        slide(smooth, "Noise messages on average, γn", at)
        mean = found["means"][at]
        law = stats.binom(100_000, mean / 100_000)
        for row in table(smooth):
            count = int(shown_number(row[0]))
            calm, steep = row[1:]
            assert bool(calm) != bool(steep)
            assert number_in(calm or steep) == pytest.approx(float(law.pmf(count)), rel=6e-3)
            ratio = law.pmf(count) / max(law.pmf(count - 1), 1e-300)
            other = law.pmf(count) / law.pmf(count + 1)
            assert bool(calm) == (max(ratio, other) < math.e)


@pytest.mark.slow
def test_three_deltas_and_what_is_enough(smooth: Locator) -> None:
    found = embedded()["smooth"]
    for level_at, level in enumerate(found["levels"]):
        slide(smooth, "ε", level_at)
        for at in (0, 13, 24, 37):
            slide(smooth, "Noise messages on average, γn", at)
            mean = found["means"][at]
            names = {"δ by the lemma": "lemma", "δ by the definition": "definition"}
            for name, key in {**names, "δ, exactly": "exact"}.items():
                known, text = level[key][at], reading(smooth, name)
                if known is None:
                    assert text == "does not apply"
                elif known >= 1:
                    assert text == "1, no promise"
                elif known < 1e-15:
                    assert text == "below 10⁻¹⁵"
                else:  # rounded up
                    assert known * (1 - 1e-9) <= number_in(text) <= known * 1.011
            enough = mean >= level["needed"]["exact"]
            words = "This is enough noise" if enough else "This is not enough noise"
            expect(smooth.locator(".result strong")).to_have_text(words)


def test_means_are_those_of_the_library(means: Locator) -> None:
    found = embedded()["means"]
    for crowd, level in ((1, 1), (0, 2)):
        slide(means, "People", crowd)
        slide(means, "ε", level)
        people, epsilon = found["crowds"][crowd], found["epsilons"][level]
        for row, known in zip(table(means), found["protocols"], strict=True):
            assert row[0].startswith(f"{known['trust']}: {known['label']}")
            if known["name"] == "shuffle.fixed-point-sum":
                continue  # another test checks it
            asked = hc.Mean(0, 1), hc.Budget(epsilon, 1e-6), hc.Crowd(people)
            error = hc.protocol(known["name"], *asked).standard_error()
            assert number_in(row[1]) == pytest.approx(error, rel=6e-3)


def test_local_means_follow_the_formulas() -> None:
    """The worst case on [0, 1] is a quarter of that on [−1, 1]. The library is a little better."""
    found = embedded()["means"]
    cells = {known["name"]: known["cells"] for known in found["protocols"]}
    for crowd, people in enumerate(found["crowds"]):
        for level, epsilon in enumerate(found["epsilons"]):
            bit = ((math.exp(epsilon) + 1) / (math.exp(epsilon) - 1)) ** 2
            t = math.exp(epsilon / 2)
            piecewise = 1 / (t - 1) + (t + 3) / (3 * (t - 1) ** 2)
            expected = {"local.one-bit-mean": bit, "local.laplace-mean": 8 / epsilon**2}
            for name, variance in expected.items():
                error = math.sqrt(variance / 4 / people)
                assert cells[name][crowd][level]["error"] == pytest.approx(error, rel=1e-3)
            most = math.sqrt(piecewise / 4 / people)
            assert 0.9 * most < cells["local.piecewise-mean"][crowd][level]["error"] < 1.001 * most
            hybrid = cells["local.hybrid-mean"][crowd][level]["error"]
            assert hybrid <= cells["local.one-bit-mean"][crowd][level]["error"] * (1 + 1e-9)
