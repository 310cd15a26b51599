"""Encodes rows for a question: values become codes, and groups become numbers."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.cells import BETWEEN
from headcount.core.errors import InvalidValue
from headcount.data.columns import as_numpy, is_text, listed, names, plain
from headcount.data.hints import TRIM
from headcount.data.problems import Problems
from headcount.data.question import Question
from headcount.data.rows import Batch, Kind, Rows, readable
from headcount.road.people import Group

if TYPE_CHECKING:
    import pyarrow

MOST_GROUPS = 10_000


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """The encoded values of rows. If the question has persons or groups, each row also has the
    name of its person or the number of its group. The function `names` gives the names of persons
    as whole numbers or as text.
    """

    codes: NDArray[Any]
    persons: "pyarrow.Array | None" = None
    groups: NDArray[np.int64] | None = None

    @classmethod
    def joined(cls, pieces: "Sequence[EncodedRows]") -> "EncodedRows":
        import pyarrow

        persons = [piece.persons for piece in pieces if piece.persons is not None]
        groups = [piece.groups for piece in pieces if piece.groups is not None]
        return cls(
            np.concatenate([piece.codes for piece in pieces]),
            pyarrow.concat_arrays(persons) if persons else None,
            np.concatenate(groups) if groups else None,
        )

    def take(self, which: NDArray[np.intp]) -> "EncodedRows":
        return EncodedRows(
            self.codes[which],
            None if self.persons is None else self.persons.take(which),
            None if self.groups is None else self.groups[which],
        )

    def cut(self, start: int, stop: int) -> "EncodedRows":
        persons, groups = (
            None if array is None else array[start:stop] for array in (self.persons, self.groups)
        )
        return EncodedRows(self.codes[start:stop], persons, groups)

    @property
    def size(self) -> int:
        """The memory of all arrays, in bytes."""
        arrays = (self.codes, self.persons, self.groups)
        return sum(array.nbytes for array in arrays if array is not None)


@dataclass(eq=False)
class LeftOut:
    """Rows that do not count, since their value, person or group is missing.

    `rows` is the number of these rows that do not name a person. `persons` has the persons that the
    other rows name.
    """

    rows: int = 0
    persons: "list[pyarrow.Array]" = field(default_factory=list)

    def and_persons(self, persons: "Sequence[pyarrow.Array]") -> int:
        """The number of people in `persons` and in the rows that were left out, together. A row
        that was left out and names nobody counts as one person. In `persons`, all rows of a person
        must be in the same array.
        """
        import pyarrow
        from pyarrow import compute

        if not self.persons:
            return self.rows + sum(int(compute.count_distinct(some).as_py()) for some in persons)
        everybody = pyarrow.chunked_array([*persons, *self.persons])
        return self.rows + int(compute.count_distinct(everybody).as_py())


@dataclass(eq=False)
class Numbering:
    """Gives numbers to names, in the order in which the names first occur. If the numbering is
    `closed`, no names are added.
    """

    numbers: dict[Any, int] = field(default_factory=dict)
    closed: bool = False

    @classmethod
    def of_groups(cls, groups: "tuple[Group, ...] | None") -> "Numbering":
        """A numbering of the declared groups. None means that groups are added as they occur."""
        if groups is None:
            return cls()
        return cls({name: at for at, name in enumerate(groups)}, closed=True)

    @classmethod
    def of_found(cls, groups: "tuple[Group, ...]", question: Question) -> "Numbering":
        """A numbering of the groups in a census. It is empty if the question has no groups."""
        return cls.of_groups(None if question.group is None else groups)

    def of(self, column: "pyarrow.Array", title: str) -> tuple[NDArray[np.int64], list[Any]]:
        """The number of the name in each row, and a list of unknown names. Unknown names occur only
        if the numbering is closed. Their number is −1.
        """
        names, where = listed(column, title)
        if self.closed:  # names are compared as text, since text files have no types
            known = {str(name): at for name, at in self.numbers.items()}
            numbers = [known.get(str(name), -1) for name in names]
        else:
            numbers = [self.numbers.setdefault(name, len(self.numbers)) for name in names]
        strange = [name for name, at in zip(names, numbers, strict=True) if at < 0]
        return np.array(numbers, dtype=np.int64)[where], strange


@dataclass(eq=False)
class EncodedTable:
    """A table that is read and encoded, batch by batch. Values that do not fit are refused after
    the last batch.
    """

    rows: Rows
    question: Question
    groups: Numbering
    left_out: LeftOut = field(default_factory=LeftOut)
    _of_names: "pyarrow.DataType | None" = None  # the type of the names of persons

    def __iter__(self) -> Iterator[tuple[EncodedRows, float]]:
        """The encoded rows of each batch, and the share of all rows that has been read so far."""
        problems, first = Problems(), 0
        self.left_out = LeftOut()
        batches: Iterator[Batch] = self.rows.batches(self.question.columns, self._kinds)
        for batch, share in batches:
            with readable(self.rows.name):
                rows, new_problems = self._encoded(batch, first)
            problems += new_problems
            first += batch.num_rows
            if not problems.any and len(rows.codes):
                yield rows, share
        unit, cleaning = "person" if self.question.person is None else "row", self.question.cleaning
        # A hint from values may reveal them. If values must stay, the hint is from settings alone.
        hint = cleaning.fix if self.question.values_stay else cleaning.hint(problems.texts)
        problems.refuse(cleaning.allowed, unit, hint)

    @property
    def _kinds(self) -> dict[str, Kind]:
        """The kinds of columns to expect in files without types. Names of persons and groups are
        read as text, even if the names look like numbers.
        """
        return self.question.cleaning.kinds | dict.fromkeys(self.question.public, "text")

    def _encoded(self, batch: "pyarrow.RecordBatch", first: int) -> tuple[EncodedRows, Problems]:
        """The rows that count in a batch, and the batch's problems. `first` is the number of rows
        before the batch.
        """
        question = self.question
        cleaned = question.cleaning.clean_batch(batch, first)
        codes, kept = cleaned.codes, cleaned.kept
        batch = self._with_nulls(batch)
        if not question.public:
            self.left_out.rows += batch.num_rows - len(codes)
            return EncodedRows(codes), cleaned.problems
        here = self._named(batch, first)
        if here is not None:
            codes = codes[here if kept is None else here[kept]]
            kept = here if kept is None else kept & here
        if kept is not None:
            self._leave_out(batch.filter(~kept))
            batch = batch.filter(kept)
        person, group = question.person, question.group
        by = [batch.column(name) for name in question.group_columns]
        persons = None if person is None else self._persons(batch.column(person), person)
        groups = None if group is None else self._groups(by, group)
        return EncodedRows(codes, persons, groups), cleaned.problems

    def _with_nulls(self, batch: "pyarrow.RecordBatch") -> "pyarrow.RecordBatch":
        """The batch with nulls in place of words that mean that the person or group is missing.
        Blanks around the names are removed if they are ignored.
        """
        reading = self.question.cleaning.reading
        for name in self.question.public if reading.changes_texts else ():
            at = batch.schema.get_field_index(name)
            batch = batch.set_column(at, name, reading.with_nulls(plain(batch.column(at))))
        return batch

    def _named(self, batch: "pyarrow.RecordBatch", first: int) -> NDArray[np.bool_] | None:
        """A mask of the rows that name their person and group, or None if all rows do. A missing
        name is an error, unless rows with missing values are left out.
        """
        here = None
        for name in self.question.public:
            column = batch.column(name)
            if not column.null_count:
                continue
            there: NDArray[np.bool_] = as_numpy(column.is_valid())
            if not self.question.cleaning.dropping:
                at = first + int(np.argmin(there)) + 1
                raise InvalidValue(
                    f"every row must have a value in column {name!r}, got none in row {at}",
                    hint="missing='drop' (--missing drop) leaves such rows out",
                )
            here = there if here is None else here & there
        return here

    def _leave_out(self, batch: "pyarrow.RecordBatch") -> None:
        if self.question.person is None:
            self.left_out.rows += batch.num_rows
            return
        column = batch.column(self.question.person)
        self.left_out.rows += column.null_count
        persons = self._persons(column.drop_null(), self.question.person)
        self.left_out.persons.append(persons.unique())

    def _persons(self, column: "pyarrow.Array", title: str) -> "pyarrow.Array":
        self._check_names(plain(column), title)
        found = names(column, title)
        self._of_names = self._of_names or found.type
        if found.type != self._of_names:
            raise InvalidValue(f"column {title!r} must hold text or whole numbers, got both")
        return found

    def _groups(self, columns: "list[pyarrow.Array]", title: str) -> NDArray[np.int64]:
        for name, one in zip(self.question.group_columns, columns, strict=True):
            self._check_names(plain(one), name)
        column = columns[0] if len(columns) == 1 else _combined(columns)
        numbers, strange = self.groups.of(column, title)
        if strange:
            known = checks.few([repr(name) for name in self.groups.numbers])
            raise InvalidValue(
                f"every group must be one of {known}, got {checks.shown(strange[0])}",
                hint=TRIM if bare_name(strange[0]) in map(str, self.groups.numbers) else "",
            )
        if len(self.groups.numbers) > MOST_GROUPS:
            raise InvalidValue(
                f"there must be at most {MOST_GROUPS:,} groups, got more in column {title!r}"
            )
        return numbers

    def _check_names(self, column: "pyarrow.Array", title: str) -> None:
        from pyarrow import types

        kind = column.type
        kind = kind.value_type if types.is_dictionary(kind) else kind
        if not (is_text(kind) or types.is_integer(kind) or types.is_boolean(kind)):
            raise InvalidValue(f"column {title!r} must hold text or whole numbers, got {kind}")


def _combined(columns: "list[pyarrow.Array]") -> "pyarrow.Array":
    """A name for each row, which joins the row's values in several columns."""
    import pyarrow
    from pyarrow import compute

    texts = [plain(column).cast(pyarrow.large_string()) for column in columns]
    return compute.binary_join_element_wise(*texts, pyarrow.scalar(BETWEEN, pyarrow.large_string()))


def group_name(group: Any) -> Any:
    """The name of a group. If `group` lists the values of several columns, they are joined."""
    listed = isinstance(group, list | tuple)
    return BETWEEN.join(map(str, group)) if listed else group


def bare_name(group: Group) -> str:
    """The name of a group without blanks around it, or around the values of several columns."""
    return BETWEEN.join(part.strip() for part in str(group).split(BETWEEN))


def check_blanks(groups: "Iterable[Group]") -> None:
    """Refuse groups whose names differ only in blanks around them."""
    names: dict[str, Group] = {}
    for group in groups:
        other = names.setdefault(bare_name(group), group)
        if other is not group:
            raise InvalidValue(
                f"groups must differ in more than blanks around their names, got {other!r} and "
                f"{group!r}",
                hint=TRIM,
            )


def group_order(names: "Iterator[Group] | list[Group]") -> list[Group]:
    """Groups in the order in which they are shown: first numbers, then words, both sorted."""
    return sorted(names, key=lambda name: (isinstance(name, str), name))
