"""Part 10 of the guide: the table of plans, and the survey file that the page writes."""

import math
import re
import subprocess
import sys
from pathlib import Path
from statistics import NormalDist
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, expect

import headcount as hc
from guide_pages import embedded, opened
from guide_widgets import to, widget

TRUSTS = ("central", "shuffle", "local")


@pytest.fixture(scope="module")
def data() -> Any:
    return embedded()["planning"]


# Numbers ----------------------------------------------------------------------------------------


def test_sampling_and_guesses(data: Any) -> None:
    quantile = NormalDist().inv_cdf(0.975)
    for plans in data["plans"].values():
        for trust, rows in plans.items():
            for epsilon, row in zip(data["epsilons"], rows, strict=True):
                most = (math.exp(epsilon) + data["deltas"][trust]) / (math.exp(epsilon) + 1)
                for people, plan in zip(data["people"], row, strict=True):
                    drawn = quantile / (2 * math.sqrt(people))
                    assert plan["with_sampling"] == pytest.approx(math.hypot(plan["margin"], drawn))
                    assert plan["within"] == math.ceil(100 * most)
                    assert 0 < plan["margin"] <= 0.5


@pytest.mark.parametrize("questions", [5, 10])
def test_central_margins_are_those_of_cube_noise(data: Any, questions: int) -> None:
    """A size j has the weight (2j + 1)^Q e^(−εj). Each answer's noise is uniform from −j to j."""
    for epsilon, row in zip(
        data["epsilons"], data["plans"][str(questions)]["central"], strict=True
    ):
        weights = [(2 * j + 1) ** questions * math.exp(-epsilon * j) for j in range(600)]
        total = sum(weights)

        def beyond(margin: int, weights: list[float] = weights, total: float = total) -> float:
            return sum(
                weight / total * max(0, 2 * (j - margin)) / (2 * j + 1)
                for j, weight in enumerate(weights)
            )

        margin = next(one for one in range(600) if beyond(one) <= 0.05)
        for people, plan in zip(data["people"], row, strict=True):
            assert plan["margin"] == pytest.approx(min(margin / people, 0.5))


def test_less_trust_costs_accuracy(data: Any) -> None:
    for plans in data["plans"].values():
        for row in range(len(data["epsilons"])):
            for at in range(len(data["people"])):
                central, shuffle, local = (plans[one][row][at]["margin"] for one in TRUSTS)
                assert central <= shuffle <= local


# The widget -------------------------------------------------------------------------------------


def offer(place: Locator, trust: str) -> str:
    return place.locator(f".offers .c-{trust}").inner_text()


def shows(text: str, margin: float) -> bool:
    """Whether a text shows this margin in points, rounded to two digits or to whole points."""
    [shown] = re.findall(r"The margin is ±([\d.]+) points", text)
    points = 100 * margin
    unit = 10 ** (math.floor(math.log10(points)) - 1) if points < 9.95 else 1
    return abs(float(shown) - points) <= unit * 0.501


def expected(
    data: Any, size: int, trust: str, people: int, wanted: float, kind: str
) -> tuple[float, Any] | None:
    """The smallest ε of the table that is enough, and its plan."""
    at = data["people"].index(people)
    for epsilon, row in zip(data["epsilons"], data["plans"][str(size)][trust], strict=True):
        if row[at][kind] <= wanted:
            return epsilon, row[at]
    return None


@pytest.mark.slow
def test_offers(browser: Browser, data: Any) -> None:
    with opened(browser) as page:
        place = widget(page, "planning")
        for size, kind, wanted, people in (
            (5, "margin", 0.05, 1000),
            (10, "margin", 0.01, 10_000),
            (10, "with_sampling", 0.02, 3000),
            (5, "with_sampling", 0.005, 100),
            (5, "with_sampling", 0.2, 300),
        ):
            to(place.get_by_label("How exact must it be?"), data["margins"].index(wanted))
            to(place.get_by_label("How many people will answer?"), data["people"].index(people))
            place.get_by_role("radio", name=str(size), exact=True).check()
            whom = "The people who answer" if kind == "margin" else "Everybody from whom"
            place.get_by_role("radio", name=whom).check()
            for trust in TRUSTS:
                found = expected(data, size, trust, people, wanted, kind)
                text = offer(place, trust)
                if found is None:
                    assert "no ε in the table is enough" in text
                    larger = [
                        (crowd, more[0])
                        for crowd in data["people"]
                        if crowd > people
                        and (more := expected(data, size, trust, crowd, wanted, kind))
                    ]
                    said = "With {:,} people, ε = {:g} is." if larger else "No crowd in the table"
                    assert said.format(*(larger[0] if larger else ())) in text
                else:
                    epsilon, plan = found
                    assert f"ε = {epsilon:g}. " in text
                    assert shows(text, plan[kind])
                    assert f"at most {plan['within']} with them" in text
                place.get_by_role("radio", name=f"({trust})").check()
                file = place.locator(".survey-file")
                assert file.get_by_role("button").count() == (found is not None)
                if found:
                    assert f"epsilon = {found[0]:g}\n" in file.inner_text()
                    assert f"least_people = {people}\n" in file.inner_text()


@pytest.mark.slow
@pytest.mark.parametrize("trust", TRUSTS)
def test_file_is_a_survey(browser: Browser, data: Any, tmp_path: Path, trust: str) -> None:
    """The file has what the reader wrote, and its plan has the margin that the page promised."""
    nasty = 'Is "C:\\temp" a place? 100 % 🙂\t#'
    with opened(browser) as page:
        place = widget(page, "planning")
        to(place.get_by_label("How many people will answer?"), data["people"].index(30_000))
        place.get_by_role("radio", name=f"({trust})").check()
        place.get_by_text("Write your own questions").click()
        place.get_by_label("Title").fill("")
        expect(place.locator(".survey-file .problem")).to_be_visible()
        place.get_by_label("Title").fill("Nächte & days")
        place.get_by_label("Question 2", exact=True).fill(nasty)
        with page.expect_download() as found:
            place.get_by_role("button", name="Download survey.toml").click()
        file = tmp_path / found.value.suggested_filename
        found.value.save_as(file)
    assert file.name == "survey.toml"
    survey = hc.Survey.load(file)
    assert survey.title == "Nächte & days"
    assert survey.questions[1].text == nasty
    assert survey.trust == trust
    command = [sys.executable, "-m", "headcount", "survey", "check", str(file)]
    checked = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "survey.toml is fine" in checked.stdout
    planned = expected(data, 5, trust, 30_000, 0.05, "margin")
    assert planned is not None
    assert survey.budget == hc.Budget(planned[0], data["deltas"][trust])
    assert survey.plan().worst_margin == planned[1]["margin"]


@pytest.mark.slow
def test_file_keeps_texts_of_all_questions(browser: Browser, data: Any) -> None:
    with opened(browser) as page:
        place = widget(page, "planning")
        to(place.get_by_label("How many people will answer?"), 6)
        place.get_by_role("radio", name="10", exact=True).check()
        place.get_by_text("Write your own questions").click()
        expect(place.locator(".field")).to_have_count(11)
        text = place.locator(".survey-file").inner_text()
        assert all(f'text = "{one}"' in text for one in data["questions"])
        assert text.count("[[question]]") == 10
