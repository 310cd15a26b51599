"""All-or-nothing dummies of many buckets, and noise that covers only a part of the crowd."""

from fractions import Fraction

import numpy as np
import pytest

import headcount as hc

NAME = "shuffle.noisy-shuffler"


@pytest.mark.parametrize("buckets", [3, 8, 16])
def test_an_outcome_without_a_partner_is_as_likely_as_stated(buckets: int) -> None:
    """One bucket has T dummies, another has none, and all others have T/2."""
    p = hc.protocol(NAME, hc.Histogram(buckets), hc.Budget(1, 0), hc.Crowd(1000))
    dummies = p.dummies  # type: ignore[attr-defined]
    weights = np.array(dummies.noise.bucket.weights, dtype=object)
    half = len(weights) // 2
    total = np.array([1], dtype=object)
    for _ in range(buckets):
        total = np.convolve(total, weights)
    chance = Fraction(
        int(weights[-1] * weights[0] * weights[half] ** (buckets - 2)),
        int(total[buckets * half]),
    )
    assert chance <= dummies.likeliest_end <= chance * Fraction(1001, 1000)
    # The largest ratio of two views is then at most e.
    kept = dummies.thrown_away(1000, 1.0)
    uniform = kept / dummies.views(1000)
    assert (1 - kept) * chance + uniform <= Fraction(2.718281828459045) * uniform


@pytest.mark.slow
@pytest.mark.parametrize(("buckets", "epsilon"), [(600, 1.0), (250, 0.1), (600, 0.1), (40, 1.0)])
def test_noise_of_too_many_buckets_is_refused(buckets: int, epsilon: float) -> None:
    """Here p was rounded to 0, and the noise was not private."""
    with pytest.raises(hc.Infeasible):
        hc.protocol(NAME, hc.Histogram(buckets), hc.Budget(epsilon, 0), hc.Crowd(1000))


def test_noise_must_cover_everybody() -> None:
    p = hc.protocol(NAME, hc.Count(), hc.Budget(1, 0), hc.Crowd(8))
    source = hc.SeededSource(1)
    noised = p.tally(hc.shuffle(p.randomize([1, 0, 1, 0], source), source, p))
    bare = p.tally(hc.shuffle(p.randomize([1, 1, 0, 0], source), source))
    with pytest.raises(hc.InvalidValue, match="for everybody, got noise for 4 of 8 people"):
        p.estimate(noised + bare)
