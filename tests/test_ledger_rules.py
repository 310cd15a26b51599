"""The rules of ledgers, judged by the worst strategy, which sees every answer and chooses what is
next.

Small mechanisms are listed outcome by outcome. The best strategy against a rule is found by dynamic
programming over all releases that the rule accepts. It shares no code with the rules.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import headcount as hc
from commands import Headcount
from headcount.accounting.dominating import DominatingLaw
from headcount.accounting.privacy_filter import divergence
from headcount.core.cached import cached_property
from headcount.core.guarantee import PrivacyCurve
from headcount.ledger.account import Charge
from headcount.ledger.rule import Rule, Terms
from ledgers import ask, exact_delta, made, responses, spend

Outcomes = tuple[tuple[float, float], ...]  # their probabilities for two neighbors


@dataclass(frozen=True)
class Listed(PrivacyCurve):
    """A mechanism given by its outcomes, and its curve in both directions."""

    outcomes: Outcomes

    @cached_property
    def directions(self) -> tuple[Outcomes, Outcomes]:
        return self.outcomes, tuple((q, p) for p, q in self.outcomes)

    def _delta(self, epsilon: float) -> float:
        return max(
            sum(max(0.0, p - math.exp(epsilon) * q) for p, q in outcomes)
            for outcomes in self.directions
        )

    def _deltas(self, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.array([self.delta(float(epsilon)) for epsilon in epsilons])

    @property
    def bends(self) -> NDArray[np.float64]:
        losses = {math.log(p / q) for p, q in self.outcomes if p and q}
        return np.array(sorted(losses | {-loss for loss in losses}))

    def charge(self, epsilon: float) -> Charge:
        return Charge(epsilon, self.delta(epsilon), DominatingLaw.of(self, at=[epsilon]), 1)


def response(epsilon: float, told: float = 0.0) -> Listed:
    """Randomized response that reveals everything with probability `told`."""
    p = (1 - told) / (1 + math.exp(-epsilon))
    return Listed(((p, 1 - told - p), (1 - told - p, p), (told, 0.0), (0.0, told)))


# Each mechanism has the epsilon that it is charged. Some reveal everything with a small
# probability, in one direction or both.
SETS: list[list[tuple[Listed, float]]] = [
    [(response(0.1), 0.1), (response(0.2), 0.2)],
    [(response(0.1), 0.1), (response(0.1, 0.004), 0.1), (response(0.4), 0.4)],
    [(Listed(((0.02, 0.0), (0.49, 0.5), (0.49, 0.5))), 0.3), (response(0.2, 0.001), 0.2)],
    [(Listed(((0.3, 0.2), (0.5, 0.5), (0.2, 0.3))), 0.4055), (response(0.3), 0.3)],
    # A rare large loss, and a certain small one.
    [(Listed(((0.02, 0.001), (0.98, 0.999))), 0.5), (response(0.2), 0.2)],
]
LIMITS = [hc.Budget(1, 0.1), hc.Budget(0.5, 0.02), hc.Budget(0.3, 0.3), hc.Budget(1.4, 0.01)]


def worst_delta(
    mechanisms: list[Listed], epsilon: float, accepts: Callable[[tuple[int, ...]], bool]
) -> float:
    """The exact δ at ε of the worst strategy. `accepts` gets the number of each kind of release."""

    @cache
    def worst(made: tuple[int, ...], loss: float) -> float:
        found = max(0.0, -math.expm1(epsilon - loss))
        for at, mechanism in enumerate(mechanisms):
            after = tuple(times + (at == other) for other, times in enumerate(made))
            if not accepts(after):
                continue
            for outcomes in mechanism.directions:
                told = sum(p for p, q in outcomes if not q)
                rest = (
                    p * worst(after, round(loss + math.log(p / q), 10))
                    for p, q in outcomes
                    if p and q
                )
                found = max(found, told + sum(rest))
        return found

    return worst((0,) * len(mechanisms), 0.0)


def by_rule(
    rule: Rule, limit: hc.Budget, kinds: list[tuple[Listed, float]]
) -> Callable[[tuple[int, ...]], bool]:
    terms, charges = Terms.of(limit, rule), [one.charge(epsilon) for one, epsilon in kinds]

    @cache
    def accepts(made: tuple[int, ...]) -> bool:
        kinds = zip(charges, made, strict=True)
        return terms.account(tuple(replace(one, times=n) for one, n in kinds if n)).fits

    return accepts


@pytest.mark.parametrize("limit", LIMITS, ids=str)
@pytest.mark.parametrize("kinds", SETS, ids=range(len(SETS)))
def test_no_strategy_exceeds_an_adaptive_limit(
    kinds: list[tuple[Listed, float]], limit: hc.Budget
) -> None:
    accepts = by_rule(Rule.ADAPTIVE, limit, kinds)
    assert worst_delta([one for one, _ in kinds], limit.epsilon, accepts) <= limit.delta


def test_a_strategy_exceeds_a_composed_limit() -> None:
    """The judge notices that the wrong rule is used."""
    kinds, limit = SETS[0], hc.Budget(0.5, 0.02)
    accepts = by_rule(Rule.COMPOSED, limit, kinds)
    assert worst_delta([one for one, _ in kinds], limit.epsilon, accepts) > 1.1 * limit.delta


@pytest.mark.slow
def test_a_curve_chosen_by_an_answer(tmp_path: Path) -> None:
    """A response, and then one of two protocols of the same budget, chosen by its answer.

    With the composed rule, both ways fit a limit that the strategy exceeds by a quarter. The
    adaptive rule refuses both. Where it accepts both, the strategy is within the limit.
    """
    first, crowd = responses(0.01), hc.Crowd(1000)
    ways = [
        hc.protocol("shuffle.correlated-histogram", hc.Histogram(2), hc.Budget(1, 1e-6), crowd),
        hc.protocol("shuffle.sample-threshold", hc.Histogram(2), hc.Budget(1, 1e-6), crowd),
    ]
    limit, wide = hc.Budget(1.005, 1.114e-6), hc.Budget(1.01, 2e-6)

    def accepted(limit: hc.Budget, rule: str) -> list[bool]:
        found = []
        for way in ways:
            ledger = hc.Ledger.create(tmp_path / f"{limit.delta}{rule}{way.name}.db")
            ledger.create_dataset("people", limit, rule=rule)
            ask(ledger, first)
            try:
                ask(ledger, way)
            except hc.BudgetExhausted:
                found.append(False)
            else:
                found.append(True)
        return found

    def strategy(epsilon: float) -> float:
        yes = 1 / (1 + math.exp(-0.01))
        after = [max(way.curve.delta(epsilon - loss) for way in ways) for loss in (0.01, -0.01)]
        return yes * after[0] + (1 - yes) * after[1]

    assert strategy(limit.epsilon) == pytest.approx(1.3907e-6, rel=1e-3)
    assert accepted(limit, "composed") == [True, True]
    assert accepted(limit, "adaptive") == [False, False]
    assert accepted(wide, "adaptive") == [True, True]
    assert strategy(wide.epsilon) <= wide.delta


@pytest.mark.parametrize("order", [1.01, 2.0, 7.5, 40.0])
@pytest.mark.parametrize("epsilon", [0.003, 0.1, 1.0])
def test_divergences_of_responses(epsilon: float, order: float) -> None:
    """From their two outcomes: hardly too large, or by a hundredth if losses are tiny."""
    p = 1 / (1 + math.exp(-epsilon))
    moment = p**order * (1 - p) ** (1 - order) + (1 - p) ** order * p ** (1 - order)
    exact = math.log(moment) / (order - 1)
    found = divergence(DominatingLaw.of(responses(epsilon).curve), epsilon, 0.0, order)
    assert exact * (1 - 1e-9) <= found
    assert found <= exact * (1 + (1e-6 if order * epsilon > 0.01 else 0.01)) + 1e-13


@pytest.mark.parametrize("kinds", SETS, ids=range(len(SETS)))
def test_divergences_of_what_is_left(kinds: list[tuple[Listed, float]]) -> None:
    """The outcomes have ratios that are cut at the level that cuts off delta in all."""
    for one, epsilon in kinds:
        delta = one.delta(epsilon)
        law = DominatingLaw.of(one, at=[epsilon])
        for outcomes in one.directions:
            low, high = -10.0, epsilon
            for _ in range(100):
                middle = (low + high) / 2
                cut = sum(max(0.0, p - math.exp(middle) * q) for p, q in outcomes)
                low, high = (middle, high) if cut > delta else (low, middle)
            for order in (1.5, 6.0):
                moment = sum(min(p / q, math.exp(high)) ** order * q for p, q in outcomes if q)
                exact = math.log(moment) / (order - 1)
                assert divergence(law, epsilon, delta, order) >= exact - 1e-12


def test_more_fits_an_adaptive_limit_than_sums(tmp_path: Path) -> None:
    """The remaining budget that is stated fits, and hardly more does."""
    ledger = hc.Ledger.create(tmp_path / "spent.db")
    ledger.create_dataset("people", hc.Budget(3, 1e-6), rule="adaptive")
    protocol = hc.protocol("shuffle.zero-exact", hc.Count(), hc.Budget(1, 1e-8), hc.Crowd(1000))
    for _ in range(7):
        ask(ledger, protocol)
    found = hc.Ledger.open(tmp_path / "spent.db").spending()
    assert (found.rule, found.releases, found.composed) == ("adaptive", 7, False)
    assert 1 < found.epsilon < 3
    assert found.epsilon < 7 * protocol.guarantee.epsilon
    assert 0 < found.delta < 1e-6
    assert found.remaining_delta == 4.3e-7
    for left, delta in (
        (found.pure_remaining, 0.0),
        (found.remaining_epsilon, found.remaining_delta),
    ):
        assert 0 < left < 3
        with pytest.raises(hc.BudgetExhausted) as refused:
            spend(ledger, left + 0.0003, delta)
        assert refused.value.remaining == {"epsilon": left, "delta": delta}
    spend(ledger, found.remaining_epsilon, found.remaining_delta)
    with pytest.raises(hc.BudgetExhausted):
        spend(ledger, 0.0, 1e-12)


def test_sums_fill_an_adaptive_limit(place: str) -> None:
    """Sums fill the limit to the last digit: all of ε, and half of δ."""
    ledger = hc.Ledger.create(place)
    ledger.create_dataset("people", hc.Budget(1, 1e-6), rule="adaptive")
    for _ in range(5):
        spend(ledger, 0.1, 1e-7)
    with pytest.raises(hc.BudgetExhausted):
        spend(ledger, 0.1, 1e-20)
    for _ in range(5):
        spend(ledger, 0.1)
    found = ledger.spending()
    assert (found.epsilon, found.delta) == (1.0, 1e-6)
    with pytest.raises(hc.BudgetExhausted):
        spend(ledger, 0.1)


def test_limits_without_delta_know_no_rules(tmp_path: Path) -> None:
    for rule in Rule:
        ledger = hc.Ledger.create(tmp_path / f"{rule}.db")
        ledger.create_dataset("people", hc.Budget(1), rule=rule)
        spend(ledger, 0.7)
        with pytest.raises(hc.BudgetExhausted):
            spend(ledger, 0.4)
        found = ledger.spending()
        assert (found.epsilon, found.delta, found.pure_remaining) == (0.7, 0.0, 0.3)
        assert "Plain sums hold even if" in str(found)


def test_unknown_rules(tmp_path: Path, headcount: Headcount) -> None:
    ledger = hc.Ledger.create(tmp_path / "spent.db")
    with pytest.raises(hc.InvalidParameter, match="`rule` must be one of composed, adaptive"):
        ledger.create_dataset("people", hc.Budget(1), rule="any")
    assert ledger.datasets == []


FIXED = (
    "The composed rule holds if the sequence of privacy curves (protocol, budget, crowd and "
    "options of each release) was fixed before the first answer."
)
FREE = (
    "The adaptive rule holds even if each release, including its privacy curve, is chosen based on "
    "earlier answers."
)


def test_rules_say_when_they_hold(headcount: Headcount) -> None:
    for rule, wanted in (("composed", FIXED), ("adaptive", FREE)):
        make = ["ledger", "create", f"{rule}.db", "--dataset", "people", "--epsilon", "3"]
        done = headcount(*make, "--delta", "1e-6", "--rule", rule)
        assert (done.status, done.err) == (0, "")
        assert done.out.splitlines()[1:] == [wanted]
        shown = headcount("ledger", "show", f"{rule}.db")
        assert wanted in " ".join(shown.out.split())
        found = headcount("ledger", "show", f"{rule}.db", "--json")
        assert f'"rule": "{rule}"' in found.out
    assert headcount(*make, "--delta", "1e-6", "--rule", "any").status == 2


def test_pairs_of_spending_are_true(tmp_path: Path) -> None:
    """Each pair of spending in JSON is true by itself, by the exact composition of responses."""
    ledger = made(tmp_path / "spent.db", 1, 1e-2)
    for _ in range(14):
        ask(ledger, responses(0.1))
    told = ledger.spending().to_dict()["spent"]
    assert [(one["epsilon"] == 1, one["delta"] == 1e-2) for one in told] == [
        (False, True), (True, False),
    ]  # fmt: skip
    for one in told:
        assert exact_delta([(0.1, 14)], one["epsilon"]) <= one["delta"]
