"""`headcount console`: the researcher's pages."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from headcount.cli.collection_warnings import warn
from headcount.cli.output import console as terminal
from headcount.cli.output import messages
from headcount.cli.shuffler import Host, token_in
from headcount.core.errors import InvalidParameter, MissingPackage

if TYPE_CHECKING:
    from headcount.console.surveys import Folder

_HERE = ("127.0.0.1", "::1", "localhost")
ShufflerAddress = Annotated[
    str | None,
    typer.Option(
        help="Address at which people's devices reach the shuffler, such as "
        "https://survey.example. A proxy with TLS must pass requests on to --shuffler-port."
    ),
]
ShufflerPort = Annotated[
    int | None, typer.Option(help="Port of the shuffler. [default: any, or 8401 with --address]")
]


def console(
    folder: Annotated[
        Path | None,
        typer.Argument(
            help="Folder with survey files. [default: this folder]",
            metavar="FOLDER",
            show_default=False,
        ),
    ] = None,
    in_class: Annotated[
        Path | None,
        typer.Option(
            "--class",
            help="Open this survey file at once, in class mode: one QR code, a live number of "
            "responses, and one button.",
        ),
    ] = None,
    port: Annotated[int, typer.Option(help="Port of the pages.")] = 8400,
    host: Host = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the token that opens the pages, of at least 16 characters. [default: a "
            "random token that works once, in the address that is printed]"
        ),
    ] = None,
    address: ShufflerAddress = None,
    shuffler_port: ShufflerPort = None,
) -> None:
    """Plan, open, watch and close surveys in a browser, and read their results.

    The pages are for this machine only, unless --host says otherwise. The shuffler and the analyzer
    of a survey run on this machine too. So people have to trust whoever runs it.
    """
    with console_packages("the console"):
        from headcount.collect.page_files import page_file
        from headcount.collect.server import serve
        from headcount.console.app import ConsoleSettings, console_app
        from headcount.console.surveys import Folder
    page_file("respond.css")  # fails if the page for browsers, where people answer, is missing
    given, host = token_in(token_file), host or _HERE[0]
    if host not in _HERE and given is None:
        raise InvalidParameter(
            f"--token-file must be given to listen on {host}, since others can reach the pages"
        )
    if given is not None and len(given) < 16:
        raise InvalidParameter("the token must have at least 16 characters")
    if folder is not None and in_class is not None:
        raise InvalidParameter(
            "FOLDER must not be given with --class, since the folder of the survey file is used"
        )
    token = given or secrets.token_urlsafe(24)
    settings = ConsoleSettings(host=host, port=port)
    place = folder or (Path() if in_class is None else in_class.parent)
    reached_at, shuffler_port = shuffler_place(address, shuffler_port)
    surveys = Folder(place, address=reached_at, shuffler_port=shuffler_port)
    try:
        target = "/" if in_class is None else _class_page(surveys, in_class)
        with messages.status("starting the services of open surveys"):
            surveys.resume()
        shown = f"[{host}]" if ":" in host else host
        opening = f"?token={token}&to={quote(target)}" if given is None else ""
        serve(
            console_app(surveys, token, once=given is None),
            settings,
            lambda taken: terminal.print(f"open: http://{shown}:{taken}/{opening}", soft_wrap=True),
        )
    finally:
        surveys.stop()


@contextmanager
def console_packages(what: str) -> Iterator[None]:
    """Turn a failed import in the `with` block into an error that says what to install."""
    try:
        yield
    except ImportError as missing:
        raise MissingPackage(
            f"{what} needs the package {missing.name}", hint="pip install 'headcount[service]'"
        ) from None


def shuffler_place(address: str | None, port: int | None) -> tuple[str | None, int | None]:
    """The address and the port of a shuffler, from the command's options. If there is an address,
    the default port is fixed, since a proxy must know the port.
    """
    if address is None:
        return None, port
    return address.rstrip("/"), port or 8401


def _class_page(surveys: "Folder", path: Path) -> str:
    """Open a survey file in class mode, unless it is already open. Returns the path of its page."""
    if path.suffix != ".toml":
        raise InvalidParameter(
            f"--class must be a survey file that ends in .toml, got {path.name!r}"
        )
    last = surveys.round(path.stem)
    if last is None or last.state in ("results", "destroyed"):
        with messages.status("opening the survey"):
            surveys.open(path.stem, "open", in_class=True)
    warn(
        "the shuffler and the analyzer run on this machine. Whoever runs it can link answers to "
        "people."
    )
    return f"/surveys/{quote(path.stem, safe='')}/class"
