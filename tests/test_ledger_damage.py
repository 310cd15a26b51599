"""A damaged ledger is refused, or reads exactly as before."""

import contextlib
import hashlib
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import headcount as hc
from commands import Headcount
from headcount.ledger.sqlite import SqliteStore
from ledgers import ask, made, responses, rows_of, spend


@pytest.mark.parametrize(
    "place", ["sqlite", pytest.param("postgres", marks=pytest.mark.slow)], indirect=True
)
@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE entries SET epsilon = 'much'",
        "UPDATE entries SET epsilon = '-0.1'",
        "UPDATE entries SET epsilon = 'nan'",
        "UPDATE entries SET epsilon = '0.01'",  # less than its curve says
        "UPDATE entries SET delta = '1e'",
        "UPDATE entries SET times = 0",
        "UPDATE entries SET times = -5",
        "UPDATE entries SET curve = NULL",
        "UPDATE datasets SET epsilon = 'inf'",
        "UPDATE datasets SET delta = '2.0'",
        "UPDATE headcount_ledger SET version = 3",
        "DELETE FROM headcount_ledger",
        "UPDATE curves SET law = 'abc'",
        "UPDATE entries SET times = 2 WHERE number = 1",
        "UPDATE entries SET task = 'Sum' WHERE number = 1",
        "UPDATE entries SET time = ''",
        "UPDATE entries SET hash = '' WHERE number = 2",
        "DELETE FROM entries WHERE number = 1",
        "DELETE FROM entries WHERE number = 2",
        "DELETE FROM entries",
        "UPDATE datasets SET epsilon = '2.0' WHERE name = 'people'",
        "UPDATE datasets SET rule = 'adaptive' WHERE name = 'people'",
        "UPDATE datasets SET time = '' WHERE name = 'people'",
        "UPDATE datasets SET head = '' WHERE name = 'people'",
        "UPDATE datasets SET entries = 1 WHERE name = 'people'",
        "DELETE FROM datasets WHERE name = 'machines'",
        "UPDATE headcount_ledger SET datasets = 1",
    ],
)
def test_damage_refuses_every_charge(place: str, damage: str) -> None:
    ledger = made(place, 1, 1e-6)
    ledger.create_dataset("machines", hc.Budget(1))
    spend(ledger, 0.1, name="people")
    spend(ledger, 0.2, name="people")
    rows_of(place, damage)
    for attempt in (
        lambda: spend(hc.Ledger.open(place), 0.001, name="people"),
        lambda: hc.Ledger.create(place).create_dataset("more", hc.Budget(1)),
        lambda: ledger.spending("people"),
    ):
        with pytest.raises(hc.UnreadableData) as refused:
            attempt()
        assert "\n" not in str(refused.value)
    assert rows_of(place, "SELECT COUNT(*) FROM entries WHERE number > 2") == [(0,)]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE entries SET times = 'many'",
        "UPDATE entries SET epsilon = 0.1",
        "UPDATE entries SET number = 'first' WHERE epsilon = '0.2'",
        "UPDATE entries SET curve = 'none'",
        "DELETE FROM curves",
        "UPDATE curves SET digest = 'abc' WHERE digest = (SELECT MAX(digest) FROM curves)",
        "UPDATE curves SET law = substr(law, 1, 40)",
        "UPDATE curves SET law = (SELECT MAX(law) FROM curves)",
        "UPDATE curves SET law = (SELECT MIN(law) FROM curves)",
        "DROP TABLE entries",
    ],
)
def test_damage_that_sqlite_allows(tmp_path: Path, damage: str) -> None:
    place = str(tmp_path / "spent.db")
    ledger = made(place, 1, 1e-6)
    spend(ledger, 0.1)
    spend(ledger, 0.2)
    rows_of(place, damage)
    for attempt in (lambda: spend(hc.Ledger.open(place), 0.001), ledger.spending):
        with pytest.raises(hc.UnreadableData):
            attempt()


@pytest.mark.parametrize("column", ["note", "trust"])
def test_damaged_words_are_not_shown(place: str, column: str) -> None:
    ledger = made(place, 1)
    spend(ledger, 0.1)
    rows_of(place, f"UPDATE entries SET {column} = '['")
    with pytest.raises(hc.UnreadableData, match="every row of dataset 'people'"):
        ledger.spending()


def forge(place: str, change: str) -> None:
    """Change rows of a ledger with one dataset, and compute all hashes anew."""
    rows_of(place, change)
    (terms,) = rows_of(
        place, "SELECT name, number, epsilon, delta, rule, renyi_order, time FROM datasets"
    )
    head = chained("headcount ledger", terms)
    rows_of(place, f"UPDATE headcount_ledger SET head = '{head}'")
    for row in rows_of(
        place,
        "SELECT id, dataset, number, time, protocol, trust, task, epsilon, delta, times, users, "
        "curve, note FROM entries ORDER BY number",
    ):
        head = chained(head, row)
        rows_of(place, f"UPDATE entries SET hash = '{head}' WHERE number = {row[2]}")
    rows_of(place, f"UPDATE datasets SET head = '{head}'")


def chained(before: str, row: tuple[Any, ...]) -> str:
    return hashlib.sha256(json.dumps([before, *row]).encode()).hexdigest()


def test_hashes_keep_no_one_from_writing(place: str) -> None:
    """Anyone who may write can recompute the hashes. SECURITY.md warns of this."""
    ledger = made(place, 1)
    spend(ledger, 0.9)
    spend(ledger, 0.1)
    forge(place, "UPDATE entries SET epsilon = '0.5' WHERE number = 1")
    assert ledger.spending().epsilon == 0.6
    assert spend(hc.Ledger.open(place), 0.4).number == 3


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE entries SET epsilon = '0.01'",  # less than its curve says
        "UPDATE entries SET epsilon = 'nan'",
        "UPDATE entries SET curve = NULL",
        "UPDATE entries SET times = 0",
        "UPDATE datasets SET epsilon = 'inf'",
        "UPDATE datasets SET rule = 'none'",
        "UPDATE datasets SET renyi_order = 'x'",
    ],
)
def test_nonsense_with_right_hashes_is_refused(tmp_path: Path, change: str) -> None:
    place = str(tmp_path / "spent.db")
    spend(made(place, 1, 1e-6), 0.1)
    forge(place, change)
    with pytest.raises(hc.UnreadableData):
        hc.Ledger.open(place)


def test_an_open_ledger_goes_by_what_it_checked(place: str) -> None:
    """Later damage does not make an open ledger spend more."""
    ledger = made(place, 1)
    spend(ledger, 0.9)
    rows_of(place, "UPDATE entries SET epsilon = '0.1'")
    with pytest.raises(hc.BudgetExhausted):
        spend(ledger, 0.2)
    assert spend(ledger, 0.1).number == 2
    with pytest.raises(hc.UnreadableData, match="got a damaged entry 1"):
        hc.Ledger.open(place)


def test_another_file_in_its_place_is_read_anew(tmp_path: Path) -> None:
    path, copy = tmp_path / "spent.db", tmp_path / "copy.db"
    ledger = made(path, 1)
    spend(ledger, 0.1)
    shutil.copy(path, copy)
    spend(ledger, 0.8)
    shutil.copy(copy, path)
    assert spend(ledger, 0.5).number == 2
    path.unlink()
    made(path, 0.5)
    with pytest.raises(hc.BudgetExhausted):
        spend(ledger, 0.6)


def test_an_earlier_version_is_refused(tmp_path: Path, headcount: Headcount) -> None:
    rows_of(str(tmp_path / "old.db"), "CREATE TABLE headcount_ledger (version INTEGER NOT NULL)")
    rows_of(str(tmp_path / "old.db"), "INSERT INTO headcount_ledger VALUES (1)")
    done = headcount("ledger", "show", "old.db")
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert (
        "old.db must be a ledger of version 2, got 1 (an earlier version of Headcount" in done.err
    )


# Flipped bits ---------------------------------------------------------------------------------


def small_ledger(path: Path) -> bytes:
    """A ledger with two datasets and four entries, in the smallest pages that SQLite allows."""
    ledger = made(path, 1, 1e-6)
    ledger.create_dataset("pure", hc.Budget(1))
    for epsilon in (0.1, 0.2, 0.1):
        ask(ledger, responses(epsilon), "people")
    ask(ledger, responses(0.5), "pure")
    with contextlib.closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA page_size = 512")
        file.execute("VACUUM")
    return path.read_bytes()


def check_bits(folder: Path, chosen: Callable[[bytes], Iterable[int]]) -> None:
    """Flip each of these bits in turn. The ledger is then refused in one line, or reads as before.
    A charge on top of it is refused, or is found afterwards, or the ledger is refused from then on.
    """
    data = small_ledger(folder / "whole.db")
    names, whole = ("people", "pure"), hc.Ledger.open(folder / "whole.db")
    before = [whole.spending(name) for name in names]
    path, read_less, refusals = folder / "spent.db", list[int](), list[str]()
    for bit in chosen(data):
        for left in folder.glob("spent.db*"):  # and journals
            left.unlink()
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            ledger = hc.Ledger.open(path, wait=0.01)
            if [ledger.spending(name) for name in names] != before:
                read_less.append(bit)
            entry = spend(ledger, 0.01, name="people")
            after = hc.Ledger.open(path, wait=0.01).spending("people").entries
            if after != (*before[0].entries, entry):
                read_less.append(bit)
        except hc.UnreadableData as refused:
            refusals.append(str(refused))
    assert read_less == []
    assert len(refusals) > 100
    assert not any("\n" in refusal for refusal in refusals)


def test_flipped_bits_are_refused_or_do_not_matter(tmp_path: Path) -> None:
    """Three hundred bits in bytes that are used."""

    def some(data: bytes) -> list[int]:
        used = [8 * at + bit for at, byte in enumerate(data) if byte for bit in range(8)]
        return used[:: len(used) // 300]

    check_bits(tmp_path, some)


@pytest.mark.slow
@pytest.mark.parametrize("bit", range(8))
def test_all_flipped_bits_are_refused_or_do_not_matter(tmp_path: Path, bit: int) -> None:
    """Flip this bit of every byte that is not zero, and of one in 16 others, mostly unused."""

    def some(data: bytes) -> list[int]:
        return [8 * at + bit for at, byte in enumerate(data) if byte or at % 16 == bit]

    check_bits(tmp_path, some)


@pytest.mark.parametrize("written", [True, False])
def test_a_commit_that_fails_says_what_became_of_the_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: bool
) -> None:
    """A disk may fail at the last sync, when everything is written. Then nothing is released."""
    ledger = made(tmp_path / "spent.db", 1)
    writing = SqliteStore.writing

    @contextlib.contextmanager
    def failing(store: SqliteStore) -> Iterator[Any]:
        with writing(store) as run:
            yield run
            if not written:
                raise hc.UnreadableData("disk I/O error")
        raise hc.UnreadableData("disk I/O error")

    with monkeypatch.context() as patched:
        patched.setattr(SqliteStore, "writing", failing)
        with pytest.raises(hc.UnreadableData, match="disk I/O error") as caught:
            spend(ledger, 0.25)
    assert ("nothing was released, but the charge is recorded" in str(caught.value)) == written
    assert len(ledger.spending().entries) == written
