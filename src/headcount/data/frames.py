"""Reads rows from data in memory and from streams: data frames, arrays and iterables."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from headcount.core.errors import InvalidValue, UnreadableData
from headcount.data.columns import is_text
from headcount.data.objects import of_objects
from headcount.data.rows import Batch, Kinds, Rows, unreadable

if TYPE_CHECKING:
    import pyarrow

DATA = "the data"
_BATCH = 2**17  # how many rows of a data frame are read at a time
_CHUNK = 2**16  # how many Python objects are read at a time
VALUE = "value"  # the name of the column if the data have no column names


class FrameRows(Rows):
    """Rows of a data frame of any kind. The function `stream` takes names of columns, and returns
    these columns as Arrow batches.
    """

    def __init__(
        self,
        columns: Sequence[str],
        stream: "Callable[[list[str]], Iterable[pyarrow.RecordBatch]]",
        count: int | None = None,
        name: str = DATA,
    ) -> None:
        self.name, self._columns, self._stream, self._count = name, list(columns), stream, count

    @property
    def columns(self) -> Sequence[str]:
        return self._columns

    def _batches(self, columns: Sequence[str], kinds: Kinds) -> Iterator[Batch]:
        read = 0
        for batch in self._stream(list(columns)):
            read += batch.num_rows
            yield batch.select(list(columns)), read / max(1, self._count or 2 * read)


class StreamRows(FrameRows):
    """Rows of a stream that can be read only once."""

    again = False


def pandas_rows(data: Any) -> Rows:
    import pyarrow

    frame = data.to_frame() if data.ndim == 1 else data
    frame = frame.rename(columns=lambda name: VALUE if name is None else str(name))

    def stream(columns: list[str]) -> Any:
        table = pyarrow.Table.from_pandas(frame[columns], preserve_index=False)
        for at, name in enumerate(columns):
            held = getattr(frame[name].dtype, "categories", frame[name]).dtype
            if held.kind == "O" and not _of_text(table.schema.field(at).type):
                table = table.set_column(at, name, of_objects(frame[name].tolist()))
        return table.to_reader(max_chunksize=_BATCH)

    return FrameRows([*frame.columns], stream, len(frame))


def _of_text(kind: "pyarrow.DataType") -> bool:
    from pyarrow import types

    return is_text(kind.value_type if types.is_dictionary(kind) else kind)


def polars_rows(data: Any) -> Rows:
    if type(data).__name__ == "Series":
        data = data.to_frame(data.name or VALUE)
    if type(data).__name__ == "LazyFrame":
        return _lazy_rows(data)
    return FrameRows(
        data.columns,
        lambda columns: data.select(columns).to_arrow().to_reader(max_chunksize=_BATCH),
        len(data),
    )


def _lazy_rows(data: Any) -> Rows:
    from polars.exceptions import PolarsError

    def stream(columns: list[str]) -> Any:
        try:
            for frame in data.select(columns).collect_batches():
                yield from frame.to_arrow().to_batches(max_chunksize=_BATCH)
        except PolarsError as error:
            raise unreadable(DATA, error) from None

    try:
        return FrameRows(data.collect_schema().names(), stream)
    except PolarsError as error:
        raise unreadable(DATA, error) from None


def arrow_rows(data: Any) -> Rows:
    """Rows of pyarrow objects, and of other objects with the Arrow C stream interface."""
    import pyarrow

    if isinstance(data, pyarrow.Array | pyarrow.ChunkedArray):
        data = pyarrow.table({VALUE: data})
    if isinstance(data, pyarrow.RecordBatch):
        data = pyarrow.Table.from_batches([data])
    if isinstance(data, pyarrow.Table):
        return FrameRows(
            data.column_names,
            lambda columns: data.select(columns).to_reader(max_chunksize=_BATCH),
            data.num_rows,
        )
    reader = (
        data
        if isinstance(data, pyarrow.RecordBatchReader)
        else pyarrow.RecordBatchReader.from_stream(data)
    )
    # An object with the stream interface may not allow a second read.
    return StreamRows(reader.schema.names, lambda columns: reader)


def numpy_rows(data: Any) -> Rows:
    """Rows of a one-dimensional array, a structured array, or a mapping from names to arrays."""
    import pyarrow

    if isinstance(data, np.ndarray) and data.dtype.names:
        data = {name: data[name] for name in data.dtype.names}
    arrays = data if isinstance(data, Mapping) else {VALUE: data}
    arrays = {str(name): np.asanyarray(array) for name, array in arrays.items()}
    shapes = {array.shape for array in arrays.values()}
    if len(shapes) != 1 or len(next(iter(shapes))) != 1:
        raise InvalidValue(
            f"arrays must be one-dimensional and equally long, got shapes {sorted(shapes, key=str)}"
        )
    (rows,) = next(iter(shapes))

    def stream(columns: list[str]) -> Any:
        for start in range(0, rows, _BATCH):
            pieces = [_array(arrays[name][start : start + _BATCH]) for name in columns]
            yield pyarrow.RecordBatch.from_arrays(pieces, names=columns)

    return FrameRows([*arrays], stream, rows)


def _array(piece: np.ndarray[Any, Any]) -> "pyarrow.Array":
    import pyarrow

    if piece.dtype == np.bool_ and piece.view(np.uint8).max(initial=0) > 1:
        raise InvalidValue("true/false values must be stored as bytes of 0 or 1, got other bytes")
    mask = np.ma.getmaskarray(piece) if isinstance(piece, np.ma.MaskedArray) else None
    if piece.dtype.kind in "OT":
        return of_objects(np.ma.filled(piece, None).tolist())
    return pyarrow.array(np.asarray(piece), mask=mask)


def iterable_rows(data: Any) -> Rows:
    """Rows of an iterable. Its items are values, or mappings from column names to values."""
    import pyarrow

    once = isinstance(data, Iterator)
    given = iter(data)
    seen = list(islice(given, 1))
    start, first = chain(seen, given), seen[0] if seen else None
    records = isinstance(first, Mapping)
    names = [str(name) for name in first] if records else [VALUE]  # type: ignore[union-attr]

    def stream(columns: list[str]) -> Any:
        values = start if once else iter(data)
        while chunk := list(islice(values, _CHUNK)):
            if records:
                if not all(isinstance(row, Mapping) for row in chunk):
                    raise InvalidValue(
                        "rows must all be mappings if the first row is one, got another row"
                    )
                arrays = [of_objects([row.get(name) for row in chunk]) for name in columns]
            else:
                arrays = [of_objects(chunk)]
            yield pyarrow.RecordBatch.from_arrays(arrays, names=columns)

    kind = StreamRows if once else FrameRows
    return kind(names, stream, None if once or not hasattr(data, "__len__") else len(data))


def unknown(data: Any) -> UnreadableData:
    return UnreadableData(
        f"data must be a data frame, an array, an iterable, a file or a query, "
        f"got {type(data).__name__}"
    )
