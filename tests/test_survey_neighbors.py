"""The joint promise of a survey, judged by listing the views of one person's replaced answers.

All laws are written here from the definitions of the noise, or are the exact laws of messages. Only
the parameters come from the library. Outcomes of a view are merged if their losses are about the
same, and outcomes of two views if the sums of their losses are. Merging lowers a divergence. So
every number here is at most the truth, and a promise below it is broken.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.stats import poisson

import headcount as hc
from headcount.survey.design import Design, Release
from headcount.survey.questions import Choice, Number, Question, Scale, Several, YesNo
from headcount.survey.survey import Survey

# The probabilities of the same outcomes for one answer and for another one.
Pair = tuple[NDArray[np.float64], NDArray[np.float64]]
View = list[Pair]  # independent observations
Shift = tuple[int, ...]
WIDTH = 1 / 256  # losses that differ by less are merged
LARGEST = 8.0  # so are all losses beyond this one
QUICK = range(16)


class Merged:
    """A pair whose outcomes are merged by their losses. `sure` is P of outcomes that Q excludes.

    Masses of Q are multiplied by e^loss, and so are about as large as those of P. Otherwise the
    errors of Fourier transforms would count e^ε-fold.
    """

    def __init__(self, pair: Pair) -> None:
        seen = pair[0] + pair[1] > 1e-17
        one, other = pair[0][seen], pair[1][seen]
        sure = other == 0
        self.sure = float(one[sure].sum())
        with np.errstate(divide="ignore"):
            losses = np.log(one[~sure]) - np.log(other[~sure])
        places = np.round(np.clip(losses, -LARGEST, LARGEST) / WIDTH).astype(np.int64)
        self.start = int(places.min())
        weighted = (one[~sure], other[~sure] * np.exp(places * WIDTH))
        self.masses = [np.bincount(places - self.start, mass) for mass in weighted]

    @property
    def key(self) -> tuple[Any, ...]:
        """Pairs with the same key have the same divergences."""
        return self.start, self.sure, *(np.round(mass, 13).tobytes() for mass in self.masses)


def largest(choices: Sequence[Sequence[View]], epsilons: Sequence[float]) -> NDArray[np.float64]:
    """The largest divergences, where each release has its own view, in its own direction."""
    merged = [[[Merged(pair) for pair in view] for view in views] for views in choices]
    lengths = [
        max(sum(len(one.masses[0]) - 1 for one in view) for view in views) for views in merged
    ]
    size = next_fast_len(sum(lengths) + 1, real=True)
    listed = []
    for views in merged:
        # Views whose observations are the same, up to their order, count once.
        kinds = {tuple(sorted(one.key for one in view)): view for view in views}
        listed.append([_transformed(view, size) for view in kinds.values()])
    worst = np.zeros(len(epsilons))
    for combination in _combinations(listed, [id(views) for views in choices]):
        product = np.prod([one for one, _, _ in combination], axis=0)
        upper, lower = irfft(product, size)
        losses = (sum(start for _, start, _ in combination) + np.arange(size)) * WIDTH
        factors = np.exp(np.minimum(np.array(epsilons)[:, None] - losses, 600))
        finite = math.prod(1 - sure for _, _, sure in combination)
        gaps = np.maximum(upper - factors * np.maximum(lower, 0), 0).sum(axis=1) + 1 - finite
        worst = np.maximum(worst, gaps)
    return worst


def _transformed(view: Sequence[Merged], size: int) -> tuple[NDArray[np.complex128], int, float]:
    found = [[rfft(mass, size) for mass in one.masses] for one in view]
    sure = 1 - math.prod(1 - one.sure for one in view)
    return np.prod(found, axis=0), sum(one.start for one in view), sure


def _combinations(listed: Sequence[Sequence[Any]], same: Sequence[int]) -> Iterator[list[Any]]:
    """One view of each release. The order of the waves of one release does not matter."""
    numbers = {one: same.count(one) for one in same}
    first = {one: same.index(one) for one in same}
    each = [
        itertools.combinations_with_replacement(listed[first[one]], times)
        for one, times in numbers.items()
    ]
    for some in itertools.product(*each):
        yield [view for waves in some for view in waves]


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
    return one, other


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


def alone(pairs: Sequence[Pair]) -> list[View]:
    return [[pair] for pair in pairs]


def messages(built: hc.Protocol) -> list[View]:
    """The exact laws of one person's messages, for all pairs of values."""
    codes = built.task.settings.get("codes", range(built.task.domain))
    if built.task.name == "boxes":
        codes = sorted(
            sum(1 << at for at, tick in enumerate(one) if tick)
            for one in itertools.product((0, 1), repeat=len(built.task.settings["labels"]))
            if sum(one) <= built.task.settings["at_most"]
        )
    if built.task.name == "mean":
        codes = (built.task.settings["low"], built.task.settings["high"])
    laws = [built.law(code) for code in codes]
    found = []
    for one, other in itertools.permutations(laws, 2):
        assert one is not None
        assert other is not None
        names = [*{*one, *other}]
        pair = [np.array([float(law.get(name, 0)) for name in names]) for law in (one, other)]
        found.append((pair[0], pair[1]))
    return alone(found)


def views_of(release: Release) -> list[View]:
    """The pairs of views of a release, for all replaced answers and both directions."""
    built, task = release.protocol, release.protocol.task
    if built.trust is hc.Trust.LOCAL:
        return messages(built)
    known, rate, people = built.parameters, built.budget.epsilon, built.crowd.honest
    steps, mean = int(known.get("levels", 1)), noise_of(known)
    boxes, most = len(task.settings.get("labels", ())), task.settings.get("at_most", 0)
    changed = ticked(boxes, most) if task.name == "boxes" else []
    both = [poisson_shift(mean, by) for by in (1, -1)] if mean else []
    made: dict[str, Callable[[], list[View]]] = {
        "central.geometric": lambda: alone([geometric(rate / steps, by) for by in {1, steps}]),
        "central.cube": lambda: alone([cube(rate, most, shift) for shift in changed]),
        "central.sum-zero": lambda: alone([sum_zero(rate, task.domain)]),
        "central.tree": lambda: [[geometric(rate / (2 * steps), 1)] * (2 * steps)],
        "shuffle.fake-users": lambda: [both],
        "shuffle.tree": lambda: [both * steps],
        "shuffle.fake-user-boxes": lambda: [
            [poisson_shift(mean, by) for by in shift if by] for shift in changed
        ],
        "shuffle.randomized-response": lambda: alone(
            responses(people, known["lambda"] / (2 * people))
        ),
        "shuffle.zero-exact": lambda: alone(zero_exact(people, float(known["p"]))),
        "shuffle.noisy-shuffler": lambda: alone(
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
        if trust is hc.Trust.SHUFFLE and noise == "people" and rng.random() < 0.05:
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
    trust = hc.Trust(("central", "shuffle", "local")[seed % 3])
    shuffled = trust is hc.Trust.SHUFFLE
    noise: Any = str(rng.choice(["people", "people", "shuffler"])) if shuffled else "people"
    questions = [drawn_question(rng, at, trust, noise) for at in range(int(rng.integers(2, 4)))]
    most = {hc.Trust.CENTRAL: 6.0, hc.Trust.SHUFFLE: 3.0, hc.Trust.LOCAL: 12.0}[trust]
    epsilon = float(rng.uniform(0.5, most))
    delta = float(10 ** rng.uniform(-6, -0.5)) * int(shuffled or rng.random() < 0.5)
    if any(one.protocol for one in questions):
        delta = float(rng.uniform(0.2, 0.5))
    listed = [one.id for one in questions if one.kind in ("yes-no", "choice", "scale")]
    crossed = shuffled and noise == "people" and len(listed) == 2 and delta < 0.2
    return Survey(
        questions, hc.Budget(epsilon, delta), trust, int(rng.integers(1, 5)) + 2 * (not shuffled),
        noise=noise, waves=1 if shuffled and len(questions) > 2 else int(rng.choice([1, 1, 2])),
        tables=[(listed[0], listed[1])] if crossed else [],
    )  # fmt: skip


def answered(found: Design) -> list[list[int]]:
    """The places of the releases that one person may answer together, by their definition."""
    if found.releases_each is None:
        return [list(range(len(found.releases)))]
    ends = [0, *itertools.accumulate(one.share for one in found.releases)]
    sets = []
    for place in {end % 2**32 for end in ends}:
        points = [place + 2**32 * turn for turn in range(found.releases_each)]
        parts = itertools.pairwise(ends)
        sets.append([at for at, (a, b) in enumerate(parts) if any(a <= u < b for u in points)])
    return sets


def check(found: Design) -> None:
    """Neither the guarantee nor the curve is below the truth."""
    views = [views_of(one) for one in found.releases]
    promised = found.guarantee
    assert promised.epsilon <= found.budget.epsilon
    assert promised.delta <= found.budget.delta
    epsilons = (promised.epsilon, 0.0, promised.epsilon / 2, -promised.epsilon / 2)
    chosen = itertools.combinations_with_replacement(answered(found), found.waves)
    truths = np.max([_of_waves(views, sets, epsilons) for sets in chosen], axis=0)
    claims = [found.curve.delta(epsilon) for epsilon in epsilons]
    assert np.all(claims >= truths * (1 - 1e-8) - 1e-11)
    assert promised.delta >= truths[0] * (1 - 1e-8) - 1e-11
    if promised.exact and promised.delta:
        assert promised.delta <= truths[0] * 1.03 + 1e-9
    if promised.exact and not promised.delta:
        losses = [max(map(largest_loss, some)) for some in views]
        spent = found.waves * max(sum(losses[at] for at in some) for some in answered(found))
        assert spent == pytest.approx(promised.epsilon, rel=1e-6)


def largest_loss(view: View) -> float:
    """The largest loss of a view, which occurs if each of its observations has its largest one."""
    seen = [(one[one > 1e-200], other[one > 1e-200]) for one, other in view]
    return math.fsum(float((np.log(one) - np.log(other)).max()) for one, other in seen)


def _of_waves(
    views: Sequence[list[View]], sets: Sequence[Sequence[int]], epsilons: Sequence[float]
) -> NDArray[np.float64]:
    return largest([views[at] for some in sets for at in some], epsilons)


def judge(seeds: Sequence[int]) -> int:
    judged = 0
    for seed in seeds:
        try:
            found = drawn_survey(seed).design
        except hc.Infeasible:  # a protocol that needs more people
            continue
        check(found)
        judged += 1
    return judged


def test_random_surveys_keep_their_promise() -> None:
    assert judge(QUICK) >= len(QUICK) - 4


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_many_random_surveys_keep_their_promise(part: int) -> None:
    """1,000 surveys in all, except for a few that are not feasible."""
    assert judge(range(1000 + 50 * part, 1050 + 50 * part)) >= 40


@pytest.mark.parametrize(
    "questions",
    [
        [YesNo("a", "?")],
        [YesNo(name, "?") for name in "ab"],
        [Choice("a", "?", ("x", "y", "z"))],
        [Number("a", "?", 0, 3, whole=True)],
        [Number("a", "?", 0, 3, whole=True, want=("quantiles",))],
        [Several("a", "?", ("x", "y"), 1)],
    ],
    ids=["count", "cube", "sum-zero", "mean", "tree", "ticks"],
)
def test_compositions_of_central_noise_are_exact_if_they_say_so(questions: list[Question]) -> None:
    """The same answers change in each of 15 waves."""
    found = Survey(questions, hc.Budget(9.0, 1e-3), hc.Trust.CENTRAL, 10, waves=15).design
    (views,) = (views_of(one) for one in found.releases)
    truth = max(largest([[view]] * 15, [found.guarantee.epsilon])[0] for view in views)
    assert truth * (1 - 1e-8) <= found.guarantee.delta <= 1e-3
    assert found.guarantee.exact == (questions[0].kind != "several")
    if found.guarantee.exact:
        assert found.guarantee.delta <= 1.01 * truth
