"""Histograms with independent noise, whose estimates are made to add up to n."""

import math
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

import headcount as hc

BUDGET = hc.Budget(1, 1e-6)
# Every histogram protocol with independent noise of one variance, with its options.
WAYS: list[tuple[str, dict[str, Any]]] = [
    ("central.geometric", {}),
    ("central.laplace", {}),
    ("shuffle.fake-users", {}),
    ("shuffle.correlated-histogram", {}),
    ("shuffle.noisy-shuffler", {"total": "free"}),
    ("shuffle.noisy-shuffler", {"total": "free", "publish_noise": True}),
    ("shuffle.split-and-mix", {}),
    ("shuffle.zero-exact-histogram", {}),
]


def build(name: str, buckets: int, users: int = 1000, **options: Any) -> hc.Protocol:
    budget = hc.Budget(1) if name.startswith("central") else BUDGET
    return hc.protocol(name, hc.Histogram(buckets), budget, hc.Crowd(users), **options)


def one_bucket(protocol: hc.Protocol) -> tuple[Any, Any]:
    """The values of one bucket's noise before the correction, and their probabilities.

    Noise is only needed up to a constant.
    """
    name, found = protocol.name, protocol.parameters
    if name == "shuffle.fake-users":
        values, mean = np.arange(400), found["noise_per_bucket"]
        logs = values * math.log(mean) - np.array([math.lgamma(v + 1) for v in values])
    elif name == "shuffle.zero-exact-histogram":
        users, p = protocol.crowd.users, found["p"]
        values = np.arange(users + 1)
        ways = [math.lgamma(v + 1) + math.lgamma(users - v + 1) for v in values]
        logs = values * math.log(p) + (users - values) * math.log1p(-p) - np.array(ways)
    else:
        rate = found["epsilon1"] if "epsilon1" in found else protocol.budget.epsilon / 2
        values = np.arange(-120, 121)
        logs = -rate * np.abs(values)
        if name == "shuffle.noisy-shuffler":
            logs = np.where(np.abs(values) <= found["dummies"] / 2, logs, -np.inf)
    masses = np.exp(logs - logs.max())
    return values, masses / masses.sum()


def corrected(values: Any, masses: Any, buckets: int) -> tuple[Any, Any]:
    """The law of (d−1)·Z_b − Σ Z_a, by adding one bucket after the other."""
    law = np.zeros((buckets - 1) * (values[-1] - values[0]) + 1)
    law[:: buckets - 1] = masses
    first = (buckets - 1) * values[0]
    for _ in range(buckets - 1):
        law = np.convolve(law, masses[::-1])
        first -= values[-1]
    return first + np.arange(len(law)), law


@pytest.mark.parametrize("buckets", [2, 3, 7])
@pytest.mark.parametrize(
    "name",
    [
        "central.geometric",
        "shuffle.fake-users",
        "shuffle.correlated-histogram",
        "shuffle.noisy-shuffler",
        "shuffle.zero-exact-histogram",
    ],
)
def test_error_and_intervals_are_those_of_the_law(name: str, buckets: int) -> None:
    options: dict[str, Any] = {"total": "free"} if name == "shuffle.noisy-shuffler" else {}
    protocol = build(name, buckets, **options)
    values, masses = one_bucket(protocol)
    errors, law = corrected(values, masses, buckets)
    assert float(errors @ law) == pytest.approx(0, abs=1e-8)
    deviation = math.sqrt(errors.astype(float) ** 2 @ law) / buckets
    assert protocol.standard_error() == pytest.approx(deviation, rel=1e-6)
    error = protocol.estimator.error_law(1000, np.zeros(buckets))
    for confidence in (0.5, 0.9, 0.99, 0.9999):
        half = (1 - confidence) / 2
        for margin, side in zip(error.margins(confidence), (-errors, errors), strict=True):
            most = round(margin * buckets)
            assert margin * buckets == pytest.approx(most, abs=1e-6)
            assert law[side > most].sum() <= half * (1 + 1e-6)
            assert law[side >= most].sum() > half * (1 - 1e-6)


def test_noise_in_one_secret_bucket_has_its_own_law() -> None:
    """With slots, everybody's noise is in one bucket. So buckets are not quite independent."""
    users, buckets = 60, 3
    protocol = hc.protocol(
        "shuffle.correlated-histogram",
        hc.Histogram(buckets),
        hc.Budget(2, 0.01),
        hc.Crowd(users),
        max_slots=4,
    )
    # A person adds (number of +1) − (number of −1) to each bucket, and the analyzer subtracts the
    # mean of the three. The person holds bucket 0.
    single: dict[int, float] = defaultdict(float)
    for bundle, chance in (protocol.law(0) or {}).items():
        counts = np.zeros(buckets, dtype=int)
        for code, copies in bundle:
            assert isinstance(code, int)
            counts[code // 2] += -copies if code % 2 else copies
        single[buckets * int(counts[0] - 1) - int(counts.sum() - 1)] += float(chance)
    drawn = protocol.simulate([30, 20, 10], hc.SeededSource(2))
    assert protocol.estimate(drawn).value.sum() == pytest.approx(users, abs=1e-9)
    reach = max(map(abs, single))
    person = np.array([single[value] for value in range(-reach, reach + 1)])
    law = np.ones(1)
    for _ in range(users):
        law = np.convolve(law, person)
    errors = np.arange(-reach * users, reach * users + 1)
    assert law.sum() == pytest.approx(1, abs=1e-9)
    deviation = math.sqrt(errors.astype(float) ** 2 @ law) / buckets
    assert protocol.standard_error() == pytest.approx(deviation, rel=1e-9)
    for confidence in (0.5, 0.95, 0.999):
        half = (1 - confidence) / 2
        error = protocol.estimator.error_law(users, np.zeros(buckets))
        for margin, side in zip(error.margins(confidence), (-errors, errors), strict=True):
            most = round(margin * buckets)
            assert law[side > most].sum() <= half * (1 + 1e-9)
            assert law[side >= most].sum() > half * (1 - 1e-9)


@pytest.mark.parametrize(("name", "options"), WAYS, ids=str)
def test_answers_add_up_and_err_less(name: str, options: dict[str, Any]) -> None:
    errors = {d: build(name, d, **options).standard_error() for d in (2, 5, 20)}
    for buckets, error in errors.items():
        ratio = math.sqrt((1 - 1 / buckets) / (1 - 1 / 2))
        assert error / errors[2] == pytest.approx(ratio, rel=1e-9)
    protocol, source = build(name, 5, **options), hc.SeededSource(4)
    counts = [500, 300, 150, 50, 0]
    answers = []
    for _ in range(200):
        answer = protocol.estimate(protocol.simulate(counts, source), source)
        assert answer.value.sum() == pytest.approx(1000, abs=1e-9)
        answers.append(answer.value - counts)
    # Five standard errors of a mean of 200.
    assert np.abs(np.mean(answers, axis=0)).max() < 5 * errors[5] / math.sqrt(200)
    spread = np.sqrt(np.mean(np.square(answers)))
    assert spread == pytest.approx(errors[5], rel=0.25)


def test_yes_and_no_as_two_buckets() -> None:
    protocol = build("shuffle.fake-users", 2, users=10_000)
    # μ/2 for the least μ. Bundles reserve a ten-thousandth of δ.
    assert protocol.standard_error() ** 2 == pytest.approx(21.3273, rel=2e-4)
    assert protocol.standard_error() ** 2 == pytest.approx(
        protocol.parameters["noise_per_bucket"] / 2, rel=1e-9
    )
    tally = hc.Tally(np.array([4321, 6789]), 10_000, protocol.name)
    answer = protocol.estimate(tally).value
    assert answer == pytest.approx([(4321 - 6789 + 10_000) / 2, (6789 - 4321 + 10_000) / 2])


@pytest.mark.parametrize(
    ("name", "buckets", "epsilon"),
    [
        ("central.laplace", 3, 1.0),
        ("central.laplace", 700, 1.0),
        ("central.geometric", 2**18, 1.0),
        ("central.geometric", 50, 1e-6),
        ("central.geometric", 2, 1e-6),
    ],
)
def test_margins_of_much_noise_and_many_buckets_are_safe(
    name: str, buckets: int, epsilon: float
) -> None:
    """Laplace noise has nearly the law of these cases, with a scale of 2/ε."""
    protocol = hc.protocol(name, hc.Histogram(buckets), hc.Budget(epsilon), hc.Crowd(10))
    margins = protocol.estimator.error_law(10, np.zeros(buckets)).margins(0.95)
    assert margins[0] == pytest.approx(margins[1], rel=1e-9)
    # 2^16 noises of one bucket, at regular quantiles, and a sum of others that is drawn.
    quantiles = (np.arange(2**16) + 0.5) / 2**16
    noise = np.sign(0.5 - quantiles) * np.log(1 - np.abs(2 * quantiles - 1)) * 2 / epsilon
    generator = np.random.default_rng(6)
    others = generator.gamma(buckets - 1, 2 / epsilon, 2**16)
    others -= generator.gamma(buckets - 1, 2 / epsilon, 2**16)
    errors = np.abs((1 - 1 / buckets) * noise - others / buckets)
    step = 0.5 if epsilon == 1 and name == "central.geometric" else 0.0
    beyond = np.mean(errors > margins[0] + step)
    assert beyond <= 0.05 + 5 * math.sqrt(0.05 / 2**16)
    assert beyond >= 0.035


def test_open_buckets_have_no_known_total() -> None:
    task = hc.Histogram(["a", "b"], open=True)
    protocol = hc.protocol("shuffle.hashed-histogram", task, BUDGET, hc.Crowd(1000))
    drawn = protocol.simulate([400, 300, 300], hc.SeededSource(1))
    assert protocol.estimate(drawn).value.sum() != pytest.approx(1000, abs=0.01)


def test_messages_shift_other_buckets_down() -> None:
    influence = build("shuffle.fake-users", 4).influence
    slots = influence.messages
    # All slots in one bucket, or all of them elsewhere. One more person adds 1/4 everywhere.
    assert influence.up == pytest.approx(0.75 * slots + 0.25)
    assert influence.down == pytest.approx(-0.25 * slots + 0.25)
