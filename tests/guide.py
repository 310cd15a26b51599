"""The instructions of `docs/adding-a-protocol.md`, taken from the page word for word."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "adding-a-protocol.md").read_text()
NAME = "local.fair-coin"


def skeleton() -> str:
    return _program(PAGE.split("## A new task")[0])


def task() -> str:
    """The file of the new task."""
    return _program(PAGE.split("## A new task")[1])


def _program(text: str) -> str:
    (block,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    return str(block)


def place() -> str:
    """The file that the skeleton is saved as."""
    (found,) = re.findall(r"^\*\*1\.\*\* Save the skeleton below as `(.+?)`", PAGE, re.MULTILINE)
    return str(found)


def additions() -> list[tuple[str, str, str]]:
    """The lines that are added to tables in the code: the table, its file, and the line."""
    added = r"Add one line to `(\w+)` in\s`(\S+?)`:\n\n```text\n(.*?)```"
    return re.findall(added, PAGE, flags=re.DOTALL)


def commands() -> list[str]:
    (block,) = re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL)
    return str(block).splitlines()


def mistakes() -> dict[str, str]:
    """The mistakes of the last table, and the tests that find them."""
    rows = PAGE.split("## Mistakes that others made")[1]
    return dict(re.findall(r"^\| (.+?) \| `(\w+)` \|$", rows, flags=re.MULTILINE))


def follow(root: Path) -> None:
    """Do what the page says in a copy of the project."""
    (root / place()).write_text(skeleton())
    for table, file, line in additions():
        text = (root / file).read_text()
        opened = re.search(rf"^{table}\b.*{{\n", text, flags=re.MULTILINE)
        assert opened, table
        (root / file).write_text(text[: opened.end()] + line + text[opened.end() :])
