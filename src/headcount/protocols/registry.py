"""The registry of all protocols, by their stable names. A protocol is loaded when it is used.

Protocols can also come from outside Headcount. A program passes its own class to `register`. An
installed package lists its classes as entry points in the group `headcount.protocols`. The classes
of installed packages are loaded when a caller asks for all names, or for a name that is not one of
Headcount's own. Headcount's own names always refer to its own classes, because some proven bounds
apply to a protocol by its name.
"""

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
# Each name refers to one class, or to several classes that answer different tasks.
_CLASSES = {
    "central.geometric": "central.geometric:Geometric central.histogram:GeometricHistogram "
    "central.density:GeometricDensity central.boxes:GeometricBoxes",
    "central.tree": "central.tree:CentralTree",
    "central.exponential-quantile": "central.exponential_quantile:ExponentialQuantile",
    "central.laplace": "central.laplace:Laplace central.laplace:LaplaceHistogram "
    "central.density:LaplaceDensity",
    "central.sum-zero": "central.sum_zero:SumZeroHistogram central.density:SumZeroDensity",
    "central.cube": "central.cube:Cube",
    "central.fitted-table": "central.fitted_table:FittedTable",
    "central.margins": "central.margins:CentralMargins",
    "central.summed-cells": "central.margins:SummedCells",
    "local.randomized-response": "local.randomized_response:RandomizedResponse",
    "local.k-ary": "local.k_ary:KAry",
    "local.unary-symmetric": "local.unary:UnarySymmetric",
    "local.unary-optimized": "local.unary:UnaryOptimized",
    "local.hashing": "local.hashing:Hashing",
    "local.hadamard": "local.hadamard:Hadamard",
    "local.subset": "local.subset:Subset",
    "local.some-boxes": "local.some_boxes:SomeBoxes",
    "local.padded-boxes": "local.padded_boxes:PaddedBoxes",
    "local.tree": "local.tree:LocalTree",
    "local.one-bit-mean": "local.one_bit_mean:OneBitMean",
    "local.laplace-mean": "local.laplace_mean:LaplaceMean",
    "local.piecewise-mean": "local.piecewise_mean:PiecewiseMean",
    "local.hybrid-mean": "local.hybrid_mean:HybridMean",
    "local.density-histogram": "local.density_histogram:LocalDensityHistogram",
    "local.density-series": "local.density_series:DensitySeries",
    "shuffle.randomized-response": "shuffle.randomized_response:ShuffledResponse",
    "shuffle.correlated": "shuffle.correlated:Correlated",
    "shuffle.unary-sum": "shuffle.unary_sum:UnarySum",
    "shuffle.fixed-point-sum": "shuffle.fixed_point_sum:FixedPointSum",
    "shuffle.correlated-sum": "shuffle.correlated_sum:CorrelatedSum",
    "shuffle.split-and-mix": "shuffle.split_and_mix:SplitAndMix "
    "shuffle.split_and_mix_histogram:SplitAndMixHistogram",
    "shuffle.correlated-histogram": "shuffle.correlated_histogram:CorrelatedHistogram",
    "shuffle.fake-users": "shuffle.fake_users:FakeUsers",
    "shuffle.fake-user-boxes": "shuffle.fake_user_boxes:FakeUserBoxes",
    "shuffle.tree": "shuffle.tree:ShuffledTree",
    "shuffle.zero-exact-histogram": "shuffle.zero_exact_histogram:ZeroExactHistogram",
    "shuffle.sample-threshold": "shuffle.sample_threshold:SampleThreshold",
    "shuffle.margins": "shuffle.margins:ShuffledMargins",
    "shuffle.hashed-histogram": "shuffle.hashed_histogram:HashedHistogram",
    "shuffle.k-ary": "shuffle.k_ary:ShuffledKAry",
    "shuffle.density-histogram": "shuffle.density_histogram:ShuffledDensityHistogram",
    "shuffle.noisy-shuffler": "shuffle.noisy_shuffler:NoisyShuffler "
    "shuffle.noisy_shuffler:NoisyShufflerHistogram shuffle.noisy_shuffler:NoisyShufflerDensity "
    "shuffle.noisy_shuffler_sum:NoisyShufflerSum "
    "shuffle.noisy_shuffler_boxes:NoisyShufflerBoxes",
    "shuffle.amplified": "shuffle.amplified:Amplified",
    "shuffle.zero-exact": "shuffle.zero_exact:ZeroExact",
}
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
    """The class with this name. If several classes have the name, the one for this task."""
    classes = _classes(name)
    fitting = (kind for kind in classes if task is not None and kind.answers(task))
    return next(fitting, classes[0])


def _classes(name: str) -> list[type[Protocol]]:
    if isinstance(name, str) and name in _CLASSES:
        places = (place.split(":") for place in _CLASSES[name].split())
        return [
            getattr(import_module(f"headcount.protocols.{file}"), noun) for file, noun in places
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
    """The names of all protocols, or only of the protocols for a task or a trust model."""
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
    # A name begins with the trust model. So the protocols of other trust models are not loaded.
    wanted = [name for name in names if trust is None or name.partition(".")[0] == trust]
    return [name for name in wanted if task is None or protocol_class(name, task).answers(task)]


def protocol(name: str, task: Task, budget: Budget, crowd: Crowd, /, **options: Any) -> Protocol:
    """The protocol with this name, calibrated for a task, a budget and a crowd.

    Pass options as keyword arguments, such as `calibration="paper"`. `protocol_names()` lists all
    names, and the docstring of a protocol's module explains the protocol. Raises `Infeasible` if
    the protocol cannot satisfy the budget.

        p = protocol("shuffle.zero-exact", Count(), Budget(1, 1e-6), Crowd(100_000))
        p.parameters, p.guarantee, p.standard_error(), run(p, values).interval(0.95)
    """
    classes = _classes(name)
    chosen = protocol_class(name, task if isinstance(task, Task) else None)
    if isinstance(task, Task) and not chosen.answers(task):
        raise other_task(task, chosen, *(answered for kind in classes for answered in kind.tasks))
    for option in options:
        if option not in option_names(chosen):
            known = ", ".join(option_names(chosen))
            raise UnknownName(f"{name} takes the options {known}, but got {option!r}")
    return chosen(task, budget, crowd, **options)
