"""`headcount survey open`: turns a survey file into the document that everybody gets."""

from pathlib import Path
from typing import Annotated

import typer

from headcount.cli.arguments import AsJson
from headcount.cli.collection_warnings import warn_about_survey
from headcount.cli.output import console, deliver
from headcount.collect.document import Addresses, Document
from headcount.collect.keys import PublicKey
from headcount.core import checks
from headcount.core.table import short
from headcount.core.writing import check_apart, check_writable
from headcount.survey.survey import Survey


def open_survey(
    survey: Annotated[Path, typer.Argument(help="The survey file.", metavar="SURVEY")],
    key: Annotated[Path, typer.Option(help="The analyzer's key.json.")],
    shuffler: Annotated[
        str, typer.Option(help="Address of the shuffler, such as https://mix.example.")
    ],
    analyzer: Annotated[
        str, typer.Option(help="Address of the analyzer, such as https://count.example.")
    ],
    out: Annotated[Path, typer.Option(help="File for the document: .json.")],
    admission: Annotated[
        str,
        typer.Option(help="Who may answer: open (anybody), or codes (one-time invitations)."),
    ] = "codes",
    wave: Annotated[
        int, typer.Option(help="Number of this wave, if the survey asks the same people again.")
    ] = 1,
    as_json: AsJson = False,
) -> None:
    """Write the document of a survey. Its digest is the survey's name.

    The document has everything that respondents, the shuffler and the analyzer must agree on: the
    questions, the calibrated protocols, the guarantee, the analyzer's public key and the addresses.
    """
    check_apart(out, {"the survey file": [survey], "the key": [key]})
    check_writable(out)
    checks.choice("admission", admission, ("open", "codes"))
    places = Addresses(shuffler, analyzer)
    made = Document.of(
        Survey.load(survey),
        PublicKey.load(key),
        places,
        "codes" if admission == "codes" else "open",
        wave,
    )
    warn_about_survey(made)
    promise = made.guarantee
    whole = "response" if made.waves == 1 else f"responses in all {made.waves} waves"
    deliver(
        lambda: {
            "survey": made.digest,
            "document": str(out),
            "response_bytes": made.response_bytes,
        },
        lambda saved: console.print(
            f"survey: {made.digest}\none person's {whole}: epsilon {short(promise.epsilon)}, "
            f"delta {short(promise.delta)}, {made.messages:,} sealed messages, "
            f"{made.response_bytes:,} bytes\ndocument: {saved}",
            soft_wrap=True,
        ),
        as_json=as_json,
        out=out,
        save=made.save,
    )
