"""An HTML page that needs no other files. It suits phones, dark mode and paper."""

from html import escape
from io import StringIO

from headcount.plot.style import GRAY, GRID, INK, Figure

STYLE = f"""
:root {{ color-scheme: light dark; --ink: {INK}; --soft: #5c5c5c; --line: {GRID};
  --card: #f5f7f9; --page: #ffffff; --accent: #0072b2; --mark: #d55e00; --alarm: #7a1c12;
  --alarm-card: #fdecea; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --ink: #e8e8e8; --soft: #a8a8a8; --line: #3a3d41; --card: #22262b; --page: #16181b;
    --accent: #56b4e9; --mark: #f0955a; --alarm: #f5b5ab; --alarm-card: #3d221e; }}
}}
* {{ box-sizing: border-box; }}
body {{ font-family: 'Liberation Sans', Arial, Helvetica, sans-serif; color: var(--ink);
  background: var(--page); max-width: 66em; margin: 2em auto; padding: 0 1em;
  line-height: 1.5; overflow-wrap: break-word; }}
h1 {{ font-size: 1.7em; line-height: 1.2; margin-bottom: 0.3em; }}
h2 {{ font-size: 1.2em; margin: 2.2em 0 0.5em; }}
h3 {{ font-size: 1em; margin: 0 0 0.6em; }}
h3 small {{ display: block; font-weight: normal; font-size: 0.9em; color: var(--soft); }}
div:has(> table), .scroll {{ overflow-x: auto; }}
table {{ border-collapse: collapse; }}
tr {{ border-bottom: 1px solid var(--line); }}
th, td {{ vertical-align: top; }}
figure {{ margin: 2em 0; }}
figcaption, .soft, footer {{ color: var(--soft); }}
p, li {{ text-wrap: pretty; }}
figure > svg {{ max-width: 100%; height: auto; border-radius: 6px; overflow: visible; }}
footer {{ margin: 3em 0 1em; font-size: 0.85em; }}
.lead {{ font-size: 1.1em; }}
.cards {{ display: flex; flex-wrap: wrap; gap: 0.8em; margin: 1.5em 0; padding: 0; }}
.cards > div {{ flex: 1 1 9em; background: var(--card); border-radius: 8px; padding: 0.8em 1em; }}
.cards strong {{ display: block; font-size: 1.5em; line-height: 1.2; }}
.wide {{ width: 100%; margin-bottom: 1em; }}
.wide th, .wide td {{ text-align: left; padding: 0.5em 1em 0.5em 0; }}
.wide .number {{ text-align: right; padding: 0.5em 0 0.5em 1.2em; width: 8.5em; }}
.card {{ background: var(--card); border-radius: 8px; padding: 1em 1.2em; margin: 1em 0;
  break-inside: avoid; }}
.card p {{ margin: 0 0 0.7em; }}
.card p:last-child, .card .wide {{ margin-bottom: 0; }}
.bars {{ width: 100%; table-layout: fixed; }}
.bars tr {{ border: 0; }}
.bars td {{ padding: 0.15em 0.8em 0.15em 0; vertical-align: middle; }}
.bars td:first-child {{ width: 25%; }}
.bars td:last-child {{ width: 15em; padding-right: 0; text-align: right; text-wrap: balance; }}
.bars svg {{ display: block; width: 100%; height: 1.1em; }}
.track {{ fill: var(--line); }} .fill {{ fill: var(--accent); }} .reach {{ stroke: var(--ink); }}
rect.fill {{ opacity: 0.6; }}
.crowds {{ display: flex; flex-wrap: wrap; gap: 2em; margin: 1em 0; }}
.crowds > div {{ flex: 1 1 13em; max-width: 22em; }}
.crowds svg {{ display: block; width: 16em; height: 4em; }}
.crowds p {{ margin: 0.5em 0 0; }}
.right {{ fill: var(--mark); }} .wrong {{ fill: var(--line); }}
.warning {{ background: var(--alarm-card); color: var(--alarm); border-radius: 8px;
  padding: 0.8em 1em; }}
@media (max-width: 32em) {{
  .bars tr {{ display: flex; flex-wrap: wrap; padding: 0.25em 0; }}
  .bars td:first-child {{ order: 1; width: 100%; padding-right: 0; }}
  .bars td:last-child {{ order: 2; width: 100%; text-align: left; }}
  .bars td:nth-child(2) {{ order: 3; width: 100%; padding-right: 0; }}
  .stack thead {{ display: none; }} .stack tr {{ display: block; padding: 0.5em 0; }}
  .stack td, .wide.stack .number {{ display: block; width: auto; text-align: left;
    padding: 0.1em 0; }}
  .stack td[data-name]::before {{ content: attr(data-name) ": "; color: var(--soft); }}
}}
@media print {{
  :root {{ --ink: {INK}; --soft: {GRAY}; --line: #d9d9d9; --card: #f5f7f9; --page: #ffffff;
    --accent: #0072b2; --mark: #d55e00; --alarm: #7a1c12; --alarm-card: #fdecea; }}
  body {{ margin: 0; max-width: none; font-size: 10pt; }}
  h2 {{ break-after: avoid; }}
  footer {{ margin: 1em 0 0; break-before: avoid; }}
  tr, .crowds, .cards {{ break-inside: avoid; }}
}}
@page {{ size: A4; margin: 18mm;
  @bottom-right {{ content: counter(page) " / " counter(pages); font: 8pt sans-serif;
    color: {GRAY}; }} }}
"""


def page(title: str, body: str) -> str:
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<h1>{escape(title)}</h1>
{body}
</body>
</html>
"""


def drawing(figure: Figure, caption: str = "") -> str:
    """A figure as HTML, to be put into a page."""
    out = StringIO()
    figure.save(out, format="svg")
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f"<figure>\n{out.getvalue()}\n{below}</figure>"


def paragraphs(*texts: str) -> str:
    """Texts as paragraphs. Empty texts are left out."""
    return "\n".join(f"<p>{escape(text)}</p>" for text in texts if text)


def bars(rows: list[tuple[str, float, float, float, str]], *, points: bool = False) -> str:
    """Bars with their intervals, one below the other. If `points` is true, points are drawn instead
    of bars. Each row has a label, an estimate, the two ends of its interval, and a text. The
    estimate and the ends are shares of the width. A negative estimate stands for a missing one, and
    is not drawn.
    """
    lines = []
    for label, value, low, high, text in rows:
        drawn = [
            f'<rect class="track" y="{"46%" if points else "28%"}" width="100%" '
            f'height="{"8%" if points else "44%"}" fill="#e6e6e6" rx="2"/>'
        ]
        if value >= 0 and not points:
            drawn.append(
                f'<rect class="fill" y="28%" width="{100 * value:.2f}%" height="44%" '
                'fill="#0072b2" rx="2"/>'
            )
        drawn += [
            f'<line class="reach" x1="{100 * a:.2f}%" x2="{100 * b:.2f}%" y1="{top}" y2="{bottom}" '
            'stroke="#222222" stroke-width="2"/>'
            for a, b, top, bottom in (
                (low, high, "50%", "50%"),
                (low, low, "20%", "80%"),
                (high, high, "20%", "80%"),
            )
        ]
        if value >= 0 and points:
            drawn.append(
                f'<circle class="fill" cx="{100 * value:.2f}%" cy="50%" r="5" fill="#0072b2"/>'
            )
        lines.append(
            f"<tr><td>{escape(label)}</td><td>"
            f'<svg aria-hidden="true" overflow="visible">{"".join(drawn)}</svg>'
            f"</td><td>{escape(text)}</td></tr>"
        )
    return f'<table class="bars">{"".join(lines)}</table>'


def place(number: float, low: float, high: float) -> float:
    """The place of a number on a line from `low` to `high`, as a share of the line. A number beyond
    an end of the line is placed at this end.
    """
    return min(max((number - low) / (high - low), 0.0), 1.0) if high > low else 0.0


def crossed(title: str, note: str, columns: list[str], rows: list[tuple[str, list[str]]]) -> str:
    """A two-way table as a card. Each row has a label and its cells."""
    head = "".join(f"<th>{escape(label)}</th>" for label in columns)
    lines = "".join(
        f"<tr><th>{escape(label)}</th>"
        + "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        + "</tr>"
        for label, cells in rows
    )
    return (
        f'<section class="card"><h3>{escape(title)}</h3><p class="soft">{escape(note)}</p>'
        '<div class="scroll"><table class="wide">'
        f"<thead><tr><th></th>{head}</tr></thead><tbody>{lines}</tbody></table></div></section>"
    )


def hundred(right: int) -> str:
    """A drawing of a hundred people as dots. The people who guess right are marked."""
    dots = [
        f'<circle class="{"right" if at < right else "wrong"}" cx="{at % 20 * 10 + 5}" '
        f'cy="{at // 20 * 10 + 5}" r="4" fill="{"#d55e00" if at < right else "#d9d9d9"}"/>'
        for at in range(100)
    ]
    return f'<svg viewBox="0 0 200 50" role="img" aria-label="{right} of 100">{"".join(dots)}</svg>'


def pdf(text: str) -> bytes:
    """The PDF file of a page. WeasyPrint makes it."""
    from headcount.core.errors import MissingPackage

    try:
        from weasyprint import HTML
    except (ImportError, OSError):  # WeasyPrint needs the system's library Pango
        raise MissingPackage(
            "PDF files of pages need WeasyPrint and Pango",
            hint="pip install 'headcount[pdf]', or save .html and print it from a browser",
        ) from None
    document: bytes = HTML(string=text).write_pdf()
    return document
