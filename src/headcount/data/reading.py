"""How a column is read: which words mean yes, no or a missing value, and how numbers and dates are
written.

The same rules hold for columns of files, data frames and queries.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.errors import InvalidParameter
from headcount.data.date_formats import check_format

if TYPE_CHECKING:
    import pyarrow

# Pairs of words: the first word means yes, and the second word means no.
_PAIRS = {"yes": "no", "y": "n", "true": "false", "t": "f", "1": "0", "on": "off"}
OPPOSITES = _PAIRS | {no: yes for yes, no in _PAIRS.items()}
_THOUSANDS = (",", ".", "'", " ")
_NO_BREAK = "[\u00a0\u202f]"  # no-break spaces


@dataclass(frozen=True)
class Reading:
    """The rules for reading a column. The function `reading` makes and checks them.

    `yes` and `no` are the words for the two answers of a count, in lower case. `na` has the words
    that mean a missing value. `decimal` is the decimal sign of numbers. `thousands` is the sign
    between groups of three digits, or empty if there is none. `date_format` is the form of texts
    that state dates, in the directives of Python's `strptime`. With `trim`, blanks around texts are
    ignored. If there is a `period`, such as "month", dates are put into buckets of this period.
    """

    yes: tuple[str, ...] = ()
    no: tuple[str, ...] = ()
    na: tuple[str, ...] = ()
    decimal: str = "."
    thousands: str = ""
    date_format: str | None = None
    trim: bool = False
    period: str | None = None

    @property
    def allowed(self) -> str:
        """A description of the answers to a count."""
        return f"{' or '.join(self.yes)} for yes, or {' or '.join(self.no)} for no"

    @property
    def absent_numbers(self) -> tuple[float, ...]:
        """The numbers that mean a missing value."""
        words = (word.replace(self.decimal, ".") for word in self.na)
        return tuple(float(word) for word in words if _is_number(word))

    @property
    def changes_texts(self) -> bool:
        """Whether `with_nulls` may change a text."""
        return bool(self.na) or self.trim

    def with_nulls(self, column: "pyarrow.Array") -> "pyarrow.Array":
        """The column with nulls in place of the words in `na`. With `trim`, blanks around texts
        are removed, and a text of blanks alone becomes null.
        """
        if not self.changes_texts:
            return column
        import pyarrow
        from pyarrow import compute, types

        if types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        kind = column.type
        if types.is_string(kind) or types.is_large_string(kind):
            column = compute.utf8_trim_whitespace(column) if self.trim else column
            words = pyarrow.array([*self.na, *[""] * self.trim], type=kind)
            found = compute.is_in(compute.utf8_trim_whitespace(column), value_set=words)
        elif types.is_integer(kind) or types.is_floating(kind):
            numbers = pyarrow.array(self.absent_numbers, type=pyarrow.float64())
            found = compute.is_in(column.cast(pyarrow.float64(), safe=False), value_set=numbers)
        else:
            return column
        return compute.if_else(found, pyarrow.scalar(None, type=kind), column)

    def answers(
        self, column: "pyarrow.Array", dtype: np.dtype[Any]
    ) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        """An array with 1 for each yes and 0 for each no, and a mask of all other values. The mask
        is None if there are no other values.
        """
        import pyarrow
        from pyarrow import compute

        known = [*self.yes, *self.no]
        found = compute.index_in(_words(column, known), value_set=pyarrow.array(known))
        wrong = None
        if found.null_count:
            wrong = found.is_null().to_numpy(zero_copy_only=False)
            found = found.fill_null(len(known))
        return (found.to_numpy() < len(self.yes)).astype(dtype), wrong

    @property
    def parses(self) -> bool:
        """Whether columns of text are read as numbers. This is so if `na`, `decimal` or `thousands`
        is set.
        """
        return bool(self.na or self.thousands) or self.decimal != "."

    def parsed(self, text: "pyarrow.Array") -> "pyarrow.Array":
        """The numbers in a column of text. Arrow raises an error if any text is not a number."""
        import pyarrow
        from pyarrow import compute

        text = compute.utf8_trim_whitespace(text)
        if self.thousands:
            text = self._without_groups(text)
        if self.decimal != ".":
            text = compute.replace_substring(text, ".", "point")  # Arrow then refuses the number
            text = compute.replace_substring(text, self.decimal, ".")
        try:
            return text.cast(pyarrow.int64())
        except pyarrow.ArrowInvalid:
            return text.cast(pyarrow.float64())

    def first_unparsed(self, text: "pyarrow.Array") -> int:
        """The index of the first text that is not a number. If there is no such text, the result
        is the length of the column.
        """
        fewest, most = 0, len(text)  # how many texts at the beginning are numbers
        while fewest < most:
            middle = (fewest + most + 1) // 2
            if self._all_numbers(text[fewest:middle]):
                fewest = middle
            else:
                most = middle - 1
        return fewest

    def _all_numbers(self, text: "pyarrow.Array") -> bool:
        import pyarrow

        try:
            self.parsed(text)
        except pyarrow.ArrowInvalid:
            return False
        return True

    def _without_groups(self, text: "pyarrow.Array") -> "pyarrow.Array":
        """The texts, without the signs between groups of digits. Other texts do not change."""
        from pyarrow import compute

        if self.thousands == " ":
            text = compute.replace_substring_regex(text, _NO_BREAK, " ")
        between, point = re.escape(self.thousands), re.escape(self.decimal)
        grouped = compute.match_substring_regex(
            text, f"^[+-]?[1-9][0-9]{{0,2}}(?:{between}[0-9]{{3}})+(?:{point}[0-9]*)?$"
        )
        return compute.if_else(grouped, compute.replace_substring(text, self.thousands, ""), text)


def reading(
    yes: Any = None,
    no: Any = None,
    na: Any = None,
    decimal: str = ".",
    thousands: str | None = None,
    date_format: str | None = None,
    *,
    trim: bool = False,
    period: str | None = None,
) -> Reading:
    """The rules for reading a column. `yes`, `no` and `na` are words or lists of words."""
    checks.choice("decimal", decimal, [".", ","])
    between = _thousands(thousands, decimal)
    if date_format is not None:
        check_format(date_format, period)
    checks.flag("trim", trim)
    meant, denied = (
        tuple(word.lower() for word in _listed(*it)) for it in (("yes", yes), ("no", no))
    )
    if denied and not meant:
        raise InvalidParameter(f"`no` must come with `yes`, got {checks.shown(no)} alone")
    if meant and not denied:
        strange = [word for word in meant if word not in OPPOSITES]
        if strange:
            raise InvalidParameter(
                f"`no` must say which answers mean no if `yes` is not one of {', '.join(_PAIRS)}, "
                f"got yes={checks.shown(strange[0])} alone"
            )
        denied = tuple(OPPOSITES[word] for word in meant)
    if shared := set(meant) & set(denied):
        raise InvalidParameter(f"`yes` and `no` must differ, got {min(shared)!r} in both")
    return Reading(
        meant, denied, _listed("na", na), decimal, between, date_format, trim=trim, period=period
    )


def _thousands(sign: Any, decimal: str) -> str:
    """The sign between groups of three digits, or an empty text if there is none."""
    if sign is None:
        return ""
    found = re.sub(_NO_BREAK, " ", sign) if isinstance(sign, str) else sign
    if found not in _THOUSANDS:
        raise InvalidParameter(
            f"`thousands` must be a comma, a point, ' or a space, got {checks.shown(sign)}"
        )
    if found == decimal:
        raise InvalidParameter(
            f"`thousands` must differ from `decimal`, got {checks.shown(sign)} for both"
        )
    return str(found)


def _listed(name: str, words: Any) -> tuple[str, ...]:
    if words is None:
        return ()
    given = [words] if isinstance(words, str | int) or not isinstance(words, Iterable) else words
    texts = tuple(str(word).strip() for word in given)
    whole = all(isinstance(word, str | int) for word in given)
    if not whole or not texts or (name != "na" and "" in texts) or len({*texts}) != len(texts):
        raise InvalidParameter(
            f"`{name}` must be a word or a list of different words, got {checks.shown(words)}"
        )
    return texts


def _is_number(word: str) -> bool:
    try:
        return bool(np.isfinite(float(word)))
    except ValueError:
        return False


def _words(column: "pyarrow.Array", known: list[str]) -> "pyarrow.Array":
    """The values as words in lower case. The Boolean values true and false become words in `known`
    that mean yes and no, or null if `known` has no such word.
    """
    import pyarrow
    from pyarrow import compute, types

    text = pyarrow.string()
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_boolean(column.type):
        true, false = (
            next((word for word in known if word in words), None)
            for words in (_PAIRS, _PAIRS.values())
        )
        return compute.if_else(
            column, pyarrow.scalar(true, type=text), pyarrow.scalar(false, type=text)
        )
    if types.is_floating(column.type) or types.is_decimal(column.type):
        try:
            column = column.cast(pyarrow.int64())
        except pyarrow.ArrowInvalid:
            column = column.cast(pyarrow.float64())
    return compute.utf8_lower(compute.utf8_trim_whitespace(column.cast(text)))
