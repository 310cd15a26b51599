"""Private answers about a large file, compared with plain answers from two query engines."""

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import headcount as hc
from benchmarks.comparison import Comparison
from benchmarks.processes import in_new_process, peak
from benchmarks.stopwatch import race
from benchmarks.writing import write_whole

_ROWS = 10**8
_BUCKETS = 100
_BUDGET = hc.Budget(1.0, 1e-6)
# The column, the task, the trust model, the protocol, and the maximum ratio of the time to that of
# the plain answer.
_CASES: tuple[tuple[str, hc.Task, str, str | None, float], ...] = (
    ("bit", hc.Count(), "central", None, 1.5),
    ("bucket", hc.Histogram(_BUCKETS), "central", None, 1.5),
    ("bit", hc.Count(), "shuffle", None, 1.5),
    ("bucket", hc.Histogram(_BUCKETS), "shuffle", None, 1.5),
    ("bit", hc.Count(), "local", None, 3.0),
    ("bucket", hc.Histogram(_BUCKETS), "local", "local.k-ary", 3.0),
    ("bucket", hc.Histogram(_BUCKETS), "local", "local.hadamard", 3.0),
)


def table_comparisons(rows: int = _ROWS) -> Iterator[Comparison]:
    """The time of each case, in turn with the peers, and the peak memory of each case."""
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for name, values in (("bit", 2), ("bucket", _BUCKETS)):
            place = Path(folder) / name
            place.mkdir()
            files[name] = write_whole(place, rows, {"value": values})
        for name, file in files.items():
            cases = [case for case in _CASES if case[0] == name]
            ours = [partial(answer, file, task, trust, how) for _, task, trust, how, _ in cases]
            *times, polars, duckdb = race(
                *ours, partial(_by_polars, file), partial(_by_duckdb, file), rounds=3
            )
            peer, plain = min(("polars", polars), ("duckdb", duckdb), key=lambda pair: pair[1])
            for (_, task, trust, how, most), time in zip(cases, times, strict=True):
                subject = f"{task.name} of {rows:.0e} rows of Parquet, {how or trust}"
                wanted = f"≥ 1/{most:g}"
                yield Comparison.of_times(subject, time, f"group by in {peer}", plain, wanted)
        for case, (name, task, trust, how, _) in enumerate(_CASES):
            used = in_new_process(most_memory, case, str(files[name]))
            subject = f"a {task.name} of {rows:.0e} rows of Parquet, {how or trust}"
            yield Comparison.of_memory(subject, used, 1)


def answer(file: Path, task: hc.Task, trust: str, protocol: str | None) -> object:
    return hc.estimate(file, task, column="value", budget=_BUDGET, trust=trust, protocol=protocol)


def _by_polars(file: Path) -> object:
    import polars

    return polars.scan_parquet(file).group_by("value").len().collect()


def _by_duckdb(file: Path) -> object:
    import duckdb

    query = f"SELECT value, count(*) FROM '{file}' GROUP BY value"
    return duckdb.connect().sql(query).fetchall()


def most_memory(case: int, file: str) -> int:
    """The peak memory of this process in bytes, after an answer."""
    _, task, trust, how, _ = _CASES[case]
    answer(Path(file), task, trust, how)
    return peak()
