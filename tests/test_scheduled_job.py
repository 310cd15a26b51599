"""A scheduled job of a data engineer: several processes, one ledger, a log, and another attempt if
something goes wrong.
"""

import logging
import multiprocessing
import os
import pickle
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

import headcount as hc
from headcount.data import estimate as road

pytestmark = pytest.mark.slow
LOG = logging.getLogger("job")
LATE, WRONG, FLAKY = "late.csv", "wrong.csv", "flaky.csv"


def log_to(folder: str) -> None:
    """Each process writes a log of its own."""
    handler = logging.FileHandler(Path(folder) / f"job-{os.getpid()}.log")
    for name in ("job", "headcount"):
        logging.getLogger(name).addHandler(handler)
        logging.getLogger(name).setLevel(logging.INFO)


def job(folder: str, name: str, attempts: int = 3) -> float:
    """The number of smokers in a file. A file that is not there yet is tried again."""
    path, ledger = Path(folder) / name, hc.Ledger.open(Path(folder) / "spent.db")
    for attempt in range(1, attempts + 1):
        try:
            found = hc.estimate(
                path, hc.Count(), column="smoker", budget=hc.Budget(1), ledger=ledger
            )
            return float(found.value)
        except hc.UnreadableData as error:
            LOG.warning("attempt %d of %s: %s", attempt, name, error)
            if attempt == attempts:
                raise
            if name == LATE:  # meanwhile, the file arrives
                path.with_suffix(".part").rename(path)
    raise AssertionError


def flaky_job(folder: str) -> float:
    """The first answer fails after the ledger is charged. The second call charges nothing."""
    ready = hc.prepare(Path(folder) / FLAKY, hc.Count(), column="smoker", budget=hc.Budget(1))
    ready.charge(hc.Ledger.open(Path(folder) / "spent.db"))
    whole = vars(road)["walk"]
    vars(road)["walk"] = failing
    try:
        ready.answer()
    except OSError as error:
        LOG.warning("the answer failed: %s", error)
    finally:
        vars(road)["walk"] = whole
    found = ready.answer()
    assert isinstance(found, hc.Estimate)
    return float(found.value)


def failing(*arguments: object) -> None:
    raise OSError("no space left on device")


def test_a_job_in_a_pool_of_processes(tmp_path: Path) -> None:
    ledger = hc.Ledger.create(tmp_path / "spent.db")
    ledger.create_dataset("town", hc.Budget(5))
    rows = "smoker\n" + "1\n0\n" * 500
    names = [f"day-{at}.csv" for at in range(6)]
    for name in (*names, FLAKY, "late.part"):
        (tmp_path / name).write_text(rows)
    (tmp_path / WRONG).write_text(rows + "7\n")
    folder = str(tmp_path)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, context, initializer=log_to, initargs=(folder,)) as pool:
        wrong = pool.submit(job, folder, WRONG).exception()
        assert isinstance(wrong, hc.InvalidValue)
        absent = pool.submit(job, folder, "absent.csv").exception()
        assert isinstance(absent, hc.UnreadableData)
        assert len(ledger.spending("town").entries) == 0  # refusals cost nothing
        late, flaky = pool.submit(job, folder, LATE), pool.submit(flaky_job, folder)
        assert abs(late.result() - 500) < 40  # false alarms: e^-40
        assert abs(flaky.result() - 500) < 40
        assert len(ledger.spending("town").entries) == 2
        done = [pool.submit(job, folder, name) for name in names]
        errors = [one.exception() for one in done]
        assert [type(error) for error in errors if error is not None] == [hc.BudgetExhausted] * 3
        assert len(ledger.spending("town").entries) == 5
        assert pool.submit(os.getpid).result() != os.getpid()  # the pool still works
    for error in (wrong, absent, *filter(None, errors)):
        assert isinstance(error, hc.HeadcountError)
        assert pickle.loads(pickle.dumps(error)) == error
    spent = next(error for error in errors if isinstance(error, hc.BudgetExhausted))
    assert spent.limit["epsilon"] == 5
    assert spent.remaining["epsilon"] == pytest.approx(0, abs=1e-9)
    log = "".join(path.read_text() for path in tmp_path.glob("job-*.log"))
    assert log.count("attempt 1 of late.csv") == 1
    assert "attempt 2 of late.csv" not in log
    assert log.count("attempt 3 of absent.csv") == 1
    assert "the answer failed: no space left on device" in log
    assert log.count("answered: ") == 5  # the library logs each release once
