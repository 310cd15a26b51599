"""Counts and histograms of a population from which people were drawn: `sampling=True`.

The coverage of intervals is computed exactly, from the laws of the sample and of the noise.
"""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

import headcount as hc
from commands import Headcount

SHARES = (0.0, 0.01, 0.07, 0.3, 0.5, 0.86, 1.0)


def noise(epsilon: float, reach: int) -> NDArray[np.float64]:
    """The law of two-sided geometric noise from −reach to reach."""
    ratio = math.exp(-epsilon)
    return (1 - ratio) / (1 + ratio) * ratio ** np.abs(np.arange(-reach, reach + 1))


def test_the_interval_of_a_count_covers_the_population() -> None:
    people, epsilon, reach, wrong = 40, 0.5, 60, 0.1
    protocol = hc.protocol("central.geometric", hc.Count(), hc.Budget(epsilon), hc.Crowd(people))
    asked = hc.run(protocol, [0, 1] * 20)
    seen = np.arange(-reach, people + reach + 1)
    intervals = [
        replace(asked, value=float(value)).interval(1 - wrong, sampling=True) for value in seen
    ]
    low, high = (np.array([getattr(one, end) for one in intervals]) for end in ("low", "high"))
    law = noise(epsilon, reach)
    short = False
    for share in SHARES:
        held = binom.pmf(np.arange(people + 1), people, share)
        chance = np.convolve(held, law)
        covered = (low <= people * share + 1e-9) & (people * share - 1e-9 <= high)
        assert chance[covered].sum() >= 1 - wrong - 1e-9
        short |= chance[covered].sum() < 1 - wrong / 2
    assert short  # the intervals are not longer than necessary
    narrow = asked.interval(1 - wrong)
    wide = asked.interval(1 - wrong, sampling=True)
    assert wide.low < narrow.low
    assert wide.high > narrow.high


def test_the_interval_of_a_local_count_covers_the_population() -> None:
    people, epsilon, wrong = 60, 1.0, 0.05
    name = "local.randomized-response"
    protocol = hc.protocol(name, hc.Count(), hc.Budget(epsilon), hc.Crowd(people))
    keeps = math.exp(epsilon) / (1 + math.exp(epsilon))
    intervals = [
        protocol.estimate(hc.Tally(np.array([ones]), people, name)).interval(
            1 - wrong, sampling=True
        )
        for ones in range(people + 1)
    ]
    for share in SHARES:
        law = binom.pmf(np.arange(people + 1), people, share * keeps + (1 - share) * (1 - keeps))
        covered = [one.low <= people * share + 1e-9 and people * share - 1e-9 <= one.high
                   for one in intervals]  # fmt: skip
        assert law[covered].sum() >= 1 - wrong - 1e-9


def test_buckets_are_those_of_shares() -> None:
    protocol = hc.protocol("central.geometric", hc.Histogram(3), hc.Budget(1), hc.Crowd(300))
    found = hc.run(protocol, [0, 1, 1] * 100, source=hc.SeededSource(1))
    interval, shares = found.interval(sampling=True), hc.population_share(found)
    assert np.allclose(interval.low, shares.low * 300, rtol=0, atol=1e-9)
    assert np.allclose(interval.high, shares.high * 300, rtol=0, atol=1e-9)
    assert found.sampling_error == pytest.approx(
        np.sqrt(300 * np.clip(found.value / 300, 0, 1) * (1 - np.clip(found.value / 300, 0, 1)))
    )
    every = found.interval(sampling=True, simultaneous=True)
    assert np.all(every.low <= interval.low)
    assert np.all(every.high >= interval.high)


def test_very_many_buckets_are_quick() -> None:
    protocol = hc.protocol("central.geometric", hc.Histogram(3000), hc.Budget(1), hc.Crowd(9000))
    found = hc.run(protocol, np.arange(9000) % 3000, source=hc.SeededSource(1))
    interval = found.interval(sampling=True)
    assert np.all(interval.low <= np.clip(found.value, 0, None))
    assert np.mean((interval.low <= 3) & (interval.high >= 3)) > 0.95


def test_a_planned_margin_holds_for_the_population() -> None:
    """It does for the share with the largest sampling error, and not with fewer people."""
    margin = hc.Margin(0.05, share=True, sampling=True)
    needs = hc.needed_crowd(hc.Count(), hc.Budget(0.2), margin, trust="central")
    need = next(one for one in needs.answers if one.protocol == "central.geometric")

    def covered(people: int) -> float:
        chance = np.convolve(binom.pmf(np.arange(people + 1), people, 0.5), noise(0.2, 200))
        away = np.abs(np.arange(-200, people + 201) - people / 2)
        return float(chance[away <= 0.05 * people].sum())

    assert need.users > 385  # without privacy, 385 people are enough
    assert covered(need.users) >= 0.95
    assert covered(round(0.85 * need.users)) < 0.95
    with pytest.raises(hc.InvalidParameter, match="`sampling` must come with"):
        hc.needed_crowd(hc.Density(0, 1), hc.Budget(1), margin)


def test_commands_take_sampling(headcount: Headcount, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("v\n" + "1\n0\n" * 500)
    question = ["estimate", "people.csv", "--column", "v", "--epsilon", "1", "--sampling"]
    found = json.loads(headcount(*question, "--json").out)
    assert found["interval"]["of"] == "population"
    assert found["interval"]["high"] - found["interval"]["low"] > 60
    assert "interval for the population" in headcount(*question).out
    assert "interval for the population" in headcount(*question, "--buckets", "2").out
    plan = ["plan", "count", "--epsilon", "1", "--margin", "3%", "--sampling"]
    assert "±3 % of the population" in headcount(*plan, "--trust", "central").out
    alone = headcount("plan", "count", "--users", "9", "--epsilon", "1", "--sampling")
    assert "--sampling must come with --margin" in alone.err
