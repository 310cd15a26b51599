"""Pieces of HTML. Every text is escaped here."""

import re
from collections.abc import Iterable, Mapping
from html import escape
from urllib.parse import quote

from headcount.console import texts
from headcount.core.errors import HeadcountError, Infeasible

_LINE = re.compile(r", line (\d+): ")


def page(title: str, *parts: str, kind: str = "", refresh: int = 0) -> str:
    """A page. If `refresh` is not 0, the page loads itself again after this many seconds."""
    again = f'<meta http-equiv="refresh" content="{refresh}">' if refresh else ""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
{again}<title>{escape(title)} · {texts.PRODUCT}</title>
<link rel="icon" type="image/svg+xml" href="/static/icon.svg">
<link rel="stylesheet" href="/static/page.css">
<link rel="stylesheet" href="/static/base.css">
<link rel="stylesheet" href="/static/console.css">
<script type="module" src="/static/console.js"></script>
</head>
<body class="{kind}">
<header><a href="/">{texts.PRODUCT}</a></header>
<main>
{"".join(parts)}
</main>
</body>
</html>
"""


def h1(text: str) -> str:
    return f"<h1>{escape(text)}</h1>"


def h2(text: str) -> str:
    return f"<h2>{escape(text)}</h2>"


def p(text: str, kind: str = "") -> str:
    chosen = f' class="{kind}"' if kind else ""
    return f"<p{chosen}>{escape(text)}</p>"


def told(text: str, kind: str = "", **commands: str) -> str:
    """A paragraph with commands that somebody types. Each name in braces in `text` is replaced by
    the command with this name, which is set as code.
    """
    typed = {name: f"<code>{escape(word)}</code>" for name, word in commands.items()}
    chosen = f' class="{kind}"' if kind else ""
    return f"<p{chosen}>{escape(text).format(**typed)}</p>"


def card(*parts: str) -> str:
    return f'<section class="card">{"".join(parts)}</section>'


def link(target: str, text: str, kind: str = "") -> str:
    chosen = f' class="{kind}"' if kind else ""
    return f'<a href="{escape(target)}"{chosen}>{escape(text)}</a>'


def actions(*parts: str) -> str:
    return f'<div class="actions">{"".join(parts)}</div>'


def form(target: str, stamp: str, *parts: str) -> str:
    """A form that is posted. The stamp proves that it comes from these pages."""
    return (
        f'<form method="post" action="{escape(target)}" data-busy="{texts.BUSY}">'
        f'<input type="hidden" name="stamp" value="{escape(stamp)}">{"".join(parts)}</form>'
    )


def asking(target: str, *parts: str) -> str:
    """A form that only asks for a page. Sending it changes nothing."""
    return (
        f'<form method="get" action="{escape(target)}" data-busy="{texts.BUSY}">'
        f"{''.join(parts)}</form>"
    )


def button(text: str, *, primary: bool = True) -> str:
    kind = ' class="primary"' if primary else ""
    return f"<button{kind}>{escape(text)}</button>"


def hidden(name: str, value: str) -> str:
    return f'<input type="hidden" name="{name}" value="{escape(value)}">'


def field(
    name: str,
    label: str,
    *,
    value: str = "",
    kind: str = "text",
    more: str = "",
    look: str = "field",
) -> str:
    """A labeled input. `more` has further attributes, and `look` the classes of the whole field."""
    return (
        f'<div class="{look}"><label for="{name}">{escape(label)}</label>'
        f'<input id="{name}" name="{name}" type="{kind}" value="{escape(value)}" {more}></div>'
    )


def text_area(name: str, label: str, value: str, line: str = "") -> str:
    """A large field. `line` is the number of the line that has an error."""
    marked = f' data-line="{line}"' if line else ""
    # A browser drops a line break at the beginning of a text area, so one is added before the text.
    return (
        f'<div class="field"><label for="{name}">{escape(label)}</label>'
        f'<textarea id="{name}" name="{name}" rows="24" spellcheck="false"{marked}>'
        f"\n{escape(value)}</textarea></div>"
    )


def radios(name: str, legend: str, choices: Mapping[str, str], chosen: str) -> str:
    options = "".join(
        f'<label class="option"><input type="radio" name="{name}" value="{value}"'
        f"{' checked' if value == chosen else ''}><span>{escape(label)}</span></label>"
        for value, label in choices.items()
    )
    return (
        f'<fieldset class="plain"><legend>{escape(legend)}</legend>'
        f'<div class="options">{options}</div></fieldset>'
    )


def choices(name: str, label: str, options: Mapping[str, str]) -> str:
    """A labeled list from which one option is chosen."""
    shown = "".join(
        f'<option value="{value}">{escape(text)}</option>' for value, text in options.items()
    )
    return (
        f'<div class="field"><label for="{name}">{escape(label)}</label>'
        f'<select id="{name}" name="{name}">{shown}</select></div>'
    )


def items(rows: Iterable[str]) -> str:
    return f'<ul class="surveys">{"".join(f"<li>{row}</li>" for row in rows)}</ul>'


def problem(error: HeadcountError) -> str:
    """What is wrong, and how to mend it."""
    hint = error.hint
    if isinstance(error, Infeasible) and error.nearest:
        # A survey file has no number of honest people, since everybody counts as honest. So a hint
        # about this number becomes a hint about `least_people`.
        names = {"users": "least_people", "honest": "least_people"}
        nearest = (f"{names.get(name, name)} = {value:g}" for name, value in error.nearest.items())
        hint = ", ".join(nearest)
    fix = p(texts.FIX.format(hint=hint)) if hint else ""
    return f'<div class="problems" role="alert">{p(error.message)}{fix}</div>'


def wrong_line(error: HeadcountError) -> str:
    """The number of the line that an error names, or nothing."""
    found = _LINE.search(error.message)
    return found[1] if found else ""


def at(name: str, *parts: str) -> str:
    """The address of a survey's page."""
    return "/".join(("/surveys", quote(name, safe=""), *parts))
