"""Hints in errors: which setting reads values as they are written."""

import re
from collections.abc import Sequence

from headcount.data.date_formats import formats_of
from headcount.data.reading import OPPOSITES

TRIM = "trim=True (--trim) ignores blanks around texts"
CODES = "yes='1' and no='2' (--yes 1 --no 2) read 1 as yes and 2 as no"
HEADER = (
    "if a title stands above the names of the columns, header_row=… (--header-row …) says in which "
    "row the names are"
)
# Words that often mean a missing value. If one of them is refused, a hint suggests `na`.
_ABSENT = {"na", "n/a", "#n/a", "-", "--", ".", "?", "none", "null", "nan", "missing", "unknown"}
_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d*,\d+\s*")
_GROUPS = re.compile(r"[+-]?[1-9]\d{0,2}([,.' ])\d{3}((?:\1\d{3})*)((?!\1)[.,]\d*)?")


def hint_for(word: str, *, counting: bool) -> str:
    """A hint about reading a word that was found in place of a number. `counting` says whether the
    question is a count.
    """
    bare = word.strip()
    if counting and bare.lower() in OPPOSITES:
        return f"yes={bare!r} (--yes {bare}) counts the people with this answer"
    if hint := _hint_of_absent(bare) or _hint_of_groups(bare):
        return hint
    if _DECIMAL_COMMA.fullmatch(word):
        return "decimal=',' (--decimal ,) reads a decimal comma"
    if counting:
        return f"yes={bare!r} and no=… (--yes {bare} --no …) say which answers mean yes and no"
    return ""


def date_hint(texts: Sequence[str]) -> str:
    """A hint about reading texts that were found in place of dates."""
    found = formats_of(texts) or formats_of(texts[:1])
    if not found:
        return _hint_of_absent(texts[0].strip())
    named = " or ".join(f"date_format={one!r} (--date-format {_typed(one)})" for one in found)
    return f"{named} reads such dates"


def _hint_of_absent(word: str) -> str:
    return f"na={word!r} (--na {word}) reads it as a missing value" * (word.lower() in _ABSENT)


def _hint_of_groups(word: str) -> str:
    """A hint about a number in groups of three digits. It is empty if the word has another form.

    A comma may also be a decimal comma if it occurs only once.
    """
    found = _GROUPS.fullmatch(re.sub("[\u00a0\u202f]", " ", word))
    if found is None:
        return ""
    sign, more, fraction = found.groups()
    if sign == "," and not more and not fraction:
        return (
            "thousands=',' (--thousands ,) reads a thousands separator, and decimal=',' "
            "(--decimal ,) reads a decimal comma"
        )
    # If points separate thousands, the decimal sign is a comma.
    comma = sign == "." or (fraction or "").startswith(",")
    named = f"thousands={sign!r}" + " and decimal=','" * comma
    typed = f"--thousands {_typed(sign)}" + " --decimal ," * comma
    return f"{named} ({typed}) reads a thousands separator"


def _typed(text: str) -> str:
    """A text as it is typed in a shell."""
    return text if not set(text) & {" ", "'"} else f'"{text}"'
