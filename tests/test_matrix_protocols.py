"""Protocols that are given as a matrix of probabilities."""

import math
from fractions import Fraction
from itertools import permutations
from typing import Any

import mpmath
import numpy as np
import pytest

import enumeration
import headcount as hc
import test_conformance_calls as calls
import test_conformance_estimates as estimates
import test_conformance_privacy as privacy
from headcount.protocols import registry
from headcount.protocols.outside import Outside
from headcount.randomness.draws import WHOLE
from matrices import BUDGET, CROWD, THREE, Coin, Leaking, Pairs, Response, Shy, Uneven, small


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what a test registers."""
    monkeypatch.setattr(registry, "_outside", Outside(reserved=registry._CLASSES))


MATRICES = [
    small(Response, hc.Count()),
    small(Response, THREE),
    small(Response, THREE, hc.Budget(8)),
    small(Shy, hc.Count(), hc.Budget(0.5)),
    small(Uneven, THREE),
    small(Pairs, THREE),
    small(Leaking, THREE, hc.Budget(1, 0.05)),
]
each_matrix = pytest.mark.parametrize(
    "protocol", MATRICES, ids=lambda one: f"{one.name}-{one.task.name}-{one.budget.epsilon:g}"
)


@each_matrix
@pytest.mark.parametrize(
    "check",
    [
        privacy.test_law_sums_to_one_over_its_alphabet,
        privacy.test_sampler_follows_its_law_and_no_other,
        privacy.test_people_are_randomized_independently,
        estimates.test_unbiased_value_is_unbiased,
        estimates.test_stated_error_is_that_of_all_outcomes,
        estimates.test_intervals_cover,
        privacy.test_guarantee_is_that_of_every_view,
        privacy.test_curve_is_that_of_every_view,
        privacy.test_local_epsilon_is_what_one_bundle_betrays,
        privacy.test_bundles_all_have_one_size,
        estimates.test_simulation_and_messages_have_the_law_of_the_tally,
    ],
    ids=lambda check: check.__name__,
)
def test_matrices_keep_the_contract(protocol: hc.Protocol, check: Any) -> None:
    assert enumeration.is_small(protocol)
    check(protocol)


@pytest.mark.parametrize(("kind", "task"), [(Response, hc.Count()), (Uneven, THREE)])
@pytest.mark.parametrize(
    "check",
    [
        privacy.test_budget_is_met_and_used_at_full_size,
        estimates.test_parts_order_and_journey_do_not_matter,
        estimates.test_estimates_are_near_the_truth,
    ],
    ids=lambda check: check.__name__,
)
def test_matrices_keep_the_contract_at_full_size(
    kind: type[hc.Protocol], task: hc.Task, check: Any
) -> None:
    check(kind(task, hc.Budget(1, 1e-6), hc.Crowd(20_000)))


@pytest.mark.parametrize(
    "check",
    [
        calls.test_more_people_are_welcome_and_fewer_refused,
        privacy.test_fewer_honest_people_never_means_less_noise,
        calls.test_protocols_are_values,
        calls.test_bad_messages_tallies_and_counts_are_refused,
        calls.test_bad_options_are_refused,
    ],
    ids=lambda check: check.__name__,
)
def test_matrices_refuse_what_others_refuse(check: Any) -> None:
    hc.register(Response)
    check("local.my-response", THREE)


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 1.0, 5.0, 30.0])
@pytest.mark.parametrize("task", [hc.Count(), THREE, hc.Histogram(20)], ids=str)
def test_randomized_response_as_a_matrix_is_our_own(task: hc.Task, epsilon: float) -> None:
    name = "local.randomized-response" if task.domain == 2 else "local.k-ary"
    own = hc.protocol(name, task, hc.Budget(epsilon), CROWD)
    matrix = Response(task, hc.Budget(epsilon), CROWD)
    assert matrix.guarantee.epsilon <= epsilon
    assert matrix.guarantee.epsilon == pytest.approx(own.guarantee.epsilon, rel=1e-9)
    held = [1000 - task.domain + 1] + [1] * (task.domain - 1)
    assert matrix.standard_error() == pytest.approx(own.standard_error(), rel=1e-8)
    assert matrix.standard_error(held) == pytest.approx(own.standard_error(held), rel=1e-8)
    # No float exceeds e^ε: ratios are compared with 60 digits.
    factor = mpmath.exp(mpmath.mpf(epsilon))
    for one, other in permutations(enumeration.laws_of(matrix), 2):
        assert all(
            enumeration.exactly(chance / other[message]) <= factor
            for message, chance in one.items()
        )


def test_exact_fractions_stay_as_they_are() -> None:
    own = hc.protocol("local.k-ary", THREE, BUDGET, CROWD)
    laws = enumeration.laws_of(own)

    class Copy(Response):
        def matrix(self) -> Any:
            return [[law[((y, 1),)] for y in range(3)] for law in laws]

    copied = Copy(THREE, BUDGET, CROWD)
    assert enumeration.laws_of(copied) == laws
    assert copied.guarantee == own.guarantee
    for epsilon in (0.0, 0.3, 0.9):
        assert copied.curve.delta(epsilon) == pytest.approx(own.curve.delta(epsilon), rel=1e-12)


def test_pairs_of_buckets_are_the_subset_mechanism() -> None:
    task, budget = hc.Histogram(6), hc.Budget(0.5)
    own = hc.protocol("local.subset", task, budget, CROWD)
    even = np.full(6, 1000 // 6)
    found = Pairs(task, budget, CROWD).standard_error(even)
    assert own.standard_error(even) <= found <= 1.05 * own.standard_error(even)


def test_no_other_unbiased_estimate_has_less_error_for_an_even_crowd() -> None:
    protocol = small(Shy, hc.Count())
    laws = enumeration.laws_of(protocol)
    chances = np.array([[float(law[((y, 1),)]) for y in range(3)] for law in laws])
    stated = protocol.standard_error([5, 5]) ** 2
    # A score for yes is unbiased if its mean is 0 for the first row and 1 for the second.
    plain = np.linalg.pinv(chances)[:, 1]
    free = np.linalg.svd(chances)[2][2]
    for step in np.linspace(-3, 3, 61):
        score = plain + step * free
        assert chances @ score == pytest.approx([0, 1])
        variances = chances @ score**2 - np.array([0, 1])
        assert stated <= 5 * variances.sum() + 1e-9


def test_a_leak_is_refused_or_stated() -> None:
    with pytest.raises(hc.Infeasible, match=r"does not satisfy epsilon=1, delta=0: .* is e\^inf"):
        Leaking(THREE, BUDGET, CROWD)
    with pytest.raises(hc.Infeasible):
        Leaking(THREE, hc.Budget(1, 0.0499), CROWD)
    leaking = small(Leaking, THREE, hc.Budget(1, 0.2))
    assert math.isinf(leaking.local_epsilon)
    assert leaking.guarantee.delta == pytest.approx(0.05)
    assert leaking.guarantee.exact
    hc.register(Leaking)
    with pytest.raises(hc.Infeasible):
        hc.protocol("shuffle.amplified", THREE, hc.Budget(1, 0.2), CROWD, local="local.leaking")
    audited = hc.exact_audit(leaking)
    assert not audited.refuted
    assert audited.epsilon == pytest.approx(1)


def of(matrix: Any) -> hc.Protocol:
    """A protocol of three buckets that has this matrix."""

    class Given(Response):
        def matrix(self) -> Any:
            return matrix

    return Given(THREE, hc.Budget(5), CROWD)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[1, 2], [2, 1]], "a row for each of 3 values"),
        ([[1, 2], [2, 1], [1]], "a row for each of 3 values"),
        ([[1], [1], [1]], "a row for each of 3 values"),
        ([1, 2, 3], "a row for each of 3 values"),
        (np.ones((3, 6000)) / 6000, "at most 16384 probabilities"),
        ([[1, 2], [2, 1], [2, 2]], "rows with the same positive sum"),
        ([[0, 0], [0, 0], [0, 0]], "rows with the same positive sum"),
        ([[2, -1, 1], [1, 1, 0], [0, 1, 1]], "no number below 0"),
        ([[0.5, 0.4], [0.5, 0.5], [0.2, 0.8]], "rows that sum to 1"),
        ([[Fraction(1, 3), Fraction(1, 3)]] * 3, "rows that sum to 1"),
        ([[0.5, math.nan]] * 3, "must be finite"),
        ([["a", "b"]] * 3, "must be a real number"),
    ],
)
def test_what_is_no_matrix_of_probabilities_is_refused(matrix: Any, message: str) -> None:
    with pytest.raises(hc.InvalidParameter, match=message):
        of(matrix)


@pytest.mark.parametrize(
    "matrix",
    [
        [[1, 1, 1]] * 3,
        [[2, 1], [1, 2], [1, 2]],
        [[4, 2, 2], [2, 4, 2], [3, 3, 2]],
        [[0.2, 0.8], [0.5, 0.5], [0.8, 0.2]],
    ],
)
def test_counts_that_no_message_tells_are_refused(matrix: Any) -> None:
    with pytest.raises(hc.Infeasible, match="must be linearly independent"):
        of(matrix)


def test_tiny_probabilities_are_rounded_up_and_zeros_stay() -> None:
    class Rare(Coin):
        def matrix(self) -> Any:
            rare = Fraction(1, 2**70)
            return [[1 - rare, rare, 0], [rare, 1 - rare, 0]]

    rare = Rare(hc.Count(), hc.Budget(50), CROWD)
    assert rare.law(0) == {((0, 1),): 1 - Fraction(1, WHOLE), ((1, 1),): Fraction(1, WHOLE)}
    assert rare.local_epsilon == pytest.approx(64 * math.log(2))
    assert hc.run(rare, [1] * 400 + [0] * 600).value == pytest.approx(400)


def test_a_matrix_is_amplified_like_our_own() -> None:
    hc.register(Response)
    hc.register(Coin)
    budget, crowd = hc.Budget(1, 1e-6), hc.Crowd(10_000)
    one, other = (
        hc.protocol("shuffle.amplified", THREE, budget, crowd, local=local)
        for local in ("local.my-response", "local.k-ary")
    )
    assert one.local_epsilon == pytest.approx(other.local_epsilon, rel=1e-6)
    assert one.standard_error() == pytest.approx(other.standard_error(), rel=1e-5)
    # A law that is the same for all ε is amplified unchanged, or refused.
    coin = hc.protocol(
        "shuffle.amplified", hc.Count(), hc.Budget(0.2, 1e-6), crowd, local=Coin.name
    )
    assert coin.local_epsilon == coin.parameters["local_epsilon"] == pytest.approx(math.log(3))
    assert coin.curve.epsilon(1e-6) < 0.1
    with pytest.raises(hc.Infeasible, match="10000 honest people allow a local epsilon of at most"):
        hc.protocol("shuffle.amplified", hc.Count(), hc.Budget(0.01, 1e-6), crowd, local=Coin.name)
    for users in (4, 6):
        small = hc.protocol(
            "shuffle.amplified", hc.Count(), hc.Budget(0.9, 0.3), hc.Crowd(users), local=Coin.name
        )
        privacy.test_guarantee_is_that_of_every_view(small)
        for epsilon in (0.0, 0.3, 1.0):
            assert enumeration.worst_delta(small, epsilon) <= small.curve.delta(epsilon)


def test_a_matrix_is_audited() -> None:
    hc.register(Response)
    protocol = hc.protocol("local.my-response", THREE, BUDGET, hc.Crowd(4))
    exact = hc.exact_audit(protocol)
    assert not exact.refuted
    assert exact.epsilon == pytest.approx(1)
    measured = hc.audit(protocol, runs=2000, source=hc.SeededSource(1))
    assert not measured.refuted


def test_densities_count_with_our_own_protocols_alone() -> None:
    hc.register(Response)
    task = hc.Density(0, 1)
    with pytest.raises(hc.InvalidParameter, match="`histogram` must be one of"):
        hc.protocol("local.density-histogram", task, BUDGET, CROWD, histogram="local.my-response")
