"""The files of the page on which people answer a survey in a browser.

`make browser` builds the files from `browser/pages` into the folder `pages`. They can be copied, so
that any web server can serve the page.
"""

import re
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from headcount.collect.document import Document
from headcount.core.errors import InvalidParameter, MissingPackage
from headcount.core.writing import write_file

FOLDER = Path(__file__).parent / "pages"
TYPES = {
    "respond.html": "text/html",
    "respond.css": "text/css",
    "respond.js": "text/javascript",
    "client.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
_FIRST = '<meta charset="utf-8" />'
_SCRIPT = '<script type="module" src="respond.js"></script>'
_EARLY = '<link rel="preload" href="survey.json" as="fetch" crossorigin />'


def policy(*, shuffler: str = "", forms: str = "'none'") -> str:
    """The Content-Security-Policy of a page. `shuffler` is the origin of the shuffler. It is given
    if the page comes from another origin. `forms` says where the page may send forms.
    """
    return "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self'",
            f"connect-src 'self' {shuffler}".strip(),
            "base-uri 'none'",
            f"form-action {forms}",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


@cache
def page_file(name: str) -> bytes:
    """The content of a file of the page."""
    try:
        return (FOLDER / name).read_bytes()
    except OSError:
        raise MissingPackage(
            "this installation has no page for browsers",
            hint="install a wheel of headcount, or run make browser",
        ) from None


def export_page(document: Document, folder: Path) -> str:
    """Write the page of a survey to a folder, as static files. The result is the address of the
    page, relative to the folder.
    """
    found = urlsplit(document.addresses.shuffler)
    origin = f"{found.scheme}://{found.netloc}"
    if not re.fullmatch(r"https?://[A-Za-z0-9.:\[\]-]+", origin):
        raise InvalidParameter(
            f"the address of the shuffler must be that of a host, got {origin!r}"
        )
    rules = f'<meta http-equiv="Content-Security-Policy" content="{policy(shuffler=origin)}" />'
    page = page_file("respond.html").decode().replace(_FIRST, f"{_FIRST}\n    {rules}", 1)
    page = page.replace(_SCRIPT, f"{_EARLY}\n    {_SCRIPT}", 1)
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("respond.css", "respond.js", "icon.svg"):
        write_file(folder / name, page_file(name))
    write_file(folder / "survey.json", document.data)
    write_file(folder / "index.html", page)
    return f"index.html#survey={document.digest}"
