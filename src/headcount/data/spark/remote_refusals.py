"""Sends refusals from an executor to the driver as text."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from headcount.core.errors import HeadcountError, InvalidValue
from headcount.data.cleaning import Cleaned, Cleaning
from headcount.data.problems import DoesNotFit, Problems
from headcount.data.question import Question
from headcount.data.several_columns import SeveralColumns

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True)
class RemoteRefusal:
    """Why the rows of a partition are refused: either `problems`, which can be summed over
    partitions, or a single message.
    """

    message: str
    hint: str
    problems: Problems | None

    @classmethod
    def of(cls, error: HeadcountError, question: Question) -> "RemoteRefusal":
        problems = error.problems if isinstance(error, DoesNotFit) else None
        if problems and question.values_stay:
            problems = replace(problems, first_missing=(), first_outside=())
        return cls("" if problems else error.message, error.hint, problems)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "RemoteRefusal":
        fields = json.loads(text)
        if fields["problems"] is not None:
            fields["problems"] = Problems(**fields["problems"])
        return cls(**fields)


def joint_refusal(refusals: Iterable[RemoteRefusal]) -> RemoteRefusal | None:
    """One refusal for all partitions. It is the refusal with the alphabetically first message, or
    else the sum of all problems. It is None if nothing was refused.
    """
    every = sorted(refusals, key=lambda refusal: (refusal.problems is not None, refusal.message))
    if not every or every[0].problems is None:
        return every[0] if every else None
    # Values are sorted, since partitions come in any order. Row numbers are dropped, since they are
    # numbers within a partition.
    listed = [refusal.problems for refusal in every if refusal.problems is not None]
    texts = sorted(text for problems in listed for _, text in problems.first_outside)
    counted = sum((replace(one, first_missing=(), first_outside=()) for one in listed), Problems())
    shown = Problems(first_outside=tuple((0, text) for text in texts))
    hint = max((refusal.hint for refusal in every), key=len)  # some refusals have no hint
    return RemoteRefusal("", hint, counted + shown)


def refuse(refusal: RemoteRefusal, allowed: str) -> None:
    """Raise the error of a refusal. `allowed` describes the values that fit."""
    problems = refusal.problems
    if problems is None:
        raise InvalidValue(refusal.message, hint=refusal.hint)
    if problems.missing:
        raise InvalidValue(
            f"everyone must have a value, got none in {_rows(problems.missing)}", hint=refusal.hint
        )
    texts = [text for _, text in problems.first_outside]
    shown = ", ".join(texts) + ", …" * (problems.outside > len(texts)) if texts else "other values"
    raise InvalidValue(
        f"every value must be {allowed}, got {shown} in {_rows(problems.outside)}",
        hint=refusal.hint,
    )


def _rows(count: int) -> str:
    return f"{count:,} row{'s' * (count != 1)}"


@dataclass(frozen=True)
class DiscreetCleaning(Cleaning):
    """Cleaning rules whose error messages never show a value."""

    @classmethod
    def of(cls, cleaning: Cleaning) -> Cleaning:
        """The same rules, but with error messages that never show a value."""
        if isinstance(cleaning, SeveralColumns):
            return replace(cleaning, sides=tuple(map(cls.of, cleaning.sides)))
        return cls(**{name: getattr(cleaning, name) for name in cls.__dataclass_fields__})

    def clean(self, column: "pyarrow.Array", first: int = 0) -> Cleaned:
        try:
            return super().clean(column, first)
        except (ValueError, TypeError, OverflowError):
            raise InvalidValue(
                f"column {self.column!r} must hold {self.allowed} in every row, got {column.type}"
            ) from None
