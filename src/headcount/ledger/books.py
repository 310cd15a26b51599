"""The tables of a ledger, the same in every store: what is written, and how it is read back.

Amounts are decimal text, times are UTC. A row that cannot be read is an `UnreadableData`, so that
nothing is charged on top of what is not understood.
"""

from dataclasses import dataclass
from functools import lru_cache

from headcount.accounting.dominating import STEP, DominatingLaw
from headcount.core.budget import MOST_USERS, Budget
from headcount.core.errors import InvalidParameter, UnknownName, UnreadableData
from headcount.ledger.account import Account, Charge
from headcount.ledger.entry import MOST_TIMES, Entry, amount, count
from headcount.ledger.store import Run, Store

VERSION = 1
_TABLES = (
    "CREATE TABLE headcount_ledger (version INTEGER NOT NULL)",
    """CREATE TABLE datasets (
        name TEXT PRIMARY KEY, epsilon TEXT NOT NULL, delta TEXT NOT NULL, time TEXT NOT NULL)""",
    "CREATE TABLE curves (digest TEXT PRIMARY KEY, law {bytes} NOT NULL)",
    """CREATE TABLE entries (
        id TEXT PRIMARY KEY, dataset TEXT NOT NULL REFERENCES datasets (name),
        number BIGINT NOT NULL, time TEXT NOT NULL, protocol TEXT NOT NULL, trust TEXT NOT NULL,
        task TEXT NOT NULL, epsilon TEXT NOT NULL, delta TEXT NOT NULL, times BIGINT NOT NULL,
        users BIGINT, curve TEXT REFERENCES curves (digest), note TEXT NOT NULL,
        UNIQUE (dataset, number))""",
    "CREATE INDEX charges ON entries (dataset, epsilon, delta, curve, times)",
)
_COLUMNS = (
    "id, dataset, number, time, protocol, trust, task, epsilon, delta, times, users, curve, note"
)
MAKE_ONE = "`headcount ledger create` makes one"
_READING = (ValueError, TypeError, RecursionError)


@dataclass(frozen=True)
class Books:
    """The tables in one transaction."""

    store: Store
    run: Run

    def create(self) -> None:
        """The tables, in an empty place; in a ledger, nothing."""
        if not self.store.tables(self.run):
            for table in _TABLES:
                self.run(table.format(bytes=self.store.bytes_type), ())
            self.run("INSERT INTO headcount_ledger VALUES (?)", (VERSION,))
        self.check()

    def check(self) -> None:
        """Refuses what is no ledger, or one of another version."""
        shown = self.store.shown
        if "headcount_ledger" not in self.store.tables(self.run):
            raise UnreadableData(f"{shown} must be a ledger, got none", hint=MAKE_ONE)
        rows = self.run("SELECT version FROM headcount_ledger", ())
        if rows != [(VERSION,)]:
            found = ", ".join(str(row[0]) for row in rows) or "none"
            raise UnreadableData(f"{shown} must be a ledger of version {VERSION}, got {found}")

    def datasets(self) -> list[str]:
        return [str(row[0]) for row in self.run("SELECT name FROM datasets ORDER BY name", ())]

    def only(self, name: str | None) -> str:
        """The data set that is meant: by its name, or the only one."""
        names = self.datasets()
        if name is None and len(names) == 1:
            return names[0]
        known = ", ".join(names) or "none"
        if name is None:
            raise InvalidParameter(
                f"a data set must be named unless there is exactly one, got {known}"
            )
        if name not in names:
            raise UnknownName(f"no data set {name!r} in {self.store.shown}, which has {known}")
        return name

    def open_dataset(self, name: str, limit: Budget, time: str) -> None:
        found = self.run("SELECT epsilon, delta FROM datasets WHERE name = ?", (name,))
        if found:
            raise InvalidParameter(
                f"data set {name!r} must be new in {self.store.shown}, got one with a limit of "
                f"epsilon={found[0][0]}, delta={found[0][1]}, which stays"
            )
        self.run(
            "INSERT INTO datasets VALUES (?, ?, ?, ?)",
            (name, repr(limit.epsilon), repr(limit.delta), time),
        )

    def account(self, name: str, *, locked: bool = False) -> Account:
        """The limit and what was charged; `locked`, no other transaction charges until the end."""
        lock = self.store.row_lock if locked else ""
        rows = self.run(f"SELECT epsilon, delta FROM datasets WHERE name = ?{lock}", (name,))
        groups = self.run(
            "SELECT epsilon, delta, curve, times, COUNT(*) FROM entries WHERE dataset = ? "
            "GROUP BY epsilon, delta, curve, times",
            (name,),
        )
        try:
            ((epsilon, delta),) = rows
            limit = Budget(amount(epsilon), amount(delta))
            charges = tuple(self._charge(limit, *group) for group in groups)
        except _READING as error:
            raise self._unreadable(name, error) from None
        return Account(limit, charges)

    def _charge(
        self, limit: Budget, epsilon: object, delta: object, curve: object, times: object, rows: int
    ) -> Charge:
        law = None if curve is None else self._law(curve)
        number = count(times, MOST_TIMES) * int(rows)
        charge = Charge(amount(epsilon), amount(delta), law, number)
        if limit.delta and law is None:
            raise ValueError("an entry without a curve")
        if not charge.is_sound:
            raise ValueError(f"an entry of epsilon={epsilon}, delta={delta} with a worse curve")
        return charge

    def _law(self, digest: object) -> DominatingLaw:
        rows = self.run("SELECT law FROM curves WHERE digest = ?", (digest,))
        if not rows:
            raise ValueError(f"an entry whose curve {digest!r} is missing")
        law = _parsed(bytes(rows[0][0]))
        if law.digest != digest or law.step != STEP:
            raise ValueError(f"a curve {digest!r} that is another one")
        return law

    def entries(self, name: str) -> tuple[Entry, ...]:
        """In the order in which they were charged."""
        rows = self.run(
            f"SELECT {_COLUMNS} FROM entries WHERE dataset = ? ORDER BY number", (name,)
        )
        try:
            return tuple(Entry.from_row(row) for row in rows)
        except _READING as error:
            raise self._unreadable(name, error) from None

    def next_number(self, name: str) -> int:
        ((last,),) = self.run("SELECT MAX(number) FROM entries WHERE dataset = ?", (name,))
        try:
            return 1 if last is None else count(last, MOST_USERS) + 1
        except ValueError as error:
            raise self._unreadable(name, error) from None

    def write(self, entry: Entry, law: DominatingLaw | None) -> None:
        if law is not None:
            self.run(
                "INSERT INTO curves VALUES (?, ?) ON CONFLICT (digest) DO NOTHING",
                (law.digest, law.to_bytes()),
            )
        row = entry.to_row()
        marks = ", ".join("?" for _ in row)
        self.run(f"INSERT INTO entries ({_COLUMNS}) VALUES ({marks})", row)

    def _unreadable(self, name: str, error: Exception) -> UnreadableData:
        return UnreadableData(
            f"every row of data set {name!r} in {self.store.shown} must be readable, got {error}"
        )


@lru_cache(maxsize=1024)
def _parsed(data: bytes) -> DominatingLaw:
    return DominatingLaw.from_bytes(data)
