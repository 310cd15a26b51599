"""Lower bounds are below the error of every protocol and channel, and rates grow as stated."""

import itertools
import json
import math
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import mpmath as mp
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog, minimize

import headcount as hc
from headcount.theory import Bound, bounds, survey_worth
from headcount.theory.entries import ENTRIES

ROOT = Path(__file__).parents[1]
CENTRAL, SHUFFLE, LOCAL = hc.Trust.CENTRAL, hc.Trust.SHUFFLE, hc.Trust.LOCAL
COUNT, REALS, WHOLE = hc.Count(), hc.Sum(-1, 3), hc.Sum(2, 7, whole=True)
MEAN, COLORS, DENSITY = hc.Mean(0, 4), hc.Histogram(20), hc.Density(0, 4, 1.5)
TASKS = (COUNT, REALS, WHOLE, MEAN, COLORS, DENSITY)
ROUNDING = 1 + 1e-9  # of protocols that attain a bound


def table(
    task: hc.Task, epsilon: float, delta: float, users: int, honest: int | None = None
) -> dict[str, Bound]:
    found = bounds(task, hc.Budget(epsilon, delta), hc.Crowd(users, honest))
    assert len({bound.name for bound in found}) == len(found)
    return {bound.name: bound for bound in found}


def value(
    name: str, task: hc.Task, epsilon: float, delta: float, users: int, honest: int | None = None
) -> float:
    return table(task, epsilon, delta, users, honest)[name].value


# The table ------------------------------------------------------------------------------------


def test_entries_are_complete_and_names_are_unique() -> None:
    names = [entry.name(task) for entry in ENTRIES for task in entry.tasks]
    assert len(set(names)) == len(names) > 45
    for entry in ENTRIES:
        for text in (entry.formula, entry.statement, entry.conditions, entry.source):
            assert text.strip() == text != ""
        assert entry.statement.endswith(".")
        assert re.search(r"(19|20)\d\d", entry.source)
        assert (entry.kind == "lower bound") == entry.ending.endswith("lower")
        assert (entry.messages == "one") == entry.ending.startswith("one-message")
        assert (entry.measure == "largest bucket error") == ("largest" in entry.ending)
        assert (entry.measure == "integrated error") == (entry.tasks == ("density",))


def test_every_entry_is_returned_for_some_numbers() -> None:
    found = {
        name for task in TASKS for delta in (0.0, 1e-6) for name in table(task, 1.0, delta, 10_000)
    }
    assert found == {entry.name(task) for entry in ENTRIES for task in entry.tasks}


def test_every_task_and_trust_has_a_rate_and_all_but_densities_a_lower_bound() -> None:
    for task, trust in itertools.product(TASKS, hc.Trust):
        kinds = {b.kind for b in table(task, 1.0, 1e-6, 10_000).values() if b.trust == trust}
        assert kinds == {"rate"} if task is DENSITY else {"rate", "lower bound"}


@pytest.mark.parametrize("task", TASKS, ids=str)
@pytest.mark.parametrize("epsilon", [1e-12, 1e-3, 1.0, 30.0, 500.0])
@pytest.mark.parametrize("delta", [0.0, 1e-18, 1e-6, 0.5])
def test_values_are_finite_and_survive_json(task: hc.Task, epsilon: float, delta: float) -> None:
    for users, honest in ((1, 1), (2, 1), (1000, 7), (2**50, 2**50), (2**50, 1)):
        for bound in table(task, epsilon, delta, users, honest).values():
            assert isinstance(bound.value, float)
            assert 0 <= bound.value < math.inf
            assert bound.task == task.name
            assert bound.name.startswith(f"{bound.trust}.{task.name}.")
            again = Bound.from_dict(json.loads(json.dumps(bound.to_dict())))
            assert again == bound
            assert isinstance(again.trust, hc.Trust)


def test_wrong_arguments_are_refused() -> None:
    budget, crowd = hc.Budget(1), hc.Crowd(10)
    wrong: list[tuple[Any, Any, Any, str]] = [
        ("count", budget, crowd, "task"),
        (COUNT, 1.0, crowd, "budget"),
        (COUNT, budget, 10, "crowd"),
    ]
    for task, spend, people, name in wrong:
        with pytest.raises(hc.InvalidParameter, match=f"`{name}` must be"):
            bounds(task, spend, people)


def test_what_does_not_hold_is_left_out() -> None:
    def names(task: hc.Task, *numbers: Any) -> set[str]:
        return {name.replace(f".{task.name}.", ".") for name in table(task, *numbers)}

    pure = {"central.additive-lower", "shuffle.one-message-lower"}
    assert pure <= names(COUNT, 1, 0.0, 1000)
    assert not pure & names(COUNT, 1, 1e-9, 1000)
    for trust in hc.Trust:
        assert f"{trust}.pure-lower" in names(COLORS, 1, 0.0, 1000)
        assert f"{trust}.pure-lower" not in names(COLORS, 1, 1e-9, 1000)
        assert f"{trust}.rate" in names(COUNT, 1, 1e-9, 1000)
        assert f"{trust}.rate" not in names(COUNT, 1.01, 1e-9, 1000)
    # With a larger δ, sometimes telling the truth would be better than these rates.
    assert "central.rate" in names(COUNT, 0.1, 0.024, 1000)
    assert not {"central.rate", "shuffle.rate"} & names(COUNT, 0.1, 0.026, 1000)
    assert "local.rate" in names(COUNT, 0.1, 0.0024, 1000)
    assert "local.rate" not in names(COUNT, 0.1, 0.0026, 1000)
    # In smaller crowds, always answering half of the crowd is no worse.
    assert "local.rate" in names(COUNT, 0.1, 0.0, 101)
    assert "local.rate" not in names(COUNT, 0.1, 0.0, 99)
    assert "central.rate" in names(COUNT, 0.1, 0.0, 11)
    assert "central.rate" not in names(COUNT, 0.1, 0.0, 9)
    assert "shuffle.rate" not in names(COUNT, 1, 0.0, 1000)
    assert "shuffle.rate" not in names(COUNT, 0.1, 1e-6, 1000, 9)
    assert "shuffle.one-message-rate" in names(COUNT, 1, 1e-6, 1000)
    assert "shuffle.one-message-rate" not in names(COUNT, 1, 0.002, 1000)
    assert "shuffle.one-message-rate" not in names(COUNT, 1, 1e-6, 1000, 13)
    assert "shuffle.one-message-rate" in names(REALS, 1, 1e-6, 1000)
    assert "shuffle.one-message-rate" not in names(WHOLE, 1, 1e-6, 1000)
    # β = 1.5: noise is below the sampling error for ε ≥ 1000^(−3/8) = 0.075.
    for trust in (CENTRAL, SHUFFLE):
        assert f"{trust}.rate" in names(DENSITY, 0.08, 1e-6, 1000)
        assert f"{trust}.rate" not in names(DENSITY, 0.07, 1e-6, 1000)
    assert "central.rate" in names(DENSITY, 0.08, 1e-6, 1000, 500)
    assert "shuffle.rate" not in names(DENSITY, 0.08, 1e-6, 1000, 500)
    assert "shuffle.rate" not in names(DENSITY, 1, 0.0, 1000)


# Against every registered protocol ------------------------------------------------------------


class Fitting(NamedTuple):
    """What bounds say something about."""

    trust: hc.Trust
    name: str
    one: bool  # whether everybody sends one message
    adds: bool  # whether the shuffler adds noise
    error: float  # for the worst data


@cache
def errors(
    task: hc.Task, epsilon: float, delta: float, users: int, honest: int
) -> tuple[Fitting, ...]:
    """All protocols that fit."""
    found = []
    for name in hc.protocol_names(task):
        try:
            p = hc.protocol(name, task, hc.Budget(epsilon, delta), hc.Crowd(users, honest))
        except hc.Infeasible:
            continue
        one = p.randomizer.fixed_messages == 1
        found.append(Fitting(p.trust, name, one, p.shuffler.adds, p.standard_error()))
    return tuple(found)


BIASED = {"shuffle.sample-threshold"}  # which drops small counts
SETTINGS = [
    (0.1, 0.0, 1, 1),
    (0.5, 0.0, 30, 30),
    (1.0, 0.0, 400, 100),
    (3.0, 0.0, 2, 2),
    (8.0, 0.0, 1000, 1000),
    (0.5, 1e-6, 2000, 2000),
    (1.0, 1e-6, 2000, 700),
    (1.0, 1e-3, 100, 100),
    (4.0, 1e-9, 300, 300),
]
FEW = SETTINGS[:6]  # for sums, which take seconds to calibrate
CASES = [
    (task, numbers)
    for task in (COUNT, COLORS, REALS, MEAN, WHOLE)
    for numbers in (SETTINGS if task in (COUNT, COLORS) else FEW)
]


@pytest.mark.parametrize(("task", "numbers"), CASES, ids=str)
def test_no_protocol_is_below_a_lower_bound(
    task: hc.Task, numbers: tuple[float, float, int, int]
) -> None:
    judged = 0
    for bound in table(task, *numbers).values():
        if bound.kind == "rate":
            continue
        for p in errors(task, *numbers):
            biased = p.name in BIASED and not bound.name.endswith("any-lower")
            if within(bound, p) and (p.one or bound.messages == "any") and not biased:
                assert bound.value <= p.error * ROUNDING, (bound, p)
                judged += 1
    assert judged >= 5


def within(bound: Bound, protocol: Fitting) -> bool:
    """Whether a protocol belongs to the model of a bound.

    A shuffler that adds noise relies on no honest people, so it is outside of the model of bounds
    in which only honest people hide each other. Its noise is bounded like that of a curator. With
    δ = 0 it is not the same for all data, since messages are sometimes thrown away.
    """
    if not protocol.adds:
        return protocol.trust == bound.trust
    if "the shuffler adds no noise" in bound.conditions:
        return False
    additive = bound.name.endswith("additive-lower")
    return bound.trust == SHUFFLE or (bound.trust == CENTRAL and not additive)


def test_a_shuffler_that_adds_noise_is_below_bounds_for_honest_people() -> None:
    """So these bounds must name their condition. All others hold for it."""
    named = set()
    for task, numbers in itertools.product((COUNT, COLORS), SETTINGS):
        for bound in table(task, *numbers).values():
            if bound.kind == "rate" or bound.trust != SHUFFLE:
                continue
            for p in errors(task, *numbers):
                if p.adds and bound.value > p.error and (p.one or bound.messages == "any"):
                    assert not within(bound, p)
                    named.add(bound.name.split(".")[-1])
    assert named == {"lower", "pure-lower", "one-message-lower"}


@pytest.mark.parametrize("buckets", [2, 3, 7, 300])
@pytest.mark.parametrize("epsilon", [0.05, 0.7, 2.0, 5.0])
def test_no_histogram_is_below_a_lower_bound(buckets: int, epsilon: float) -> None:
    task = hc.Histogram(buckets)
    for trust in (CENTRAL, LOCAL):
        best = min(
            hc.protocol(name, task, hc.Budget(epsilon), hc.Crowd(90)).standard_error()
            for name in hc.protocol_names(task, trust)
        )
        bound = value(f"{trust}.histogram.pure-lower", task, epsilon, 0.0, 90)
        assert bound <= best * ROUNDING
        assert bound >= value(f"{trust}.histogram.lower", task, epsilon, 0.0, 90) / ROUNDING
        if epsilon < 1 and (trust is LOCAL or buckets > 100):  # and it is near
            assert best <= bound * (1.2 if trust is LOCAL else 1.5)


def test_a_shuffled_crowd_of_one_honest_person_is_local() -> None:
    for task, delta in itertools.product((COUNT, REALS, MEAN, COLORS), (0.0, 1e-5)):
        shuffled = value(f"shuffle.{task.name}.lower", task, 0.7, delta, 50, 1)
        assert shuffled == pytest.approx(value(f"local.{task.name}.lower", task, 0.7, delta, 50))
    both = [value(f"{t}.histogram.pure-lower", COLORS, 0.7, 0.0, 50, 1) for t in (SHUFFLE, LOCAL)]
    assert both[0] == pytest.approx(both[1])
    # If everybody is honest, the bound for a curator holds.
    assert value("shuffle.count.lower", COUNT, 0.7, 1e-5, 50) == pytest.approx(
        value("central.count.lower", COUNT, 0.7, 1e-5, 50)
    )
    # 50 people make 4 crowds of 12; with so large a δ it matters how many can be replaced.
    few, many = (value("central.count.lower", COUNT, 0.02, 0.01, people) for people in (12, 50))
    assert value("shuffle.count.lower", COUNT, 0.02, 0.01, 50, 12) == pytest.approx(2 * few)
    assert many > 1.1 * few


@pytest.mark.parametrize(("epsilon", "delta"), [(0.02, 0.01), (0.3, 0.1), (1e-4, 1e-3), (2, 0.0)])
def test_the_best_number_of_replaced_people_is_found(epsilon: float, delta: float) -> None:
    people = 300
    unbiased, biased = [], []
    for t in range(1, people + 1):
        grown = delta * sum(math.exp(k * epsilon) for k in range(t))  # the δ of t steps in turn
        if grown < 1:
            told = grown + (1 - grown) * math.tanh(t * epsilon / 2) ** 2
            unbiased.append(t / 2 * math.sqrt(1 / told - 1))
            biased.append(t / 2 * math.sqrt(1 - told))
    found = table(COUNT, epsilon, delta, people)
    for name, best in (("lower", max(unbiased)), ("any-lower", max(biased))):
        assert 0.999 * best < found[f"central.count.{name}"].value < best * ROUNDING


def test_lower_bounds_are_near_the_best_protocols() -> None:
    def best(task: hc.Task, trust: hc.Trust, epsilon: float, delta: float, users: int) -> float:
        fitting = errors(task, epsilon, delta, users, users)
        return min(p.error for p in fitting if p.trust == trust and not p.adds)

    for epsilon in (0.1, 0.5, 1.0):
        for task in (COUNT, REALS, WHOLE, MEAN):
            name = task.name
            central = best(task, CENTRAL, epsilon, 0.0, 3000)
            assert central < 1.49 * value(f"central.{name}.lower", task, epsilon, 0.0, 3000)
            assert central < 2.19 * value(f"central.{name}.any-lower", task, epsilon, 0.0, 3000)
            assert central < 1.03 * value(
                f"central.{name}.additive-lower", task, epsilon, 0.0, 3000
            )
            local = best(task, LOCAL, epsilon, 0.0, 3000)
            assert local < 1.09 * value(f"local.{name}.lower", task, epsilon, 0.0, 3000)
        # Randomized response attains it, and nothing biased is much better in a large crowd.
        exact = hc.protocol(
            "local.randomized-response", COUNT, hc.Budget(epsilon), hc.Crowd(10**6)
        ).standard_error()
        assert exact == pytest.approx(value("local.count.lower", COUNT, epsilon, 0.0, 10**6))
        assert exact < 1.01 * value("local.count.any-lower", COUNT, epsilon, 0.0, 10**6)
        assert exact > value("local.count.any-lower", COUNT, epsilon, 0.0, 10**6)
        geometric = hc.protocol("central.geometric", COUNT, hc.Budget(epsilon), hc.Crowd(10))
        assert geometric.standard_error() == pytest.approx(
            value("central.count.additive-lower", COUNT, epsilon, 0.0, 10)
        )
    assert best(COUNT, SHUFFLE, 1.0, 1e-6, 3000) < 1.5 * value(
        "shuffle.count.lower", COUNT, 1.0, 1e-6, 3000
    )
    assert best(COLORS, SHUFFLE, 1.0, 1e-6, 3000) < 3.2 * value(
        "shuffle.histogram.lower", COLORS, 1.0, 1e-6, 3000
    )


def test_rates_are_the_order_of_protocols() -> None:
    for users, honest in ((10_000, 10_000), (10_000, 2500)):
        rates = {
            "shuffle.count.rate": ("shuffle.correlated", COUNT),
            "shuffle.count.one-message-rate": ("shuffle.randomized-response", COUNT),
            "shuffle.sum.one-message-rate": ("shuffle.fixed-point-sum", REALS),
            "local.count.rate": ("local.randomized-response", COUNT),
            "local.histogram.rate": ("local.unary-symmetric", COLORS),
            "central.histogram.rate": ("central.geometric", COLORS),
        }
        for name, (protocol, task) in rates.items():
            p = hc.protocol(protocol, task, hc.Budget(1, 1e-6), hc.Crowd(users, honest))
            ratio = p.standard_error() / value(name, task, 1.0, 1e-6, users, honest)
            assert 0.9 < ratio < 3.1, (name, ratio)


def test_tight_rates_are_within_a_factor_of_proven_bounds() -> None:
    for epsilon in (0.05, 0.3, 1.0):
        for task, trust in itertools.product((COUNT, REALS, MEAN, COLORS), hc.Trust):
            for delta in (1e-9, epsilon**2 / 4 if trust is LOCAL else epsilon / 4):
                found = table(task, epsilon, delta, 10**6)
                rate = found[f"{trust}.{task.name}.rate"]
                assert rate.tight
                lower = found[f"{trust}.{task.name}.any-lower"].value
                assert lower < rate.value < 3.1 * lower


# How they grow --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "task", "delta", "power"),
    [
        ("central.count.lower", COUNT, 1e-9, 0),
        ("central.count.additive-lower", COUNT, 0.0, 0),
        ("central.count.rate", COUNT, 0.0, 0),
        ("central.mean.rate", MEAN, 0.0, -1),
        ("central.mean.lower", MEAN, 0.0, -1),
        ("central.mean.additive-lower", MEAN, 0.0, -1),
        ("local.count.lower", COUNT, 1e-9, 1 / 2),
        ("local.sum.rate", REALS, 0.0, 1 / 2),
        ("local.mean.lower", MEAN, 0.0, -1 / 2),
        ("local.mean.rate", MEAN, 0.0, -1 / 2),
        ("local.histogram.pure-lower", COLORS, 0.0, 1 / 2),
        ("local.histogram.largest-rate", COLORS, 0.0, 1 / 2),
        ("shuffle.count.one-message-lower", COUNT, 0.0, 1 / 2),
        ("shuffle.count.rate", COUNT, 1e-9, 0),
        ("shuffle.count.one-message-rate", COUNT, 1e-9, 0),
        ("shuffle.sum.one-message-rate", REALS, 1e-9, 1 / 6),
        ("shuffle.mean.one-message-rate", MEAN, 1e-9, 1 / 6 - 1),
        ("shuffle.histogram.largest-rate", COLORS, 1e-9, 0),
        ("shuffle.histogram.one-message-largest-rate", hc.Histogram(10**4), 1e-9, 1 / 4),
        ("central.density.rate", DENSITY, 0.0, -1.5 / 4),
        ("shuffle.density.rate", DENSITY, 1e-9, -1.5 / 4),
        ("local.density.rate", DENSITY, 0.0, -1.5 / 5),
    ],
)
def test_powers_of_the_crowd(name: str, task: hc.Task, delta: float, power: float) -> None:
    few, many = (value(name, task, 1.0, delta, users) for users in (10_000, 160_000))
    assert many / few == pytest.approx(16**power)


@pytest.mark.parametrize(
    ("name", "task", "power"),
    [
        ("central.count.rate", COUNT, -1),
        ("shuffle.count.rate", COUNT, -1),
        ("local.count.rate", COUNT, -1),
        ("shuffle.count.one-message-rate", COUNT, -1),
        ("shuffle.sum.one-message-rate", REALS, -2 / 3),
        ("shuffle.histogram.largest-rate", COLORS, -2),
        ("central.histogram.largest-rate", COLORS, -1),
        ("local.density.rate", DENSITY, -2 * 1.5 / 5),
        ("central.density.rate", DENSITY, 0),
    ],
)
def test_powers_of_epsilon(name: str, task: hc.Task, power: float) -> None:
    less, more = (value(name, task, epsilon, 1e-7, 10**6) for epsilon in (0.25, 0.5))
    assert more / less == pytest.approx(2**power)


@pytest.mark.parametrize(
    ("name", "task", "power"),
    [
        ("shuffle.count.rate", COUNT, 1 / 2),
        ("shuffle.count.lower", COUNT, 1 / 2),
        ("shuffle.count.one-message-rate", COUNT, 1 / 2),
        ("shuffle.sum.one-message-rate", REALS, 1 / 3),
        ("shuffle.histogram.largest-rate", COLORS, 1),
        ("shuffle.density.rate", DENSITY, 0),
        ("central.count.rate", COUNT, 0),
        ("central.count.lower", COUNT, 0),
        ("local.count.lower", COUNT, 0),
        ("local.count.rate", COUNT, 0),
    ],
)
def test_powers_of_dishonesty(name: str, task: hc.Task, power: float) -> None:
    """If only a quarter of the people are honest, their shuffled noise must be enough."""
    everyone, quarter = (value(name, task, 1.0, 1e-7, 10_000, h) for h in (10_000, 2500))
    assert quarter / everyone == pytest.approx(4**power)


def test_logarithms() -> None:
    def ratio(name: str, task: hc.Task, deltas: tuple[float, float]) -> float:
        low, high = (value(name, task, 1.0, delta, 10_000) for delta in deltas)
        return high / low

    deltas = (1e-5, 1e-10)
    assert ratio("shuffle.count.one-message-rate", COUNT, deltas) == pytest.approx(math.sqrt(2))
    assert ratio("shuffle.sum.one-message-rate", REALS, deltas) == pytest.approx(2 ** (1 / 3))
    assert ratio("shuffle.histogram.largest-rate", COLORS, deltas) == pytest.approx(2)
    assert ratio("central.histogram.largest-rate", COLORS, deltas) == pytest.approx(1)
    large = hc.Histogram(10**6)
    assert ratio("central.histogram.largest-rate", large, deltas) == pytest.approx(1.2)
    assert value("central.histogram.largest-rate", large, 1, 0.0, 99) == pytest.approx(
        6 * math.log(10)
    )
    few, many = (
        value("local.histogram.largest-rate", hc.Histogram(d), 1, 0.0, 10**4) for d in (10, 10**4)
    )
    assert few == pytest.approx(100 * math.sqrt(math.log(10)))
    assert many == pytest.approx(2 * few)
    for trust in hc.Trust:  # independent of the number of buckets
        same = [
            value(f"{trust}.histogram.rate", hc.Histogram(d), 1, 1e-6, 10**4) for d in (10, 10**4)
        ]
        assert same[0] == same[1]


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_sums_and_means_are_scaled_counts(delta: float) -> None:
    unit = table(hc.Sum(0, 1), 0.9, delta, 500)
    wide = table(hc.Sum(-1, 3), 0.9, delta, 500)
    means = table(hc.Mean(-1, 3), 0.9, delta, 500)
    for name, bound in unit.items():
        assert wide[name].value == pytest.approx(4 * bound.value)
        mean = means[name.replace(".sum.", ".mean.")]
        assert mean.value == pytest.approx(4 * bound.value / 500)
        assert wide[name].formula == f"(high − low) · {mean.formula.split(' · ', 1)[1]}"
    counts = table(COUNT, 0.9, delta, 500)
    for name in ("central.count.lower", "shuffle.count.any-lower", "local.count.any-lower"):
        assert counts[name].value == unit[name.replace("count", "sum")].value
    assert value("local.density.rate", hc.Density(0, 9), 1, 0.0, 10**4) == pytest.approx(0.1 / 3)


# Figures by other means -----------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 4.0, 40.0])
def test_closed_forms_in_fifty_digits(epsilon: float) -> None:
    with mp.workdps(50):
        e = mp.mpf(epsilon)
        b = mp.exp(-e)
        response = 1 / (2 * mp.sinh(e / 2))
        assert value("central.count.lower", COUNT, epsilon, 0.0, 77) == pytest.approx(
            float(response), rel=1e-12
        )
        assert value("local.count.lower", COUNT, epsilon, 0.0, 77) == pytest.approx(
            float(mp.sqrt(77) * response), rel=1e-12
        )
        tails = 2 * b / (1 - b) ** 2
        assert value("central.count.additive-lower", COUNT, epsilon, 0.0, 77) == pytest.approx(
            float(mp.sqrt(tails)), rel=1e-12
        )

        def cubes(shift: Any) -> Any:
            """Σ b^k·(k + shift)³."""
            powers = (1, b, b * (1 + b), b * (1 + 4 * b + b**2))
            sums = [top / (1 - b) ** (m + 1) for m, top in enumerate(powers)]
            return sum(math.comb(3, m) * sums[m] * shift ** (3 - m) for m in range(4))

        def staircase(width: Any) -> Any:
            """The variance of the law with steps at k + width, for k = 0, 1, …"""
            height = (1 - b) / (2 * (width + (1 - width) * b))
            start, turn, end = cubes(0), cubes(width), cubes(1)
            return 2 * height / 3 * (turn - start + b * (end - turn))

        low, high = mp.mpf(0), mp.mpf(1)
        for _ in range(60):
            left, right = low + (high - low) / 3, high - (high - low) / 3
            low, high = (low, right) if staircase(left) < staircase(right) else (left, high)
        assert value("central.sum.additive-lower", hc.Sum(0, 1), epsilon, 0.0, 5) == pytest.approx(
            float(mp.sqrt(staircase(low))), rel=1e-12
        )


def best_added(epsilon: float, span: int) -> float:
    """The least variance of whole-number noise with geometric tails, by linear programming."""
    b, half = math.exp(-epsilon), 6 * span
    cells = np.arange(-half, half + 1)
    mass, square = np.ones(len(cells)), cells.astype(float) ** 2
    for at, cell in enumerate(cells):
        if abs(cell) > half - span:  # and what follows it at distances of k·span
            k = np.arange(4000)
            mass[at] = (b**k).sum()
            square[at] = (b**k * (abs(cell) + k * span) ** 2).sum()
    # In units of the geometric law, or the solver would take the tails for 0.
    units = b ** (np.abs(cells) / span)
    rows = []
    for one, other in itertools.permutations(range(len(cells)), 2):
        if abs(one - other) <= span:
            row = np.zeros(len(cells))
            row[one], row[other] = units[one], -units[other] / b
            rows.append(row / np.abs(row).max())
    found = linprog(
        square * units, np.array(rows), np.zeros(len(rows)), A_eq=[mass * units], b_eq=[1]
    )
    assert found.success
    return float(found.fun)


@pytest.mark.parametrize(("epsilon", "span"), [(0.5, 1), (2.0, 1), (1.0, 3), (4.0, 4), (7.0, 5)])
def test_least_noise_by_linear_programming(epsilon: float, span: int) -> None:
    task = hc.Sum(0, span, whole=True)
    found = value("central.sum.additive-lower", task, epsilon, 0.0, 10)
    assert found**2 == pytest.approx(best_added(epsilon, span), rel=1e-6)


def test_fine_whole_numbers_are_real_ones() -> None:
    for epsilon in (0.1, 2.0, 9.0):
        real = value("central.sum.additive-lower", hc.Sum(0, 1), epsilon, 0.0, 10)
        for span in (10**5, 2**61):
            task = hc.Sum(0, span, whole=True)
            whole = value("central.sum.additive-lower", task, epsilon, 0.0, 10)
            assert whole / span == pytest.approx(real, rel=1e-4)


def best_central(epsilon: float, delta: float, users: int, unbiased: bool) -> float:
    """The least worst-case variance of any answers on a grid, by linear programming.

    The variables are the laws of the answers for 0, …, n, their excesses over e^ε times a
    neighbor's law, and the worst variance.
    """
    reach = 4.0 if unbiased else 0.0
    grid = np.arange(-reach, users + reach + 1e-9, 0.125)
    cells, states = len(grid), users + 1
    pairs = [(k, j) for k in range(states) for j in (k - 1, k + 1) if 0 <= j < states]
    size = states * cells + len(pairs) * cells + 1
    upper: list[NDArray[np.float64]] = []
    limits: list[float] = []
    for at, (k, j) in enumerate(pairs):
        excess = (states + at) * cells
        for y in range(cells):
            row = np.zeros(size)
            row[k * cells + y], row[j * cells + y], row[excess + y] = 1, -math.exp(epsilon), -1
            upper.append(row)
            limits.append(0.0)
        row = np.zeros(size)
        row[excess : excess + cells] = 1
        upper.append(row)
        limits.append(delta)
    equal, totals = [], []
    for k in range(states):
        row = np.zeros(size)
        row[k * cells : (k + 1) * cells] = (grid - k) ** 2
        row[-1] = -1
        upper.append(row)
        limits.append(0.0)
        for weight, total in ((np.ones(cells), 1.0), (grid, float(k)))[: 1 + unbiased]:
            row = np.zeros(size)
            row[k * cells : (k + 1) * cells] = weight
            equal.append(row)
            totals.append(total)
    cost = np.zeros(size)
    cost[-1] = 1
    found = linprog(cost, np.array(upper), limits, np.array(equal), totals)
    assert found.success
    return math.sqrt(found.fun)


@pytest.mark.parametrize("unbiased", [True, False])
@pytest.mark.parametrize(
    ("epsilon", "delta", "users"),
    [(1.0, 0.0, 1), (1.0, 0.1, 1), (1.5, 0.0, 2), (1.5, 0.05, 3), (0.8, 0.0, 4), (0.3, 0.2, 3)],
)
def test_no_small_curator_is_below(
    epsilon: float, delta: float, users: int, unbiased: bool
) -> None:
    name = "central.count.lower" if unbiased else "central.count.any-lower"
    bound = value(name, COUNT, epsilon, delta, users)
    best = best_central(epsilon, delta, users, unbiased)
    assert bound <= best * ROUNDING
    assert best <= bound * (1.02 if users == 1 else 1.7)


def random_channel(
    rng: np.random.Generator, inputs: int, outputs: int, epsilon: float
) -> NDArray[np.float64]:
    """Random laws of a message, by input. Some are extreme, and ratios are at most e^ε."""
    shape = rng.random((inputs, outputs))
    if rng.random() < 0.5:
        shape = np.round(shape)
    channel = np.exp(epsilon / 2 * shape) * rng.random(outputs)
    total = channel.sum(axis=1, keepdims=True)
    if np.ptp(total):  # rows to one: a last output takes what is missing, within the same ratio
        top = total.max() + (total.max() - total.min()) / math.expm1(epsilon / 2)
        channel = np.hstack([channel, top - total])
        total = channel.sum(axis=1, keepdims=True)
    channel = channel / total
    assert (channel.max(axis=0) <= math.exp(epsilon) * channel.min(axis=0) * ROUNDING).all()
    return np.asarray(channel)


def response(epsilon: float, delta: float = 0.0) -> NDArray[np.float64]:
    """The truth with probability δ, and otherwise randomized response."""
    p = 1 / (1 + math.exp(-epsilon))
    kept = (1 - delta) * np.array([[p, 1 - p], [1 - p, p]])
    return np.hstack([kept, delta * np.eye(2)]) if delta else kept


def least_unbiased(channel: NDArray[np.float64], users: int) -> float:
    """The least mean variance over all data, for unbiased counts from everybody's messages."""
    crowds = list(itertools.product((0, 1), repeat=users))
    law: NDArray[Any] = channel
    for _ in range(users - 1):
        law = np.kron(law, channel)
    mean = law.mean(axis=0)
    truth = np.array([sum(crowd) for crowd in crowds], dtype=float)
    kernel = (law / mean) @ law.T / len(crowds)
    second = truth @ np.linalg.pinv(kernel, rcond=1e-12) @ truth / len(crowds) ** 2 * len(crowds)
    return float(second - (truth**2).mean())


@pytest.mark.parametrize("users", [1, 2, 3])
@pytest.mark.parametrize("epsilon", [0.4, 1.0, 2.5])
def test_no_small_local_protocol_is_below(users: int, epsilon: float) -> None:
    bound = value("local.count.lower", COUNT, epsilon, 0.0, users)
    assert least_unbiased(response(epsilon), users) == pytest.approx(bound**2)
    rng = np.random.default_rng(users)
    for outputs in (2, 3, 4):
        for _ in range(5):
            channel = random_channel(rng, 2, outputs, epsilon)
            if np.ptp(channel, axis=0).max() > 0.01:  # else it tells nothing
                assert least_unbiased(channel, users) >= bound**2 / ROUNDING
    # With δ > 0, sometimes telling the truth is best, and is below the pure bound.
    mixed = value("local.count.lower", COUNT, epsilon, 0.1, users)
    assert least_unbiased(response(epsilon, 0.1), users) == pytest.approx(mixed**2)
    assert mixed < bound


@pytest.mark.parametrize(
    ("epsilon", "delta", "users"),
    [(0.5, 0.0, 1), (0.5, 0.0, 4), (1.0, 0.0, 8), (2.0, 0.0, 20), (0.5, 0.1, 3), (3.0, 0.1, 5)],
)
def test_no_biased_local_count_is_below(epsilon: float, delta: float, users: int) -> None:
    """The bound is compared with the best answers, which are found by descent."""
    channel = response(epsilon, delta)
    outcomes = [
        kinds
        for kinds in itertools.product(range(users + 1), repeat=channel.shape[1])
        if sum(kinds) == users
    ]
    laws = np.zeros((users + 1, len(outcomes)))
    index = {kinds: at for at, kinds in enumerate(outcomes)}
    for yes in range(users + 1):
        law: dict[tuple[int, ...], float] = {(0,) * channel.shape[1]: 1.0}
        for person in range(users):
            row = channel[int(person < yes)]
            after: dict[tuple[int, ...], float] = {}
            for kinds, chance in law.items():
                for z, p in enumerate(row):
                    key = (*kinds[:z], kinds[z] + 1, *kinds[z + 1 :])
                    after[key] = after.get(key, 0.0) + chance * p
            law = after
        for kinds, chance in law.items():
            laws[yes, index[kinds]] = chance

    def risks(answers: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray((laws * (answers - np.arange(users + 1)[:, None]) ** 2).sum(axis=1))

    # The best answers for a prior. The worst prior decides.
    def bayes(weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        prior = np.exp(weights - weights.max())
        prior /= prior.sum()
        joint = prior[:, None] * laws
        answers = (np.arange(users + 1)[:, None] * joint).sum(axis=0) / joint.sum(axis=0)
        return float(prior @ risks(answers)), answers

    found = minimize(lambda w: -bayes(w)[0], np.zeros(users + 1), method="BFGS")
    least = -found.fun  # at most the least risk for the worst data, and near it
    bound = value("local.count.any-lower", COUNT, epsilon, delta, users)
    assert bound <= math.sqrt(risks(bayes(found.x)[1]).max()) * ROUNDING
    assert bound <= math.sqrt(least) * 1.0001
    assert math.sqrt(least) <= 2.5 * bound


def mean_of_buckets(channel: NDArray[np.float64]) -> float:
    """The least mean variance of unbiased indicators of all buckets, from one message."""
    buckets = len(channel)
    kernel = channel / channel.mean(axis=0) @ channel.T
    return float(np.trace(np.linalg.inv(kernel)) - 1) / buckets


@pytest.mark.parametrize("buckets", [2, 3, 5, 8])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0, 9.0])
def test_no_channel_tells_all_buckets_better(buckets: int, epsilon: float) -> None:
    task = hc.Histogram(buckets)
    bound = value("central.histogram.pure-lower", task, epsilon, 0.0, 1)
    subsets = []
    for size in range(1, buckets):
        chosen = np.array(list(itertools.combinations(range(buckets), size)))
        member = (chosen[:, None, :] == np.arange(buckets)[None, :, None]).any(axis=2).T
        law = np.exp(epsilon * member)
        subsets.append(mean_of_buckets(law / law.sum(axis=1, keepdims=True)))
    assert min(subsets) == pytest.approx(bound**2, rel=1e-6)
    rng = np.random.default_rng(buckets)
    for _ in range(10):
        channel = random_channel(rng, buckets, 2 * buckets, epsilon)
        if np.linalg.matrix_rank(channel, tol=1e-6) < buckets:
            continue  # it does not tell all buckets apart
        assert mean_of_buckets(channel) >= bound**2 / ROUNDING


# Surveys, and the page ------------------------------------------------------------------------


def test_survey() -> None:
    assert survey_worth(10_000, 0.5) == 1250
    assert survey_worth(10_000, 0.5, 10) == 250
    assert survey_worth(10_000, 1, buckets=4) == 2500
    for wrong in ({"epsilon": 1.5}, {"epsilon": 0}, {"users": 0}, {"buckets": 1}):
        with pytest.raises(hc.InvalidParameter, match=f"`{next(iter(wrong))}` must be"):
            survey_worth(**{"users": 10, "epsilon": 1.0, **wrong})  # type: ignore[arg-type]
    # For two buckets, randomized response is worth n·tanh²(ε/2): the same order.
    for epsilon in (0.01, 0.3, 1.0):
        exact = 1000 * math.tanh(epsilon / 2) ** 2
        assert 0.4 < exact / survey_worth(1000, epsilon) < 0.51


def test_page_lists_every_entry() -> None:
    page = (ROOT / "docs" / "theory.md").read_text()
    for entry in ENTRIES:
        tasks = ", ".join(entry.tasks)
        row = [tasks, f"`{entry.ending}`", entry.formula, entry.conditions, entry.source]
        assert f"| {' | '.join(row)} |" in page, row
