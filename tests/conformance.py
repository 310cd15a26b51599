"""The conformance suite: the protocols, tasks and settings that its tests try, and shared
functions.

The tests are in `test_conformance_*.py`. They try every registered protocol, or with `pytest
--protocol NAME` only this one.
"""

import itertools
import math
import pickle
import typing
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import enumeration
import headcount as hc
from headcount.core.protocol import option_names
from headcount.core.tasks import registry as tasks
from headcount.protocols.registry import protocol_class

Options: TypeAlias = tuple[tuple[str, Any], ...]
Setting: TypeAlias = tuple[float, float, int, int]  # epsilon, delta, users, honest
Pair: TypeAlias = tuple[str, hc.Task]
Crowds: TypeAlias = list[tuple[hc.Protocol, int]]
# A test of a law with a fixed seed fails below this p-value. A wrong law must fall far below it.
ALARM = 1e-6
# Each protocol is tried with those of these tasks that it answers.
# Small tasks with settings. A registered task that needs no settings is tried without a line here.
SMALL_TASKS: list[hc.Task] = [
    hc.Histogram(3),
    hc.Table(2, 2),
    hc.Margins(2, 2),
    hc.Sum(-1, 1, whole=True),
    hc.Mean(-0.5, 1),
    hc.Density(-0.5, 1, points=6),
    hc.Boxes(["a", "b"], at_most=1),
    # The values 0, 1 and 2 are in different cells.
    hc.Distribution(0, 2.4, cells=3),
    hc.Quantiles(0, 2.4, at=(0.25, 0.5), cells=3),
    hc.Median(0, 2.4, cells=3),
]
# Crowds that are small enough to enumerate every view. Quick tests try the first feasible ones: one
# in which everybody is honest, and one in which not everybody is.
SMALL: list[Setting] = [
    (2.0, 0.05, 5, 5),
    (1.0, 0.3, 6, 4),
    (1.0, 0.05, 8, 8),
    (0.5, 0.2, 6, 6),
    (3.0, 0.1, 7, 4),
    (8.0, 0.3, 4, 4),
    (16.0, 0.3, 5, 5),
    (6.0, 0.4, 3, 3),
]
# Sums and means share their accounting, so each tries only some of these settings.
SMALL_MEANS = [SMALL[1], SMALL[5], SMALL[7]]
SMALL_SUMS = [SMALL[0], SMALL[4], SMALL[3], SMALL[6]]
LARGE: list[Setting] = [
    (1.0, 1e-6, 100_000, 100_000),
    (0.5, 1e-10, 20_000, 15_000),
    (3.0, 1e-8, 1000, 999),
]
# Options that are not a choice of a word, for enumerated crowds and for large ones.
SMALL_OPTIONS: dict[str, list[dict[str, Any]]] = {
    "central.fitted-table": [{}, {"margins": 0.01}, {"margins": 0.99}],
    "central.tree": [{"fanouts": "3"}, {"fanouts": "2,2"}],
    "shuffle.correlated": [{"error_ratio": 2.0}, {"max_slots": 6}],
    "shuffle.unary-sum": [{"bits": 2}],
    "shuffle.fixed-point-sum": [{"levels": 2}],
    "local.hashing": [{"values": 4}, {"values": 2}],
    "local.laplace-mean": [{"levels": 1}],
    "local.piecewise-mean": [{"levels": 2}, {"levels": 1}],
    "local.hybrid-mean": [{"levels": 2}, {"levels": 1}],
    "local.density-histogram": [{"bins": 2}],
    "local.density-series": [{"terms": 3}, {"terms": 1}],
    "shuffle.density-histogram": [{"bins": 2}],
    "local.tree": [{"fanouts": "3"}, {"fanouts": "2,2"}],
    "local.some-boxes": [{"boxes_each": 1}, {"boxes_each": 2}],
    "shuffle.tree": [{"fanouts": "3"}, {"fanouts": "2,2"}],
    "shuffle.noisy-shuffler": [
        {"bins": 2, "levels": 2},
        {"bins": 2, "levels": 2, "shufflers": 2},
        {"bins": 2, "levels": 2, "response_epsilon": 2.0},
    ],
}
# Where else options that are not a choice of a word are tried, or an option of which one value is
# listed above. All other protocols must list two values of each such option.
OPTIONS_TRIED_ELSEWHERE = {
    "central.geometric": "tests/test_density.py",
    "central.laplace": "tests/test_density.py",
    "central.sum-zero": "tests/test_density.py",
    "local.density-histogram": "tests/test_density.py",
    "local.laplace-mean": "tests/test_local_means.py",
    "shuffle.amplified": "tests/test_amplification.py",
    "shuffle.correlated": "tests/test_counts.py",
    "shuffle.density-histogram": "tests/test_density.py",
    "shuffle.fixed-point-sum": "tests/test_sums.py",
    "shuffle.noisy-shuffler": "tests/test_noisy_shuffler.py, tests/test_noisy_shuffler_sums.py",
    "shuffle.sample-threshold": "tests/test_sampling.py",
    "shuffle.unary-sum": "tests/test_sums.py",
}
LARGE_OPTIONS: dict[str, list[dict[str, Any]]] = {
    "shuffle.unary-sum": [{"bits": 5}],
    "shuffle.correlated-sum": [{"levels": 2}],
    "shuffle.correlated": [{}, {"max_slots": 16}],
    "shuffle.correlated-histogram": [{}, {"max_slots": 24}],
    "shuffle.noisy-shuffler": [{"levels": 5}],
}
# For each combination of a protocol's options, quick tests try this many settings, or one if a test
# takes long. The slow tests try the others.
QUICK_SETTINGS = 2
# With more combinations of options, quick tests try one setting of a large crowd, and those that
# take long try the first combination alone.
MANY_OPTIONS = 4
# These have too many bundles to list. Their views are judged in the named files.
JUDGED_ELSEWHERE = {
    "shuffle.correlated-histogram": "tests/test_histograms.py",
    "shuffle.correlated-tree": "tests/test_correlated_trees.py",
    "shuffle.hashed-histogram": "tests/test_hashed_histogram.py",
    "shuffle.margins": "tests/test_tables.py",
    "shuffle.fake-user-boxes": "tests/test_survey_privacy.py",
    "shuffle.split-and-mix": "tests/test_split_and_mix.py, tests/test_split_and_mix_histogram.py",
    "shuffle.correlated-sum": "tests/test_correlated_sums.py, tests/test_sums.py",
}
# The same for one choice of an option.
WORDS_JUDGED_ELSEWHERE = {
    ("shuffle.noisy-shuffler", "shares"): "tests/test_noisy_shuffler_sums.py",
}

# Workers of one run ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Worker:
    """One of several processes that run the tests. They share the protocols that they build.

    Each of them begins with other protocols, and reads from the folder what the others have built.
    """

    number: int
    workers: int
    folder: Path

    @classmethod
    def of(cls, config: pytest.Config) -> "Worker | None":
        """The worker that this process is, or None if there is only one process."""
        given = getattr(config, "workerinput", None)
        if given is None:
            return None
        number = int(given["workerid"].removeprefix("gw"))
        return cls(number, given["workercount"], Path(given["built"]))

    def order(self, pairs: list[Pair]) -> list[Pair]:
        """The order in which this worker builds protocols."""
        first = len(pairs) * self.number // self.workers
        return pairs[first:] + pairs[:first]

    def shared(self, file_name: str, build: Callable[[], Crowds]) -> Crowds:
        """What `build` returns. It is not called if another worker has already called it."""
        file = self.folder / file_name
        if file.exists():
            built: Crowds = pickle.loads(file.read_bytes())
            return built
        built = build()
        unfinished = file.with_name(f"{file_name}.{self.number}")
        unfinished.write_bytes(pickle.dumps(built))
        unfinished.replace(file)
        return built


# The worker that this process is. It is set before protocols are built. Tests that replace
# protocols by others set it to None, since they must build all protocols themselves.
worker: Worker | None = None


# What a test asks for ----------------------------------------------------------------------------

# Enumerated crowds, and large ones. `sparing` is for tests that take long. In central trust the
# noise is in the release, not in the messages: tests/test_central.py.
small = pytest.mark.crowds(small=True, sparing=False, central=True)
small_decentral = pytest.mark.crowds(small=True, sparing=False, central=False)
sparing_small = pytest.mark.crowds(small=True, sparing=True, central=True)
sparing_decentral = pytest.mark.crowds(small=True, sparing=True, central=False)
large = pytest.mark.crowds(small=False, sparing=False, central=True)
sparing_large = pytest.mark.crowds(small=False, sparing=True, central=True)
# Each protocol with each task that it answers, or only those whose small crowds are enumerated.
every = pytest.mark.pairs(enumerated=False)
every_enumerated = pytest.mark.pairs(enumerated=True)


def parametrize(metafunc: pytest.Metafunc) -> None:
    """A test for each protocol. Most settings are built and tried only by the slow tests."""
    only = metafunc.config.getoption("protocol")
    quick = metafunc.config.getoption("markexpr") == "not slow"
    if mark := metafunc.definition.get_closest_marker("crowds"):
        found = [
            pytest.param(p, id=named(p), marks=[pytest.mark.slow] if late else [])
            for p, late in asked_crowds(only, quick, **mark.kwargs)
        ]
        metafunc.parametrize("protocol", found)
    elif mark := metafunc.definition.get_closest_marker("pairs"):
        pairs = asked_pairs(only, **mark.kwargs)
        names = [f"{name}-{task.name}" for name, task in pairs]
        metafunc.parametrize(("name", "task"), pairs, ids=names)


def asked_pairs(only: str | None, *, enumerated: bool) -> list[Pair]:
    """Every protocol, or only one, with the tasks that it answers."""
    if only not in (None, *hc.protocol_names()):
        raise pytest.UsageError(f"--protocol must be a registered protocol, got {only}")
    pairs = [
        (name, task) for task in small_tasks() for name in names_for(task) if only in (None, name)
    ]
    if not pairs:
        raise pytest.UsageError(f"no test tries a task that {only} answers: see small_tasks")
    return [pair for pair in pairs if not (enumerated and pair[0] in JUDGED_ELSEWHERE)]


@cache
def small_tasks() -> list[hc.Task]:
    """A task of each registered kind."""
    given = {task.name: task for task in SMALL_TASKS}
    found = []
    for name in tasks.TASKS:
        try:
            found.append(given[name] if name in given else tasks.task_class(name)())
        except TypeError:
            raise pytest.UsageError(f"SMALL_TASKS must have a task {name}, got none") from None
    return found


def names_for(task: hc.Task) -> list[str]:
    """The protocols that are tried with a task.

    A table is a histogram of pairs. tests/test_tables.py checks that protocols for histograms do
    the same for both, so they are not tried again.
    """
    names = hc.protocol_names(task)
    if task.name != "table":
        return names
    return [name for name in names if name not in hc.protocol_names(hc.Histogram(4))]


def asked_crowds(
    only: str | None, quick: bool, *, small: bool, sparing: bool, central: bool
) -> Iterator[tuple[hc.Protocol, bool]]:
    """The protocols that a test tries, and whether only the slow tests try them."""
    pairs = asked_pairs(only, enumerated=small)
    for pair in worker.order(pairs) if worker else []:
        crowds(small, *pair, quick)
    for name, task in pairs:
        for number, (p, before) in enumerate(crowds(small, name, task, quick)):
            if p.trust is hc.Trust.CENTRAL and not central:
                continue
            late = before >= (1 if sparing else quick_settings(small, name, task))
            late |= sparing and number > 0 and not small and many_options(name, task)
            # Sums differ from means only by a factor, a paper's parameters only by their numbers,
            # and quantiles from distributions only by what is read from an answer. Most densities
            # are read from histograms.
            alike = isinstance(p.task, hc.Sum | hc.Quantiles)
            alike |= isinstance(p.task, hc.Density) and name != "local.density-series"
            late |= sparing and (alike or p.calibration == "paper")
            # For each option that is not a choice of a word, only the first number is tried.
            first = tried_options(SMALL_OPTIONS, name, task)[0] if small else {}
            late |= sparing and any(getattr(p, option) != first[option] for option in first)
            yield p, late


def named(protocol: hc.Protocol) -> str:
    budget, crowd = protocol.budget, protocol.crowd
    setting = (protocol.name, protocol.task.name, f"{budget.epsilon:g}", crowd.users, crowd.honest)
    options = (getattr(protocol, option) for option in option_names(type(protocol)))
    return "-".join(map(str, (*setting, *options)))


# Protocols in many settings ----------------------------------------------------------------------


def numeric(task: hc.Task) -> bool:
    """Whether people hold numbers. Then the error depends on how the numbers are rounded."""
    return isinstance(task, hc.Sum | hc.Mean | hc.Density)


def choices(name: str, task: hc.Task) -> dict[str, tuple[str, ...]]:
    """The options that are a choice of a word, with their words. If such an option may be left out,
    the protocol chooses.
    """
    found = protocol_class(name, task)
    hints = typing.get_type_hints(found)
    listed = {option: [hints[option], *typing.get_args(hints[option])] for option in hints}
    return {
        option: typing.get_args(hint)
        for option in option_names(found)
        for hint in listed[option]
        if typing.get_origin(hint) is typing.Literal
    }


def variants(name: str, task: hc.Task) -> list[dict[str, Any]]:
    """Every combination of the options that are a choice of a word."""
    found = choices(name, task)
    return [dict(zip(found, words, strict=True)) for words in itertools.product(*found.values())]


def tried_options(
    table: dict[str, list[dict[str, Any]]], name: str, task: hc.Task
) -> list[dict[str, Any]]:
    """The options to try, without those that the protocol has for other tasks alone."""
    known = option_names(protocol_class(name, task))
    found = []
    for options in table.get(name, [{}]):
        own = {option: value for option, value in options.items() if option in known}
        if own not in found:
            found.append(own)
    return found


@cache
def build(name: str, task: hc.Task, setting: Setting, options: Options) -> hc.Protocol | None:
    epsilon, delta, users, honest = setting
    try:
        return hc.protocol(
            name, task, hc.Budget(epsilon, delta), hc.Crowd(users, honest), **dict(options)
        )
    except hc.Infeasible:
        return None


@cache
def crowds(small: bool, name: str, task: hc.Task, quick: bool) -> Crowds:
    """The settings of a protocol, each with the number of earlier settings that have the same
    options. If quick, there are only as many as the quick tests try.
    """

    def build_them() -> Crowds:
        return build_crowds(small, name, task, quick)

    if worker is None:
        return build_them()
    about = ("small" if small else "large", name, task.name, "quick" if quick else "all")
    return worker.shared("-".join(about), build_them)


def build_crowds(small: bool, name: str, task: hc.Task, quick: bool) -> Crowds:
    found, tried = [], Counter[Options]()
    most = quick_settings(small, name, task) if quick else math.inf
    options = SMALL_OPTIONS if small else LARGE_OPTIONS
    for words, others in itertools.product(
        variants(name, task), tried_options(options, name, task)
    ):
        chosen: Options = tuple({**words, **others}.items())
        for setting in small_settings(task) if small else LARGE:
            if tried[chosen] >= most:
                break
            p = build(name, task, setting, chosen)
            # Some noise has tails at a small epsilon that are too long to enumerate.
            if p and not is_twin(p, setting, chosen) and (not small or enumeration.is_small(p)):
                found.append((p, tried[chosen]))
                tried[chosen] += 1
    return found


def is_twin(protocol: hc.Protocol, setting: Setting, chosen: Options) -> bool:
    """Whether the paper's calibration is the same as the exact one. Then one of them is enough."""
    if protocol.calibration != "paper":
        return False
    exact = build(protocol.name, protocol.task, setting, (*chosen, ("calibration", "exact")))
    return exact is not None and (
        (exact.parameters, exact.guarantee) == (protocol.parameters, protocol.guarantee)
    )


def quick_settings(small: bool, name: str, task: hc.Task) -> int:
    """How many settings the quick tests try. One is enough if only one person's law matters, if the
    inner protocol is tested by itself, as distributions are for quantiles, or if a large crowd is
    tried with many combinations of options.
    """
    local = protocol_class(name, task).trust is hc.Trust.LOCAL
    inner = isinstance(task, hc.Density | hc.Quantiles)
    many = not small and many_options(name, task)
    return 1 if local or inner or many else QUICK_SETTINGS


def many_options(name: str, task: hc.Task) -> bool:
    """Whether large crowds are tried with many combinations of options."""
    others = tried_options(LARGE_OPTIONS, name, task)
    return len(variants(name, task)) * len(others) > MANY_OPTIONS


def small_settings(task: hc.Task) -> list[Setting]:
    if not numeric(task):
        return SMALL
    return SMALL_MEANS if isinstance(task, hc.Mean) else SMALL_SUMS


def standard(name: str, task: hc.Task, users: int = 200, honest: int | None = None) -> hc.Protocol:
    return hc.protocol(name, task, hc.Budget(1, 1e-3), hc.Crowd(users, honest))


def mixed(protocol: hc.Protocol, messages: hc.Messages, source: hc.Source) -> hc.Batch:
    return hc.shuffle(messages, source, protocol)
