"""Parts 1 to 3 of the guide: the doorbell, the crowds and the attacker, in Chromium."""

import math
import re
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, expect

from guide_pages import embedded, opened, shown_number
from guide_widgets import DEVIATIONS, near, numbers_in, reading, to, widget


@pytest.fixture(scope="module")
def data() -> Any:
    return embedded()


# Part 1 -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_doorbell_shows_bit_message_and_bytes(browser: Browser) -> None:
    with opened(browser) as page:
        place = widget(page, "doorbell")
        place.get_by_role("button").click()
        expect(place.get_by_role("status")).to_contain_text("Choose yes or no first")
        seen = set()
        for label, bit in (("Yes", 1), ("No", 0)):
            place.get_by_label(label, exact=True).focus()
            place.get_by_label(label, exact=True).press("Space")
            for _ in range(12):
                place.get_by_role("button").press("Enter")
                own, sent = (place.locator("dd strong").nth(at).inner_text() for at in (0, 1))
                assert own == f"{label.lower()}, the bit {bit}"
                word, told = sent.split(", the bit ")
                assert word == ("no", "yes")[int(told)]
                assert place.locator(".bytes").inner_text() == f"0{told}"
                said = place.get_by_role("status").inner_text()
                assert ("told the truth" in said, "lied for you" in said) == (
                    int(told) == bit,
                    int(told) != bit,
                )
                seen.add((bit, int(told)))
        assert seen == {(0, 0), (0, 1), (1, 0), (1, 1)}


@pytest.mark.slow
def test_doorbell_lies_as_often_as_it_says(browser: Browser, data: Any) -> None:
    with opened(browser) as page:
        place = widget(page, "doorbell")
        place.get_by_label("Yes", exact=True).check()
        place.get_by_role("button").evaluate(
            "(one) => { for (let at = 0; at < 2000; at++) one.click(); }"
        )
        answers, lies = numbers_in(place.locator(".result .note").inner_text())
        assert answers == 2000
        assert near(lies, 2000, data["doorbell"]["lie_probability"])


@pytest.mark.slow
def test_page_takes_the_random_bytes_of_the_browser(browser: Browser) -> None:
    """Without a seed, two pages differ. With the same seed, they do not."""

    def messages(seed: int | None) -> list[str]:
        with opened(browser, seed=seed) as page:
            assert page.evaluate("'seeded' in document.documentElement.dataset") == (
                seed is not None
            )
            place = widget(page, "doorbell")
            place.get_by_label("Yes", exact=True).check()
            sent: list[str] = page.evaluate(
                "(place) => Array.from({ length: 200 }, () => {"
                " place.querySelector('button').click();"
                " return place.querySelector('.bytes').textContent; })",
                place.element_handle(),
            )
            return sent

    assert messages(1) == messages(1)
    assert messages(1) != messages(2)
    assert messages(None) != messages(None)


@pytest.mark.slow
def test_slider_of_denials_moves_everything(browser: Browser, data: Any) -> None:
    with opened(browser) as page:
        place = widget(page, "evasion")
        slider = place.get_by_role("slider", name="deny it")
        found = data["doorbell"]
        for at, row in enumerate(found["evasion"]):
            to(slider, at)
            expect(place.locator(".slider .value")).to_have_text(f"{100 * row['denial']:.0f} %")
            counted = shown_number(reading(place, "The official counts"))
            assert counted == pytest.approx(100 * row["counted"], abs=0.05)
            better = reading(place, "Randomized answers are better")
            enough = row["enough_people"]
            assert better == ("never" if enough is None else f"from {enough:,} people")
            first, last = row["errors"][0], row["errors"][-1]
            said = place.locator(".summary").inner_text()
            assert f"{100 * first:.3g} points with 100 people" in said
            assert f"{100 * last:.3g} points with 1,000,000 people" in said
        box = slider.bounding_box()
        assert box
        slider.click(position={"x": box["width"] - 2, "y": box["height"] / 2})
        expect(place.locator(".slider .value")).to_have_text("60 %")


@pytest.mark.slow
def test_charts_are_read_with_keys_and_pointer(browser: Browser, data: Any) -> None:
    with opened(browser) as page:
        place = widget(page, "evasion")
        chart = place.get_by_role("slider", name="Read the chart")
        people, errors = data["doorbell"]["crowds"], data["doorbell"]["randomized_errors"]
        for at, key in (
            (0, "ArrowRight"),
            (1, "ArrowRight"),
            (len(people) - 1, "End"),
            (0, "Home"),
        ):
            chart.press(key)
            said = chart.get_attribute("aria-valuetext") or ""
            assert said.startswith(f"people asked {people[at]:,}: ")
            assert said.endswith(f"randomized answers {100 * errors[at]:.3g}")
            expect(place.locator(".reading")).to_have_text(said)
        box = chart.bounding_box()
        assert box
        chart.hover(position={"x": box["width"] - 20, "y": 100})
        expect(place.locator(".reading")).to_contain_text(f"people asked {people[-1]:,}")
        place.get_by_text("Show the numbers").press("Enter")
        rows = place.locator("tbody tr")
        expect(rows).to_have_count(len(people))
        expect(rows.nth(3)).to_contain_text(f"{100 * errors[3]:.3g}")


# Part 2 -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_one_crowd_is_estimated_and_revealed(browser: Browser, data: Any) -> None:
    with opened(browser) as page:
        place = widget(page, "one-crowd")
        first = data["crowds"]["first"]
        offs = []
        for guess in (0, 60, 200):
            place.get_by_role("button", name="Ask 200 people").press("Enter")
            said = place.get_by_role("status")
            yes = shown_number(said.inner_text())
            assert place.locator(".dots .full").count() == yes
            assert place.locator(".dots .ring").count() == 0
            slider = place.get_by_role("slider", name="Your guess")
            expect(slider).to_have_value(str(int(yes)))
            slider.fill(str(guess))
            place.get_by_role("button", name="Show the truth").click()
            ringed = place.locator(".dots g:has(.ring)")
            assert near(ringed.count(), first["people"], first["lies"] / first["people"])
            full = place.locator(".dots g:has(.full):not(:has(.ring))").count()
            truth = full + place.locator(".dots g:has(.hollow):has(.ring)").count()
            text = said.inner_text()
            estimate = (yes - round(first["lies"])) / round(first["slope"], 6)
            assert f"({yes:.0f} − 50) / 0.5 = {estimate:.0f}." in text
            assert f"In truth, {truth} people hold a yes" in text
            assert f"The estimate is off by {abs(estimate - truth):.0f}," in text
            assert f"your guess is off by {abs(guess - truth)}." in text
            expect(slider).to_be_hidden()
            offs.append(abs(estimate - truth))
        assert max(offs) <= DEVIATIONS * first["standard_error"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("crowd", "honesty"),
    [(0, 5), (2, 5), (1, 1), (2, 9)],
)
def test_many_crowds_scatter_as_the_library_says(
    browser: Browser, data: Any, crowd: int, honesty: int
) -> None:
    found = data["crowds"]
    setting = found["honesties"][honesty]
    row, runs = setting["crowds"][crowd], found["runs"]
    with opened(browser) as page:
        place = widget(page, "many-crowds")
        to(place.get_by_role("slider", name="People in each crowd"), crowd)
        to(place.get_by_role("slider", name="How often a message is the truth"), honesty)
        to(place.get_by_role("slider", name="Predict"), 3)
        error = shown_number(reading(place, "Standard error"))
        assert error == pytest.approx(100 * row["standard_error"], rel=5e-3)
        epsilon = shown_number(reading(place, "ε of each answer"))
        assert 0 <= epsilon - setting["epsilon"] < 1.001e-3
        assert shown_number(reading(place, "People needed")) == setting["needed"]
        place.get_by_role("button", name=f"Ask {runs} crowds").press("Enter")
        said = place.get_by_role("status").inner_text()
        expect(place.locator(".summary")).to_contain_text("200 of 200 crowds")
        close, *_ = numbers_in(said)
        assert near(close, runs, row["within"])
        assert "You predicted 15." in said
        expected = re.search(r"it is ([\d.]+) of 200 on average", said)
        assert expected
        assert float(expected[1]) == pytest.approx(runs * row["within"], rel=5e-3)
        mean = re.search(r"mean of all estimates is (−?[\d.]+) %", said)
        assert mean
        off = float(mean[1].replace("−", "-")) / 100 - found["share"]
        assert abs(off) <= DEVIATIONS * row["standard_error"] / math.sqrt(runs) + 5e-4
        place.get_by_text("Show the numbers").click()
        bars = [int(one) for one in place.locator("tbody td").all_inner_texts()]
        assert sum(bars) >= runs - 3  # a few estimates may lie outside the chart


def test_half_truth_half_lie_tells_nothing(browser: Browser, data: Any) -> None:
    with opened(browser) as page:
        place = widget(page, "many-crowds")
        to(place.get_by_role("slider", name="How often a message is the truth"), 0)
        assert reading(place, "Standard error") == "no estimate"
        assert reading(place, "People needed") == "no crowd is enough"
        assert reading(place, "ε of each answer") == "0"
        place.get_by_role("button", name="Ask 200 crowds").click()
        expect(place.get_by_role("status")).to_contain_text("hide everything and tell nothing")
        said = place.locator(".summary").inner_text()
        half = re.search(r"On average, ([\d.]+) %", said)
        assert half
        people = data["crowds"]["crowds"][2]
        assert abs(float(half[1]) - 50) <= DEVIATIONS * 50 / math.sqrt(200 * people) + 0.05


@pytest.mark.slow
def test_distribution_builds_up_before_the_eyes(browser: Browser) -> None:
    with opened(browser, reduced_motion="no-preference") as page:
        place = widget(page, "many-crowds")
        place.scroll_into_view_if_needed()
        summary = place.locator(".summary")
        page.evaluate(
            "(place) => { window.counts = []; new MutationObserver(() => {"
            " window.counts.push(parseInt(place.textContent)); }).observe(place,"
            " { childList: true, characterData: true, subtree: true }); }",
            summary.element_handle(),
        )
        place.get_by_role("button", name="Ask 200 crowds").click()
        expect(summary).to_contain_text("200 of 200 crowds", timeout=60_000)
        counts = page.evaluate("window.counts")
        assert len(counts) >= 50
        assert counts == sorted(counts)
        assert counts[0] < 10


# Part 3 -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_attacker_scores_rightly(browser: Browser, data: Any) -> None:
    rounds = data["guessing"]["rounds"]
    setting = data["guessing"]["doorbell"]
    with opened(browser) as page:
        place = widget(page, "attacker")
        right = 0
        for number in range(1, rounds + 1):
            message = place.locator(".message")
            expect(message).to_contain_text(f"Round {number} of {rounds}")
            believed = message.locator("strong").inner_text()
            place.get_by_role("button", name=f"Bet on {believed}").press("Enter")
            said = place.get_by_role("status").inner_text()
            held = re.search(r"The person held (yes|no)", said)
            assert held
            right += held[1] == believed
            if number < rounds:
                assert said.startswith("Right" if held[1] == believed else "Wrong")
            expect(place.locator(".dots .full")).to_have_count(right)
        text = place.get_by_role("status").inner_text()
        assert f"You were right in {right} of {rounds} rounds" in text
        assert (
            f"more than {rounds * setting['right']:.1f} of {rounds} rounds, which is 75 %" in text
        )
        luck = re.search(r"a better one in ([\d.]+) %", text)
        assert luck
        assert float(luck[1]) == pytest.approx(100 * sum(setting["scores"][right:]), abs=0.051)
        expect(place.locator(".rule text")).to_have_text(f"you: {right}")
        expect(place.get_by_role("button", name="Play again")).to_be_focused()
        expect(place.get_by_role("button", name="Bet on yes")).to_be_hidden()
        page.keyboard.press("Enter")
        expect(place.locator(".message")).to_contain_text("Round 1 of")
        expect(place.locator(".dots .full")).to_have_count(0)


def games(place: Locator, at: int, strategy: str) -> tuple[float, float]:
    """The share of rounds that a computer wins in 10,000 games, and the share that the page says
    ε permits.
    """
    to(place.get_by_role("slider"), at)
    place.get_by_label(strategy).check()
    place.get_by_role("button", name="Play 10,000 games").click()
    won, rounds, *_ = numbers_in(place.locator(".result strong").inner_text())
    assert rounds == 200_000
    return won / rounds, numbers_in(place.locator(".result p").nth(1).inner_text())[0] / 100


@pytest.mark.slow
def test_best_attacker_comes_close_to_what_epsilon_permits(browser: Browser, data: Any) -> None:
    """The share of 200,000 rounds varies by chance, but by no more than `DEVIATIONS` allow."""
    with opened(browser) as page:
        place = widget(page, "long-run")
        for at, setting in enumerate(data["guessing"]["settings"]):
            permitted = 1 / (1 + math.exp(-setting["epsilon"]))
            share, said = games(place, at, "Believe every message")
            assert said == pytest.approx(permitted, abs=5.1e-5)
            spread = math.sqrt(permitted * (1 - permitted) / 200_000)
            assert 0.97 * permitted < share < permitted + DEVIATIONS * spread
            assert share > permitted - DEVIATIONS * spread


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "share"),
    [
        ("Always bet on yes", 0.5),
        ("Toss a coin", 0.5),
        ("Bet against every message", 0.25),
    ],
)
def test_no_strategy_beats_what_epsilon_permits(
    browser: Browser, data: Any, strategy: str, share: float
) -> None:
    with opened(browser) as page:
        found, permitted = games(widget(page, "long-run"), data["guessing"]["first"], strategy)
        assert found < permitted
        assert near(200_000 * found, 200_000, share)


@pytest.mark.slow
def test_odds_sentence(browser: Browser, data: Any) -> None:
    with opened(browser) as page:
        place = widget(page, "guessers")
        slider = place.get_by_role("slider")
        for at, setting in enumerate(data["guessing"]["settings"]):
            to(slider, at)
            right = setting["right_of_100"]
            expect(place.get_by_role("status")).to_have_text(
                "Of 100 people who guess about you, on average 50 are right without your answer, "
                f"and at most {right} with it."
            )
            expect(place.locator(".dots").nth(0).locator(".full")).to_have_count(50)
            expect(place.locator(".dots").nth(1).locator(".full")).to_have_count(right)
            factor = shown_number(reading(place, "The odds rise at most by the factor"))
            assert factor == pytest.approx(setting["factor"], rel=5e-3)
            assert (
                shown_number(place.locator(".slider .value").inner_text())
                >= setting["epsilon"] - 1e-9
            )
