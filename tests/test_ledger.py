"""Ledgers, judged by their stored rows and by exact laws of responses."""

import contextlib
import itertools
import json
import math
import random
import tempfile
import zlib
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

import headcount as hc
from commands import Headcount
from conformance import small_tasks
from headcount.accounting.divergence import PointCurve
from headcount.accounting.dominating import DominatingLaw
from ledgers import (
    NOBODY,
    ask,
    exact_delta,
    exact_sum,
    made,
    mixed,
    promise,
    responses,
    rows_of,
    spend,
)

# What fits ---------------------------------------------------------------------------------------


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
    """The exact composition's number of responses fits, or one fewer. The sum would allow 50."""
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
    """No limit is exceeded, and nothing is refused that clearly fits, by the exact composition or
    by the sum.
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
    """What remains fits, and not much more does."""
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


def test_order_and_reopening_do_not_matter(place: str, tmp_path: Path) -> None:
    """Charges in all trust models. The composed spend is at most the sum, at least each part."""
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
    """A release may use up a limit that equals its cost."""
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
    task = next(task for task in small_tasks() if name in hc.protocol_names(task))
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
        hc.UnknownName, match=r"no dataset 'cats' in .*, which has machines, people"
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


# Who lies is refused -----------------------------------------------------------------------------


def test_a_curve_worse_than_its_guarantee_is_refused(tmp_path: Path) -> None:
    for delta in (0.0, 1e-6):
        ledger = made(tmp_path / f"{delta}.db", 1, delta)
        for curve in (PointCurve(0.6, 0.0), PointCurve(0.5, 1e-9), PointCurve(0.5 + 1e-9, 0.0)):
            with pytest.raises(hc.InvalidParameter, match="the curve must satisfy"):
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
        ({"note": {"a": {1, 2}}}, "`note` must be JSON-serializable"),
        ({"note": {"a": math.nan}}, "`note` must be JSON-serializable"),
        ({"note": {"a": "b" * 10_000}}, "`note` must be at most"),
        ({"note": "words"}, "`note` must be a Mapping"),
        ({"guarantee": replace(promise(0.1), trust=NOBODY)}, "`trust` must be one of"),
        ({"times": 0}, "`times` must be between"),
        ({"times": 1.5}, "`times` must be a whole number"),
        ({"users": -1}, "`users` must be between"),
        ({"protocol": "two\nlines"}, "`protocol` must have only printable"),
        ({"task": None}, "`task` must be text"),
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


def test_no_charge_is_for_nothing(tmp_path: Path) -> None:
    """A small excess over the stated cost, a billion times, is large."""
    for limit in (0.0, 1e-6):
        ledger = made(tmp_path / f"{limit}.db", 1, limit)
        with pytest.raises(hc.InvalidParameter, match="got a larger δ"):
            ledger.charge(None, promise(0.0), PointCurve(0.9e-11, 0.9e-15), times=10**9)
        with pytest.raises(hc.InvalidParameter, match="got a larger δ"):
            ledger.charge(None, promise(0.1), PointCurve(0.1 + 1e-11, 0.0))
        with pytest.raises(hc.InvalidParameter, match="got a larger δ"):
            ledger.charge(None, promise(0.1), PointCurve(0.1, 0.9e-15))


# Laws that are kept ------------------------------------------------------------------------------


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


# Commands ----------------------------------------------------------------------------------------


def test_commands(headcount: Headcount, tmp_path: Path) -> None:
    create = ["ledger", "create", "spent.db", "--dataset"]
    done = headcount(*create, "people", "--epsilon", "3", "--delta", "1e-6")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("people: at most ε = 3, δ = 1e-6, for all releases together\n")
    again = headcount(*create, "people", "--epsilon", "30")
    assert (again.status, again.out) == (2, "")
    assert "'people' must be new in spent.db, got one with the limit epsilon=3.0" in again.err
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


def test_what_is_protected_is_said_if_it_differs(tmp_path: Path) -> None:
    ledger = made(tmp_path / "spent.db", 1)
    for protected in ("replace one person's value", "replace all rows of one person"):
        ledger.charge(None, promise(0.1), PointCurve(0.1, 0.0), {"protected": protected})
    assert "Entries protect against different changes of the data" in str(ledger.spending())
