"""Shares in tables that follow from other shares, and the tail probabilities behind intervals."""

import math

import numpy as np
import pytest

import headcount as hc
from headcount.core.bucket_sums import KnownSum, independent_parts
from headcount.core.lattice import LatticeLaw


@pytest.mark.parametrize(
    ("protocol", "sampling"),
    [("central.geometric", False), ("shuffle.fake-users", True), ("local.k-ary", False)],
)
def test_shares_of_two_columns_are_those_of_each(protocol: str, sampling: bool) -> None:
    """Only the first share is searched for. The other one follows from it."""
    task = hc.Table(["north", "south", "west"], ["yes", "no"])
    built = hc.protocol(protocol, task, hc.Budget(2, 1e-6), hc.Crowd(1000))
    answer = built.estimate(built.simulate([40, 160, 500, 300, 0, 0], hc.SeededSource(3)))
    assert isinstance(answer, hc.TableEstimate)
    rows = answer.shares(sampling=sampling)
    for word, found in zip(["yes", "no"], rows[0], strict=True):
        alone = answer.share(word, given_row="north", sampling=sampling)
        assert found.method == alone.method
        assert found.value == pytest.approx(alone.value, abs=1e-12)
        ends = (alone.interval.low, alone.interval.high)
        assert (found.interval.low, found.interval.high) == pytest.approx(ends, abs=1e-9)
        assert found.interval.confidence == alone.interval.confidence


def test_probabilities_beyond_a_distance() -> None:
    """They equal those of an enumeration, also with ties and with a law that misses a part."""
    mass = math.tanh(0.35) * np.exp(-0.7 * np.abs(np.arange(-12, 13)))
    law = LatticeLaw(-12.0, mass, missing=1 - float(mass.sum()))
    weights = np.array([1.0, -0.5, 0.25])
    cube = np.einsum("i,j,k->ijk", mass, mass, mass).ravel()
    z = np.arange(-12, 13)
    sums = np.add.outer(np.add.outer(z, -0.5 * z), 0.25 * z).ravel()
    error = KnownSum(tuple(independent_parts(law, weights)))
    for distance in (0.25, 1.0, 1.3, 2.75, 4.0, 6.0):
        reached = float(cube[np.abs(sums) >= distance - 1e-9].sum()) + 3 * law.missing
        assert error.is_possible(distance, reached * 0.999999)
        assert not error.is_possible(distance, reached * 1.000001)
