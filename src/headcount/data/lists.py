"""Gives all lists of texts the same type, since packages store such lists in different ways."""

from typing import TYPE_CHECKING

import numpy as np

from headcount.data.columns import is_text

if TYPE_CHECKING:
    import pyarrow


def same_lists(batch: "pyarrow.RecordBatch") -> "pyarrow.RecordBatch":
    """The batch with lists of strings in place of other lists of texts: long lists, lists of a
    fixed size, views, and lists whose texts are long strings, views or entries of a dictionary.
    """
    import pyarrow

    goal = pyarrow.list_(pyarrow.string())
    for at, field in enumerate(batch.schema):
        if _holds_texts(field.type) and field.type != goal:
            batch = batch.set_column(at, field.name, _strings(batch.column(at)))
    return batch


def _strings(column: "pyarrow.Array") -> "pyarrow.Array":
    """The same lists as lists of strings. They are made anew from their texts, since a cast by
    Arrow takes the wrong texts from a slice of list views.
    """
    import pyarrow
    from pyarrow import compute  # slow to import

    sizes = compute.list_value_length(column).fill_null(0).to_numpy()
    ends = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
    return pyarrow.ListArray.from_arrays(
        pyarrow.array(ends, pyarrow.int32()),
        column.flatten().cast(pyarrow.string()),
        mask=column.is_null(),
    )


def _holds_texts(kind: "pyarrow.DataType") -> bool:
    """Whether the values of this type are lists of texts."""
    from pyarrow import types

    lists = (
        types.is_list,
        types.is_large_list,
        types.is_fixed_size_list,
        types.is_list_view,
        types.is_large_list_view,
    )
    if not any(is_kind(kind) for is_kind in lists):
        return False
    values = kind.value_type
    values = values.value_type if types.is_dictionary(values) else values
    return is_text(values) or bool(types.is_string_view(values))
