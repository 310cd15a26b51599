"""`headcount survey export`: the page for browsers as files for any web server."""

from pathlib import Path
from typing import Annotated

import typer

from headcount.cli.arguments import AsJson
from headcount.cli.output import console, deliver
from headcount.collect.document import Document
from headcount.collect.page_files import export_page


def export(
    document: Annotated[
        Path, typer.Argument(help="The survey's document: .json.", metavar="DOCUMENT")
    ],
    out: Annotated[Path, typer.Option(help="Folder for the files.")],
    as_json: AsJson = False,
) -> None:
    """Write the page on which people answer, as files for any web server.

    The page sends responses to the shuffler of the survey. The setting `sites` of the shuffler must
    name the site that serves the page.
    """
    survey = Document.load(document)
    page = export_page(survey, out)
    deliver(
        lambda: {"survey": survey.digest, "folder": str(out), "page": page},
        lambda saved: console.print(
            f"folder: {out}\npage: {page}\nThe shuffler must allow the site of the page: "
            "HEADCOUNT_SHUFFLER_SITES=https://…",
            soft_wrap=True,
        ),
        as_json=as_json,
    )
