"""Tables as people have them: real numbers, persons with several rows, and small row groups.

The peer is DuckDB, which answers a plain question about the same files.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import headcount as hc
from benchmarks.comparison import Comparison
from benchmarks.processes import in_new_process
from benchmarks.stopwatch import race, seconds
from benchmarks.writing import write_persons, write_reals
from headcount.randomness.discrete_laplace import discrete_laplace

_ROWS = 2 * 10**7
_PERSONS = 6_700_000
_HIVE_ROWS, _GROUP = 5 * 10**6, 217  # the rows of a folder, and those of each row group
_BUDGET = hc.Budget(1.0, 1e-6)
MEAN, SUM, DENSITY = hc.Mean(0, 120), hc.Sum(0, 120), hc.Density(0, 120)
# The task, the trust model, and the maximum ratio of the time to that of the plain answer.
_REALS = (
    (MEAN, "central", 3),
    (MEAN, "shuffle", 12),
    (MEAN, "local", 8),
    (SUM, "central", 3),
    (SUM, "shuffle", 12),
    (SUM, "local", 8),
    (DENSITY, "central", 3),
    (DENSITY, "shuffle", 3),
    (DENSITY, "local", 12),
)


def reals() -> Iterator[Comparison]:
    """Means, sums and densities of real numbers, compared with a plain mean."""
    with tempfile.TemporaryDirectory() as folder:
        file = write_reals(Path(folder), _ROWS)
        ours = [partial(answer, file, task, trust) for task, trust, _ in _REALS]
        *times, plain = race(*ours, partial(_plain, f"SELECT avg(value) FROM '{file}'"), rounds=5)
        for (task, trust, most), time in zip(_REALS, times, strict=True):
            subject = f"{task.name} of {_ROWS:.0e} real numbers in Parquet, {trust}"
            yield Comparison.of_times(subject, time, "avg in duckdb", plain, f"≥ 1/{most}")
        means = [(trust, most) for task, trust, most in _REALS if task is MEAN]
        calls = [partial(in_new_process, first_mean, str(file), trust) for trust, _ in means]
        calls.append(partial(in_new_process, first_plain, str(file)))
        rounds = [[call() for call in calls] for _ in range(5)]
        *times, plain = [min(first) for first in zip(*rounds, strict=True)]
        for (trust, most), time in zip(means, times, strict=True):
            subject = f"mean of {_ROWS:.0e} real numbers in Parquet, {trust}, first call"
            peer = "avg in duckdb, first call"
            yield Comparison.of_times(subject, time, peer, plain, f"≥ 1/{most}")


def persons() -> Iterator[Comparison]:
    """One row of each person, compared with a count of distinct persons."""
    with tempfile.TemporaryDirectory() as folder:
        for kind, most in (("whole numbers", 4), ("text", 8)):
            file = write_persons(Path(folder), kind, _ROWS, _PERSONS)
            query = f"SELECT count(DISTINCT person) FROM '{file}'"
            ours = partial(answer, file, hc.Count(), "central", person="person")
            time, plain = race(ours, partial(_plain, query), rounds=3)
            subject = f"count of {_PERSONS:.1e} persons in {_ROWS:.0e} rows, named by {kind}"
            peer = "count distinct in duckdb"
            yield Comparison.of_times(subject, time, peer, plain, f"≥ 1/{most}")


def folders() -> Iterator[Comparison]:
    """A folder whose files have many small row groups, compared with a plain sum."""
    with tempfile.TemporaryDirectory() as folder:
        _write_folder(Path(folder))
        query = f"SELECT sum(value) FROM '{folder}/*/*.parquet'"
        cases: list[tuple[str, dict[str, Any]]] = [("", {}), (", by group", {"group": "region"})]
        ours = [partial(answer, folder, hc.Count(), "central", **how) for _, how in cases]
        *times, plain = race(*ours, partial(_plain, query), rounds=3)
        for (more, _), time in zip(cases, times, strict=True):
            subject = f"count of {_HIVE_ROWS:.0e} rows in row groups of {_GROUP}{more}"
            yield Comparison.of_times(subject, time, "sum in duckdb", plain, "≥ 1/2")


def curator_noise() -> Iterator[Comparison]:
    """Exact two-sided geometric noise, and a histogram with a million buckets."""
    import opendp.prelude

    dp: Any = opendp.prelude
    dp.enable_features("contrib")
    few, many = 2000, 10**6
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    theirs = dp.m.make_laplace(*space, scale=1.0)
    zeros, source = [0] * few, hc.SecureSource()
    ours, one_each = race(
        lambda: discrete_laplace(source, Fraction(1), many), lambda: theirs(zeros), rounds=5
    )
    yield Comparison.of_times(
        "two-sided geometric noise, 10⁶ values", ours,
        f"opendp for {few:,} values, times {many // few}", one_each * many / few, "≥ 100",
    )  # fmt: skip
    protocol = hc.protocol(
        "central.geometric", hc.Histogram(many), hc.Budget(1.0), hc.Crowd(10 * many)
    )
    values = np.arange(10 * many) % many
    (time,) = race(lambda: hc.run(protocol, values), rounds=3)
    subject = "central histogram of 10⁶ buckets, 10⁷ people"
    yield Comparison.of_times(subject, time, "time allowed", 1.0, "≥ 1")


def command_line() -> Iterator[Comparison]:
    """The command line from its start to the answer, with a small file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "people.csv"
        file.write_text("smoker\n" + "1\n0\n0\n" * 500)
        line = [sys.executable, "-m", "headcount", "estimate", str(file), "--column", "smoker"]
        run = partial(subprocess.run, [*line, "--epsilon", "1"], check=True, capture_output=True)
        (time,) = race(run, rounds=5)
        subject = "headcount estimate of a small file, from start to answer"
        yield Comparison.of_times(subject, time, "time allowed", 0.4, "≥ 1")


# What runs in a process of its own ------------------------------------------------------------


def first_plain(file: str) -> float:
    return seconds(partial(_plain, f"SELECT avg(value) FROM '{file}'"))


def first_mean(file: str, trust: str) -> float:
    return seconds(partial(answer, Path(file), MEAN, trust))


# Questions and files --------------------------------------------------------------------------


def answer(
    data: Any, task: hc.Task, trust: str, column: str | list[str] = "value", **settings: Any
) -> object:
    return hc.estimate(data, task, column=column, budget=_BUDGET, trust=trust, **settings)


def _plain(query: str) -> object:
    import duckdb

    return duckdb.connect().sql(query).fetchall()


def _write_folder(folder: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    random, files = np.random.default_rng(1), 100
    for number in range(files):
        place = folder / f"region={number}"
        place.mkdir()
        table = pyarrow.table({"value": random.integers(0, 2, _HIVE_ROWS // files)})
        parquet.write_table(table, place / "part.parquet", row_group_size=_GROUP)
