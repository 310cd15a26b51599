"""The whole way from a table to a private answer, whatever holds the table."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from typing import Any

from headcount.core import checks
from headcount.core.budget import Budget, Crowd, Trust
from headcount.core.errors import HeadcountError, InvalidParameter, InvalidValue
from headcount.core.estimate import Estimate
from headcount.core.protocol import Protocol, check_crowd, passed_on
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Task
from headcount.data.cleaning import Fill, cleaning
from headcount.data.collecting import collected, counted_pieces, workers_for
from headcount.data.engine import Crowds, Engine, Survey
from headcount.data.group_privacy import row_budget
from headcount.data.grouped import GroupedEstimate
from headcount.data.honesty import Honest, Honesty, check_honest
from headcount.data.local import LocalEngine
from headcount.data.memory import check_memory
from headcount.data.parts import group_order
from headcount.data.question import Group, Question
from headcount.data.release import SHARE, Release, drawn_at_once, joint, release
from headcount.data.sources import rows_of
from headcount.ledger.ledger import Ledger
from headcount.planner.plan import best_protocol
from headcount.protocols.registry import protocol as protocol_by_name
from headcount.protocols.registry import protocol_class
from headcount.randomness.sources import Owing, SecureSource

MOST_ROWS_PER_PERSON = 1000


def _spark_engine() -> Engine:
    from headcount.data.spark import SparkEngine

    return SparkEngine()


ENGINES: dict[str, Callable[[], Engine]] = {"local": LocalEngine, "spark": _spark_engine}
# Parts of the source: which rows of a person count, messages, messages drawn at once, noise.
_CHOICE, _MESSAGES, _TOTALS, _NOISE = range(4)


def estimate(
    data: Any = None,
    task: Task | None = None,
    *,
    column: str | None = None,
    budget: Budget | None = None,
    trust: Trust | str | None = None,
    protocol: str | Protocol | None = None,
    honest: Honest = None,
    query: str | None = None,
    missing: Fill = "error",
    outside: str = "error",
    bins: Sequence[float] | None = None,
    person: str | None = None,
    rows_per_person: int = 1,
    group: str | None = None,
    groups: Sequence[Group] | None = None,
    engine: str | Engine | None = None,
    source: Source | None = None,
    ledger: Ledger | str | PathLike[str] | None = None,
    dataset: str | None = None,
    charge: Callable[[Release], None] | None = None,
    progress: Callable[[str, float], None] = lambda step, share: None,
    options: Mapping[str, Any] | None = None,
) -> Estimate | GroupedEstimate:
    """A private answer about a column of a table.

        estimate(frame, Mean(0, 120), column="age", budget=Budget(1))
        estimate("people/*.parquet", bins=[0, 18, 65, 120], column="age", budget=Budget(1))
        estimate(query="SELECT smoker FROM 'people.csv'", task=Count(), budget=Budget(1))

    data      a frame of pandas, polars or Spark, anything of Arrow, NumPy arrays, an iterable, a
              relation of DuckDB, a file, a folder or a pattern of files (CSV, Parquet, JSON
              lines), or the text of a query (`query`).
    task      the question; with `bins`, edges of buckets for numbers, it is left out.
    trust     central, unless said otherwise; the protocol with the least error, or a `protocol` by
              name with its `options`, or one that was built before, with its task and budget.
    honest    how many of all people of the table surely follow the protocol; everybody, unless
              said otherwise. The others may all be in one group. Without `person`, a mapping may
              say it for each group. In shuffle trust, guarantees rely on these people alone.
    missing   "error", "drop" (then who has no value is not hidden), or a value to fill in.
    outside   "error", "clamp" (numbers and bins), or "other" (one more bucket).
    person    the column that says whose row it is. At most `rows_per_person` rows of each count,
              chosen at random, and all of them together are protected. Without it, a row is a
              person.
    group     ask the same of each group: those named, or those found. Groups, and how many people
              each has, are public; the budget is spent once, since a value is in one group only.
    ledger    where it is recorded, as a spending of `dataset`, before it is released; refused if
              the limit of the data set would be exceeded.
    charge    is told what will be spent, before anything random happens but the choice of a
              person's rows; it may refuse.
    engine    that of the data, unless it is named: "local", or "spark" for its frames.
    source    of random bits, secure unless given.
    progress  is called with a step and the share of it that is done.
    """
    built = protocol if isinstance(protocol, Protocol) else None
    task, budget = _settings(built, task, budget, bins)
    rows = checks.whole("rows_per_person", rows_per_person, low=1, high=MOST_ROWS_PER_PERSON)
    if rows > 1 and (person is None or built is not None):
        raise InvalidParameter(
            f"`rows_per_person` must come with `person` and without a protocol that was built "
            f"before, got {rows}"
        )
    book = Ledger.open(ledger) if isinstance(ledger, str | PathLike) else ledger
    if book is None and dataset is not None:
        raise InvalidParameter(f"`dataset` must come with a ledger, got {dataset!r} alone")
    source = SecureSource() if source is None else source
    checks.instance("source", source, Source)
    if book is not None:
        checks.instance("ledger", book, Ledger)
        if not source.secure:
            raise InvalidParameter(
                "`ledger` must come with a secure source, since no other keeps the guarantee that "
                f"would be recorded, got a {type(source).__name__}"
            )
    checks.instance("options", options or {}, Mapping)
    where = _engine(engine, data)
    if isinstance(where, LocalEngine):
        data = rows_of(data, query)
        column = data.only_column() if column is None else column
    elif query is not None:
        raise InvalidParameter(f"`query` must be asked of the local engine, got {where.name}")
    if column is None:
        raise InvalidParameter(f"`column` must be named with the engine {where.name}, got none")
    trust = _trust(trust, protocol)
    question = Question(
        cleaning(column, task, missing=missing, outside=outside, bins=bins),
        person,
        rows,
        group,
        _declared(group, groups),
        values_stay=where.remote and trust is not Trust.CENTRAL,
    )
    if built is not None and built.task != question.task:
        raise InvalidParameter(
            f"the task must be that of the protocol, {built.task}, got {question.task}"
        )
    check_honest(honest, question)
    build = (
        (lambda budget, crowd: built)
        if built is not None
        else _builder(question.task, trust, protocol, options or {})
    )
    crowds = where.survey(data, question, source.part(_CHOICE), partial(progress, "reading"))
    progress("calibrating", 0.0)
    honesty = Honesty(honest, crowds, question, trust)
    answers = _built(honesty, build, row_budget(budget, rows), built is not None)
    check_memory(
        {name: one.protocol for name, one in answers.items()},
        {name: survey.users for name, survey in crowds.surveys.items()},
    )
    whole = joint({name: one.release for name, one in answers.items()}, crowds, question)
    if charge is not None:
        charge(whole)
    if book is not None:
        users = sum(survey.users for survey in crowds.surveys.values())
        note = {"column": column, "protected": whole.guarantee.neighbors}
        book.charge(
            dataset, whole.guarantee, whole.curve, note,
            protocol=whole.name, task=whole.task.name, users=users,
        )  # fmt: skip
    edges = question.cleaning.edges
    found = _answered(crowds, answers, edges, source, partial(progress, "randomizing"))
    if group is None:
        return found[None]
    secure = all(estimate.guarantee.secure for estimate in found.values())
    return GroupedEstimate(group, found, replace(whole.guarantee, secure=secure))


@dataclass(frozen=True, eq=False)
class _Answer:
    """How a group is answered; `reserve` is what δ has for drawing messages at once."""

    protocol: Protocol
    release: Release
    reserve: float = 0.0


def _settings(
    built: Protocol | None, task: Task | None, budget: Budget | None, bins: Any
) -> tuple[Task | None, Budget]:
    if built is not None:
        if budget is not None:
            raise InvalidParameter("`budget` must be left to the protocol, got both")
        return (built.task if task is None and bins is None else task), built.budget
    if budget is None:
        raise InvalidParameter("`budget` must be given, got none")
    checks.instance("budget", budget, Budget)
    return task, budget


def _engine(engine: str | Engine | None, data: Any) -> Engine:
    """The one that is asked for, or that of the data."""
    if isinstance(engine, Engine):
        return engine
    if engine is None:
        # Known by name, so that Spark is not loaded for other data.
        engine = "spark" if type(data).__module__.startswith("pyspark.") else "local"
    return ENGINES[checks.choice("engine", engine, list(ENGINES))]()


def _declared(group: str | None, groups: Sequence[Group] | None) -> tuple[Group, ...] | None:
    if groups is None:
        return None
    listed = isinstance(groups, Sequence) and not isinstance(groups, str)
    names = list(groups) if listed else []
    words = all(isinstance(name, str) or _is_number(name) for name in names)
    if group is None or not names or not words or len({str(name) for name in names}) < len(names):
        raise InvalidParameter(
            f"`groups` must come with `group`: words or whole numbers, each once, "
            f"got {checks.shown(groups)}"
        )
    return tuple(group_order(names))


def _is_number(name: object) -> bool:
    """Whether a name is a whole number, and small enough for a column."""
    return isinstance(name, int) and abs(name) < 2**64


def _trust(trust: Trust | str | None, protocol: str | Protocol | None) -> Trust:
    """The one that is asked for, or the protocol's; central, if nobody says otherwise."""
    if trust is not None:
        trust = Trust(checks.choice("trust", trust, list(Trust)))
    if protocol is None:
        return trust or Trust.CENTRAL
    needed = protocol.trust if isinstance(protocol, Protocol) else protocol_class(protocol).trust
    if trust not in (None, needed):
        name = protocol.name if isinstance(protocol, Protocol) else protocol
        raise InvalidParameter(f"`trust` must be {needed} with {name}, got {trust}")
    return needed


def _builder(
    task: Task, trust: Trust, name: Any, options: Mapping[str, Any]
) -> Callable[[Budget, Crowd], Protocol]:
    """What makes the protocol that is asked for by name or by trust, for any crowd."""
    if name is None:
        if options:
            raise InvalidParameter(f"`{next(iter(options))}` must come with a protocol, got none")
        return lambda budget, crowd: best_protocol(task, budget, crowd, trust)
    return lambda budget, crowd: protocol_by_name(name, task, budget, crowd, **options)


def _built(
    honesty: Honesty,
    build: Callable[[Budget, Crowd], Protocol],
    budget: Budget,
    as_it_is: bool,
) -> dict[Group, _Answer]:
    """The protocol of every group; where one has none, that group is named."""
    out: dict[Group, _Answer] = {}
    for group, survey in honesty.crowds.surveys.items():
        try:
            if not survey.users:
                raise InvalidValue(
                    "there must be at least one person in every group that is named, got none"
                )
            crowd = honesty.crowd(group)
            out[group] = _answer(crowd, honesty.question, build, budget, as_it_is)
        except HeadcountError as error:
            if honesty.question.group is None:
                raise
            error.args = (f"group {group!r} of {survey.users:,} people: {error.message}",)
            error.message = error.args[0]
            raise
    return out


def _answer(
    crowd: Crowd,
    question: Question,
    build: Callable[[Budget, Crowd], Protocol],
    budget: Budget,
    as_it_is: bool,
) -> _Answer:
    found = build(budget, crowd)
    check_crowd(found, crowd)  # before anything is charged
    if as_it_is or not drawn_at_once(found, question, crowd.users):
        return _Answer(found, release(found, question, 0.0))
    # A little of δ is put aside, and the protocol calibrated for the rest; it may be another one.
    reserve = SHARE * budget.delta
    less = build(replace(budget, delta=budget.delta - reserve * (1 + 1e-12)), crowd)
    if not drawn_at_once(less, question, crowd.users):
        return _Answer(found, release(found, question, 0.0))
    return _Answer(less, release(less, question, reserve), reserve)


def _answered(
    crowds: Crowds,
    answers: Mapping[Group, _Answer],
    edges: tuple[float, ...] | None,
    source: Source,
    progress: Callable[[float], None],
) -> dict[Group, Estimate]:
    tallies = {
        group: _drawn(answers[group], survey, source.part(_TOTALS).part(at))
        for at, (group, survey) in enumerate(crowds.surveys.items())
    }
    sent = {group: answers[group].protocol for group, tally in tallies.items() if tally is None}
    if sent:
        tallies |= _sent(crowds, sent, source.part(_MESSAGES), progress)
    out = {}
    for at, (group, answer) in enumerate(answers.items()):
        tally = tallies[group]
        assert tally is not None
        noise = source.part(_NOISE).part(at)
        found = answer.protocol.estimate(passed_on(answer.protocol, tally), noise)
        promise = replace(answer.release.guarantee, secure=found.guarantee.secure)
        out[group] = replace(found, guarantee=promise, edges=edges)
    return out


def _sent(
    crowds: Crowds,
    protocols: Mapping[Group, Protocol],
    source: Source,
    progress: Callable[[float], None],
) -> Mapping[Group, Tally]:
    """Tallies of messages: of everybody's own value, or where these are few, of their counts."""
    if any(crowds.surveys[group].counts is None for group in protocols):
        return crowds.tallies(protocols, source, progress)
    pieces = (
        (group, piece)
        for at, (group, survey) in enumerate(crowds.surveys.items())
        if group in protocols and survey.counts is not None
        for piece in counted_pieces(protocols[group], survey.counts, source.part(at))
    )
    most = max(crowds.surveys[group].users for group in protocols)
    return collected(pieces, workers_for(source, protocols, most))


def _drawn(answer: _Answer, survey: Survey, source: Source) -> Tally | None:
    """A tally without messages: in central trust the counts themselves; else one of the same law,
    if what is put aside of δ is enough for the difference.
    """
    protocol, counts = answer.protocol, survey.counts
    if counts is None:
        return None
    if protocol.trust is Trust.CENTRAL:
        return protocol.simulate(counts, source)
    if not answer.reserve:
        return None
    owing = Owing(source)
    tally = protocol.simulate(counts, owing)
    epsilon = protocol.guarantee.epsilon
    enough = (1 + math.exp(epsilon)) * (1 + 1e-12) * owing.owed <= answer.reserve
    return tally if enough else None
