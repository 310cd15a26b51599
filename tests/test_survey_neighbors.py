"""The joint promise of a survey, judged by listing the views of one person's replaced answers.

All laws are written here from the definitions of the noise. Only the parameters come from the
library. An outcome that is left out, or merged with another one, lowers a divergence. So every
number here is at most the truth.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import poisson

import headcount as hc
from headcount.survey.design import Design, Release
from headcount.survey.questions import Choice, Number, Question, Scale, Several, YesNo
from headcount.survey.survey import Survey

# The probabilities of the same outcomes for one answer and for another one.
Pair = tuple[NDArray[np.float64], NDArray[np.float64]]
Shift = tuple[int, ...]
QUICK = (0, 1, 2, 6, 8, 9, 10, 11, 12, 13, 14, 16, 17, 18, 20, 21)  # judged in a few seconds


def divergence(pair: Pair, epsilon: float) -> float:
    return math.fsum(np.maximum(pair[0] - math.exp(epsilon) * pair[1], 0.0))


def merged(pair: Pair, width: float = 1e-9) -> Pair:
    """Outcomes whose losses are about the same become one outcome."""
    with np.errstate(divide="ignore", invalid="ignore"):
        losses = np.log(pair[0]) - np.log(pair[1])
    seen = pair[0] > 1e-15
    places = np.round(np.clip(losses[seen], -1e6, 1e6) / width)
    kinds, which = np.unique(places, return_inverse=True)
    one, other = (np.bincount(which, mass[seen], len(kinds)).astype(np.float64) for mass in pair)
    return one, other


def product(one: Pair, other: Pair, width: float) -> Pair:
    both = [np.multiply.outer(one[at], other[at]).reshape(-1) for at in (0, 1)]
    return merged((both[0], both[1]), width)


def divergence_of_two(one: Pair, other: Pair, epsilon: float) -> float:
    """The divergence of two independent views, from sums over the sorted losses of one of them."""
    with np.errstate(divide="ignore", invalid="ignore"):
        losses = np.log(other[0]) - np.log(other[1])
        left = np.where(one[0] > 0, epsilon - (np.log(one[0]) - np.log(one[1])), np.inf)
    order = np.argsort(-losses)
    high, low = (np.concatenate([[0.0], np.cumsum(mass[order])]) for mass in other)
    inside = np.searchsorted(-losses[order], -left)
    terms = one[0] * high[inside] - math.exp(epsilon) * one[1] * low[inside]
    return math.fsum(np.maximum(terms, 0.0))


def truths(choices: Sequence[Sequence[Pair]], epsilons: Sequence[float]) -> list[float]:
    """The largest divergences. Each release has its own pair and its own direction."""
    width = 1e-9 if math.prod(max(len(p) for p, _ in one) for one in choices) < 10**5 else 5e-3
    parts = [[merged(one, width) for one in pairs] for pairs in choices]
    joint = parts[0]
    for more in parts[1:-1]:
        joint = [product(one, two, width) for one in joint for two in more]
    last = parts[-1] if len(parts) > 1 else [(np.ones(1), np.ones(1))]
    views = list(itertools.product(joint, last))
    return [max(divergence_of_two(*view, epsilon) for view in views) for epsilon in epsilons]


# Noise ----------------------------------------------------------------------------------------


def shifted(weight: Callable[..., NDArray[Any]], shift: Shift, reach: int) -> Pair:
    """Noise z with the probability weight(z)/Σweight, and the same noise moved by the shift."""
    reach = max(reach, 2)
    grid = np.meshgrid(*[np.arange(-reach, reach + 1)] * len(shift), indexing="ij", sparse=True)
    masses = weight(*grid), weight(*(z - by for z, by in zip(grid, shift, strict=True)))
    total = masses[0].sum()
    return masses[0].reshape(-1) / total, masses[1].reshape(-1) / total


def geometric(rate: float, steps: int) -> Pair:
    """Two-sided geometric noise, moved by some steps. Outcomes beyond both ends are added up."""
    a, inside = math.exp(-rate), math.tanh(rate / 2)
    mass = [1 / (1 + a), *(inside * a**z for z in range(1, steps)), a**steps / (1 + a)]
    return np.array(mass), np.array(mass[::-1])


def box_size(ticks: int, *z: NDArray[Any]) -> NDArray[Any]:
    """The size of the noise of boxes, if people have at most this many ticks."""
    every = np.broadcast_arrays(*z)
    gained, lost = (sum(np.maximum(sign * one, 0) for one in every) for sign in (1, -1))
    largest = np.maximum.reduce([np.abs(one) for one in every])
    return np.asarray(np.maximum(largest, -(-np.maximum(gained, lost) // ticks)))


def cut_boxes(rate: float, dummies: int, ticks: int, shift: Shift) -> Pair:
    """Dummies of boxes with the weight e^(−rate·size), moved by the shift. Large sizes are cut."""

    def weight(*z: NDArray[Any]) -> NDArray[Any]:
        size = box_size(ticks, *z)
        return np.where(size <= dummies // 2, np.exp(-rate * size), 0.0)

    return shifted(weight, shift, dummies // 2 + 1)


def cube(rate: float, ticks: int, shift: Shift) -> Pair:
    """Noise of boxes with the weight e^(−rate·size), moved by the shift."""

    def size(*z: NDArray[Any]) -> NDArray[Any]:
        return box_size(ticks, *z)

    boxes = len(shift)
    small = np.meshgrid(*[np.arange(-boxes, boxes + 1)] * boxes, indexing="ij", sparse=True)
    # The number of noises up to a size is a polynomial of the size.
    within = [int((size(*small) <= j).sum()) for j in range(boxes + 1)]
    radii = np.arange(math.ceil(60 / rate) + 100.0)
    every = np.polyval(np.polyfit(range(boxes + 1), within, boxes), radii)
    total = float((every * np.exp(-rate * radii)).sum() * -math.expm1(-rate))
    reach = min(math.ceil(30 / rate), 300 if boxes < 3 else 40)
    grid = np.meshgrid(*[np.arange(-reach, reach + 1)] * boxes, indexing="ij", sparse=True)
    moved = [z - by for z, by in zip(grid, shift, strict=True)]
    one, other = (np.exp(-rate * size(*each)).reshape(-1) / total for each in (grid, moved))
    return merged((one, other))


def sum_zero(rate: float, buckets: int) -> Pair:
    """Noise of two or three buckets that adds up to 0. A person moves between two of them."""

    def two(z: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(np.exp(-rate * np.abs(z)))

    def three(z: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(np.exp(-rate / 2 * (np.abs(z) + np.abs(y) + np.abs(z + y))))

    reach = math.ceil(30 / rate)
    return shifted(two, (1,), reach) if buckets == 2 else shifted(three, (1, -1), reach)


def poisson_shift(mean: float, by: int) -> Pair:
    """A bucket with Poisson noise that gains or loses a message."""
    seen = np.arange(math.ceil(mean + 12 * math.sqrt(mean) + 40))
    own, moved = poisson.pmf(seen, mean), poisson.pmf(seen - 1, mean)
    return (moved, own) if by > 0 else (own, moved)


def together(pairs: Sequence[Pair]) -> Pair:
    found = pairs[0]
    for one in pairs[1:]:
        found = product(found, one, 1e-3)
    return found


def poisson_pairs(mean: float, pairs: int) -> Pair:
    return together([poisson_shift(mean, 1), poisson_shift(mean, -1)] * pairs)


def responses(people: int, lie: float) -> list[Pair]:
    """Shuffled randomized response: all data of the others, and both directions."""
    laws = []
    for ones in range(people + 1):
        law = np.ones(1)
        for chance in [1 - lie] * ones + [lie] * (people - ones):
            law = np.convolve(law, [1 - chance, chance])
        laws.append(law)
    near = list(itertools.pairwise(laws))
    return [*near, *((two, one) for one, two in near)]


def zero_exact(people: int, p: float) -> list[Pair]:
    noise = np.ones(1)
    for _ in range(people):
        noise = np.convolve(noise, [1 - p, p])
    one, other = np.append(noise, 0.0), np.append(0.0, noise)
    return [(one, other), (other, one)]


def noise_of(known: Mapping[str, Any]) -> float:
    """The mean of Poisson noise."""
    return next((float(known[name]) for name in known if name.startswith("noise_per")), 0.0)


def poisson_boxes(mean: float, shift: Shift) -> Pair:
    return together([poisson_shift(mean, by) for by in shift if by])


def cut_pairs(rate: float, dummies: int, task: hc.Task) -> list[Pair]:
    """Dummies of the shuffler, cut off at both ends. The dummies of all buckets add up."""
    half = dummies // 2

    def law(rate: float, *z: NDArray[Any]) -> NDArray[Any]:
        every = np.broadcast_arrays(*z)
        inside = np.logical_and.reduce([(one >= 0) & (one <= dummies) for one in every])
        size = np.add.reduce([np.abs(one - half) for one in every])
        return np.where(inside, np.exp(-rate * size), 0.0)

    seen = np.arange(-1, dummies + 2)
    if task.domain == 2:  # the other bucket has the rest
        own, moved = law(rate, seen), law(rate, seen - 1)
    else:
        x, y = np.meshgrid(seen, seen, indexing="ij")
        near = ((x, y), (x - 1, y + 1))
        own, moved = (law(rate / 2, a, b, 3 * half - a - b) for a, b in near)
    pair = own.reshape(-1) / own.sum(), moved.reshape(-1) / own.sum()
    return [pair, pair[::-1]]


def ticked(boxes: int, most: int) -> list[Shift]:
    """All differences of two answers, up to the order of the boxes."""
    answers = [one for one in itertools.product((0, 1), repeat=boxes) if sum(one) <= most]
    differences = itertools.permutations(answers, 2)
    return sorted({tuple(sorted(a - b for a, b in zip(*two, strict=True))) for two in differences})


def pairs_of(release: Release) -> list[Pair]:
    """The pairs of views of a release, for all replaced answers and both directions."""
    built, task = release.protocol, release.protocol.task
    known, rate, people = built.parameters, built.budget.epsilon, built.crowd.honest
    steps, mean = int(known.get("levels", 1)), noise_of(known)
    boxes, most = len(task.settings.get("labels", ())), task.settings.get("at_most", 0)
    changed = ticked(boxes, most) if task.name == "boxes" else []
    made: dict[str, Callable[[], list[Pair]]] = {
        "central.geometric": lambda: [geometric(rate / steps, by) for by in {1, steps}],
        "central.cube": lambda: [cube(rate, most, shift) for shift in changed],
        "central.sum-zero": lambda: [sum_zero(rate, task.domain)],
        "central.tree": lambda: [together([geometric(rate / (2 * steps), 1)] * (2 * steps))],
        "shuffle.fake-users": lambda: [poisson_pairs(mean, 1)],
        "shuffle.tree": lambda: [poisson_pairs(mean, steps)],
        "shuffle.fake-user-boxes": lambda: [poisson_boxes(mean, shift) for shift in changed],
        "shuffle.randomized-response": lambda: responses(people, known["lambda"] / (2 * people)),
        "shuffle.zero-exact": lambda: zero_exact(people, float(known["p"])),
        "shuffle.noisy-shuffler": lambda: (
            [cut_boxes(rate, int(known["dummies"]), most, shift) for shift in changed]
            if changed
            else cut_pairs(rate, int(known["dummies"]), task)
        ),
    }
    return made[built.name]()


# Surveys --------------------------------------------------------------------------------------


def drawn_question(rng: np.random.Generator, at: int, trust: hc.Trust, noise: str) -> Question:
    kinds = ["yes-no", "choice", "several", "scale", "number"]
    if noise == "shuffler":
        kinds = ["yes-no", "choice", "scale", "several"]
    kind, name = rng.choice(kinds), f"q{at}"
    weight = float(rng.choice([1.0, 1.0, 0.2, 5.0]))
    some: dict[str, Any] = {"weight": weight, "optional": bool(rng.random() < 0.15)}
    if kind == "yes-no":
        if trust is hc.Trust.SHUFFLE and noise == "people" and rng.random() < 0.5:
            own = ["shuffle.randomized-response", "shuffle.zero-exact"]
            return YesNo(name, "?", weight=weight, protocol=str(rng.choice(own)))
        return YesNo(name, "?", **some)
    if kind == "choice":
        choices = ("a", "b", "c")[: 2 if some["optional"] else int(rng.integers(2, 4))]
        return Choice(name, "?", choices, **some)
    if kind == "several":
        boxes = ("a", "b", "c")[: 2 if some["optional"] else int(rng.integers(2, 4))]
        return Several(name, "?", boxes, int(rng.integers(1, len(boxes) + 1)), **some)
    if kind == "scale":
        return Scale(name, "?", 1, 2 if some["optional"] else int(rng.integers(2, 4)), **some)
    wanted = ("quantiles",) if trust is hc.Trust.SHUFFLE or rng.random() < 0.4 else ("mean",)
    return Number(name, "?", 0, int(rng.integers(2, 5)), whole=True, want=wanted, weight=weight)


def drawn_survey(seed: int) -> Survey:
    rng = np.random.default_rng(seed)
    trust = hc.Trust(rng.choice(["central", "shuffle"]))
    noise: Any = (
        str(rng.choice(["people", "people", "shuffler"])) if trust == "shuffle" else "people"
    )
    questions = [drawn_question(rng, at, trust, noise) for at in range(int(rng.integers(2, 4)))]
    epsilon = float(rng.uniform(1, 4) if trust is hc.Trust.CENTRAL else rng.uniform(0.5, 3))
    delta = float(10 ** rng.uniform(-6, -0.5))
    if trust is hc.Trust.CENTRAL:
        delta *= int(rng.random() < 0.5)
    if any(one.protocol for one in questions):
        delta = float(rng.uniform(0.2, 0.5))
    return Survey(
        questions, hc.Budget(epsilon, delta), trust, int(rng.integers(1, 5)), noise=noise,
        waves=int(rng.choice([1, 1, 1, 2])),
    )  # fmt: skip


def check(found: Design, *, points: bool) -> None:
    """Neither the guarantee nor the curve is below the truth."""
    choices = [pairs_of(one) for one in found.releases] * found.waves
    promised = found.guarantee
    assert promised.epsilon <= found.budget.epsilon
    assert promised.delta <= found.budget.delta
    most = promised.epsilon
    epsilons = (most, -most, 0.0, -0.3, 1e-9, most / 2, 1.2 * most)
    for epsilon, worst in zip(epsilons, truths(choices, epsilons), strict=True):
        claimed = found.curve.delta(epsilon)
        assert claimed >= worst * (1 - 1e-8) - 1e-11
        if points:
            assert found.curve.deltas(np.array([epsilon]))[0] >= worst * (1 - 1e-8) - 1e-11
        if epsilon == most:
            assert promised.delta >= worst * (1 - 1e-8) - 1e-11
            if promised.exact:
                assert promised.delta <= worst * 1.02 + 1e-9


def judge(seeds: Sequence[int], *, points: bool) -> int:
    judged = 0
    for seed in seeds:
        try:
            found = drawn_survey(seed).design
        except hc.Infeasible:  # a protocol that needs more people
            continue
        check(found, points=points)
        judged += 1
    return judged


def test_random_surveys_keep_their_promise() -> None:
    assert judge(QUICK, points=False) == len(QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(50))
def test_many_random_surveys_keep_their_promise(part: int) -> None:
    seeds = range(1000 + 20 * part, 1020 + 20 * part)
    assert judge(seeds, points=True) >= 10
