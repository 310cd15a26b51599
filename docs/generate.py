"""Generates pages from the code: one for each protocol, and the reference of the commands.

`python docs/generate.py` writes all pages of the site, those that are generated and those that are
written by hand, to the folder from which Zensical builds the site (`docs_dir` in zensical.toml).
"""

import dataclasses
import inspect
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import headcount as hc
from headcount.core.protocol import Protocol, option_names
from headcount.core.tasks import registry as registry_of_tasks
from headcount.guide.files import guide_page
from headcount.protocols import registry

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from docs import notebook_pages, reference  # noqa: E402

FOLDER = ROOT / "build" / "pages"
WRITTEN = ("*.md", "*.json", "site.css", "figures/*")  # files of `docs` that the site has
COPIED = {"security.md": "SECURITY.md", "changelog.md": "CHANGELOG.md"}
TRUSTS = (hc.Trust.CENTRAL, hc.Trust.SHUFFLE, hc.Trust.LOCAL)
WIDTH, MARGIN = 100, 12  # the width of lines in docstrings, and the indent of their sections
BREAK = "\v"
MOST_LETTERS = 78  # the longest line of a command
CROWDS = (100, 300, 1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
PEOPLE = 10_000  # the crowd of the numbers on a page
BUDGET = hc.Budget(1, 1e-6)
SETTING = "ε = 1, δ = 1e-6, everybody honest"


@dataclasses.dataclass(frozen=True)
class Question:
    """The example and the figure for one kind of task."""

    code: str  # the task in the example
    values: str  # the values of 1,000 people in the example
    task: hc.Task  # the task of the figure and the numbers
    told: str  # a phrase that says which error the figure and the numbers show


QUESTIONS = {
    "count": Question(
        "hc.Count()", "[i % 4 == 0 for i in range(1000)]", hc.Count(), "of the count"
    ),
    "sum": Question(
        "hc.Sum(0, 120)",
        "[18 + i * 37 % 73 for i in range(1000)]",
        hc.Sum(0, 1),
        "of the sum of reals from 0 to 1",
    ),
    "mean": Question(
        "hc.Mean(0, 120)",
        "[18 + i * 37 % 73 for i in range(1000)]",
        hc.Mean(0, 1),
        "of the mean of reals from 0 to 1",
    ),
    "histogram": Question(
        'hc.Histogram(["red", "green", "blue"])',
        '["red green green blue".split()[i % 4] for i in range(1000)]',
        hc.Histogram(50),
        "of one of 50 buckets",
    ),
    "boxes": Question(
        'hc.Boxes(["bus", "train", "car"], at_most=2)',
        '[["bus", "car"] if i % 3 else ["train"] for i in range(1000)]',
        hc.Boxes([f"box {number}" for number in range(1, 11)], at_most=3),
        "of one of 10 boxes with at most 3 ticks",
    ),
    "table": Question(
        'hc.Table(["north", "south"], ["yes", "no"])',
        '[("north south".split()[i % 2], "yes no no".split()[i % 3]) for i in range(1000)]',
        hc.Table(5, 10),
        "of one of 50 cells",
    ),
    "margins": Question(
        'hc.Margins(["north", "south"], ["yes", "no"])',
        '[("north south".split()[i % 2], "yes no no".split()[i % 3]) for i in range(1000)]',
        hc.Margins(5, 10),
        "of the totals of a table with 5 rows and 10 columns",
    ),
    "density": Question(
        "hc.Density(0, 120, smoothness=1)",
        "[18 + i * 37 % 73 for i in range(1000)]",
        hc.Density(0, 1),
        "of the density from 0 to 1",
    ),
    "distribution": Question(
        "hc.Distribution(0, 120)",
        "[18 + i * 37 % 73 for i in range(1000)]",
        hc.Distribution(0, 1),
        "of the share of people below a number",
    ),
    "quantiles": Question(
        "hc.Quantiles(0, 120, at=(0.25, 0.5, 0.75))",
        "[18 + i * 37 % 73 for i in range(1000)]",
        hc.Quantiles(0, 1),
        "of the share of people below a number",
    ),
    "median": Question(
        "hc.Median(0, 120)",
        "[18 + i * 37 % 73 for i in range(1000)]",
        hc.Median(0, 1),
        "of the share of people below a number",
    ),
}
for name in {*registry_of_tasks.TASKS} - {*QUESTIONS}:
    # A task without settings, whose values are numbered, needs no example of its own.
    plain_task = registry_of_tasks.task_class(name)()
    QUESTIONS[name] = Question(
        f"hc.{type(plain_task).__name__}()",
        f"[i % {plain_task.domain} for i in range(1000)]",
        plain_task,
        f"of the {name}",
    )


# What the code says -------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Box:
    """A module's docstring: its first paragraph, and its sections as lines without indent."""

    title: str
    sections: dict[str, list[str]]

    @classmethod
    def of(cls, module: str) -> "Box":
        text = inspect.cleandoc(import_module(module).__doc__ or "")
        lead, _, rest = text.partition("\n\n")
        sections: dict[str, list[str]] = {}
        lines: list[str] = []
        margin = 0
        for line in rest.splitlines():
            if found := re.match(r"([A-Z][a-z]+)(\s{2,})(?=\S)", line):
                margin = found.end()
                lines = sections.setdefault(found[1], [])
            lines.append(line[margin:])
        return cls(" ".join(lead.split()), sections)


def parts(name: str) -> dict[str, list[type[Protocol]]]:
    """The classes that a name stands for, by their modules."""
    found: dict[str, list[type[Protocol]]] = {}
    for question in QUESTIONS.values():
        kind = registry.protocol_class(name, question.task)
        if kind.answers(question.task) and kind not in found.get(kind.__module__, []):
            found.setdefault(kind.__module__, []).append(kind)
    return found


def tasks(kinds: list[type[Protocol]]) -> list[str]:
    named = {task.name for kind in kinds for task in kind.tasks}
    return [name for name in QUESTIONS if name in named]


@cache
def shared_modules() -> dict[str, Box]:
    """The docstrings of modules that several protocols share, by the name of the module."""
    folder = Path(import_module("headcount.protocols").__path__[0])
    boxes = {path.stem: Box.of(f"headcount.protocols.{path.stem}") for path in folder.glob("*.py")}
    return {stem: boxes[stem] for stem in sorted(boxes) if boxes[stem].sections}


@cache
def module_pages() -> dict[str, str]:
    """The page of each protocol's module, by `trust.module`."""
    return {
        module.removeprefix("headcount.protocols."): page_of(name)
        for name in reversed(registry.own_names())
        for module in parts(name)
    }


def page_of(name: str) -> str:
    return f"protocols/{name.replace('.', '/')}.md"


def meaning(kind: type[Protocol], option: str) -> str:
    """The description of an option: beside the field, above it, or in the docstring of the
    class.
    """
    owner = next(base for base in kind.__mro__ if option in inspect.get_annotations(base))
    lines = inspect.getsource(owner).splitlines()
    at = next(i for i, line in enumerate(lines) if re.match(rf"    {option}: ", line))
    if beside := re.search(r"  # (.+)", lines[at]):
        return beside[1]
    above: list[str] = []
    while lines[at - 1 - len(above)].startswith("    # "):
        above.insert(0, lines[at - 1 - len(above)].removeprefix("    # "))
    if above:
        return " ".join(above)
    paragraphs = inspect.cleandoc(owner.__doc__ or "").split("\n\n")
    return " ".join(next((text for text in paragraphs if f"`{option}" in text), "").split())


# From docstrings to Markdown ----------------------------------------------------------------------


def prose(lines: list[str], page: str, trust: str = "") -> str:
    """A section as Markdown. Indented lines are formulas; short lines keep their line breaks."""
    text = ""
    for paragraph in re.split(r"\n\s*\n", "\n".join(lines).strip("\n")):
        rows = paragraph.splitlines()
        if not rows:
            continue
        if all(row.startswith("    ") for row in rows):
            shown = "<br>\n".join(plain(row.strip()) for row in rows)
            text += f'<p class="formula">{shown}</p>\n\n'
            continue
        flowing = ""
        for row, following in zip(rows, [*rows[1:], ""], strict=True):
            word = following.split(" ")[0]
            early = word and len(row) + 1 + len(word) < WIDTH - MARGIN - 1
            early = early and row.endswith((".", ":", ";", ",", " is"))
            flowing += row + (f"{BREAK}\n" if early else "\n")
        pieces = re.split(r"(`[^`]+`)", flowing if text else sentence(flowing))
        text += "".join(
            link(piece.strip("`"), page, trust) if piece.startswith("`") else plain(piece)
            for piece in pieces
        ).replace(BREAK, "<br>")
        text += "\n"
    return text


def sentence(text: str) -> str:
    """The text with a capital letter, unless it begins with a symbol."""
    return text[0].upper() + text[1:] if re.match(r"[a-z]{2}", text) else text


def plain(text: str) -> str:
    """The text, escaped so that nothing is taken for Markdown. Its formulas are typeset later."""
    text = text.replace("&", "&amp;").replace("<", "&lt;")
    # A pair of stars encloses a word. A single star is a symbol.
    return text.replace("*", r"\*") if text.count("*") % 2 else text


def link(name: str, page: str, trust: str = "") -> str:
    """A name in the code, with a link to its page if it has one."""
    up = "../" * page.count("/")
    shared = name.removeprefix("protocols.")
    if name in registry.own_names():
        target = page_of(name)
    elif shared in shared_modules():
        target = f"protocols/shared.md#{shared}"
    else:
        target = module_pages().get(f"{trust}.{name}", page)
    return f"`{name}`" if target == page else f"[`{name}`]({up}{target})"


def names(text: str, page: str) -> str:
    """Plain text in which protocols are links."""
    found = "|".join(
        re.escape(name) for name in sorted(registry.own_names(), key=len, reverse=True)
    )
    return re.sub(rf"(?<![\w.-])({found})(?![\w-])", lambda one: link(one[1], page), text)


# Pages --------------------------------------------------------------------------------------------


def pages() -> dict[str, str]:
    """All generated pages, as Markdown, by their paths in the site."""
    return {path: make() for path, make in pages_made().items()}


def pages_made() -> dict[str, Callable[[], str]]:
    return {
        "protocols/index.md": overview,
        "protocols/SUMMARY.md": navigation,
        **{page_of(name): partial(protocol_page, name) for name in registry.own_names()},
        "protocols/shared.md": shared_page,
        "commands.md": command_page,
        **reference.pages_made(),
        **{page: (ROOT / source).read_text for page, source in COPIED.items()},
    }


def overview() -> str:
    page = "protocols/index.md"
    text = "# Protocols\n\nEvery protocol has a page. It describes the messages that people send, "
    text += "how the analyzer uses them, the guarantee and the cost. [Shared parts](shared.md) "
    text += "describes the parts that several protocols have in common. "
    text += "[Accuracy](../accuracy.md) compares the errors of all protocols.\n\n"
    text += f"| | {' | '.join(TRUSTS)} |\n|---|---|---|---|\n"
    for task, question in QUESTIONS.items():
        cells = (
            "<br>".join(link(name, page) for name in registry.own_names(question.task, trust))
            for trust in TRUSTS
        )
        text += f"| **{task}** | {' | '.join(cells)} |\n"
    for trust in TRUSTS:
        doc = import_module(f"headcount.protocols.{trust}").__doc__ or ""
        text += f"\n## {trust.capitalize()}\n\n{doc.partition(': ')[2].capitalize()}\n\n"
        text += "| protocol | answers | what it is |\n|---|---|---|\n"
        for name in registry.own_names(trust=trust):
            found = parts(name)
            answered = ", ".join(tasks([kind for kinds in found.values() for kind in kinds]))
            title = plain(Box.of(next(iter(found))).title)
            text += f"| {link(name, page)} | {answered} | {title} |\n"
    return text


def protocol_page(name: str) -> str:
    found = parts(name)
    several = len(found) > 1
    trust = str(registry.protocol_class(name).trust)
    text = f"# {name}\n\n"
    for module, kinds in found.items():
        box, answered = Box.of(module), tasks(kinds)
        level = "###" if several else "##"
        if several:
            text += f"## {', '.join(answered).capitalize()}\n\n"
        text += f"{plain(box.title)}\n\n"
        text += f"**Answers** {', '.join(answered)} · **trust** {trust} · "
        text += f"**source** `{module.replace('.', '/')}.py`\n\n"
        text += f"{level} Example\n\n```python\n{example(name, kinds[0])}```\n\n"
        for title, lines in box.sections.items():
            text += f"{level} {title}\n\n{prose(lines, page_of(name), trust)}"
        text += f"{level} Options\n\n{options(kinds, page_of(name))}"
        question = QUESTIONS[answered[0]]
        text += f"{level} In numbers\n\n{numbers(name, answered[0])}"
        figure = f"{'../' * page_of(name).count('/')}{figure_path(name, answered[0])}"
        text += f"![Standard error {question.told} against the size of the crowd]({figure})\n\n"
    return text


def example(name: str, kind: type[Protocol]) -> str:
    question = QUESTIONS[kind.tasks[0].name]
    budget = "hc.Budget(1, 1e-6)" if kind.trust is hc.Trust.SHUFFLE else "hc.Budget(1)"
    code, values = question.code, question.values
    if kind.open_buckets:  # people may hold words that are not counted
        code = 'hc.Histogram(["red", "green"], open=True)'
    return (
        f"import headcount as hc\n\ntask = {code}\nbudget, crowd = {budget}, hc.Crowd(1000)\n"
        f'p = hc.protocol("{name}", task, budget, crowd)\n'
        f"e = hc.run(p, {values})\n"
        "print(e.value, e.interval(0.95), e.guarantee)\n"
    )


def options(kinds: list[type[Protocol]], page: str) -> str:
    text = ""
    listed = {option: kind for kind in reversed(kinds) for option in option_names(kind)}
    fields = {field.name: field for kind in kinds for field in dataclasses.fields(kind)}
    for option, kind in listed.items():
        field = fields[option]
        words = [repr(word) for word in get_args(field.type) if isinstance(word, str)]
        shape = (
            f"one of {', '.join(words)}"
            if words
            else str(getattr(field.type, "__name__", field.type))
        )
        default = "" if field.default is None else f"; default {field.default!r}"
        text += f"`{option}` <small>{shape.replace(' | None', '')}{default}</small>\n\n"
        text += f":   {prose([meaning(kind, option)], page).strip().removesuffix('.')}.\n\n"
    return text


def numbers(name: str, task: str) -> str:
    question = QUESTIONS[task]
    try:
        p = hc.protocol(name, question.task, BUDGET, hc.Crowd(PEOPLE))
    except hc.Infeasible as error:
        return f"{error}\n\n"
    rows = {
        f"standard error {question.told}, for the worst data": f"{p.standard_error():.4g}",
        "messages per person, on average": f"{p.messages_per_user:.4g}",
        "bits per message": f"{p.alphabet.bits}",
        "guarantee": str(p.guarantee),
    }
    if p.trust is hc.Trust.SHUFFLE:
        left = p.local_epsilon
        rows["privacy left if the shuffler and the analyzer collude"] = (
            f"ε = {left:.3g}" if left < float("inf") else "none"
        )
    listed = "".join(f"| {row} | {value} |\n" for row, value in rows.items())
    return f"| {PEOPLE:,} people, {SETTING} | |\n|---|---|\n{listed}\n"


def shared_page() -> str:
    page = "protocols/shared.md"
    text = "# Shared parts\n\nSeveral protocols use these parts. The pages of these protocols link "
    text += "to this page.\n\n"
    for stem, box in shared_modules().items():
        text += f"## {stem}\n\n{plain(box.title)}\n\n"
        for title, lines in box.sections.items():
            text += f"**{title}**\n\n{prose(lines, page)}"
    return text


# The commands -------------------------------------------------------------------------------------


def commands() -> Iterator[tuple[str, Any]]:
    """Every command with its full name: `headcount` and all of its subcommands."""
    from typer.main import get_command

    from headcount.cli.app import app

    def walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
        yield name, command
        for word, below in getattr(command, "commands", {}).items():
            if not below.hidden:
                yield from walk(f"{name} {word}", below)

    yield from walk("headcount", get_command(app()))


def command_page() -> str:
    page = "commands.md"
    text = "# Commands\n\nThis page shows the help of all commands, as `--help` prints it.\n\n"
    for name, command in commands():
        context = command.make_context(name, [], resilient_parsing=True)
        usage = " ".join(command.collect_usage_pieces(context))
        text += f"## {name}\n\n{inspect.cleandoc(command.help or '')}\n\n"
        text += f"```text\n{name} {usage}\n```\n\n"
        epilog = command.epilog or ""
        examples = re.findall(r"^(?:.*: )?(headcount .+)$", epilog, flags=re.MULTILINE)
        notes = re.sub(r"^(?:.*: )?headcount .+$", "", epilog, flags=re.MULTILINE).strip()
        text += f"{notes}\n\n" if notes else ""
        text += "\n".join(["```sh", *map(folded, examples), "```\n\n"]) if examples else ""
        for parameter in command.params:
            if not getattr(parameter, "hidden", False):
                text += parameter_entry(parameter, context, page)
    return text


def folded(command: str) -> str:
    """The command in lines that fit on the page."""
    rows = [""]
    for piece in re.split(r" (?=--)", command):
        if len(rows[-1]) + len(piece) < MOST_LETTERS:
            rows[-1] = f"{rows[-1]} {piece}".lstrip()
        else:
            rows.append(piece)
    return " \\\n  ".join(rows)


def parameter_entry(parameter: Any, context: Any, page: str) -> str:
    record = parameter.get_help_record(context)
    called = record[0] if record else parameter.name
    help_text = parameter.help or ""
    stated = re.search(r"\s*\[default: (.+?)\]", help_text)
    if stated:
        help_text, note = help_text.replace(stated[0], ""), f"default: {stated[1]}"
    elif parameter.required:
        note = "required"
    else:
        default = parameter.default
        note = "" if default is None or default is False else f"default: {default}"
    shown = f" <small>{note.replace('<', '&lt;')}</small>" if note else ""
    body = re.sub(r"(?<![\w-])(--[a-z-]+)", r"`\1`", help_text.replace("<", "&lt;"))
    return f"`{called}`{shown}\n\n:   {names(body, page)}\n\n"


# Figures ------------------------------------------------------------------------------------------


def figure_path(name: str, task: str) -> str:
    return f"protocols/figures/{name}-{task}.svg"


def figures_of_pages() -> list[tuple[str, str]]:
    """The protocol and the task of every figure."""
    return [
        (name, tasks(kinds)[0]) for name in registry.own_names() for kinds in parts(name).values()
    ]


@cache
def figure(name: str, task: str) -> bytes:
    """The error against the size of the crowd, with the best protocol of each other trust model."""
    from headcount.plot import figures

    own = registry.protocol_class(name).trust
    lines = {name: [(n, error) for n in CROWDS if (error := _error(name, task, n)) is not None]}
    for trust in TRUSTS:
        if trust is not own and hc.protocol_names(QUESTIONS[task].task, trust):
            best = {n: found for n in CROWDS if (found := _best(trust, task, n)) is not None}
            called = {found[0] for found in best.values()}
            label = f"{called.pop()}, best {trust}" if len(called) == 1 else f"best {trust}"
            lines[label] = [(n, error) for n, (_, error) in best.items()]
    shown = figures.comparison_figure(
        f"Standard error {QUESTIONS[task].told}",
        x_title="people in the crowd",
        y_title="standard error, worst data",
        lines=lines,
        measured={},
        bounds={},
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figure.svg"
        figures.save(shown, path)
        return path.read_bytes()


def _error(name: str, task: str, users: int) -> float | None:
    try:
        return hc.protocol(name, QUESTIONS[task].task, BUDGET, hc.Crowd(users)).standard_error()
    except hc.Infeasible:
        return None


@cache
def _best(trust: hc.Trust, task: str, users: int) -> tuple[str, float] | None:
    try:
        found = hc.best_protocol(QUESTIONS[task].task, BUDGET, hc.Crowd(users), trust)
    except hc.Infeasible:
        return None
    return found.name, found.standard_error()


# The site -----------------------------------------------------------------------------------------


def navigation() -> str:
    """The protocols in the navigation, below their overview."""
    text = "- [Overview](index.md)\n"
    for trust in TRUSTS:
        text += f"- {trust.capitalize()}\n"
        for name in registry.own_names(trust=trust):
            text += f"    - [{name}]({page_of(name).removeprefix('protocols/')})\n"
    return f"{text}- [Shared parts](shared.md)\n"


def linked(markdown: str, page: str) -> str:
    """A page in which names of protocols are links, even if the page is written by hand."""
    known = "|".join(map(re.escape, registry.own_names()))
    pieces = re.split(r"(```.*?```)", markdown, flags=re.DOTALL)
    return "".join(
        piece
        if piece.startswith("```")
        else re.sub(rf"(?<!\[)`({known})`(?!\])", lambda name: link(name[1], page), piece)
        for piece in pieces
    )


def files() -> Iterator[tuple[str, bytes]]:
    """All files from which the site is built, by their paths."""
    docs = ROOT / "docs"
    written = [path for pattern in WRITTEN for path in sorted(docs.glob(pattern))]
    made: dict[str, str | bytes] = {
        **{path.relative_to(docs).as_posix(): path.read_bytes() for path in written},
        **pages(),
        **{figure_path(*which): figure(*which) for which in figures_of_pages()},
        **{f"guide/{file.name}": file.read_bytes() for file in guide_page().parent.iterdir()},
    }
    for notebook in notebook_pages.paths():
        made |= notebook_pages.files_of(notebook)
    for path, content in made.items():
        whole = content if isinstance(content, bytes) else content.encode()
        yield path, linked(whole.decode(), path).encode() if path.endswith(".md") else whole


def main() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    for path, content in files():
        (FOLDER / path).parent.mkdir(parents=True, exist_ok=True)
        (FOLDER / path).write_bytes(content)


if __name__ == "__main__":
    main()
