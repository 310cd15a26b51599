"""Ledgers, judged from outside: by their rows, exact laws of responses, and killed processes."""

import contextlib
import itertools
import json
import math
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

import headcount as hc
from commands import Headcount
from headcount.accounting.divergence import PointCurve
from headcount.accounting.dominating import DominatingLaw
from headcount.ledger.entry import Entry

STORM = Path(__file__).with_name("ledger_storm.py")
NOBODY: Any = "nobody"


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty place for a ledger."""
    if request.param == "sqlite":
        return str(tmp_path / "spent.db")
    return new_database(request.getfixturevalue("postgres_server"))


def new_database(server: str) -> str:
    """Empty, and with defaults that are as bad as they can be."""
    with psycopg.connect(server, autocommit=True) as connection:
        for statement in (
            "DROP SCHEMA IF EXISTS headcount CASCADE",
            "ALTER DATABASE postgres SET default_transaction_isolation = 'serializable'",
            "ALTER DATABASE postgres SET synchronous_commit = 'off'",
        ):
            connection.execute(statement)
    return server


def rows_of(place: str, statement: str) -> list[tuple[Any, ...]]:
    """What the database itself says."""
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
    """Of randomized responses, each repeated: all outcomes, with 50 digits.

    Numbers are what their text says, and a limit is held to one part in 2^52.
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


# What fits ------------------------------------------------------------------------------------


def test_ten_tenths_are_one(place: str) -> None:
    ledger = made(place, 1)
    for number in range(1, 11):
        assert spend(ledger, 0.1).number == number
    with pytest.raises(hc.BudgetExhausted) as refused:
        spend(ledger, 1e-12)
    assert refused.value.remaining == {"epsilon": 0.0, "delta": 0.0}
    assert refused.value.limit == {"epsilon": 1.0, "delta": 0.0}
    assert refused.value.exit_status == 4
    assert refused.value.code == "budget-exhausted"
    assert rows_of(place, "SELECT COUNT(*) FROM entries") == [(10,)]


def test_the_last_billionth_can_be_spent(place: str) -> None:
    ledger = made(place, 1, 1e-6)
    spend(ledger, 0.7, 3e-7)
    spend(ledger, 0.299999999, 6e-7)
    with pytest.raises(hc.BudgetExhausted):
        spend(ledger, 1.0000001e-9, 1e-7)
    with pytest.raises(hc.BudgetExhausted):
        spend(ledger, 1e-9, 1.0000001e-7)
    found = ledger.spending()
    assert (found.remaining_epsilon, found.remaining_delta) == (1e-9, 1e-7)
    spend(ledger, 1e-9, 1e-7)
    for pair in ((1e-9, 0.0), (0.0, 1e-9), (1e-12, 1e-12)):
        with pytest.raises(hc.BudgetExhausted):
            spend(ledger, *pair)
    assert exact_sum(float(row[0]) for row in rows_of(place, "SELECT epsilon FROM entries")) == 1


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_million_tiny_charges(tmp_path: Path, delta: float) -> None:
    ledger = made(tmp_path / "spent.db", 1, delta)
    with pytest.raises(hc.BudgetExhausted):
        spend(ledger, 1e-6, delta / 1e6, times=10**6 + 1)
    spend(ledger, 1e-6, delta / 1e6, times=999_999)
    assert ledger.spending().pure_remaining == 1e-6
    spend(ledger, 1e-6, delta / 1e6)
    with pytest.raises(hc.BudgetExhausted):
        spend(ledger, 1e-6, delta / 1e6)
    assert ledger.spending().releases == 10**6


def test_distributions_allow_more_than_sums(place: str) -> None:
    """As many responses as their exact composition allows, or one less; the sum would allow 50."""
    ledger, protocol = made(place, 5, 1e-6), responses(0.1)
    most = next(n for n in itertools.count(50) if exact_delta([(0.1, n + 1)], 5) > 1e-6)
    assert most > 100
    with pytest.raises(hc.BudgetExhausted):
        ledger.charge(None, protocol.guarantee, protocol.curve, times=most + 1)
    ledger.charge(None, protocol.guarantee, protocol.curve, times=most - 3)
    accepted = most - 3
    with contextlib.suppress(hc.BudgetExhausted):
        while True:
            ask(ledger, protocol)
            accepted += 1
    assert most - 1 <= accepted <= most
    found = ledger.spending()
    assert found.composed
    assert exact_delta([(0.1, accepted)], 5) <= found.delta <= 1e-6
    assert exact_delta([(0.1, accepted)], found.epsilon) <= 1e-6
    assert found.epsilon <= 5
    assert found.epsilon == pytest.approx(5, rel=0.02)


def test_pure_limits_take_no_distributions(tmp_path: Path) -> None:
    ledger = made(tmp_path / "spent.db", 1)
    assert spend(ledger, 0.5).curve is None
    with pytest.raises(hc.BudgetExhausted):
        spend(ledger, 0.1, 1e-12)
    with pytest.raises(hc.BudgetExhausted):
        spend(ledger, 0.5000000000000001)
    assert not ledger.spending().composed
    assert rows_of(str(tmp_path / "spent.db"), "SELECT COUNT(*) FROM curves") == [(0,)]


KINDS = {epsilon: responses(epsilon) for epsilon in (0.05, 0.2, 0.31416)}


def check_random_charges(path: Path, draws: random.Random) -> None:
    """No limit is exceeded, and nothing is refused that fits well, by the exact composition or by
    the sum.
    """
    epsilon, delta = draws.choice([0.6, 1.0, 1.7]), draws.choice([1e-2, 1e-4, 1e-6])
    ledger = made(path, epsilon, delta)
    spent: Counter[float] = Counter()
    for one in draws.choices(sorted(KINDS), k=draws.randrange(4, 24)):
        after = spent + Counter([one])
        exact = exact_delta(sorted(after.items()), epsilon)
        try:
            ask(ledger, KINDS[one])
        except hc.BudgetExhausted:
            assert exact > 0.9 * delta - 1e-9
            assert exact_sum(after.elements()) > Fraction(str(epsilon))
        else:
            assert exact <= delta
            spent = after
    found = ledger.spending()
    assert found.releases == spent.total()
    assert exact_delta(sorted(spent.items()), epsilon) <= found.delta <= delta
    assert exact_delta(sorted(spent.items()), found.epsilon) <= delta


@settings(deadline=None, max_examples=5, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_no_limit_is_exceeded(draws: random.Random) -> None:
    with tempfile.TemporaryDirectory() as folder:
        check_random_charges(Path(folder) / "spent.db", draws)


@pytest.mark.slow
@settings(deadline=None, max_examples=100, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_no_limit_is_ever_exceeded(draws: random.Random) -> None:
    with tempfile.TemporaryDirectory() as folder:
        check_random_charges(Path(folder) / "spent.db", draws)


@pytest.mark.parametrize(("epsilon", "delta"), [(1, 1e-6), (3, 1e-5)])
def test_what_remains_fits(tmp_path: Path, epsilon: float, delta: float) -> None:
    """And not much more does."""
    for share in (0.0, 1.0):
        ledger = made(tmp_path / f"{share}.db", epsilon, delta)
        protocol = responses(0.1)
        with contextlib.suppress(hc.BudgetExhausted):
            for _ in range(int(11 * epsilon)):
                ask(ledger, protocol)
        found = ledger.spending()
        left = found.remaining_epsilon if share else found.pure_remaining
        spare = found.remaining_delta * share
        assert 0 < left < epsilon
        assert 0 < found.remaining_delta < delta
        with pytest.raises(hc.BudgetExhausted) as refused:
            spend(ledger, left + 0.0003, spare)
        assert refused.value.remaining == {"epsilon": left, "delta": spare}
        spend(ledger, left, spare)


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


def test_order_and_reopening_do_not_matter(place: str, tmp_path: Path) -> None:
    """Of all trusts; the composed spend is no more than the sum, and never below any part."""
    ledger, charged = made(place, 2.5, 1e-6), mixed()
    for protocol in charged:
        ask(ledger, protocol)
    first = ledger.spending()
    again = hc.Ledger.open(place).spending("people")
    assert again == first
    other = made(tmp_path / "other.db", 2.5, 1e-6)
    for protocol in random.Random(1).sample(charged, len(charged)):
        ask(other, protocol)
    second = other.spending()
    for name in ("epsilon", "delta", "pure_remaining", "remaining_epsilon", "remaining_delta"):
        assert getattr(second, name) == getattr(first, name), name
    assert max(one.guarantee.epsilon for one in charged) < first.epsilon <= 2.5
    assert exact_sum(one.guarantee.epsilon for one in charged) == 3
    assert [entry.protocol for entry in first.entries] == [one.name for one in charged]
    assert {str(entry.trust) for entry in first.entries} == {"central", "local", "shuffle"}
    assert len({entry.id for entry in first.entries}) == 7
    assert len({entry.curve for entry in first.entries}) == 6


def check_fits_its_own_budget(protocol: hc.Protocol, path: Path) -> None:
    """A release may use up a limit that is just what it costs."""
    guarantee = protocol.guarantee
    ledger = made(path, guarantee.epsilon, guarantee.delta or 1e-9)
    ask(ledger, protocol)
    found = ledger.spending()
    assert 0 < found.epsilon <= guarantee.epsilon
    assert found.delta <= found.limit.delta


def test_a_release_fits_its_own_budget(tmp_path: Path) -> None:
    for number, protocol in enumerate(mixed()):
        check_fits_its_own_budget(protocol, tmp_path / f"{number}.db")


@pytest.mark.slow
@pytest.mark.parametrize("name", hc.protocol_names())
def test_every_release_fits_its_own_budget(name: str, tmp_path: Path) -> None:
    tasks = (hc.Count(), hc.Sum(0, 1), hc.Mean(0, 1), hc.Histogram(4), hc.Density(0, 1))
    task = next(task for task in tasks if name in hc.protocol_names(task))
    for number, budget in enumerate((hc.Budget(1, 1e-6), hc.Budget(3, 1e-10), hc.Budget(0.01))):
        with contextlib.suppress(hc.Infeasible):
            protocol = hc.protocol(name, task, budget, hc.Crowd(2000))
            check_fits_its_own_budget(protocol, tmp_path / f"{number}.db")


def test_data_sets_do_not_touch_each_other(place: str) -> None:
    ledger = made(place, 1)
    ledger.create_dataset("machines", hc.Budget(0.5, 1e-6))
    spend(ledger, 1.0, name="people")
    with pytest.raises(hc.BudgetExhausted, match="'people'"):
        spend(ledger, 0.1, name="people")
    spend(ledger, 0.5, name="machines")
    assert [len(ledger.spending(name).entries) for name in ledger.datasets] == [1, 1]
    with pytest.raises(hc.InvalidParameter, match="must be named"):
        ledger.spending()
    with pytest.raises(
        hc.UnknownName, match=r"no data set 'cats' in .*, which has machines, people"
    ):
        spend(ledger, 0.1, name="cats")


def test_limits_are_never_changed(place: str) -> None:
    ledger = made(place, 1)
    with pytest.raises(hc.InvalidParameter, match="must be new"):
        ledger.create_dataset("people", hc.Budget(2))
    with pytest.raises(hc.InvalidParameter, match="must be new"):
        made(place, 2)
    assert ledger.spending().limit == hc.Budget(1)


def test_entries_say_what_was_asked(place: str) -> None:
    ledger = made(place, 3, 1e-6)
    entry = ask(ledger, responses(0.25))
    (found,) = ledger.spending().entries
    assert found == entry
    assert (found.protocol, found.task, found.users) == ("local.randomized-response", "Count", 10)
    assert (found.epsilon, found.delta, found.times, str(found.trust)) == (0.25, 0, 1, "local")
    assert found.note == {"column": "smoker"}
    assert found.time.endswith("+00:00")
    assert json.loads(json.dumps(ledger.spending().to_dict()))["entries"][0]["id"] == entry.id
    assert "ε = 0.25 at δ = 1e-6" in str(ledger.spending())
    assert "<table>" in ledger.spending()._repr_html_()


# Who lies is refused --------------------------------------------------------------------------


def test_a_curve_worse_than_its_guarantee_is_refused(tmp_path: Path) -> None:
    for delta in (0.0, 1e-6):
        ledger = made(tmp_path / f"{delta}.db", 1, delta)
        for curve in (PointCurve(0.6, 0.0), PointCurve(0.5, 1e-9), PointCurve(0.5 + 1e-9, 0.0)):
            with pytest.raises(hc.InvalidParameter, match="a curve must keep the guarantee"):
                ledger.charge(None, promise(0.5), curve)
        assert not ledger.spending().entries


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ({"guarantee": promise(math.inf)}, "`epsilon` must be finite"),
        ({"guarantee": promise(-1.0)}, "a guarantee must have epsilon >= 0"),
        ({"guarantee": promise(0.1, 2.0)}, "a guarantee must have epsilon >= 0"),
        ({"guarantee": hc.Budget(1)}, "`guarantee` must be a Guarantee"),
        ({"curve": 1}, "`curve` must be a PrivacyCurve"),
        ({"note": {"a": {1, 2}}}, "`note` must be something that JSON can hold"),
        ({"note": {"a": math.nan}}, "`note` must be something that JSON can hold"),
        ({"note": {"a": "b" * 10_000}}, "`note` must be at most"),
        ({"note": "words"}, "`note` must be a Mapping"),
        ({"guarantee": replace(promise(0.1), trust=NOBODY)}, "`trust` must be one of"),
        ({"times": 0}, "`times` must be between"),
        ({"times": 1.5}, "`times` must be a whole number"),
        ({"users": -1}, "`users` must be between"),
        ({"protocol": "two\nlines"}, "`protocol` must have letters"),
        ({"task": None}, "`task` must be a text"),
    ],
)  # fmt: skip
def test_bad_charges(tmp_path: Path, arguments: dict[str, Any], wanted: str) -> None:
    ledger = made(tmp_path / "spent.db", 1, 1e-6)
    given_: dict[str, Any] = {"guarantee": promise(0.1), "curve": PointCurve(0.1, 0.0), **arguments}
    with pytest.raises(hc.InvalidParameter) as refused:
        ledger.charge(None, given_.pop("guarantee"), given_.pop("curve"), **given_)
    assert wanted in str(refused.value)
    assert not ledger.spending().entries


def test_other_neighbors_are_refused(tmp_path: Path) -> None:
    ledger = made(tmp_path / "spent.db", 1)
    guarantee = hc.Guarantee(0.1, 0.0, hc.Trust.CENTRAL, True, "", 1, "add or remove a person")
    with pytest.raises(hc.InvalidParameter, match="neighbors"):
        ledger.charge(None, guarantee, PointCurve(0.1, 0.0))


@pytest.mark.parametrize("name", ["", "a\nb", "\0", "x" * 201, 5])
def test_bad_names(tmp_path: Path, name: Any) -> None:
    ledger = hc.Ledger.create(tmp_path / "spent.db")
    with pytest.raises(hc.InvalidParameter, match="`name` must"):
        ledger.create_dataset(name, hc.Budget(1))
    assert ledger.datasets == []


@pytest.mark.parametrize("place", ["", "\0", 5, None, b"spent.db", "mysql://host/x"])
def test_bad_places(place: Any) -> None:
    with pytest.raises(hc.InvalidParameter, match="a ledger must be"):
        hc.Ledger.create(place)


# What cannot be read --------------------------------------------------------------------------


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
        "UPDATE headcount_ledger SET version = 2",
        "DELETE FROM headcount_ledger",
        "UPDATE curves SET law = 'abc'",
    ],
)
def test_damage_refuses_every_charge(place: str, damage: str) -> None:
    ledger = made(place, 1, 1e-6)
    spend(ledger, 0.1)
    spend(ledger, 0.2)
    rows_of(place, damage)
    for attempt in (lambda: spend(ledger, 0.001), ledger.spending):
        with pytest.raises(hc.UnreadableData) as refused:
            attempt()
        assert "\n" not in str(refused.value)
    assert rows_of(place, "SELECT COUNT(*) FROM entries") == [(2,)]


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
    with pytest.raises(hc.UnreadableData):
        spend(ledger, 0.001)


@pytest.mark.parametrize("column", ["note", "trust"])
def test_damaged_words_are_not_shown(place: str, column: str) -> None:
    ledger = made(place, 1)
    spend(ledger, 0.1)
    rows_of(place, f"UPDATE entries SET {column} = '['")
    with pytest.raises(hc.UnreadableData, match="every row of data set 'people'"):
        ledger.spending()


def test_what_is_no_ledger(tmp_path: Path, headcount: Headcount) -> None:
    (tmp_path / "text.db").write_text("no database, but long enough for a heading" * 100)
    (tmp_path / "empty.db").touch()
    with contextlib.closing(sqlite3.connect(tmp_path / "other.db")) as other, other:
        other.execute("CREATE TABLE entries (a)")
    for name, wanted in (
        ("missing.db", "there must be a ledger at 'missing.db', got none"),
        ("text.db", "text.db must be a ledger, got another kind of file"),
        ("empty.db", "empty.db must be a ledger, got none"),
        ("other.db", "other.db must be a ledger, got none"),
        (".", "must be a file that can be opened, got none"),
    ):
        done = headcount("ledger", "show", name)
        assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
        assert wanted in done.err
    assert not (tmp_path / "missing.db").exists()
    for name in ("text.db", "other.db", "no/such/folder.db"):
        done = headcount("ledger", "create", name, "--dataset", "people", "--epsilon", "1")
        assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert headcount("ledger", "create", "empty.db", "--dataset", "a", "--epsilon", "1").status == 0


def as_another_user(work: Callable[[], None]) -> str:
    """What a function raises in a process that is not root."""
    receive, send = os.pipe()
    child = os.fork()
    if not child:
        try:
            if os.geteuid() == 0:
                os.setuid(65534)
            work()
        except hc.HeadcountError as error:
            os.write(send, str(error).encode())
        finally:
            os._exit(0)
    os.close(send)
    os.waitpid(child, 0)
    with os.fdopen(receive) as told:
        return told.read()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_read_only_file_is_shown_but_not_charged(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "spent.db"
        ledger = made(path, 1)
        spend(ledger, 0.25)
        path.chmod(0o444)
        Path(folder).chmod(0o555)

        def look() -> None:
            assert len(hc.Ledger.open(path).spending().entries) == 1
            spend(hc.Ledger.open(path), 0.25)

        told = as_another_user(look)
        Path(folder).chmod(0o755)
    assert told == "spent.db must be writable, got a place that is read-only"


def test_a_locked_file_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "spent.db"
    made(path, 1)
    ledger = hc.Ledger.open(path, wait=0.2)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(hc.UnreadableData, match=r"must be free within 0\.2 s"):
            spend(ledger, 0.1)
    spend(ledger, 0.1)


def test_a_locked_row_is_waited_for(postgres_server: str) -> None:
    place = new_database(postgres_server)
    made(place, 1)
    ledger = hc.Ledger.open(place, wait=0.2)
    with psycopg.connect(place) as other:
        other.execute("SELECT * FROM headcount.datasets FOR UPDATE")
        with pytest.raises(hc.UnreadableData, match=r"must be free within 0\.2 s"):
            spend(ledger, 0.1)
    spend(ledger, 0.1)


def test_a_lost_server(postgres_server: str) -> None:
    """While a charge is under way: it is not made, and what was said has no password."""
    place = new_database(postgres_server)
    ledger = made(place.replace("user=postgres", "user=postgres&password=geheim"), 1)

    def cut_off() -> None:
        with ledger.store.writing() as run:
            ((own,),) = run("SELECT pg_backend_pid()", ())
            run("INSERT INTO datasets VALUES ('a', '1.0', '0.0', '')", ())
            with psycopg.connect(place, autocommit=True) as other:
                other.execute("SELECT pg_terminate_backend(%s, 5000)", (own,))

    with pytest.raises(hc.UnreadableData, match="must be reachable") as lost:
        cut_off()
    assert ledger.datasets == ["people"]
    for address in (
        "postgresql://someone:geheim@127.0.0.1:1/x",
        "postgresql://someone:gehe%zzim@127.0.0.1:1/x",
        "postgresql://someone:geheim@127.0.0.1:many/x",
        "postgresql://[someone:geheim",
    ):
        with pytest.raises(hc.UnreadableData) as refused:
            hc.Ledger.open(address)
        for told in (str(refused.value), str(lost.value), repr(ledger)):
            assert "gehe" not in told
            assert "\n" not in told


def test_a_user_who_may_not_write(postgres_server: str) -> None:
    place = new_database(postgres_server)
    spend(made(place, 1), 0.1)
    name = f"reader_{os.getpid()}"
    for statement in (
        f"CREATE USER {name}",
        f"GRANT USAGE ON SCHEMA headcount TO {name}",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA headcount TO {name}",
    ):
        rows_of(place, statement)
    reader = hc.Ledger.open(place.replace("user=postgres", f"user={name}"))
    assert len(reader.spending().entries) == 1
    with pytest.raises(hc.UnreadableData, match="must be writable by its user: permission denied"):
        spend(reader, 0.1)


# Laws that are kept ---------------------------------------------------------------------------


def test_laws_are_read_as_they_were_written() -> None:
    for protocol in mixed():
        law = DominatingLaw.of(protocol.curve)
        again = DominatingLaw.from_bytes(law.to_bytes())
        assert again == law
        assert (again.step, again.pure_epsilon) == (law.step, law.pure_epsilon)
        assert again.grid.tolist() == law.grid.tolist()
        assert again.deltas.tobytes() == law.deltas.tobytes()
        for epsilon in np.linspace(0, 1.1, 23):
            assert again.delta(epsilon) >= protocol.curve.delta(epsilon) * (1 - 1e-12)
    assert DominatingLaw.of(responses(0.1).curve) != DominatingLaw.of(responses(0.2).curve)


def test_what_is_no_law_is_not_read() -> None:
    data = DominatingLaw.of(responses(0.1).curve).to_bytes()
    plain = zlib.decompress(data)
    for wrong in (
        b"", b"abc", data[:-3], data + b"x", zlib.compress(plain[:-8]), zlib.compress(b"x" + plain),
        zlib.compress(b"hcloss 2" + plain[8:]), zlib.compress(plain[:-8] + b"\xff" * 8),
        zlib.compress(plain[:32] + plain[40:48] + plain[32:40] + plain[48:]),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="law"):
            DominatingLaw.from_bytes(wrong)


# Processes ------------------------------------------------------------------------------------


def run_storm(place: str, folder: Path, processes: int, kills: int, seed: int) -> None:
    ledger = hc.Ledger.create(place)
    ledger.create_dataset("many", hc.Budget(40))
    ledger.create_dataset("few", hc.Budget(0.1))
    ledger.create_dataset("composed", hc.Budget(1, 1e-6))
    released = folder / "released"
    subprocess.run(
        [sys.executable, STORM, "storm", place, released, str(processes), str(kills), str(seed)],
        check=True,
        timeout=900,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    entries = {
        name: (dataset, float(epsilon))
        for name, dataset, epsilon in rows_of(place, "SELECT id, dataset, epsilon FROM entries")
    }
    lines = [line.split() for line in released.read_text().splitlines()]
    assert len(lines) == len({name for name, _, _ in lines}) > kills
    for name, dataset, epsilon in lines:
        assert entries[name] == (dataset, float(epsilon))
    spent = {
        dataset: Counter(epsilon for where, epsilon in entries.values() if where == dataset)
        for dataset in ("many", "few", "composed")
    }
    assert exact_sum(spent["many"].elements()) == 40
    assert exact_sum(spent["few"].elements()) == Fraction("0.1")
    composed = sorted(spent["composed"].items())
    assert exact_delta(composed, 1) <= 1e-6
    assert exact_sum(spent["composed"].elements()) > 1
    assert exact_delta([*composed, (0.02, 1)], 1) > 0.9e-6
    numbers = rows_of(place, "SELECT COUNT(*), MAX(number) FROM entries GROUP BY dataset")
    assert all(count == last for count, last in numbers)
    for dataset in spent:
        found = ledger.spending(dataset)
        assert found.epsilon <= found.limit.epsilon
        assert found.delta <= found.limit.delta


def test_what_others_spend_meanwhile_counts(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the first look and the transaction."""
    ledger = made(place, 1)
    kind = type(ledger.store)
    writing, others = kind.writing, [1.0]

    @contextlib.contextmanager
    def later(store: Any) -> Iterator[Any]:
        while others:
            spend(ledger, others.pop())
        with writing(store) as run:
            yield run

    monkeypatch.setattr(kind, "writing", later)
    with pytest.raises(hc.BudgetExhausted):
        spend(ledger, 0.5)
    assert rows_of(place, "SELECT epsilon FROM entries") == [("1.0",)]


def test_killed_processes_never_overspend(tmp_path: Path) -> None:
    run_storm(str(tmp_path / "spent.db"), tmp_path, processes=4, kills=4, seed=1)


@pytest.mark.slow
def test_hundreds_of_killed_processes_never_overspend(place: str, tmp_path: Path) -> None:
    run_storm(place, tmp_path, processes=32, kills=200, seed=2)


def crashed(place: Path, statement: int, when: str) -> int:
    """How many statements a charge took; 0 if the process was killed at one."""
    done = subprocess.run(
        [sys.executable, STORM, "crash", place, str(statement), when],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode == -signal.SIGKILL:
        return 0
    assert (done.returncode, done.stderr) == (0, "")
    return int(done.stdout)


def check_crashes(place: Path, latest: int) -> None:
    """Killed at one of its latest statements, a charge is there once it is committed, as a whole,
    and not before; and the next one works.
    """
    ledger = hc.Ledger.create(place)
    ledger.create_dataset("few", hc.Budget(1, 1e-6))
    spend(ledger, 0.001)
    last = crashed(place, 0, "never")
    entries = 2
    for statement, when in itertools.product(
        range(max(1, last - latest), last + 1), ("before", "after")
    ):
        assert crashed(place, statement, when) == 0
        entries += (statement, when) == (last, "after")  # COMMIT
        assert rows_of(str(place), "SELECT COUNT(*), MAX(number) FROM entries") == [(entries,) * 2]
        entries += 1
        assert spend(ledger, 0.001).number == entries == len(ledger.spending().entries)


def test_killed_while_it_is_written(tmp_path: Path) -> None:
    check_crashes(tmp_path / "spent.db", latest=1)


@pytest.mark.slow
def test_killed_at_any_statement(tmp_path: Path) -> None:
    check_crashes(tmp_path / "spent.db", latest=1000)


# Packages -------------------------------------------------------------------------------------


def test_nothing_heavy_is_loaded_without_need(tmp_path: Path) -> None:
    """Where plain sums fit, or no distribution could help."""
    program = """
import sys, headcount as hc
from headcount.accounting.divergence import PointCurve
assert "psycopg" not in sys.modules
ledger = hc.Ledger.create("spent.db")
ledger.create_dataset("people", hc.Budget(1, 1e-6))
ledger.create_dataset("pure", hc.Budget(1))
def spend(name, epsilon):
    guarantee = hc.Guarantee(epsilon, 0.0, hc.Trust.LOCAL, True, "", 1)
    return ledger.charge(name, guarantee, PointCurve(epsilon, 0.0))
for _ in range(10):
    spend("people", 0.1)
    spend("pure", 0.1)
try:
    spend("pure", 0.1)
except hc.BudgetExhausted:
    assert "psycopg" not in sys.modules and "dp_accounting" not in sys.modules
    sys.modules["dp_accounting"] = None
    assert ledger.spending("people").pure_remaining == 0
    spend("people", 0.1)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert rows_of(str(tmp_path / "spent.db"), "SELECT COUNT(*) FROM entries") == [(20,)]
    last = done.stderr.splitlines()[-1]
    assert last.startswith("headcount.core.errors.MissingPackage: composition needs dp-accounting")


def test_nothing_heavy_is_loaded_in_a_transaction(tmp_path: Path) -> None:
    """Not even if others spend the last of the sum between the first look and the transaction."""
    program = """
import contextlib, sys, headcount as hc
from headcount.accounting.divergence import PointCurve
from headcount.ledger.sqlite import SqliteStore
writing, others, seen = SqliteStore.writing, [0.1] * 10, []
@contextlib.contextmanager
def watched(store):
    while others:
        spend(others.pop())
    before = "dp_accounting" in sys.modules
    with writing(store) as run:
        yield run
        seen.append((before, "dp_accounting" in sys.modules))
def spend(epsilon):
    guarantee = hc.Guarantee(epsilon, 0.0, hc.Trust.LOCAL, True, "", 1)
    return ledger.charge(None, guarantee, PointCurve(epsilon, 0.0))
ledger = hc.Ledger.create("spent.db")
ledger.create_dataset("people", hc.Budget(1, 1e-2))
SqliteStore.writing = watched
print(spend(0.1).number, seen == [(False, False)] * 11 + [(True, True)])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("11 True\n", "")


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(hc.MissingPackage, match=r"pip install 'headcount\[postgres\]'"):
        hc.Ledger.open("postgresql:///x")


# Commands -------------------------------------------------------------------------------------


def test_commands(headcount: Headcount, tmp_path: Path) -> None:
    create = ["ledger", "create", "spent.db", "--dataset"]
    done = headcount(*create, "people", "--epsilon", "3", "--delta", "1e-6")
    assert (done.status, done.err) == (0, "")
    assert done.out == "people: at most ε = 3, δ = 1e-6, for all releases together\n"
    again = headcount(*create, "people", "--epsilon", "30")
    assert (again.status, again.out) == (2, "")
    assert "'people' must be new in spent.db, got one with a limit of epsilon=3.0" in again.err
    assert headcount(*create, "machines", "--epsilon", "-1").status == 2
    headcount(*create, "machines", "--epsilon", "1")
    ledger = hc.Ledger.open(tmp_path / "spent.db")
    for _ in range(25):
        ask(ledger, responses(0.1), "people")
    shown = headcount("ledger", "show", "spent.db")
    assert (shown.status, shown.err) == (0, "")
    for wanted in (
        "people: 25 entries, limit ε = 3, δ = 1e-6", "local.randomized-response",
        "5 earlier entries are not shown", "spent: ε = 2.", "machines: 0 entries",
        "remaining: ε = 1 at δ = 0",
    ):  # fmt: skip
        assert wanted in shown.out
    one = headcount("ledger", "show", "spent.db", "--dataset", "machines", "--json")
    (only,) = json.loads(one.out)["datasets"]
    assert only["remaining"][0] == {"epsilon": 1.0, "delta": 0.0}
    missing = headcount("ledger", "show", "spent.db", "--dataset", "cats")
    assert (missing.status, missing.err.count("\n")) == (2, 1)


def test_exports(headcount: Headcount, tmp_path: Path) -> None:
    ledger = made(tmp_path / "spent.db", 3, 1e-6)
    for _ in range(3):
        ask(ledger, responses(0.1))
    ids = [entry.id for entry in ledger.spending().entries]
    for kind in ("json", "csv", "parquet"):
        done = headcount("ledger", "export", "spent.db", "--out", f"spending.{kind}")
        assert (done.status, done.out, done.err) == (0, f"exported: spending.{kind}\n", "")
    document = json.loads((tmp_path / "spending.json").read_text())
    assert [entry["id"] for entry in document["datasets"][0]["entries"]] == ids
    lines = (tmp_path / "spending.csv").read_text().splitlines()
    assert [line.split(",")[2] for line in lines[1:]] == ids
    table = parquet.read_table(tmp_path / "spending.parquet").to_pylist()
    assert [row["id"] for row in table] == ids
    assert table[0]["note"] == '{"column": "smoker"}'
    for out in ("spending.txt", "no/folder.csv", "no/folder.parquet"):
        done = headcount("ledger", "export", "spent.db", "--out", out)
        assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)


def test_no_charge_is_for_nothing(tmp_path: Path) -> None:
    """A little more than was said, a billion times, is a lot."""
    for limit in (0.0, 1e-6):
        ledger = made(tmp_path / f"{limit}.db", 1, limit)
        with pytest.raises(hc.InvalidParameter, match="worse"):
            ledger.charge(None, promise(0.0), PointCurve(0.9e-11, 0.9e-15), times=10**9)
        with pytest.raises(hc.InvalidParameter, match="worse"):
            ledger.charge(None, promise(0.1), PointCurve(0.1 + 1e-11, 0.0))
        with pytest.raises(hc.InvalidParameter, match="worse"):
            ledger.charge(None, promise(0.1), PointCurve(0.1, 0.9e-15))


def test_what_is_protected_is_said_if_it_differs(tmp_path: Path) -> None:
    ledger = made(tmp_path / "spent.db", 1)
    for protected in ("replace one person's value", "replace all rows of one person"):
        ledger.charge(None, promise(0.1), PointCurve(0.1, 0.0), {"protected": protected})
    assert "Entries protect different things" in str(ledger.spending())
