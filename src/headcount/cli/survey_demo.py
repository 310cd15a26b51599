"""`headcount survey demo`: a whole survey on this machine."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from headcount.cli.analyzer import results_table
from headcount.cli.arguments import AsJson
from headcount.cli.output import console, deliver, messages, print_table
from headcount.core import checks
from headcount.core.writing import check_writable, json_text, write_file


def demo(
    people: Annotated[int, typer.Option(help="Number of made-up people.")] = 300,
    out: Annotated[Path, typer.Option(help="JSON file for the results.")] = Path(
        "survey-demo.json"
    ),
    as_json: AsJson = False,
) -> None:
    """Run a survey with all roles on this machine, and show its results.

    The analyzer and the shuffler run as processes. Made-up people answer three questions over the
    network. Their answers are randomized, sealed, mixed, opened and counted as in a real survey.
    """
    from headcount.collect.demo import demonstrate

    checks.whole("people", people, low=100, high=100_000)
    check_writable(out)
    with tempfile.TemporaryDirectory() as folder, messages.status("starting") as status:
        done = demonstrate(Path(folder), people, status.update)
    document = {**done.results, "truth": done.truth}

    def show(saved: Path | None) -> None:
        print_table(results_table(done.results))
        console.print(
            f"\nNobody saw a single answer. The truth, since these people are made up: "
            f"{done.truth['smoke']} smoke, {done.truth['drink']} drove after drinking."
        )
        if saved:
            console.print(f"\nresults: {saved}", soft_wrap=True)

    deliver(
        lambda: document,
        show,
        as_json=as_json,
        out=out,
        save=lambda path: write_file(path, json_text(document) + "\n"),
    )
