"""`headcount analyzer`: open mixed messages, count them, and show the results."""

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from headcount.cli.arguments import AsJson, OptionalLedger
from headcount.cli.collection_warnings import warn, warn_about_survey
from headcount.cli.grouping import ungrouped
from headcount.cli.output import console, deliver, messages, print_table
from headcount.cli.shuffler import Host, OneSurvey, SettingsFile, token_in
from headcount.cli.survey import LedgerDataset, SavedResults
from headcount.collect import keys
from headcount.collect.analyzer import Analyzer
from headcount.collect.batch_files import BatchFiles
from headcount.collect.charges import Charges
from headcount.collect.document import Document
from headcount.collect.settings import AnalyzerSettings
from headcount.collect.store import opened
from headcount.core.errors import InvalidParameter, UnreadableData
from headcount.core.table import Table, counted_people, short
from headcount.ledger.ledger import Ledger
from headcount.plot import collected_page

STORE = "analyzer.db"
Folder = Annotated[
    Path,
    typer.Argument(
        help="The analyzer's folder, which `headcount analyzer init` makes.", metavar="FOLDER"
    ),
]
PassphraseFile = Annotated[
    Path | None,
    typer.Option(help="File with the passphrase. [default: the variable HEADCOUNT_PASSPHRASE]"),
]
OwnStore = Annotated[
    str | None, typer.Option(help="Database. [default: analyzer.db in the folder]")
]
Processes = Annotated[
    int | None, typer.Option(help="Processes that open messages. [default: one for each core]")
]

analyzer = typer.Typer(
    name="analyzer",
    help="Open mixed messages, count them, and show the results.",
    rich_markup_mode=None,
)


@analyzer.command(epilog="Example: headcount analyzer init analyzer --passphrase-file secret.txt")
@ungrouped
def init(
    folder: Folder,
    passphrase_file: PassphraseFile = None,
    no_passphrase: Annotated[
        bool, typer.Option("--no-passphrase", help="Store the key without a passphrase.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make the analyzer's key, a token for the shuffler, and a token for results.

    Whoever runs the shuffler needs the token. Whoever opens a survey needs key.json. Whoever reads
    results over the network before they are published needs results-token. The shuffler must not
    have results-token, and only the analyzer may have private.pem.
    """
    passphrase = _passphrase(passphrase_file)
    if passphrase is None and not no_passphrase:
        raise InvalidParameter(
            "a passphrase must protect the key, got none",
            hint="set HEADCOUNT_PASSPHRASE, or give --passphrase-file or --no-passphrase",
        )
    public = keys.create(folder, passphrase)
    keys.create_tokens(folder)
    if passphrase is None:
        warn("the key has no passphrase. Whoever can read private.pem can open messages.")
    deliver(
        public.to_dict,
        lambda saved: console.print(
            f"key: {public.id}\nfor surveys: {folder / keys.PUBLIC}\n"
            f"for the shuffler: {folder / keys.TOKEN}\n"
            f"for readers of results: {folder / keys.RESULTS_TOKEN}",
            soft_wrap=True,
        ),
        as_json=as_json,
    )


@analyzer.command(epilog="Example: headcount analyzer serve analyzer --survey campus.json")
@ungrouped
def serve(
    folder: Folder,
    survey: Annotated[list[Path] | None, typer.Option(help="Document of a survey.")] = None,
    settings: SettingsFile = None,
    store: OwnStore = None,
    host: Host = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on. [default: 8402]")] = None,
    processes: Processes = None,
    publish: Annotated[
        bool | None, typer.Option("--publish", help="Let everybody read the results.")
    ] = None,
    ledger: OptionalLedger = None,
    dataset: LedgerDataset = None,
    passphrase_file: PassphraseFile = None,
) -> None:
    """Take batches from the shuffler, open them and count, until the process is told to stop."""
    from headcount.collect.analyzer_app import analyzer_app
    from headcount.collect.server import serve as run

    chosen = AnalyzerSettings.load(
        settings, host=host, port=port, store=store, processes=processes,
        publish=publish, ledger=ledger, dataset=dataset,
    )  # fmt: skip
    chosen = replace(
        chosen,
        token=chosen.token or token_in(folder / keys.TOKEN) or "",
        results_token=chosen.results_token or token_in(folder / keys.RESULTS_TOKEN) or "",
    )
    documents = [Document.load(path) for path in survey or []]
    made = Analyzer(
        opened(chosen.store or str(folder / STORE)),
        keys.private_key(folder, _passphrase(passphrase_file)),
        processes=chosen.processes or os.cpu_count() or 1,
        charge=charging(chosen.ledger, chosen.dataset),
    )
    for document in documents:
        made.register(document)
        keys.activate(folder)
        warn_about_survey(document)
    run(analyzer_app(made, chosen), chosen)


@analyzer.command(epilog="Example: headcount analyzer count analyzer batch --survey campus.json")
@ungrouped
def count(
    folder: Folder,
    batch: Annotated[
        str, typer.Argument(help="Folder that headcount shuffler export wrote.", metavar="BATCH")
    ],
    survey: Annotated[Path, typer.Option(help="Document of a survey.")],
    spark: Annotated[
        bool,
        typer.Option(
            "--spark",
            help="Open the messages on a Spark cluster, which gets the private key. BATCH may then "
            "be any address that Spark can read.",
        ),
    ] = False,
    store: OwnStore = None,
    processes: Processes = None,
    ledger: OptionalLedger = None,
    dataset: LedgerDataset = None,
    out: SavedResults = None,
    passphrase_file: PassphraseFile = None,
    as_json: AsJson = False,
) -> None:
    """Count a batch in Parquet files, and show the results. Each batch is counted only once.

    The batch must come from a shuffler that has the token of FOLDER.
    """
    if out is not None:
        collected_page.check_collected(out)
    token = AnalyzerSettings.load().token or token_in(folder / keys.TOKEN) or ""
    document = Document.load(survey)
    made = Analyzer(
        opened(store or str(folder / STORE)),
        keys.private_key(folder, _passphrase(passphrase_file)),
        charge=charging(ledger, dataset),
    )
    made.register(document)
    keys.activate(folder)
    if spark:
        from headcount.collect.spark import files_on_spark, opened_on_spark, session

        running = session()
        files = files_on_spark(batch, running, token)
        read = partial(opened_on_spark, files, spark=running)
    else:
        files = BatchFiles.load(Path(batch), token)
        read = partial(files.opened, processes=processes or os.cpu_count() or 1)
    if files.survey != document.digest:
        raise InvalidParameter(
            f"the batch must belong to survey {document.digest}, got {files.survey}"
        )
    with messages.status("opening and counting"):
        made.count_files(files, read)
    show_results(made.results(document.digest), as_json=as_json, out=out)


@analyzer.command(epilog="Example: headcount analyzer results analyzer campus.json --out out.html")
@ungrouped
def results(
    folder: Folder,
    survey: OneSurvey,
    store: OwnStore = None,
    out: SavedResults = None,
    as_json: AsJson = False,
) -> None:
    """Show the results of a survey. This needs no key, and works after the key was destroyed.

    Results are estimated once, when the batch is counted.
    """
    if out is not None:
        collected_page.check_collected(out)
    place = store or str(folder / STORE)
    if "://" not in place and not Path(place).is_file():
        raise UnreadableData(f"{place!r} must be the database of an analyzer, but there is no file")
    made = Analyzer(opened(place), None)
    digest = Document.load(Path(survey)).digest if Path(survey).is_file() else survey
    found = made.results(digest)
    show_results(found, as_json=as_json, out=out)


@analyzer.command(epilog="Example: headcount analyzer destroy analyzer --yes")
@ungrouped
def destroy(
    folder: Folder,
    yes: Annotated[bool, typer.Option("--yes", help="Confirm that the key will be lost.")],
    store: OwnStore = None,
    unfinished: Annotated[
        bool, typer.Option("--unfinished", help="Destroy it even if surveys have no results yet.")
    ] = False,
) -> None:
    """Destroy the private key after the last survey. Nothing can be opened afterwards.

    The key is kept if a survey has no results yet, unless --unfinished is given.
    """
    if not yes:
        raise InvalidParameter("--yes must be given, since messages can never be opened again")
    place = store or str(folder / STORE)
    if not unfinished and ("://" in place or Path(place).is_file()):
        waiting = Analyzer(opened(place), None).unfinished()
        if waiting:
            raise InvalidParameter(
                f"every survey must have results before the key is destroyed, but {waiting[0]} "
                "has none",
                hint="--unfinished gives up such surveys",
            )
    keys.destroy(folder)
    console.print(f"destroyed: {keys.PublicKey.load(folder).id}", soft_wrap=True)


def charging(ledger: str | None, dataset: str | None) -> Charges | None:
    """An object that charges surveys to a ledger, or None if there is no ledger."""
    if not ledger:
        if dataset:
            raise InvalidParameter(f"--dataset must come with --ledger, got {dataset!r} alone")
        return None
    book = Ledger.open(ledger)
    book.spending(dataset or None)  # this refuses a dataset that does not exist
    return Charges(book, dataset or None)


def show_results(found: dict[str, Any], *, as_json: bool, out: Path | None) -> None:
    """Print results, as a table or as JSON. If `out` is given, save them to this file first."""

    def show(saved: Path | None) -> None:
        print_table(results_table(found))
        if saved:
            console.print(f"\nresults: {saved}", soft_wrap=True)

    deliver(
        lambda: found,
        show,
        as_json=as_json,
        out=out,
        save=lambda path: collected_page.save_collected(found, path),
        paid=True,
    )


def results_table(found: dict[str, Any]) -> Table:
    """The estimates of all questions, with their intervals."""
    rows: list[tuple[str, ...]] = []
    for name, one in found["questions"].items():
        if "error" in one:
            rows.append((name, "", "", f"not estimated: {one['error']}"))
            continue
        interval, several = one["interval"], isinstance(one["value"], list)
        values = one["value"] if several else [one["value"]]
        lows = interval["low"] if several else [interval["low"]]
        highs = interval["high"] if several else [interval["high"]]
        labels = one.get("buckets") or [""] * len(values)
        for label, value, low, high in zip(labels, values, lows, highs, strict=False):
            rows.append((name, str(label), short(value), f"{short(low)} to {short(high)}"))
    promised = found["guarantee"]
    return Table(
        ("question", "", "estimate", "95 % interval"),
        tuple(rows),
        title=f"{found['title'] or found['survey'][:12]}: {counted_people(found['people'])}",
        notes=(
            f"privacy of one person's whole response: epsilon {short(promised['epsilon'])}, "
            f"delta {short(promised['delta'])}",
            f"relies on {promised['relies_on']}",
            f"messages: {found['messages']['received']:,} received, "
            f"{found['messages']['refused']:,} refused, {found['messages']['copies']:,} copies",
            *(["anybody could answer any number of times"] if found["admission"] == "open" else []),
        ),
    )


def _passphrase(path: Path | None) -> bytes | None:
    if path is None:
        return os.environ.get("HEADCOUNT_PASSPHRASE", "").encode() or None
    try:
        return path.read_bytes().strip() or None
    except OSError as error:
        raise UnreadableData(
            f"{str(path)!r} must be a file with a passphrase, got: {error.strerror}"
        ) from None
