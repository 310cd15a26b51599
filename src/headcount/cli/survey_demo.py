"""`headcount survey demo`: a whole survey on this machine."""

import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from headcount.cli.analyzer import results_table
from headcount.cli.arguments import AsJson
from headcount.cli.console import ShufflerAddress, ShufflerPort, console_packages, shuffler_place
from headcount.cli.output import console, deliver, messages, print_table
from headcount.core import checks
from headcount.core.writing import check_writable, json_text, write_file
from headcount.plot.collected_page import save_collected
from headcount.plot.survey_pages import check_path


def demo(
    people: Annotated[int, typer.Option(help="Number of made-up people.")] = 300,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait",
            help="Keep the survey open until you press Enter, and show a QR code of its link. So "
            "you can answer it in a browser, too.",
        ),
    ] = False,
    address: ShufflerAddress = None,
    shuffler_port: ShufflerPort = None,
    out: Annotated[
        Path,
        typer.Option(help="JSON file for the results. A page with them is saved beside it."),
    ] = Path("survey-demo.json"),
    as_json: AsJson = False,
) -> None:
    """Run a survey with all roles on this machine, and show its results.

    The analyzer and the shuffler run as processes. Made-up people answer three questions over the
    network. Their answers are randomized, sealed, mixed, opened and counted as in a real survey.
    With --wait, you can answer as well.
    """
    with console_packages("the demonstration"):
        from headcount.collect.page_files import page_file
        from headcount.console.demo import Campus

    checks.whole("people", people, low=100, high=100_000)
    check_path(out, (".json",))
    page = out.with_suffix(".html")
    check_writable(page)
    if wait:
        page_file("respond.html")  # fails if the page for browsers, where people answer, is missing
    with tempfile.TemporaryDirectory() as folder:
        with messages.status("starting the analyzer and the shuffler"):
            place, port = shuffler_place(address, shuffler_port)
            made = Campus(Path(folder), people, address=place, port=port)
            made.round.start()
        try:
            _invite(made.round.address, wait=wait, as_json=as_json)
            with messages.status(f"{people} people answer"):
                made.answer()
            if wait:
                sys.stdin.readline()
            with messages.status("closing, mixing, opening and counting"):
                results = made.close()
        finally:
            made.round.stop()
    document = {**results, "truth": made.truth}

    def save(path: Path) -> None:
        write_file(path, json_text(document) + "\n")
        save_collected(results, page)

    deliver(
        lambda: document,
        lambda saved: _show(results, made.truth, saved, page),
        as_json=as_json,
        out=out,
        save=save,
    )


def _invite(link: str, *, wait: bool, as_json: bool) -> None:
    """Show the link to the survey. With `as_json`, the link is printed on standard error, since
    only the results may be on standard output.
    """
    from headcount.console.pages import only_here, qr_text
    from headcount.console.texts import ONLY_HERE

    shown = messages if as_json else console
    shown.print(f"link: {link}", soft_wrap=True)
    if not wait:
        shown.print("To answer this survey yourself, use --wait.\n", soft_wrap=True)
        return
    # The colors are fixed, since a QR code in the terminal's own colors may be unreadable.
    shown.print(f"\n{qr_text(link)}", style="#ffffff on #000000", soft_wrap=True)
    if only_here(link):
        why = ONLY_HERE.format(command="headcount survey demo", option="--address")
        shown.print(why, soft_wrap=True)
    shown.print("Answer the survey at the link. Then press Enter here.\n", soft_wrap=True)


def _show(results: dict[str, Any], truth: dict[str, Any], saved: Path | None, page: Path) -> None:
    print_table(results_table(results))
    console.print(
        "\nNobody saw a single answer. The truth about the made-up people: "
        f"{truth['smoke']} smoke, {truth['drink']} drove after drinking.",
        soft_wrap=True,
    )
    if saved:
        console.print(f"\nresults: {saved}\npage: {page}", soft_wrap=True)
