"""Runs the notebooks in `docs/notebooks`, and makes a page of the site from each of them.

A notebook is committed without outputs. `outputs` runs its cells in order, in a process of its own
in an empty folder. An error or a warning in any cell stops the run. Like Jupyter, a cell shows what
it prints, and then the value of its last line.
"""

import ast
import contextlib
import io
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

FOLDER = Path(__file__).parent / "notebooks"


@dataclass(frozen=True)
class Cell:
    """A cell of a notebook: Markdown or Python."""

    kind: Literal["markdown", "code"]
    source: str


@dataclass(frozen=True)
class Output:
    """What a cell shows. A figure has its title, and its content is SVG."""

    kind: Literal["text", "html", "figure"]
    content: str
    title: str = ""


def paths() -> list[Path]:
    """All notebooks."""
    return sorted(FOLDER.glob("*.ipynb"))


def cells(path: Path) -> list[Cell]:
    notebook = json.loads(path.read_text())
    return [Cell(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]


# Running ------------------------------------------------------------------------------------------


def outputs(path: Path) -> list[list[Output]]:
    """What each cell of Python shows."""
    program = [sys.executable, "-P", "-W", "error", str(Path(__file__).resolve())]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [*program, str(path.resolve())],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode or done.stderr or not done.stdout:
        raise RuntimeError(f"{path.name} cannot be run:\n{done.stderr}")
    return [[Output(**shown) for shown in cell] for cell in json.loads(done.stdout)]


def _run(path: Path) -> list[list[Output]]:
    names: dict[str, Any] = {"__name__": "__main__"}
    code = [cell.source for cell in cells(path) if cell.kind == "code"]
    return [list(_shown(source, f"cell {at}", names)) for at, source in enumerate(code, start=1)]


def _shown(source: str, name: str, names: dict[str, Any]) -> Iterator[Output]:
    """Run a cell. Yield what it prints, and the value of its last line."""
    lines = ast.parse(source, name).body
    value = None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        last = lines.pop() if lines and isinstance(lines[-1], ast.Expr) else None
        exec(compile(ast.Module(lines, type_ignores=[]), name, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), name, "eval"), names)
    if text := printed.getvalue():
        yield Output("text", text)
    if value is not None:
        yield _form(value)


def _form(value: Any) -> Output:
    import altair

    from headcount.plot import figures

    if isinstance(value, altair.LayerChart | altair.HConcatChart):
        path = Path("figure.svg")
        figures.save(value, path)
        title = value.to_dict()["title"]["text"]
        return Output("figure", path.read_text(), " ".join(title))
    if hasattr(value, "_repr_html_"):
        return Output("html", value._repr_html_())
    return Output("text", repr(value))


# Pages --------------------------------------------------------------------------------------------


def page_of(path: Path) -> str:
    return f"notebooks/{path.stem}.md"


def files_of(path: Path) -> dict[str, str]:
    """The page of a notebook, its figures and the notebook itself, by their paths in the site."""
    made = {f"notebooks/{path.name}": path.read_text()}
    shown = iter(outputs(path))
    text = ""
    for cell in cells(path):
        if cell.kind == "markdown":
            text += f"{cell.source}\n\n"
            continue
        text += f"```python\n{cell.source}\n```\n\n"
        for output in next(shown):
            if output.kind == "figure":
                figure = f"figures/{path.stem}-{len(made)}.svg"
                made[f"notebooks/{figure}"] = output.content
                text += f"![{output.title}]({figure})\n\n"
            elif output.kind == "html":
                text += f'<div class="output">{output.content}</div>\n\n'
            else:
                text += f"```text\n{output.content.rstrip()}\n```\n\n"
    text += f"[Download this notebook]({path.name})\n"
    return {**made, page_of(path): text}


if __name__ == "__main__":
    json.dump([[vars(shown) for shown in cell] for cell in _run(Path(sys.argv[1]))], sys.stdout)
