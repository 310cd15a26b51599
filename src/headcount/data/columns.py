"""Converts Arrow columns to the layouts that NumPy and the lookup of labels need."""

from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from headcount.core.errors import InvalidValue
from headcount.data.problems import value_text

if TYPE_CHECKING:
    import pyarrow


BETWEEN_LABELS = ";"  # stands between the labels of one person in a text


def plain(column: "pyarrow.Array") -> "pyarrow.Array":
    """The same values in a layout that Arrow can search, without views, runs or extension types.

    A list of labels becomes a text.
    """
    import pyarrow
    from pyarrow import compute, types

    if isinstance(column, pyarrow.ExtensionArray):
        column = column.storage
    if types.is_run_end_encoded(column.type):
        column = compute.run_end_decode(column)
    if types.is_dictionary(column.type):
        listed = column.dictionary
        kept = (is_text, is_number, is_moment)
        if not listed.null_count and any(test(listed.type) for test in kept):
            return column
        column = column.cast(column.type.value_type)
    if types.is_list(column.type) and is_text(column.type.value_type):
        column = compute.binary_join(column, BETWEEN_LABELS)
    if types.is_string_view(column.type):
        column = column.cast(pyarrow.large_string())
    return column


def listed(column: "pyarrow.Array", name: str) -> tuple[list[Any], NDArray[Any]]:
    """The distinct values of a column, and the index of each row's value among them.

    `name` is the name of the column in error messages.
    """
    encoded = plain(column).dictionary_encode()
    try:
        return encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
    except UnicodeDecodeError:
        shown = map(value_text, encoded.dictionary)
        wrong = next(text for text in shown if text.startswith("b"))  # bytes that are not UTF-8
        raise InvalidValue(f"column {name!r} must hold text in UTF-8, got {wrong}") from None


def is_text(kind: "pyarrow.DataType") -> bool:
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind))


def is_number(kind: "pyarrow.DataType") -> bool:
    from pyarrow import types

    tests = (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal)
    return any(test(kind) for test in tests)


def is_moment(kind: "pyarrow.DataType") -> bool:
    """Whether a column holds dates or times, with a day."""
    from pyarrow import types

    return bool(types.is_date(kind) or types.is_timestamp(kind))


def moments(array: "pyarrow.Array") -> NDArray[Any]:
    """Dates and times, or their texts, as a NumPy array. Times are those of the clocks in their
    time zone. A text that is neither stays text in an array of objects.
    """
    import pyarrow
    from pyarrow import compute, types

    if is_text(array.type):
        try:
            array = array.cast(pyarrow.timestamp("us"))
        except pyarrow.ArrowInvalid:
            texts: NDArray[Any] = array.to_numpy(zero_copy_only=False)
            return texts
    elif types.is_timestamp(array.type) and array.type.tz is not None:
        array = compute.local_timestamp(array)
    found: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return found


def no_number(words: "pyarrow.Array", decimal: str = ".") -> str:
    """The first word that is not a number. One such word makes Arrow read the column as text."""
    for word in words:
        shown = value_text(word)
        try:
            float(shown.strip("'").replace(decimal, "."))
        except ValueError:
            return shown
    return value_text(words[0])


def numbers(array: "pyarrow.Array") -> NDArray[Any]:
    """The numbers as a NumPy array. Decimals become whole numbers if all are whole, else floats."""
    import pyarrow
    from pyarrow import types

    if types.is_decimal(array.type):
        try:
            array = array.cast(pyarrow.int64())
        except pyarrow.ArrowInvalid:
            array = array.cast(pyarrow.float64())
    values: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return values


def present(column: "pyarrow.Array", *, nan: bool) -> "pyarrow.Array | None":
    """A mask of the rows with a value, or None if all have one. If `nan`, NaN means no value."""
    from pyarrow import compute, types

    floating = nan and types.is_floating(column.type)
    if not column.null_count and not floating:
        return None
    here = column.is_valid()
    if floating:
        here = compute.and_(here, compute.invert(column.fill_null(0).is_nan()))
    return here if here.false_count else None
