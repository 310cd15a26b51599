"""What is refused on another machine, on its way home as a line of text."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from headcount.core.errors import HeadcountError, InvalidValue
from headcount.data.cleaning import Cleaned, Cleaning
from headcount.data.problems import DoesNotFit, Problems
from headcount.data.question import Question

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True)
class Refusal:
    """Why the rows of one part are refused: problems that add up, or one line."""

    message: str
    hint: str
    problems: Problems | None

    @classmethod
    def of(cls, error: HeadcountError, question: Question) -> "Refusal":
        problems = error.problems if isinstance(error, DoesNotFit) else None
        if problems and question.values_stay:
            problems = replace(problems, first_missing=(), first_outside=())
        return cls("" if problems else error.message, error.hint, problems)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Refusal":
        fields = json.loads(text)
        if fields["problems"] is not None:
            fields["problems"] = Problems(**fields["problems"])
        return cls(**fields)


def joint(refusals: Iterable[Refusal]) -> Refusal | None:
    """One for all parts: a line if there is one, else all problems together."""
    every = sorted(refusals, key=lambda refusal: (refusal.problems is not None, refusal.message))
    if not every or every[0].problems is None:
        return every[0] if every else None
    # In one order, whichever part came first; and rows of a part have no number in the whole.
    found = [refusal.problems for refusal in every if refusal.problems is not None]
    texts = sorted(text for problems in found for _, text in problems.first_outside)
    counted = sum((replace(one, first_missing=(), first_outside=()) for one in found), Problems())
    shown = Problems(first_outside=tuple((0, text) for text in texts))
    hint = max((refusal.hint for refusal in every), key=len)  # not all of them have one
    return Refusal("", hint, counted + shown)


def refuse(refusal: Refusal, allowed: str) -> None:
    """Raise it; `allowed` says which values fit."""
    problems = refusal.problems
    if problems is None:
        raise InvalidValue(refusal.message, hint=refusal.hint)
    if problems.missing:
        raise InvalidValue(
            f"everyone must have a value, got none in {_rows(problems.missing)}", hint=refusal.hint
        )
    texts = [text for _, text in problems.first_outside]
    shown = ", ".join(texts) + ", …" * (problems.outside > len(texts)) if texts else "another"
    raise InvalidValue(
        f"every value must be {allowed}, got {shown} in {_rows(problems.outside)}",
        hint=refusal.hint,
    )


def _rows(count: int) -> str:
    return f"{count:,} row{'s' * (count != 1)}"


@dataclass(frozen=True)
class DiscreetCleaning(Cleaning):
    """One whose refusals show no value."""

    @classmethod
    def of(cls, cleaning: Cleaning) -> "DiscreetCleaning":
        return cls(**{name: getattr(cleaning, name) for name in cls.__dataclass_fields__})

    def clean(self, column: "pyarrow.Array", first: int = 0) -> Cleaned:
        try:
            return super().clean(column, first)
        except (ValueError, TypeError, OverflowError):
            raise InvalidValue(
                f"column {self.column!r} must hold {self.allowed} in every row, got {column.type}"
            ) from None
