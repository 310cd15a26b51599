"""The registry of all protocols, by their stable names. A protocol is loaded when first used.

Protocols can also come from outside Headcount. A program passes its own class to `register`. An
installed package lists its classes as entry points in the group `headcount.protocols`. The classes
of installed packages are loaded when a caller asks for all names, or for a name that is not one of
Headcount's own. Headcount's own names always refer to its own classes, because some proven bounds
apply to a protocol by its name.
"""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module
from typing import Any, TypeVar

from headcount.core import checks
from headcount.core.budget import Budget, Crowd, Trust
from headcount.core.errors import UnknownName
from headcount.core.protocol import Protocol, option_names, other_task
from headcount.core.task import Task
from headcount.protocols.outside import Outside, is_name

Kind = TypeVar("Kind", bound=Protocol)
# The classes that have each name, as file:class(tasks). The tasks that a class answers are listed,
# so that classes for other tasks need not be loaded.
_CLASSES = {
    "central.geometric": "central.geometric:Geometric(Count,Sum,Mean) "
    "central.histogram:GeometricHistogram(Histogram) central.density:GeometricDensity(Density) "
    "central.boxes:GeometricBoxes(Boxes)",
    "central.tree": "central.tree:CentralTree(Distribution)",
    "central.exponential-quantile": "central.exponential_quantile:ExponentialQuantile(Quantiles)",
    "central.laplace": "central.laplace:Laplace(Count,Sum,Mean) "
    "central.laplace_histogram:LaplaceHistogram(Histogram) central.density:LaplaceDensity(Density)",
    "central.sum-zero": "central.sum_zero:SumZeroHistogram(Histogram) "
    "central.density:SumZeroDensity(Density)",
    "central.cube": "central.cube:Cube(Boxes)",
    "central.fitted-table": "central.fitted_table:FittedTable(Table)",
    "central.margins": "central.margins:CentralMargins(Margins)",
    "central.summed-cells": "central.margins:SummedCells(Margins)",
    "local.randomized-response": "local.randomized_response:RandomizedResponse(Count)",
    "local.k-ary": "local.k_ary:KAry(Histogram)",
    "local.unary-symmetric": "local.unary:UnarySymmetric(Histogram)",
    "local.unary-optimized": "local.unary:UnaryOptimized(Histogram)",
    "local.hashing": "local.hashing:Hashing(Histogram)",
    "local.hadamard": "local.hadamard:Hadamard(Histogram)",
    "local.subset": "local.subset:Subset(Histogram)",
    "local.some-boxes": "local.some_boxes:SomeBoxes(Boxes)",
    "local.padded-boxes": "local.padded_boxes:PaddedBoxes(Boxes)",
    "local.margins": "local.margins:LocalMargins(Margins)",
    "local.summed-cells": "local.margins:LocalSummedCells(Margins)",
    "local.tree": "local.tree:LocalTree(Distribution)",
    "local.one-bit-mean": "local.one_bit_mean:OneBitMean(Sum,Mean)",
    "local.laplace-mean": "local.laplace_mean:LaplaceMean(Sum,Mean)",
    "local.piecewise-mean": "local.piecewise_mean:PiecewiseMean(Sum,Mean)",
    "local.hybrid-mean": "local.hybrid_mean:HybridMean(Sum,Mean)",
    "local.density-histogram": "local.density_histogram:LocalDensityHistogram(Density)",
    "local.density-series": "local.density_series:DensitySeries(Density)",
    "shuffle.randomized-response": "shuffle.randomized_response:ShuffledResponse(Count)",
    "shuffle.correlated": "shuffle.correlated:Correlated(Count)",
    "shuffle.unary-sum": "shuffle.unary_sum:UnarySum(Sum,Mean)",
    "shuffle.fixed-point-sum": "shuffle.fixed_point_sum:FixedPointSum(Sum,Mean)",
    "shuffle.correlated-sum": "shuffle.correlated_sum:CorrelatedSum(Sum,Mean)",
    "shuffle.split-and-mix": "shuffle.split_and_mix:SplitAndMix(Count,Sum,Mean) "
    "shuffle.split_and_mix_histogram:SplitAndMixHistogram(Histogram)",
    "shuffle.correlated-histogram": "shuffle.correlated_histogram:CorrelatedHistogram(Histogram)",
    "shuffle.fake-users": "shuffle.fake_users:FakeUsers(Histogram)",
    "shuffle.fake-user-boxes": "shuffle.fake_user_boxes:FakeUserBoxes(Boxes)",
    "shuffle.tree": "shuffle.tree:ShuffledTree(Distribution)",
    "shuffle.correlated-tree": "shuffle.correlated_tree:CorrelatedTree(Distribution)",
    "shuffle.zero-exact-histogram": "shuffle.zero_exact_histogram:ZeroExactHistogram(Histogram)",
    "shuffle.sample-threshold": "shuffle.sample_threshold:SampleThreshold(Histogram)",
    "shuffle.margins": "shuffle.margins:ShuffledMargins(Margins)",
    "shuffle.hashed-histogram": "shuffle.hashed_histogram:HashedHistogram(Histogram)",
    "shuffle.k-ary": "shuffle.k_ary:ShuffledKAry(Histogram)",
    "shuffle.density-histogram": "shuffle.density_histogram:ShuffledDensityHistogram(Density)",
    "shuffle.noisy-shuffler": "shuffle.noisy_shuffler:NoisyShuffler(Count) "
    "shuffle.noisy_shuffler:NoisyShufflerHistogram(Histogram) "
    "shuffle.noisy_shuffler:NoisyShufflerDensity(Density) "
    "shuffle.noisy_shuffler_sum:NoisyShufflerSum(Sum,Mean) "
    "shuffle.noisy_shuffler_boxes:NoisyShufflerBoxes(Boxes)",
    "shuffle.amplified": "shuffle.amplified:Amplified(Count,Histogram,Sum,Mean,Density)",
    "shuffle.zero-exact": "shuffle.zero_exact:ZeroExact(Count)",
}
_PLACE = re.compile(r"([\w.]+):(\w+)\(([\w,]+)\)")
_outside = Outside(reserved=_CLASSES)


def register(kind: type[Kind]) -> type[Kind]:
    """Register your own protocol under its name. `register` can be used as a decorator.

    Plans, comparisons, estimates, audits and amplification then find the protocol like any other.
    The class extends `Protocol`, and its `name` begins with its trust model, as in
    "local.my-protocol". Several classes may share a name if they answer different tasks.
    Registering a class again changes nothing. If a class is defined again, as in a notebook, the
    new definition replaces the old one.
    """
    _outside.add(kind)
    return kind


def is_outside(name: object) -> bool:
    """Whether `name` has the form of a protocol's name and is not one of Headcount's own names."""
    return isinstance(name, str) and is_name(name) and name not in _CLASSES


def protocol_class(name: str, task: Task | None = None) -> type[Protocol]:
    """The class with this name.

    If several classes have the name, the result is the class that answers `task`. If there is no
    such class, or if `task` is None, the result is the first class with the name.
    """
    if task is not None:
        for kind in _classes(name, task):
            if kind.answers(task):
                return kind
    return _classes(name)[0]


def _classes(name: str, task: Task | None = None) -> list[type[Protocol]]:
    """The classes with this name. Classes that cannot answer the task may be left out."""
    if isinstance(name, str) and name in _CLASSES:
        asked = None if task is None else {kind.__name__ for kind in type(task).__mro__}
        return [
            getattr(import_module(f"headcount.protocols.{file}"), noun)
            for file, noun, tasks in _PLACE.findall(_CLASSES[name])
            if asked is None or not asked.isdisjoint(tasks.split(","))
        ]
    known = _outside.classes() if isinstance(name, str) else ()
    classes = [kind for kind in known if kind.name == name]
    if not classes:
        raise UnknownName(
            f"`protocol` must be one of {', '.join(protocol_names())}, got {checks.shown(name)}",
            hint=likely_name(name),
        )
    return classes


def likely_name(wrong: object) -> str:
    """A hint that suggests the most similar protocol name. It is empty if no name is similar."""
    known = protocol_names()
    near = get_close_matches(wrong[:100], known, n=1) if isinstance(wrong, str) else []
    return f"did you mean {near[0]}?" if near else ""


def protocol_names(task: Task | None = None, trust: Trust | None = None) -> list[str]:
    """The names of all protocols, or of those that match `task` and `trust` if these are given."""
    return own_names(task, trust) + outside_names(task, trust)


def own_names(task: Task | None = None, trust: Trust | None = None) -> list[str]:
    """The names of Headcount's own protocols. This function loads no other packages."""
    return _chosen(_CLASSES, task, trust)


def outside_names(task: Task | None = None, trust: Trust | None = None) -> list[str]:
    """The names of protocols from outside Headcount, in the order of their registration."""
    return _chosen(dict.fromkeys(kind.name for kind in _outside.classes()), task, trust)


def _chosen(names: Iterable[str], task: Task | None, trust: Trust | None) -> list[str]:
    if task is not None:
        checks.instance("task", task, Task)
    if trust is not None:
        checks.choice("trust", trust, tuple(Trust))
    # A name begins with its trust model. So protocols of other trust models need not be loaded.
    wanted = [name for name in names if trust is None or name.partition(".")[0] == trust]
    return [
        name
        for name in wanted
        if task is None or any(kind.answers(task) for kind in _classes(name, task))
    ]


def protocol(name: str, task: Task, budget: Budget, crowd: Crowd, /, **options: Any) -> Protocol:
    """The protocol with this name, calibrated for a task, a budget and a crowd.

    Pass options as keyword arguments, such as `calibration="paper"`. `protocol_names()` lists all
    names, and the docstring of a protocol's module explains the protocol. Raises `Infeasible` if
    the protocol cannot satisfy the budget.

        p = protocol("shuffle.zero-exact", Count(), Budget(1, 1e-6), Crowd(100_000))
        p.parameters, p.guarantee, p.standard_error(), run(p, values).interval(0.95)
    """
    chosen = protocol_class(name, task if isinstance(task, Task) else None)
    if isinstance(task, Task) and not chosen.answers(task):
        every = (answered for kind in _classes(name) for answered in kind.tasks)
        raise other_task(task, chosen, *every)
    for option in options:
        if option not in option_names(chosen):
            known = ", ".join(option_names(chosen))
            raise UnknownName(f"{name} takes the options {known}, but got {option!r}")
    return chosen(task, budget, crowd, **options)
