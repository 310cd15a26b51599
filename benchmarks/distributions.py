"""Distributions: a tree with very many cells, and plans in each trust model."""

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import headcount as hc
from benchmarks.comparison import Comparison
from benchmarks.processes import program
from benchmarks.stopwatch import race, seconds
from benchmarks.writing import write_reals, write_whole

_ROWS = 10**8
_CELLS = 2**20
_BINS = 100
_BUDGET = hc.Budget(1.0, 1e-6)


def trees(rows: int = _ROWS, cells: int = _CELLS) -> Iterator[Comparison]:
    """A tree with many cells, compared with a plain histogram of the same file."""
    with tempfile.TemporaryDirectory() as folder:
        whole = write_whole(Path(folder), rows, {"value": cells})
        yield _compared(
            whole, f"{rows:.0e} whole numbers", hc.Distribution(0, cells, cells=cells),
            f"histogram of {cells:,} buckets", task=hc.Histogram(cells),
        )  # fmt: skip
        whole.unlink()
        yield _compared(
            write_reals(Path(folder), rows), f"{rows:.0e} real numbers",
            hc.Distribution(0, 120, cells=cells),
            f"histogram of {_BINS} bins", bins=np.linspace(0, 120, _BINS + 1).tolist(),
        )  # fmt: skip


def _compared(
    file: Path, values: str, tree: hc.Distribution, peer: str, **histogram: Any
) -> Comparison:
    ask = partial(hc.estimate, file, column="value", budget=_BUDGET)
    ours, theirs = race(partial(ask, task=tree), partial(ask, **histogram), rounds=3)
    subject = f"distribution of {values} in Parquet, {tree.cells:,} cells, central"
    return Comparison.of_times(subject, ours, f"{peer}, central", theirs, "≥ 1/2")


def distribution_plans(people: int = 100_000) -> Iterator[Comparison]:
    """A new program that plans a distribution, with an empty cache."""
    for trust in hc.Trust:
        line = (
            "import headcount as hc; hc.plan(hc.Distribution(0, 100), hc.Budget(1, 1e-6), "
            f"hc.Crowd({people}), trust={trust.value!r})"
        )
        with program("-c", line) as ask:
            cold = seconds(ask)
        subject = f"plan a distribution, {trust.value}, cold"
        yield Comparison.of_times(subject, cold, "time allowed", 3.0, "≥ 1")
