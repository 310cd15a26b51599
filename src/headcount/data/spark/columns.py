"""Converts NumPy arrays of numbers to Spark columns and back. Spark has no unsigned types.

Unsigned numbers of up to 32 bits are stored in the next larger signed type. Unsigned numbers of 64
bits are stored with the same bits in the signed type of 64 bits.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headcount.core.errors import InvalidValue
from headcount.core.messages import Alphabet
from headcount.core.table import counted

if TYPE_CHECKING:
    import pyarrow

_SIGNED = {"uint8": "int16", "uint16": "int32", "uint32": "int64", "uint64": "int64"}
_NAMES = {
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float64": "double",
}


def type_name(dtype: np.dtype[Any]) -> str:
    """The name of the Spark type that stores numbers of this NumPy type."""
    return _NAMES[_SIGNED.get(dtype.name, dtype.name)]


def stored(array: NDArray[Any]) -> NDArray[Any]:
    """The numbers in the type that Spark stores."""
    return array.astype(_SIGNED.get(array.dtype.name, array.dtype.name), copy=False)


def restored(array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The numbers in their original type. Numbers that do not fit this type are refused."""
    if dtype.kind == "f" or array.dtype == dtype:
        return array.astype(dtype, copy=False)
    if dtype != np.uint64 and array.size:
        limits, low, high = np.iinfo(dtype), array.min(), array.max()
        if low < limits.min or high > limits.max:
            raise InvalidValue(
                f"every message must be of type {dtype}, got values from {low} to {high}"
            )
    return array.astype(dtype)


def message_type(alphabet: Alphabet) -> str:
    """The Spark type of a column of messages. A message is a number or an array of numbers."""
    name = type_name(alphabet.dtype)
    return name if len(alphabet.columns) == 1 else f"array<{name}>"


def message_column(payload: NDArray[Any]) -> "pyarrow.Array":
    import pyarrow

    if payload.ndim == 1:
        return pyarrow.array(stored(payload))
    count, width = payload.shape
    ends = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    flat = pyarrow.array(stored(np.ascontiguousarray(payload).reshape(-1)))
    return pyarrow.ListArray.from_arrays(pyarrow.array(ends), flat)


def payload_of(column: "pyarrow.Array", alphabet: Alphabet) -> NDArray[Any]:
    """The messages that a column holds."""
    from pyarrow import types

    width, kind, numbers = len(alphabet.columns), column.type, column
    many = types.is_list(kind) or types.is_large_list(kind)
    if many:
        numbers = column.flatten()
    fits = many == (width > 1) and types.is_integer(numbers.type)
    if not fits or column.null_count or numbers.null_count or len(numbers) != width * len(column):
        raise InvalidValue(
            f"every message must be {counted(width, 'whole number')}, and none may be missing, "
            f"got {kind}"
        )
    if many and not column.value_lengths().unique().equals(_lengths(width, len(column))):
        raise InvalidValue(
            f"every message must be {counted(width, 'whole number')}, got messages of other lengths"
        )
    payload = restored(numbers.to_numpy(zero_copy_only=False), alphabet.dtype)
    return payload.reshape(-1, width) if width > 1 else payload


def _lengths(width: int, rows: int) -> "pyarrow.Array":
    import pyarrow

    return pyarrow.array([width] if rows else [], type=pyarrow.int32())
