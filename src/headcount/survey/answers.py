"""People's answers as tables have them: a row for each person, and a column for each question.

Empty cells, missing values and NaN mean "no answer".
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.errors import InvalidParameter, InvalidValue
from headcount.data.hints import hint_for
from headcount.data.reading import Reading
from headcount.data.rows import Kind
from headcount.data.sources import rows_of
from headcount.data.written import USUAL, Written

NO_ANSWER = "no answer"
_NOTHING = ("", NO_ANSWER)
YES = ("yes", "y", "true", "1", "1.0")
NO = ("no", "n", "false", "0", "0.0")


class Asked(Protocol):
    """The properties of a question that are needed to read its answers."""

    @property
    def id(self) -> str: ...
    @property
    def optional(self) -> bool: ...
    @property
    def allowed(self) -> str: ...
    @property
    def boxes(self) -> tuple[str, ...]:
        """The labels of the boxes, if people tick boxes."""

    @property
    def of_numbers(self) -> bool:
        """Whether answers are numbers."""

    @property
    def yes_or_no(self) -> bool:
        """Whether answers are yes and no."""


@dataclass(frozen=True, eq=False)
class Given:
    """Answers in any form. For each row, `rows` has the index of its answer in `distinct`."""

    distinct: list[Any]
    rows: NDArray[np.intp]

    @classmethod
    def of(cls, answers: Any) -> "Given":
        """The answers of a list, an array, a column of a data frame, or an Arrow column."""
        if isinstance(answers, cls):
            return answers
        column = answers.combine_chunks() if hasattr(answers, "combine_chunks") else answers
        if hasattr(column, "dictionary_encode") and not _is_nested(column):
            encoded = column.dictionary_encode()
            places = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy()
            return cls([*encoded.dictionary.to_pylist(), None], places.astype(np.intp))
        as_list = next((name for name in ("to_pylist", "tolist") if hasattr(column, name)), "")
        listed = getattr(column, as_list)() if as_list else list(column)
        # 1 and 1.0 are equal keys in Python, but they may be different answers.
        keys = [(type(key), key) for key in map(_key, listed)]
        found: dict[Any, int] = {}
        places = np.array([found.setdefault(key, len(found)) for key in keys], dtype=np.intp)
        return cls([key for _, key in found], places)

    def numbered(self, question: Asked, words: Mapping[str, int]) -> NDArray[np.int64]:
        """The number that `words` gives to each answer. In an optional question, "no answer" gets
        the number after the largest of these.
        """
        skipped = 1 + max(words.values()) if question.optional else None
        return self.coded(question, lambda answer: words.get(_word(answer)), skipped)

    def coded(
        self, question: Asked, code: Callable[[Any], int | None], skipped: int | None
    ) -> NDArray[np.int64]:
        """The code of each answer, and `skipped` for rows without an answer.

        An answer is refused if its code is None. A row without an answer is refused if `skipped` is
        None.
        """
        codes = [skipped if _is_missing(one) else code(one) for one in self.distinct]
        found = np.array([-1 if one is None else one for one in codes], dtype=np.int64)[self.rows]
        if len(found) and found.min() < 0:
            row = int(np.argmax(found < 0))
            raise wrong_answer(question, self.distinct[self.rows[row]], row)
        return found


def columns_of(questions: Sequence[Asked], data: Any, written: Written = USUAL) -> dict[str, Any]:
    """The column of answers of each question: from a mapping, a data frame, a file, or Arrow data.

    A mapping has one entry for each question, under its id. In a table, the answers to a question
    with boxes may be one column of labels that are separated by semicolons, or one column
    `id.label` for each box, which holds yes or no. `written` says how the table is written.
    """
    rules = written.rules
    if isinstance(data, Mapping):
        for question in questions:
            if question.id not in data:
                raise InvalidValue(f"there must be answers to question {question.id!r}, got none")
        written.dialect.check_matters("other data")
        return {one.id: _read(one, data[one.id], rules) for one in questions}
    rows = rows_of(data, dialect=written.dialect)
    wanted = wanted_columns(questions, rows.columns)
    kinds: dict[str, Kind] = dict.fromkeys(wanted, "text")
    kinds |= {one.id: "real" for one in questions if one.of_numbers}
    table = _table([batch for batch, _ in rows.batches(wanted, kinds)], wanted)
    found: dict[str, Any] = {}
    for question in questions:
        if question.id in table.column_names:
            found[question.id] = _read(question, table.column(question.id), rules)
        else:
            columns = {box: table.column(f"{question.id}.{box}") for box in question.boxes}
            found[question.id] = _ticked(question, columns, rules)
    return found


def _read(question: Asked, column: Any, rules: Reading) -> Any:
    """The same answers, read by `rules`: which words mean yes, no or a missing value, and how
    numbers are written.
    """
    if rules == USUAL.rules:
        return column
    given = Given.of(column)
    meant = [None if _is_absent(one, rules) else one for one in given.distinct]
    if question.yes_or_no and rules.yes:
        said = {"true": 1, "false": 0} | dict.fromkeys(rules.yes, 1) | dict.fromkeys(rules.no, 0)
        known = _Column(question.id, allowed=rules.allowed)
        codes = Given(meant, given.rows).coded(known, lambda one: said.get(_said(one)), 2)
        return Given(["no", "yes", None], codes)
    if question.of_numbers and rules.parses:
        meant = _parsed(question, Given(meant, given.rows), rules)
        meant = [None if _is_absent(one, rules) else one for one in meant]
    return Given(meant, given.rows)


def _parsed(question: Asked, given: Given, rules: Reading) -> list[Any]:
    """The distinct answers, with numbers in place of the texts that state them."""
    import pyarrow

    found = list(given.distinct)
    places = [at for at, one in enumerate(found) if isinstance(one, str) and not _is_missing(one)]
    texts = pyarrow.array([found[at] for at in places], pyarrow.string())
    first = rules.first_unparsed(texts)
    if first < len(texts):
        at = places[first]
        error = wrong_answer(question, found[at], int(np.argmax(given.rows == at)))
        error.hint = error.hint or hint_for(error.word, counting=False)
        raise error
    for at, number in zip(places, rules.parsed(texts).to_pylist(), strict=True):
        found[at] = number
    return found


def _is_absent(answer: Any, rules: Reading) -> bool:
    """Whether the rules say that the answer means a missing value."""
    if isinstance(answer, str):
        return answer.strip() in rules.na
    number = isinstance(answer, int | float) and not isinstance(answer, bool)
    return number and answer in rules.absent_numbers


def _said(answer: Any) -> str:
    """The answer as a word in lower case, in which 1.0 is the same as 1."""
    if isinstance(answer, float) and answer.is_integer():
        answer = int(answer)
    return _word(answer).lower()


def wanted_columns(questions: Sequence[Asked], names: Collection[str]) -> list[str]:
    """The columns that have the answers, in a table whose columns are `names`."""
    wanted: list[str] = []
    for question in questions:
        boxes = [f"{question.id}.{label}" for label in question.boxes]
        parted = question.id not in names and any(box in names for box in boxes)
        wanted += boxes if parted else [question.id]
    return wanted


def with_names(
    questions: Sequence[Asked], data: Any, column: str, written: Written
) -> tuple[dict[str, Any], list[Any]]:
    """The columns of answers, and the names of people in another column of the same table."""
    if column in [one.id for one in questions]:
        raise InvalidParameter(
            f"`people` must be a column without answers, got {column!r}, which is a question"
        )
    columns = columns_of([*questions, _Column(column)], data, written)
    given = Given.of(columns.pop(column))
    missing = np.array([_is_missing(name) for name in given.distinct])[given.rows]
    if missing.any():
        raise InvalidValue(
            f"the column {column!r} must have a name for each person, got none "
            f"(row {int(np.argmax(missing)) + 1})"
        )
    listed = [name.strip() if isinstance(name, str) else name for name in given.distinct]
    return columns, [listed[at] for at in given.rows.tolist()]


def _table(batches: Sequence[Any], wanted: Sequence[str]) -> Any:
    import pyarrow

    if not batches:
        return pyarrow.table({name: pyarrow.array([], pyarrow.string()) for name in wanted})
    return pyarrow.concat_tables(
        [pyarrow.Table.from_batches([batch]) for batch in batches], promote_options="permissive"
    )


def _ticked(question: Asked, columns: Mapping[str, Any], rules: Reading) -> list[str | None]:
    """The labels of the boxes that each person ticked, with semicolons between them. A person whose
    cells are all empty gets None. Anybody else who ticked no box gets a semicolon.
    """
    ticks, empty = [], []
    for label, column in columns.items():
        box = _Column(f"{question.id}.{label}", yes_or_no=True)
        given = Given.of(_read(box, column, rules))
        codes = given.coded(box, _tick, 0)
        ticks.append(np.where(codes > 0, label, ""))
        missing = np.array([_is_missing(one) for one in given.distinct])
        empty.append(missing[given.rows])
    none = np.all(empty, axis=0)
    lines = zip(*(each.tolist() for each in ticks), strict=True)
    return [
        None if nothing else ";".join(filter(None, line)) or ";"
        for line, nothing in zip(lines, none.tolist(), strict=True)
    ]


@dataclass(frozen=True)
class _Column:
    """Stands for a question when a column is read: for one box of a question, for people's names,
    or for a yes-no question whose words for yes and no are given.
    """

    id: str
    optional: bool = True
    allowed: str = "with yes or no"
    boxes: tuple[str, ...] = ()
    of_numbers: bool = False
    yes_or_no: bool = False


def _tick(answer: Any) -> int | None:
    word = _word(answer).lower()
    return 1 if word in YES else 0 if word in NO else None


def numbers_given(
    question: Asked, answers: Any, low: float, high: float, *, whole: bool
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The answers as numbers, and which rows have no answer. These rows get the number `low`."""
    numbers = None if isinstance(answers, Given) else _floats(answers)
    if numbers is None:  # some answers are text
        given = Given.of(answers)
        numbers = np.array([_number(answer) for answer in given.distinct])[given.rows]
    skipped = np.isnan(numbers)
    wrong = (numbers < low) | (numbers > high) | (whole & (numbers != np.floor(numbers)) & ~skipped)
    wrong |= skipped & (not question.optional)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise wrong_answer(question, _at(answers, row), row)
    return np.where(skipped, low, numbers), skipped


class WrongAnswer(InvalidValue):
    """The error for an answer that does not fit its question. `word` is the answer, if it is text.
    `discreet` is a message that does not show the answer.
    """

    discreet: str = ""
    word: str = ""


def wrong_answer(question: Asked, answer: Any, row: int) -> WrongAnswer:
    got = NO_ANSWER if _is_missing(answer) else checks.shown(answer)
    hint = "write optional = true if people may leave it out" if got == NO_ANSWER else ""
    must = f"question {question.id!r} must be answered {question.allowed}, got"
    error = WrongAnswer(f"{must} {got} (row {row + 1})", hint=hint)
    error.discreet = f"{must} {NO_ANSWER if hint else 'something else'} in a row"
    error.word = answer if isinstance(answer, str) else ""
    return error


def _floats(answers: Any) -> NDArray[np.float64] | None:
    """The answers as floats, with NaN for missing answers. The result is None if some answers are
    not numbers.
    """
    column = answers.combine_chunks() if hasattr(answers, "combine_chunks") else answers
    if hasattr(column, "dictionary_encode"):
        from pyarrow import types

        if not (types.is_integer(column.type) or types.is_floating(column.type)):
            return None
        column = column.to_numpy(zero_copy_only=False)
    listed = list(column) if not hasattr(column, "__len__") else column
    try:
        array = np.asarray(listed)
    except ValueError:
        return None
    return array.astype(np.float64) if array.ndim == 1 and array.dtype.kind in "iuf" else None


def _number(answer: Any) -> float:
    """The answer as a number: NaN if it is missing, and infinite if it is not a number."""
    if _is_missing(answer):
        return math.nan
    try:
        number = math.inf if isinstance(answer, bool) else float(answer)
    except (TypeError, ValueError):
        return math.inf
    return math.inf if math.isnan(number) else number


def _is_missing(answer: Any) -> bool:
    if isinstance(answer, str):
        return answer.strip() in _NOTHING
    return answer is None or (isinstance(answer, float) and math.isnan(answer))


def _word(answer: Any) -> str:
    """The answer as a word. Whole numbers and booleans become words, too."""
    return str(answer).strip()


def _is_nested(column: Any) -> bool:
    """Whether the answers of an Arrow column are lists or records."""
    from pyarrow import types

    return bool(types.is_nested(column.type))


def _key(answer: Any) -> Any:
    """The answer as a key of a dictionary. True becomes a text, since it would be equal to 1."""
    if isinstance(answer, list | tuple | set | frozenset):
        return tuple(answer)
    return str(answer) if isinstance(answer, bool | dict) else answer


def _at(answers: Any, row: int) -> Any:
    found = answers[row] if isinstance(answers, list | tuple | np.ndarray) else Given.of(answers)
    if isinstance(found, Given):
        return found.distinct[found.rows[row]]
    return found.as_py() if hasattr(found, "as_py") else found
