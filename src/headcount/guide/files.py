"""The files of the guide. `make guide` builds them from `browser/guide` into the folder `pages`."""

from pathlib import Path

from headcount.core.errors import MissingPackage
from headcount.core.writing import write_file

FOLDER = Path(__file__).parent / "pages"


def guide_page() -> Path:
    """The page to open in a browser."""
    page = FOLDER / "index.html"
    if not page.is_file():
        raise MissingPackage(
            "this installation has no guide",
            hint="install a wheel of headcount, or run make guide",
        )
    return page


def copy_guide(folder: Path) -> Path:
    """Copy the guide to a folder. The result is the copy of its page."""
    page = guide_page()
    folder.mkdir(parents=True, exist_ok=True)
    for file in sorted(FOLDER.iterdir()):
        write_file(folder / file.name, file.read_bytes())
    return folder / page.name
