"""`headcount guide` opens the guide, a page that teaches differential privacy by doing it."""

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from headcount.cli.arguments import AsJson
from headcount.cli.output import console, deliver, messages
from headcount.guide.files import copy_guide, guide_page


def guide(
    out: Annotated[
        Path | None,
        typer.Option(
            help="Copy the guide to this folder instead of opening it. Any web server can serve "
            "the folder."
        ),
    ] = None,
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Only say where the guide is.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Open the guide in a browser: learn differential privacy by doing it.

    The guide is a page on this machine. It needs no network and sends nothing.
    """
    page = guide_page() if out is None else copy_guide(out)
    deliver(
        lambda: {"page": str(page)},
        lambda saved: console.print(f"page: {page}", soft_wrap=True),
        as_json=as_json,
    )
    if out is None and not no_open and not webbrowser.open(page.resolve().as_uri()):
        messages.print("no browser could be opened: open this page yourself", soft_wrap=True)
