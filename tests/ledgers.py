"""Helpers for tests of ledgers: places, charges, and the exact composition that judges them."""

import contextlib
import itertools
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import psycopg

import headcount as hc
from headcount.accounting.divergence import PointCurve
from headcount.ledger.entry import Entry

NOBODY: Any = "nobody"


def new_database(server: str) -> str:
    """An empty database, with the worst possible defaults."""
    with psycopg.connect(server, autocommit=True) as connection:
        for statement in (
            "DROP SCHEMA IF EXISTS headcount CASCADE",
            "ALTER DATABASE postgres SET default_transaction_isolation = 'serializable'",
            "ALTER DATABASE postgres SET synchronous_commit = 'off'",
        ):
            connection.execute(statement)
    return server


def rows_of(place: str, statement: str) -> list[tuple[Any, ...]]:
    """The rows that the database itself returns."""
    if place.startswith("postgresql:"):
        with psycopg.connect(place, options="-c search_path=headcount") as connection:
            done = connection.execute(statement)
            return done.fetchall() if done.description else []
    with contextlib.closing(sqlite3.connect(place)) as file, file:
        return file.execute(statement).fetchall()


def made(place: str | Path, epsilon: float, delta: float = 0.0) -> hc.Ledger:
    ledger = hc.Ledger.create(place)
    ledger.create_dataset("people", hc.Budget(epsilon, delta))
    return ledger


def promise(epsilon: float, delta: float = 0.0) -> hc.Guarantee:
    return hc.Guarantee(epsilon, delta, hc.Trust.LOCAL, True, "the worst one", 1)


def spend(ledger: hc.Ledger, epsilon: float, delta: float = 0.0, **more: Any) -> Entry:
    """The worst release of this pair."""
    curve = PointCurve(epsilon, delta)
    return ledger.charge(more.pop("name", None), promise(epsilon, delta), curve, **more)


def responses(epsilon: float) -> hc.Protocol:
    return hc.protocol("local.randomized-response", hc.Count(), hc.Budget(epsilon), hc.Crowd(10))


def ask(ledger: hc.Ledger, protocol: hc.Protocol, name: str | None = None) -> Entry:
    return ledger.charge(
        name, protocol.guarantee, protocol.curve, {"column": "smoker"}, protocol=protocol.name,
        task=str(protocol.task), users=protocol.crowd.users,
    )  # fmt: skip


def exact_delta(kinds: Sequence[tuple[float, int]], epsilon: float) -> mpmath.mpf:
    """The exact δ of randomized responses, each repeated, from all outcomes with 50 digits.

    Floats stand for the numbers of their decimal text. A limit is checked to one part in 2^52.
    """
    with mpmath.workdps(50):
        limit = mpmath.mpf(str(epsilon)) * (1 + mpmath.mpf(2) ** -52)
        law = {mpmath.mpf(0): mpmath.mpf(1)}  # P by loss
        for each, times in kinds:
            loss = mpmath.mpf(str(each))
            p = 1 / (1 + mpmath.exp(-loss))
            parts = {
                loss * (2 * k - times): mpmath.binomial(times, k) * p**k * (1 - p) ** (times - k)
                for k in range(times + 1)
            }
            joined: defaultdict[mpmath.mpf, mpmath.mpf] = defaultdict(mpmath.mpf)
            for (one, mass), (more, share) in itertools.product(law.items(), parts.items()):
                joined[one + more] += mass * share
            law = joined
        return sum(p * (1 - mpmath.exp(limit - loss)) for loss, p in law.items() if loss > limit)


def exact_sum(numbers: Iterable[float]) -> Fraction:
    return sum((Fraction(str(number)) for number in numbers), Fraction())


def mixed() -> list[hc.Protocol]:
    crowd = hc.Crowd(1000)
    return [
        hc.protocol("central.geometric", hc.Count(), hc.Budget(0.3), crowd),
        hc.protocol("local.k-ary", hc.Histogram(4), hc.Budget(0.5), crowd),
        hc.protocol("shuffle.zero-exact", hc.Count(), hc.Budget(1, 1e-8), crowd),
        hc.protocol("shuffle.fake-users", hc.Histogram(3), hc.Budget(0.7, 1e-8), crowd),
        hc.protocol("central.laplace", hc.Mean(0, 1), hc.Budget(0.3), crowd),
        responses(0.1),
        responses(0.1),
    ]
