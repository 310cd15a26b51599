"""Writes, reads and checks the tables of a ledger. All stores use the same tables.

Amounts are stored as decimal text, and times are in UTC. The rows of the table `datasets` form a
chain of hashes (see `chain`). The entries of each dataset form another chain, which begins with the
hash of the dataset. The last hash of a chain and the number of its rows are stored in another
table. All chains are checked when a ledger is opened. After that, only new entries are read. Only
checked rows are added up. If a row does not fit its chain or cannot be read, `UnreadableData` is
raised. Then nothing more is charged.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeAlias

from headcount.accounting.dominating import STEP, DominatingLaw
from headcount.core.budget import Budget
from headcount.core.errors import InvalidParameter, UnknownName, UnreadableData
from headcount.ledger.account import Account, Charge
from headcount.ledger.chain import link
from headcount.ledger.entry import MOST_TIMES, Entry, amount, count
from headcount.ledger.rule import Rule, Terms
from headcount.ledger.store import Run, Store

VERSION = 2
_START = "headcount ledger"  # used instead of a hash before the first dataset
_TABLES = (
    "CREATE TABLE headcount_ledger (version INTEGER NOT NULL, datasets BIGINT NOT NULL, "
    "head TEXT NOT NULL)",
    """CREATE TABLE datasets (
        name TEXT PRIMARY KEY, number BIGINT NOT NULL UNIQUE, epsilon TEXT NOT NULL,
        delta TEXT NOT NULL, rule TEXT NOT NULL, renyi_order TEXT, time TEXT NOT NULL,
        entries BIGINT NOT NULL, head TEXT NOT NULL)""",
    "CREATE TABLE curves (digest TEXT PRIMARY KEY, law {bytes} NOT NULL)",
    """CREATE TABLE entries (
        id TEXT PRIMARY KEY, dataset TEXT NOT NULL REFERENCES datasets (name),
        number BIGINT NOT NULL, time TEXT NOT NULL, protocol TEXT NOT NULL, trust TEXT NOT NULL,
        task TEXT NOT NULL, epsilon TEXT NOT NULL, delta TEXT NOT NULL, times BIGINT NOT NULL,
        users BIGINT, curve TEXT REFERENCES curves (digest), note TEXT NOT NULL,
        hash TEXT NOT NULL, UNIQUE (dataset, number))""",
)
_TERMS = "name, number, epsilon, delta, rule, renyi_order, time"
_COLUMNS = (
    "id, dataset, number, time, protocol, trust, task, epsilon, delta, times, users, curve, note"
)
_NUMBER, _EPSILON, _DELTA, _TIMES, _CURVE = 2, 7, 8, 9, 11  # their indices in `_COLUMNS`
MAKE_ONE = "`headcount ledger create` creates a ledger"
_EARLIER = "an earlier version of Headcount created this ledger, and can show it"
_READING = (ValueError, TypeError, RecursionError)
Row: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True)
class Dataset:
    """A dataset whose row was checked. The chain of its entries begins with `hash`."""

    name: str
    terms: Terms
    hash: str


@dataclass(frozen=True)
class Record:
    """The checked entries of a dataset: their number, the last hash, and the charges by kind."""

    dataset: Dataset
    number: int
    head: str
    # The key of a charge is its kind: the stored text of ε, δ and the digest of its curve.
    charges: dict[Row, Charge] = field(default_factory=dict, repr=False)

    @property
    def account(self) -> Account:
        return self.dataset.terms.account(tuple(self.charges.values()))


@dataclass(frozen=True)
class Books:
    """The tables in one transaction. The version and the datasets have been checked.

    `known` has the records that earlier transactions checked. Its keys are the hashes of the
    datasets.
    """

    store: Store
    run: Run
    datasets: dict[str, Dataset]
    known: dict[str, Record]

    @classmethod
    def create(cls, store: Store, run: Run) -> None:
        """Create the tables if there are no tables yet. Existing tables are not changed."""
        if not store.tables(run):
            for table in _TABLES:
                run(table.format(bytes=store.bytes_type), ())
            run("INSERT INTO headcount_ledger VALUES (?, 0, ?)", (VERSION, _START))

    @classmethod
    def read(cls, store: Store, run: Run, known: dict[str, Record]) -> "Books":
        """Read the version and the datasets. Refuse a database without a ledger, a ledger of
        another version, and damaged rows.
        """
        if "headcount_ledger" not in store.tables(run):
            raise UnreadableData(f"{store.shown} must be a ledger, got none", hint=MAKE_ONE)
        versions = [row[0] for row in run("SELECT version FROM headcount_ledger", ())]
        if versions != [VERSION]:
            stored = ", ".join(map(str, versions)) or "none"
            raise UnreadableData(
                f"{store.shown} must be a ledger of version {VERSION}, got {stored}",
                hint=_EARLIER if versions == [1] else "",
            )
        # A single statement reads both tables, so that nobody can add a dataset between two reads.
        rows = run(
            f"SELECT ledger.datasets, ledger.head, {_TERMS} FROM headcount_ledger AS ledger "
            "LEFT JOIN datasets ON TRUE ORDER BY number",
            (),
        )
        try:
            datasets = {one.name: one for one in _datasets(rows)}
        except _READING as error:
            raise UnreadableData(f"{store.shown} must be undamaged, got {error}") from None
        return cls(store, run, dict(sorted(datasets.items())), known)

    def check(self) -> None:
        """Check all entries of all datasets."""
        for name in self.datasets:
            self.record(name)

    def only(self, name: str | None) -> str:
        """Check the name of a dataset. If `name` is None, return the name of the only dataset."""
        known = ", ".join(self.datasets) or "none"
        if name is None and len(self.datasets) == 1:
            return next(iter(self.datasets))
        if name is None:
            raise InvalidParameter(
                f"a dataset must be named unless there is exactly one, and {self.store.shown} "
                f"has {known}"
            )
        if name not in self.datasets:
            raise UnknownName(f"no dataset {name!r} in {self.store.shown}, which has {known}")
        return name

    def open_dataset(self, name: str, terms: Terms, time: str) -> None:
        if name in self.datasets:
            present = self.datasets[name].terms.limit
            raise InvalidParameter(
                f"dataset {name!r} must be new in {self.store.shown}, got one with the limit "
                f"epsilon={present.epsilon!r}, delta={present.delta!r}, which cannot be changed"
            )
        ((before,),) = self.run("SELECT head FROM headcount_ledger", ())
        order = None if terms.order is None else repr(terms.order)
        limit, number = terms.limit, len(self.datasets) + 1
        row = (name, number, repr(limit.epsilon), repr(limit.delta), str(terms.rule), order, time)
        head = link(before, row)
        self.run(
            f"INSERT INTO datasets ({_TERMS}, entries, head) VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?)",
            (*row, head),
        )
        self.run("UPDATE headcount_ledger SET datasets = ?, head = ?", (number, head))

    def record(self, name: str, *, locked: bool = False) -> Record:
        """The record of a dataset. Entries that are not yet in `known` are read and checked.

        If `locked`, no other transaction can charge the dataset until this transaction ends.
        """
        dataset = self.datasets[name]
        ends = self._ends(name, locked=locked)
        before = self.known.get(dataset.hash, Record(dataset, 0, dataset.hash))
        rows = self._rows(name, before.number)
        if before.number and not (rows and rows.pop(0)[-1] == before.head):
            # The known record does not belong to this ledger. The file may have been replaced.
            before, rows = Record(dataset, 0, dataset.hash), self._rows(name)
        return self._checked(before, rows, ends)

    def history(self, name: str) -> tuple[Account, tuple[Entry, ...]]:
        """The account, and all entries in the order in which they were charged."""
        dataset = self.datasets[name]
        ends, rows = self._ends(name), self._rows(name)
        record = self._checked(Record(dataset, 0, dataset.hash), rows, ends)
        try:
            return record.account, tuple(Entry.from_row(row[:-1]) for row in rows)
        except _READING as error:
            raise self._unreadable(name, error) from None

    def entry(self, id: str) -> Entry | None:  # noqa: A002 (the name of the column)
        """The entry with this id, or None. Call `record` for its dataset first, which checks the
        rows.
        """
        rows = self.run(f"SELECT {_COLUMNS} FROM entries WHERE id = ?", (id,))
        try:
            return Entry.from_row(rows[0]) if rows else None
        except _READING as error:
            raise self._unreadable(str(rows[0][1]), error) from None

    def write(self, record: Record, entry: Entry, law: DominatingLaw | None) -> None:
        """Add an entry, and read it back to check it."""
        if law is not None:
            self.run(
                "INSERT INTO curves VALUES (?, ?) ON CONFLICT (digest) DO NOTHING",
                (law.digest, law.to_bytes()),
            )
        row = entry.to_row()
        head = link(record.head, row)
        marks = ", ".join("?" for _ in row)
        self.run(f"INSERT INTO entries ({_COLUMNS}, hash) VALUES ({marks}, ?)", (*row, head))
        self.run(
            "UPDATE datasets SET entries = ?, head = ? WHERE name = ?",
            (entry.number, head, entry.dataset),
        )
        again = Books.read(self.store, self.run, self.known)
        if again.record(entry.dataset).head != head:
            raise self._unreadable(
                entry.dataset, ValueError("an entry that differs from the entry that was written")
            )

    def _ends(self, name: str, *, locked: bool = False) -> list[Row]:
        lock = self.store.row_lock if locked else ""
        return self.run(f"SELECT entries, head FROM datasets WHERE name = ?{lock}", (name,))

    def _rows(self, name: str, first: int | None = None) -> list[Row]:
        later, values = ("", (name,)) if not first else (" AND number >= ?", (name, first))
        return self.run(
            f"SELECT {_COLUMNS}, hash FROM entries WHERE dataset = ?{later} ORDER BY number", values
        )

    def _checked(self, before: Record, rows: list[Row], ends: list[Row]) -> Record:
        """The record `before` with the entries in `rows` added. Their chain must be intact, and
        must end with the number and the hash in `ends`.
        """
        number, head = before.number, before.head
        kinds: Counter[Row] = Counter()  # the number of releases of each kind
        try:
            for number, row in enumerate(rows, before.number + 1):
                head = link(head, row[:-1])
                if row[_NUMBER] != number or row[-1] != head:
                    raise ValueError(f"a damaged entry {number}")
                kinds[row[_EPSILON], row[_DELTA], row[_CURVE]] += count(row[_TIMES], MOST_TIMES)
            if ends != [(number, head)]:
                raise ValueError(f"{number} entries that do not match the stored number and hash")
            charges = dict(before.charges)
            for kind, times in kinds.items():
                charges[kind] = self._charge(charges.get(kind), before.dataset.terms, kind, times)
        except _READING as error:
            raise self._unreadable(before.dataset.name, error) from None
        record = Record(before.dataset, number, head, charges)
        self.known[before.dataset.hash] = record
        return record

    def _charge(self, before: Charge | None, terms: Terms, kind: Row, times: int) -> Charge:
        if before is not None:
            return replace(before, times=before.times + times)
        epsilon, delta, curve = kind
        law = None if curve is None else self._law(curve)
        charge = Charge(amount(epsilon), amount(delta), law, times)
        if terms.limit.delta and law is None:
            raise ValueError("an entry without a curve")
        if not charge.is_sound:
            raise ValueError(f"an entry whose curve exceeds epsilon={epsilon}, delta={delta}")
        return charge

    def _law(self, digest: object) -> DominatingLaw:
        rows = self.run("SELECT law FROM curves WHERE digest = ?", (digest,))
        if not rows:
            raise ValueError(f"an entry whose curve {digest!r} is missing")
        law = _parsed(bytes(rows[0][0]))
        if law.digest != digest or law.step != STEP:
            raise ValueError(f"a curve whose digest is not {digest!r}")
        return law

    def _unreadable(self, name: str, error: Exception) -> UnreadableData:
        return UnreadableData(
            f"every row of dataset {name!r} in {self.store.shown} must be readable, got {error}"
        )


def _datasets(rows: list[Row]) -> Iterator[Dataset]:
    """The datasets in these rows. Each row begins with the stored number of datasets and the last
    hash of their chain.
    """
    noted, end = rows[0][:2]
    head, datasets = _START, [row[2:] for row in rows if row[2] is not None]
    for number, row in enumerate(datasets, 1):
        head = link(head, row)
        if row[1] != number:
            raise ValueError(f"no dataset {number}")
        yield Dataset(row[0], _terms(*row[2:6]), head)
    if (noted, end) != (len(datasets), head):
        raise ValueError(f"{len(datasets)} datasets that do not match the stored number and hash")


def _terms(epsilon: object, delta: object, rule: str, order: object) -> Terms:
    limit = Budget(amount(epsilon), amount(delta))
    return Terms(limit, Rule(rule), None if order is None else amount(order))


@lru_cache(maxsize=1024)
def _parsed(data: bytes) -> DominatingLaw:
    return DominatingLaw.from_bytes(data)
