"""The peak memory of processes that answer questions about very large tables."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import headcount as hc
from benchmarks.comparison import Comparison
from benchmarks.processes import in_new_process, peak
from benchmarks.real_data import DENSITY, MEAN, SUM, answer
from benchmarks.writing import write_persons, write_reals, write_whole

_ROWS = 10**8
_PERSONS = 10**7
_TRUSTS = ("central", "shuffle", "local")
_DISTRIBUTION, _QUANTILES, _MEDIAN = (
    kind(0, 120) for kind in (hc.Distribution, hc.Quantiles, hc.Median)
)
_SIDES = {"region": 20, "sex": 3}
# In shuffle and local trust, the protocols of quantiles are those of distributions.
_OF_REALS: tuple[tuple[hc.Task, str], ...] = (
    *((task, trust) for task in (MEAN, SUM, DENSITY, _DISTRIBUTION) for trust in _TRUSTS),
    (_QUANTILES, "central"),
    (_MEDIAN, "central"),
)


def large_reals(rows: int = _ROWS) -> Iterator[Comparison]:
    """The memory of questions about real numbers."""
    with tempfile.TemporaryDirectory() as folder:
        file = str(write_reals(Path(folder), rows))
        for number, (task, trust) in enumerate(_OF_REALS):
            used = in_new_process(memory_of_reals, file, number)
            name = task.name if task is _QUANTILES else f"a {task.name}"
            subject = f"{name} of {rows:.0e} real numbers, {trust}"
            yield Comparison.of_memory(subject, used, 1)


def large_tables(rows: int = _ROWS, persons: int = _PERSONS) -> Iterator[Comparison]:
    """The memory of two-way tables, of rows that name persons, and of very many buckets."""
    with tempfile.TemporaryDirectory() as folder:
        file = write_whole(Path(folder), rows, _SIDES)
        for trust in _TRUSTS:
            used = in_new_process(memory_of_table, str(file), trust)
            yield Comparison.of_memory(f"a two-way table of {rows:.0e} rows, {trust}", used, 1)
        file.unlink()
        file = write_persons(Path(folder), "whole numbers", rows, persons)
        used = in_new_process(memory_of_persons, str(file))
        subject = f"a count of {persons:.0e} persons in {rows:.0e} rows, named by whole numbers"
        yield Comparison.of_memory(subject, used, 1)
        file = write_persons(Path(folder), "text", persons, 0)
        used = in_new_process(memory_of_persons, str(file))
        yield Comparison.of_memory(f"a count of {persons:.0e} persons, named by text", used, 2)
    used = in_new_process(memory_of_buckets)
    yield Comparison.of_memory("a local histogram of 10⁶ buckets, 2,000 people", used, 1)


# What runs in a process of its own ------------------------------------------------------------


def memory_of_reals(file: str, number: int) -> int:
    return _memory(Path(file), *_OF_REALS[number])


def memory_of_table(file: str, trust: str) -> int:
    table = hc.Table(*(range(size) for size in _SIDES.values()))
    return _memory(Path(file), table, trust, column=list(_SIDES))


def memory_of_persons(file: str) -> int:
    return _memory(Path(file), hc.Count(), "central", person="person")


def memory_of_buckets() -> int:
    return _memory({"value": np.arange(2000)}, hc.Histogram(10**6), "local")


def _memory(data: Any, task: hc.Task, trust: str, **settings: Any) -> int:
    answer(data, task, trust, **settings)
    return peak()
