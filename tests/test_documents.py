"""Every example in the documents runs; every link leads somewhere."""

import posixpath
import re
import shlex
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import headcount as hc
from headcount.cli.app import app
from headcount.core.protocol import option_names
from headcount.protocols import registry
from headcount.protocols.outside import Outside

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from docs import generate, notebook_pages  # noqa: E402

DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
NOTEBOOKS = [notebook_pages.page_of(path) for path in notebook_pages.paths()]
SECTIONS = {"Notation", "Randomizer", "Analyzer", "Privacy", "Error", "Messages"}


def blocks(page: Path | str, language: str) -> list[str]:
    text = page.read_text() if isinstance(page, Path) else page
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def run_commands(lines: list[str], folder: Path) -> None:
    """Run the commands. Each must succeed without output on standard error."""
    for line in lines:
        runnable = line.replace("python3 ", f"{shlex.quote(sys.executable)} ", 1)
        runnable = re.sub("^headcount ", f"{shlex.quote(sys.executable)} -m headcount ", runnable)
        done = subprocess.run(
            runnable, shell=True, cwd=folder, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), line


def commands(page: Path | str) -> list[str]:
    """The commands of a page, without those that set up or test the project itself."""
    joined = (block.replace("\\\n", "") for block in blocks(page, "sh"))
    lines = (line for block in joined for line in block.splitlines())
    return [line for line in lines if not line.startswith(("make ", ".venv/"))]


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """The generated pages."""
    return generate.pages()


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_python_examples_run(
    path: Path,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They run in an empty folder, and the tables that they print have the rows of the page."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_outside", Outside(reserved=registry._CLASSES))
    names: dict[str, Any] = {"__name__": "example"}
    for block in blocks(path, "python"):
        exec(compile(block, path.name, "exec"), names)
    shown = capsys.readouterr()
    assert shown.err == ""
    stated = path.read_text().splitlines()
    for line in shown.out.splitlines():
        assert not line.startswith("| ") or line in stated


def test_first_commands_of_a_newcomer_run(tmp_path: Path) -> None:
    """The commands of the README about a first table. The slow tests run all commands."""
    run_commands(commands(ROOT / "README.md")[:3], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", [path for path in DOCUMENTS if commands(path)], ids=lambda path: path.name
)
def test_commands_run(path: Path, tmp_path: Path) -> None:
    run_commands(commands(path), tmp_path)


def test_pages_with_commands_are_found() -> None:
    found = {path.name for path in DOCUMENTS if commands(path)}
    assert found >= {"README.md", "index.md", "quickstart.md"}


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


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    listed = [*generate.pages_made(), *NOTEBOOKS, "guide/index.html"]
    made = {ROOT / "docs" / page for page in listed}
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
        place = path.parent / target
        assert place.exists() or place in made, target


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


@pytest.mark.parametrize("name", hc.protocol_names())
def test_protocol_has_a_page(name: str, pages: dict[str, str]) -> None:
    """A page has all sections of the docstring, all options with their meaning, and an example
    each.
    """
    page = pages[generate.page_of(name)]
    headings = re.findall(r"^#+ (.+)$", page, flags=re.MULTILINE)
    assert headings[0] == name
    kinds = registry._classes(name)
    found: Counter[str] = Counter()
    for module in {kind.__module__ for kind in kinds}:
        text = sys.modules[module].__doc__ or ""
        sections = re.findall(r"^([A-Z][a-z]+)  +\S", text, flags=re.MULTILINE)
        assert {*sections} >= SECTIONS, module
        found.update(sections)
    for section, often in found.items():
        assert headings.count(section) == often, section
    for kind in kinds:
        for task in kind.tasks:
            assert re.search(rf"\*\*Answers\*\* .*\b{task.name}\b", page)
        for option in option_names(kind):
            entry = re.search(rf"^`{option}` .*\n\n:   (.*)", page, flags=re.MULTILINE)
            assert entry, option
            assert len(entry[1]) > 5, option
    examples = blocks(page, "python")
    assert len(examples) == len({kind.__module__ for kind in kinds})
    for block in examples:
        assert f'"{name}"' in block
        exec(compile(block, name, "exec"), {"__name__": "example"})


def test_overview_has_every_protocol(pages: dict[str, str]) -> None:
    linked = re.findall(r"\[`(.+?)`\]", pages["protocols/index.md"])
    assert set(linked) == set(hc.protocol_names())


def test_generated_links_lead_somewhere(pages: dict[str, str]) -> None:
    figures = {generate.figure_path(*which) for which in generate.figures_of_pages()}
    shown = set()
    for page, text in pages.items():
        for target, anchor in re.findall(r"\]\(([^)#]+)#?([^)]*)\)", text):
            place = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
            assert place in pages or place in figures or (ROOT / "docs" / place).exists(), target
            assert not anchor or f"\n## {anchor}\n" in pages[place]
            shown.add(place)
    assert shown >= figures
    assert generate.figure(*generate.figures_of_pages()[0]).startswith(b"<svg")


def listed(entry: Any, pages: dict[str, str]) -> Iterator[str]:
    """The pages below an entry of the navigation. A folder's SUMMARY.md lists the folder."""
    if isinstance(entry, str):
        if entry.endswith("/"):
            for target in re.findall(r"\]\((.+?)\)", pages[f"{entry}SUMMARY.md"]):
                yield posixpath.normpath(f"{entry}{target}")
        else:
            yield entry
    else:
        for below in entry.values() if isinstance(entry, dict) else entry:
            yield from listed(below, pages)


def test_navigation_has_every_page_once(pages: dict[str, str]) -> None:
    settings = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]
    written = [path.name for path in ROOT.glob("docs/*.md")]
    made = [path for path in pages if not path.endswith("SUMMARY.md")]
    every = [*written, *NOTEBOOKS, *made, "guide/index.html"]
    assert sorted(listed(settings["nav"], pages)) == sorted(every)


def test_names_of_protocols_are_links_outside_of_code() -> None:
    text = "`local.k-ary`\n```sh\n`local.k-ary`\n```\n[`local.k-ary`](other.md)"
    link = "[`local.k-ary`](protocols/local/k-ary.md)"
    assert generate.linked(text, "theory.md") == text.replace("`local.k-ary`", link, 1)


def test_reference_has_every_command_and_option(pages: dict[str, str]) -> None:
    """The reference also has examples that the commands understand."""
    page = pages["commands.md"]

    def check(name: str, command: Any) -> None:
        part = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", page, flags=re.MULTILINE | re.DOTALL)
        assert part, name
        for parameter in command.params:
            for flag in parameter.opts:
                entry = re.search(rf"(?im)^`{flag}\b.*`.*\n\n:   (.*)", part[1])
                assert entry, (name, flag)
                assert len(entry[1]) > 5, (name, flag)
        below = getattr(command, "commands", {})
        examples = commands(part[1])
        assert below or examples, name
        for example in examples:
            assert example.startswith(f"{name} ")
            command.make_context(name, shlex.split(example.removeprefix(name)))
        for word, one in below.items():
            check(f"{name} {word}", one)

    check("headcount", get_command(app()))


@pytest.mark.slow
def test_examples_of_the_reference_run(pages: dict[str, str], tmp_path: Path) -> None:
    """They run with the files that other pages make. Services run until they are stopped, so
    `test_collection.py` tests them.
    """
    made = [line for path in DOCUMENTS for line in commands(path) if re.search(r" > \S+$", line)]
    services = tuple(f"headcount {one} " for one in ("shuffler", "analyzer", "survey", "console"))
    examples = [line for line in commands(pages["commands.md"]) if not line.startswith(services)]
    run_commands([*made, *examples], tmp_path)


def test_delta_is_explained_truly_everywhere() -> None:
    """δ is not the chance that the protection fails: an event of chance 2δ may exceed e^ε."""
    sources = [*ROOT.glob("src/**/*.py"), *(page for page in DOCUMENTS if page.stem != "auditing")]
    wrong = r"but\s+for\s+a\s+chance\s+of\s+δ|chance\s+(of|that)\s[^.]*(larger\s+loss|weaker|fails)"
    assert [path for path in sources if re.search(wrong, path.read_text())] == []
    true = (
        "Replacing one person's value by another multiplies the probability of any event by at "
        "most e^epsilon, and then adds at most delta."
    )
    whole: Any = get_command(app())
    for command in (*whole.commands.values(), *whole.commands["ledger"].commands.values()):
        helps = [option.help for option in command.params if option.name == "delta"]
        assert all(true in text for text in helps), command.name
    stated = "multiplies the probability of any event by at most e^ε, and then adds at most δ"
    respondents = "browser/pages/texts/en.ts"
    for page in ("README.md", "SECURITY.md", "docs/quickstart.md", respondents):
        assert stated in " ".join((ROOT / page).read_text().split()), page


def test_tables_fit_a_page() -> None:
    """A page of the site has room for nine columns with short cells."""
    for path in DOCUMENTS:
        for line in path.read_text().splitlines():
            if line.startswith("|") and set(line) <= set("|-: "):
                assert line.count("|") - 1 <= 9, f"{path.name}: {line}"


def test_powers_of_ten_are_written_as_people_write_them() -> None:
    assert [path.name for path in DOCUMENTS if re.search(r"\de-0\d", path.read_text())] == []
