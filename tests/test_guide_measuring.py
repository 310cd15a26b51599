"""Part 9 of the guide: the audit in the page agrees with `hc.audit` and with SciPy."""

import math
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Locator, expect
from scipy.stats import beta

import headcount as hc
from browsing import in_node
from guide_pages import embedded, opened
from guide_widgets import numbers_in, reading, to, widget
from headcount.auditor import events
from headcount.auditor.bounds import lower_epsilon
from headcount.auditor.features import Feature, same
from headcount.auditor.power import POWER, smallest_response

WRONG = 0.01


@pytest.fixture(scope="module")
def data() -> Any:
    return embedded()["measuring"]


# The method -------------------------------------------------------------------------------------


def test_bounds_are_those_of_clopper_and_pearson() -> None:
    cases = [
        (hits, runs, wrong)
        for runs in (1, 10, 500, 5000, 50_000)
        for hits in sorted({0, 1, 2, runs // 3, runs // 2, runs - 1, runs} & set(range(runs + 1)))
        for wrong in (0.005, 1e-4)
    ]
    low = in_node("lowerChance", [list(case) for case in cases])
    high = in_node("upperChance", [list(case) for case in cases])
    for (hits, runs, wrong), below, above in zip(cases, low, high, strict=True):
        least = beta.ppf(wrong, hits, runs - hits + 1) if hits else 0
        most = beta.isf(wrong, hits + 1, runs - hits) if hits < runs else 1
        assert below == pytest.approx(least, rel=1e-8)
        assert above == pytest.approx(most, rel=1e-8)


def test_lower_bound_is_that_of_an_audit() -> None:
    cases = [
        (hits, others, runs, delta, WRONG)
        for runs in (500, 50_000)
        for hits in (0, 3, runs // 4, runs)
        for others in (0, 7, runs // 5, runs)
        for delta in (0.0, 0.05)
    ]
    for case, found in zip(
        cases, in_node("lowerEpsilon", [list(case) for case in cases]), strict=True
    ):
        assert found == pytest.approx(lower_epsilon(*case), abs=1e-8)


def test_power_is_that_of_an_audit(data: Any) -> None:
    cases = [
        [claim, delta, half, half, WRONG, POWER]
        for claim, delta, half in [(1, 0, 500), (1, 0, 50_000), (0.1, 0, 5000), (2, 0.05, 1500)]
    ]
    for case, found in zip(cases, in_node("smallestResponse", cases), strict=True):
        assert found == pytest.approx(smallest_response(*case[:-1]), rel=1e-6)
    assert in_node("smallestResponse", [[30, 0, 500, 500, WRONG, POWER]]) == [None]  # infinite
    for runs, found in data["found"]:
        assert found == smallest_response(1.0, 0.0, runs // 2, runs // 2, 1 - data["confidence"])


@pytest.mark.parametrize("delta", [0.0, 0.05])
def test_event_is_that_of_an_audit(delta: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both choose from the same outputs. Of the features, only equality is left."""
    equality = Feature("value", same, str)
    monkeypatch.setattr(events, "features", lambda outputs, others: [equality])
    generator = np.random.default_rng(11)
    laws = generator.dirichlet(np.ones(6), size=(20, 2))
    calls, wanted = [], []
    for one, other in laws:
        sides = [generator.choice(6, 400, p=law) for law in (one, other)]
        wanted.append(events.best_event(sides[0], sides[1], delta))
        halves = [[listed(side[:200]) for side in sides], [listed(side[200:]) for side in sides]]
        calls.append([*halves, delta])
    for found, event in zip(in_node("chosenEvent", calls), wanted, strict=True):
        assert found["swapped"] == event.swapped
        assert set(same(np.array(found["outputs"]))) == set(event.codes)


def test_event_is_chosen_and_counted_in_different_runs() -> None:
    """The first half of the runs shows a large difference, and the second half shows none."""
    one, other = [1] * 500 + [0, 1] * 250, [0] * 500 + [0, 1] * 250
    [found] = in_node("measured", [[[one, other], 0.0, WRONG]])
    assert found["counted"] == 500
    assert (found["hits"], found["others"], found["epsilon"]) == (250, 250, 0)
    one, other = [1, 1, 1, 0] * 125 + [1] * 500, [0, 0, 0, 1] * 125 + [0] * 500
    [found] = in_node("measured", [[[one, other], 0.0, WRONG]])
    assert (found["hits"], found["others"]) == (500, 0)
    assert found["epsilon"] == pytest.approx(lower_epsilon(500, 0, 500, 0.0, WRONG))


def listed(outputs: Any) -> list[list[int]]:
    seen, often = np.unique(outputs, return_counts=True)
    return [[int(one), int(count)] for one, count in zip(seen, often, strict=True)]


def test_true_epsilon() -> None:
    generator = np.random.default_rng(12)
    laws = [[law.tolist() for law in pair] for pair in generator.dirichlet(np.ones(4), (10, 2))]
    for delta in (0.0, 0.02):
        for (one, other), found in zip(
            laws, in_node("leastEpsilon", [[*pair, delta] for pair in laws]), strict=True
        ):
            assert excess(one, other, found) <= delta + 1e-9
            assert excess(one, other, found - 1e-6) > delta
    leak = [[0.1, 0.9], [0.0, 1.0]]
    assert in_node("leastEpsilon", [[*leak, 0.05], [*leak, 0.1]]) == [None, 0]


def excess(one: Any, other: Any, epsilon: float) -> float:
    p, q = np.array(one), np.array(other)
    return max(
        float(np.maximum(first - math.exp(epsilon) * second, 0).sum())
        for first, second in ((p, q), (q, p))
    )


# The widget -------------------------------------------------------------------------------------


def audit(place: Locator) -> dict[str, str]:
    """Runs the audit. The result has what it says about each of its steps."""
    place.get_by_role("button", name="Run the audit").click()
    names = place.locator(".result dt").all_inner_texts()
    return {
        name.partition(":")[0]: text
        for name, text in zip(names, place.locator(".result dd").all_inner_texts(), strict=True)
    }


def check(place: Locator, claim: float, delta: float, runs: int) -> bool:
    """Compares an audit with the library, on the counts that the page shows."""
    said = audit(place)
    counted, counts = said["Data"].split("runs each")
    assert numbers_in(counted)[-1] == runs / 2
    hits, others = (count_in(part) for part in counts.split(", and "))
    epsilon = lower_epsilon(hits, others, runs // 2, delta, WRONG)
    shown = math.floor(epsilon * 1000) / 1000
    assert numbers_in(reading(place, "Measured ε, at least")) == [shown]
    above, below, again, _ = numbers_in(said["Metric"])
    assert again == shown
    assert above == pytest.approx(
        beta.ppf(WRONG / 2, hits, runs / 2 - hits + 1) if hits else 0, abs=1e-4
    )
    assert below == pytest.approx(beta.isf(WRONG / 2, others + 1, runs / 2 - others), abs=1e-4)
    least = smallest_response(claim, delta, runs // 2, runs // 2, WRONG)
    if math.isfinite(least):
        assert least <= numbers_in(said["Power"])[0] <= least * 1.001
    else:
        assert said["Power"].startswith("No coin")
    refuted = epsilon > claim
    expect(place.locator(".verdict")).to_contain_text("Refuted:" if refuted else "Not refuted:")
    return refuted


def count_in(text: str) -> int:
    """How often an event came, in words such as "it came 12 times"."""
    if " never" in text or text.startswith("never"):
        return 0
    if "once" in text:
        return 1
    return int(numbers_in(text.partition(" times")[0])[-1])


@pytest.mark.slow
def test_coin(browser: Browser, data: Any) -> None:
    with opened(browser) as page:
        place = widget(page, "measuring")
        to(place.get_by_label("How often the coin lies"), data["lies"].index(0.2))
        assert numbers_in(reading(place, "True ε"))[0] == pytest.approx(math.log(4), rel=1e-3)
        assert check(place, 1, 0, 10_000)
        to(place.get_by_label("Claimed ε", exact=True), data["claims"].index(1.5))
        assert reading(place, "Measured ε, at least") == "–"
        assert not check(place, 1.5, 0, 10_000)
        to(place.get_by_label("Runs on each dataset"), data["runs"].index(1000))
        assert not check(place, 1.5, 0, 1000)
        to(place.get_by_label("Claimed δ"), data["deltas"].index(0.05))
        # At δ = 0.05: 0.8 − 0.2·e^ε = 0.05.
        assert numbers_in(reading(place, "True ε"))[0] == pytest.approx(math.log(3.75), rel=1e-3)
        assert not check(place, 1.5, 0.05, 1000)
        to(place.get_by_label("How often the coin lies"), data["lies"].index(0.05))
        to(place.get_by_label("Runs on each dataset"), data["runs"].index(10_000))
        assert check(place, 1.5, 0.05, 10_000)


@pytest.mark.slow
def test_noise(browser: Browser, data: Any) -> None:
    with opened(browser) as page:
        place = widget(page, "measuring")
        place.get_by_label("A count with noise").check()
        to(place.get_by_label("Scale of the noise"), data["scales"].index(2))
        assert reading(place, "True ε") == "0.5"
        assert not check(place, 1, 0, 10_000)
        to(place.get_by_label("Scale of the noise"), data["scales"].index(0.5))
        assert reading(place, "True ε") == "2"
        assert check(place, 1, 0, 10_000)


def test_table(browser: Browser) -> None:
    with opened(browser) as page:
        place = widget(page, "measuring")
        place.get_by_label("A table of my own").check()
        assert numbers_in(reading(place, "True ε"))[0] == pytest.approx(math.log(2), rel=1e-3)
        assert not check(place, 1, 0, 10_000)
        place.get_by_label("Weight of output A for the second dataset").fill("0")
        assert reading(place, "True ε") == "∞"
        assert check(place, 1, 0, 10_000)
        for output in "BCD":
            place.get_by_label(f"Weight of output {output} for the second dataset").fill("0")
        place.get_by_role("button", name="Run the audit").click()
        expect(place.locator(".result .problem")).to_be_visible()


@pytest.mark.slow
def test_stranger(browser: Browser, data: Any) -> None:
    truths = []
    with opened(browser) as page:
        place = widget(page, "measuring")
        place.get_by_label("A stranger's coin").check()
        for _ in range(6):
            assert reading(place, "True ε") == "?"
            refuted = check(place, 1, 0, 10_000)
            place.get_by_role("button", name="Open the box").click()
            [lie] = numbers_in(place.locator(".result > p").last.inner_text())[:1]
            truth = math.log((100 - lie) / lie)
            truths.append(lie / 100)
            assert numbers_in(reading(place, "True ε"))[0] == pytest.approx(truth, rel=1e-3)
            judged = place.locator(".result > p").last.inner_text()
            assert ("The claim is true" in judged) == (truth <= 1)
            assert ("has refuted it" in judged) == (refuted and truth > 1)
            place.get_by_role("button", name="Ask another stranger").click()
    assert len(set(truths)) > 1
    assert set(truths) <= set(data["strangers"])


def test_library_agrees_about_the_coin() -> None:
    """The page says that this coin is refuted. So does the library."""
    generator = np.random.default_rng(1)
    found = hc.audit(
        lambda bit: bit ^ int(generator.random() < 0.2), [(0, 1)], claim=1, runs=10_000
    )
    assert found.refuted
