"""A survey of twelve questions: planned, and run on many people's answers, by the command line."""

import tempfile
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.comparison import Comparison, duration
from benchmarks.processes import program
from benchmarks.stopwatch import seconds
from headcount.core.budget import Trust
from headcount.survey.survey import Survey

_FILE = Path(__file__).with_name("campus.toml")
_ROWS = 10**6
_MARGIN = "5%"
_DRUGS = ("cannabis", "stimulants", "opioids", "other")
_YES_NO = ["no", "yes"]
# Some answers to each question. None is "no answer".
_ANSWERS: dict[str, list[Any]] = {
    "sex": ["female", "male", "other"],
    **dict.fromkeys(("smoke", "drive", "sick", "work", "help"), _YES_NO),
    "harassed": [*_YES_NO, None],
    "commute": ["on foot", "bicycle", "bus", "car"],
    "drugs": [";".join(some) for ticks in (1, 2, 3) for some in combinations(_DRUGS, ticks)],
    "sleep": [1, 2, 3, 4, 5],
    "stress": [1, 2, 3, 4, 5],
    "partners": [*range(51), None],
}


def campus(trust: Trust) -> Survey:
    """The survey in this trust model, for at least 2,000 people."""
    with tempfile.TemporaryDirectory() as folder:
        return Survey.load(_written(Path(folder), trust))


def _written(folder: Path, trust: Trust) -> Path:
    file = folder / f"{trust.value}.toml"
    text = _FILE.read_text(encoding="utf-8")
    file.write_text(text.replace('trust = "shuffle"', f'trust = "{trust.value}"'), encoding="utf-8")
    return file


def surveys(rows: int = _ROWS) -> Iterator[Comparison]:
    """Whole commands, which find an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        files = {trust: _written(home, trust) for trust in Trust}
        for trust, file in files.items():
            time = _cold("plan", file)
            subject = f"plan a survey of 12 questions, 2,000 people, {trust.value}, cold"
            yield Comparison.of_times(subject, time, "time allowed", 5.0, "≥ 1")
        for trust, file in files.items():
            time = _cold("plan", file, "--margin", _MARGIN)
            subject = f"plan a survey with --margin {_MARGIN}, {trust.value}, cold"
            yield Comparison(subject, duration(time), "–", "–", None)
        for kind, answers in _write_answers(home, rows).items():
            for trust, file in files.items():
                time = _cold("run", file, str(answers))
                subject = f"run a survey of 12 questions, {rows:.0e} rows of {kind}, {trust.value}"
                yield Comparison.of_times(subject, time, "time allowed", 10.0, "≥ 1")


def _cold(command: str, file: Path, *words: str) -> float:
    with program("-m", "headcount", "survey", command, str(file), *words) as ask:
        return seconds(ask)


def _write_answers(folder: Path, rows: int) -> dict[str, Path]:
    """Random answers, in a Parquet file and in a CSV file."""
    import pyarrow
    from pyarrow import csv, parquet

    random = np.random.default_rng(1)
    columns = {
        name: pyarrow.array(given).take(pyarrow.array(random.integers(0, len(given), rows)))
        for name, given in _ANSWERS.items()
    }
    table = pyarrow.table(columns)
    files = {"Parquet": folder / "answers.parquet", "CSV": folder / "answers.csv"}
    parquet.write_table(table, files["Parquet"])
    csv.write_csv(table, files["CSV"])
    return files
