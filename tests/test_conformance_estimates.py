"""Rules for every registered protocol: estimates, their errors and intervals, and simulation.

A new protocol is tested here as soon as it is registered.
"""

import dataclasses
import itertools
import math
import typing
from collections import Counter
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, chi2

import enumeration
import headcount as hc
from conformance import (
    ALARM,
    mixed,
    numeric,
    small,
    small_decentral,
    sparing_decentral,
    sparing_large,
    sparing_small,
)
from enumeration import log_likelihood_ratio
from headcount.core.quantiles import QuantilesEstimate


def some_datasets(protocol: hc.Protocol) -> list[tuple[int, ...]]:
    """Ways in which the users can hold values. If there are few, these are all ways."""
    every_way = list(enumeration.datasets(protocol.crowd.users, len(enumeration.asked(protocol))))
    return every_way if len(every_way) <= 9 else every_way[:: len(every_way) // 3]


def values_of(protocol: hc.Protocol, holding: typing.Sequence[int]) -> np.ndarray[Any, Any]:
    return np.repeat(np.array(enumeration.asked(protocol)), holding)


@lru_cache(maxsize=512)
def tally_law(protocol: hc.Protocol, holding: tuple[int, ...]) -> dict[tuple[int, ...], float]:
    """The law of the tally, from the declared laws of the bundles.

    A tally is the sum of the tallies of single messages.
    """
    if protocol.trust is hc.Trust.LOCAL:
        every, weight = enumeration.outcomes(enumeration.tally_view(protocol, holding))
        return dict(zip(map(tuple, every.tolist()), weight.tolist(), strict=True))
    kinds = enumeration.seen_kinds(protocol, sum(holding))
    alone = np.array([protocol.estimator.count(payload_of(protocol, [kind])) for kind in kinds])
    seen, chances = enumeration.outcomes(enumeration.crowd_view(protocol, holding))
    every_tally = seen @ alone
    # One number for each tally, since numbers are quicker to sort than rows.
    scale = np.cumprod([1, *(every_tally.max(axis=0)[:-1] + 1)])
    _, first, which = np.unique(every_tally @ scale, return_index=True, return_inverse=True)
    tallies, weights = every_tally[first], np.bincount(which, weights=chances)
    some = payload_of(protocol, np.repeat(np.arange(len(kinds)), seen[-1]), kinds)
    assert np.array_equal(protocol.tally(hc.Batch(some, sum(holding))).counts, seen[-1] @ alone)
    return dict(zip(map(tuple, tallies.tolist()), weights.tolist(), strict=True))


def payload_of(
    protocol: hc.Protocol, which: typing.Sequence[Any] | np.ndarray[Any, Any], kinds: Any = None
) -> np.ndarray[Any, Any]:
    messages = which if kinds is None else [kinds[at] for at in which]
    empty = np.zeros((0, len(protocol.alphabet.columns)), dtype=protocol.alphabet.dtype)
    array = np.array(messages, dtype=protocol.alphabet.dtype) if len(messages) else empty
    return array if array.ndim == 1 or len(protocol.alphabet.columns) > 1 else array[:, 0]


@lru_cache(maxsize=512)
def estimates(protocol: hc.Protocol, holding: tuple[int, ...]) -> list[tuple[hc.Estimate, float]]:
    """Every possible estimate in local or shuffle trust for such a crowd, with its probability."""
    law = tally_law(protocol, holding)
    tallies, chances = np.array(list(law)), np.array(list(law.values()))
    if len(tallies) > 3000:
        # The value is linear in the tally, so a tally for each number determines all values.
        values = linear_values(protocol, tallies, sum(holding))
        _, first, which = np.unique(
            np.round(values, 6), axis=0, return_index=True, return_inverse=True
        )
        tallies, chances = tallies[first], np.bincount(which.ravel(), weights=chances)
    return [
        (estimate_of(protocol, tally, sum(holding)), float(chance))
        for tally, chance in zip(tallies, chances, strict=True)
    ]


def estimate_of(protocol: hc.Protocol, tally: Any, users: int) -> hc.Estimate:
    modulus = protocol.estimator.tally_modulus
    noises = int(protocol.shuffler.adds)
    counts = np.array(tally)
    return protocol.estimate(hc.Tally(counts, users, protocol.name, modulus, noises=noises))


def stated_of(estimate: hc.Estimate) -> Any:
    """The numbers whose errors are stated. For quantiles, they are the shares of people below."""
    read = isinstance(estimate, QuantilesEstimate)
    return estimate.unbiased_value if read else estimate.value


def linear_values(
    protocol: hc.Protocol, tallies: np.ndarray[Any, Any], users: int
) -> np.ndarray[Any, Any]:
    size = tallies.shape[1]
    unit = np.eye(size, dtype=np.int64)
    at_zero = np.atleast_1d(stated_of(estimate_of(protocol, 0 * unit[0], users)))
    slopes = [np.atleast_1d(stated_of(estimate_of(protocol, row, users))) - at_zero for row in unit]
    values: np.ndarray[Any, Any] = at_zero + tallies @ np.array(slopes)
    for index in range(0, len(tallies), len(tallies) // 100):
        found = stated_of(estimate_of(protocol, tallies[index], users))
        assert found == pytest.approx(values[index])
    return values


def truth_of(protocol: hc.Protocol, holding: typing.Sequence[int]) -> Any:
    return enumeration.truth_of(protocol, enumeration.held(protocol, holding))


@small
def test_answers_fill_their_range(protocol: hc.Protocol) -> None:
    """No true answer is outside the stated range. Except for a density, some are at its ends."""
    users, values = protocol.crowd.users, len(enumeration.asked(protocol))
    low, high = protocol.estimator.answer_range(users)
    truths = [truth_of(protocol, held) for held in enumeration.datasets(users, values)]
    slack = 1e-9 * max(1, abs(high))
    assert low - slack <= np.min(truths)
    assert np.max(truths) <= high + slack
    if not isinstance(protocol.task, hc.Density):
        assert (np.min(truths), np.max(truths)) == pytest.approx((low, high))


@small_decentral
def test_unbiased_value_is_unbiased(protocol: hc.Protocol) -> None:
    if protocol.shuffler.least_copies > 1:
        return  # withheld messages cause a bias, which the protocol's own tests check
    for holding in some_datasets(protocol):
        possible = estimates(protocol, holding)
        mean = sum(e.unbiased_value * chance for e, chance in possible)
        assert mean == pytest.approx(truth_of(protocol, holding), abs=1e-9)
        for e, _ in possible:
            assert e.postprocessing or np.array_equal(e.value, e.unbiased_value)


@small_decentral
def test_stated_error_is_that_of_all_outcomes(protocol: hc.Protocol) -> None:
    errors = []
    for holding in some_datasets(protocol):
        truth, possible = truth_of(protocol, holding), estimates(protocol, holding)
        error = math.sqrt(
            np.max(sum(np.square(stated_of(e) - truth) * chance for e, chance in possible))
        )
        assert protocol.standard_error(enumeration.held(protocol, holding)) == pytest.approx(
            error, rel=1e-9, abs=1e-9
        )
        errors.append(error)
        stated = [
            np.broadcast_to(np.square(e.error_law.standard_error), np.shape(truth))
            for e, _ in possible
        ]
        alike = all(np.array_equal(one, stated[0]) for one in stated)
        spread = sum(np.square(stated_of(e) - truth) * chance for e, chance in possible)
        if getattr(protocol, "analyzer", None) == "zero-exact":  # the largest possible error
            assert all(np.all(one >= spread * (1 - 1e-9)) for one in stated)
        elif alike and not protocol.shuffler.withholds:  # neither data nor shuffler matter
            if numeric(protocol.task):
                assert np.all(stated[0] >= spread * (1 - 1e-9) - 1e-20)  # that of the worst data
            else:
                assert stated[0] == pytest.approx(spread, rel=1e-9)
    check_error_at_the_truth(protocol)
    everywhere = [
        protocol.standard_error(enumeration.held(protocol, holding))
        for holding in enumeration.datasets(protocol.crowd.users, len(enumeration.asked(protocol)))
    ]
    assert protocol.standard_error() >= max(everywhere) * (1 - 1e-9)
    # For real numbers, a value that is not tried here may be slightly worse.
    near = 1.1 if numeric(protocol.task) else 1 + 1e-9
    assert protocol.standard_error() <= max(everywhere) * near


def check_error_at_the_truth(protocol: hc.Protocol) -> None:
    """An estimate that equals the truth must state at least the error for these data."""
    if isinstance(protocol.task, hc.Density) or protocol.shuffler.least_copies > 1:
        return  # the unbiased estimate is of something else: bins, or counts that are not withheld
    for holding in some_datasets(protocol):
        users, truth = sum(holding), truth_of(protocol, holding)
        known = protocol.standard_error(enumeration.held(protocol, holding))
        law = protocol.estimator.error_law(users, truth)
        stated = float(np.max(law.standard_error))
        assert stated >= known * (1 - 1e-9)


@sparing_decentral
def test_intervals_cover(protocol: hc.Protocol) -> None:
    @cache
    def interval_of(value: bytes, confidence: float) -> hc.Interval:
        return same[value].interval(confidence)

    same: dict[bytes, hc.Estimate] = {}  # crowds of different data may give the same estimate
    for holding in some_datasets(protocol):
        truth, possible = truth_of(protocol, holding), estimates(protocol, holding)
        if isinstance(protocol.task, hc.Quantiles):
            truth = protocol.task.answer(protocol.task.holding(enumeration.held(protocol, holding)))
        for confidence in (0.5, 0.95, 0.999):
            covered: Any = 0.0
            for e, chance in possible:
                value = np.asarray(e.unbiased_value).tobytes()
                same.setdefault(value, e)
                interval = interval_of(value, confidence)
                covered += chance * ((interval.low <= truth) & (truth <= interval.high))
            assert np.min(covered) >= confidence - 1e-12


@sparing_small
def test_simulation_and_messages_have_the_law_of_the_tally(protocol: hc.Protocol) -> None:
    users, repetitions = protocol.crowd.users, 3000
    different = len(enumeration.asked(protocol))
    holding = [users // different] * different
    holding[0] += users - sum(holding)
    counts = enumeration.held(protocol, holding)
    law = {
        tally: chance for tally, chance in tally_law(protocol, tuple(holding)).items() if chance > 0
    }
    source = hc.SeededSource(77)
    simulated = Counter(
        tuple(protocol.simulate(counts, source).counts.tolist()) for _ in range(repetitions)
    )
    assert log_likelihood_ratio(simulated, law)[1] > ALARM
    values = values_of(protocol, holding)
    sent = Counter(
        tuple(protocol.tally(shuffled(protocol, values, source)).counts.tolist())
        for _ in range(repetitions)
    )
    assert log_likelihood_ratio(sent, law)[1] > ALARM


def shuffled(protocol: hc.Protocol, values: np.ndarray[Any, Any], source: hc.Source) -> hc.Batch:
    return mixed(protocol, protocol.randomize(values, source), source)


@sparing_large
def test_parts_order_and_journey_do_not_matter(protocol: hc.Protocol) -> None:
    source = hc.SeededSource(8)
    held = np.array(enumeration.asked(protocol))
    # A part of the crowd. A whole crowd's rare messages would be refused.
    users = protocol.crowd.users - (protocol.shuffler.least_copies > 1)
    messages = protocol.randomize(held[np.arange(users) % len(held)], source)
    whole = protocol.tally(messages)
    permuted = protocol.tally(hc.shuffle(messages, source))
    people = list(itertools.islice(messages, 50))
    received = [hc.Messages.receive(one.to_bytes(), protocol.alphabet) for one in people]
    for one, other in zip(people, received, strict=True):
        assert np.array_equal(one.payload, other.payload)
    start = sum(len(one.payload) for one in people)
    rest = hc.Messages(messages.payload[start:], messages.users - 50, messages.counts[50:])
    parts = [protocol.tally(part) for part in (hc.Messages.join(received), rest)]
    for tally in (
        permuted,
        parts[0] + parts[1],
        protocol.tally(hc.Messages.join([*received, rest])),
    ):
        assert tally.users == whole.users
        assert np.array_equal(tally.counts, whole.counts)


# The mean square of this many normal errors lies outside these limits once in ten million times.
# Errors with heavier tails, such as geometric noise, vary more.
SPREADS = {
    runs: (float(chi2.ppf(5e-8, runs)) / runs, 1.4 * float(chi2.isf(5e-8, runs)) / runs)
    for runs in (5, 40, 200)
}


def least_spread(protocol: hc.Protocol, runs: int) -> float:
    """A lower limit like that of `SPREADS`.

    A count with a small error σ is mostly right. Two-sided geometric noise and cube noise with
    σ ≤ 0.6 differ from 0 with a probability of at least 0.65σ². The number of such errors is
    binomial, and their squares are at least 1.
    """
    whole = isinstance(protocol.task, hc.Count | hc.Boxes)
    error = float(np.max(protocol.standard_error())) if whole else math.inf
    if error > 0.6:
        return SPREADS[runs][0]
    return float(binom.ppf(5e-8, runs, 0.65 * error**2)) / (runs * error**2)


@sparing_large
def test_estimates_are_near_the_truth(protocol: hc.Protocol) -> None:
    """Estimates from messages and simulations have the right mean and spread in every bucket."""
    users, values = protocol.crowd.users, len(enumeration.asked(protocol))
    # Runs with many messages take long. Fewer runs still show a wrong mean.
    sent_each = users * protocol.messages_per_user
    runs = 200 if sent_each < 50_000 else 40 if sent_each < 500_000 else 5
    source = hc.SeededSource(4)
    holding = [users // 3 // (values - 1)] * values
    holding[0] += users - sum(holding)
    truth, counts = truth_of(protocol, holding), enumeration.held(protocol, holding)
    data = values_of(protocol, holding)
    sent = [hc.run(protocol, data, source) for _ in range(runs)]
    simulated = [protocol.estimate(protocol.simulate(counts, source), source) for _ in range(200)]
    if isinstance(protocol.task, hc.Quantiles):
        check_quantiles(protocol, [*sent, *simulated], protocol.task.holding(counts))
        return
    # For sums and means, the error for these data. Otherwise the error that each estimate states,
    # in each bucket.
    whole = isinstance(protocol.task, hc.Sum | hc.Mean)
    known = protocol.standard_error(counts) if whole else None
    if getattr(protocol, "analyzer", "") == "zero-exact":
        # Its estimates state the largest possible error, including the bias of their answers.
        options: dict[str, Any] = {"analyzer": "unbiased"}
        known = dataclasses.replace(protocol, **options).standard_error(counts)
        least = protocol.standard_error(counts) * (1 - 1e-9)
        assert all(np.max(e.standard_error) >= least for e in (*sent, *simulated))
    for found in (sent, simulated):
        z = np.array([(e.unbiased_value - truth) / (known or e.standard_error) for e in found])
        if protocol.shuffler.least_copies > 1:  # counts that are withheld have no center
            assert all(truth in e.interval(0.999999) for e in found)
            z = z[:, np.all([e.value > 0 for e in found], axis=0)]
        assert np.max(np.abs(z.mean(axis=0)), initial=0.0) * math.sqrt(len(found)) < 5
        low, high = least_spread(protocol, len(found)), SPREADS[len(found)][1]
        assert np.all((low < np.mean(z**2, axis=0)) & (np.mean(z**2, axis=0) < high))


def check_quantiles(protocol: hc.Protocol, found: list[hc.Estimate], held: Any) -> None:
    """Quantiles are biased. But the share of people below them is as near as stated."""
    squares = [np.square(protocol.estimator.errors(e.value, held)) for e in found]
    stated = protocol.estimator.standard_error(held.users, held)
    assert np.all(np.mean(squares, axis=0) < SPREADS[200][1] * stated**2)
    truth = protocol.task.answer(held)
    assert all(truth in e.interval(0.999999) for e in found)
