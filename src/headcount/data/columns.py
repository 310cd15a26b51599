"""Converts Arrow columns to the layouts that NumPy and the lookup of labels need."""

from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headcount.core.errors import InvalidValue
from headcount.core.task import Task
from headcount.data.date_formats import moments_in
from headcount.data.problems import value_text

if TYPE_CHECKING:
    import pyarrow

_WORDS = 8  # how many 8-byte words of a name decide which part `spread` gives it
_ODD = np.uint64(0x9E3779B97F4A7C15)  # multiplying by this number spreads numbers evenly

_PLAIN_TIME = r"^[12]\d{3}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?$"
BETWEEN_LABELS = ";"  # separates the labels of one person in a text


def plain(column: "pyarrow.Array") -> "pyarrow.Array":
    """The same values in a layout that Arrow can search, without views, runs or extension types.

    A list of labels becomes one text, with semicolons between the labels.
    """
    import pyarrow
    from pyarrow import types

    if isinstance(column, pyarrow.ExtensionArray):
        column = column.storage
    if types.is_run_end_encoded(column.type):
        from pyarrow import compute  # slow to import

        column = compute.run_end_decode(column)
    if types.is_dictionary(column.type):
        listed = column.dictionary
        kept = (is_text, is_number, is_moment)
        if not listed.null_count and any(test(listed.type) for test in kept):
            return column
        column = column.cast(column.type.value_type)
    if types.is_list(column.type) and is_text(column.type.value_type):
        from pyarrow import compute

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
        return encoded.dictionary.to_pylist(), as_numpy(encoded.indices)
    except UnicodeDecodeError:
        shown = map(value_text, encoded.dictionary)
        wrong = next(text for text in shown if text.startswith("b"))  # bytes that are not UTF-8
        raise InvalidValue(f"column {name!r} must hold text in UTF-8, got {wrong}") from None


def names(column: "pyarrow.Array", title: str) -> "pyarrow.Array":
    """Names of persons as int64 or as large_string, so that equal names are equal values."""
    import pyarrow
    from pyarrow import types

    column = plain(column)
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_uint64(column.type):
        return column.view(pyarrow.int64())
    if not is_text(column.type):
        return column.cast(pyarrow.int64())
    try:
        column.validate(full=True)
    except pyarrow.ArrowInvalid:
        listed(column, title)  # raises an error that shows the text
    return column.cast(pyarrow.large_string())


def numbered(names: "pyarrow.Array") -> tuple[NDArray[np.int32], int]:
    """The index of each name, and the number of distinct names.

    Names get the indices 0, 1, … in the order in which they first occur.
    """
    found = names.dictionary_encode()
    return as_numpy(found.indices), len(found.dictionary)


def spread(names: "pyarrow.Array", parts: int) -> NDArray[np.uint8]:
    """Assigns each name to a part, from 0 to parts − 1. `parts` is a power of two, up to 256.

    Equal names get the same part. Different names are usually spread evenly, but nothing relies on
    this except speed.
    """
    mixed = _mixed_text(names) if is_text(names.type) else as_numpy(names).view(np.uint64) * _ODD
    mixed ^= mixed >> np.uint64(32)
    mixed *= _ODD
    return (mixed >> np.uint64(65 - parts.bit_length())).astype(np.uint8)


def _mixed_text(names: "pyarrow.Array") -> NDArray[np.uint64]:
    """A number for each text. It depends on the text's length and on its first words of 8 bytes."""
    _, places, data = names.buffers()
    ends = np.frombuffer(places, dtype=np.int64)[names.offset : names.offset + len(names) + 1]
    first, last = int(ends[0]), int(ends[-1])
    padded = np.zeros(last - first + 8, dtype=np.uint8)
    if last > first:
        padded[:-8] = np.frombuffer(data, dtype=np.uint8)[first:last]
    words: NDArray[np.uint64] = np.ndarray(last - first + 1, "<u8", padded, strides=(1,))
    starts, lengths = ends[:-1] - first, np.diff(ends)
    mixed = lengths.view(np.uint64) * _ODD
    for word in range(min(_WORDS, -(-int(lengths.max(initial=0)) // 8))):
        some = np.flatnonzero(lengths > 8 * word)
        left = np.minimum(lengths[some] - 8 * word, 8).view(np.uint64)
        found = words[starts[some] + 8 * word] << (np.uint64(64) - np.uint64(8) * left)
        mixed[some] = (mixed[some] + found) * _ODD
    return mixed


def is_text(kind: "pyarrow.DataType") -> bool:
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind))


def is_number(kind: "pyarrow.DataType") -> bool:
    from pyarrow import types

    tests = (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal)
    return any(test(kind) for test in tests)


def is_moment(kind: "pyarrow.DataType") -> bool:
    """Whether a column holds dates or timestamps."""
    from pyarrow import types

    return bool(types.is_date(kind) or types.is_timestamp(kind))


def moments(array: "pyarrow.Array", date_format: str | None = None) -> NDArray[Any]:
    """The dates or times of a column as a NumPy array. The column may hold them as text. A
    timestamp with a time zone becomes the local time in that zone.

    Texts are read in the given format. Without a format, Arrow reads the texts if all of them are
    dates or times in the usual form. Otherwise all texts are returned unchanged. Python reads this
    form as Arrow does. So one text does not change how the others are read.
    """
    import pyarrow
    from pyarrow import compute, types

    if is_text(array.type):
        if date_format is not None:
            encoded = array.dictionary_encode()
            read = moments_in(encoded.dictionary.to_pylist(), date_format)
            return read.take(as_numpy(encoded.indices))
        if compute.all(compute.match_substring_regex(array, _PLAIN_TIME)).as_py():
            with suppress(pyarrow.ArrowInvalid):  # it refuses days such as 2024-02-30
                array = array.cast(pyarrow.timestamp("us"))
    elif types.is_timestamp(array.type) and array.type.tz is not None:
        array = compute.local_timestamp(array)
    found: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return found


def numbers(array: "pyarrow.Array") -> NDArray[Any]:
    """The numbers as a NumPy array. Decimals become whole numbers if their type has no fractions
    and all of them are in the range of int64. Otherwise they become floats.

    A decimal is converted through its text, since Arrow's own conversion is not always to the
    nearest float. So a decimal always becomes the same float, whatever the other decimals are.
    """
    import pyarrow
    from pyarrow import types

    if types.is_decimal(array.type):
        if not array.type.scale:
            try:
                return as_numpy(array.cast(pyarrow.int64()))
            except pyarrow.ArrowInvalid:  # some are too large, so all become floats
                pass
        array = array.cast(pyarrow.string()).cast(pyarrow.float64())
    return as_numpy(array)


def as_numpy(array: "pyarrow.Array") -> NDArray[Any]:
    """The values as a NumPy array. Numbers and bits without nulls are converted without pandas.
    Arrow's own conversion would first load pandas, if it is installed, and loading it is slow.
    """
    from pyarrow import types

    kind = array.type
    if not array.null_count and len(array):
        if types.is_boolean(kind):
            first = array.offset % 8
            held = np.frombuffer(array.buffers()[1], dtype=np.uint8)[array.offset // 8 :]
            bits = np.unpackbits(held, count=first + len(array), bitorder="little")
            return bits[first:].view(np.bool_)
        if types.is_integer(kind) or types.is_floating(kind):
            values: NDArray[Any] = np.from_dlpack(array)
            return values
    converted: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return converted


def present(column: "pyarrow.Array", *, nan: bool) -> "pyarrow.Array | None":
    """A mask of the rows that have a value, or None if all rows have one. If `nan` is true, a row
    with NaN has no value.
    """
    from pyarrow import types

    floating = nan and types.is_floating(column.type)
    if not column.null_count and not floating:
        return None
    from pyarrow import compute  # slow to import

    here = column.is_valid()
    if floating:
        here = compute.and_(here, compute.invert(column.fill_null(0).is_nan()))
    return here if here.false_count else None


@lru_cache(maxsize=8)
def label_set(
    task: Task, kind: "pyarrow.DataType", index: np.dtype[Any]
) -> tuple["pyarrow.Array", NDArray[Any]]:
    """The labels that a column of this type can hold, and the number of each label's bucket."""
    import pyarrow

    held = list(enumerate(task.listed_values or ()))
    if not is_text(kind):
        limits = np.iinfo(kind.to_pandas_dtype())
        held = [(place, label) for place, label in held if limits.min <= int(label) <= limits.max]
    places, labels = zip(*held, strict=True) if held else ((), ())
    return pyarrow.array(labels, type=kind), np.array(places, dtype=index)
