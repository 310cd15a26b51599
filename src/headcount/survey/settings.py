"""Checks of the settings of a question: texts, lists, and labels of choices."""

from collections.abc import Sequence
from typing import Any

from headcount.core import checks
from headcount.core.errors import InvalidParameter
from headcount.survey.answers import NO_ANSWER

_MOST_TEXT = 2000


def text(name: str, value: object) -> str:
    """The value, if it is a text of 1 to `_MOST_TEXT` characters. Other values are refused. `name`
    is the name of the setting in the error message.
    """
    if not isinstance(value, str) or not value.strip() or len(value) > _MOST_TEXT:
        raise InvalidParameter(
            f"`{name}` must be a text of 1 to {_MOST_TEXT} characters, got {checks.shown(value)}"
        )
    if not checks.is_utf8(value):
        raise InvalidParameter(f"`{name}` must be valid Unicode text, got {checks.shown(value)}")
    return value


def labels(choices: object, least: int, most: int) -> tuple[str, ...]:
    """The labels of `least` to `most` choices. Labels that are equal are refused."""
    given = listed("choices", choices, "texts")
    words = [text("choices", label) for label in given]
    if not least <= len(words) <= most:
        raise InvalidParameter(
            f"`choices` must be {least} to {most} texts, got {len(words)}",
            hint='choices = ["first", "second"]',
        )
    twice = next((word for word in words if words.count(word) > 1), None)
    if twice is not None:
        raise InvalidParameter(f"`choices` must differ from each other, got {twice!r} twice")
    if NO_ANSWER in words:
        raise InvalidParameter(
            f"`choices` must not contain {NO_ANSWER!r}", hint="write optional = true instead"
        )
    return tuple(words)


def listed(name: str, value: object, of: str) -> tuple[Any, ...]:
    """A setting that must be a list, as a tuple. `of` describes its items in the error message."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise InvalidParameter(f"`{name}` must be a list of {of}, got {checks.shown(value)}")
    return tuple(value)
