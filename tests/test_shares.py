"""Shares of negative binomial noise with long tails: their law, and its distance to the ideal."""

from collections import Counter, defaultdict
from fractions import Fraction
from itertools import count, product, takewhile
from math import expm1, prod
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from enumeration import exactly, log_likelihood_ratio
from headcount import InvalidParameter, SeededSource
from headcount.randomness import shares
from headcount.randomness.discrete_laplace import geometric
from headcount.randomness.shares import NegativeBinomialShare

ALARM = 1e-6
LEAST = mpmath.mpf(2) ** -200  # exact laws leave out rarer outcomes


def p_value(drawn: NDArray[np.int64], law: Any) -> float:
    """The p-value of draws against a law of scipy, in bins with enough draws."""
    edges = np.unique(np.concatenate([[0], np.exp2(np.arange(90) / 2).astype(np.int64)]))
    observed = Counter((np.searchsorted(edges, drawn, side="right") - 1).tolist())
    chances = np.diff(np.append(law.cdf(edges - 1), 1.0))
    expected = {i: max(float(chance), 1e-300) for i, chance in enumerate(chances)}
    return log_likelihood_ratio(observed, expected)[1]


def negative_binomial(r: float, gamma: float) -> Any:
    return stats.nbinom(r, -expm1(-gamma))


def of_everyone(share: NegativeBinomialShare, seed: int, people: int) -> NDArray[np.int64]:
    having, amounts = share.draw(SeededSource(seed), people)
    everyone = np.zeros(people, np.int64)
    everyone[having] = amounts
    return everyone


# What is drawn ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("r", "gamma", "people", "wrong"),
    [
        (Fraction(1, 5), Fraction(1, 2), 1_000_000, (1.02, 1)),
        (Fraction(1, 5), Fraction(1, 2), 1_000_000, (1, 0.98)),
        (Fraction(1, 5), Fraction(1, 100), 500_000, (0.98, 1)),
        (Fraction(7, 3), Fraction(0.1), 200_000, (1, 1.02)),
        (Fraction(40), Fraction(2), 200_000, (1.02, 1)),  # hardly anybody has none
        (Fraction(1), Fraction(1, 1000), 200_000, (1, 1.02)),
        # If many clusters are beyond the table, draws are slower, so there are fewer of them.
        pytest.param(Fraction(1), Fraction(1, 10**5), 20_000, (1, 0.9), marks=pytest.mark.slow),
        (Fraction(1, 1000), Fraction(1e-8), 1_000_000, (0.9, 1)),
        (Fraction(1, 50), Fraction(1, 2**40), 20_000, (1.2, 1)),
    ],
)
def test_draws_have_their_law(
    r: Fraction, gamma: Fraction, people: int, wrong: tuple[float, float]
) -> None:
    drawn = of_everyone(NegativeBinomialShare(r, gamma), 2, people)
    assert p_value(drawn, negative_binomial(float(r), float(gamma))) > ALARM
    off = negative_binomial(float(r) * wrong[0], float(gamma) * wrong[1])
    assert p_value(drawn, off) < ALARM


@pytest.mark.parametrize(
    ("r", "gamma", "crowds"),
    [
        (Fraction(1), Fraction(1, 2), 20_000),
        (Fraction(5, 2), Fraction(1, 50), 20_000),
        (Fraction(1), Fraction(1, 5000), 10_000),
    ],
)
def test_shares_of_a_crowd_add_up(r: Fraction, gamma: Fraction, crowds: int) -> None:
    having, amounts = NegativeBinomialShare(r / 1000, gamma).draw(SeededSource(3), 1000 * crowds)
    totals = np.bincount(having // 1000, weights=amounts, minlength=crowds).astype(np.int64)
    assert p_value(totals, negative_binomial(float(r), float(gamma))) > ALARM
    assert p_value(totals, negative_binomial(float(r) * 1.1, float(gamma))) < ALARM


def test_people_are_independent() -> None:
    r, gamma = Fraction(1, 2), Fraction(1, 2)
    drawn = np.minimum(of_everyone(NegativeBinomialShare(r, gamma), 4, 600_000), 3)
    mass = negative_binomial(0.5, 0.5).pmf([0, 1, 2]).tolist()
    mass.append(1 - sum(mass))
    law = {who: prod(mass[value] for value in who) for who in product(range(4), repeat=2)}
    for pairs in (drawn.reshape(-1, 2), drawn.reshape(2, -1).T):
        seen = Counter(map(tuple, pairs.tolist()))
        assert log_likelihood_ratio(seen, law)[1] > ALARM
    again = Counter((value, value) for value in drawn.tolist())
    assert log_likelihood_ratio(again, law)[1] < ALARM


def test_only_those_who_have_any() -> None:
    share = NegativeBinomialShare(Fraction(1, 1000), Fraction(1, 100))
    having, amounts = share.draw(SeededSource(5), 1_000_000)
    assert having.dtype == amounts.dtype == np.int64
    assert len(having) == len(amounts) > 4000
    assert (np.diff(having) > 0).all()
    assert 0 <= having[0] < having[-1] < 1_000_000
    assert amounts.min() == 1
    same = NegativeBinomialShare(Fraction(1, 1000), Fraction(1, 100))
    for one, other in zip(same.draw(SeededSource(5), 1_000_000), (having, amounts), strict=True):
        assert np.array_equal(one, other)
    for people, r in ((0, 1), (10, Fraction(1, 10**30)), (10, Fraction(1, 2**200))):
        having, amounts = NegativeBinomialShare(Fraction(r), Fraction(1)).draw(
            SeededSource(6), people
        )
        assert having.size == amounts.size == 0


@pytest.mark.parametrize("gamma", [Fraction(1, 40), Fraction(2, 3)])
@pytest.mark.slow
def test_clusters_beyond_the_table(gamma: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a table of three sizes, the pieces beyond it have many draws, and edges that show."""
    monkeypatch.setattr(shares, "_LARGEST_CLUSTER", 3)
    drawn = shares._Clusters(gamma).sample(SeededSource(7), 60_000)
    law = sizes(gamma)
    assert log_likelihood_ratio(Counter(drawn.tolist()), as_floats(law))[1] > ALARM
    off = as_floats(sizes(gamma * Fraction(6, 5)))
    assert log_likelihood_ratio(Counter(drawn.tolist()), off)[1] < ALARM
    for shift in (-1, 1):  # of all beyond the table
        moved = {k: law[k + shift * (k > 3)] for k in list(law)[:-1]}
        assert log_likelihood_ratio(Counter(drawn.tolist()), as_floats(moved))[1] < ALARM


@pytest.mark.parametrize("gamma", [Fraction(1, 3), Fraction(0.01), Fraction(5, 2)])
def test_geometric_law(gamma: Fraction) -> None:
    source = SeededSource(8)
    drawn = geometric(source, gamma, 30_000)
    # NB(1, a) is geometric.
    assert p_value(drawn, negative_binomial(1, float(gamma))) > ALARM
    assert p_value(drawn, negative_binomial(1, float(gamma) * 1.08)) < ALARM


# How near it is -----------------------------------------------------------------------------


def sizes(gamma: Fraction) -> dict[int, Any]:
    """The law of a cluster's size by its definition."""
    decay = mpmath.exp(-exactly(gamma))
    rate = -mpmath.log1p(-decay)
    masses = ((k, decay**k / (k * rate)) for k in count(1))
    return dict(takewhile(lambda mass: mass[1] > LEAST, masses))


def as_floats(law: dict[int, Any]) -> dict[int, float]:
    return {k: float(chance) for k, chance in law.items()}


def number_drawn(share: NegativeBinomialShare) -> dict[int, Any]:
    """The exact law of the number of clusters that are drawn."""
    some = Fraction(share._any, 2**128)
    return {0: exactly(1 - some)} | {
        k: exactly(some * chance) for k, chance in share._several.law.items()
    }


def sizes_drawn(clusters: Any) -> dict[int, Any]:
    """The law of the drawn size, with the exact probabilities of its tables."""
    small = clusters._small.law
    decay = mpmath.exp(-exactly(clusters._gamma))
    large: dict[int, Any] = {}
    for piece, start in enumerate(clusters._starts):
        chance = exactly(clusters._pieces.law.get(piece, Fraction(0)))
        if piece < len(clusters._starts) - 1:
            for k in range(start, 2 * start):
                large[k] = chance / start * start / k * decay ** (k - start)
            continue
        for k in count(start):
            large[k] = chance * (1 - decay) * decay ** (k - start) * start / k
            if large[k] < LEAST:
                break
    accepted = sum(large.values())
    assert accepted > mpmath.mpf(1) / 4
    beyond = exactly(small.get(clusters._beyond, Fraction(0)))
    drawn = {k: exactly(chance) for k, chance in small.items() if k < clusters._beyond}
    return drawn | {k: beyond * mass / accepted for k, mass in large.items()}


def total_variation(one: dict[int, Any], other: dict[int, Any]) -> Any:
    return sum(abs(one.get(k, 0) - other.get(k, 0)) for k in one.keys() | other.keys()) / 2


@pytest.mark.parametrize(
    ("gamma", "largest"),
    [(Fraction(1, 2), 4096), (Fraction(1, 40), 3), (Fraction(1, 7), 10), (Fraction(9), 4096)],
)
def test_clusters_are_as_near_as_they_say(
    gamma: Fraction, largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shares, "_LARGEST_CLUSTER", largest)
    clusters = shares._Clusters(gamma)
    with mpmath.workdps(70):
        assert total_variation(sizes_drawn(clusters), sizes(gamma)) <= clusters.variation < 1e-34


@pytest.mark.parametrize("gamma", [Fraction(8), Fraction(13, 5)])
@pytest.mark.parametrize("r", [Fraction(1, 3), Fraction(1, 1000), Fraction(25)])
def test_a_share_is_as_near_as_it_says(r: Fraction, gamma: Fraction) -> None:
    """The law of a drawn share, as a sum of clusters, compared with the negative binomial law."""
    share = NegativeBinomialShare(r, gamma)
    with mpmath.workdps(70):
        cluster = sizes_drawn(shares._clusters(gamma))
        summed: dict[int, Any] = {0: mpmath.mpf(1)}
        drawn: dict[int, Any] = defaultdict(mpmath.mpf)
        number = number_drawn(share)
        for clusters in range(max(number) + 1):
            for amount, chance in summed.items():
                drawn[amount] += number.get(clusters, 0) * chance
            grown: dict[int, Any] = defaultdict(mpmath.mpf)
            for (amount, chance), (k, mass) in product(summed.items(), cluster.items()):
                if chance * mass > LEAST:
                    grown[amount + k] += chance * mass
            summed = grown
        size, decay = exactly(r), mpmath.exp(-exactly(gamma))
        true = {
            k: mpmath.binomial(k + size - 1, k) * decay**k * (1 - decay) ** size
            for k in range(max(drawn) + 1)
        }
        assert abs(sum(drawn.values()) - 1) < mpmath.mpf(10) ** -45
        assert total_variation(drawn, true) <= share.variation < 1e-34


@pytest.mark.parametrize("gamma", [Fraction(1, 2**40), Fraction(1e-5), Fraction(1), Fraction(1000)])
def test_number_of_clusters_is_as_near_as_it_says(gamma: Fraction) -> None:
    for r in (Fraction(1, 10**6), Fraction(1, 3), Fraction(4)):
        share = NegativeBinomialShare(r, gamma)
        with mpmath.workdps(600):
            mean = -exactly(r) * mpmath.log1p(-mpmath.exp(-exactly(gamma)))
            number = number_drawn(share)
            most = max(number) + 100  # beyond which there is next to nothing
            true = {k: mpmath.exp(-mean) * mean**k / mpmath.factorial(k) for k in range(most)}
            assert total_variation(number, true) <= share.variation
        assert share.variation < 1e-32


def test_the_shares_of_a_million_cost_nothing() -> None:
    for gamma in (Fraction(1, 10**5), Fraction(1, 1000), Fraction(1, 2), Fraction(5)):
        assert NegativeBinomialShare(Fraction(1, 10**6), gamma).variation * 10**6 < 1e-30


# Its stated law -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("r", "gamma"),
    [
        (Fraction(1, 10**6), Fraction(1, 1000)),
        (Fraction(1, 5), Fraction(1e-5)),
        (Fraction(1), Fraction(1, 2)),
        (Fraction(40), Fraction(1, 10)),
    ],
)
def test_stated_law(r: Fraction, gamma: Fraction) -> None:
    least = Fraction(1, 10**7)
    law = NegativeBinomialShare(r, gamma).law(least)
    assert list(law) == list(range(len(law)))
    with mpmath.workdps(70):
        size, decay = exactly(r), mpmath.exp(-exactly(gamma))

        def mass(k: int) -> Any:
            return mpmath.binomial(k + size - 1, k) * decay**k * (1 - decay) ** size

        for k in {*range(min(len(law), 50)), len(law) // 2, len(law) - 1}:
            assert abs(exactly(law[k]) / mass(k) - 1) < mpmath.mpf(10) ** -45
        last = len(law) - 1
        assert mass(last) >= exactly(least) > mass(last + 1)
    assert max(law.values()) >= law[last]


def test_stated_law_keeps_what_is_rare_before_the_mode() -> None:
    law = NegativeBinomialShare(Fraction(40), Fraction(1, 10)).law(Fraction(1, 10**9))
    assert law[0] < Fraction(1, 10**9) < law[400]
    assert 1 - Fraction(1, 10**5) < sum(law.values()) < 1


# Refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("r", [Fraction(0), Fraction(-1, 3), Fraction(1001), 0.5, 1, None])
def test_bad_sizes(r: Any) -> None:
    with pytest.raises(InvalidParameter, match="`r` must be"):
        NegativeBinomialShare(r, Fraction(1))


@pytest.mark.parametrize(
    "gamma", [Fraction(0), Fraction(-1), Fraction(1, 2**41), Fraction(1025), 0.5, "1"]
)
def test_bad_decays(gamma: Any) -> None:
    with pytest.raises(InvalidParameter, match="`gamma` must be"):
        NegativeBinomialShare(Fraction(1), gamma)


def test_bad_requests() -> None:
    share = NegativeBinomialShare(Fraction(1), Fraction(1))
    for people in (-1, 2.5, "7"):
        with pytest.raises(InvalidParameter, match="`count` must be"):
            share.draw(SeededSource(1), people)  # type: ignore[arg-type]
    for least in (Fraction(0), Fraction(-1)):
        with pytest.raises(InvalidParameter, match="`least` must be"):
            share.law(least)
