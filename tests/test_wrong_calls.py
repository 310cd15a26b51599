"""Every public function, called with wrong arguments, refuses in one line or answers."""

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import headcount as hc
from enumeration import bundled_curve
from headcount.accounting.amplification import Blanket, Clones
from headcount.road.pieces import collect

SOURCE = hc.SeededSource(1)
WRONG: list[Any] = [
    *(None, "", "x", b"x", True, -1, 0, 1.5, math.nan, math.inf, -math.inf, 1j),
    *(2**70, 10**400, 10**5000),
    *([], [1, 2], [[1], [2, 3]], {}, {"a": 1}, set(), object(), lambda: 1, hc.Count),
    *(np.array(3), np.array([1.0]), np.array([1.0, 2.0]), np.array([[1, 2], [3, 4]])),
    np.array(["a"]),
]
COUNT, BUDGET, CROWD = hc.Count(), hc.Budget(1, 1e-2), hc.Crowd(30)
LOCAL = hc.protocol("local.k-ary", hc.Histogram(3), hc.Budget(1), hc.Crowd(5))
CENTRAL = hc.protocol("central.laplace", hc.Mean(0, 5), hc.Budget(1), hc.Crowd(3))
SHUFFLED = hc.protocol("shuffle.zero-exact", COUNT, BUDGET, CROWD)
ESTIMATE = hc.run(CENTRAL, [1.0, 2.0, 3.0], SOURCE)
OTHER = hc.run(CENTRAL, [3.0, 2.0, 3.0], SOURCE)
COUNTED = hc.run(SHUFFLED, [0, 1] * 15, SOURCE)
CONTRAST = COUNTED - hc.run(SHUFFLED, [0] * 30, SOURCE)
TREE = hc.protocol("central.tree", hc.Distribution(0, 3, cells=3), hc.Budget(1), hc.Crowd(3))
DISTRIBUTION: Any = hc.run(TREE, [1.0, 2.0, 3.0], SOURCE)
MESSAGES = LOCAL.randomize([0, 1, 2, 0, 1], SOURCE)
PLANNED: dict[str, Any] = {"task": COUNT, "budget": BUDGET, "crowd": CROWD}
MARGIN = hc.Margin(0.3, share=True)


def half(_: float) -> Any:
    return [[0.5, 0.5], [0.5, 0.5]]


def built(name: Any, task: Any, budget: Any, crowd: Any, **options: Any) -> Any:
    return hc.protocol(name, task, budget, crowd, **options)


def needed(difference: Any, share: Any, power: Any) -> Any:
    return hc.needed_groups(difference, hc.Budget(1), share=share, power=power, trust="local")


def post(step: Any) -> Any:
    return ESTIMATE.postprocess(step)


# A function, and arguments that it takes.
CALLS: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    (hc.Budget, {"epsilon": 1.0, "delta": 0.1}),
    (hc.Crowd, {"users": 5, "honest": 3}),
    (hc.Histogram, {"buckets": 3, "open": False}),
    (hc.Sum, {"low": 0, "high": 3, "whole": True, "clamp": False}),
    (hc.Mean, {"low": 0, "high": 3, "whole": False, "clamp": False}),
    (hc.Density, {"low": 0, "high": 1, "smoothness": 1.0, "points": 16, "clamp": False}),
    (hc.Distribution, {"low": 0, "high": 1, "cells": 16, "clamp": False}),
    (hc.Quantiles, {"low": 0, "high": 1, "at": [0.5], "cells": 16, "clamp": False}),
    (hc.Median, {"low": 0, "high": 1, "cells": 16, "clamp": False}),
    (DISTRIBUTION.cdf_interval, {"x": 1, "confidence": 0.9}),
    (DISTRIBUTION.share_interval, {"low": 1, "high": 2, "confidence": 0.9}),
    (DISTRIBUTION.quantile_interval, {"share": 0.5, "confidence": 0.9}),
    (hc.SeededSource, {"seed": 1}),
    (hc.protocol_names, {"task": COUNT, "trust": "local"}),
    (
        built,
        {
            "name": "local.randomized-response",
            **PLANNED,
            "calibration": "exact",
        },
    ),
    (built, {"name": "shuffle.amplified", **PLANNED, "local": "local.randomized-response"}),
    (hc.run, {"protocol": LOCAL, "values": [0, 1, 2, 0, 1], "source": SOURCE}),
    (hc.shuffle, {"messages": MESSAGES, "source": SOURCE, "least_copies": 1, "dummy": (9,)}),
    (hc.shuffle, {"messages": MESSAGES, "source": SOURCE, "protocol": LOCAL}),
    (LOCAL.randomize, {"values": [0, 1], "source": SOURCE}),
    (LOCAL.tally, {"batch": MESSAGES}),
    (LOCAL.estimate, {"tally": LOCAL.tally(MESSAGES), "source": SOURCE}),
    (CENTRAL.estimate, {"tally": collect(CENTRAL, [1.0, 2.0, 3.0], SOURCE), "source": SOURCE}),
    (LOCAL.simulate, {"counts": [1, 2, 2], "source": SOURCE}),
    (LOCAL.standard_error, {"counts": [1, 2, 2]}),
    (CENTRAL.standard_error, {"counts": {1.0: 3}}),
    (LOCAL.margin, {"confidence": 0.9}),
    (SHUFFLED.bundle, {"value": 1, "source": SOURCE, "slots": None}),
    (SHUFFLED.curve.delta, {"epsilon": 1.0}),
    (SHUFFLED.curve.deltas, {"epsilons": np.array([1.0])}),
    (SHUFFLED.curve.epsilon, {"delta": 0.1}),
    (bundled_curve(SHUFFLED).delta, {"epsilon": 1.0}),
    (CENTRAL.curve.delta, {"epsilon": 1.0}),
    (ESTIMATE.interval, {"confidence": 0.9}),
    (post, {"step": "clip"}),
    (hc.difference, {"first": ESTIMATE, "second": OTHER, "same_people": False}),
    (hc.ratio, {"first": ESTIMATE, "second": OTHER, "same_people": True}),
    (
        hc.contrasts,
        {
            "estimates": {"a": ESTIMATE, "b": OTHER},
            "pairs": [("a", "b")],
            "kind": "ratio",
            "same_people": False,
        },
    ),
    (CONTRAST.interval, {"confidence": 0.9, "sampling": False}),
    (CONTRAST.to_dict, {"confidence": 0.9}),
    (hc.population_share, {"estimate": COUNTED, "confidence": 0.9}),
    (needed, {"difference": 0.5, "share": 0.1, "power": 0.5}),
    (hc.Tally, {"counts": np.array([1, 2]), "users": 3, "protocol": "local.k-ary"}),
    (hc.Batch, {"payload": np.array([1, 2]), "users": 2}),
    (hc.Messages, {"payload": np.array([1, 2]), "users": 2, "counts": np.array([1, 1])}),
    (
        hc.audit,
        {
            "target": lambda _: 0,
            "datasets": [(0, 1)],
            "claim": 1.0,
            "delta": 0.0,
            "view": "central",
            "runs": 1000,
            "confidence": 0.9,
        },
    ),
    (hc.audit, {"target": LOCAL, "datasets": [(0, 1)], "runs": 1000, "source": SOURCE}),
    (
        hc.exact_audit,
        {
            "target": LOCAL,
            "values": [0, 1],
            "users": 2,
            "view": "local",
            "delta": 0.0,
            "claim": 1.0,
        },
    ),
    (hc.privacy_report, {"source": LOCAL, "secret": 9, "thresholds": hc.Thresholds()}),
    (
        hc.Thresholds,
        {"odds": 2, "exception": 0.1, "advantage": 0.1, "singled_out": 0.1},
    ),
    (hc.Thresholds.of, {"limits": {"odds": 3}}),
    (hc.Margin, {"size": 0.1, "confidence": 0.9, "share": True}),
    (hc.bounds, PLANNED),
    (hc.survey_worth, {"users": 5, "epsilon": 1.0, "buckets": 2}),
    (Blanket.of, {"honest": 5, "randomizer": half}),
    (Blanket.of(5, half).delta, {"local_epsilon": 1.0, "epsilon": 0.5}),
    (Clones(5).epsilon, {"local_epsilon": 1.0, "delta": 0.1}),
    (Clones(5).local_epsilon, {"epsilon": 1.0, "delta": 0.1}),
]


@pytest.mark.parametrize(
    ("function", "arguments"),
    [pytest.param(*call, id=f"{number} {call[0].__name__}") for number, call in enumerate(CALLS)],
)
@pytest.mark.filterwarnings("error")
def test_wrong_arguments_are_refused_or_answered(
    function: Callable[..., Any], arguments: dict[str, Any]
) -> None:
    function(**arguments)
    for name in arguments:
        for wrong in WRONG:
            with suppress(hc.HeadcountError):
                function(**{**arguments, name: wrong})


def test_a_delta_of_what_is_no_epsilon_is_none() -> None:
    """For NaN it was 0, which would be perfect privacy."""
    for curve in (LOCAL.curve, CENTRAL.curve, SHUFFLED.curve, bundled_curve(SHUFFLED)):
        for wrong in (math.nan, "1", None, [1.0], np.array([1.0]), np.array([1.0, 2.0])):
            with pytest.raises(hc.InvalidParameter, match="`epsilon` must be"):
                curve.delta(wrong)  # type: ignore[arg-type]
        with pytest.raises(hc.InvalidParameter, match="must not contain NaN"):
            curve.deltas(np.array([1.0, math.nan]))
        for delta in (-0.1, 1.1, math.nan):
            with pytest.raises(hc.InvalidParameter, match="`delta` must be"):
                curve.epsilon(delta)
        assert curve.delta(math.inf) <= curve.delta(5.0) < 0.02


def test_a_bundle_says_what_is_wrong_with_the_value_first() -> None:
    with pytest.raises(hc.InvalidValue, match="numbers or true/false"):
        SHUFFLED.bundle("Yes")
    with pytest.raises(hc.InvalidParameter, match="`source` must be a SecureSource"):
        SHUFFLED.bundle(1)
    with pytest.raises(hc.InvalidValue):
        SHUFFLED.bundle([1, [2]], SOURCE)


@pytest.mark.parametrize("local", [[[0.7, 0.3], [0.3, 0.7]], np.eye(2), "shuffle.k-ary", "x", 5])
def test_a_local_protocol_goes_by_its_name(local: Any) -> None:
    with pytest.raises(hc.InvalidParameter, match=r"`local` must be one of local\.ran"):
        hc.protocol("shuffle.amplified", COUNT, BUDGET, CROWD, local=local)
