"""Estimates a private answer from a table of any kind."""

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, NoReturn, Unpack, overload

from headcount.core import checks
from headcount.core.budget import Crowd
from headcount.core.errors import HeadcountError, InvalidParameter, InvalidValue
from headcount.core.estimate import Estimate
from headcount.core.protocol import check_crowd
from headcount.core.source import check_secure
from headcount.core.table import counted_people
from headcount.core.task import Task
from headcount.core.work import check_work
from headcount.data.cautions import cautions
from headcount.data.encoded_rows import check_blanks
from headcount.data.engine import Crowds
from headcount.data.group_privacy import row_budget
from headcount.data.grouped import GroupedEstimate
from headcount.data.honesty import Honesty
from headcount.data.release import SHARE, Release, drawn_at_once, joint, release
from headcount.data.request import ChargedSettings, Request, Settings
from headcount.randomness.sources import this_process
from headcount.road.memory import check_memory
from headcount.road.people import Group
from headcount.road.road import Bits, Route, walk

if TYPE_CHECKING:
    from headcount.core.distribution import DistributionEstimate
    from headcount.core.quantiles import QuantilesEstimate
    from headcount.core.tasks.distribution import Distribution
    from headcount.core.tasks.quantiles import Quantiles
    from headcount.core.tasks.table import Table
    from headcount.core.two_way import TableEstimate
    from headcount.ledger.entry import Entry
    from headcount.ledger.ledger import Ledger

_log = logging.getLogger(__name__)

# Parts of the source of random bits. Part 0 chooses which rows of each person are used. The parts
# from 1 on are for the protocol (see `Bits.of`).
_CHOICE, _PROTOCOL = 0, 1


@overload
def estimate(
    data: Any,
    task: "Table",
    *,
    group: None = None,
    **settings: Unpack[ChargedSettings],
) -> "TableEstimate": ...
@overload
def estimate(
    data: Any,
    task: "Quantiles",
    *,
    group: None = None,
    **settings: Unpack[ChargedSettings],
) -> "QuantilesEstimate": ...
@overload
def estimate(
    data: Any,
    task: "Distribution",
    *,
    group: None = None,
    **settings: Unpack[ChargedSettings],
) -> "DistributionEstimate": ...
@overload
def estimate(
    data: Any = None,
    task: Task | None = None,
    *,
    group: None = None,
    **settings: Unpack[ChargedSettings],
) -> Estimate: ...
@overload
def estimate(
    data: Any = None,
    task: Task | None = None,
    *,
    group: str | Sequence[str],
    **settings: Unpack[ChargedSettings],
) -> GroupedEstimate: ...
def estimate(
    data: Any = None,
    task: Task | None = None,
    *,
    group: str | Sequence[str] | None = None,
    ledger: "Ledger | str | PathLike[str] | None" = None,
    dataset: str | None = None,
    once: str | None = None,
    **settings: Unpack[Settings],
) -> Estimate | GroupedEstimate:
    """A private answer about a column of a table.

        estimate(frame, Mean(0, 120), column="age", budget=Budget(1))
        estimate("people/*.parquet", bins=[0, 18, 65, 120], column="age", budget=Budget(1))
        estimate(query="SELECT smoker FROM 'people.csv'", task=Count(), budget=Budget(1))

    data      a data frame of pandas, polars or Spark, any Arrow data, NumPy arrays, an iterable, a
              DuckDB relation, an SQL query, the path of a file or folder, or a pattern of
              paths (CSV, Parquet, JSON lines, Feather, Excel). A query can also come as `query`.
    task      the question. Leave it out if you give `period` or `bins`. `bins` are the edges of
              buckets for numbers.
    ledger    a ledger, or the path or URL of one. The release is charged to `dataset` in this
              ledger before it is made. A release that would exceed the dataset's limit is refused.
    once      a name of the release. The dataset is charged at most once under this name. If it
              was charged before, `AlreadyCharged` is raised, and nothing is charged or released.

    All settings are keyword arguments:

    column    the column that the question is about, or a list of columns for a two-way table or for
              boxes. It may be omitted if the data have only one column.
    budget    ε and δ. Leave it out if you give a protocol object, which has its own budget.
    trust     central, local or shuffle. The default is central.
    protocol  the name of a protocol, or a protocol object. With a name, `options` are the
              protocol's options. The default is the protocol with the least error.
    honest    how many people in the table are sure to follow the protocol. The default is
              everybody. In shuffle trust, guarantees rely only on honest people. The guarantee of
              each group allows for the case that all dishonest people are in this group. Without
              `person`, `honest` may be a mapping with a number for each group.
    missing   how to treat missing values: "error", "drop" (then the answer does not hide which
              people have no value), "bucket" (adds a bucket for them), or a value to fill in.
    outside   how to treat values that do not fit: "error", "clamp" (for numbers and bins), or
              "other" (adds a bucket for them).
    period    puts dates and times into buckets: "year", "quarter", "month", "week" or "day", from
              the first to the last day in `bins`. "weekday" and "hour" need no `bins`.
    yes, no   the answers that a count counts and those that it does not: words or lists of words.
              Case does not matter. `no` may be omitted if each word of `yes` has a known opposite,
              as "yes", "true" and "1" have.
    na        words that mean a missing value, such as ["NA", "-"].
    decimal   "." or ",", the sign before the digits of a fraction.
    thousands
              ",", ".", "'" or " ", the sign between groups of three digits.
    date_format
              how texts of dates are written, in the directives of Python's `strptime`, such as
              "%d.%m.%Y". The default is the form 2024-12-31.
    trim      if true, blanks around texts are ignored: around labels, groups and persons. A text of
              blanks alone is a missing value.
    separator, quote, encoding, sheet, header_row
              how CSV files are written, the sheet of an Excel file, and the row that has the names
              of the columns, counted from 1.
    person    the column that names the person of each row. At most `rows_per_person` rows of each
              person are used. They are chosen at random and protected together. Without
              `person`, each row is a person.
    group     a column of groups, or a list of columns. The question is answered for each group in
              `groups`, or by default for each group in the table. The names of the groups and the
              number of people in each are public. The budget is spent only once, since each value
              is in one group.
    engine    "local", or "spark" for Spark data frames. The default depends on the data.
    source    the source of random bits. The default is secure.
    progress  a function that is called with the name of a step and the share of the step that is
              done.
    """
    book = None if ledger is None else _opened(ledger)
    if book is not None:
        check_secure(settings.get("source"))
    for name, given in (("dataset", dataset), ("once", once)):
        if book is None and given is not None:
            raise InvalidParameter(f"`{name}` must come with a ledger, got {given!r} alone")
    prepared = prepare(data, task, group=group, **settings)
    if book is not None:
        prepared.charge(book, dataset, once=once)
    return prepared.answer()


def prepare(
    data: Any = None,
    task: Task | None = None,
    *,
    group: str | Sequence[str] | None = None,
    **settings: Unpack[Settings],
) -> "Prepared":
    """Prepare an estimate: read the rows and calibrate the protocols, but release nothing.

    The parameters are those of `estimate`, without `ledger`, `dataset` and `once`.

        ready = prepare(frame, Count(), column="smoker", budget=Budget(1))
        ready.release.guarantee  # what will be spent
        ready.answer()
    """
    request = Request.of(data, task, {"group": group, **settings})
    question, source = request.question, request.random_bits
    reading = partial(request.progress, "reading")
    people = request.place.census(request.rows, question, source.part(_CHOICE), reading)
    _log.info("counted %s in %s", counted_people(people.people), _groups(people))
    if question.groups is None and not request.reading.trim:
        check_blanks(people.users)
    request.progress("calibrating", 0.0)
    honesty = Honesty(request.honest, people, question, request.who_is_trusted)
    prepared = Prepared(request, people, _planned(request, honesty))
    protocols, users = prepared.release.protocols, sum(people.users.values())
    for caution in cautions(request.spendable, protocols, users):
        _log.warning("headcount: %s", caution)
    return prepared


class Prepared:
    """An estimate before its release.

    `release` describes what will be spent: the protocols, their guarantee and their privacy curve.

    One charge pays for one answer. So a prepared estimate can be neither copied nor pickled, and
    only the process that prepared it can charge it and answer it.
    """

    def __init__(
        self, request: Request, people: Crowds, plans: dict[Group, tuple[Route, Release]]
    ) -> None:
        self._request, self._people, self._plans = request, people, plans
        self._process, self._lock = this_process(), threading.Lock()
        self._charging = self._answered = False
        self._entry: Entry | None = None
        protocols = {group: route.protocol for group, (route, _) in plans.items()}
        check_memory(protocols, people.users)
        if not request.place.remote:
            check_work(
                {group: one for group, one in protocols.items() if not plans[group][0].reserve},
                people.users,
            )
        releases = {group: one for group, (_, one) in plans.items()}
        self.release = joint(releases, people, request.question)
        _log.info("ready: %s, which will spend %s", self.release.name, self.release.guarantee)

    def __reduce__(self) -> NoReturn:
        raise InvalidParameter(
            "a prepared estimate must not be copied or pickled, since it gives only one answer",
            hint="prepare the estimate in the process that answers",
        )

    @property
    def groups(self) -> list[Group]:
        """The names of the groups. Without groups, the list is [None]."""
        return [*self._plans]

    def charge(
        self, ledger: "Ledger", dataset: str | None = None, *, once: str | None = None
    ) -> "Entry":
        """Charge the release to a ledger, and return the ledger's entry. `BudgetExhausted` is
        raised if the limit forbids the charge.

        This works only once, since one charge pays for one answer. If a call fails, `charge` can be
        called again.

        `once` is an optional name of the release. The dataset is charged at most once under each
        name. If any program has charged it under this name, `AlreadyCharged` is raised. The earlier
        charge cannot pay for this answer, since it paid for an answer with other noise.
        """
        self._check_process("charged")
        check_secure(self._request.source)
        question, spent = self._request.question, self.release
        note = {"column": question.cleaning.column, "protected": spent.guarantee.neighbors}
        if once is not None:
            note["once"] = _key(once)
        with self._lock:
            if self._charging:
                done = "another call is charging it" if self._entry is None else self._entry.place
                raise InvalidParameter(
                    f"an estimate must be charged only once, got a second call to `charge`: {done}",
                    hint="prepare another estimate for another answer",
                )
            self._charging = True
        try:
            self._entry = ledger.charge(
                dataset, spent.guarantee, spent.curve, note,
                protocol=spent.name, task=spent.task.name, users=sum(self._people.users.values()),
                once="" if once is None else f"estimate {once}", again=False,
            )  # fmt: skip
        except BaseException:
            self._charging = False
            raise
        return self._entry

    def answer(self) -> Estimate | GroupedEstimate:
        """Make the release. This works only once, since a second answer would be a second release.

        If a call fails, nothing is released. Then `answer` can be called again, so the budget that
        was charged is not lost. A note of the error names the ledger's entry.
        """
        self._check_process("answered")
        with self._lock:
            if self._answered:
                raise InvalidParameter(
                    "an answer must be drawn only once, got a second call to `answer`",
                    hint="prepare another estimate, and charge it to the ledger",
                )
            self._answered = True
        try:
            found = self._drawn()
        except BaseException as error:
            self._answered = False
            if self._entry is not None:
                error.add_note(
                    f"Nothing was released, but the ledger was charged: {self._entry.place}. "
                    "If `hc.prepare` made the estimate, call `answer` again: it charges nothing."
                )
            raise
        _log.info("answered: %s", self.release.name)  # an interrupt from here on draws nothing anew
        return found

    def _check_process(self, done: str) -> None:
        """Refuse a forked child, since each child could give an answer of its own."""
        if self._process != this_process():
            raise InvalidParameter(
                f"an estimate must be {done} by the process that prepared it, got a forked process",
                hint="prepare it in the process that answers",
            )

    def _drawn(self) -> Estimate | GroupedEstimate:
        question = self._request.question
        routes = {group: route for group, (route, _) in self._plans.items()}
        bits = Bits.of(self._request.random_bits, _PROTOCOL)
        progress = partial(self._request.progress, "randomizing")
        estimates = {
            group: replace(
                one,
                guarantee=replace(self._plans[group][1].guarantee, secure=one.guarantee.secure),
                edges=question.cleaning.edges or one.edges,
                column_names=question.cleaning.columns,
                rows_per_person=question.rows_per_person,
                in_time=question.cleaning.periods is not None,
            )
            for group, one in walk(self._people, routes, bits, progress).items()
        }
        if question.group is None:
            return estimates[None]
        secure = all(one.guarantee.secure for one in estimates.values())
        return GroupedEstimate(
            question.group, estimates, replace(self.release.guarantee, secure=secure)
        )


def _opened(ledger: "Ledger | str | PathLike[str]") -> "Ledger":
    from headcount.ledger.ledger import Ledger

    book = Ledger.open(ledger) if isinstance(ledger, str | PathLike) else ledger
    checks.instance("ledger", book, Ledger)
    return book


def _key(once: str) -> str:
    from headcount.ledger.entry import words

    return words("once", once, least=1)


def _groups(people: Crowds) -> str:
    return "1 crowd" if len(people.users) == 1 else f"{len(people.users):,} groups"


def _planned(request: Request, honesty: Honesty) -> dict[Group, tuple[Route, Release]]:
    """The `Route` and the `Release` of every group. An error about a group names the group."""
    plans: dict[Group, tuple[Route, Release]] = {}
    for group, users in honesty.crowds.users.items():
        try:
            if not users:
                raise InvalidValue(
                    "there must be at least one person in every group in `groups`, got none"
                )
            plans[group] = _route_and_release(request, honesty.crowd(group))
        except HeadcountError as error:
            if honesty.question.group is None:
                raise
            people = counted_people(users)
            error.args = (f"group {group!r} of {people}: {error.message}",)
            error.message = error.args[0]
            raise
    return plans


def _route_and_release(request: Request, crowd: Crowd) -> tuple[Route, Release]:
    question = request.question
    budget = row_budget(request.spendable, question.rows_per_person)
    protocol = request.build(budget, crowd)
    check_crowd(protocol, crowd)  # before anything is charged
    reserve = 0.0
    if request.built is None and drawn_at_once(protocol, question, crowd.users):
        # A small share of δ is set aside for drawing all messages in a single step. The best
        # protocol for the rest of the budget may be another one, so a protocol is built again.
        reserve = SHARE * budget.delta
        rest = replace(budget, delta=budget.delta - reserve * (1 + 1e-12))
        less = request.build(rest, crowd)
        if drawn_at_once(less, question, crowd.users):
            protocol = less
        else:
            reserve = 0.0
    return Route(protocol, reserve), release(protocol, question, reserve, crowd.users)
