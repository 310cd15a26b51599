"""The numbers of the guide: the page holds what the library computes, and they are right."""

import html
import json
import math
import re
import runpy
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from guide_pages import embedded
from headcount.core.budget import Trust
from headcount.guide.files import FOLDER
from headcount.guide.numbers import numbers
from headcount.plot.palette import trust_color

SOURCES = Path(__file__).parents[1] / "browser" / "guide"
OUTPUT = runpy.run_path(str(SOURCES / "snippets.py"))["output"]


def binomial(trials: int, p: Fraction) -> list[Fraction]:
    return [
        math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(trials + 1)
    ]  # fmt: skip


def test_page_holds_what_the_library_computes() -> None:
    assert embedded() == json.loads(json.dumps(numbers()))


@pytest.mark.slow
def test_module_prints_the_numbers() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "headcount.guide"], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == embedded()


@pytest.mark.slow
def test_programs_print_what_the_page_shows() -> None:
    page = (FOLDER / "index.html").read_text()
    shown = re.findall(
        r'<div class="program"><pre class="source"[^>]*><code>(.*?)</code></pre>\s*'
        r'<pre class="output"[^>]*><samp>(.*?)</samp></pre></div>',
        page,
        flags=re.DOTALL,
    )
    assert len(shown) >= 4
    assert page.count('class="output"') == len(shown)
    for source, output in shown:
        code = html.unescape(source)
        language = "sh" if code.startswith(("headcount ", "cat ")) else "python"
        assert OUTPUT({"language": language, "code": code}) == html.unescape(output)


def filled(text: str, data: Any) -> str:
    """A text with placeholders, as the build fills it."""
    program = (
        "import { filled } from './prose.mjs';\n"
        f"process.stdout.write(filled({json.dumps(text)}, {json.dumps(data)}, 'here'));\n"
    )
    done = subprocess.run(
        ["node", "--input-type=module", "--eval", program],
        cwd=SOURCES,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if done.returncode:
        raise ValueError(done.stderr)
    return done.stdout


def test_placeholders_are_filled() -> None:
    data = {"a": {"n": 12345, "x": 0.123456, "rows": [{"e": 1.0986122886681098}], "word": "yes"}}
    text = (
        "{{a.n}} {{ a.word }} {{a.x | places 2}} {{a.x | digits 3}} {{a.x | percent 1}} "
        "{{a.rows.0.e | up 3}} {{a.rows.0.e | down 3}} {{a.x|whole}}"
    )
    assert filled(text, data) == "12,345 yes 0.12 0.123 12.3 % 1.1 1.09 0"


@pytest.mark.parametrize(
    "text",
    ["{{a.m}}", "{{b.n}}", "{{a.x}}", "{{a.rows}}", "{{a.x | large 2}}", "{{a.word | digits 2}}",
     "{{a.n}", "{{a.rows.1.e | up 3}}", "{{a.toString}}"],
)  # fmt: skip
def test_wrong_placeholders_stop_the_build(text: str) -> None:
    data = {"a": {"n": 1, "x": 0.5, "rows": [{"e": 1.5}], "word": "yes"}}
    with pytest.raises(ValueError, match="here: "):
        filled(text, data)


def test_colors() -> None:
    assert embedded()["colors"] == {
        "central": "#0072B2",
        "shuffle": "#D55E00",
        "local": "#009E73",
    }
    styles = (FOLDER / "guide.css").read_text().lower()
    for trust in Trust:
        assert f"--{trust}-color: {trust_color(trust).lower()}" in styles.replace(":#", ": #")


# Part 1 -------------------------------------------------------------------------------------------


def test_doorbell() -> None:
    found = embedded()["doorbell"]
    assert found["epsilon"] == pytest.approx(math.log(3))
    assert found["lie_probability"] == pytest.approx(1 / 4, rel=1e-15)
    assert int(found["device"]["weight"]) / 2**64 == found["lie_probability"]
    assert (found["yes"], found["counted"]) == (300, 200)
    # The variance of a message is 3/16, and the estimate doubles its error.
    errors = [math.sqrt(3 / 16 * 4 / people) for people in found["crowds"]]
    assert found["randomized_errors"] == pytest.approx(errors)


def test_evasive_answers() -> None:
    found = embedded()["doorbell"]
    people, share = 100, Fraction(3, 10)
    assert found["crowds"][0] == people
    for row in found["evasion"]:
        denial = Fraction(row["denial"]).limit_denominator(100)
        law = binomial(30, 1 - denial)
        square = sum(p * (Fraction(yes, people) - share) ** 2 for yes, p in enumerate(law))
        assert row["errors"][0] == pytest.approx(math.sqrt(square))
        assert row["counted"] == pytest.approx(float(share * (1 - denial)))
        if row["enough_people"] is None:
            assert not denial
            continue
        gains = [
            (share * denial) ** 2 + share * denial * (1 - denial) / n - Fraction(3, 4) / n
            for n in (row["enough_people"] - 1, row["enough_people"])
        ]
        assert gains[0] < 0 <= gains[1]


# Part 2 -------------------------------------------------------------------------------------------


def test_crowds() -> None:
    found = embedded()["crowds"]
    assert [row["honesty"] for row in found["honesties"]] == [
        percent / 100 for percent in range(50, 100, 5)
    ]
    assert int(found["honesties"][0]["device"]["weight"]) == 2**63
    for row in found["honesties"][1:]:
        truth = Fraction(row["honesty"]).limit_denominator(100)
        gamma = truth - Fraction(1, 2)
        assert row["epsilon"] == pytest.approx(math.log(truth / (1 - truth)))
        assert int(row["device"]["weight"]) / 2**64 == pytest.approx(float(1 - truth))
        for crowd in row["crowds"]:
            people = crowd["people"]
            variance = (Fraction(1, 4) - gamma**2) / (4 * gamma**2 * people)
            assert crowd["standard_error"] == pytest.approx(math.sqrt(variance))
            assert crowd["within_chebyshev"] == pytest.approx(max(0, 1 - float(variance) * 400))
            bound = 1 - 2 * math.exp(-8 * float(gamma) ** 2 / 400 * people)
            assert crowd["within_hoeffding"] == pytest.approx(max(0, bound))
            assert max(crowd["within_chebyshev"], crowd["within_hoeffding"]) <= crowd["within"]
        # Normal laws are close to binomial laws here. The plan also covers the worst data.
        normal = 1.959964**2 * float((Fraction(1, 4) - gamma**2) / (4 * gamma**2)) * 400
        assert normal <= row["needed"] <= 1.2 * normal + 60
        assert row["needed"] < row["needed_hoeffding"]
        assert row["needed_hoeffding"] == math.ceil(math.log(40) * 400 / 8 / float(gamma) ** 2)


def test_chance_of_a_close_estimate() -> None:
    """All sums of messages of 100 people are enumerated."""
    people, yes = 100, 30
    for row in embedded()["crowds"]["honesties"][1:]:
        truth = Fraction(row["honesty"]).limit_denominator(100)
        close = Fraction(0)
        rest = binomial(people - yes, 1 - truth)
        for first, p in enumerate(binomial(yes, truth)):
            for second, q in enumerate(rest):
                estimate = (first + second - (1 - truth) * people) / (2 * truth - 1)
                if abs(estimate - yes) <= 5:
                    close += p * q
        assert row["crowds"][0]["people"] == people
        assert row["crowds"][0]["within"] == pytest.approx(float(close), rel=1e-9)


# Part 3 -------------------------------------------------------------------------------------------


def test_guesses() -> None:
    found = embedded()["guessing"]
    assert found["doorbell"] == found["settings"][found["first"]]
    assert found["doorbell"]["right_of_100"] == 75
    for row in found["settings"]:
        right = 1 / (1 + math.exp(-row["epsilon"]))
        assert row["right"] == pytest.approx(right, rel=1e-12)
        assert row["right"] >= right * (1 - 1e-15)
        assert row["right_of_100"] == math.ceil(100 * right - 1e-6)
        assert row["factor"] == pytest.approx(math.exp(row["epsilon"]))
        assert int(row["device"]["weight"]) / 2**64 == pytest.approx(1 - right)
        law = [float(p) for p in binomial(found["rounds"], Fraction(right))]
        assert row["scores"] == pytest.approx(law, abs=1e-12)


def test_delta_is_not_the_chance_of_a_failure() -> None:
    found = embedded()["guessing"]["louder"]
    truth = 1 / (1 + math.exp(-found["epsilon"]))
    assert found["truth"] == pytest.approx(truth)
    assert found["delta"] == pytest.approx(truth - 3 * (1 - truth))
    assert found["factor"] > 3
    assert found["delta"] < 0.01 < found["truth"]
