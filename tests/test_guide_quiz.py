"""The quiz of the guide: it scores rightly, and every wrong answer is shown to be wrong."""

import re
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from browsing import serious
from guide_pages import PHONE, embedded, opened
from guide_quiz import RIGHT, SIGMAS, SIMULATED, TRUSTS, Result, Shown, numbers

ANSWERS = 4
SEEDS = (14, 18, 21, 26, 17, 32)  # with these, all kinds of questions come
# Words that tell which kind of a question comes, and whom its simulation assumes to be dishonest.
KINDS = {
    "trust": (*TRUSTS, "all other people leave out their noise", "tells the analyzer who sent"),
    "collusion": ("rarely a lie", "none for a no"),
    "waves": ("repeats it", "a new message in every wave"),
}


@pytest.fixture(scope="module")
def data() -> Any:
    return embedded()["quiz"]


def quiz(page: Page) -> Locator:
    return page.locator("[data-widget=quiz]")


def rows(table: Locator) -> list[list[str]]:
    return [
        row.locator("th, td").all_inner_texts() for row in table.locator("tbody tr").all()
    ]  # fmt: skip


def question(place: Locator, data: Any) -> Shown:
    fieldset = place.locator("fieldset")
    story = place.locator(":scope > p:not(.note)").all_inner_texts()
    return Shown(
        name=fieldset.get_attribute("data-question") or "",
        story=" ".join(story),
        answers=fieldset.locator(".option > span").all_inner_texts(),
        tables=[rows(table) for table in fieldset.locator("table").all()],
        data=data,
    )


def start(page: Page, seed: int) -> Locator:
    page.evaluate("(seed) => window.guide.seed(seed)", seed)
    place = quiz(page)
    place.get_by_role("button", name=re.compile("^Start")).press("Enter")
    return place


def answer(place: Locator, chosen: int) -> None:
    place.get_by_role("radio").nth(chosen).check()
    place.get_by_role("button", name="Check my answer").press("Enter")


def go_on(place: Locator) -> None:
    place.get_by_role("button", name=re.compile("Next question|Show my score")).press("Enter")


def simulated(place: Locator) -> Result:
    seen = place.locator(".simulation")
    said = " ".join(seen.locator(":scope > div > p").all_inner_texts())
    believed, found, exact = seen.locator("dd").all_inner_texts()
    table = seen.locator(":scope > div > table")
    return Result(said, believed, found, exact, rows(table) if table.count() else [])


def check_simulation(asked: Shown, chosen: int, result: Result) -> None:
    """The simulation agrees with our own computation, and not with the answer."""
    exact, spread, believed = SIMULATED[asked.name](asked, chosen, result)
    found, stated = numbers(result.found)[0], numbers(result.exact)[0]
    where = (asked, chosen, result, exact, spread, believed)
    assert abs(stated - exact) <= 6e-3 * max(abs(exact), 0.01), where
    assert abs(found - exact) <= SIGMAS * spread + 6e-3 * abs(exact), where
    assert abs(found - believed) > 3 * spread, where
    assert abs(exact - believed) > SIGMAS * spread, where
    if "at most" in result.believed:
        assert found > believed or exact < believed, where
    if result.believed != "large":
        assert abs(numbers(result.believed)[0] - believed) <= 0.02 * abs(believed), where


@pytest.mark.slow
@pytest.mark.parametrize("chosen", range(ANSWERS))
@pytest.mark.parametrize("seed", [1, 2])
def test_every_answer_is_scored_and_every_mistake_is_simulated(
    browser: Browser, data: Any, seed: int, chosen: int
) -> None:
    with opened(browser) as page:
        place = start(page, seed)
        score = 0
        for count, (name, solve) in enumerate(RIGHT.items(), start=1):
            asked = question(place, data)
            assert asked.name == name
            assert len(asked.answers) == ANSWERS
            right = solve(asked)
            answer(place, chosen)
            score += chosen == right
            expect(place.locator(".option.right")).to_have_count(1)
            options = place.locator(".option").all()
            assert [
                "right" in (option.get_attribute("class") or "").split() for option in options
            ] == [at == right for at in range(ANSWERS)]
            verdict = place.locator(".result strong")
            expect(verdict).to_have_text("Right." if chosen == right else "Not so.")
            explanation = place.locator(".result p").inner_text()
            assert len(explanation.split()) > 6
            expect(place.locator(".quiz-progress")).to_have_text(
                f"Question {count} of {len(RIGHT)}. {score} of {count} right so far."
            )
            simulation = place.locator(".simulation")
            if chosen == right:
                expect(simulation).to_be_empty()
            else:
                check_simulation(asked, chosen, simulated(place))
            go_on(place)
        expect(place.get_by_role("heading")).to_have_text(f"{score} of {len(RIGHT)} right")
        expect(place.locator("li")).to_have_count(len(RIGHT) - score)


@pytest.mark.slow
def test_right_answers_win(browser: Browser, data: Any) -> None:
    with opened(browser) as page:
        place = start(page, 3)
        for solve in RIGHT.values():
            answer(place, solve(question(place, data)))
            expect(place.locator(".result strong")).to_have_text("Right.")
            go_on(place)
        expect(place.get_by_role("heading")).to_have_text(f"{len(RIGHT)} of {len(RIGHT)} right")
        expect(place).to_contain_text("Every answer was right.")


@pytest.mark.slow
def test_numbers_are_fresh_and_all_kinds_of_questions_come(browser: Browser, data: Any) -> None:
    """The questions that come in several kinds are answered wrongly, and the others rightly."""
    stories, kinds = set(), set()
    with opened(browser) as page:
        for turn, seed in enumerate(SEEDS):
            place = start(page, seed)
            for name, solve in RIGHT.items():
                asked = question(place, data)
                stories.add((name, asked.story, asked.answers[0]))
                right = solve(asked)
                chosen = (right + 1 + turn % 3) % ANSWERS if name in KINDS else right
                answer(place, chosen)
                if name in KINDS:
                    result = simulated(place)
                    check_simulation(asked, chosen, result)
                    told = asked.story + result.text
                    kinds |= {(name, kind) for kind in KINDS[name] if kind in told}
                go_on(place)
            expect(place.get_by_role("heading")).to_have_text(
                f"{len(RIGHT) - len(KINDS)} of {len(RIGHT)} right"
            )
            expect(place.locator("li")).to_have_count(len(KINDS))
    assert len(stories) > 0.8 * len(SEEDS) * len(RIGHT)
    assert kinds == {(name, kind) for name, some in KINDS.items() for kind in some}


@pytest.mark.slow
def test_quiz_by_keyboard_and_on_a_phone(browser: Browser) -> None:
    with opened(browser, all_parts=False, viewport=PHONE, color_scheme="dark") as page:
        place = start(page, 1)
        place.get_by_role("button", name="Check my answer").press("Enter")
        expect(place.get_by_role("status")).to_have_text("Choose an answer first.")
        place.get_by_role("radio").first.focus()
        page.keyboard.press("Space")
        expect(place.get_by_role("radio").first).to_be_checked()
        page.keyboard.press("ArrowDown")
        expect(place.get_by_role("radio").nth(1)).to_be_checked()
        page.keyboard.press("ArrowUp")
        place.get_by_role("button", name="Check my answer").press("Enter")
        expect(place.get_by_role("radio").first).to_be_disabled()
        expect(place.get_by_role("button", name="Next question")).to_be_focused()
        before = simulated(place), place.locator(".summary").inner_text()
        place.get_by_role("button", name="Simulate again").press("Enter")
        after = simulated(place), place.locator(".summary").inner_text()
        assert before[0].exact == after[0].exact
        assert before[1] != after[1]
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(place.get_by_role("heading", level=3)).to_be_focused()
        for _ in range(3):
            answer(place, 0)
            go_on(place)
        assert question(place, None).name == "mechanism"
        assert page.locator("#quiz").evaluate("(one) => one.scrollWidth") <= PHONE["width"]
        answer(place, 1)
        assert page.locator("#quiz").evaluate("(one) => one.scrollWidth") <= PHONE["width"]
        assert not serious(page)


def test_nobody_hears_the_answers(browser: Browser) -> None:
    """`opened` fails if anything leaves. Nothing is stored either."""
    with opened(browser, seed=None) as page:
        place = quiz(page)
        place.get_by_role("button", name="Start the quiz").click()
        answer(place, 0)
        assert page.evaluate("localStorage.length + sessionStorage.length") == 0
        assert page.evaluate("document.cookie") == ""
