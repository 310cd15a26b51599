"""Laws, divergences, curves, smoothness, calibration and composition, compared with 50 digits."""

import decimal
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import enumeration
import headcount as hc
from enumeration import binomial_mass, exactly
from headcount import InvalidParameter
from headcount.accounting import laws
from headcount.accounting.buckets import MovedCurve
from headcount.accounting.calibration import least_private
from headcount.accounting.composition import compose
from headcount.accounting.divergence import PairCurve, SymmetricCurve, hockey_stick
from headcount.accounting.laws import Law, binomial
from headcount.accounting.smooth import binomial_lemma, smoothness_delta
from headcount.accounting.two_binomials import TwoBinomials
from headcount.core.guarantee import NearCurve

# Laws ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trials", "p"),
    [
        (1, Fraction(1, 2)),
        (20, Fraction(1, 3)),
        (1000, Fraction(1, 7)),
        (1000, Fraction(1, 10**12)),
        (1000, 1 - Fraction(1, 10**12)),
        (100_000, Fraction(34, 100_000)),
        (10**9, Fraction(731, 1000)),
        (10**9, 1 - Fraction(34, 10**9)),
        (2**50, Fraction(3, 2**50)),
    ],
)
def test_binomial_masses_are_within_their_certificate(trials: int, p: Fraction) -> None:
    law = binomial(trials, p)
    assert law.slack < 1e-8
    assert law.tail < 1e-20
    picked = np.unique(np.linspace(0, len(law.mass) - 1, 60).astype(int))
    for i in picked.tolist():
        truth = binomial_mass(trials, p, law.start + i)
        assert abs(mpmath.mpf(law.mass[i]) - truth) <= law.slack * truth
    assert abs(law.mass.sum() - 1) < 1e-9
    outside = [k for k in (law.start - 1, law.stop) if 0 <= k <= trials]
    assert sum(binomial_mass(trials, p, k) for k in outside) <= law.tail


def test_certain_binomials() -> None:
    for p, start in ((Fraction(0), 0), (Fraction(1), 9)):
        law = binomial(9, p)
        assert (law.start, law.mass.tolist(), law.slack, law.tail) == (start, [1.0], 0.0, 0.0)


@pytest.mark.parametrize("chances", [(3, 1), (5, 4), (199, 1), (100, 0), (200, 3)])
@pytest.mark.parametrize("trials", [(0, 3), (1, 1), (7, 0), (20, 31), (90, 10)])
def test_tails_of_two_binomials_are_rounded_up_by_little(
    trials: tuple[int, int], chances: tuple[int, int]
) -> None:
    """The tails are compared with exact rationals, for all numbers. The precision is absolute or
    relative.
    """
    success = [Fraction(chance, 200) for chance in chances]
    masses = [Fraction(1)]
    for p in [success[0]] * trials[0] + [success[1]] * trials[1]:
        masses = [
            (1 - p) * stays + p * rises
            for stays, rises in zip([*masses, Fraction()], [Fraction(), *masses], strict=True)
        ]
    numbers = np.arange(-1.0, sum(trials) + 2)
    tails = [float(sum(masses[max(0, int(m)) :], Fraction())) for m in numbers]
    alike = tuple(np.full(len(numbers), float(trial)) for trial in trials)
    law = TwoBinomials(
        (alike[0], alike[1]),
        (float(success[0]), float(success[1])),
        (float(1 - success[0]), float(1 - success[1])),
    )
    for precision in (0.1, 1e-4, 1e-15):
        found = law.at_least(numbers, precision)
        assert (found >= np.array(tails) * (1 - 4e-16)).all()
        assert (found <= np.array(tails) * (1 + 1e-10) + max(1e-6 * precision, 1e-15)).all()


@settings(max_examples=50)
@given(st.integers(5, 60), st.integers(1, 99), st.floats(0.01, 0.999))
def test_central_interval_leaves_half_on_either_side(
    trials: int, percent: int, confidence: float
) -> None:
    p = Fraction(percent, 100)
    low, high = binomial(trials, p).central_interval(confidence)
    half = (1 - mpmath.mpf(confidence)) / 2
    masses = [binomial_mass(trials, p, k) for k in range(trials + 1)]
    assert sum(masses[:low]) <= half
    assert sum(masses[high + 1 :]) <= half


def test_sums_and_mirrors_of_laws() -> None:
    p, q = Fraction(1, 3), Fraction(1, 7)
    difference = binomial(6, p).plus(binomial(4, q).mirror())
    assert (difference.start, difference.stop) == (-4, 7)
    for value in range(-4, 7):
        truth = sum(
            binomial_mass(6, p, k) * binomial_mass(4, q, k - value)
            for k in range(7)
            if 0 <= k - value <= 4
        )
        stated = mpmath.mpf(float(difference.mass[value + 4]))
        assert abs(stated - truth) <= difference.slack * truth
    assert difference.slack < 1e-12
    cut = Law(0, np.ones(1), tail=0.25).plus(Law(5, np.ones(1), tail=0.5))
    assert (cut.start, cut.tail) == (5, 0.75)


# Divergence ---------------------------------------------------------------------------------

finite_laws = st.lists(st.integers(0, 50), min_size=1, max_size=8).filter(any)


def exact_stick(one: list[Fraction], other: list[Fraction], epsilon: float) -> mpmath.mpf:
    factor = mpmath.exp(mpmath.mpf(epsilon))
    return (
        sum(
            max(exactly(p) - factor * exactly(q), mpmath.mpf(0))
            for p, q in zip(one, other, strict=True)
        )
        - mpmath.mpf(10) ** -45
    )  # the error of 50 digits


def padded(weights: list[int], start: int) -> list[Fraction]:
    shares = [Fraction(weight, sum(weights)) for weight in weights]
    return [Fraction(0)] * start + shares + [Fraction(0)] * (20 - start - len(weights))


def as_law(weights: list[int], start: int) -> Law:
    return Law(start, np.array(weights) / sum(weights), slack=2.0**-52)


@settings(max_examples=300)
@given(finite_laws, finite_laws, st.integers(0, 10), st.integers(0, 10), st.floats(-3, 4))
def test_hockey_stick_of_any_laws(
    one: list[int], other: list[int], first: int, second: int, epsilon: float
) -> None:
    p, q = as_law(one, first), as_law(other, second)
    up = exact_stick(padded(one, first), padded(other, second), epsilon)
    down = exact_stick(padded(other, second), padded(one, first), epsilon)
    room = 1e-14 * (1 + math.exp(epsilon))
    assert up <= hockey_stick(p, q, epsilon) <= up + room
    assert down <= hockey_stick(q, p, epsilon) <= down + room
    curve = PairCurve.both_directions(p, q)
    assert max(up, down) <= curve.delta(epsilon) <= max(up, down) + 2 * room
    assert PairCurve(((p, q),)).delta(epsilon) <= up + 2 * room


@pytest.mark.parametrize("epsilon", [0.7, 5.0, 33.052990898994295])
def test_many_deltas_round_up_next_to_a_loss(epsilon: float) -> None:
    curve = response_curve(epsilon)
    p = mpmath.mpf(float(curve.pairs[0][0].mass[0]))
    q = mpmath.mpf(float(curve.pairs[0][0].mass[1]))
    near = float(mpmath.log(p / q)) * (1 + np.array([-1e-7, -1e-12, -1e-15, 0, 1e-15]))
    for point, stated in zip(near.tolist(), curve.deltas(near).tolist(), strict=True):
        truth = max(p - mpmath.exp(mpmath.mpf(point)) * q, 0)
        assert truth <= curve.delta(point) <= truth + 1e-13
        assert truth <= stated <= truth + 1e-12


def test_tail_is_charged() -> None:
    half = np.array([0.5, 0.5])
    p, q = Law(0, half, tail=1e-3), Law(0, half)
    assert hockey_stick(p, q, 1.0) == pytest.approx(1e-3)
    assert PairCurve(((p, q),)).delta(1.0) == pytest.approx(1e-3)
    assert hockey_stick(q, p, 1.0) == 0


def test_curve_inverts_on_the_private_side() -> None:
    law = binomial(1000, Fraction(1, 20))
    curve = PairCurve.both_directions(law, law.shift(1))
    for delta in (0.5, 1e-2, 1e-6, 1e-12):
        epsilon = curve.epsilon(delta)
        assert curve.delta(epsilon) <= delta
        assert epsilon == 0 or delta < curve.delta(epsilon * (1 - 1e-9))
    assert curve.epsilon(0.0) == math.inf  # with a positive probability, nobody sends noise
    assert curve.epsilon(1.0) == 0.0


# Calibration --------------------------------------------------------------------------------


def test_least_private_is_least_and_private() -> None:
    for needed in (10, 11, 999, 123_456_789):

        def delta_at(noise: int, needed: int = needed) -> float:
            return float(noise < needed)

        assert least_private(delta_at, 0.5, start=10, stop=2**40) == needed
    assert least_private(lambda _: 1.0, 0.5, start=10, stop=1000) is None
    assert least_private(lambda noise: float(noise != 1000), 0.5, start=10, stop=1000) == 1000


def test_least_private_survives_waves() -> None:
    seen: dict[int, float] = {}

    def wavy(noise: int) -> float:
        seen[noise] = 1000 / noise * (1 + 0.02 * math.sin(noise / 7))
        return seen[noise]

    found = least_private(wavy, 1.0, start=1, stop=10**6)
    assert found is not None
    assert seen[found] <= 1.0


# Smooth distributions -----------------------------------------------------------------------


@pytest.mark.parametrize(("trials", "p"), [(30, Fraction(1, 2)), (200, Fraction(1, 10))])
@pytest.mark.parametrize("distance", [1, 2, 3])
def test_smoothness_by_its_definition(trials: int, p: Fraction, distance: int) -> None:
    masses = {k: binomial_mass(trials, p, k) for k in range(trials + 1)}
    for epsilon in (0.3, 1.0):
        worst = mpmath.mpf(0)
        for step in [*range(-distance, 0), *range(1, distance + 1)]:
            bound = mpmath.exp(abs(step) * mpmath.mpf(epsilon))
            bad = sum(m for k, m in masses.items() if m >= bound * masses.get(k + step, 0))
            worst = max(worst, bad)
        stated = smoothness_delta(binomial(trials, p), epsilon, distance)
        assert worst <= stated <= worst * (1 + 1e-9) + 1e-20


def test_lemma_definition_and_exact_law_are_in_order() -> None:
    """Each is an upper bound on the next: lemma, definition, divergence."""
    for trials, gamma, alpha in ((200, 0.25, 0.5), (120, 0.5, 0.4), (10**4, 0.005, 0.5)):
        epsilon, lemma = binomial_lemma(trials, gamma, alpha)
        law = binomial(trials, Fraction(gamma))
        definition = smoothness_delta(law, epsilon)
        exact = max(
            hockey_stick(law, law.shift(1), epsilon), hockey_stick(law.shift(1), law, epsilon)
        )
        assert exact < definition < lemma


def test_lemma_conditions() -> None:
    epsilon, delta = binomial_lemma(1000, 0.5, 0.5)
    assert epsilon == pytest.approx(math.log(3))
    assert delta == pytest.approx(math.exp(-15.625) + math.exp(-0.25 * 500 / 9))
    for arguments in ((1000, 0.6, 0.5), (1000, 0.5, 1.0), (1000, 0.5, -0.1), (1000, 0.0, 0.5)):
        with pytest.raises(InvalidParameter, match="the lemma needs"):
            binomial_lemma(*arguments)
    # distance ≤ αγn/2 = 125
    binomial_lemma(1000, 0.5, 0.5, distance=125)
    with pytest.raises(InvalidParameter, match="distance"):
        binomial_lemma(1000, 0.5, 0.5, distance=126)


# Composition --------------------------------------------------------------------------------


def response_curve(epsilon: float) -> PairCurve:
    p = 1 / (1 + math.exp(-epsilon))
    law = Law(0, np.array([p, 1 - p]), slack=1e-15)
    return PairCurve.both_directions(law, Law(0, law.mass[::-1], slack=1e-15))


def exact_responses(times: int, each: float, epsilon: float) -> mpmath.mpf:
    p = 1 / (1 + mpmath.exp(-mpmath.mpf(each)))
    factor = mpmath.exp(mpmath.mpf(epsilon))
    return sum(
        mpmath.binomial(times, k)
        * max(p**k * (1 - p) ** (times - k) - factor * (1 - p) ** k * p ** (times - k), 0)
        for k in range(times + 1)
    )


@pytest.mark.parametrize("times", [1, 2, 7, 30])
def test_composed_responses(times: int) -> None:
    each = 0.31416
    composed = compose([(response_curve(each), times)])
    for epsilon in (0.0, 0.3, 1.0, 2.0):
        truth = exact_responses(times, each, epsilon)
        assert truth <= composed.delta(epsilon) <= truth * 1.001 + 1e-8
    for delta in (1e-2, 1e-5):
        epsilon = composed.epsilon(delta)
        assert exact_responses(times, each, epsilon) <= delta
        assert exact_responses(times, each, epsilon * 0.999 - 1e-4) >= delta or epsilon == 0


def test_repeats_count_one_by_one_or_together() -> None:
    curve = response_curve(0.5)
    together = compose([(curve, 6)])
    apart = compose([(curve, 2), (curve, 1), (curve, 3)])
    for epsilon in (0.1, 1.0):
        assert together.delta(epsilon) == pytest.approx(apart.delta(epsilon), rel=1e-6)


def test_every_mix_of_directions_is_covered() -> None:
    """The person may go up in one release and down in the next. All combinations are enumerated."""
    trials, p, rounds = 12, Fraction(1, 6), 3
    law = binomial(trials, p)
    composed = compose([(PairCurve.both_directions(law, law.shift(1)), rounds)])
    masses = [binomial_mass(trials, p, k) for k in range(trials + 1)] + [mpmath.mpf(0)]
    up = [(masses[k], masses[k - 1] if k else mpmath.mpf(0)) for k in range(trials + 2)]
    down = [(q, m) for m, q in up]
    for epsilon in (0.5, 1.5, 3.0):
        factor = mpmath.exp(mpmath.mpf(epsilon))
        for turns in range(rounds + 1):
            pairs = [(mpmath.mpf(1), mpmath.mpf(1))]
            for direction in [up] * turns + [down] * (rounds - turns):
                pairs = [(a * c, b * d) for a, b in pairs for c, d in direction]
            assert sum(max(a - factor * b, 0) for a, b in pairs) <= composed.delta(epsilon)


def test_numerical_error_is_charged() -> None:
    law = binomial(50, Fraction(1, 2))
    composed = compose([(PairCurve.both_directions(law, law.shift(1)), 50)])
    assert composed.numerical_error > 0
    assert composed.delta(1000.0) > composed.numerical_error
    assert composed.epsilon(composed.numerical_error / 2) == math.inf


@pytest.mark.slow
def test_composed_inverse_is_private() -> None:
    """A large loss stretches the grid. The inverse must not accumulate its rounding errors."""
    s = 0.6224
    mass = np.array([1e-9, s, s * math.exp(-0.5), 1e-9 * math.exp(-30)])
    law = Law(0, mass / mass.sum(), slack=1e-14)
    curve = PairCurve.both_directions(law, Law(0, law.mass[::-1], slack=1e-14))
    for times in (1, 3):
        composed = compose([(curve, times)])
        for delta in (0.2, 0.025, 1e-3, 1e-6):
            assert composed.delta(composed.epsilon(delta)) <= delta


@pytest.mark.parametrize("discretization", [0, -1e-4, 1e-12, 2, math.nan, "x"])
def test_bad_discretization(discretization: Any) -> None:
    with pytest.raises(InvalidParameter, match="`discretization` must be"):
        compose([(response_curve(1.0), 1)], discretization=discretization)


def test_pure_releases_add_up() -> None:
    composed = compose([(response_curve(0.1), 30), (response_curve(0.5), 4)])
    assert composed.epsilon(0.0) == pytest.approx(5.0)
    assert composed.epsilon(1e-15) <= composed.epsilon(0.0)
    assert composed.delta(composed.epsilon(0.0)) == 0.0
    assert composed.delta(4.9) > 0
    with pytest.raises(InvalidParameter, match="at least one release"):
        compose([])


@pytest.mark.parametrize("times", [0, -1, 1.5])
def test_bad_repeats(times: float) -> None:
    with pytest.raises(InvalidParameter, match="`times` must be"):
        compose([(response_curve(1.0), times)])  # type: ignore[list-item]


# Noise shares and two buckets ---------------------------------------------------------------


def negative_binomial_mass(r: float, p: float, k: int) -> mpmath.mpf:
    exact_r, exact_p = mpmath.mpf(r), mpmath.mpf(p)
    log = mpmath.loggamma(k + exact_r) - mpmath.loggamma(k + 1) - mpmath.loggamma(exact_r)
    return mpmath.exp(log + exact_r * mpmath.log(1 - exact_p) + k * mpmath.log(exact_p))


@pytest.mark.parametrize(
    ("r", "p"), [(17.1, 0.946), (1e-5, 0.946), (0.5, 0.5), (300.0, 0.2), (1.0, 1e-9), (40.0, 0.999)]
)
def test_negative_binomial_keeps_its_certificate(r: float, p: float) -> None:
    law = laws.negative_binomial(Fraction(r), Fraction(p))
    for at in range(0, len(law.mass), max(1, len(law.mass) // 60)):
        truth = negative_binomial_mass(r, p, law.start + at)
        assert abs(mpmath.mpf(law.mass[at]) / truth - 1) <= law.slack
    assert law.slack < 1e-9
    beyond = mpmath.nsum(lambda k: negative_binomial_mass(r, p, law.stop + int(k)), [0, 50])
    assert beyond <= law.tail < 1e-22


@pytest.mark.parametrize("mean", [1e-3, 1.0, 42.6, 1e6])
def test_poisson_keeps_its_certificate(mean: float) -> None:
    law = laws.poisson(Fraction(mean))
    for at in range(0, len(law.mass), max(1, len(law.mass) // 60)):
        k = law.start + at
        truth = mpmath.exp(k * mpmath.log(mpmath.mpf(mean)) - mpmath.mpf(mean)) / mpmath.factorial(
            k
        )
        assert abs(mpmath.mpf(law.mass[at]) / truth - 1) <= law.slack
    assert law.slack < 1e-9
    assert law.tail < 1e-22


@pytest.mark.parametrize("ratio", [1e-40, 1e-9, 0.165, 0.9, 0.999])
def test_adding_geometric_noise(ratio: float) -> None:
    """X + Y term by term, for Y ~ NB(1, ratio) with the exact value of the float."""
    start = laws.negative_binomial(Fraction(3), Fraction(0.5))
    law = start.plus_geometric(ratio)
    exact = [negative_binomial_mass(3.0, 0.5, k) for k in range(120)]
    for k in (0, 1, 2, 5, 17, 60, 100):
        q = mpmath.mpf(ratio)
        truth = sum(exact[j] * (1 - q) * q ** (k - j) for j in range(k + 1))
        assert abs(mpmath.mpf(law.mass[k]) / truth - 1) <= law.slack + 1e-20
    assert law.slack < 1e-10
    assert abs(float(law.mass.sum()) - 1) < 1e-10


@pytest.mark.parametrize("epsilon", [-1.0, 0.0, 0.3, 1.0, 2.5])
def test_moved_curve_is_that_of_both_buckets(epsilon: float) -> None:
    rng = np.random.default_rng(7)
    for _ in range(20):
        held, left = rng.dirichlet(np.ones(6), 2)
        held[rng.integers(6)] = 0.0
        curve = MovedCurve.of(Law(3, held / held.sum()), Law(3, left))
        upper = np.multiply.outer(held / held.sum(), left)
        lower = np.multiply.outer(left, held / held.sum())
        truth = float(np.maximum(upper - math.exp(epsilon) * lower, 0).sum())
        assert truth <= curve.delta(epsilon) * (1 + 1e-12)
        assert curve.delta(epsilon) <= truth * (1 + 1e-9) + 1e-12
        assert curve.deltas(np.array([epsilon]))[0] == curve.delta(epsilon)


def test_near_and_symmetric_curves() -> None:
    known = PairCurve.both_directions(Law(0, np.array([0.7, 0.3])), Law(0, np.array([0.3, 0.7])))
    near = NearCurve(known, 1e-6)
    for epsilon in (0.0, 0.4, 3.0):
        extra = (1 + math.exp(epsilon)) * 1e-6
        assert near.delta(epsilon) == pytest.approx(known.delta(epsilon) + extra)
        assert near.deltas(np.array([epsilon]))[0] == pytest.approx(near.delta(epsilon))
    assert near.epsilon(1e-3) > known.epsilon(1e-3)
    mirrored = SymmetricCurve(known.delta, math.log(7 / 3))
    points = np.array([-2.0, -0.5, 0.0, 0.5, 2.0])
    assert mirrored.deltas(points) == pytest.approx(known.deltas(points))
    assert mirrored.delta(1.0) == 0


def test_above_is_rounded_up() -> None:
    law = laws.binomial(50, Fraction(1, 3))
    for value in (-1, 0, 10, 30, 49, 50, 60):
        truth = sum(binomial_mass(50, Fraction(1, 3), k) for k in range(max(0, value + 1), 51))
        assert truth <= law.above(value) <= float(truth) * (1 + 1e-9) + law.tail


# A caller's decimal numbers ------------------------------------------------------------------

ODD = 0.7393798828125  # no other test uses this epsilon, so nothing is known from a cache
DECIMAL_USERS: list[tuple[str, hc.Task]] = [
    ("central.geometric", hc.Count()),
    ("central.sum-zero", hc.Histogram(3)),
    ("central.cube", hc.Boxes(["a", "b"], at_most=1)),
    ("central.cube", hc.Boxes(["a", "b"])),
    ("central.tree", hc.Distribution(0, 1, cells=3)),
    ("central.fitted-table", hc.Table(2, 2)),
    ("central.exponential-quantile", hc.Median(0, 1, cells=3)),
    ("local.k-ary", hc.Histogram(3)),
    ("local.laplace-mean", hc.Mean(0, 1)),
    ("shuffle.fake-users", hc.Histogram(3)),
    ("shuffle.margins", hc.Margins(2, 2)),
    ("shuffle.noisy-shuffler", hc.Histogram(3)),
    ("shuffle.correlated", hc.Count()),
    ("shuffle.correlated-sum", hc.Sum(0, 2, whole=True)),
    ("shuffle.amplified", hc.Histogram(3)),
]


@pytest.fixture
def no_rounding() -> Iterator[None]:
    """A caller whose decimal numbers have one digit, and for whom each rounding is an error."""
    strict: dict[str, Any] = {"prec": 1, "Emin": -1, "Emax": 1, "rounding": decimal.ROUND_DOWN}
    usual = decimal.DefaultContext.copy()
    everything = [*decimal.Context().traps]
    with decimal.localcontext(decimal.Context(**strict, traps=everything)):
        for name, value in strict.items():
            setattr(decimal.DefaultContext, name, value)
        for signal in everything:
            decimal.DefaultContext.traps[signal] = True
        yield
    for name in strict:
        setattr(decimal.DefaultContext, name, getattr(usual, name))
    for signal in everything:
        decimal.DefaultContext.traps[signal] = usual.traps[signal]


@pytest.mark.parametrize(("name", "task"), DECIMAL_USERS)
def test_a_callers_decimal_numbers_change_nothing(
    name: str, task: hc.Task, no_rounding: None
) -> None:
    delta = 0.0 if name.startswith(("central.", "local.")) else 0.01
    protocol = hc.protocol(name, task, hc.Budget(ODD, delta), hc.Crowd(3))
    values = [enumeration.asked(protocol)[0]] * 3
    assert str(hc.run(protocol, values, hc.SeededSource(2)))
    assert 0 <= protocol.curve.delta(ODD / 3) <= 1
    protocol.law(values[0])
    if protocol.trust is hc.Trust.CENTRAL:
        tally = protocol.tally(protocol.randomize(values, hc.SeededSource(2)))
        protocol.estimator.release_law(tally)


def test_a_callers_decimal_numbers_do_not_change_groups_of_rows(no_rounding: None) -> None:
    rows = {"v": [0, 1, 1, 0], "who": ["a", "a", "b", "b"]}
    answer = hc.estimate(
        rows, column="v", person="who", rows_per_person=2, budget=hc.Budget(ODD, 0.01),
        protocol="shuffle.fake-users", task=hc.Histogram(2),
    )  # fmt: skip
    assert answer.guarantee.delta <= 0.01
