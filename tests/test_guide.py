"""The guide for new protocols, followed word for word: its skeleton passes all tests."""

import inspect
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import guide
from headcount.core.estimator import Estimator
from headcount.core.protocol import Protocol
from headcount.core.randomizer import Randomizer

ROOT = guide.ROOT
PROGRAMS = Path(sys.executable).parent


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of the project, in which somebody has followed the page."""
    copy = tmp_path_factory.mktemp("project")
    for folder in ("src", "tests", "docs"):
        unwanted = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(ROOT / folder, copy / folder, ignore=unwanted)
    for file in [ROOT / "pyproject.toml", *ROOT.glob("*.md")]:
        shutil.copy(file, copy)
    guide.follow(copy)
    yield copy
    shutil.rmtree(copy)


def run(command: str, project: Path) -> str:
    """The output of a command that must succeed."""
    done = subprocess.run(
        command.replace(".venv/bin", str(PROGRAMS)),
        shell=True,
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-5000:]}{done.stderr[-2000:]}"
    return done.stdout


def passed(output: str) -> int:
    (number,) = re.findall(r"(\d+) passed", output)
    assert not re.search(r"\d+ (skipped|failed|errors?)\b", output)
    return int(number)


def test_the_page_says_what_to_do() -> None:
    assert guide.place() == "src/headcount/protocols/local/fair_coin.py"
    files = ["src/headcount/protocols/registry.py", "tests/conformance.py"]
    assert [file for _, file, _ in guide.additions()] == files
    quick, whole = guide.commands()
    assert quick == f'{whole} -m "not slow"'


def test_the_skeleton_passes_the_quick_suite(project: Path) -> None:
    assert passed(run(guide.commands()[0], project)) >= 70


@pytest.mark.slow
def test_the_skeleton_passes_the_whole_suite(project: Path) -> None:
    assert passed(run(guide.commands()[1], project)) >= 400


def test_the_skeleton_keeps_the_style(project: Path) -> None:
    run(f".venv/bin/ruff check {guide.place()}", project)
    run(f".venv/bin/ruff format --check {guide.place()}", project)


@pytest.mark.slow
def test_the_skeleton_keeps_types_and_imports(project: Path) -> None:
    run(f".venv/bin/mypy {guide.place()}", project)
    run(".venv/bin/lint-imports", project)


@pytest.mark.slow
def test_the_skeleton_has_a_page_and_is_audited(project: Path) -> None:
    """Other tests that try every protocol pass, too."""
    files = "tests/test_documents.py tests/test_registry_audit.py tests/test_planner.py"
    assert passed(run(f".venv/bin/python -m pytest {files} -k {guide.NAME}", project)) >= 4


@pytest.mark.slow
def test_the_task_of_the_page_needs_one_file_and_one_line(project: Path) -> None:
    folder = project / "src" / "headcount" / "core" / "tasks"
    (folder / "share.py").write_text(guide.task())
    run(".venv/bin/ruff check src/headcount/core/tasks/share.py", project)
    run(".venv/bin/ruff format --check src/headcount/core/tasks/share.py", project)
    registry = folder / "registry.py"
    line = 'TASKS = {\n    "share": "headcount.core.tasks.share:Share",'
    known = registry.read_text()
    registry.write_text(known.replace("TASKS = {", line))
    try:
        program = "import headcount as hc; print(hc.Share().answer(hc.Share().holding([3, 1])))"
        assert run(f'.venv/bin/python -c "{program}"', project) == "0.25\n"
        assert passed(run(".venv/bin/python -m pytest tests/test_tasks.py", project)) > 25
        help_text = run(".venv/bin/python -m headcount plan --help", project)
        assert "share" in help_text
    finally:
        registry.write_text(known)


def test_rules_are_given_for_every_method() -> None:
    """Everything that a randomizer, an estimator or a protocol may state is in a table."""
    rules = {
        name
        for row in re.findall(r"^\| (`.+?) \| .+ \| .+ \|$", guide.PAGE, flags=re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    }
    stated = inspect.getsource(Protocol).split("# Methods that follow from them")[0]
    methods = {name for kind in (Randomizer, Estimator) for name in vars(kind)}
    methods |= set(re.findall(r"def (\w+)", stated))
    assert {name for name in methods if not name.startswith("_")} <= rules


def test_what_the_page_names_is_there() -> None:
    """Files and tests that the page names exist."""
    for path in re.findall(r"`((?:src|tests)/[\w/]+\.py)`", guide.PAGE):
        assert (ROOT / path).exists() or path == guide.place(), path
    for path in re.findall(r"`((?:core|accounting|protocols|randomness)/\w+\.py)`", guide.PAGE):
        assert (ROOT / "src" / "headcount" / path).exists(), path
    for path in re.findall(r"`((?:local|shuffle|central)/\w+\.py)`", guide.PAGE):
        assert (ROOT / "src" / "headcount" / "protocols" / path).exists(), path
    suite = "".join(path.read_text() for path in ROOT.glob("tests/test_conformance_*.py"))
    tables = guide.PAGE.split("## What each method must do")[1].split("## What you can reuse")[0]
    for row in re.findall(r"^\| .+ \| .+ \| (.+) \|$", tables, flags=re.MULTILINE):
        for test in re.findall(r"`(\w+)`", row):
            assert f"def test_{test}" in suite, test


def test_helpers_are_where_the_page_says() -> None:
    package = ROOT / "src" / "headcount"
    listed = guide.PAGE.split("## What you can reuse")[1].split("## Checklist")[0]
    rows = re.findall(r"^\| (`\S+\.py`.*?) \| (.+) \|$", listed, flags=re.MULTILINE)
    assert len(rows) >= 10
    for files, helpers in rows:
        text = "".join((package / file).read_text() for file in re.findall(r"`(.+?)`", files))
        for helper in re.findall(r"`([\w.]+)`", helpers):
            assert re.search(rf"\b{helper.split('.')[-1]}\b", text), helper
    laws = re.findall(r"^\| `([\w.]+)\.(\w+)` \|", listed, flags=re.MULTILINE)
    assert len(laws) >= 5
    for module, law in laws:
        found = getattr(import_module(f"headcount.{module}"), law)
        assert hasattr(found, "margins")
