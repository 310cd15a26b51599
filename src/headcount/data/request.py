"""The settings of an estimate. All of them are checked before any row is read."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from os import PathLike
from typing import TYPE_CHECKING, Any

from headcount.core import checks
from headcount.core.budget import Budget, Crowd, Trust
from headcount.core.cached import cached_property
from headcount.core.errors import InvalidParameter
from headcount.core.protocol import Protocol
from headcount.core.source import Source
from headcount.core.task import Task
from headcount.data.cleaning import Cleaning, Fill
from headcount.data.dialect import Dialect
from headcount.data.encoded_rows import group_name, group_order
from headcount.data.engine import Engine
from headcount.data.honesty import Honest, check_honest
from headcount.data.local import LocalEngine
from headcount.data.question import Question
from headcount.data.reading import Reading
from headcount.data.several_columns import cleaning_of
from headcount.data.sources import rows_of
from headcount.data.written import TableSettings, Written
from headcount.planner.best import best_protocol
from headcount.protocols.registry import protocol as protocol_by_name
from headcount.protocols.registry import protocol_class
from headcount.randomness.sources import SecureSource
from headcount.road.people import Group

if TYPE_CHECKING:
    from headcount.ledger.ledger import Ledger

MOST_ROWS_PER_PERSON = 1000


def _spark_engine() -> Engine:
    from headcount.data.spark import SparkEngine

    return SparkEngine()


ENGINES: dict[str, Callable[[], Engine]] = {"local": LocalEngine, "spark": _spark_engine}


class Settings(TableSettings, total=False):
    """The keyword arguments of `estimate` that do not change the type of the answer. `estimate`
    documents them.
    """

    column: str | Sequence[str] | None
    budget: Budget | None
    trust: Trust | str | None
    protocol: str | Protocol | None
    options: Mapping[str, Any] | None
    honest: Honest
    query: str | None
    missing: Fill
    outside: str
    bins: Sequence[float | str] | None
    period: str | None
    person: str | None
    rows_per_person: int
    groups: Sequence[Group | Sequence[Group]] | None
    engine: str | Engine | None
    source: Source | None
    progress: Callable[[str, float], None]


class ChargedSettings(Settings, total=False):
    """The settings, and the keyword arguments of `estimate` that say what to charge."""

    ledger: "Ledger | str | PathLike[str] | None"
    dataset: str | None
    once: str | None


@dataclass(frozen=True, eq=False)
class Request:
    """The settings of an estimate, as the caller gave them. `estimate` documents them."""

    data: Any = None
    task: Task | None = None
    column: str | Sequence[str] | None = None
    budget: Budget | None = None
    trust: Trust | str | None = None
    protocol: str | Protocol | None = None
    options: Mapping[str, Any] | None = None
    honest: Honest = None
    query: str | None = None
    missing: Fill = "error"
    outside: str = "error"
    bins: Sequence[float | str] | None = None
    separator: str | None = None
    quote: str = '"'
    encoding: str | None = None
    sheet: str | None = None
    header_row: int | None = None
    decimal: str = "."
    thousands: str | None = None
    date_format: str | None = None
    trim: bool = False
    na: str | Sequence[str] | None = None
    yes: str | Sequence[str] | None = None
    no: str | Sequence[str] | None = None
    period: str | None = None
    person: str | None = None
    rows_per_person: int = 1
    group: str | Sequence[str] | None = None
    groups: Sequence[Group | Sequence[Group]] | None = None
    engine: str | Engine | None = None
    source: Source | None = None
    progress: Callable[[str, float], None] = lambda step, share: None

    @classmethod
    def of(cls, data: Any, task: Task | None, settings: Mapping[str, Any]) -> "Request":
        """Create a request with these settings, and check the settings."""
        known = {field.name for field in fields(cls)} - {"data", "task"}
        for name in settings:
            if name not in known:
                raise TypeError(f"estimate() got an unexpected keyword argument {name!r}")
        request = cls(data, task, **settings)
        request.check()
        return request

    def check(self) -> None:
        """Refuse settings that do not fit together. The most basic settings are checked first."""
        _ = self.spendable
        rows = checks.whole(
            "rows_per_person", self.rows_per_person, low=1, high=MOST_ROWS_PER_PERSON
        )
        if rows > 1 and (self.person is None or self.built is not None):
            raise InvalidParameter(
                f"`rows_per_person` above 1 must come with `person` and without a protocol object, "
                f"got {rows}"
            )
        _ = self.random_bits
        checks.instance("options", self.options or {}, Mapping)
        if self.built is not None and self.built.task != self.question.task:
            raise InvalidParameter(
                f"the task must be the same as the task of the protocol, {self.built.task}, "
                f"got {self.question.task}"
            )
        check_honest(self.honest, self.question)

    @property
    def built(self) -> Protocol | None:
        """The protocol, if the caller gave a protocol object."""
        return self.protocol if isinstance(self.protocol, Protocol) else None

    @cached_property
    def spendable(self) -> Budget:
        """The budget that was given, or the budget of the protocol object."""
        if self.built is not None:
            if self.budget is not None:
                raise InvalidParameter(
                    "`budget` must not be given with a protocol object, got both"
                )
            return self.built.budget
        if self.budget is None:
            raise InvalidParameter("`budget` must be given, got none")
        checks.instance("budget", self.budget, Budget)
        return self.budget

    @cached_property
    def random_bits(self) -> Source:
        """The source of random bits. If none was given, a secure source is used."""
        source = SecureSource() if self.source is None else self.source
        checks.instance("source", source, Source)
        return source

    @cached_property
    def place(self) -> Engine:
        """The engine that was asked for, or else the engine that fits the data."""
        if isinstance(self.engine, Engine):
            return self.engine
        name = self.engine
        if name is None:
            # Checking the name of the module avoids importing Spark for other data.
            name = "spark" if type(self.data).__module__.startswith("pyspark.") else "local"
        return ENGINES[checks.choice("engine", name, list(ENGINES))]()

    @cached_property
    def _written(self) -> Written:
        return Written.of(
            separator=self.separator, quote=self.quote, encoding=self.encoding, sheet=self.sheet,
            header_row=self.header_row, decimal=self.decimal, thousands=self.thousands,
            date_format=self.date_format, trim=self.trim, na=self.na, yes=self.yes, no=self.no,
            period=self.period,
        )  # fmt: skip

    @property
    def reading(self) -> Reading:
        """How the column is read."""
        return self._written.rules

    @property
    def dialect(self) -> Dialect:
        """How files are written."""
        return self._written.dialect

    @cached_property
    def rows(self) -> Any:
        """The rows, in the form that the engine needs."""
        if isinstance(self.place, LocalEngine):
            return rows_of(self.data, self.query, self.dialect)
        self.dialect.check_matters(f"the engine {self.place.name}")
        if self.query is not None:
            raise InvalidParameter(
                f"`query` must come with the local engine, got {self.place.name}"
            )
        return self.data

    @cached_property
    def who_is_trusted(self) -> Trust:
        """The given trust model, or else the trust model of the protocol, or else central trust."""
        asked = self.trust
        if asked is not None:
            asked = Trust(checks.choice("trust", asked, list(Trust)))
        if self.protocol is None:
            return asked or Trust.CENTRAL
        named = self.built or protocol_class(str(self.protocol))
        if asked not in (None, named.trust):
            raise InvalidParameter(
                f"`trust` must be {named.trust} for the protocol {named.name}, got {asked}"
            )
        return named.trust

    @cached_property
    def question(self) -> Question:
        """The question about the table, which has all information that an engine needs."""
        rows, place = self.rows, self.place
        column = self.column
        if column is None and isinstance(place, LocalEngine):
            column = rows.only_column()
        if column is None:
            raise InvalidParameter(f"`column` must be given for the engine {place.name}, got none")
        if not isinstance(column, Iterable):
            raise InvalidParameter(
                f"`column` must be the name of a column or a list of names, got {column!r}",
                hint=f"names are text, such as {str(column)!r}",
            )
        return Question(
            self._cleaning(column),
            self.person,
            int(self.rows_per_person),
            self._group_columns,
            self._declared_groups,
            values_stay=place.remote and self.who_is_trusted is not Trust.CENTRAL,
        )

    def _cleaning(self, column: str | Sequence[str]) -> Cleaning:
        task = self.task
        named = self.bins is not None or self.period is not None
        if self.built is not None and task is None and not named:
            task = self.built.task
        made = cleaning_of(
            column,
            task,
            missing=self.missing,
            outside=self.outside,
            bins=self.bins,
            reading=self.reading,
        )
        return made.of_table(self.rows.name) if isinstance(self.place, LocalEngine) else made

    @property
    def _group_columns(self) -> tuple[str, ...]:
        """The names of the columns that define the groups."""
        if self.group is None or isinstance(self.group, str):
            return () if self.group is None else (self.group,)
        names = list(self.group) if isinstance(self.group, Sequence) else []
        words = all(isinstance(name, str) for name in names)
        if not names or not words or len({*names}) != len(names):
            raise InvalidParameter(
                f"`group` must be a column or a list of columns, got {checks.shown(self.group)}"
            )
        return tuple(names)

    @property
    def _declared_groups(self) -> tuple[Group, ...] | None:
        if self.groups is None:
            return None
        listed = isinstance(self.groups, Sequence) and not isinstance(self.groups, str)
        names = [group_name(name) for name in self.groups] if listed else []
        words = all(isinstance(name, str) or _is_number(name) for name in names)
        different = words and len({str(name) for name in names}) == len(names)
        if self.group is None or not names or not different:
            raise InvalidParameter(
                f"`groups` must come with `group` and be distinct words or whole numbers, "
                f"got {checks.shown(self.groups)}"
            )
        return tuple(group_order(names))

    def build(self, budget: Budget, crowd: Crowd) -> Protocol:
        """The protocol for a crowd: the caller's protocol object, or the protocol with the given
        name, or else the best protocol.
        """
        if self.built is not None:
            return self.built
        options = self.options or {}
        if self.protocol is not None:
            return protocol_by_name(
                str(self.protocol), self.question.task, budget, crowd, **options
            )
        if options:
            raise InvalidParameter(f"`{next(iter(options))}` must come with a protocol, got none")
        return best_protocol(self.question.task, budget, crowd, self.who_is_trusted)


def _is_number(name: object) -> bool:
    """Whether the name of a group is a whole number of at most 64 bits."""
    return isinstance(name, int) and abs(name) < 2**64
