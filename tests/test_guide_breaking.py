"""Part 8 of the guide: five breakages, with numbers that are computed here in another way."""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from playwright.sync_api import Browser, Locator, Page, expect
from scipy.stats import binom

from browsing import in_node
from guide_pages import embedded, opened
from guide_widgets import near, numbers_in, raised, reading, said, to, widget

DELTA = 1e-6
LABELS = {
    "collusion": "The shuffler colludes",
    "honesty": "Nine of ten people cheat",
    "waves": "The same person is asked every day",
    "small": "The crowd is too small",
    "floats": "A float leaks its last bits",
}


@pytest.fixture(scope="module")
def data() -> Any:
    return embedded()["breaking"]


def panel(page: Page, name: str) -> Locator:
    """A breakage, chosen with the keyboard."""
    place = widget(page, "breaking")
    chosen = place.get_by_role("radio", name=LABELS[name])
    chosen.focus()
    chosen.press("Space")
    expect(place.locator(".breakage h3")).to_have_text(LABELS[name])
    return place.locator(".breakage")


# Numbers ----------------------------------------------------------------------------------------


def lie_of(device: Any) -> float:
    return int(device["weight"]) / 2**64


def test_what_is_left_alone(data: Any) -> None:
    mixed, zero_exact, bare, local = data["collusion"]["protocols"]
    for found in (mixed, local):
        lie = lie_of(found["device"])
        assert found["left"] == pytest.approx(math.log((1 - lie) / lie))
        assert found["right"] == pytest.approx(1 - lie)
    assert local["left"] == pytest.approx(1)
    more = lie_of(zero_exact["device"])  # the probability of one more message
    # Only one message is ambiguous: a no with one more, or a yes without one more.
    assert zero_exact["right"] == pytest.approx(more + (1 - more) / 2)
    assert zero_exact["left"] is None
    assert bare["left"] is None
    assert bare["right"] == 1


def view(people: int, yes: int, held: int, lie: float) -> NDArray[np.float64]:
    """The law of the number of yes messages, if `yes` of the other people hold a yes."""
    truth = binom.pmf(np.arange(yes + 1), yes, 1 - lie)
    lies = binom.pmf(np.arange(people - yes), people - 1 - yes, lie)
    own = [lie, 1 - lie] if held else [1 - lie, lie]
    return np.convolve(np.convolve(truth, lies), own)


def largest_delta(people: int, lie: float, epsilon: float) -> float:
    """The largest divergence over all datasets, in both directions."""
    found = 0.0
    for yes in range(people):
        one, other = (view(people, yes, held, lie) for held in (0, 1))
        for first, second in ((one, other), (other, one)):
            found = max(found, float(np.maximum(first - math.exp(epsilon) * second, 0).sum()))
    return found


@pytest.mark.parametrize("people", [100, 200])
def test_what_is_left_of_a_thin_crowd(data: Any, people: int) -> None:
    lie = int(data["honesty"]["weight"]) / 2**64
    for rows in (data["honesty"]["rows"], data["small"]["rows"]):
        [row] = [row for row in rows if row["people"] == people]
        assert row["delta"] == pytest.approx(largest_delta(people, lie, 1.0), rel=1e-8)
        assert largest_delta(people, lie, row["epsilon"]) <= DELTA * (1 + 1e-8)
        assert largest_delta(people, lie, row["epsilon"] * (1 - 1e-6)) > DELTA


def test_full_crowd_keeps_the_claim(data: Any) -> None:
    for rows in (data["honesty"]["rows"], data["small"]["rows"]):
        [full] = [row for row in rows if row["people"] == data["people"]]
        assert full["epsilon"] <= 1
        assert full["delta"] <= DELTA
        assert full["refusal"] is None
        thin = [row for row in rows if row["people"] < data["people"]]
        assert all(row["epsilon"] > 1 and row["delta"] > DELTA for row in thin)
        assert all(row["refusal"].startswith("CrowdMismatch: ") for row in thin)


def delta_of_waves(times: int, epsilon: float) -> float:
    """The exact δ of several randomized responses with ε = 0.1 each."""
    lies = np.arange(times + 1)
    chance = binom.pmf(lies, times, 1 / (1 + math.exp(0.1)))
    return float((chance * np.maximum(0, -np.expm1(epsilon - (times - 2 * lies) * 0.1))).sum())


def test_waves(data: Any) -> None:
    for row in data["waves"]["rows"]:
        times = row["waves"]
        assert row["sum"] == pytest.approx(times / 10)
        assert delta_of_waves(times, row["epsilon"]) <= DELTA
        assert delta_of_waves(times, row["epsilon"] * (1 - 1e-3)) > DELTA
        assert row["right"] == pytest.approx((1 + delta_of_waves(times, 0)) / 2, abs=1e-6)
        assert row["mixed"] <= row["epsilon"]
    kept = data["waves"]["kept"]
    truth = math.e / (1 + math.e)
    assert kept["right"] == pytest.approx(truth)
    assert kept["shown"] == pytest.approx(truth**2 + (1 - truth) ** 2)
    assert data["waves"]["ledger"]["days"] == 10
    assert data["waves"]["ledger"]["refusal"].startswith("BudgetExhausted: ")


# Widgets ----------------------------------------------------------------------------------------


def test_collusion(browser: Browser, data: Any) -> None:
    with opened(browser) as page:
        place = panel(page, "collusion")
        for found in data["collusion"]["protocols"]:
            place.get_by_label(found["label"], exact=True).check()
            left = reading(place, "Left if the shuffler colludes")
            if found["left"] is None:
                assert left == "no protection (ε = ∞)"
            else:
                assert raised(left, found["left"])
            assert found["relies_on"] in said(place).replace("\n", " ")
            place.get_by_role("button", name="Watch 1,000 people").click()
            [right, watched] = numbers_in(place.locator(".result strong").inner_text())
            assert near(right, int(watched), found["right"])


def moved(people: int, lie: float) -> tuple[float, float]:
    """In a crowd that holds only no besides the victim: the probability that the odds move by more
    than e, and that the best guess is right.
    """
    no, yes = (view(people, 0, held, lie) for held in (0, 1))
    ratio = np.abs(np.log(np.maximum(yes, 1e-300) / np.maximum(no, 1e-300)))
    mean = (no + yes) / 2
    return float(mean[ratio > 1].sum()), float(np.maximum(no, yes).sum() / 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "label"),
    [("honesty", "People who follow the protocol"), ("small", "People who came")],
)
def test_thin_crowd(browser: Browser, data: Any, name: str, label: str) -> None:
    rows = data[name]["rows"]
    with opened(browser) as page:
        place = panel(page, name)
        for at, row in enumerate(rows):
            if row["people"] not in (100, 1000):
                continue
            to(place.get_by_label(label), at)
            assert raised(reading(place, "Left at δ = 10⁻⁶"), row["epsilon"])
            assert numbers_in(reading(place, "Left at ε = 1"))[0] == pytest.approx(
                row["delta"], rel=1e-3
            )
            assert row["refusal"] in said(place)
            assert f"{row['repaired']:.1f} people" in place.inner_text()
            place.get_by_role("button", name="Attack 1,000 crowds").click()
            beyond, crowds, _ = numbers_in(place.locator(".result strong").inner_text())
            right, _ = numbers_in(place.locator(".result p").nth(1).inner_text())
            lie = int(data["honesty"]["weight"]) / 2**64
            chance, guessed = moved(row["people"], lie)
            assert near(beyond, int(crowds), chance)
            assert near(right, int(crowds), guessed)


@pytest.mark.slow
def test_small_crowd_has_no_noise_for_some_protocols(browser: Browser, data: Any) -> None:
    with opened(browser) as page:
        place = panel(page, "small")
        to(place.get_by_label("People who came"), 0)
        assert data["small"]["rows"][0]["other"].startswith("Infeasible: ")
        assert data["small"]["rows"][0]["other"] in said(place)
        place.get_by_label("People who came").press("End")
        assert "CrowdMismatch" not in said(place)


@pytest.mark.slow
def test_waves_of_new_messages(browser: Browser, data: Any) -> None:
    waves = data["waves"]
    with opened(browser) as page:
        place = panel(page, "waves")
        for at, row in enumerate(waves["rows"]):
            if row["waves"] not in (1, 10, 365):
                continue
            to(place.get_by_label("Days", exact=True), at)
            assert raised(reading(place, "All days together").split(" at ")[0], row["epsilon"])
            [shown] = numbers_in(reading(place, "A guess is right"))
            assert shown == pytest.approx(100 * row["right"], abs=0.051)
            refused = row["waves"] > waves["ledger"]["days"]
            assert (waves["ledger"]["refusal"] in said(place)) == refused
            place.get_by_role("button", name="Listen to 1,000 people").click()
            *_, right, people = numbers_in(place.locator(".result strong").inner_text())
            assert near(right, int(people), row["right"])
        assert reading(place, "Margin of one day") == "nothing is learned"


@pytest.mark.slow
def test_waves_of_kept_messages(browser: Browser, data: Any) -> None:
    kept = data["waves"]["kept"]
    with opened(browser) as page:
        place = panel(page, "waves")
        before = reading(place, "Margin of one day")
        place.get_by_label("It repeats its first message").check()
        assert reading(place, "All days together") == "ε = 1, if the answer stays"
        [margin] = numbers_in(reading(place, "Margin of one day"))
        assert margin == pytest.approx(100 * kept["margin"], abs=0.051)
        assert margin < numbers_in(before)[0] / 10
        assert all(line in said(place) for line in [*kept["not_hidden"], kept["shuffled"]])
        place.get_by_role("button", name="Listen to 1,000 people").click()
        *_, right, people = numbers_in(place.locator(".result strong").inner_text())
        changes, _ = numbers_in(place.locator(".result p").nth(1).inner_text())
        assert near(right, int(people), kept["right"])
        assert near(changes, int(people), kept["shown"])


# Floats -----------------------------------------------------------------------------------------


def impossible_for_one(output: float) -> bool:
    """By the theorem on the page. It finds some of the outputs that a count of 1 cannot give."""
    return abs(output) < 0.5 and not (output * 2**53).is_integer()


def test_search_finds_every_output_of_the_sampler() -> None:
    generator = np.random.default_rng(5)
    drawn = [generator.bytes(7) for _ in range(300)]
    noise = in_node("laplaceOf", [[one.hex()] for one in drawn])
    for one, found in zip(drawn, noise, strict=True):
        number = int.from_bytes(one, "little")
        size = math.log((number % 2**53 + 1) / 2**53)
        assert found == pytest.approx(size if number < 2**55 else -size, rel=1e-12)
    for count in (0, 1, 7, 1000):
        # Node and Python add doubles in the same way.
        assert all(in_node("reachable", [[count + one, count] for one in noise]))


def test_search_agrees_with_the_theorem() -> None:
    generator = np.random.default_rng(6)
    outputs = [float(one) for one in 0.1 * generator.standard_normal(300)]
    outputs = [one for one in outputs if impossible_for_one(one)]
    assert len(outputs) > 100
    assert not any(in_node("reachable", [[one, 1] for one in outputs]))
    # For u near 1, the steps of ln(u) are 2^−53, so that all doubles just above 1 are possible.
    near_one = [1 + k * 2**-52 for k in range(100)]
    assert all(in_node("reachable", [[one, 1] for one in near_one]))


@pytest.mark.slow
def test_floats(browser: Browser, data: Any) -> None:
    with opened(browser) as page:
        place = panel(page, "floats")
        assert data["floats"]["audit"][0].startswith("Refuted: ")
        assert all(line in said(place) for line in data["floats"]["audit"])
        place.get_by_role("button", name="Publish").click()
        alone, outputs = numbers_in(reading(place, "Outputs that the neighbor cannot give"))
        assert outputs == 1000
        rows = place.locator(".outputs tbody tr").all()
        for row in rows:
            output = float(row.locator("th").inner_text().replace("−", "-").replace("\n", ""))
            if impossible_for_one(output):
                assert row.locator("td").inner_text() == "no"
        assert len(rows) == 8
        assert near(alone, 1000, share_alone(2000))
        to(place.get_by_label("True count"), 6)
        assert reading(place, "Outputs that the neighbor cannot give") == "–"
        place.get_by_role("button", name="Publish").click()
        assert numbers_in(reading(place, "Outputs that the neighbor cannot give"))[0] < alone / 10
        place.get_by_label("The whole numbers of the library").check()
        place.get_by_role("button", name="Publish").click()
        assert numbers_in(reading(place, "Outputs that the neighbor cannot give"))[0] == 0
        assert data["floats"]["promised"] in said(place)
        assert all("." not in row.locator("th").inner_text() for row in rows)


def share_alone(runs: int) -> float:
    """The share of the outputs for a count of 0 that a count of 1 cannot give, measured with the
    logarithm of this machine. It may round the last bit differently than that of the browser.
    """
    generator = np.random.default_rng(7)
    alone = 0
    for drawn, sign in zip(
        generator.integers(1, 2**53, runs, endpoint=True), generator.choice([1, -1], runs),
        strict=True,
    ):  # fmt: skip
        output = sign * math.log(int(drawn) / 2**53)
        alone += not _possible_for_one(output)
    return alone / runs


def _possible_for_one(output: float) -> bool:
    for sign in (1, -1):
        exponent = sign * (output - 1)
        if exponent > 1e-12:
            continue
        middle = round(2**53 * math.exp(exponent))
        for drawn in range(max(1, middle - 40), min(2**53, middle + 40) + 1):
            if 1 + sign * math.log(drawn / 2**53) == output:
                return True
    return False
