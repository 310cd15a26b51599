"""The right answers of the guide's quiz, and what its simulations must show.

Everything here follows from what the page shows to its readers, by formulas of our own.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

SIGMAS = 6  # a simulation with a fixed seed is never further away than this
ROUNDED = 0.051  # half a unit of a number with one decimal place


@dataclass(frozen=True)
class Shown:
    """A question as the page shows it. Tables have rows of cells."""

    name: str
    story: str
    answers: Sequence[str]
    tables: Sequence[Sequence[Sequence[str]]]
    data: Any = field(repr=False)


class Result(NamedTuple):
    """The text of a simulation, its three numbers as texts, and the rows of its table."""

    text: str
    believed: str
    found: str
    exact: str
    rows: Sequence[Sequence[str]]


class Expected(NamedTuple):
    """What a simulation shows in the long run, its standard deviation, and what was believed."""

    exact: float
    spread: float
    believed: float


def numbers(text: str) -> list[float]:
    """All numbers in a text. A percentage is a share, and ·10⁻⁶ is a power of ten."""
    powers = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
    found = re.findall(
        r"(−?[\d,]*\.?\d+)(?: · 10([⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+))?( %)?|\b10([⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+)", text
    )  # fmt: skip
    values = []
    for digits, power, percent, ten in found:
        value = float(digits.replace(",", "").replace("−", "-") or 1)
        exponent = (power or ten).translate(powers)
        values.append(value * (0.01 if percent else 1) * 10.0 ** int(exponent or 0))
    return values


def number(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    assert found, (pattern, text)
    return numbers(found[1])[0]


def only(question: Shown, fits: Callable[[str], bool]) -> int:
    found = [at for at, answer in enumerate(question.answers) if fits(answer)]
    assert len(found) == 1, (question.name, question.answers)
    return found[0]


def binomial(trials: int, p: float) -> list[float]:
    return [
        math.exp(
            math.lgamma(trials + 1)
            - math.lgamma(k + 1)
            - math.lgamma(trials - k + 1)
            + k * math.log(p)
            + (trials - k) * math.log1p(-p)
        )
        for k in range(trials + 1)
    ]


def near(value: float, digits: float = 5e-3) -> Callable[[str], bool]:
    """Whether an answer states this number, up to rounding. δ and ε are rounded up."""
    return lambda answer: any(abs(one - value) <= digits * abs(value) for one in numbers(answer))


def proportion(p: float, runs: int) -> float:
    return math.sqrt(p * (1 - p) / runs)


# From messages to an estimate -----------------------------------------------------------------


def moment(asked: Shown) -> int:
    people, parts, yes = (
        number(pattern, asked.story)
        for pattern in (r"^([\d,]+) people", r"probability 1/(\d+)", r"([\d,]+) messages say yes")
    )
    estimate = (yes - people / parts) / (1 - 2 / parts)
    return only(asked, lambda answer: abs(numbers(answer)[0] - estimate) < 1e-6)


def moment_shown(asked: Shown, chosen: int, result: Result) -> Expected:
    """Answers are linear in the number of messages, which is its own expectation here."""
    people, parts = number(r"^([\d,]+) people", asked.story), number(r"1/(\d+)", asked.story)
    truth = numbers(asked.answers[moment(asked)])[0]
    answer = numbers(asked.answers[chosen])[0]
    slope = 2 / (1 - 2 / parts) if answer == 2 * truth else 1.0
    spread = slope * math.sqrt(people * (1 - 1 / parts) / parts / 300)
    assert f"{truth:.0f} people hold a yes" in result.text
    return Expected(answer, spread + ROUNDED / SIGMAS, truth)


def noise_error(asked: Shown) -> float:
    people, epsilon = number(r"^([\d,]+) people", asked.story), number(r"ε = ([\d.]+)", asked.story)
    return math.sqrt(people) / (2 * math.sinh(epsilon / 2))


def noise(asked: Shown) -> int:
    return only(asked, near(noise_error(asked)))


def noise_shown(asked: Shown, chosen: int, result: Result) -> Expected:
    error = noise_error(asked)
    return Expected(error, error / math.sqrt(2 * 300), numbers(asked.answers[chosen])[0])


def clipped(asked: Shown) -> tuple[float, float]:
    """The mean of clipped estimates if nobody holds a yes, and their standard deviation."""
    people = int(number(r"^([\d,]+) people", asked.story))
    lie = 1 / (1 + math.exp(number(r"ε = ([\d.]+)\.", asked.story)))
    law = binomial(people, lie)
    values = [max(0.0, (k - people * lie) / (1 - 2 * lie)) for k in range(people + 1)]
    mean = sum(map(float.__mul__, law, values))
    return mean, math.sqrt(sum(p * (v - mean) ** 2 for p, v in zip(law, values, strict=True)))


def clipping(asked: Shown) -> int:
    mean = clipped(asked)[0]
    return only(asked, lambda answer: abs(numbers(answer)[0] - mean) <= ROUNDED)


def clipping_shown(asked: Shown, chosen: int, result: Result) -> Expected:
    mean, deviation = clipped(asked)
    spread = deviation / math.sqrt(1000) + ROUNDED / SIGMAS
    return Expected(mean, spread, numbers(asked.answers[chosen])[0])


def interval(asked: Shown) -> int:
    return only(asked, lambda answer: "of 100 intervals contain the truth" in answer)


def interval_shown(asked: Shown, chosen: int, result: Result) -> Expected:
    story, answer = asked.story, asked.answers[chosen]
    yes, people = (
        int(number(p, story)) for p in (r"(\d+) of [\d,]+ people", r"of ([\d,]+) people")
    )
    confidence = number(r"confidence of (\d+ %)", story)
    low, high = number(r"% is (\d+) to", story), number(r" to (\d+)\.", story)
    lie = 1 / (1 + math.exp(number(r"ε = ([\d.]+)\. The", story)))
    assert not low <= yes <= high  # the rehearsal shows an interval that misses the truth
    if "messages" in answer:
        return Expected(1 - lie, proportion(lie, people), confidence)
    if "probability" in answer:
        contain = number(r"intervals of (\d+) of them", result.text) / 1000
        assert contain > confidence - SIGMAS * proportion(confidence, 1000)
        return Expected(0, 0, confidence)
    own, other = binomial(yes, 1 - lie), binomial(people - yes, lie)
    inside = sum(
        one * two
        for k, one in enumerate(own)
        for more, two in enumerate(other)
        if one * two > 1e-12 and low <= (k + more - people * lie) / (1 - 2 * lie) <= high
    )
    return Expected(inside, proportion(inside, 1000), confidence)


# What privacy is --------------------------------------------------------------------------------


def factor_of(asked: Shown) -> float:
    return number(r"e[εα] = (\d+)", asked.story)


def privacy(asked: Shown) -> int:
    """Every pair of neighbors, both directions, and every event."""
    words = ("any two crowds", "in either order", "any set", f"{factor_of(asked):.0f} times")
    return only(asked, lambda answer: all(word in answer for word in words))


def privacy_shown(asked: Shown, chosen: int, result: Result) -> Expected:
    answer, factor = asked.answers[chosen], factor_of(asked)
    counts = {row[0]: [int(numbers(cell)[0]) for cell in row[1:]] for row in result.rows}
    exact = numbers(result.exact)[0]
    if "Nobody" in answer:
        guesses = sum(max(row) for row in counts.values()) / 20_000
        assert abs(guesses - numbers(result.found)[0]) < 1e-3
        assert 0.5 < exact <= factor / (1 + factor)  # the randomizer keeps the promise
        assert all(max(row) <= 1.2 * factor * min(row) for row in counts.values())
        return Expected(exact, proportion(exact, 20_000) + 1e-4, 0.5)
    if "as likely from a yes as from a no" in answer:
        yes, no = counts["“no”"]
        assert abs(no / yes - numbers(result.found)[0]) < 5e-3 * no / yes
        assert all(row[0] < 1.3 * factor * row[1] for row in counts.values())
        return Expected(exact, exact * math.sqrt(1 / yes + 1 / no), factor)
    assert counts["“guilty”"] == [numbers(result.found)[0], 0]
    assert 0.01 <= exact / 10_000 <= 0.05
    return Expected(exact, 10_000 * proportion(exact / 10_000, 10_000), 0)


def delta(asked: Shown) -> int:
    size = f"{number(r'δ = (0.[0-9]+)', asked.story):g}"
    words = ("any two crowds", "in either order", "any set", f"plus {size}")
    return only(asked, lambda answer: all(word in answer for word in words))


def delta_shown(asked: Shown, chosen: int, result: Result) -> Expected:
    answer, factor = asked.answers[chosen], factor_of(asked)
    size = number(r"δ = (0.\d+)", asked.story)
    assert number(r"least δ is (0.\d+)", result.text) == size
    proofs = 10_000 * proportion(size, 10_000)
    if "rounding" in answer:
        return Expected(10_000 * size, proofs, 0)
    truth = number(r"probability of ([\d.]+ %)", result.text)
    assert abs(truth - factor * (1 - truth) - size) < 5e-4 * factor  # two digits are shown
    if "fails" in answer:
        return Expected(0, 0, 10_000 * size)
    return Expected(truth, proportion(truth, 10_000) + 1e-4, size)


def ratio_of(rows: Sequence[Sequence[str]]) -> tuple[Fraction, str]:
    """The largest ratio of a table in percent, in both directions, and its message."""
    worst = (Fraction(0), "")
    for message, *cells in rows:
        yes, no = (Fraction(cell.removesuffix(" %")) for cell in cells)
        worst = max(worst, (yes / no, message), (no / yes, message))
    return worst


def mechanism(asked: Shown) -> int:
    factor = Fraction(int(factor_of(asked)))
    for table in asked.tables:
        for column in (1, 2):
            assert sum(Fraction(row[column].removesuffix(" %")) for row in table) == 100
    fits = [
        at
        for at, table in enumerate(asked.tables)
        if ratio_of(table)[0] <= factor and any(row[1] != row[2] for row in table)
    ]
    assert len(fits) == 1, asked.tables
    assert ratio_of(asked.tables[fits[0]])[0] == factor  # it just keeps the promise
    return fits[0]


def mechanism_shown(asked: Shown, chosen: int, result: Result) -> Expected:
    table = asked.tables[chosen]
    worst, message = ratio_of(table)
    if worst == 1:  # half truth, half lie
        difference = numbers(result.rows[0][1])[0] - numbers(result.rows[0][2])[0]
        assert difference == numbers(result.found)[0]
        assert result.believed == "large"
        share = float(Fraction(table[0][1].removesuffix(" %"))) / 100
        return Expected(0, 10_000 * math.sqrt(2) * proportion(share, 10_000), 10_000)
    assert message in result.text
    counts = next(row[1:] for row in result.rows if row[0] == message)
    spread = float(worst) * math.sqrt(sum(1 / numbers(count)[0] for count in counts))
    return Expected(float(worst), spread, factor_of(asked))


# What privacy costs -----------------------------------------------------------------------------


def multinomial_setting(asked: Shown) -> tuple[float, float, float]:
    return (
        number(r"^([\d,]+) people", asked.story),
        number(r"d = (\d+)", asked.story),
        number(r"α = ([\d.]+)\.", asked.story),
    )


def multinomial(asked: Shown) -> int:
    people, buckets, alpha = multinomial_setting(asked)
    assert people * alpha**2 >= buckets**2  # only then are the bounds of the same order
    right = only(asked, lambda answer: answer.startswith("d/(nα²), "))
    here = numbers(asked.answers[right].split("here ")[1])[0]
    assert abs(here - buckets / (people * alpha**2)) < 5e-3 * here
    return right


def multinomial_shown(asked: Shown, chosen: int, result: Result) -> Expected:
    _, buckets, alpha = multinomial_setting(asked)
    rates = {"1/(nα²)": alpha**-2, "d/(nα)": buckets / 4 / alpha, "1/n": 1.0}
    believed = rates[asked.answers[chosen].split(", here")[0]]
    exact = buckets / 4 * (math.sinh(1 / 4) / math.sinh(alpha / 4)) ** 2
    return Expected(exact, exact * math.sqrt(2 / (4 * 100) + 2 / (buckets * 100)), believed)


def density(asked: Shown) -> int:
    beta = number(r"β = (\d)", asked.story)
    smooth = Fraction(int(2 * beta), int(2 * beta + 1))
    rough = Fraction(int(2 * beta), int(2 * beta + 2))
    start = f"n−{smooth} without privacy, and (nα²)−{rough} with it."
    right = only(asked, lambda answer: answer.startswith(start))
    more, fewer, least = numbers(asked.answers[right].split("with it. ")[1])
    for shown, exponent in ((fewer, smooth), (least, rough)):
        assert abs(shown - more ** float(exponent)) < 5e-3 * shown
    return right


def density_shown(asked: Shown, chosen: int, result: Result) -> Expected:
    """The density is 2x, and it is estimated with K bins for 1,000 and for 25,000 people."""
    beta = int(number(r"β = (\d)", asked.story))
    answer = asked.answers[chosen]
    kept = "flipped" in result.text
    if answer.startswith("1/n"):
        believed, raised = 25.0, "1/(nα²)."
    elif kept:
        believed, raised = 25 ** (2 / 3), "(nα²)−2/3."
        assert answer.startswith(f"n−{Fraction(2 * beta, 2 * beta + 1)} ")
    else:
        believed, raised = 5.0, "n−1/2."
    assert f"falls like {raised}" in result.text
    q = 1 / (1 + math.exp(1 / 2)) if kept else 0.0
    variance = q * (1 - q) / (1 - 2 * q) ** 2
    errors, spread = [], 0.0
    for people, repeats in ((1000, 200), (25_000, 20)):
        best = (people / (3 * variance)) ** (1 / 4) if kept else (2 * people / 3) ** (1 / 3)
        bins = round(best)
        ones = [(1 - 2 * q) * (2 * k + 1) / bins**2 + q for k in range(bins)]
        heights = sum(bins * p * (1 - p) / (people * (1 - 2 * q) ** 2) for p in ones)
        errors.append(heights + 1 / (3 * bins**2))
        spread += (heights / errors[-1]) ** 2 * 2 / (bins * repeats)
    exact = errors[0] / errors[1]
    return Expected(exact, exact * math.sqrt(spread), believed)


# Whom to trust ------------------------------------------------------------------------------------

TRUSTS = {
    "to an institute": "the curator, who sees all values and adds the noise",
    "It adds nothing": "people to follow the protocol",
    "adds made-up answers": "the shuffler, which adds the noise",
    "the sender's name": "nobody else",
}


def trust(asked: Shown) -> int:
    words = next(words for sign, words in TRUSTS.items() if sign in asked.story)
    return only(asked, lambda answer: words in answer)


def trust_shown(asked: Shown, chosen: int, result: Result) -> Expected:
    epsilon, people = (number(p, asked.story) for p in (r"ε = ([\d.]+)\.", r"^([\d,]+) people"))
    permitted = 1 / (1 + math.exp(-epsilon))
    if "the sender's name" in asked.story:
        return Expected(permitted, proportion(permitted, 10_000), 1)
    if "It adds nothing" not in asked.story:
        return Expected(1, 0, permitted)
    setting = next(
        one for one in asked.data["trusts"] if (one["epsilon"], one["people"]) == (epsilon, people)
    )
    exact = 1 - (1 - int(setting["shuffle"]["weight"]) / 2**64) / 2
    return Expected(exact, proportion(exact, 10_000), permitted)


def collusion_setting(asked: Shown) -> Any:
    epsilon, people = (number(p, asked.story) for p in (r"ε = ([\d.]+) and", r"^([\d,]+) people"))
    name = "randomized-response" if "rarely a lie" in asked.story else "zero-exact"
    return next(
        one
        for one in asked.data["collusion"]
        if (one["epsilon"], one["people"]) == (epsilon, people) and one["protocol"].endswith(name)
    )


def collusion(asked: Shown) -> int:
    setting = collusion_setting(asked)
    if "rarely a lie" not in asked.story:
        return only(asked, lambda answer: "Nothing" in answer)
    lie = int(setting["device"]["weight"]) / 2**64
    left = math.log((1 - lie) / lie)
    return only(asked, lambda answer: any(0 <= one - left < 1.001e-3 for one in numbers(answer)))


def collusion_shown(asked: Shown, chosen: int, result: Result) -> Expected:
    answer, weight = asked.answers[chosen], int(collusion_setting(asked)["device"]["weight"])
    p = weight / 2**64
    if "rarely a lie" not in asked.story:  # two messages prove a yes
        assert result.rows[2][2] == "0"
        return Expected(10_000 * p, 10_000 * proportion(p, 10_000), 0)
    if "Nothing" in answer:
        return Expected(20_000 * p, 20_000 * proportion(p, 20_000), 0)
    permitted = 1 / (1 + math.exp(-numbers(answer)[0]))
    return Expected(1 - p, proportion(p, 20_000) + 1e-4, permitted)


def shuffler(asked: Shown) -> int:
    story = asked.story
    added, half, published = (
        number(pattern, story)
        for pattern in (r"survey, (\d+) of", r"subtracts (\d+)", r"result: (\d+)")
    )
    return only(asked, lambda answer: f"exactly {published + half - added:.0f}." in answer)


def shuffler_shown(asked: Shown, chosen: int, result: Result) -> Expected:
    answer = asked.answers[chosen]
    epsilon, half = number(r"ε = ([\d.]+),", asked.story), number(r"subtracts (\d+)", asked.story)
    a = math.exp(-epsilon)
    error = math.sqrt(2 * a) / (1 - a)  # cutting the tails off changes it by less than 0.1 %
    truth = numbers(asked.answers[shuffler(asked)])[0]
    if "No more" in answer:
        return Expected(0, 0, error)
    if numbers(answer)[0] == truth - half:
        return Expected(half, 0, 0)
    return Expected(2 * error, 2 * error * math.sqrt(6 / (4 * 10_000)), 0)


# Crowds -------------------------------------------------------------------------------------------


def honest_delta(asked: Shown) -> tuple[float, float]:
    """The δ of honest people in a zero-exact count, and the standard deviation of 20,000 runs."""
    people, few = number(r"^(\d+) people", asked.story), number(r"Only (\d+) of", asked.story)
    epsilon = number(r"ε = ([\d.]+) and", asked.story)
    setting = next(
        one
        for one in asked.data["honest"]
        if (one["epsilon"], one["people"], one["honest"]) == (epsilon, people, few)
    )
    law = binomial(int(few), int(setting["weight"]) / 2**64)
    no, yes = [*law, 0.0], [0.0, *law]
    gaps = [one - math.exp(epsilon) * other for one, other in zip(yes, no, strict=True)]
    other_way = sum(max(0.0, b - math.exp(epsilon) * a) for a, b in zip(yes, no, strict=True))
    exact = sum(gap for gap in gaps if gap > 0)
    assert other_way <= exact
    more, less = (
        sum(law[k] for k, gap in enumerate(gaps) if gap > 0) for law in (yes, no)
    )  # fmt: skip
    return exact, math.sqrt((more + math.exp(2 * epsilon) * less) / 20_000)


def honest(asked: Shown) -> int:
    exact = honest_delta(asked)[0]
    claimed = number(r"δ = (0.\d+)", asked.story)
    assert exact > claimed
    return only(asked, lambda answer: 0 <= numbers(answer)[0] - exact < 0.1 * exact)


def honest_shown(asked: Shown, chosen: int, result: Result) -> Expected:
    exact, spread = honest_delta(asked)
    return Expected(exact, spread, numbers(asked.answers[chosen])[0])


def one_message(asked: Shown) -> int:
    return only(asked, lambda answer: answer == f"still {factor_of(asked):.0f}")


def counted_ratio(exact: float, result: Result) -> float:
    """The standard deviation of a ratio of two counts, which the table shows."""
    first, second = (numbers(row[1])[0] for row in result.rows)
    assert abs(first / second - numbers(result.found)[0]) < 5e-3 * first / second
    return exact * math.sqrt(1 / first + 1 / second)


def one_message_shown(asked: Shown, chosen: int, result: Result) -> Expected:
    exact = factor_of(asked)
    believed = numbers(asked.answers[chosen])[0]
    return Expected(exact, counted_ratio(exact, result), believed)


def waves_factor(asked: Shown) -> float:
    repeats = "repeats it" in asked.story
    return factor_of(asked) ** (1 if repeats else number(r"in (\d) waves", asked.story))


def waves(asked: Shown) -> int:
    return only(asked, lambda answer: answer == f"{waves_factor(asked):.0f}")


def waves_shown(asked: Shown, chosen: int, result: Result) -> Expected:
    exact = waves_factor(asked)
    return Expected(exact, counted_ratio(exact, result), numbers(asked.answers[chosen])[0])


RIGHT: dict[str, Callable[[Shown], int]] = {
    "moment": moment,
    "noise": noise,
    "privacy": privacy,
    "delta": delta,
    "mechanism": mechanism,
    "multinomial": multinomial,
    "density": density,
    "clipping": clipping,
    "trust": trust,
    "shuffler": shuffler,
    "collusion": collusion,
    "honest": honest,
    "one-message": one_message,
    "waves": waves,
    "interval": interval,
}

SIMULATED: dict[str, Callable[[Shown, int, Result], Expected]] = {
    "moment": moment_shown,
    "noise": noise_shown,
    "privacy": privacy_shown,
    "delta": delta_shown,
    "mechanism": mechanism_shown,
    "multinomial": multinomial_shown,
    "density": density_shown,
    "clipping": clipping_shown,
    "trust": trust_shown,
    "shuffler": shuffler_shown,
    "collusion": collusion_shown,
    "honest": honest_shown,
    "one-message": one_message_shown,
    "waves": waves_shown,
    "interval": interval_shown,
}
