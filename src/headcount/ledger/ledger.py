"""A durable record of the budget spent on each dataset. It enforces the limit of each dataset.

    ledger = Ledger.create("spent.db")
    ledger.create_dataset("people", Budget(3, 1e-6))
    ledger.charge("people", p.guarantee, p.curve, protocol=p.name)
    estimate = run(p, values)

Charge first, then release. When `charge` returns, the charge is on disk and survives a crash of the
process or the machine. A crash may waste budget, but it never overspends. The decision and the
record are made in one transaction, so any number of processes and machines can share a ledger.

When a ledger is opened, a chain of hashes over all rows is checked. A damaged ledger is refused.
A ledger does not protect against people who may write to its file or database. They can change rows
and hashes, or replace the ledger with an older copy.
"""

import hashlib
import json
import logging
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from headcount.accounting.dominating import DominatingLaw
from headcount.core import checks
from headcount.core.budget import MOST_USERS, Budget, Trust
from headcount.core.errors import (
    AlreadyCharged,
    BudgetExhausted,
    HeadcountError,
    InvalidParameter,
    LedgerLocked,
    UnconfirmedCharge,
    UnreadableData,
)
from headcount.core.guarantee import Guarantee, PrivacyCurve, rounded_up
from headcount.core.table import exact, short
from headcount.ledger.account import Account, Charge, is_kept
from headcount.ledger.books import MAKE_ONE, Books, Record
from headcount.ledger.entry import MOST_TIMES, Entry, noted, words
from headcount.ledger.postgres import PostgresStore
from headcount.ledger.rule import Rule, Terms
from headcount.ledger.spending import Spending
from headcount.ledger.sqlite import SqliteStore
from headcount.ledger.store import Store

_log = logging.getLogger(__name__)

WAIT = 120.0  # the default number of seconds to wait for a locked ledger


@dataclass(frozen=True)
class Ledger:
    """Datasets, their limits, and the charges to them. Use `Ledger.open` or `Ledger.create`."""

    store: Store
    _known: dict[str, Record] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.store, str | PathLike):
            place = fspath(self.store)
            raise InvalidParameter(
                f"a ledger must be opened, got `Ledger({place!r})`",
                hint=f"`Ledger.open({place!r})`, or `Ledger.create({place!r})` for a new one",
            )

    @classmethod
    def open(cls, place: str | PathLike[str], *, wait: float = WAIT) -> "Ledger":
        """The ledger in a file, or at a postgresql://… address.

        If another process keeps the ledger locked for longer than `wait` seconds, an error is
        raised.
        """
        ledger = cls(_store(place, wait))
        if isinstance(ledger.store, SqliteStore) and not ledger.store.path.exists():
            raise UnreadableData(
                f"there must be a ledger at {fspath(place)!r}, got none", hint=MAKE_ONE
            )
        with ledger._reading() as books:
            books.check()
        return ledger

    @classmethod
    def create(cls, place: str | PathLike[str], *, wait: float = WAIT) -> "Ledger":
        """Open a ledger. Create it first if nothing exists at the place yet."""
        ledger = cls(_store(place, wait))
        with ledger.store.creating() as run:
            Books.create(ledger.store, run)
            Books.read(ledger.store, run, ledger._known).check()
        return ledger

    @property
    def datasets(self) -> list[str]:
        """The names of all datasets."""
        with self._reading() as books:
            return list(books.datasets)

    def create_dataset(self, name: str, limit: Budget, *, rule: str = Rule.COMPOSED) -> None:
        """Add a dataset. Its limit and its rule can never be changed.

        composed  allows the most releases. It holds if the sequence of privacy curves (protocol,
                  budget, crowd and options of each release) was fixed before the first answer.
        adaptive  holds even if each release, including its privacy curve, is chosen based on
                  earlier answers.

        If the limit has δ = 0, both rules use plain sums, which always hold.
        """
        words("name", name, least=1)
        checks.instance("limit", limit, Budget)
        terms = Terms.of(limit, Rule(checks.choice("rule", rule, list(Rule))))
        with self.store.creating() as run:
            Books.read(self.store, run, self._known).open_dataset(name, terms, _now())

    def charge(
        self,
        name: str | None,
        guarantee: Guarantee,
        curve: PrivacyCurve,
        note: Mapping[str, Any] | None = None,
        *,
        protocol: str = "",
        task: str = "",
        users: int | None = None,
        times: int = 1,
        once: str = "",
        again: bool = True,
    ) -> Entry:
        """Record a release that is about to be made, or `times` releases of the same kind.

        If the charge does not fit within the limit of the dataset, `BudgetExhausted` is raised and
        nothing is recorded. The name may be None if there is exactly one dataset. `protocol`,
        `task` and `users` (the number of people) only describe the release. `note` is a
        JSON-serializable mapping. It should describe the question, and must not reveal the data.

        `once` is an optional name of the release. A dataset is charged only once for each name:
        later calls with the same name return the recorded entry. So a program that crashes after a
        charge can start again, but it must then release the same answer. A larger charge with the
        same name is refused. If `again` is false, every later call with the same name raises
        `AlreadyCharged`.
        """
        checks.instance("guarantee", guarantee, Guarantee)
        checks.instance("curve", curve, PrivacyCurve)
        pair = _pair(guarantee, curve)
        trust = Trust(checks.choice("trust", guarantee.trust, list(Trust)))
        times = checks.whole("times", times, low=1, high=MOST_TIMES)
        name, account = self._account(name)
        law = DominatingLaw.of(curve, at=[pair[0]]) if account.limit.delta else None
        asked = Charge(*pair, law, times)
        if not asked.is_sound:
            raise _worse(guarantee)
        entry_of = partial(
            Entry,
            id=_id(name, once) if once else uuid.uuid4().hex,
            dataset=name,
            protocol=words("protocol", protocol),
            trust=trust,
            task=words("task", task),
            epsilon=asked.epsilon,
            delta=asked.delta,
            times=times,
            users=None if users is None else checks.whole("users", users, low=1, high=MOST_USERS),
            curve=None if law is None else law.digest,
            note=noted({} if note is None else note),
        )
        while True:
            # Loading modules and composing take a long time. Both happen here, before the
            # transaction, and the result is cached.
            _ = account.adding(asked).fits
            entry = None
            try:
                with self._writing() as books:
                    record = books.record(name, locked=True)
                    if once and (before := books.entry(_id(name, once))) is not None:
                        if not again:
                            raise _already_charged(before, self.store.shown)
                        return _as_charged(before, asked)
                    account = record.account
                    after = account.adding(asked)
                    if after.is_ready and after.fits:
                        entry = entry_of(number=record.number + 1, time=_now())
                        books.write(record, entry, law)
            except BaseException as error:
                if entry is not None and not isinstance(error, LedgerLocked):
                    self._explain(entry, error)
                raise
            if entry is not None:
                _log.info("charged %s in %s: %s", guarantee, self.store.shown, entry.place)
                return entry
            if after.is_ready:
                raise _exhausted(name, account, asked)

    def spending(self, name: str | None = None) -> Spending:
        """All charges to a dataset, their total, and the budget that is left."""
        with self._reading() as books:
            name = books.only(name)
            account, entries = books.history(name)
        return Spending.of(name, books.datasets[name].terms, account, entries)

    def _explain(self, entry: Entry, error: BaseException) -> None:
        """Say what became of an entry whose transaction ended with an error.

        A disk or a connection may fail after everything is written, but before the commit is
        confirmed. Then nothing is released, since a power failure could still undo the charge.
        """
        recorded = self._has(entry)
        if recorded is False:
            return
        may = "is" if recorded else "may be"
        said = f"nothing was released, but the charge {may} recorded as {entry.place}"
        if not isinstance(error, UnreadableData):
            error.add_note(said)
            vars(error)["charged"] = recorded  # the command states it, as for `UnconfirmedCharge`
            return
        raise UnconfirmedCharge(
            f"{error.message}; {said}",
            hint="check the disk or the connection, and try again",
            charged=recorded,
        ) from None

    def _has(self, entry: Entry) -> bool | None:
        """Whether an entry was recorded, or None if the ledger cannot be read."""
        try:
            return any(one.id == entry.id for one in self.spending(entry.dataset).entries)
        except HeadcountError:
            return None

    def _account(self, name: str | None) -> tuple[str, Account]:
        with self._reading() as books:
            name = books.only(name)
            return name, books.record(name).account

    @contextmanager
    def _reading(self) -> Iterator[Books]:
        with self.store.reading() as run:
            yield Books.read(self.store, run, self._known)

    @contextmanager
    def _writing(self) -> Iterator[Books]:
        with self.store.writing() as run:
            yield Books.read(self.store, run, self._known)


def _id(dataset: str, once: str) -> str:
    """The id of the entry for a release with the name `once`. It is the same for every call."""
    return hashlib.sha256(json.dumps([dataset, once]).encode()).hexdigest()[:32]


def _already_charged(entry: Entry, ledger: str) -> AlreadyCharged:
    return AlreadyCharged(
        "a release must be charged only once under its name, got a name that was charged at "
        f"{entry.time}: {entry.place}",
        entry={**entry.receipt(ledger), "time": entry.time},
    )


def _as_charged(entry: Entry, asked: Charge) -> Entry:
    """The recorded entry of a release with a name. It must cover the charge that is asked for now,
    up to rounding.
    """
    recorded = (entry.epsilon, entry.delta, entry.times)
    if any(
        now > before * (1 + 1e-9)
        for now, before in zip((asked.epsilon, asked.delta, asked.times), recorded, strict=True)
    ):
        raise InvalidParameter(
            f"`once` must name a single release, got a larger charge than that of {entry.time}",
            hint="give another release another name",
        )
    return entry


def _store(place: str | PathLike[str], wait: float) -> Store:
    wait = checks.real("wait", wait)
    if not 0 <= wait <= 86400:
        raise InvalidParameter(f"`wait` must be between 0 and 86400 seconds, got {wait:g}")
    named = fspath(place) if isinstance(place, str | PathLike) else None
    if not isinstance(named, str) or not named or "\0" in named:
        raise InvalidParameter(f"a ledger must be at a path or address, got {place!r}")
    if named.startswith(("postgresql://", "postgres://")):
        return PostgresStore(named, wait)
    if "://" in named:
        scheme = named.partition("://")[0]
        raise InvalidParameter(f"a ledger must be in a file or at postgresql://…, got {scheme}://…")
    return SqliteStore(Path(named), wait)


def _pair(guarantee: Guarantee, curve: PrivacyCurve) -> tuple[float, float]:
    """The (ε, δ) of the guarantee, which is the pair to charge. The curve must satisfy this pair,
    up to rounding.
    """
    epsilon = checks.real("epsilon", guarantee.epsilon)
    delta = checks.real("delta", guarantee.delta)
    if epsilon < 0 or not 0 <= delta <= 1:
        raise InvalidParameter(
            f"a guarantee must have epsilon >= 0 and delta in [0, 1], "
            f"got ({short(epsilon)}, {short(delta)})"
        )
    if not guarantee.secure:
        raise InvalidParameter(f"a guarantee must hold to be charged, got: {guarantee.warning}")
    if not guarantee.neighbors.startswith("replace "):  # one value, or all data of one person
        raise InvalidParameter(
            f"the neighbors of a guarantee must replace a value, got {guarantee.neighbors!r}"
        )
    if not is_kept(epsilon, delta, curve.delta):
        raise _worse(guarantee)
    return epsilon + 0.0, delta + 0.0  # adding 0 turns −0 into 0


def _worse(guarantee: Guarantee) -> InvalidParameter:
    return InvalidParameter(
        f"the curve must satisfy the charged guarantee {guarantee}, got a larger δ"
    )


def _exhausted(name: str, account: Account, asked: Charge) -> BudgetExhausted:
    room, delta = account.room(asked.delta), asked.delta
    if not room:
        room, delta = account.room(0.0), 0.0
    pair = f"epsilon={rounded_up(asked.epsilon)}, delta={rounded_up(asked.delta)}"
    many = f"{asked.times:,} releases of {pair} were" if asked.times > 1 else f"{pair} was"
    limit = account.limit
    return BudgetExhausted(
        f"{many} asked for on dataset {name!r}, but epsilon={exact(room)} at "
        f"delta={exact(delta)} is left of its limit "
        f"epsilon={exact(limit.epsilon)}, delta={exact(limit.delta)}",
        remaining={"epsilon": room, "delta": delta},
        limit=asdict(limit),
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
