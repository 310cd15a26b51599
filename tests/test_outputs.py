"""What Headcount gives out says what it means: units, rows or people, shares, and columns of files."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas
import pytest

import headcount as hc
from commands import Headcount

INCOMES = ["--column", "income", "--task", "quantiles", "--low", "0", "--high", "9000"]


@pytest.fixture
def incomes(tmp_path: Path) -> None:
    """900 rows of 300 persons in two cities."""
    random = np.random.default_rng(5)
    table = pandas.DataFrame(
        {
            "who": [f"p{i % 300}" for i in range(900)],
            "income": random.uniform(500, 8000, 900).round(2),
            "smoker": random.integers(0, 2, 900),
            "city": random.choice(["North", "South"], 900),
            "sex": random.integers(1, 3, 900),
            "when": [f"2024-{1 + i % 12:02}-{1 + i % 28:02} {i * 7 % 24:02}:00" for i in range(900)],
        }
    )
    table.to_csv(tmp_path / "people.csv", index=False)


def heads(line: str) -> Sequence[str]:
    return [one.strip() for one in line.split("  ") if one.strip()]


@pytest.mark.usefixtures("incomes")
def test_the_error_of_quantiles_is_named_as_that_of_the_share(headcount: Headcount) -> None:
    asked = ["estimate", "people.csv", *INCOMES, "--epsilon", "1"]
    assert headcount(*asked, "--out", "q.csv").status == 0
    found = pandas.read_csv("q.csv")
    assert "standard_error" not in found
    assert (found.standard_error_of_share < 0.1).all()
    document = json.loads(headcount(*asked, "--sampling", "--json").out)
    assert {"standard_error", "sampling_error"}.isdisjoint(document)
    assert document["standard_error_of_share"][0] < 0.1
    assert document["sampling_error_of_share"][0] == pytest.approx(np.sqrt(0.25 * 0.75 / 900))
    frame = hc.estimate(
        {"v": range(900)}, hc.Median(0, 900), column="v", budget=hc.Budget(1)
    ).to_pandas()
    assert "standard_error" not in frame
    assert "standard_error_of_share" in frame
