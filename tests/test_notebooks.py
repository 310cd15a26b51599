"""Every notebook runs, and its key figures are right: they are computed anew here."""

import json
import math
import re
import sys
from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from docs import generate, notebook_pages  # noqa: E402
from docs.notebook_pages import Output  # noqa: E402

NOTEBOOKS = notebook_pages.paths()
FIGURES = {"auditing": 1, "balcer-and-cheu": 4, "survey-planning": 2, "three-trusts": 5}


def text(outputs: list[list[Output]]) -> str:
    """Everything that a notebook prints, and the words of its tables."""
    shown = [one for cell in outputs for one in cell if one.kind != "figure"]
    return re.sub(r"<[^>]+>", " ", "\n".join(one.content for one in shown))


def number(pattern: str, shown: str) -> float:
    """The number that the notebook prints at the only place that fits the pattern."""
    (found,) = re.findall(pattern, shown)
    return float(found.replace(",", ""))


# The key figures of each notebook -----------------------------------------------------------------


def check_survey_planning(shown: str) -> None:
    # The margin of randomized response at ε = 1 is 1.96 √n / (2 sinh ½). That of Laplace noise is
    # ln 20.
    deviations = 1.96 / (2 * math.sinh(0.5))
    local = number(r"local: ([\d,]+) people", shown)
    assert local == pytest.approx((deviations / 0.03) ** 2, rel=0.015)
    assert number(r"central: ([\d,]+) people", shown) == math.ceil(math.log(20) / 0.03)
    assert number(r"shuffle: ε = ([\d.]+)", shown) > number(r"central: ε = ([\d.]+)", shown)
    # Of 100 people, 100 e/(1 + e) guess right at ε = 1.
    right = set(re.findall(r"at most (\d+) with them", shown))
    assert right == {str(math.ceil(100 * math.e / (1 + math.e)))}
    truths = {
        "cannabis yes": 432 / 2400,
        "worry    money": 960 / 2400,
        "sleep    mean": (192 + 2 * 408 + 3 * 720 + 4 * 720 + 5 * 360) / 2400,
        "hours    mean": (6 * 480 + 10 * 480 + 15 * 360 + 30 * 120) / 2400,
    }
    for name, truth in truths.items():
        assert number(rf"{name} .*\(truth ([\d.]+)\)", shown) == pytest.approx(truth, abs=5e-4)
    assert "privacy alone" in shown  # the plan is shown as a table
    assert "at least 2,000 people, got 1,500" in shown


def check_three_trusts(shown: str) -> None:
    # Quetelet 1846, as in Stigler 1986, The History of Statistics, p. 207.
    table = {33: 3, 34: 18, 35: 81, 36: 185, 37: 420, 38: 749, 39: 1073, 40: 1079, 41: 934, 42: 658}
    table |= {43: 370, 44: 92, 45: 50, 46: 21, 47: 4, 48: 1}
    people = sum(table.values())
    assert number(r"(?m)^([\d,]+) soldiers$", shown) == people == 5738
    large = sum(often for inch, often in table.items() if inch >= 42)
    mean = sum(inch * often for inch, often in table.items()) / people
    truths = re.findall(r"(?m)^truth +([\d,.]+)$", shown)
    assert truths == [f"{large:,.2f}", f"{mean:,.2f}"]
    below = np.cumsum(list(table.values())) / people
    quartiles = [int(np.argmax(below >= share)) + 33 for share in (0.25, 0.5, 0.75)]
    assert f"truth: [{' '.join(map(str, quartiles))}]" in shown
    # Two-sided geometric noise is at most 3 with more than 95 % confidence, and 2 is not enough.
    a = math.exp(-1)
    assert 2 * a**4 / (1 + a) < 0.05 < 2 * a**3 / (1 + a)
    counted = r" +central\.geometric +([\d,.]+) +from ([\d,.]+) to ([\d,.]+)"
    ((value, low, high),) = re.findall(counted, shown)
    value, low, high = (float(one.replace(",", "")) for one in (value, low, high))
    assert (low, high) == (value - 3, value + 3)
    response = r" +local\.randomized-response +[\d,.]+ +from ([\d,.]+) to ([\d,.]+)"
    ((low, high),) = re.findall(response, shown)
    width = float(high.replace(",", "")) - float(low.replace(",", ""))
    assert width == pytest.approx(2 * 1.96 * math.sqrt(people) / (2 * math.sinh(0.5)), rel=0.02)


def check_auditing(shown: str) -> None:
    verdicts = re.findall(r"Consistent|Refuted|Kept", shown)
    sound, broken = "Consistent", "Refuted"
    assert verdicts == [sound, broken, broken, sound, broken, sound, broken, "Kept"]
    assert number(r"true ε: ([\d.]+)", shown) == pytest.approx(math.log(4), abs=1e-4)
    assert number(r"measured: at least ([\d.]+)", shown) <= 1
    for delta, ratio in re.findall(r"δ = ([\d.]+): ε = [\d.]+, e\^ε = ([\d.]+)", shown):
        assert float(ratio) == pytest.approx(float(least_ratio(Fraction(delta))), abs=1e-6)
    assert len(re.findall(r"e\^ε", shown)) == 2


def least_ratio(delta: Fraction, people: int = 5) -> Fraction:
    """The least e^ε of shuffled responses that are true with probability ¾, by enumeration."""

    def ones(dataset: tuple[int, ...]) -> dict[int, Fraction]:
        law: dict[int, Fraction] = {}
        for lies in product((0, 1), repeat=people):
            chance = Fraction(1)
            for lie in lies:
                chance *= Fraction(1, 4) if lie else Fraction(3, 4)
            sent = sum(bit ^ lie for bit, lie in zip(dataset, lies, strict=True))
            law[sent] = law.get(sent, Fraction(0)) + chance
        return law

    def smallest(law: Mapping[int, Fraction], other: Mapping[int, Fraction]) -> Fraction:
        # The best event has the outcomes with the largest ratios. It needs (P − δ)/Q.
        order = sorted(law, key=lambda sent: law[sent] / other[sent], reverse=True)
        heads = [order[: size + 1] for size in range(len(order))]
        return max(
            (sum(law[k] for k in head) - delta) / sum(other[k] for k in head) for head in heads
        )

    crowds = [(0,) * (people - held) + (1,) * held for held in range(people + 1)]
    laws = [ones(crowd) for crowd in crowds]
    pairs = [*pairwise(laws), *pairwise(laws[::-1])]
    return max(smallest(law, other) for law, other in pairs)


def check_balcer_and_cheu(shown: str) -> None:
    people = 20_000
    for epsilon in (1.0, 0.5):
        stated = 50 / epsilon**2 * math.log(2 / 1e-6)
        assert number(rf"ε = {epsilon:g}: +([\d.]+) withheld", shown) == round(stated, 1)
        ((paper, exact),) = re.findall(rf"ε = {epsilon:g}: paper ([\d.]+), exact ([\d.]+)", shown)
        assert float(paper) == round(stated, 1)
        assert float(exact) == pytest.approx(least_withheld(people, epsilon), abs=0.1)
    assert "answers in 100 runs: {0.0}" in shown
    for name, mean in (("paper", 50 * math.log(2e6)), ("exact", least_withheld(people, 1.0))):
        errors = rf"{name}: ([\d.]+) with the paper's analyzer, ([\d.]+) without"
        ((thresholded, unbiased),) = re.findall(errors, shown)
        variance = mean * (1 - mean / people)
        assert float(unbiased) == pytest.approx(math.sqrt(variance), rel=2e-3)
        assert float(thresholded) == pytest.approx(worst_error(people, mean), rel=2e-3)
    for d in (10, 100, 1000, 10_000):
        sent = number(rf"d = {d:,}: ([\d,.]+) messages", shown)
        assert 0.99 * (d + 1) < sent < d + 1.05


def binomial(people: int, mean: float) -> NDArray[np.float64]:
    """The probabilities of 0, …, n, from ratios of neighbors."""
    odds = mean / (people - mean)
    k = np.arange(people)
    steps = np.log((people - k) / (k + 1) * odds)
    logs = np.concatenate([[people * math.log1p(-mean / people)], steps])
    chances: NDArray[np.float64] = np.exp(np.cumsum(logs))
    return chances


def least_withheld(people: int, epsilon: float) -> float:
    """The least n(1 − p) with δ ≤ 1e-6, by bisection."""

    def delta(mean: float) -> float:
        here = np.append(binomial(people, mean), 0)
        moved = np.roll(here, 1)
        losses = (here - math.exp(epsilon) * moved, moved - math.exp(epsilon) * here)
        return max(float(np.maximum(loss, 0).sum()) for loss in losses)

    low, high = 1.0, 2000.0
    while high - low > 0.01:
        middle = (low + high) / 2
        low, high = (low, middle) if delta(middle) <= 1e-6 else (middle, high)
    return high


def worst_error(people: int, mean: float) -> float:
    """The largest root mean squared error over all true counts, if small counts become 0."""
    missing = np.arange(people + 1)
    law = binomial(people, mean)
    errors = [
        float((law[:c] * np.square(mean - missing[:c])).sum() + c**2 * law[c:].sum())
        for c in range(3000)
    ]
    return math.sqrt(max(errors))


CHECKS: dict[str, Callable[[str], None]] = {
    "auditing": check_auditing,
    "balcer-and-cheu": check_balcer_and_cheu,
    "survey-planning": check_survey_planning,
    "three-trusts": check_three_trusts,
}
LONG = {"auditing", "survey-planning", "three-trusts"}


# Tests --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem in LONG else [])
        for path in NOTEBOOKS
    ],
)
def test_notebook_runs_and_its_key_figures_are_right(path: Path) -> None:
    outputs = notebook_pages.outputs(path)
    CHECKS[path.stem](text(outputs))
    figures = [one for cell in outputs for one in cell if one.kind == "figure"]
    assert len(figures) == FIGURES[path.stem]
    assert all(one.title and one.content.startswith("<svg") for one in figures)


def test_there_are_four_notebooks() -> None:
    assert [path.stem for path in NOTEBOOKS] == sorted(CHECKS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_a_file_of_jupyter_without_outputs(path: Path) -> None:
    notebook = json.loads(path.read_text())
    assert set(notebook) == {"cells", "metadata", "nbformat", "nbformat_minor"}
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    cells = notebook["cells"]
    assert len({cell["id"] for cell in cells}) == len(cells)
    for cell in cells:
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", cell["id"])
        if cell["cell_type"] == "code":
            assert (cell["execution_count"], cell["outputs"]) == (None, [])
            assert set(cell) == {
                "cell_type", "execution_count", "id", "metadata", "outputs", "source"
            }  # fmt: skip
        else:
            assert cell["cell_type"] == "markdown"
            assert set(cell) == {"cell_type", "id", "metadata", "source"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_begins_with_its_title_and_its_links_lead_somewhere(path: Path) -> None:
    words = [cell.source for cell in notebook_pages.cells(path) if cell.kind == "markdown"]
    assert re.match(r"# \w.*\n\n\S", words[0])
    assert not any(re.search("^# ", source, flags=re.MULTILINE) for source in words[1:])
    made = {ROOT / "docs" / page for page in generate.pages_made()}
    for target in re.findall(r"\]\(([^)#]+)\)", "\n".join(words)):
        place = (path.parent / target).resolve()
        assert place.exists() or place in made, target


def notebook(folder: Path, *cells: str) -> Path:
    made: list[dict[str, Any]] = [{"cell_type": "code", "source": [cell]} for cell in cells]
    made.insert(1, {"cell_type": "markdown", "source": ["At ε, ", "n people"]})
    path = folder / "made-up.ipynb"
    path.write_text(json.dumps({"cells": made}))
    return path


def test_cells_share_their_names_and_show_what_jupyter_shows(tmp_path: Path) -> None:
    path = notebook(
        tmp_path, "import headcount as hc\nx = 2", "print(x)\nx + 1", "hc.Budget(1)\nNone"
    )
    shown = [[(one.kind, one.content) for one in cell] for cell in notebook_pages.outputs(path)]
    assert shown == [[], [("text", "2\n"), ("text", "3")], []]


@pytest.mark.parametrize(
    "cell",
    [
        "assert 1 == 2",
        "import warnings\nwarnings.warn('old')",
        "import sys\nprint('told', file=sys.stderr)",
        "unknown",
        "raise SystemExit",
    ],
)
def test_a_broken_cell_stops_the_run(cell: str, tmp_path: Path) -> None:
    path = notebook(tmp_path, "x = 1", cell, "x")
    with pytest.raises(RuntimeError, match=r"made-up\.ipynb"):
        notebook_pages.outputs(path)


@pytest.mark.slow
def test_a_page_shows_words_code_outputs_and_figures(tmp_path: Path) -> None:
    figure = "figures.curve_figure('Two curves', {'a': [(0, 1), (1, 1e-3)]})"
    protocol = "p = hc.protocol('central.geometric', hc.Count(), hc.Budget(1), hc.Crowd(100))"
    estimate = "hc.run(p, [1] * 100, hc.SeededSource(1))"
    path = notebook(
        tmp_path,
        "import headcount as hc\nfrom headcount.plot import figures",
        figure,
        f"{protocol}\n{estimate}",
        "print('three')",
    )
    made = notebook_pages.files_of(path)
    assert set(made) == {
        "notebooks/made-up.ipynb",
        "notebooks/figures/made-up-1.svg",
        "notebooks/made-up.md",
    }
    page = made["notebooks/made-up.md"]
    assert "At ε, n people" in page
    assert f"```python\n{figure}\n```\n\n![Two curves](figures/made-up-1.svg)" in page
    assert f'{estimate}\n```\n\n<div class="output"><div>' in page
    assert "```text\nthree\n```" in page
    assert "](made-up.ipynb)" in page
