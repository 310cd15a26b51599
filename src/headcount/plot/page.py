"""An HTML page that needs no other files."""

from html import escape
from io import StringIO

from headcount.plot.style import GRAY, GRID, INK, Figure

_STYLE = f"""
body {{ font-family: 'Liberation Sans', Arial, Helvetica, sans-serif; color: {INK};
  max-width: 70em; margin: 2em auto; padding: 0 1em; line-height: 1.5; }}
h1 {{ font-size: 1.5em; }}
table {{ border-collapse: collapse; }}
tr {{ border-bottom: 1px solid {GRID}; }}
figure {{ margin: 2em 0; }}
figcaption {{ color: {GRAY}; }}
svg {{ max-width: 100%; height: auto; }}
"""


def page(title: str, body: str) -> str:
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{escape(title)}</title>
<style>{_STYLE}</style>
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
