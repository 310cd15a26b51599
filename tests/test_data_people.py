"""People with several rows, and people in groups: which rows count, and what is guaranteed."""

import itertools
import math
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare

import headcount as hc
from headcount.core.guarantee import GroupCurve, PrivacyCurve, WorstCurve
from headcount.data.encoded_rows import EncodedRows
from headcount.data.row_choice import RowChoice

ALARM = 1e-7


def chosen(
    persons: NDArray[np.int64], rows: int, source: hc.Source, batch: int = 10**9
) -> list[tuple[int, ...]]:
    """The rows of each person that are kept, by number."""
    choice = RowChoice(rows, source)
    for start in range(0, len(persons), batch):
        piece = slice(start, start + batch)
        choice.add(EncodedRows(np.arange(len(persons))[piece], pyarrow.array(persons[piece])))
    by_person: dict[int, list[int]] = {}
    for row in (row for part in choice.rows() for row in part.codes.tolist()):
        by_person.setdefault(int(persons[row]), []).append(row)
    return [tuple(sorted(kept)) for _, kept in sorted(by_person.items())]


class Equal(hc.Source):
    """A source whose first keys are all equal."""

    def __init__(self, rows: int) -> None:
        self._left, self._after = rows * 8, hc.SeededSource(1)

    def fill(self, buffer: NDArray[np.uint8]) -> None:
        self._after.fill(buffer)
        buffer[: self._left] = 0
        self._left = max(0, self._left - len(buffer))


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("how", ["at once", "in batches", "equal keys"])
def test_every_choice_of_rows_is_equally_likely(
    rows: int, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    people, each = 12_000, 4
    persons = np.tile(np.arange(people), each)  # the rows of each person are far apart
    source: hc.Source = hc.SeededSource(8)
    if how == "in batches":
        monkeypatch.setattr("headcount.data.row_choice._SPARE", 5000)
        monkeypatch.setattr("headcount.data.row_choice._FEW", 1000)
    if how == "equal keys":
        source = Equal(len(persons))
    found = chosen(persons, rows, source, 700 if how == "in batches" else 10**9)
    seen = Counter(tuple(row // people for row in kept) for kept in found)
    wanted = list(itertools.combinations(range(each), rows))
    assert set(seen) == set(wanted)
    assert chisquare([seen[which] for which in wanted]).pvalue > ALARM


@pytest.mark.parametrize("few", [50, 1000, 10**6])
def test_batches_do_not_change_the_choice(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    persons = np.random.default_rng(3).integers(0, 300, 4000)
    monkeypatch.setattr("headcount.data.row_choice._SPARE", 100)
    monkeypatch.setattr("headcount.data.row_choice._FEW", few)
    found = [chosen(persons, 2, hc.SeededSource(5), batch) for batch in (1, 13, 999, 5000)]
    assert all(one == found[0] for one in found[1:])
    rows = Counter(persons.tolist())
    assert [len(kept) for kept in found[0]] == [min(2, rows[p]) for p in sorted(rows)]


def test_equal_keys_are_decided_by_further_keys_that_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row of a person has the same first key, and rows are dropped after each batch."""
    people, each = 6000, 3
    monkeypatch.setattr("headcount.data.row_choice._SPARE", 1)
    monkeypatch.setattr("headcount.data.row_choice._FEW", people)

    class Repeated(hc.Source):
        """A source that returns zeros as the keys of rows, but not as further keys."""

        def __init__(self) -> None:
            self._after = hc.SeededSource(4)

        def fill(self, buffer: NDArray[np.uint8]) -> None:
            self._after.fill(buffer)
            if len(buffer) == 8 * people:
                buffer[:] = 0

    found = chosen(np.tile(np.arange(people), each), 1, Repeated(), people)
    seen = Counter(row // people for (row,) in found)
    assert chisquare([seen[place] for place in range(each)]).pvalue > ALARM


@pytest.mark.parametrize("few", [64, 10**6])
@pytest.mark.parametrize("kind", ["numbers", "words", "huge", "long words", "listed words"])
def test_a_person_counts_once(kind: str, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of rows makes no difference. All rows of one person have the same value here."""
    monkeypatch.setattr("headcount.data.row_choice._FEW", few)
    who = np.random.default_rng(2).integers(0, 50, 1000)
    words = [f"p{i}" for i in who]
    names: Any = {
        "numbers": who,
        "words": words,
        "huge": who.astype(np.uint64) + np.uint64(2**63 - 25),
        "long words": [f"{'é' * (i % 7)} {i} {'x' * i * (i % 3)}" for i in who.tolist()],
        "listed words": pyarrow.array(words).dictionary_encode(),
    }[kind]
    found = hc.estimate(
        {"smokes": (who % 2), "who": names}, hc.Count(), column="smokes", person="who",
        budget=hc.Budget(500),
    )  # fmt: skip
    assert isinstance(found, hc.Estimate)
    assert (found.value, found.users) == (25, 50)
    assert found.guarantee.neighbors == "replace all rows of one person"


def test_person_settings_are_checked() -> None:
    data = {"v": [1, 0], "who": [1, 1], "when": [0.5, 0.5]}
    for settings, says in (
        ({"rows_per_person": 2}, "must come with `person`"),
        ({"person": "who", "rows_per_person": 0}, "`rows_per_person` must be between 1"),
        ({"person": "whose"}, "must have a column 'whose', got v, who, when"),
        ({"person": "when"}, "must hold text or whole numbers, got double"),
    ):
        with pytest.raises(hc.HeadcountError, match=says):
            hc.estimate(data, hc.Count(), column="v", budget=hc.Budget(1), **settings)
    gone: dict[str, list[Any]] = {"v": [1, 0, 1], "who": [1, None, 2]}
    with pytest.raises(
        hc.InvalidValue, match="every row must have a value in column 'who', got none in row 2"
    ):
        hc.estimate([*rows(gone)], hc.Count(), column="v", person="who", budget=hc.Budget(1))
    left = hc.estimate(
        [*rows(gone)], hc.Count(), column="v", person="who", missing="drop", budget=hc.Budget(500)
    )
    assert isinstance(left, hc.Estimate)
    assert (left.value, left.users) == (2, 2)
    both: dict[str, list[Any]] = {
        "v": [None, 1, 0, 1, 1, None], "who": [1, None, 2, 3, 4, None], "in": ["a", "a", "a", None,
        "b", "b"],
    }  # fmt: skip
    found = hc.estimate(
        rows(both), hc.Count(), column="v", person="who", group="in", missing="drop",
        budget=hc.Budget(500),
    )  # fmt: skip
    assert isinstance(found, hc.GroupedEstimate)
    assert {name: (one.value, one.users) for name, one in found.items()} == {
        "a": (0, 1), "b": (1, 1),
    }  # fmt: skip


def rows(columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


# Group privacy, judged by all views of a small crowd ---------------------------------------------


def view_law(protocol: hc.Protocol, held: tuple[int, ...]) -> dict[Any, Fraction]:
    """The law of the shuffled messages of people who hold these values."""
    law: dict[Any, Fraction] = {(): Fraction(1)}
    for value in held:
        one = protocol.law(value)
        assert one is not None
        new: dict[Any, Fraction] = {}
        for (view, p), (bundle, q) in itertools.product(law.items(), one.items()):
            both = Counter(dict(view))
            both.update(dict(bundle))
            key = tuple(sorted(both.items()))
            new[key] = new.get(key, Fraction(0)) + p * q
        law = new
    return law


def divergence(one: dict[Any, Fraction], other: dict[Any, Fraction], epsilon: float) -> Fraction:
    ratio = Fraction(math.exp(epsilon))
    return sum(
        (max(Fraction(0), p - ratio * other.get(view, Fraction(0))) for view, p in one.items()),
        Fraction(0),
    )


@pytest.mark.parametrize("mine", [1, 2, 3])
@pytest.mark.parametrize(
    ("name", "budget", "users"),
    [
        ("local.randomized-response", hc.Budget(1), 5),
        ("shuffle.zero-exact", hc.Budget(2.5, 0.4), 10),
        ("shuffle.randomized-response", hc.Budget(2, 0.2), 5),
    ],
)
def test_all_rows_of_a_person_are_protected_together(
    name: str, budget: hc.Budget, users: int, mine: int
) -> None:
    """Every view of a crowd in which one person has up to three rows, all of which are replaced."""
    others = users - mine
    data = {"v": [i % 2 for i in range(users)], "who": [0] * mine + [*range(1, others + 1)]}
    ready = hc.prepare(
        data, hc.Count(), column="v", person="who", rows_per_person=3, budget=budget, protocol=name
    )
    found, release = ready.answer(), ready.release
    assert isinstance(found, hc.Estimate)
    promise, protocol = found.guarantee, release.protocols[0]
    assert promise == release.guarantee
    assert promise.epsilon <= budget.epsilon
    assert promise.delta <= budget.delta
    assert not promise.exact
    assert promise.neighbors == (
        "replace all rows (up to 3) of one person; the number of these rows is not hidden"
    )
    worst = Fraction(0)
    shown = (0.0, budget.epsilon / 2, promise.epsilon)
    stated = {epsilon: release.curve.delta(epsilon) for epsilon in shown}
    for rest in ((0,) * others, (1,) * others, (0, 1) * (others // 2) + (0,) * (others % 2)):
        laws = [
            view_law(protocol, (*values, *rest))
            for values in itertools.product((0, 1), repeat=mine)
        ]
        for one, other in itertools.permutations(laws, 2):
            worst = max(worst, divergence(one, other, promise.epsilon))
            for epsilon, delta in stated.items():
                assert float(divergence(one, other, epsilon)) <= delta * (1 + 1e-9) + 1e-15
    assert worst <= promise.delta + Fraction(1, 10**15)
    # The budget of a row is not wasted: with one third of the epsilon it could not be larger.
    assert 3 * protocol.budget.epsilon == pytest.approx(budget.epsilon, rel=1e-12)
    assert 3 * Fraction(protocol.budget.epsilon) <= Fraction(budget.epsilon)


@pytest.mark.parametrize("size", [2, 3, 10, 997])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.7, 10 / 3])
def test_row_budgets_are_on_the_private_side(size: int, epsilon: float) -> None:
    """The check uses 50 digits of mpmath."""
    import mpmath

    from headcount.data.group_privacy import person_guarantee, row_budget

    whole = hc.Budget(epsilon, 1e-3)
    one = row_budget(whole, size)
    with mpmath.workdps(50):
        chain = sum(mpmath.e ** (i * mpmath.mpf(one.epsilon)) for i in range(size))
        assert one.delta * chain <= whole.delta
        assert one.delta * chain > whole.delta * (1 - 1e-12)
        promise = hc.Guarantee(one.epsilon, one.delta, hc.Trust.CENTRAL, True, "", 1)
        person = person_guarantee(promise, size)
        assert size * mpmath.mpf(one.epsilon) <= person.epsilon <= whole.epsilon
        assert one.delta * chain <= person.delta <= whole.delta


def test_too_little_delta_for_so_many_rows() -> None:
    data = {"v": [1, 0], "who": [1, 2]}
    with pytest.raises(hc.Infeasible, match="100 rows of a person need a delta of"):
        hc.estimate(
            data, hc.Count(), column="v", person="who", rows_per_person=100,
            budget=hc.Budget(100, 1e-6), trust="shuffle",
        )  # fmt: skip


# Groups ----------------------------------------------------------------------------------------


def town() -> dict[str, Any]:
    random = np.random.default_rng(1)
    return {
        "smokes": random.integers(0, 2, 600),
        "city": random.choice(["Ulm", "Bonn", "Kiel"], 600),
        "block": random.integers(0, 3, 600),
        "who": random.integers(0, 400, 600),
    }


def test_groups_are_answered_apart() -> None:
    data = town()
    for column in ("city", "block"):
        found = hc.estimate(data, hc.Count(), column="smokes", group=column, budget=hc.Budget(500))
        assert isinstance(found, hc.GroupedEstimate)
        names, truths = np.unique(data[column]), {}
        for name in names.tolist():
            truths[name] = int(data["smokes"][data[column] == name].sum())
            assert found[name].users == int((data[column] == name).sum())
        assert {group: one.value for group, one in found.items()} == truths
        assert list(found) == sorted(truths)
        assert found.users == 600
        assert "groups, and how many people each has, are not hidden" in found.guarantee.neighbors
        assert len(found.table().rows) == 3
        assert found.table().columns[0] == column
        assert [row["group"] for row in found.to_dict()["groups"]] == list(found)
        assert "3 groups, 600 people" in str(found)
        assert "<table>" in found._repr_html_()


@pytest.mark.parametrize(("small", "sizes"), [("A", [60, 540]), ("Z", [540, 60])])
def test_the_budget_is_charged_once_for_the_worst_group(small: str, sizes: list[int]) -> None:
    data = town()
    data["city"] = np.where(np.arange(600) < 60, small, "M")
    ready = hc.prepare(
        data, hc.Count(), column="smokes", group="city", budget=hc.Budget(1, 1e-3),
        protocol="shuffle.zero-exact",
    )  # fmt: skip
    found, release = ready.answer(), ready.release
    assert isinstance(found, hc.GroupedEstimate)
    assert [protocol.crowd.users for protocol in release.protocols] == sizes
    assert found[small].guarantee.delta != found["M"].guarantee.delta
    assert release.guarantee == found.guarantee
    assert release.guarantee.delta == max(one.guarantee.delta for one in found.values())
    for epsilon in (0.0, 0.3, 1.0, 2.0):
        deltas = [protocol.curve.delta(epsilon) for protocol in release.protocols]
        assert release.curve.delta(epsilon) == max(deltas)


def test_a_prepared_estimate_has_drawn_nothing() -> None:
    """Nothing random happens before the charge."""

    class Untouched(hc.Source):
        def fill(self, buffer: NDArray[np.uint8]) -> None:
            raise AssertionError("drawn from")

    for trust in hc.Trust:
        ready = hc.prepare(
            [0, 1] * 50, hc.Count(), budget=hc.Budget(1, 1e-3), trust=trust, source=Untouched()
        )
        assert ready.release.guarantee.trust is trust
        with pytest.raises(AssertionError, match="drawn from"):
            ready.answer()


def test_groups_that_cannot_be_answered() -> None:
    data = town()
    data["city"][0] = "Hof"
    common: dict[str, Any] = {"column": "smokes", "group": "city"}
    with pytest.raises(hc.Infeasible, match=r"group 'Hof' of 1 person: .*nearest"):
        hc.estimate(
            data, hc.Count(), budget=hc.Budget(1, 1e-6), protocol="shuffle.zero-exact", **common
        )
    some = ["Ulm", "Bonn", "Kiel"]
    with pytest.raises(hc.InvalidValue, match=r"every group must be one of .*, got 'Hof'"):
        hc.estimate(data, hc.Count(), budget=hc.Budget(1), groups=some, **common)
    with pytest.raises(hc.InvalidValue, match="group 'Rom' of 0 people: there must be"):
        hc.estimate(data, hc.Count(), budget=hc.Budget(1), groups=[*some, "Hof", "Rom"], **common)
    with pytest.raises(hc.InvalidParameter, match="`groups` must come with `group`"):
        hc.estimate(data, hc.Count(), budget=hc.Budget(1), column="smokes", groups=some)
    with pytest.raises(hc.InvalidValue, match="at most 10,000 groups"):
        hc.estimate(
            {"v": np.zeros(20_000, dtype=int), "id": np.arange(20_000)}, hc.Count(), column="v",
            group="id", budget=hc.Budget(1),
        )  # fmt: skip


def test_persons_in_groups() -> None:
    """A person counts once in all, in one of the groups."""
    found = hc.estimate(
        town(), hc.Count(), column="smokes", group="city", person="who", budget=hc.Budget(500)
    )
    assert isinstance(found, hc.GroupedEstimate)
    assert found.users == len(np.unique(town()["who"]))
    again = found.postprocess("clip")
    assert all(one.postprocessing == ("clip",) for one in again.values())


# Curves ----------------------------------------------------------------------------------------


class Steps(PrivacyCurve):
    """The curve of randomized response with some ε, and a chance of total loss."""

    def __init__(self, loss: float, lost: float = 0.0) -> None:
        self.loss, self.lost = loss, lost

    def _delta(self, epsilon: float) -> float:
        return float(self._deltas(np.array([epsilon]))[0])

    def _deltas(self, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        p = 1 / (1 + math.exp(-self.loss))
        ratio = np.exp(epsilons)
        pure = np.maximum(0.0, p - ratio * (1 - p)) + np.maximum(0.0, 1 - p - ratio * p)
        return self.lost + (1 - self.lost) * pure

    @property
    def bends(self) -> NDArray[np.float64]:
        return np.array([-self.loss, self.loss])


def test_worst_curve_is_the_pointwise_maximum() -> None:
    parts = (Steps(1.0), Steps(0.5, 0.1), Steps(0.2))
    worst = WorstCurve(parts)
    grid = np.linspace(-2, 2, 41)
    assert np.array_equal(worst.deltas(grid), np.max([one.deltas(grid) for one in parts], axis=0))
    assert worst.delta(0.7) == max(one.delta(0.7) for one in parts)
    assert {*worst.bends} == {-1.0, -0.5, -0.2, 0.2, 0.5, 1.0}
    assert worst.epsilon(0.05) == math.inf
    assert worst.epsilon(0.1) == pytest.approx(Steps(1.0).epsilon(0.1))


@pytest.mark.parametrize("lost", [0.0, 1e-6])
@pytest.mark.parametrize("size", [2, 3, 5])
def test_group_curve_bounds_what_it_is_for(size: int, lost: float) -> None:
    """The exact divergence of k responses at once is that of two binomials, or of total loss."""
    one = Steps(0.4, lost)
    group = GroupCurve(one, size)
    p = 1 / (1 + math.exp(-0.4))
    laws = [
        [math.comb(size, i) * a**i * (1 - a) ** (size - i) for i in range(size + 1)]
        for a in (p, 1 - p)
    ]
    deltas = []
    for epsilon in np.linspace(-2.5, 2.5, 51):
        exact = sum(max(0.0, x - math.exp(epsilon) * y) for x, y in zip(*laws, strict=True))
        deltas.append(group.delta(float(epsilon)))
        assert deltas[-1] >= (1 - lost) ** size * exact + (1 - (1 - lost) ** size) - 1e-12
    assert deltas == sorted(deltas, reverse=True)
    assert group.delta(size * 0.4 + 1e-9) <= (0.0 if not lost else lost * size * math.exp(2)) + 1e-9
    assert group.delta(50.0) <= lost * size * math.exp(2)  # it does not rise again


def test_a_prepared_estimate_is_charged_and_answered_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = hc.Ledger.create(tmp_path / "spent.db")
    ledger.create_dataset("town", hc.Budget(1))
    ready = hc.prepare([0, 1] * 50, hc.Count(), budget=hc.Budget(1))
    assert not ledger.spending().entries
    ready.charge(ledger)
    with monkeypatch.context() as failing:
        failing.setattr("headcount.data.estimate.walk", lambda *arguments: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            ready.answer()
    ready.answer()  # what was paid for is not lost
    assert len(ledger.spending().entries) == 1
    with pytest.raises(hc.InvalidParameter, match="must be drawn only once"):
        ready.answer()
    with pytest.raises(hc.BudgetExhausted):
        hc.estimate([0, 1] * 50, hc.Count(), budget=hc.Budget(1), ledger=ledger)
    seeded = hc.prepare([0, 1], hc.Count(), budget=hc.Budget(1), source=hc.SeededSource(1))
    with pytest.raises(hc.InvalidParameter, match="must come with a secure source"):
        seeded.charge(ledger)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ledger": 5}, "`ledger` must be a Ledger"),
        ({"options": 3}, "`options` must be a Mapping"),
        ({"group": "g", "groups": 5}, "`groups` must come with"),
        ({"group": "g", "groups": "ab"}, "`groups` must come with"),
        ({"group": "g", "groups": [None, 1]}, "`groups` must come with"),
        ({"group": "g", "groups": [1, "1"]}, "`groups` must come with"),
        ({"dataset": "town"}, "must come with a ledger"),
    ],
)
def test_settings_that_are_none_are_refused(settings: dict[str, Any], message: str) -> None:
    table = {"v": np.array([0, 1]), "g": np.array([1, 2])}
    with pytest.raises(hc.InvalidParameter, match=message):
        hc.estimate(table, hc.Count(), column="v", budget=hc.Budget(1), **settings)


def test_a_crowd_that_a_protocol_was_not_built_for_costs_nothing() -> None:
    protocol = hc.protocol("shuffle.zero-exact", hc.Count(), hc.Budget(1, 1e-3), hc.Crowd(1000))
    with pytest.raises(hc.CrowdMismatch):
        hc.prepare([0, 1] * 50, protocol=protocol)  # nothing can be charged for
