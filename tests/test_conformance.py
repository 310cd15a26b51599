"""What every registered protocol must keep. A new protocol is tested here by being registered."""

import dataclasses
import itertools
import math
import typing
from collections import Counter, defaultdict
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import enumeration
import headcount as hc
from enumeration import log_likelihood_ratio
from headcount.protocols.registry import protocol_class

# A test of a law with a fixed seed fails below this. A wrong law must fall far below it.
ALARM = 1e-6
COUNT = hc.Count()
# epsilon, delta, users, honest: crowds small enough to enumerate every view.
SMALL = [
    (2.0, 0.05, 5, 5),
    (1.0, 0.05, 8, 8),
    (0.5, 0.2, 6, 6),
    (1.0, 0.3, 6, 4),
    (3.0, 0.1, 7, 4),
    (8.0, 0.3, 4, 4),
]
LARGE = [(1.0, 1e-6, 100_000, 100_000), (0.5, 1e-10, 20_000, 15_000), (3.0, 1e-8, 1000, 999)]


def variants(name: str) -> list[dict[str, Any]]:
    """Every combination of the options that are choices of a word."""
    found = protocol_class(name)
    hints = typing.get_type_hints(found)
    choices = {
        field.name: typing.get_args(hints[field.name])
        for field in dataclasses.fields(found)[3:]
        if typing.get_origin(hints[field.name]) is typing.Literal
    }
    return [
        dict(zip(choices, words, strict=True)) for words in itertools.product(*choices.values())
    ]


def build(
    name: str, setting: tuple[float, float, int, int], options: dict[str, Any]
) -> hc.Protocol | None:
    epsilon, delta, users, honest = setting
    try:
        return hc.protocol(
            name, COUNT, hc.Budget(epsilon, delta), hc.Crowd(users, honest), **options
        )
    except hc.Infeasible:
        return None


def feasible(settings: list[tuple[float, float, int, int]]) -> list[Any]:
    built = [
        build(name, setting, options)
        for name in hc.protocol_names()
        for options in variants(name)
        for setting in settings
    ]
    return [
        pytest.param(
            p,
            id=f"{p.name}-{p.budget.epsilon:g}-{p.crowd.users}-{p.crowd.honest}-"
            + "-".join(str(getattr(p, field.name)) for field in dataclasses.fields(p)[3:]),
        )
        for p in built
        if p
    ]


small = pytest.mark.parametrize("protocol", feasible(SMALL))
# In central trust the noise is in the release, not in the messages: tests/test_central.py.
small_decentral = pytest.mark.parametrize(
    "protocol",
    [case for case in feasible(SMALL) if case.values[0].trust is not hc.Trust.CENTRAL],
)
large = pytest.mark.parametrize("protocol", feasible(LARGE))
every = pytest.mark.parametrize("name", hc.protocol_names())


def payload(protocol: hc.Protocol, view: enumeration.View) -> np.ndarray[Any, Any]:
    return np.array(view, dtype=protocol.alphabet.dtype)


def tally_law(protocol: hc.Protocol, ones: int, users: int) -> dict[int, Fraction]:
    """The exact law of the tally, from the declared laws of the bundles."""
    people = [protocol.law(1)] * ones + [protocol.law(0)] * (users - ones)
    out: dict[int, Fraction] = defaultdict(Fraction)
    for view, chance in enumeration.crowd_view(people).items():
        tally = protocol.tally(hc.Batch(payload(protocol, view), users))
        out[int(tally.counts[0])] += chance
    return dict(out)


def estimates(protocol: hc.Protocol, ones: int, users: int) -> list[tuple[hc.Estimate, float]]:
    """Every estimate that local or shuffle trust can give for such a crowd, with its chance."""
    return [
        (protocol.estimate(hc.Tally(np.array([tally]), users, protocol.name)), float(chance))
        for tally, chance in tally_law(protocol, ones, users).items()
    ]


@every
def test_small_crowds_are_enumerated_for_every_variant(name: str) -> None:
    for options in variants(name):
        assert any(build(name, setting, options) for setting in SMALL), options
    assert sum(build(name, setting, {}) is not None for setting in SMALL) >= 3


@small
def test_law_sums_to_one_over_its_alphabet(protocol: hc.Protocol) -> None:
    for value in range(COUNT.domain):
        law = protocol.law(value)
        assert sum(law.values()) == 1
        assert all(isinstance(chance, Fraction) and chance > 0 for chance in law.values())
        for bundle in law:
            assert list(bundle) == sorted(bundle)
            protocol.alphabet.check(payload(protocol, bundle))


@small
def test_sampler_follows_its_law_and_no_other(protocol: hc.Protocol) -> None:
    people = 200_000
    for value in range(COUNT.domain):
        source = hc.SeededSource(1000 + value)
        messages = protocol.randomize(np.full(people, value), source)
        assert messages.users == people == len(messages.counts)
        assert messages.counts.sum(dtype=np.int64) == len(messages.payload)
        observed = Counter(tuple(sorted(bundle.payload.tolist())) for bundle in messages)
        law = {bundle: float(chance) for bundle, chance in protocol.law(value).items()}
        assert log_likelihood_ratio(observed, law)[1] > ALARM
        for bundle, chance in law.items():
            # Two percent of a chance p move its count by 0.02·√(np/(1−p)) standard deviations;
            # at 7 the test must see it.
            if 0.02 * math.sqrt(people * chance / (1 - chance + 1e-9)) > 7:
                wrong = moved(law, bundle, 0.02)
                assert log_likelihood_ratio(observed, wrong)[1] < ALARM


def moved(
    law: dict[enumeration.View, float], bundle: enumeration.View, share: float
) -> dict[enumeration.View, float]:
    """A wrong law: a share of one bundle's chance given to the others, or to one never seen."""
    others = [other for other in law if other != bundle] or [(99,)]
    given = share * law[bundle] / len(others)
    wrong = {other: law.get(other, 0.0) + given for other in others}
    return {**wrong, bundle: (1 - share) * law[bundle]}


@small_decentral
def test_people_are_randomized_independently(protocol: hc.Protocol) -> None:
    """Noise shared between people would show as too many or too few equal neighbors."""
    people = 200_000
    messages = protocol.randomize(np.zeros(people, dtype=int), hc.SeededSource(5))
    bundles = [tuple(sorted(bundle.payload.tolist())) for bundle in messages]
    law = protocol.law(0)
    for gap in (1, 2, 256, 65_536):
        # Every person stands in one pair at most, so the pairs are independent of each other.
        pairs = Counter(
            (bundles[person], bundles[person + gap])
            for start in range(0, people - 2 * gap, 2 * gap)
            for person in range(start, start + gap)
        )
        expected = {(a, b): float(law[a] * law[b]) for a in law for b in law}
        assert log_likelihood_ratio(pairs, expected)[1] > ALARM


@small_decentral
def test_unbiased_value_is_unbiased(protocol: hc.Protocol) -> None:
    users = protocol.crowd.users
    for ones in range(users + 1):
        possible = estimates(protocol, ones, users)
        mean = sum(e.unbiased_value * chance for e, chance in possible)
        assert mean == pytest.approx(ones, abs=1e-9)
        for e, _ in possible:
            assert e.postprocessing or e.value == e.unbiased_value


@small_decentral
def test_stated_error_is_that_of_all_outcomes(protocol: hc.Protocol) -> None:
    users = protocol.crowd.users
    errors = []
    for ones in range(users + 1):
        possible = estimates(protocol, ones, users)
        error = math.sqrt(sum((e.value - ones) ** 2 * chance for e, chance in possible))
        assert protocol.standard_error([users - ones, ones]) == pytest.approx(error, rel=1e-9)
        spread = sum((e.unbiased_value - ones) ** 2 * chance for e, chance in possible)
        assert possible[0][0].standard_error == pytest.approx(math.sqrt(spread), rel=1e-9)
        errors.append(error)
    assert protocol.standard_error() == pytest.approx(max(errors), rel=1e-9)


@small_decentral
def test_intervals_cover(protocol: hc.Protocol) -> None:
    users = protocol.crowd.users
    for confidence in (0.5, 0.9, 0.95, 0.99, 0.999):
        for ones in range(users + 1):
            possible = estimates(protocol, ones, users)
            covered = sum(chance for e, chance in possible if ones in e.interval(confidence))
            assert covered >= confidence


@small_decentral
def test_guarantee_is_that_of_every_view(protocol: hc.Protocol) -> None:
    promised = protocol.guarantee
    assert promised.epsilon <= protocol.budget.epsilon
    assert promised.delta <= protocol.budget.delta
    assert promised.honest == protocol.crowd.honest
    truth = enumeration.worst_delta(protocol, promised.epsilon)
    # A float of epsilon is rounded; a pure promise is compared with the ratio it rounds.
    assert truth <= promised.delta + 1e-15
    assert enumeration.worst_delta(protocol, protocol.budget.epsilon) <= protocol.budget.delta
    if promised.exact:
        assert truth >= promised.delta * (1 - 1e-9)
        pure = promised.delta == 0
        assert (promised.epsilon if pure else promised.delta) >= 0.99 * (
            protocol.budget.epsilon if pure else protocol.budget.delta
        )


@small_decentral
def test_curve_is_that_of_every_view(protocol: hc.Protocol) -> None:
    for epsilon in (0.0, 0.25, 0.7, 1.3, 2.6):
        truth = enumeration.worst_delta(protocol, epsilon)
        stated = protocol.curve.delta(epsilon)
        assert truth <= stated <= truth * (1 + 1e-9) + 1e-15
        back = protocol.curve.epsilon(stated)
        assert back <= epsilon * (1 + 1e-9) + 1e-12
        assert enumeration.worst_delta(protocol, back) <= stated


@small
def test_local_epsilon_is_what_one_bundle_betrays(protocol: hc.Protocol) -> None:
    laws = [protocol.law(value) for value in range(COUNT.domain)]
    ratios = [
        math.log(one[bundle]) - math.log(other[bundle]) if bundle in other else math.inf
        for one in laws
        for other in laws
        for bundle in one
    ]
    assert protocol.local_epsilon == pytest.approx(max(ratios))


@small
def test_messages_per_user_is_the_largest_mean(protocol: hc.Protocol) -> None:
    means = [
        sum(len(bundle) * chance for bundle, chance in protocol.law(value).items())
        for value in range(COUNT.domain)
    ]
    assert protocol.messages_per_user == pytest.approx(float(max(means)))


@small
def test_simulation_and_messages_have_the_law_of_the_tally(protocol: hc.Protocol) -> None:
    users, repetitions = protocol.crowd.users, 20_000
    ones = users // 2
    law = {tally: float(chance) for tally, chance in tally_law(protocol, ones, users).items()}
    source = hc.SeededSource(77)
    simulated = Counter(
        int(protocol.simulate([users - ones, ones], source).counts[0]) for _ in range(repetitions)
    )
    assert log_likelihood_ratio(simulated, law)[1] > ALARM
    values = np.repeat([0, 1], [users - ones, ones])
    sent = Counter(
        int(protocol.tally(hc.shuffle(protocol.randomize(values, source), source)).counts[0])
        for _ in range(repetitions)
    )
    assert log_likelihood_ratio(sent, law)[1] > ALARM


@large
def test_budget_is_met_and_used_at_full_size(protocol: hc.Protocol) -> None:
    promised = protocol.guarantee
    assert promised.epsilon <= protocol.budget.epsilon
    assert promised.delta <= protocol.budget.delta
    if promised.exact and promised.delta:
        assert promised.delta >= 0.99 * protocol.budget.delta


@large
def test_parts_order_and_journey_do_not_matter(protocol: hc.Protocol) -> None:
    source = hc.SeededSource(8)
    values = np.arange(protocol.crowd.users) % 3 == 0
    messages = protocol.randomize(values, source)
    whole = protocol.tally(messages)
    shuffled = protocol.tally(hc.shuffle(messages, source))
    people = list(itertools.islice(messages, 50))
    bundles = [hc.Messages.receive(one.to_bytes(), protocol.alphabet) for one in people]
    for one, received in zip(people, bundles, strict=True):
        assert np.array_equal(one.payload, received.payload)
    start = sum(len(one.payload) for one in people)
    rest = hc.Messages(messages.payload[start:], messages.users - 50, messages.counts[50:])
    parts = [protocol.tally(part) for part in (hc.Messages.join(bundles), rest)]
    for tally in (
        shuffled,
        parts[0] + parts[1],
        protocol.tally(hc.Messages.join([*bundles, rest])),
    ):
        assert tally.users == whole.users
        assert np.array_equal(tally.counts, whole.counts)


@large
def test_estimates_are_near_the_truth(protocol: hc.Protocol) -> None:
    """200 runs of the message path and of simulation: right center, right spread."""
    users = protocol.crowd.users
    source = hc.SeededSource(4)
    counts = [users - users // 3, users // 3]
    values = np.repeat([0, 1], counts)
    error = protocol.standard_error(counts)
    runs = [hc.run(protocol, values, source).value for _ in range(200)]
    simulated = [
        protocol.estimate(protocol.simulate(counts, source), source).value for _ in range(200)
    ]
    for found in (runs, simulated):
        z = (np.array(found) - counts[1]) / error
        assert abs(z.mean()) * math.sqrt(200) < 5
        assert 0.5 < float(np.mean(z**2)) < 1.8


@every
def test_more_people_are_welcome_and_fewer_refused(name: str) -> None:
    protocol = hc.protocol(name, COUNT, hc.Budget(1, 1e-3), hc.Crowd(200))
    assert hc.run(protocol, [1] * 400).users == 400
    with pytest.raises(hc.CrowdMismatch, match="at least 200 people, got 199"):
        hc.run(protocol, [1] * 199)
    with pytest.raises(hc.CrowdMismatch):
        protocol.estimate(hc.Tally(np.array([5]), 199, name))
    with pytest.raises(hc.CrowdMismatch):
        protocol.estimate(hc.Tally(np.array([5]), 2**60, name))


@every
def test_fewer_honest_people_never_means_less_noise(name: str) -> None:
    everyone = hc.protocol(name, COUNT, hc.Budget(1, 1e-3), hc.Crowd(1000))
    some = hc.protocol(name, COUNT, hc.Budget(1, 1e-3), hc.Crowd(1000, 500))
    assert some.guarantee.honest == 500
    assert some.standard_error() >= everyone.standard_error()


@every
def test_protocols_are_values(name: str) -> None:
    protocol = hc.protocol(name, COUNT, hc.Budget(1, 1e-3), hc.Crowd(200))
    assert protocol == hc.protocol(name, COUNT, hc.Budget(1, 1e-3), hc.Crowd(200))
    assert hash(protocol) == hash(hc.protocol(name, COUNT, hc.Budget(1, 1e-3), hc.Crowd(200)))
    with pytest.raises(dataclasses.FrozenInstanceError):
        protocol.budget = hc.Budget(2)  # type: ignore[misc]
    assert protocol.name == name
    assert name.split(".", maxsplit=1)[0] == protocol.trust
    assert protocol.bits_per_message >= 1
    assert all(math.isfinite(value) for value in protocol.parameters.values())


@every
@pytest.mark.parametrize(
    "values",
    [
        [0, 1, 2],
        [0, -1],
        [0.5],
        [float("nan")],
        [float("inf")],
        ["1"],
        [None],
        [],
        [[0, 1]],
        [[0], [0, 1]],
        3,
        "101",
        [2**70],
        np.array([300], dtype=np.uint16),
        np.array([1 + 0j]),
    ],
    ids=str,
)
def test_bad_values_are_refused(name: str, values: Any) -> None:
    protocol = hc.protocol(name, COUNT, hc.Budget(1, 1e-3), hc.Crowd(200))
    with pytest.raises(hc.InvalidValue) as caught:
        protocol.randomize(values, hc.SeededSource(1))
    assert caught.value.code == "invalid-value"
    assert "must be" in caught.value.message


@every
def test_bad_messages_tallies_and_counts_are_refused(name: str) -> None:
    protocol = hc.protocol(name, COUNT, hc.Budget(1, 1e-3), hc.Crowd(200))
    for wrong in (np.array([7], np.uint8), np.array([1.0]), np.ones((2, 2), np.uint8)):
        with pytest.raises(hc.InvalidValue):
            protocol.tally(hc.Batch(wrong, 200))
    for counts in (np.array([-1]), np.array([1, 1])):
        with pytest.raises(hc.InvalidValue):
            protocol.estimate(hc.Tally(counts, 200, name))
    with pytest.raises(hc.InvalidValue, match="must be of"):
        protocol.estimate(hc.Tally(np.array([100]), 200, "another"))
    for people in ([1], [1, 2, 3], [-1, 5], [0, 0], [0.5, 1.5], "ab", None):
        with pytest.raises(hc.InvalidValue):
            protocol.simulate(typing.cast(Any, people), hc.SeededSource(1))


@every
def test_bad_options_are_refused(name: str) -> None:
    budget, crowd = hc.Budget(1, 1e-3), hc.Crowd(200)
    with pytest.raises(hc.UnknownName, match="takes the options calibration"):
        hc.protocol(name, COUNT, budget, crowd, colour="red")
    with pytest.raises(hc.InvalidParameter, match="`calibration` must be one of exact, paper"):
        hc.protocol(name, COUNT, budget, crowd, calibration="guess")
    wrong: Any = 1.0
    with pytest.raises(hc.InvalidParameter, match="`budget` must be a Budget"):
        hc.protocol(name, COUNT, wrong, crowd)
    with pytest.raises(hc.InvalidParameter, match="`crowd` must be a Crowd"):
        hc.protocol(name, COUNT, budget, wrong)
    with pytest.raises(hc.InvalidParameter, match="`task` must be a Task"):
        hc.protocol(name, wrong, budget, crowd)
