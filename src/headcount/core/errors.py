"""All errors that Headcount raises on purpose. Each class of errors has a stable `code`.

A message says what must hold and what was given instead. `hint` says what the user can do. The
command line prints the message and the hint on one line, and exits with the `exit_status` of the
class.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from headcount.core.table import exact


class HeadcountError(Exception):
    """The base class of all errors that Headcount raises on purpose."""

    code: ClassVar[str] = "error"
    exit_status: ClassVar[int] = 2

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message

    # By default, an exception is copied and unpickled by calling its class with `args`. But `args`
    # lacks the keyword arguments of `__init__`, so an error from another process could not be
    # rebuilt.

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (type(self), self.args, vars(self))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), self.message))


def _remade(
    kind: type[HeadcountError], args: tuple[Any, ...], state: dict[str, Any]
) -> HeadcountError:
    """Rebuild an error from its state, without calling `__init__`."""
    error = kind.__new__(kind, *args)
    vars(error).update(state)
    return error


class InvalidParameter(HeadcountError, ValueError):
    """A parameter (epsilon, users, an option, …) is outside its domain."""

    code = "invalid-parameter"


class InvalidValue(HeadcountError, ValueError):
    """A person's value, a message or a tally is outside its domain."""

    code = "invalid-value"


class UnknownName(HeadcountError, KeyError):
    """The name of a protocol, an option, a dataset, … is unknown."""

    code = "unknown-name"

    # The `__str__` of KeyError would print the repr of its argument.
    __str__ = HeadcountError.__str__


class CrowdMismatch(HeadcountError, ValueError):
    """Fewer people took part than the guarantee assumes, or more than the protocol can handle."""

    code = "crowd-mismatch"


class UnreadableData(HeadcountError, ValueError):
    """A file or a column cannot be read, or an output cannot be written."""

    code = "unreadable-data"


class DiskFull(UnreadableData):
    """A disk, a quota or a limit on the size of files leaves no room to write."""

    code = "disk-full"


class LedgerLocked(UnreadableData):
    """Other programs kept a ledger locked for too long. Nothing was charged."""

    code = "ledger-locked"


class UnconfirmedCharge(UnreadableData):
    """A ledger could not confirm that it recorded a charge. Nothing was released.

    `charged` is True if the ledger has the charge, and None if the ledger cannot be read now.
    """

    code = "unconfirmed-charge"

    def __init__(self, message: str, *, hint: str = "", charged: bool | None) -> None:
        super().__init__(message, hint=hint)
        self.charged = charged


class MissingPackage(HeadcountError, ImportError):
    """An optional package that the requested work needs is missing."""

    code = "missing-package"


class Infeasible(HeadcountError):
    """No parameters of this protocol meet the budget with this crowd.

    `nearest` maps parameter names to the nearest feasible values. It is empty if no feasible values
    are known.
    """

    code = "infeasible"
    exit_status = 3

    def __init__(self, message: str, *, nearest: Mapping[str, float] | None = None) -> None:
        self.nearest = dict(nearest or {})
        settings = ", ".join(f"{name}={exact(value)}" for name, value in self.nearest.items())
        super().__init__(message, hint=f"nearest feasible: {settings}" if settings else "")


class BudgetExhausted(HeadcountError):
    """A release would exceed the privacy limit of its dataset.

    The release was not charged, and must not be made. `limit` is the total that may be spent.
    `remaining` is a pair (ε, δ) that may still be spent. If possible, its δ is the requested δ.
    The keys of `limit` and `remaining` are parameter names.
    """

    code = "budget-exhausted"
    exit_status = 4

    def __init__(
        self, message: str, *, remaining: Mapping[str, float], limit: Mapping[str, float]
    ) -> None:
        super().__init__(message)
        self.remaining = dict(remaining)
        self.limit = dict(limit)


class AlreadyCharged(HeadcountError):
    """A release was charged before under the same name. Nothing was charged or released now.

    `entry` describes the recorded entry: its dataset, its number, its id and its time.
    """

    code = "already-charged"
    exit_status = 4

    def __init__(self, message: str, *, entry: Mapping[str, Any]) -> None:
        super().__init__(message, hint="give another release another name")
        self.entry = dict(entry)
