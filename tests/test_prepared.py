"""A prepared estimate is charged once and answered once, by the process that prepared it."""

import contextlib
import copy
import logging
import multiprocessing
import os
import pickle
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import headcount as hc

ONES = [0, 1] * 5000
NUMBERS = [0.1, 0.7] * 500
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
forked = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.fixture
def ledger(tmp_path: Path) -> hc.Ledger:
    made = hc.Ledger.create(tmp_path / "spent.db")
    made.create_dataset("town", hc.Budget(3))
    return made


def made_ready(**settings: object) -> hc.Prepared:
    return hc.prepare(ONES, hc.Count(), budget=hc.Budget(1), **settings)  # type: ignore[arg-type]


def said_by_child(work: Callable[[], object]) -> str:
    """What a forked child says: the refusal of `work`, or its answer."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = f"answered {work()}"
        except hc.HeadcountError as error:
            said = f"refused: {error}"
        except BaseException as error:
            said = f"failed: {error!r}"
        os.write(writer, said.encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        return pipe.read()


@forks
@forked
def test_a_forked_child_can_neither_answer_nor_charge(ledger: hc.Ledger) -> None:
    ready = made_ready()
    ready.charge(ledger)
    said = said_by_child(ready.answer)
    assert said.startswith("refused: an estimate must be answered by the process that prepared it")
    assert "prepare it in the process that answers" in said
    other = made_ready()
    said = said_by_child(lambda: other.charge(ledger))
    assert said.startswith("refused: an estimate must be charged by the process that prepared it")
    assert len(ledger.spending().entries) == 1
    assert isinstance(ready.answer(), hc.Estimate)  # the parent has not lost its answer


READY: list[hc.Prepared] = []


def answer_of_parent(number: int) -> str:
    try:
        return f"answered {READY[0].answer()}"
    except hc.InvalidParameter:
        return "refused"


@forks
@forked
def test_a_pool_gives_no_answers_of_its_parent(ledger: hc.Ledger) -> None:
    READY[:] = [made_ready()]
    READY[0].charge(ledger)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(answer_of_parent, range(4)) == ["refused"] * 4


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_prepared_estimate_has_no_copies(copied: Callable[[object], object]) -> None:
    ready = made_ready()
    for one in (ready, ready.answer):
        if one is ready or copied is pickle.dumps:
            with pytest.raises(hc.InvalidParameter, match="must not be copied") as refused:
                copied(one)
            assert "\n" not in str(refused.value)


class Turns:
    """A flag that lets every thread read it before one of them sets it."""

    def __init__(self, threads: int) -> None:
        self._read = threading.Barrier(threads)

    def __bool__(self) -> bool:
        with contextlib.suppress(threading.BrokenBarrierError):
            self._read.wait(0.5)
        return False


def test_threads_cannot_both_find_that_nobody_answered() -> None:
    ready, answers = made_ready(), list[object]()
    vars(ready)["_answered"] = Turns(2)

    def ask() -> None:
        with contextlib.suppress(hc.InvalidParameter):
            answers.append(ready.answer())

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 1


def test_one_answer_is_charged_once(ledger: hc.Ledger, tmp_path: Path) -> None:
    ready = made_ready()
    other = hc.Ledger.create(tmp_path / "small.db")
    other.create_dataset("town", hc.Budget(0.5))
    with pytest.raises(hc.BudgetExhausted):
        ready.charge(other)
    entry = ready.charge(ledger)  # the first charge failed
    assert (entry.dataset, entry.number, entry.id) == ("town", 1, ledger.spending().entries[0].id)
    with pytest.raises(hc.InvalidParameter, match="must be charged only once") as refused:
        ready.charge(ledger)
    assert "entry 1 of dataset 'town'" in refused.value.message
    assert len(ledger.spending().entries) == 1


def test_the_log_names_the_entry(ledger: hc.Ledger, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "headcount"):
        entry = made_ready().charge(ledger)
    assert f"in spent.db: entry 1 of dataset 'town', with the id {entry.id}" in caplog.text
    assert "/" not in "".join(record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("stop", [KeyboardInterrupt, ValueError])
def test_an_interrupted_answer_says_what_was_charged(
    ledger: hc.Ledger, stop: type[BaseException]
) -> None:
    def progress(step: str, share: float) -> None:
        if step == "randomizing":
            raise stop

    with pytest.raises(stop) as stopped:
        hc.estimate(
            NUMBERS, hc.Mean(0, 1), budget=hc.Budget(1), ledger=ledger, progress=progress,
            trust="local",
        )  # fmt: skip
    (note,) = stopped.value.__notes__
    assert "entry 1 of dataset 'town'" in note
    assert ledger.spending().entries[0].id in note
    assert "hc.prepare" in note
    with pytest.raises(stop) as stopped:  # without a ledger, nothing is charged
        hc.estimate(
            NUMBERS, hc.Mean(0, 1), budget=hc.Budget(1), progress=progress, trust="local",
        )  # fmt: skip
    assert not hasattr(stopped.value, "__notes__")
