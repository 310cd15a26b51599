"""Surveys: the split of one budget, responses of one size, and answers about the whole crowd."""

import math
from typing import Any

import numpy as np
import pytest

import headcount as hc
from headcount.core.messages import Batch, Messages
from headcount.survey.design import Ask, Design
from headcount.survey.questions import Choice, Number, Several, YesNo
from headcount.survey.response import Response
from headcount.survey.sampled import SampledError, of_crowd, share_left_out
from headcount.survey.split import design
from headcount.survey.survey import Survey


def counts(number: int) -> list[Ask]:
    return [Ask(f"q{at}", hc.Count()) for at in range(number)]


def made(
    asks: list[Ask],
    epsilon: float,
    delta: float = 0.0,
    trust: str = "central",
    users: int = 10_000,
    **more: Any,
) -> Design:
    crowd, budget = hc.Crowd(users), hc.Budget(epsilon, delta)
    return design(asks, more.pop("tables", ()), budget, crowd, hc.Trust(trust), **more)


def sd(rate: float) -> float:
    """The standard deviation of two-sided geometric noise."""
    return 1 / (math.sqrt(2) * math.sinh(rate / 2))


# The split ---------------------------------------------------------------------------------------


def test_the_split_of_pure_noise_makes_relative_errors_equal() -> None:
    asks = [
        Ask("count", hc.Count(), protocol="central.geometric"),
        Ask("two", hc.Boxes(["a", "b"], at_most=1), protocol="central.geometric"),
        Ask("sum", hc.Sum(0, 4, whole=True), 0.5),  # half of the range 4 is a weight of 2 people
    ]
    found = made(asks, 1.0)
    errors = [found.standard_error(name) for name in ("count", "two", "sum")]
    assert errors == pytest.approx([7.06283, 7.06283, 2 * 7.06283], rel=1e-5)
    rates = [found.release("count").protocol.budget.epsilon]
    rates.append(found.release("two").protocol.budget.epsilon / 2)
    rates.append(found.release("sum").protocol.budget.epsilon / 4)
    assert rates == pytest.approx([0.199900, 0.199900, 0.100075], rel=1e-4)
    assert (found.guarantee.epsilon, found.guarantee.delta) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("number", "error"), [(2, 1.97555), (5, 3.73047), (10, 6.62697), (20, 12.4063)]
)
def test_counts_of_one_weight_go_together_in_a_cube(number: int, error: float) -> None:
    found = made(counts(number), 1.0)
    assert [len(release.ids) for release in found.releases] == [number]
    assert found.standard_error("q1") == pytest.approx(error, rel=1e-5)


@pytest.mark.parametrize(("number", "epsilon", "noise"), [(5, 2.0, 51.7544), (10, 1.0, 358.096)])
def test_fake_users_are_accounted_for_together(number: int, epsilon: float, noise: float) -> None:
    found = made(counts(number), epsilon, 1e-6, "shuffle")
    for release in found.releases:
        assert release.protocol.parameters["noise_per_bucket"] == pytest.approx(noise, rel=1e-3)
    assert found.standard_error("q0") == pytest.approx(math.sqrt(noise / 2), rel=5e-4)
    assert found.guarantee.exact
    assert 0.98e-6 <= found.guarantee.delta <= 1e-6


def test_a_few_counts_have_correlated_noise() -> None:
    found = made(counts(2), 1.0, 1e-6, "shuffle", users=1000)
    assert {one.protocol.name for one in found.releases} == {"shuffle.correlated"}
    assert found.slots == 32
    assert 2.79918 < found.standard_error("q0") < math.sqrt(75.1434 / 2)
    assert found.guarantee.epsilon <= 1.0
    assert found.bundled_guarantee.delta <= 1e-6


def test_weights_divide_the_noise_of_fake_users() -> None:
    task = hc.Histogram(5)
    found = made([Ask("a", task), Ask("b", task), Ask("c", task, 3.0)], 1.0, 1e-6, "shuffle")
    noises = [one.protocol.parameters["noise_per_bucket"] for one in found.releases]
    assert noises == pytest.approx([78.7707, 78.7707, 708.937], rel=1e-3)


@pytest.mark.parametrize(
    ("epsilon", "number", "variance"),
    [(1, 5, 5.60337), (1, 10, 11.4567), (2, 5, 1.40257), (2, 10, 3.05513), (4, 5, 0.276921)],
)
def test_local_surveys_ask_some_questions_as_one_response(
    epsilon: float, number: int, variance: float
) -> None:
    found = made(counts(number), epsilon, trust="local")
    assert found.standard_error("q0") ** 2 / 10_000 == pytest.approx(variance, rel=1e-5)
    assert found.guarantee.epsilon == pytest.approx(epsilon)


def test_local_questions_of_several_kinds_have_equal_relative_errors() -> None:
    asks = [*counts(3), Ask("kind", hc.Histogram(4)), Ask("rare", hc.Count(), 2.0)]
    found = made(asks, 1.0, trust="local", users=100_000)
    assert found.releases_each == 1
    errors = {name: found.standard_error(name) for name in ("q0", "kind", "rare")}
    assert errors["kind"] == pytest.approx(errors["q0"], rel=0.01)
    assert errors["rare"] == pytest.approx(2 * errors["q0"], rel=0.01)
    assert sum(release.share for release in found.releases) == 2**32


@pytest.mark.parametrize(("epsilon", "each"), [(1.0, 0.0337416), (2.0, 0.0639882)])
def test_waves_are_composed(epsilon: float, each: float) -> None:
    found = made(counts(1), epsilon, 1e-6, "local", waves=52)
    assert found.releases[0].protocol.budget.epsilon == pytest.approx(each, rel=1e-4)
    assert found.guarantee.epsilon <= epsilon
    assert found.guarantee.delta <= 1e-6


def test_waves_of_fake_users_are_ranked_by_the_total() -> None:
    found = made([Ask("kind", hc.Histogram(4))], 1.0, 1e-6, "shuffle", users=100_000, waves=52)
    noise = found.releases[0].protocol.parameters["noise_per_bucket"]
    assert noise == pytest.approx(1856.80, rel=2e-3)


def test_the_noise_of_the_shuffler_adds_up() -> None:
    boxes = Ask("boxes", hc.Boxes(["a", "b", "c", "d"], at_most=2))
    asks = [*counts(3), Ask("kind", hc.Histogram(4)), boxes]
    found = made(asks, 1.0, 1e-6, "shuffle", noise="shuffler")
    protocols = [release.protocol for release in found.releases]
    assert {one.name for one in protocols} == {"shuffle.noisy-shuffler"}
    assert math.fsum(one.guarantee.epsilon for one in protocols) <= 1.0
    assert math.fsum(one.guarantee.delta for one in protocols) <= found.guarantee.delta <= 1e-6
    for name in ("kind", "boxes"):
        assert found.standard_error(name) == pytest.approx(found.standard_error("q0"), rel=1e-3)
    # A person sends one message for each question, and one for each tick that is allowed.
    assert found.slots_of == (1, 1, 1, 1, 2)


def test_settings_that_cannot_be_met_are_refused() -> None:
    with pytest.raises(hc.Infeasible, match="delta above 0"):
        made(counts(2), 1.0, 0.0, "shuffle")
    median = Ask("median", hc.Median(0, 8, cells=4))
    with pytest.raises(hc.Infeasible, match="'median' in shuffle trust"):
        made([median], 1.0, 1e-6, "shuffle", noise="shuffler")
    with pytest.raises(hc.InvalidParameter, match="must be in central trust"):
        made([Ask("q", hc.Count(), protocol="local.randomized-response")], 1.0)
    with pytest.raises(hc.UnknownName, match="a question of a table must be one of"):
        made(counts(2), 1.0, tables=[("q0", "q7")])
    with pytest.raises(hc.InvalidParameter, match="one answer from a list"):
        made([*counts(1), Ask("m", hc.Mean(0, 1))], 1.0, tables=[("q0", "m")])
    with pytest.raises(hc.InvalidParameter, match="`weight` must be positive"):
        Ask("q", hc.Count(), 0.0)


# Runs --------------------------------------------------------------------------------------------


def several(trust: str, budget: hc.Budget, users: int, **more: Any) -> Survey:
    questions = [
        YesNo("yes", "Yes?"),
        Choice("kind", "Which?", ("red", "green", "blue")),
        Several("boxes", "Which ones?", ("a", "b", "c", "d"), 2),
        Number("mean", "How much?", 0, 10),
    ]
    return Survey(questions, budget, hc.Trust(trust), users, **more)


def answers(users: int) -> dict[str, Any]:
    people = np.arange(users)
    return {
        "yes": people % 10 < 3,
        "kind": [("red", "green", "blue")[at] for at in people % 3],
        "boxes": [([], ["a"], ["a", "b"], ["b", "c"])[at] for at in people % 4],
        "mean": (people % 11).astype(float),
    }


@pytest.mark.parametrize(("trust", "delta"), [("central", 0.0), ("shuffle", 1e-6), ("local", 0.0)])
def test_a_survey_answers_all_questions(trust: str, delta: float) -> None:
    users = 6600
    survey = several(trust, hc.Budget(3, delta), 3000, tables=[("yes", "kind")])
    found = survey.run(answers(users), hc.SeededSource(5)).estimates
    truths: dict[str, Any] = {
        "yes": 1980,
        "kind": [2200, 2200, 2200],
        "boxes": [3300, 3300, 1650, 0],
        "mean": 5.0,
        "yes × kind": [1540, 1540, 1540, 660, 660, 660],
    }
    assert list(found) == list(truths)
    for name, truth in truths.items():
        estimate = found[name]
        errors = np.abs(np.asarray(estimate.value) - truth)
        assert np.all(errors <= 6 * np.asarray(estimate.standard_error))
        interval = estimate.interval(1 - 1e-9)
        assert np.all(interval.low <= truth)
        assert np.all(interval.high >= truth)
        assert estimate.guarantee.epsilon <= 3
        assert estimate.guarantee.neighbors.startswith("replace all answers of one person")
        assert estimate.users == users


def test_too_few_people_and_unequal_columns_are_refused() -> None:
    survey = several("central", hc.Budget(1), 100)
    with pytest.raises(hc.CrowdMismatch, match="at least 100 people"):
        survey.run(answers(99))
    with pytest.raises(hc.InvalidValue, match="'mean'"):
        survey.run({**answers(200), "mean": [1.0] * 150})
    with pytest.raises(hc.InvalidValue, match="mean"):
        survey.run({name: one for name, one in answers(200).items() if name != "mean"})


def test_who_was_asked_is_part_of_the_error() -> None:
    """With a huge ε there is hardly any noise, and the error is that of a sample of the crowd."""
    task, rng = hc.Count(), np.random.default_rng(1)
    built = hc.protocol("local.randomized-response", task, hc.Budget(15), hc.Crowd(250))
    values = (np.arange(1000) % 5 == 0).astype(np.uint8)
    squares, covered = [], 0
    for seed in range(400):
        some = hc.run(built, rng.permutation(values)[:250], hc.SeededSource(seed))
        estimate = of_crowd(some, task, 1000)
        squares.append(((estimate.value - 200) / float(estimate.standard_error)) ** 2)
        covered += 200 in estimate.interval(0.95)
    assert float(estimate.standard_error) > 10 * float(some.standard_error)
    assert 0.7 < float(np.mean(squares)) < 1.2
    assert covered >= 370


def chance_outside(asked: int, users: int, margin: float) -> float:
    """The exact probability that shares below edges, among people drawn without replacement, differ
    from those in the crowd by more than `margin` at some edge. All people hold different values.
    """
    drawn = np.arange(asked + 1)
    chances = np.zeros(asked + 1)
    chances[0] = 1
    for below in range(1, users + 1):
        taken = chances * (asked - drawn) / (users - below + 1)
        chances = chances - taken
        chances[1:] += taken[:-1]
        chances[np.abs(drawn / asked - below / users) > margin + 1e-12] = 0
    return 1 - float(chances.sum())


def test_bands_hold_whoever_was_asked() -> None:
    class Silent:
        def band_margins(self, confidence: float) -> tuple[float, float]:
            return 0.0, 0.0

    for users in (2, 5, 24, 54, 150, 400):
        for asked in sorted({1, users // 8, users // 3, users // 2, users - 1} - {0}):
            left_out = share_left_out(asked, users)
            law = SampledError(Silent(), 1, 0, left_out, 0, 1, asked)
            for confidence in (0.6, 0.9, 0.95, 0.999):
                [margin, same] = law.band_margins(confidence)
                assert margin == same
                assert chance_outside(asked, users, float(margin)) <= (1 - confidence) / 2 + 1e-12
                if asked == users // 2 > 50:  # a smaller margin would not do
                    chance = chance_outside(asked, users, 0.9 * float(margin))
                    assert chance > (1 - confidence) / 2


def test_weighted_sums_hold_whoever_was_asked() -> None:
    """With weights 0 and 1, the number of people asked who have weight 1 is hypergeometric."""

    class Silent:
        def query_margins(self, weights: Any, confidence: float) -> tuple[float, float]:
            return 0.0, 0.0

    weights, moved = np.array([0.0, 1.0, 1.0, 0.0]), np.array([-3.0, 2.0, 2.0, -3.0])
    for users, asked in ((20, 10), (60, 12), (60, 45), (80, 40), (100, 75)):
        law = SampledError(Silent(), 1, 0, share_left_out(asked, users), 0, 1, asked)
        for confidence in (0.6, 0.9, 0.95, 0.999):
            [below, above] = law.query_margins(weights, confidence)
            assert law.query_margins(moved, confidence) == pytest.approx((5 * below, 5 * above))
            for inside in range(users + 1):
                outside = sum(
                    math.comb(inside, drawn) * math.comb(users - inside, asked - drawn)
                    for drawn in range(asked + 1)
                    if not -below <= drawn / asked - inside / users <= above
                )
                assert outside <= (1 - confidence) * math.comb(users, asked)


def test_means_and_shares_of_numbers_if_only_some_people_are_asked() -> None:
    age = Number("age", "?", low=0, high=9, whole=True, bins=(0, 5, 9), want=("mean", "shares"))
    sons = Number("sons", "?", low=0, high=9, whole=True, want=("mean", "quantiles"),
                  optional=True)  # fmt: skip
    survey = Survey((age, sons, YesNo("sick", "?")), hc.Budget(2), hc.Trust.LOCAL, 600)
    given: dict[str, list[Any]] = {
        "age": [at % 10 for at in range(600)],
        "sons": [None if at % 3 == 0 else at % 7 for at in range(600)],
        "sick": ["yes", "no"] * 300,
    }
    results = survey.run(given, hc.SeededSource(2))
    assert all(one.expected < one.users for one in results.design.releases)
    found = {(one.question.id, read.name): read for one in results.answers for read in one.readings}
    truth = {("age", "mean"): 4.5, ("age", "0 to under 5"): 0.5}
    truth["sons", "mean"] = float(np.mean([one for one in given["sons"] if one is not None]))
    for key, value in truth.items():
        assert found[key].low <= value <= found[key].high


def test_one_ledger_entry_for_the_whole_survey(tmp_path: Any) -> None:
    ledger = hc.Ledger.create(tmp_path / "spent.db")
    ledger.create_dataset("people", hc.Budget(4, 1e-5))
    survey = several("shuffle", hc.Budget(2, 1e-6), 1000)
    survey.run(answers(1000), ledger=ledger)
    entries = ledger.spending("people").entries
    assert [(one.task, one.epsilon) for one in entries] == [("survey", 2.0)]
    with pytest.raises(hc.InvalidParameter, match="secure source"):
        survey.run(answers(1000), hc.SeededSource(1), ledger)


# Responses ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("trust", "delta"), [("shuffle", 1e-6), ("local", 0.0)])
def test_responses_have_one_size_and_give_the_answers(trust: str, delta: float) -> None:
    users = 200
    survey = several(trust, hc.Budget(3, delta), users)
    found, source = survey.design, hc.SeededSource(3)
    given = survey.columns(answers(users))
    every = [
        Response.of(found, {name: given[name][[at]] for name in given}, source)
        for at in range(users)
    ]
    assert {len(one.messages) for one in every} == {found.slots}
    assert found.bundled_guarantee.delta <= delta
    messages = [message for one in every for message in one.messages]
    for number, release in enumerate(found.releases):
        own = [one.payload for one in messages if one.release == number and one.payload]
        assert len({len(payload) for payload in own}) == 1
        payload = Messages.receive(b"".join(own), release.protocol.alphabet).payload
        people = users if found.releases_each is None else len(own)
        tally = release.protocol.tally(Batch(payload, people, secure=False, bundled=True))
        estimate = release.protocol.estimate(tally)
        crowd = None if found.releases_each is None else users
        separate = release.separate(estimate, crowd)
        if "yes" in separate:
            error = float(separate["yes"].standard_error)
            assert abs(float(separate["yes"].value) - 60) < 5 * error
    if trust == "shuffle":  # dummies are spread over the whole response
        places = [
            at
            for one in every
            for at, message in enumerate(one.messages)
            if message.payload is None
        ]
        assert abs(np.mean(places) - (found.slots - 1) / 2) < found.slots / 8


def test_a_person_without_an_answer_sends_nothing() -> None:
    found = several("shuffle", hc.Budget(3, 1e-6), 200).design
    with pytest.raises(hc.InvalidValue, match="question 'kind'"):
        Response.of(found, {"yes": np.array([1])}, hc.SeededSource(1))
    central = several("central", hc.Budget(3), 200).design
    with pytest.raises(hc.InvalidParameter, match="shuffle or local"):
        Response.of(central, {"yes": np.array([1])}, hc.SeededSource(1))
