"""`headcount report`: several questions about one table, with one budget and one page."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from headcount.cli.arguments import AsJson, Confidence, OptionalLedger
from headcount.cli.reading_options import ReadingOptions
from headcount.cli.survey import LedgerDataset, Sampling, SavedResults, answered
from headcount.core.budget import Trust
from headcount.core.errors import InvalidParameter
from headcount.survey.survey import Survey


def report(
    questions: Annotated[
        Path,
        typer.Argument(
            help='The questions: a survey file with trust = "central". `headcount survey new` '
            "writes an example.",
            metavar="QUESTIONS",
        ),
    ],
    table: Annotated[
        Path,
        typer.Argument(
            help="The table: a row for each person, and a column for each question, named by its "
            "id. Any file or folder that `headcount estimate` reads.",
            metavar="TABLE",
        ),
    ],
    *,
    written: ReadingOptions,
    confidence: Confidence = 0.95,
    sampling: Sampling = False,
    ledger: OptionalLedger = None,
    dataset: LedgerDataset = None,
    out: SavedResults = None,
    as_json: AsJson = False,
) -> None:
    """Answer several questions about a table under one budget, on one page."""
    asked = Survey.load(questions)
    if asked.trust != Trust.CENTRAL:
        raise InvalidParameter(
            f'a report must have trust = "central", since you hold the table, got {asked.trust}',
            hint="for other trust models use headcount survey run",
        )
    answered(
        replace(asked, least_people=1), questions, table, written, confidence=confidence,
        sampling=sampling, ledger=ledger, dataset=dataset, out=out, as_json=as_json,
    )  # fmt: skip
