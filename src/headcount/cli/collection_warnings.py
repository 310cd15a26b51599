"""Loud warnings about a collection: who could see too much, and who could answer too often."""

from pathlib import Path

from headcount.cli.output import messages
from headcount.collect import keys
from headcount.collect.document import Document
from headcount.core.budget import Trust


def warn(text: str) -> None:
    """Print a warning on standard error."""
    messages.print(f"WARNING: {text}", soft_wrap=True)


def warn_about_survey(document: Document) -> None:
    """Warn if the survey's own document shows that its results or its privacy are weak."""
    if document.trust is Trust.SHUFFLE and document.addresses.one_host:
        warn(
            "the shuffler and the analyzer have the same host. Whoever runs both can link answers "
            "to people. Use this only to try things out."
        )
    if document.admission == "open":
        warn(
            "anybody can answer this survey any number of times. Use invitation codes if results "
            "matter."
        )


def warn_about_token(path: Path | None, token: str) -> None:
    """Warn if a shuffler has no token, or if secrets of the analyzer lie in the folder of the
    token. `path` is the file of the token.
    """
    if not token:
        warn("there is no token, so the analyzer will refuse the batch. Give --token-file.")
    for name in (keys.PRIVATE, keys.RESULTS_TOKEN):
        if path is not None and (path.parent / name).exists():
            warn(
                f"the analyzer's {name} is on the shuffler's machine, beside the token. Only the "
                "token is for the shuffler."
            )
