"""Every example in the documents runs; every link leads somewhere."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import headcount as hc

ROOT = Path(__file__).parents[1]
DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(), flags=re.DOTALL)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_python_examples_run(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "example"}
    for block in blocks(path, "python"):
        exec(compile(block, path.name, "exec"), names)
    capsys.readouterr()


def test_readme_commands_run(tmp_path: Path) -> None:
    commands = [
        line
        for block in blocks(ROOT / "README.md", "sh")
        for line in block.splitlines()
        if not line.startswith("make ")
    ]
    assert len(commands) >= 5
    for command in commands:
        runnable = command.replace("python3 ", f"{sys.executable} ", 1)
        runnable = re.sub("^headcount ", f"{shlex.quote(sys.executable)} -m headcount ", runnable)
        done = subprocess.run(
            runnable, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (command, done.stderr)
        assert done.stderr == ""


def test_stated_figures_are_computed(capsys: pytest.CaptureFixture[str]) -> None:
    """The table of docs/guarantees.md is what its program prints."""
    page = ROOT / "docs" / "guarantees.md"
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), {"__name__": "example"})
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    printed = dict(line for line in lines if len(line) == 2)
    rows = dict(re.findall(r"^\| (.+?) \| ([\d.]+) \|$", page.read_text(), flags=re.MULTILINE))
    assert float(rows["smoothness, by the lemma"]) == round(float(printed["lemma"]))
    assert float(rows["smoothness, by its definition"]) == round(float(printed["definition"]), 1)
    assert float(rows["exact divergence"]) == round(float(printed["divergence"]), 1)


def test_skeleton_keeps_the_contract() -> None:
    """The class in docs/adding-a-protocol.md passes what a registered protocol must."""
    names: dict[str, Any] = {"__name__": "skeleton"}
    for block in blocks(ROOT / "docs" / "adding-a-protocol.md", "python"):
        exec(compile(block, "skeleton", "exec"), names)
    protocol = names["FairCoin"](hc.Count(), hc.Budget(1.0986122886681098 + 1e-9), hc.Crowd(6))
    import test_conformance as conformance  # which builds every protocol

    conformance.test_law_sums_to_one_over_its_alphabet(protocol)
    conformance.test_sampler_follows_its_law_and_no_other(protocol)
    conformance.test_unbiased_value_is_unbiased(protocol)
    conformance.test_stated_error_is_that_of_all_outcomes(protocol)
    conformance.test_guarantee_is_that_of_every_view(protocol)
    conformance.test_curve_is_that_of_every_view(protocol)
    conformance.test_simulation_and_messages_have_the_law_of_the_tally(protocol)
    with pytest.raises(hc.Infeasible):
        names["FairCoin"](hc.Count(), hc.Budget(1), hc.Crowd(6))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
        assert (path.parent / target).exists(), target


def test_architecture_names_every_room_and_module() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    package = ROOT / "src" / "headcount"
    rooms = [folder.name for folder in package.iterdir() if (folder / "__init__.py").exists()]
    assert len(rooms) >= 7
    for room in rooms:
        assert f"`{room}`" in page
    for name in ("core", "accounting", "randomness"):
        for module in (package / name).glob("[a-z]*.py"):
            assert f"`{module.stem}`" in page, module.stem
