"""`headcount shuffler`: take sealed responses, mix them, and hand them over."""

import time
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from headcount.cli.arguments import AsJson
from headcount.cli.collection_warnings import warn_about_survey, warn_about_token
from headcount.cli.grouping import ungrouped
from headcount.cli.output import console, deliver, print_table
from headcount.collect.batch import SealedBatch
from headcount.collect.batch_files import BatchFiles, check_secret
from headcount.collect.document import Document
from headcount.collect.settings import ShufflerSettings
from headcount.collect.shuffler import Shuffler, Status
from headcount.collect.store import opened
from headcount.core import checks
from headcount.core.errors import InvalidParameter, UnreadableData
from headcount.core.table import Table, counted
from headcount.core.writing import check_writable, write_file

STORE = "shuffler.db"
Place = Annotated[
    str, typer.Option("--store", help="Database: a file, or postgresql://user@host/database.")
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        help="File with the token that the shuffler and the analyzer share. headcount analyzer "
        "init writes it."
    ),
]
SettingsFile = Annotated[Path | None, typer.Option("--settings", help="TOML file with settings.")]
Host = Annotated[str | None, typer.Option(help="Address to listen on. [default: 127.0.0.1]")]
OneSurvey = Annotated[
    str, typer.Argument(help="The survey: its document, or its digest.", metavar="SURVEY")
]

shuffler = typer.Typer(
    name="shuffler",
    help="Take sealed responses, mix them, and hand them over to the analyzer.",
    rich_markup_mode=None,
)


@shuffler.command(
    epilog="Example: headcount shuffler serve --survey campus.json --token-file token "
    "--close-at 2027-01-31T18:00"
)
@ungrouped
def serve(
    survey: Annotated[list[Path] | None, typer.Option(help="Document of a survey.")] = None,
    store: Annotated[
        str | None,
        typer.Option(
            help="Database: a file, or postgresql://user@host/database. [default: shuffler.db]"
        ),
    ] = None,
    settings: SettingsFile = None,
    host: Host = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on. [default: 8401]")] = None,
    token_file: TokenFile = None,
    close_at: Annotated[
        str | None, typer.Option(help="Close the surveys at this time: 2027-01-31T18:00.")
    ] = None,
    close_with: Annotated[
        int | None, typer.Option(help="Close the surveys when this many people have answered.")
    ] = None,
) -> None:
    """Take responses until the process is told to stop.

    Surveys that are due are closed, and their messages are handed over to the analyzer. Neither
    addresses nor times are stored or logged.
    """
    from headcount.collect.server import serve as run
    from headcount.collect.shuffler_app import shuffler_app

    chosen = ShufflerSettings.load(
        settings, host=host, port=port, store=store, token=token_in(token_file)
    )
    documents = [Document.load(path) for path in survey or []]
    made = Shuffler(opened(chosen.store or STORE))
    for document in documents:
        made.register(document, closes_at=time_in(close_at), closes_with=close_with)
        warn_about_survey(document)
    warn_about_token(token_file, chosen.token)
    run(shuffler_app(made, chosen, clock=time.monotonic), chosen)


@shuffler.command(epilog="Example: headcount shuffler close campus.json --store shuffler.db")
@ungrouped
def close(survey: OneSurvey, store: Place = STORE, as_json: AsJson = False) -> None:
    """Close a survey. Its messages are mixed once, and the responses are deleted.

    A shuffler that is serving, or the next one that starts, hands the messages over. If too few
    people have answered, the survey stays open, and the exit status is 1.
    """
    made, digest = _found(store, survey)
    batch = made.close(digest)
    deliver(
        lambda: {"survey": digest, "batch": batch},
        lambda saved: console.print(f"closed: {digest}\nbatch: {batch}", soft_wrap=True),
        as_json=as_json,
    )


@shuffler.command(
    epilog="Example: headcount shuffler export campus.json --out batch --token-file token"
)
@ungrouped
def export(
    survey: OneSurvey,
    out: Annotated[Path, typer.Option(help="Folder for the Parquet files of the batch.")],
    token_file: TokenFile = None,
    store: Place = STORE,
    as_json: AsJson = False,
) -> None:
    """Hand over the messages of a closed survey as Parquet files, instead of over the network.

    The files hold sealed messages in random order. batch.json has their digests, and a code that
    only somebody with the token can make. The messages are deleted here when all files are on the
    disk. `headcount analyzer count` counts the files.
    """
    token = ShufflerSettings.load(token=token_in(token_file)).token
    check_secret(token)
    made, digest = _found(store, survey)
    written: list[BatchFiles] = []

    def write(document: Document, name: str, batch: SealedBatch) -> None:
        written.append(BatchFiles.write(out, document.digest, name, batch, token))

    made.forward(digest, write)
    deliver(
        lambda: {**written[0].to_dict(), "folder": str(out)},
        lambda saved: console.print(
            f"exported: {digest}\nbatch: {written[0].batch}\n"
            f"{counted(written[0].messages, 'sealed message')}: {out}",
            soft_wrap=True,
        ),
        as_json=as_json,
    )


@shuffler.command(epilog="Example: headcount shuffler status --store shuffler.db")
@ungrouped
def status(store: Place = STORE, as_json: AsJson = False) -> None:
    """Show all surveys, and how many people have answered.

    If the document of a survey cannot be read, the other surveys are shown, and the exit status
    is 2.
    """
    made = Shuffler(opened(_existing(store)))
    found: list[Status] = []
    unreadable: dict[str, str] = {}
    for digest in made.surveys():
        try:
            found.append(made.status(digest))
        except UnreadableData as error:
            unreadable[digest] = str(error)
    wrong = "; ".join(f"{digest[:12]}: {error}" for digest, error in unreadable.items())
    deliver(
        lambda: {"surveys": [one.to_dict() for one in found], "unreadable": unreadable},
        lambda saved: print_table(_table(found)),
        as_json=as_json,
        refusal=UnreadableData(f"all surveys must be readable, got {wrong}") if wrong else None,
    )


@shuffler.command(
    epilog="Example: headcount shuffler extend campus.json --close-at 2027-02-28T18:00"
)
@ungrouped
def extend(
    survey: OneSurvey,
    close_at: Annotated[
        str | None,
        typer.Option(
            help="New closing time. Without it, the survey no longer closes at a set time."
        ),
    ] = None,
    store: Place = STORE,
) -> None:
    """Set another time at which a survey is closed."""
    made, digest = _found(store, survey)
    made.extend(digest, time_in(close_at))
    console.print(f"extended: {digest}", soft_wrap=True)


@shuffler.command(epilog="Example: headcount shuffler destroy campus.json --yes")
@ungrouped
def destroy(
    survey: OneSurvey,
    yes: Annotated[bool, typer.Option("--yes", help="Confirm that all responses will be lost.")],
    store: Place = STORE,
) -> None:
    """Delete all responses of an open survey."""
    if not yes:
        raise InvalidParameter("--yes must be given, since all responses will be lost")
    made, digest = _found(store, survey)
    made.destroy(digest)
    console.print(f"destroyed: {digest}", soft_wrap=True)


@shuffler.command(
    epilog="Example: headcount shuffler codes campus.json --count 300 --out codes.txt"
)
@ungrouped
def codes(
    survey: OneSurvey,
    count: Annotated[int, typer.Option(help="Number of codes.")],
    out: Annotated[Path, typer.Option(help="Text file to write, with one code on each line.")],
    store: Place = STORE,
) -> None:
    """Make one-time invitation codes. Only hashes of the codes are stored."""
    check_writable(out)
    made, digest = _found(store, survey)
    made_codes = made.new_codes(digest, count)
    deliver(
        lambda: {"codes": made_codes},
        lambda saved: console.print(f"codes: {saved}", soft_wrap=True) if saved else None,
        as_json=False,
        out=out,
        save=lambda path: write_file(path, "".join(f"{code}\n" for code in made_codes)),
    )


def token_in(path: Path | None) -> str | None:
    """The token in a file, or None if no file is given."""
    if path is None:
        return None
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableData(
            f"{str(path)!r} must be a file with a token, got: {error}",
            hint="headcount analyzer init writes it",
        ) from None


def time_in(text: str | None) -> float | None:
    """A time in seconds since 1970. A time without a zone is local."""
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise InvalidParameter(
            f"--close-at must be a time such as 2027-01-31T18:00, got {checks.shown(text)}"
        ) from None


def _existing(store: str) -> str:
    """Refuse a file that does not exist, so that no new database is made by mistake."""
    if "://" not in store and not Path(store).is_file():
        raise UnreadableData(
            f"--store must be the database of a shuffler, but there is no file {store!r}"
        )
    return store


def _found(store: str, survey: str) -> tuple[Shuffler, str]:
    """The shuffler, and the digest of one of its surveys."""
    made = Shuffler(opened(_existing(store)))
    digest = Document.load(Path(survey)).digest if Path(survey).is_file() else survey
    made.document(digest)  # this refuses an unknown survey
    return made, digest


def _table(found: list[Status]) -> Table:
    return Table(
        ("survey", "title", "state", "responses", "least people"),
        tuple(
            (one.survey[:12], one.title, one.state, f"{one.responses:,}", f"{one.least_people:,}")
            for one in found
        ),
        title="Surveys at this shuffler",
        notes=tuple(
            f"{one.survey[:12]} should be closed, but too few people have answered: extend or "
            "destroy it"
            for one in found
            if one.overdue
        ),
    )
