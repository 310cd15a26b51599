"""Compares the errors of protocols for several numbers of people, buckets, messages or slots, or
for several values of ε.

A person's bundle has a fixed number of slots, each for one message or dummy. The crowd holds the
example values of the task. The errors for this crowd are computed by formula. They can also be
measured in simulations of the same crowd.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.budget import Budget, Crowd, Trust
from headcount.core.bundles import MOST_SLOTS
from headcount.core.errors import Infeasible, InvalidParameter
from headcount.core.protocol import Protocol
from headcount.core.source import Source
from headcount.core.table import Table, counted_people, short, size
from headcount.core.task import Counts, Task
from headcount.planner.candidate import Candidate
from headcount.planner.plan import plan
from headcount.planner.wishes import Wishes, missed
from headcount.planner.within import assess_within
from headcount.protocols.registry import protocol, protocol_class, protocol_names
from headcount.theory import Bound, bounds

Axis: TypeAlias = Literal["users", "epsilon", "buckets", "messages", "slots"]
AXIS_TITLES: dict[Axis, str] = {
    "users": "people in the crowd",
    "epsilon": "privacy loss ε",
    "buckets": "buckets",
    "messages": "messages per person",
    "slots": "slots per person",
}
AXES: tuple[Axis, ...] = ("users", "epsilon", "buckets", "messages", "slots")
_LIMITED: tuple[Axis, ...] = ("messages", "slots")  # axes that limit the messages of a person
CALIBRATIONS = ("exact", "paper", "both")
MOST_RUNS = 100_000
_DEFAULTS: dict[str, tuple[float, ...]] = {
    "users": tuple(float(round(10 ** (power / 2))) for power in range(4, 13)),  # 100 to a million
    "epsilon": (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 4),
    "buckets": (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024),
    "messages": (1.005, 1.01, 1.02, 1.03, 1.05, 1.1, 1.2, 1.5, 2, 3),
    "slots": (1, 2, 4, 5, 7, 10, 15, 20, 32, 64),
}


@dataclass(frozen=True)
class Point:
    """The error at one position on the axis, by formula and as measured in simulated runs."""

    at: float  # the position on the axis
    standard_error: float
    measured: float | None = None
    # An interval of about 95 % around `measured` goes from `low` to `high`.
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Series:
    """The errors of one protocol. Positions where the protocol is refused have no point."""

    label: str
    protocol: str
    trust: Trust
    points: tuple[Point, ...]
    refused: Mapping[str, str]  # the reason at each position where the protocol is refused


@dataclass(frozen=True)
class Known:
    """A bound or a rate from theory, along the axis."""

    name: str
    kind: str
    formula: str
    trust: Trust
    source: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Comparison:
    """The errors of several protocols along one axis."""

    task: Task
    budget: Budget
    crowd: Crowd
    axis: Axis
    runs: int
    series: tuple[Series, ...]
    theory: tuple[Known, ...]

    @property
    def setting(self) -> str:
        """A description of the settings that are the same along the axis."""
        honest = self.crowd.honest / self.crowd.users
        parts = {
            "users": counted_people(self.crowd.users),
            "honest": f"{100 * honest:.4g} % of people honest" if honest < 1 else "",
            "epsilon": f"ε = {short(self.budget.epsilon)}",
            "delta": f"δ = {short(self.budget.delta)}",
            "buckets": str(self.task) if self.task.settings else "",
        }
        return ", ".join(part for name, part in parts.items() if part and name != self.axis)

    @property
    def data(self) -> str:
        """A description of the values in the example crowd."""
        return self.task.example_words

    def table(self) -> Table:
        """The errors, with a row for each position on the axis and a column for each protocol."""
        places = sorted({point.at for line in self.series for point in line.points})
        columns = [{point.at: point for point in line.points} for line in self.series]
        refused = [
            f"{line.label} is refused at {place}: {reason}"
            for line in self.series
            for place, reason in list(line.refused.items())[:1]
        ]
        digits = 4 if self.axis == "messages" else 7
        measured = (
            f"; in parentheses: the error measured in {self.runs} simulated runs"
            if self.runs
            else ""
        )
        return Table(
            title=f"Standard error by {AXIS_TITLES[self.axis]}: {self.setting}",
            columns=(AXIS_TITLES[self.axis], *(line.label for line in self.series)),
            rows=tuple(
                (f"{place:,.{digits}g}", *(_cell(points.get(place)) for points in columns))
                for place in places
            ),
            words=0,
            notes=(f"for a crowd in which {self.data}{measured}", *refused),
        )

    def __str__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table().html()

    def to_dict(self) -> dict[str, Any]:
        """The comparison as a dictionary for JSON."""
        return {**asdict(self), "task": self.task.to_dict()}


def _cell(point: Point | None) -> str:
    if point is None:
        return "–"
    measured = "" if point.measured is None else f" ({size(point.measured)})"
    return size(point.standard_error) + measured


def compare(
    task: Task,
    budget: Budget,
    crowd: Crowd,
    *,
    protocols: Iterable[str] | None = None,
    over: str = "users",
    values: Sequence[float] | None = None,
    calibration: str = "exact",
    runs: int = 0,
    source: Source | None = None,
    progress: Callable[[str, float], None] = lambda name, share: None,
) -> Comparison:
    """The errors of protocols along an axis: users, epsilon, buckets, messages or slots per person.

    `over` names the axis, and `values` are the positions on it. On the axes of messages and slots,
    positions are limits. Within each limit, each protocol uses the options with the least error.
    Without `protocols`, the best protocols of all trust models are compared. `calibration="both"`
    compares the parameters of the papers with the exact parameters. If `runs` is above 0, this many
    runs are simulated for each point, with randomness from `source`.

        compare(Count(), Budget(1, 1e-6), Crowd(100_000), over="epsilon", runs=200)
    """
    axis: Axis = next(known for known in AXES if known == checks.choice("over", over, AXES))
    checks.choice("calibration", calibration, CALIBRATIONS)
    runs = checks.whole("runs", runs, low=0, high=MOST_RUNS)
    if runs == 1:
        raise InvalidParameter("`runs` must be 0 or at least 2, got 1")
    if axis == "buckets" and "buckets" not in task.settings:
        raise InvalidParameter(
            f"`over` buckets must come with a histogram, got {checks.a_task(task.name)}"
        )
    if runs and source is None:
        from headcount.randomness.sources import SecureSource

        source = SecureSource()
    names = list(protocols) if protocols is not None else _best_of_each(task, budget, crowd)
    if not names:
        raise InvalidParameter("`protocols` must name at least one protocol, got none")
    for name in names:
        if not protocol_class(name, task).answers(task):
            known = ", ".join(protocol_names(task))
            raise InvalidParameter(
                f"`protocols` must answer {checks.a_task(task.name)} ({known}), got {name!r}"
            )
    places = sorted(set(values)) if values is not None else _DEFAULTS[axis]
    if not places:
        raise InvalidParameter("`values` must have at least one number, got none")
    kinds = ["exact", "paper"] if calibration == "both" else [calibration]
    wanted = [(name, kind) for name in names for kind in kinds]
    series = []
    for done, (name, kind) in enumerate(wanted):
        progress(name, done / len(wanted))
        label = name if len(kinds) == 1 and kind == "exact" else f"{name}, {kind}"
        series.append(_series(label, name, kind, task, budget, crowd, axis, places, runs, source))
    if calibration == "both":
        # If the paper has no calibration of its own, both lines are the same. Only one is kept.
        exact = {line.protocol: line.points for line in series if line.label.endswith(", exact")}
        series = [
            line
            for line in series
            if line.label.endswith(", exact") or line.points != exact[line.protocol]
        ]
    theory = () if axis in _LIMITED else _theory(task, budget, crowd, axis, places, series)
    return Comparison(task, budget, crowd, axis, runs, tuple(series), theory)


def _best_of_each(task: Task, budget: Budget, crowd: Crowd) -> list[str]:
    ranked = plan(task, budget, crowd)
    best = (ranked.best_of(trust) for trust in Trust)
    return [candidate.protocol for candidate in best if candidate is not None]


def _setting(
    task: Task, budget: Budget, crowd: Crowd, axis: Axis, place: float
) -> tuple[Task, Budget, Crowd]:
    """The task, the budget and the crowd at one position on the axis."""
    if axis == "users":
        users = checks.whole("users", place, low=1, high=2**50)
        return task, budget, Crowd(users, max(1, users * crowd.honest // crowd.users))
    if axis == "epsilon":
        return task, replace(budget, epsilon=place), crowd
    if axis == "buckets":
        buckets = checks.whole("buckets", place, low=2, high=2**24)
        return task.changed(buckets=buckets), budget, crowd
    return task, budget, crowd


def _series(
    label: str,
    name: str,
    calibration: str,
    task: Task,
    budget: Budget,
    crowd: Crowd,
    axis: Axis,
    places: Sequence[float],
    runs: int,
    source: Source | None,
) -> Series:
    points: dict[float, Point] = {}
    refused: dict[str, str] = {}
    kind = protocol_class(name, task)
    steps: list[tuple[float, Mapping[str, Any]]] = [(place, {}) for place in places]
    if axis in _LIMITED:
        wishes = {place: _wishes(axis, place) for place in places}
        # Some protocols can trade messages or slots for error. The others have only one point.
        sweeps = calibration == "exact" and any(
            [*kind.settings_within(task, budget, crowd, one.limits)] != [{}]
            for one in wishes.values()
        )
        steps = [(math.nan, {})]
        if sweeps:
            steps, refused = _options_within(name, task, budget, crowd, wishes)
    for place, options in steps:
        setting = _setting(task, budget, crowd, axis, place)
        try:
            built = protocol(name, *setting, calibration=calibration, **options)
            at = _at(built, axis, place)
            if at not in points:  # several limits may lead to the same options
                points[at] = _point(built, at, runs, source)
        except Infeasible as refusal:
            # A protocol that cannot trade messages or slots for error has only one point. If this
            # point is refused, it is refused at every limit.
            everywhere = places if math.isnan(place) else [place]
            refused |= {short(one): str(refusal) for one in everywhere}
    return Series(label, name, kind.trust, tuple(points[at] for at in sorted(points)), refused)


def _wishes(axis: Axis, place: float) -> Wishes:
    """The limit at one position on an axis of messages or slots."""
    if axis == "slots":
        return Wishes(max_slots=checks.whole("slots", place, low=1, high=MOST_SLOTS))
    return Wishes(max_messages=place)


def _options_within(
    name: str, task: Task, budget: Budget, crowd: Crowd, wishes: Mapping[float, Wishes]
) -> tuple[list[tuple[float, Mapping[str, Any]]], dict[str, str]]:
    """The best options within each limit, and a refusal for each limit that no options meet."""
    steps, refused = [], {}
    for place, wished in wishes.items():
        result = assess_within(name, task, budget, crowd, wished)
        if isinstance(result, Candidate):
            misses = list(wished.misses(result))
            if not misses:
                steps.append((place, result.options))
                continue
            result = missed(result, misses)
        refused[short(place)] = str(Infeasible(result.reason, nearest=result.feasible))
    return steps, refused


def _at(built: Protocol, axis: Axis, place: float) -> float:
    """The position of a protocol on the axis."""
    if axis == "messages":
        return built.messages_per_user
    return float(built.slots if axis == "slots" else place)


def _point(built: Protocol, at: float, runs: int, source: Source | None) -> Point:
    counts = built.task.example(built.crowd.users)
    error = float(built.standard_error(counts))
    if not runs or source is None:
        return Point(at, error)
    squares = _squared_errors(built, counts, runs, source)
    # The interval comes from the spread of the squared errors, so it assumes no distribution.
    mean, spread = float(squares.mean()), 2 * float(squares.std(ddof=1)) / math.sqrt(runs)
    low, high = math.sqrt(max(mean - spread, mean / 4)), math.sqrt(mean + spread)
    return Point(at, error, math.sqrt(mean), low, high)


def _squared_errors(
    built: Protocol, counts: Counts, runs: int, source: Source
) -> NDArray[np.float64]:
    """The squared error of each simulated run. With several buckets, it is the mean over buckets.

    If the answer is smoothed, errors differ from point to point. The mean is then taken only over
    points whose stated error is within 3 % of the largest stated error.
    """
    held = built.task.holding(counts)
    squares, stated = [], []
    for _ in range(runs):
        estimate = built.estimate(built.simulate(counts, source), source)
        missed = built.estimator.errors(estimate.value, held)
        squares.append(np.atleast_1d(np.square(missed.astype(np.float64))))
        stated.append(estimate.standard_error)
    sums = np.sum(stated, axis=0)
    chosen = np.atleast_1d(sums > 0.97 * sums.max())
    if built.task.smoothness is None:
        chosen[:] = True
    means: NDArray[np.float64] = np.array(squares)[:, chosen].mean(axis=1)
    return means


def _theory(
    task: Task,
    budget: Budget,
    crowd: Crowd,
    axis: Axis,
    places: Sequence[float],
    series: Sequence[Series],
) -> tuple[Known, ...]:
    """Bounds and rates on the standard error, for the trust models of the compared protocols."""
    trusts = {line.trust for line in series}
    by_name: dict[str, list[tuple[float, Bound]]] = {}
    for place in places:
        for bound in bounds(*_setting(task, budget, crowd, axis, place)):
            if bound.trust in trusts and bound.measure == "standard error":
                by_name.setdefault(bound.name, []).append((float(place), bound))
    return tuple(
        Known(
            name=name,
            kind=pairs[0][1].kind,
            formula=pairs[0][1].formula,
            trust=pairs[0][1].trust,
            source=pairs[0][1].source,
            points=tuple((place, bound.value) for place, bound in pairs),
        )
        for name, pairs in by_name.items()
    )
