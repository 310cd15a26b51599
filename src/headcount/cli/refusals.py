"""Descriptions of errors: a line for people, a document for programs, and an exit status."""

from dataclasses import dataclass, field, replace
from typing import Any

from headcount.cli.interrupts import INTERRUPTED
from headcount.core.errors import HeadcountError

BUG = 70  # the exit status of a bug in Headcount, as in sysexits.h
_BAD = HeadcountError.exit_status


@dataclass
class LedgerUse:
    """What errors say about the ledger of a command: whether there is one, and which entry was
    charged.
    """

    asked: bool = False
    charge: dict[str, Any] | None = None


ledger_use = LedgerUse()


@dataclass(frozen=True)
class ErrorDescription:
    """The code, the message and the exit status of an error. `more` has a hint and other facts."""

    code: str
    message: str
    status: int = _BAD
    more: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        hint = self.more.get("hint")
        said = f"{self.message} ({hint})" if hint else self.message
        return f"headcount: {self.code}: {_printable(' '.join(said.split()))}"

    def to_dict(self) -> dict[str, Any]:
        known = {"code": self.code, "message": self.message, **self.more}
        charge = {} if ledger_use.charge is None else {"charge": ledger_use.charge}
        return {**charge, "error": {**known, "exit_status": self.status}}


def _printable(text: str) -> str:
    """The text with control characters escaped. A message may quote a file that contains them."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def description_of(error: BaseException, *, answered: bool = False) -> ErrorDescription:
    """The description of an error. `answered` says whether the answer was printed before
    the error.
    """
    described = _kind_of(error, answered=answered)
    if not ledger_use.asked:
        return described
    charged = vars(error).get("charged", bool(ledger_use.charge))  # None means that it is unknown
    return replace(described, more={**described.more, "charged": charged})


def _kind_of(error: BaseException, *, answered: bool) -> ErrorDescription:
    if isinstance(error, HeadcountError):
        named = ("hint", "nearest", "remaining", "limit", "entry")
        more = {name: found for name in named if (found := getattr(error, name, None))}
        return ErrorDescription(error.code, error.message, error.exit_status, more)
    if isinstance(error, KeyboardInterrupt):
        when = "after the answer was printed" if answered else "before the command was done"
        return ErrorDescription("interrupted", f"stopped {when}", INTERRUPTED)
    if isinstance(error, MemoryError):
        return ErrorDescription("out-of-memory", "the command needs more memory than is available")
    if isinstance(error, OSError):
        what = "reading or writing" if error.filename is None else repr(str(error.filename))
        return ErrorDescription("unreadable-data", f"{what} failed: {error.strerror or error}")
    if hasattr(error, "format_message"):  # an error of the package that reads the options
        return ErrorDescription("usage", error.format_message(), getattr(error, "exit_code", _BAD))
    name = type(error).__name__
    return ErrorDescription(
        "bug", f"Headcount failed with {name}; this is a bug in Headcount, please report it", BUG
    )
