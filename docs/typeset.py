"""Typesets the formulas of all pages of the built site. Readers get formulas as HTML and MathML.
The style sheet and the fonts are part of the site, and nothing is loaded from elsewhere. KaTeX,
which `make docs` installs, typesets the formulas. A formula that KaTeX does not understand stops
the build.
"""

import html
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from docs.formulas import Formula, Stacked, split  # noqa: E402

SITE = ROOT / "site"
KATEX = ROOT / "browser" / "node_modules" / "katex"
# Elements whose text is not prose.
VERBATIM = ("code", "pre", "script", "style", "svg", "h1", "h2", "h3", "h4", "h5", "h6", "button")
# Pages on which single capital letters are variables.
MATHEMATICAL = ("protocols/", "guarantees", "theory", "separations")
TAG = re.compile(r"(<!--.*?-->|<[^>]*>)", re.DOTALL)
ARTICLE = re.compile(r"(<article[^>]*>)(.*)(</article>)", re.DOTALL)
END = "\0"  # marks the end of a formula without line breaks, until its span is closed
SHORT = 16  # a formula of at most this many characters has no line breaks


def pieces(page: str, *, capitals: bool) -> Iterator[str | Formula]:
    """The HTML of a page, and its formulas."""
    verbatim, displayed, cell = 0, False, False
    for token in TAG.split(page):
        if token.startswith("<"):
            name = re.match(r"</?(\w*)", token.lower())
            closes = token.startswith("</")
            if name and name[1] in VERBATIM:
                verbatim += -1 if closes else 1
            if name and name[1] == "p":
                displayed = not closes and 'class="formula"' in token
            if name and name[1] == "td":
                cell = not closes
            yield token
        elif verbatim or not token.strip():
            yield token
        else:
            stacked: Stacked = "all" if displayed else "long" if cell else "none"
            yield from _of_text(token, capitals=capitals, stacked=stacked)


def _of_text(text: str, *, capitals: bool, stacked: Stacked) -> Iterator[str | Formula]:
    found = split(html.unescape(text), capitals=capitals, stacked=stacked)
    for piece in found:
        yield html.escape(piece, quote=False) if isinstance(piece, str) else piece


def rendered(found: list[str]) -> list[str]:
    """The HTML of formulas in TeX."""
    done = subprocess.run(
        ["node", str(Path(__file__).with_suffix(".mjs")), str(KATEX / "dist" / "katex.mjs")],
        input=json.dumps(found),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"KaTeX cannot typeset a formula: {done.stderr}")
    shown: list[str] = json.loads(done.stdout)
    return shown


def typeset(page: str, *, capitals: bool) -> str:
    """The HTML of a page, with its formulas typeset."""
    found = list(pieces(page, capitals=capitals))
    shown = iter(rendered([piece.tex for piece in found if isinstance(piece, Formula)]))
    text = "".join(piece if isinstance(piece, str) else _set(piece, next(shown)) for piece in found)
    # No line may begin with the punctuation after a formula.
    return re.sub(rf"{END}([,.;:)]*)", r"\1</span>", text)


def _set(formula: Formula, shown: str) -> str:
    """A formula in the text. If it is short, or cannot be broken, it has no line breaks."""
    whole = len(formula.text) <= SHORT or shown.count('base"') == 1
    return f'<span class="short">{shown}{END}' if whole else shown


# The site -----------------------------------------------------------------------------------------


def typeset_article(page: str, *, capitals: bool) -> str:
    """A page with the formulas of its article typeset. Navigation and search keep plain text."""
    article = ARTICLE.search(page)
    if not article:
        return page
    text = typeset(article[2], capitals=capitals)
    return page[: article.start(2)] + text + page[article.end(2) :]


def main() -> None:
    """Typeset all pages, and add the style sheet and the fonts of KaTeX to the site."""
    for path in sorted(SITE.rglob("*.html")):
        name = path.relative_to(SITE).as_posix()
        if name.startswith("guide/"):
            continue  # its formulas are typeset already
        capitals = name.startswith(MATHEMATICAL)
        path.write_text(typeset_article(path.read_text(), capitals=capitals))
    dist = KATEX / "dist"
    for source in [dist / "katex.min.css", *sorted(dist.glob("fonts/*.woff2"))]:
        target = SITE / "katex" / source.relative_to(dist)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


if __name__ == "__main__":
    main()
