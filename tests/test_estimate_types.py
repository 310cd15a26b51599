"""What type checkers know of answers (`make lint` checks `assert_type`), and what is not data."""

from typing import Any, assert_type

import numpy as np
import pandas as pd
import pytest

import headcount as hc
from headcount.core.distribution import DistributionEstimate
from headcount.core.quantiles import QuantilesEstimate

ONE = hc.Budget(1)
AGES = [20, 40, 60] * 100


def test_answers_have_the_type_that_their_task_promises() -> None:
    pairs = {"a": ["x", "y"] * 50, "b": ["u", "v"] * 50}
    table = hc.estimate(pairs, hc.Table(["x", "y"], ["u", "v"]), column=["a", "b"], budget=ONE)
    assert_type(table, hc.TableEstimate)
    assert isinstance(table, hc.TableEstimate)
    assert table.rows
    median = hc.estimate(AGES, hc.Median(0, 100), budget=ONE)
    assert_type(median, QuantilesEstimate)
    quantiles = hc.estimate(AGES, hc.Quantiles(0, 100, at=[0.25, 0.5]), budget=ONE)
    assert_type(quantiles, QuantilesEstimate)
    for one in (median, quantiles):
        assert isinstance(one, QuantilesEstimate)
    ages = hc.estimate(AGES, hc.Distribution(0, 100), budget=ONE, honest=None)
    assert_type(ages, DistributionEstimate)
    assert isinstance(ages, DistributionEstimate)
    assert_type(hc.estimate(AGES, hc.Mean(0, 100), budget=ONE), hc.Estimate)
    assert_type(hc.estimate(AGES, bins=[0, 50, 100], budget=ONE), hc.Estimate)
    grouped = hc.estimate(pairs, hc.Histogram(["u", "v"]), column="b", group="a", budget=ONE)
    assert_type(grouped, hc.GroupedEstimate)


MANY = pd.DataFrame(np.ones((4, 2)), columns=pd.MultiIndex.from_tuples([("a", "x"), ("a", "y")]))


@pytest.mark.parametrize(
    ("data", "column", "message"),
    [
        (MANY, "a", r"each column of the data must have one name, got names with 2 levels"),
        (
            pd.DataFrame({0: [1, 0]}),
            0,
            r"`column` must be the name of a column or a list of names, got 0 \(.* such as '0'\)",
        ),
        (np.array([1, True, 0], dtype=object), None, "values of one kind in a column, got whole"),
        ([1, True, 0], None, "values of one kind in a column, got whole numbers and true/false"),
        (np.array([1, 0], dtype=">i4"), None, "in the byte order of this machine, got the other"),
        (pd.DataFrame({"v": np.array([1, 0], dtype=">i8")}), "v", "the byte order of this machine"),
    ],
)
def test_what_is_not_data_is_said_in_one_line(data: Any, column: Any, message: str) -> None:
    with pytest.raises(hc.HeadcountError, match=message) as refused:
        hc.estimate(data, hc.Count(), column=column, budget=ONE)
    assert "\n" not in str(refused.value)
    assert "Arrow" not in str(refused.value)
