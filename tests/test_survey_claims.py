"""The claims of surveys: sums are rounded up, "exact" is derived, and waves are as promised.

All privacy losses are computed here, from the laws of the noise or of the messages.
"""

import itertools
import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.stats import poisson

import headcount as hc
from headcount.survey.design import Ask, Design
from headcount.survey.joint import joint
from headcount.survey.local import drawn_releases
from headcount.survey.questions import Choice, Number, Question, Scale, Several, YesNo
from headcount.survey.split import design
from headcount.survey.survey import Survey

mpmath.mp.dps = 60


def drawn(seed: int) -> list[Question]:
    """Questions of all kinds with random weights."""
    rng = np.random.default_rng(seed)
    made: list[Question] = []
    for at in range(int(rng.integers(2, 6))):
        name, weight = f"q{at}", float(rng.choice([1.0, 0.3, 2.7, 1 / 3]))
        made.append(
            [
                YesNo(name, "?", weight=weight),
                Choice(name, "?", ("a", "b", "c"), weight=weight),
                Several(name, "?", ("a", "b", "c"), weight=weight),
                Scale(name, "?", 1, 4, weight=weight),
                Number(name, "?", 0, 3, whole=True, weight=weight),
            ][int(rng.integers(5))]
        )
    return made


def budget_of(seed: int) -> float:
    """Numbers whose parts are not exact as floats."""
    return float(np.random.default_rng(seed + 1000).choice([1.0, 0.1, 0.7, math.pi, 9.1, 14.3]))


# Rounding -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_sums_of_pure_noise_never_exceed_what_is_stated(seed: int) -> None:
    budget, waves = hc.Budget(budget_of(seed)), 1 + seed % 4
    found = Survey(drawn(seed), budget, hc.Trust.CENTRAL, 100, waves=waves).design
    # Noise of every central protocol here has exactly the rate that its budget says.
    spent = waves * sum(Fraction(one.protocol.budget.epsilon) for one in found.releases)
    assert spent <= Fraction(found.guarantee.epsilon) <= Fraction(budget.epsilon)
    assert float(spent) > budget.epsilon * (1 - 1e-9)
    assert found.guarantee.delta == 0


def largest_loss(protocol: hc.Protocol) -> Any:
    """The largest ratio of probabilities of messages, as a logarithm with 60 digits."""
    task = protocol.task
    values = range(task.domain)
    if task.name == "mean":
        values = range(int(task.settings["low"]), int(task.settings["high"]) + 1)
    laws = [protocol.law(value) for value in values]
    largest = Fraction(1)
    for one, other in itertools.permutations(laws, 2):
        assert one is not None
        assert other is not None
        assert set(one) == set(other)
        largest = max(largest, *(chance / other[sent] for sent, chance in one.items()))
    return mpmath.log(mpmath.mpf(largest.numerator) / largest.denominator)


@pytest.mark.parametrize("seed", range(12))
def test_sums_of_local_losses_never_exceed_what_is_stated(seed: int) -> None:
    budget, waves = hc.Budget(budget_of(seed)), 1 + seed % 3
    found = Survey(drawn(seed), budget, hc.Trust.LOCAL, 1000, waves=waves).design
    losses = sorted((largest_loss(one.protocol) for one in found.releases), reverse=True)
    assert found.releases_each is not None
    spent = waves * mpmath.fsum(losses[: found.releases_each])
    assert found.releases_each > 1 or budget.epsilon < 9 * waves
    assert spent <= mpmath.mpf(found.guarantee.epsilon)
    assert found.guarantee.epsilon <= budget.epsilon
    assert found.guarantee.exact
    assert spent > budget.epsilon * (1 - 1e-6)


def test_a_sum_just_above_the_budget_is_not_stated_as_the_budget() -> None:
    each = hc.Budget(0.5 * (1 + 4e-13))
    parts = [hc.protocol("central.geometric", hc.Count(), each, hc.Crowd(10)) for _ in range(2)]
    promise, _ = joint(parts, hc.Budget(1.0), hc.Crowd(10), hc.Trust.CENTRAL)
    # At ε = 1, the losses 2·each have δ = p²(1 − e^(1 − 2·each)) above 0.
    assert promise.delta > 0 or Fraction(promise.epsilon) >= 2 * Fraction(each.epsilon)


def noisy_shuffler(delta: float) -> Design:
    asks = [Ask(f"q{at}", hc.Histogram(3)) for at in range(5)]
    return design(asks, (), hc.Budget(1.0, delta), hc.Crowd(1000), hc.Trust.SHUFFLE, "shuffler")


@pytest.mark.parametrize("delta", [1e-18, 3e-18])
def test_a_delta_that_cannot_be_met_is_refused(delta: float) -> None:
    with pytest.raises(hc.Infeasible, match="too small for 5 questions") as refused:
        noisy_shuffler(delta)
    nearest = refused.value.nearest["delta"]
    assert noisy_shuffler(nearest).guarantee.delta <= nearest


@pytest.mark.parametrize("delta", [1e-17, 1e-6])
def test_deltas_of_the_noise_of_the_shuffler_add_up_to_what_is_stated(delta: float) -> None:
    found = noisy_shuffler(delta)
    spent = sum(Fraction(one.protocol.guarantee.delta) for one in found.releases)
    assert spent <= Fraction(found.guarantee.delta) <= Fraction(delta)


# Exact or upper bound -------------------------------------------------------------------------


def moved(mean: float) -> tuple[Any, Any]:
    """The losses and probabilities of two buckets with Poisson noise. A person moves from one to
    the other.
    """
    seen = np.arange(math.ceil(mean + 12 * math.sqrt(mean) + 40))
    own, more = poisson.pmf(seen, mean), poisson.pmf(seen - 1, mean)
    one, other = np.multiply.outer(more, own), np.multiply.outer(own, more)
    return one.reshape(-1), other.reshape(-1)


def divergence(pairs: list[tuple[Any, Any]], epsilon: float) -> float:
    """The divergence of independent views. Losses are rounded to the nearest 1e-4."""
    width, size = 1e-4, 1 << 19
    found = []
    for one, other in pairs:
        kept = (one > 1e-16) & (other > 1e-16)
        places = np.round(np.log(one[kept] / other[kept]) / width).astype(np.int64) % size
        found.append([np.fft.rfft(np.bincount(places, m[kept], size)) for m in (one, other)])
    upper, lower = np.fft.irfft(np.prod(found, axis=0), size)
    finite = [1 - float(one[other == 0].sum()) for one, other in pairs]
    return float(np.maximum(upper - math.exp(epsilon) * lower, 0).sum()) + 1 - math.prod(finite)


def test_a_table_beside_its_questions_is_exact_since_both_answers_can_change() -> None:
    questions = [YesNo("a", "?"), Choice("b", "?", ("x", "y", "z"))]
    made = Survey(questions, hc.Budget(1.0, 1e-3), hc.Trust.SHUFFLE, 50, tables=[("a", "b")])
    means = [one.protocol.parameters["noise_per_bucket"] for one in made.design.releases]
    assert len(means) == 3
    truth = 0.0
    for a, b in itertools.product((False, True), repeat=2):  # which answers change
        changed = [mean for mean, some in zip(means, (a, b, a or b), strict=True) if some]
        if changed:
            truth = max(truth, divergence([moved(mean) for mean in changed], 1.0))
    assert made.guarantee.exact
    assert truth * (1 - 1e-6) <= made.guarantee.delta <= truth * 1.005


class Lopsided(hc.MatrixProtocol):
    """A protocol whose largest loss occurs for one pair of values alone."""

    name = "local.lopsided"
    tasks = (hc.Histogram,)

    def matrix(self) -> Any:
        return [[8, 1, 1], [1, 8, 1], [4, 1, 5]]


def test_a_table_is_an_upper_bound_if_some_answers_do_not_attain_the_curve() -> None:
    """The curve of a matrix is the largest over all pairs of values."""
    matrix = Lopsided(hc.Histogram(3), hc.Budget(3.0), hc.Crowd(10))
    table = hc.protocol("local.k-ary", hc.Table(3, 3), hc.Budget(1.0), hc.Crowd(10))
    assert matrix.guarantee.exact
    assert not matrix.curve.attained
    assert table.curve.attained
    budget = hc.Budget(9.0)
    free, _ = joint([matrix, matrix], budget, hc.Crowd(10), hc.Trust.LOCAL)
    tied, _ = joint([matrix, matrix, table], budget, hc.Crowd(10), hc.Trust.LOCAL)
    assert free.exact
    assert not tied.exact


def test_no_answer_excludes_ticks_and_makes_an_upper_bound() -> None:
    """With 3 boxes and 2 ticks, two answers differ in at most 3 boxes. The task allows 4."""
    options: dict[str, Any] = {"protocol": "central.geometric"}
    made = Survey(
        [Several("d", "?", ("u", "v", "w"), 2, optional=True, **options), YesNo("a", "?")],
        hc.Budget(1), hc.Trust.CENTRAL, 10,
    )  # fmt: skip
    answers = [(), *itertools.combinations("uvw", 1), *itertools.combinations("uvw", 2), ("none",)]
    most = max(len({*one} ^ {*other}) for one, other in itertools.combinations(answers, 2))
    assert most < made.design.release("d").protocol.task.settings["at_most"] * 2
    assert not made.guarantee.exact
    assert Survey([Several("d", "?", ("u", "v", "w"), 2)], hc.Budget(1), hc.Trust.CENTRAL, 10,
                  ).guarantee.exact  # fmt: skip


@pytest.mark.parametrize("name", ["central.exponential-quantile"])
def test_an_upper_bound_makes_the_survey_an_upper_bound(name: str) -> None:
    task = hc.Quantiles(0, 1, at=[0.5], cells=8)
    alone = hc.protocol(name, task, hc.Budget(1), hc.Crowd(10))
    count = hc.protocol("central.geometric", hc.Count(), hc.Budget(1), hc.Crowd(10))
    both, _ = joint([alone, count], hc.Budget(2), hc.Crowd(10), hc.Trust.CENTRAL)
    assert not alone.guarantee.exact
    assert not both.exact


def test_directions_are_mixed_in_what_is_claimed() -> None:
    """Zero-exact noise is withheld, and one box has noise of its own: mirror images. The largest δ
    belongs to answers that are turned in opposite ways.
    """
    users = 100_000
    budget = hc.Budget(0.6, 1e-6)
    count = hc.protocol("shuffle.zero-exact", hc.Count(), budget, hc.Crowd(users))
    box = hc.protocol("shuffle.fake-user-boxes", hc.Boxes(["a"]), budget, hc.Crowd(users))
    withheld = users * (1 - float(count.parameters["p"]))
    noise = float(box.parameters["noise_per_box"])
    assert withheld == pytest.approx(noise, rel=0.02)

    def pair(mean: float) -> tuple[Any, Any]:
        seen = np.arange(math.ceil(mean + 12 * math.sqrt(mean) + 40))
        return poisson.pmf(seen, mean), poisson.pmf(seen - 1, mean)

    up, down = pair(noise), pair(withheld)[::-1]
    same = max(divergence([up, down], 1.0), divergence([up[::-1], down[::-1]], 1.0))
    mixed = max(divergence([up, down[::-1]], 1.0), divergence([up[::-1], down], 1.0))
    _, curve = joint([count, box], hc.Budget(1.0, 1e-5), hc.Crowd(users), hc.Trust.SHUFFLE)
    assert mixed > 3 * same
    assert mixed * (1 - 1e-3) <= curve.delta(1.0) <= 1.05 * mixed


# Waves ----------------------------------------------------------------------------------------


def test_all_waves_have_the_design_that_was_promised() -> None:
    made = Survey([Choice("b", "?", ("x", "y"))], hc.Budget(1, 1e-3), hc.Trust.SHUFFLE, 30, waves=3)
    planned = made.plan().design.releases[0].protocol
    means = []
    for users in (30, 45, 80):
        found = made.run({"b": ["x"] * users}, source=hc.SeededSource(users))
        used = found.design.releases[0].protocol
        assert used == planned
        assert found["b"].users == users
        means.append(used.parameters["noise_per_bucket"])  # from 30 people; more people add more
    assert divergence([moved(mean) for mean in means], 1.0) <= made.guarantee.delta


@pytest.mark.parametrize(
    ("waves", "epsilon", "each"),
    [(52, 1.0, 0.0337416), (52, 2.0, 0.0639882), (104, 4.89715, 0.1), (365, 10.3139, 0.1)],
)
def test_the_plan_of_many_waves_of_randomized_response(
    waves: int, epsilon: float, each: float
) -> None:
    plan = Survey(
        [YesNo("a", "?")], hc.Budget(epsilon, 1e-6), hc.Trust.LOCAL, 10_000, waves=waves
    ).plan()
    lie = float(plan.design.releases[0].protocol.parameters["lie_probability"])
    rate = math.log((1 - lie) / lie)
    assert rate == pytest.approx(each, rel=5e-6)
    truth = math.fsum(
        math.comb(waves, lies) * (1 - lie) ** (waves - lies) * lie**lies
        * max(0.0, -math.expm1(epsilon - (waves - 2 * lies) * rate))
        for lies in range(waves + 1)
    )  # fmt: skip
    assert truth <= plan.guarantee.delta <= 1e-6
    assert truth == pytest.approx(1e-6, rel=1e-4)
    assert plan.guarantee.exact
    assert f"in all {waves} waves" in plan.promised


def test_the_plan_of_52_waves_of_fake_users() -> None:
    made = Survey(
        [Choice("b", "?", ("x", "y", "z"))], hc.Budget(1, 1e-6), hc.Trust.SHUFFLE, 100_000, waves=52
    )
    noise = made.plan().design.releases[0].protocol.parameters["noise_per_bucket"]
    assert noise == pytest.approx(1856.80, rel=2e-3)


# Words ----------------------------------------------------------------------------------------


def counted(found: Design) -> tuple[int, int]:
    """The fewest and the most questions that one device answers, from many drawn numbers."""
    places = np.random.default_rng(5).integers(0, 2**32, 5000, dtype=np.uint64)
    numbers = np.zeros(len(places), dtype=np.int64)
    for release, some in zip(found.releases, drawn_releases(found, places), strict=True):
        numbers += some * int(release.protocol.parameters.get("boxes_each", 1))
        # The number of messages tells nothing about values.
        assert release.protocol.randomizer.fixed_messages == 1
    return int(numbers.min()), int(numbers.max())


@pytest.mark.parametrize(
    ("epsilon", "said"),
    [(1.0, "answers 1 of the 4 questions"), (3.0, "answers 1 to 3 of the 4"), (9.0, "answers all")],
)
def test_the_plan_says_how_many_questions_a_device_answers(epsilon: float, said: str) -> None:
    questions = [*(YesNo(name, "?") for name in "abc"), Choice("d", "?", ("x", "y", "z"))]
    plan = Survey(questions, hc.Budget(epsilon), hc.Trust.LOCAL, 1000).plan()
    assert counted(plan.design) == plan.questions_each
    assert said in plan.sends


def test_the_plan_of_one_question_speaks_of_one_question() -> None:
    plan = Survey([YesNo("a", "?")], hc.Budget(1), hc.Trust.LOCAL, 1000).plan()
    said = "Each device answers the question, and randomizes the answer before it is sent."
    assert plan.sends == said
    assert "1 questions" not in str(plan)
