"""The joint promise of a survey, judged by listing the views of one person's replaced answers.

All laws are written here from the definitions of the noise, or are the exact laws of messages. Only
the parameters come from the library. Outcomes of a view are merged if their losses are about the
same, and outcomes of two views if the sums of their losses are. Merging lowers a divergence. So
every number here is at most the truth, and a promise below it is broken.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.fft import irfft, irfft2, next_fast_len, rfft, rfft2
from scipy.stats import poisson

import headcount as hc
from headcount.survey.answers import NO_ANSWER
from headcount.survey.design import Design, Release
from headcount.survey.questions import Choice, Number, Question, Scale, Several, YesNo
from headcount.survey.survey import Survey

# The probabilities of the same outcomes for one answer and for another one.
Pair = tuple[NDArray[np.float64], NDArray[np.float64]]
View = list[Pair]  # independent observations
Shift = tuple[int, ...]
WIDTH = 1 / 256  # losses that differ by less are merged
LARGEST = 8.0  # so are all losses beyond this one
QUICK = (0, 4, 5, 6, 8, 11, 16, 28, 31, 49, 51, 73)  # seeds of surveys that are designed quickly


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
        kinds = {_kind(view): view for view in views}
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


def _kind(view: Sequence[Merged]) -> tuple[Any, ...]:
    return tuple(sorted(one.key for one in view))


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


class TooManyOutcomes(Exception):
    """Noise with more outcomes than can be listed."""


def shifted(weight: Callable[..., NDArray[Any]], shift: Shift, reach: int) -> Pair:
    """Noise z with the probability weight(z)/Σweight, and the same noise moved by the shift."""
    reach = max(reach, 2)
    if (2 * reach + 1) ** len(shift) > 10**7:
        raise TooManyOutcomes
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


def two_buckets(rate: float, buckets: int, most: int | None = None) -> Pair:
    """Noise of all buckets with the weight e^(−rate/2·Σ|z|), which adds up to 0. A person moves
    between two of the buckets. With `most`, no bucket has noise beyond ±most.
    """
    reach = math.ceil(30 / rate) if most is None else most
    wide = np.arange(-2 * reach, 2 * reach + 1) if most is None else np.arange(-most, most + 1)
    rest = np.ones(1)  # the law of the sum of all other buckets
    for _ in range(buckets - 2):
        rest = np.convolve(rest, np.exp(-rate / 2 * np.abs(wide)))
    middle = len(rest) // 2

    def weight(x: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
        inside = np.abs(x + y) <= middle
        if most is not None:
            inside = inside & (np.abs(x) <= most) & (np.abs(y) <= most)
        others = rest[np.clip(middle - x - y, 0, len(rest) - 1)]
        return np.where(inside, np.exp(-rate / 2 * (np.abs(x) + np.abs(y))) * others, 0.0)

    return shifted(weight, (1, -1), reach + 1)


def cut(rate: float, dummies: int, by: int) -> Pair:
    """From 0 to so many dummies with the weight e^(−rate·|z|) about the middle, moved by `by`."""
    seen = np.arange(-abs(by), dummies + abs(by) + 1)

    def weight(z: NDArray[Any]) -> NDArray[Any]:
        inside = (z >= 0) & (z <= dummies)
        return np.where(inside, np.exp(-rate * np.abs(z - dummies // 2)), 0.0)

    own, moved = weight(seen), weight(seen - by)
    return own / own.sum(), moved / own.sum()


def wrapped(rate: float, modulus: int, by: int) -> Pair:
    """A total modulo q with two-sided geometric noise, moved by some steps.

    Totals that are very far away are left out.
    """
    reach = min(modulus // 2, math.ceil(45 / rate) + abs(by))
    seen = np.arange(-reach, min(reach, modulus - reach))

    def law(totals: NDArray[Any]) -> NDArray[Any]:
        above = totals % modulus
        sums = np.exp(-rate * above) + np.exp(-rate * (modulus - above))
        return np.asarray(sums * math.tanh(rate / 2) / -math.expm1(-rate * modulus))

    return law(seen), law(seen - by)


def signs(built: hc.Protocol) -> list[Pair]:
    """The numbers of messages +1 and −1 of all people. One person sends one more +1.

    Rare outcomes are left out, since Fourier transforms are not exact.
    """
    law, people = built.law(0), built.crowd.honest
    assert law is not None
    chances = {(dict(one).get(1, 0), dict(one).get(-1, 0)): float(law[one]) for one in law}
    size = people * max(map(max, chances)) + 1
    one = np.zeros((size, size))
    for sent, chance in chances.items():
        one[sent] = chance
    every = irfft2(rfft2(one) ** people, s=(size, size))
    without, more = np.pad(every, ((0, 1), (0, 0))), np.pad(every, ((1, 0), (0, 0)))
    # With one more message +1, there is no outcome without any.
    sure = np.arange(size + 1)[:, None] == 0
    kept = (without > 1e-14) & ((more > 1e-14) | sure)
    pair = without[kept], np.where(sure, 0.0, more)[kept]
    return [pair, pair[::-1]]


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


def ticks(labels: Sequence[str], most: int) -> list[Shift]:
    """All answers to a question with boxes. People who do not answer tick nothing else."""
    answers = itertools.product((0, 1), repeat=len(labels))
    alone = [tuple(int(label == NO_ANSWER) for label in labels)]
    given = [one for one in answers if sum(one) <= most and not (NO_ANSWER in labels and one[-1])]
    return given + (alone if NO_ANSWER in labels else [])


def ticked(labels: Sequence[str], most: int) -> list[Shift]:
    """All differences of two answers, up to the order of the boxes."""
    differences = itertools.permutations(ticks(labels, most), 2)
    return sorted({tuple(sorted(a - b for a, b in zip(*two, strict=True))) for two in differences})


def alone(pairs: Sequence[Pair]) -> list[View]:
    return [[pair] for pair in pairs]


def messages(built: hc.Protocol) -> list[View]:
    """The exact laws of one person's messages, for all pairs of values."""
    codes = built.task.settings.get("codes", range(built.task.domain))
    if built.task.name == "boxes":
        codes = sorted(
            sum(1 << at for at, tick in enumerate(one) if tick)
            for one in ticks(built.task.settings["labels"], built.task.settings["at_most"])
        )
    if built.task.name == "mean":
        low, high = built.task.settings["low"], built.task.settings["high"]
        codes = range(low, high + 1) if built.task.settings["whole"] else (low, high)
    laws = [built.law(code) for code in codes]
    found = []
    for one, other in itertools.permutations(laws, 2):
        assert one is not None
        assert other is not None
        names = [*{*one, *other}]
        pair = [np.array([float(law.get(name, 0)) for name in names]) for law in (one, other)]
        found.append((pair[0], pair[1]))
    return alone(found)


def noisy_shuffler(built: hc.Protocol) -> list[View]:
    """The views with the dummies of a shuffler."""
    task, known, rate = built.task, built.parameters, built.budget.epsilon
    if task.name == "boxes":
        most = task.settings["at_most"]
        changed = ticked(task.settings["labels"], most)
        return alone([cut_boxes(rate, int(known["dummies"]), most, shift) for shift in changed])
    if task.name == "mean" and "modulus" not in known:
        levels, dummies = int(known["levels"]), int(known["all_dummies"])
        return alone([cut(rate / levels, dummies, by) for by in both_ways(levels)])
    if task.name == "mean":
        return shares(rate, int(known["levels"]), int(known["modulus"]))
    assert known["all_dummies"] == task.domain * known["dummies"] / 2  # their number is fixed
    return alone([two_buckets(rate, task.domain, int(known["dummies"]) // 2)])


def shares(rate: float, levels: int, modulus: int) -> list[View]:
    """All messages together tell at least their total."""
    return alone([wrapped(rate / levels, modulus, by) for by in both_ways(levels)])


def both_ways(levels: int) -> list[int]:
    """By how much one person can move a sum. Of many steps, only the least and the most."""
    steps = range(1, levels + 1) if levels <= 4 else (1, levels)
    return [sign * by for by in steps for sign in (1, -1)]


def of_levels(pairs: View, levels: int) -> list[View]:
    """The views of a tree. A person moves on all levels, or only on the lowest ones."""
    return [pairs * moved for moved in range(1, levels + 1)]


def views_of(release: Release) -> list[View]:
    """The pairs of views of a release, for all replaced answers and both directions."""
    built, task = release.protocol, release.protocol.task
    if built.trust is hc.Trust.LOCAL:
        return messages(built)
    known, rate, people = built.parameters, built.budget.epsilon, built.crowd.honest
    steps, mean = int(known.get("levels", 1)), noise_of(known)
    most = task.settings.get("at_most", 0)
    changed = ticked(task.settings["labels"], most) if task.name == "boxes" else []
    node = [poisson_shift(mean, by) for by in (1, -1)] if mean else []
    if built.name == "shuffle.tree" and not mean:
        node = [cut(rate / (2 * steps), int(known["dummies"]), by) for by in (1, -1)]
    made: dict[str, Callable[[], list[View]]] = {
        "central.geometric": lambda: alone(
            [geometric(rate / steps, abs(by)) for by in both_ways(steps)]
        ),
        "central.cube": lambda: alone([cube(rate, most, shift) for shift in changed]),
        "central.sum-zero": lambda: alone([two_buckets(rate, task.domain)]),
        "central.tree": lambda: of_levels([geometric(rate / (2 * steps), 1)] * 2, steps),
        "shuffle.fake-users": lambda: [node],
        "shuffle.tree": lambda: of_levels(node, steps),
        "shuffle.fake-user-boxes": lambda: [
            [poisson_shift(mean, by) for by in shift if by] for shift in changed
        ],
        "shuffle.randomized-response": lambda: alone(
            responses(people, known["lambda"] / (2 * people))
        ),
        "shuffle.zero-exact": lambda: alone(zero_exact(people, float(known["p"]))),
        "shuffle.split-and-mix": lambda: shares(
            rate, int(known["precision"]), int(known["modulus"])
        ),
        "shuffle.correlated": lambda: alone(signs(built)),
        "shuffle.noisy-shuffler": lambda: noisy_shuffler(built),
    }
    return made[built.name]()


# Surveys --------------------------------------------------------------------------------------


KINDS = ("yes-no", "choice", "several", "scale", "number")


def drawn_question(rng: np.random.Generator, at: int, trust: hc.Trust, noise: str) -> Question:
    kind, name = rng.choice(KINDS), f"q{at}"
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
    wanted = ("quantiles",) if rng.random() < 0.4 else ("mean",)
    high, mean = int(rng.integers(2, 5)), wanted == ("mean",) and not some["optional"]
    whole = not mean or bool(rng.random() < 0.9)
    if not mean and high + 1 + some["optional"] == 4 and rng.random() < 0.7:
        # A tree with so few cells has one level, unless it must have two.
        some["protocol"] = f"{trust}.tree"
        some["options"] = {"fanouts": "2,2"} | ({"noise": noise} if noise == "shuffler" else {})
    return Number(name, "?", 0, high, whole=whole, want=wanted, **some)


def shares_numbers(question: Question) -> bool:
    """Whether people send shares of a number, if they add the noise. This needs a larger crowd."""
    return question.task.name == "mean"


def drawn_survey(seed: int) -> Survey:
    rng = np.random.default_rng(seed)
    trust = hc.Trust(("central", "shuffle", "local")[seed % 3])
    shuffled = trust is hc.Trust.SHUFFLE
    noise: Any = str(rng.choice(["people", "people", "shuffler"])) if shuffled else "people"
    number = int(rng.integers(2, 4))
    questions = [drawn_question(rng, at, trust, noise) for at in range(number)]
    alike = shuffled and noise == "people" and rng.random() < 0.03
    if alike:  # such questions may have correlated noise in crowds that are not too small
        questions = [YesNo(f"q{at}", "?") for at in range(number)]
    most = {hc.Trust.CENTRAL: 6.0, hc.Trust.SHUFFLE: 3.0, hc.Trust.LOCAL: 12.0}[trust]
    epsilon = float(rng.uniform(0.5, most))
    delta = float(10 ** rng.uniform(-6, -0.5)) * int(shuffled or rng.random() < 0.5)
    if any(one.protocol for one in questions if one.kind == "yes-no"):
        delta = float(rng.uniform(0.2, 0.5))
    listed = [
        one.id for one in questions if one.kind not in ("several", "number") and not one.protocol
    ]
    crossed = len(listed) > 1 and rng.random() < 0.3 and not alike
    people = int(rng.integers(1, 5)) + (2 + crossed) * (not shuffled)
    if alike or (shuffled and noise == "people" and any(map(shares_numbers, questions))):
        people = int(rng.integers(19, 25))
    return Survey(
        questions, hc.Budget(epsilon, delta), trust, people, noise=noise,
        waves=1 if alike or (shuffled and number > 2) else int(rng.choice([1, 1, 2])),
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
    for table in found.tables:
        # If one of its two answers changes, so does the cell. All these changes look the same. So
        # views of a table go together with all views of its questions.
        place = next(at for at, one in enumerate(found.releases) if table.id in one.ids)
        assert len({_kind([Merged(pair) for pair in view]) for view in views[place]}) == 1
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


def judge(seeds: Iterable[int], wanted: int) -> Counter[str]:
    """Check so many surveys, of those that are feasible and whose outcomes can be listed."""
    judged: Counter[str] = Counter()
    for seed in seeds:
        if judged.total() == wanted:
            break
        try:
            found = drawn_survey(seed).design
            check(found)
        except (hc.Infeasible, TooManyOutcomes):
            continue
        judged[found.trust] += 1
    return judged


def test_random_surveys_keep_their_promise() -> None:
    assert judge(QUICK, len(QUICK)).total() == len(QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_many_random_surveys_keep_their_promise(part: int) -> None:
    """1,000 surveys in all. Those that are not feasible or too large to list do not count."""
    judged = judge(itertools.count(1000 * (part + 1)), 50)
    assert judged.total() == 50
    assert min(judged[trust] for trust in hc.Trust) >= 12


@pytest.mark.slow
@pytest.mark.parametrize(
    ("questions", "people", "epsilon", "delta"),
    [(1, 20, 1.0, 1e-3), (2, 22, 2.0, 1e-6), (3, 24, 3.0, 1e-2)],
)
def test_questions_with_correlated_noise_keep_their_promise(
    questions: int, people: int, epsilon: float, delta: float
) -> None:
    asked = [YesNo(f"q{at}", "?") for at in range(questions)]
    found = Survey(asked, hc.Budget(epsilon, delta), hc.Trust.SHUFFLE, people).design
    assert {one.protocol.name for one in found.releases} == {"shuffle.correlated"}
    assert found.guarantee.exact == (questions == 1)
    check(found)


def test_random_surveys_have_all_kinds_in_all_trusts() -> None:
    seen = Counter(
        (survey.trust, survey.noise, one.kind, one.optional, one.task.name, bool(survey.tables))
        for survey in map(drawn_survey, range(1000, 1600))
        for one in survey.questions
    )
    for trust, noise in [("central", "people"), ("shuffle", "people"), ("shuffle", "shuffler"),
                         ("local", "people")]:  # fmt: skip
        own = [one for one in seen if one[:2] == (trust, noise)]
        assert {one[2:4] for one in own} == set(itertools.product(KINDS, (False, True)))
        assert {one[4] for one in own if one[2] == "number"} == {"mean", "distribution"}
        assert {one[5] for one in own} == {False, True}


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
