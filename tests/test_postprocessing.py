"""Steps that may change an answer after it is private."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headcount as hc
from headcount.core.postprocessing import postprocessed

RANGE = (0.0, 1000.0)
# The task that each step is for.
STEPS_OF = {
    "norm-sub": "histogram or table",
    "simplex": "histogram or table",
    "density": "density",
    "monotone": "distribution",
}
vectors = st.lists(st.floats(-500, 900), min_size=2, max_size=12).map(np.array)


def changed(name: str, values: Any, task: str = "histogram", total: float | None = 1000.0) -> Any:
    return postprocessed(name, task, np.asarray(values, dtype=float), RANGE, total)


def test_clip_moves_only_what_is_impossible() -> None:
    assert changed("clip", [-3, 0, 7.5, 1200]).tolist() == [0, 0, 7.5, 1000]


@given(vectors)
@settings(max_examples=200, deadline=None)
def test_simplex_is_the_nearest_point(values: Any) -> None:
    """A point is nearest if and only if its positive numbers changed by the same amount, and the
    numbers that became 0 would be at most 0 after this change.
    """
    found = changed("simplex", values)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1000, rel=1e-9)
    lost = values - found
    level = lost[found > 0].mean()
    assert lost[found > 0] == pytest.approx(level, abs=1e-6)
    assert (lost[found == 0] <= level + 1e-6).all()


@given(vectors)
@settings(max_examples=200, deadline=None)
def test_norm_sub_adds_up_and_is_simplex_where_positive_numbers_suffice(values: Any) -> None:
    found = changed("norm-sub", values)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1000, rel=1e-9)
    if values[values > 0].sum() >= 1000:
        assert found == pytest.approx(changed("simplex", values), abs=1e-6)
    elif (values > 0).any():
        assert (found[values <= 0] == 0).all()


def test_norm_sub_by_hand() -> None:
    # The negative number becomes 0, and 50 is subtracted from each of the others.
    assert changed("norm-sub", [-100, 650, 450]).tolist() == [0, 600, 400]
    # Then one of them is below 0, and the others are reduced again.
    assert changed("norm-sub", [-50, 20, 800, 600]).tolist() == [0, 0, 600, 400]
    assert changed("norm-sub", [-5, -6]).tolist() == [500, 500]


@pytest.mark.parametrize("name", ["clip", "norm-sub", "simplex"])
def test_steps_mark_a_histogram_and_keep_the_unbiased_value(name: str) -> None:
    p = hc.protocol("local.unary-optimized", hc.Histogram(8), hc.Budget(1), hc.Crowd(500))
    raw = p.estimate(p.simulate([500, 0, 0, 0, 0, 0, 0, 0], hc.SeededSource(1)))
    done = raw.postprocess(name)
    assert done.postprocessing == (name,)
    assert np.array_equal(done.unbiased_value, raw.value)
    assert not np.array_equal(done.value, raw.value)
    assert done.value.min() >= 0
    assert np.array_equal(done.interval().low, raw.interval().low)
    assert done.to_dict()["postprocessing"] == [name]
    again = done.postprocess("clip")
    assert again.postprocessing == (name, "clip")
    assert np.array_equal(again.unbiased_value, raw.value)


def test_numbers_are_clipped_too() -> None:
    p = hc.protocol("local.one-bit-mean", hc.Mean(0, 1), hc.Budget(0.1), hc.Crowd(20))
    raw = p.estimate(p.simulate({0.0: 20}, hc.SeededSource(5)))
    assert raw.postprocess("clip").value == min(max(raw.value, 0.0), 1.0)


def test_wrong_steps_are_refused() -> None:
    p = hc.protocol("central.geometric", hc.Count(), hc.Budget(1), hc.Crowd(20))
    raw = hc.run(p, [1] * 20)
    with pytest.raises(hc.UnknownName, match="density, monotone, got 'x'"):
        raw.postprocess("x")
    for name, task in STEPS_OF.items():
        with pytest.raises(hc.InvalidParameter, match=f"{name} must come with a {task}, got a co"):
            raw.postprocess(name)
    opened = hc.Histogram(["a", "b"], open=True)
    p = hc.protocol("shuffle.hashed-histogram", opened, hc.Budget(1, 1e-3), hc.Crowd(300))
    with pytest.raises(hc.InvalidParameter, match="got an open histogram"):
        hc.run(p, ["a"] * 300).postprocess("simplex")
