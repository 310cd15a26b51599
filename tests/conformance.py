"""The conformance suite: which protocols, tasks and settings its tests try, and what they share.

The tests are in `test_conformance_*.py`. They try every protocol that is registered, or with
`pytest --protocol NAME` that one alone.
"""

import itertools
import math
import typing
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any, TypeAlias

import pytest

import enumeration
import headcount as hc
from headcount.core.protocol import option_names
from headcount.protocols.registry import protocol_class

Options: TypeAlias = tuple[tuple[str, Any], ...]
Setting: TypeAlias = tuple[float, float, int, int]  # epsilon, delta, users, honest
Pair: TypeAlias = tuple[str, hc.Task]
# A test of a law with a fixed seed fails below this. A wrong law must fall far below it.
ALARM = 1e-6
# Each protocol is asked those of these that it answers.
TASKS: list[hc.Task] = [
    hc.Count(),
    hc.Histogram(3),
    hc.Sum(-1, 1, whole=True),
    hc.Mean(-0.5, 1),
    hc.Density(-0.5, 1, points=6),
]
# Crowds small enough to enumerate every view. Quick tests try the first ones that a protocol can
# have: in one everybody is honest, in one not.
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
# Sums and means share their accounting: some of these settings for each.
SMALL_MEANS = [SMALL[1], SMALL[5], SMALL[7]]
SMALL_SUMS = [SMALL[0], SMALL[4], SMALL[3], SMALL[6]]
LARGE: list[Setting] = [
    (1.0, 1e-6, 100_000, 100_000),
    (0.5, 1e-10, 20_000, 15_000),
    (3.0, 1e-8, 1000, 999),
]
# Options that are no choice of a word, for crowds that are enumerated, and for large ones.
SMALL_OPTIONS: dict[str, list[dict[str, Any]]] = {
    "shuffle.correlated": [{"error_ratio": 2.0}],
    "shuffle.unary-sum": [{"bits": 2}],
    "shuffle.fixed-point-sum": [{"levels": 2}],
    "local.hashing": [{"values": 4}, {"values": 2}],
    "local.laplace-mean": [{"levels": 1}],
    "local.piecewise-mean": [{"levels": 2}, {"levels": 1}],
    "local.hybrid-mean": [{"levels": 2}, {"levels": 1}],
    "local.density-histogram": [{"bins": 2}],
    "local.density-series": [{"terms": 3}, {"terms": 1}],
    "shuffle.density-histogram": [{"bins": 2}],
    "shuffle.noisy-shuffler": [
        {"bins": 2, "levels": 2},
        {"bins": 2, "levels": 2, "total": "free"},
        {"bins": 2, "levels": 2, "shufflers": 2},
        {"bins": 2, "levels": 2, "response_epsilon": 2.0},
    ],
}
LARGE_OPTIONS: dict[str, list[dict[str, Any]]] = {
    "shuffle.unary-sum": [{"bits": 5}],
    "shuffle.correlated-sum": [{"levels": 2}],
    "shuffle.noisy-shuffler": [{"levels": 5}],
}
# For each combination of a protocol's options, so many settings are tried each time, and one where
# a test takes long; the others by the slow tests.
QUICK_SETTINGS = 2
# Bundles of these are too many to list; where their views are judged instead.
JUDGED_ELSEWHERE = {
    "shuffle.correlated-histogram": "tests/test_histograms.py",
    "shuffle.hashed-histogram": "tests/test_hashed_histogram.py",
    "shuffle.split-and-mix": "tests/test_split_and_mix.py",
    "shuffle.correlated-sum": "tests/test_correlated_sums.py, tests/test_sums.py",
}
# The same for one choice of an option.
WORDS_JUDGED_ELSEWHERE = {
    ("shuffle.noisy-shuffler", "shares"): "tests/test_noisy_shuffler_sums.py",
}

# What a test asks for ----------------------------------------------------------------------------

# Crowds that are enumerated, and large ones; sparing for tests that take long. In central trust
# the noise is in the release, not in the messages: tests/test_central.py.
small = pytest.mark.crowds(small=True, sparing=False, central=True)
small_decentral = pytest.mark.crowds(small=True, sparing=False, central=False)
sparing_small = pytest.mark.crowds(small=True, sparing=True, central=True)
sparing_decentral = pytest.mark.crowds(small=True, sparing=True, central=False)
large = pytest.mark.crowds(small=False, sparing=False, central=True)
sparing_large = pytest.mark.crowds(small=False, sparing=True, central=True)
# Each protocol with each task that it answers; or those alone whose small crowds are enumerated.
every = pytest.mark.pairs(enumerated=False)
every_enumerated = pytest.mark.pairs(enumerated=True)


def parametrize(metafunc: pytest.Metafunc) -> None:
    """A test for each protocol; most settings are built and tried for the slow tests alone."""
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
    pairs = [(name, task) for task in TASKS for name in hc.protocol_names(task)]
    return [
        (name, task)
        for name, task in pairs
        if only in (None, name) and not (enumerated and name in JUDGED_ELSEWHERE)
    ]


def asked_crowds(
    only: str | None, quick: bool, *, small: bool, sparing: bool, central: bool
) -> Iterator[tuple[hc.Protocol, bool]]:
    """The protocols that a test tries, and whether it does so in the slow tests alone."""
    for name, task in asked_pairs(only, enumerated=small):
        for p, before in crowds(small, name, task, quick):
            if p.trust is hc.Trust.CENTRAL and not central:
                continue
            late = before >= (1 if sparing else quick_settings(name, task))
            # Sums share all but a factor with means, papers' parameters all but the numbers.
            late |= sparing and (isinstance(p.task, hc.Sum) or p.calibration == "paper")
            # One number for each option that is no choice of a word.
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
    """Then the error depends on the numbers that people hold, by how they are rounded."""
    return isinstance(task, hc.Sum | hc.Mean | hc.Density)


def choices(name: str, task: hc.Task) -> dict[str, tuple[str, ...]]:
    """The options that are choices of a word, and the words. Such an option may also be left out,
    and then the protocol chooses.
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
    """Every combination of the options that are choices of a word."""
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
def crowds(small: bool, name: str, task: hc.Task, quick: bool) -> list[tuple[hc.Protocol, int]]:
    """What is asked of a protocol, and how many with the same options were before. If quick, no
    more of these than are tried each time.
    """
    found, tried = [], Counter[Options]()
    most = quick_settings(name, task) if quick else math.inf
    options = SMALL_OPTIONS if small else LARGE_OPTIONS
    for words, others in itertools.product(
        variants(name, task), tried_options(options, name, task)
    ):
        chosen: Options = tuple({**words, **others}.items())
        for setting in small_settings(task) if small else LARGE:
            if tried[chosen] >= most:
                break
            p = build(name, task, setting, chosen)
            # The long tails of some noise at small epsilon are too much to enumerate.
            if p and not is_twin(p, setting, chosen) and (not small or enumeration.is_small(p)):
                found.append((p, tried[chosen]))
                tried[chosen] += 1
    return found


def is_twin(protocol: hc.Protocol, setting: Setting, chosen: Options) -> bool:
    """Where the paper's calibration is the exact one, one of them is enough."""
    if protocol.calibration != "paper":
        return False
    exact = build(protocol.name, protocol.task, setting, (*chosen, ("calibration", "exact")))
    return exact is not None and (
        (exact.parameters, exact.guarantee) == (protocol.parameters, protocol.guarantee)
    )


def quick_settings(name: str, task: hc.Task) -> int:
    """Where one person's law is all that matters, or what is inside is tried by itself, one setting
    is enough each time.
    """
    local = protocol_class(name, task).trust is hc.Trust.LOCAL
    return 1 if local or isinstance(task, hc.Density) else QUICK_SETTINGS


def small_settings(task: hc.Task) -> list[Setting]:
    if not numeric(task):
        return SMALL
    return SMALL_MEANS if isinstance(task, hc.Mean) else SMALL_SUMS


def standard(name: str, task: hc.Task, users: int = 200, honest: int | None = None) -> hc.Protocol:
    return hc.protocol(name, task, hc.Budget(1, 1e-3), hc.Crowd(users, honest))


def mixed(protocol: hc.Protocol, messages: hc.Messages, source: hc.Source) -> hc.Batch:
    return hc.shuffle(messages, source, protocol)
