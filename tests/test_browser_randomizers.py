"""The randomizers of the browser draw exactly what Python draws from the same random bytes.

`python tests/test_browser_randomizers.py` writes `vectors/randomizers-1.json`. The vectors are read
in Chromium and in Node. The laws of the messages that Chromium draws from its own random bytes are
compared with the laws that the protocols state.
"""

import json
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from playwright.sync_api import Page
from scipy import stats

import headcount as hc
from browsing import ROOT, chromium, harness_page, in_browser, in_node
from devices import CASES, Case, drawn, edges, plain
from headcount.collect.device import device_data
from headcount.core.randomizer import BundleLaw
from headcount.core.tasks.margins import Margins
from headcount.randomness.shares import NegativeBinomialShare

FILE = ROOT / "vectors" / "randomizers-1.json"
SEEDS = range(3)
QUICK = [case for case in CASES if not case.slow]
RARELY = 1e-8  # the probability of a false alarm of one comparison


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with chromium() as browser, harness_page(browser) as found:
        yield found


def vectors() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(FILE.read_text())["vectors"]
    return found


# Vectors --------------------------------------------------------------------------------------


def as_calls(found: list[dict[str, Any]]) -> list[list[Any]]:
    return [[one["device"], one["value"], one["random"], one["slots"]] for one in found]


def expected(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"messages": one["messages"], "used": len(one["random"]) // 2} for one in found]


def test_chromium_draws_the_same_messages(page: Page) -> None:
    found = vectors()
    assert in_browser(page, "messages", as_calls(found)) == expected(found)


def test_node_draws_the_same_messages() -> None:
    found = vectors()
    assert in_node("messages", as_calls(found)) == expected(found)


def check_current(cases: list[Case]) -> None:
    stored = vectors()
    for case in cases:
        for one in drawn(case, SEEDS):
            assert any(agree(one, other) for other in stored), case


def agree(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two vectors are the same. Weights that are searched for in floating-point numbers may
    differ in their last digits on another machine.
    """
    (rest, weights), (other_rest, others) = map(without_weights, (one, other))
    return rest == other_rest and weights == pytest.approx(others, rel=1e-9)


def without_weights(one: dict[str, Any]) -> tuple[dict[str, Any], list[float]]:
    device = dict(one["device"])
    weights = device.pop("weights", []) if device["kind"] == "signs" else []
    return {**one, "device": device}, [float(weight) for weight in weights]


def test_vectors_are_current() -> None:
    assert {one["protocol"] for one in vectors()} == {case.name for case in CASES}
    check_current(QUICK)
    stored = vectors()
    assert all(one in stored for one in edges())


@pytest.mark.slow
def test_all_vectors_are_current() -> None:
    check_current([case for case in CASES if case.slow])


@pytest.mark.slow
def test_many_random_draws_agree() -> None:
    """Rare branches, such as ties of thresholds and large clusters of noise, need many draws."""
    found = [one for case in QUICK for one in drawn(case, range(100, 160))]
    assert in_node("messages", as_calls(found)) == expected(found)


# Laws -----------------------------------------------------------------------------------------


def key_of(bundle: tuple[tuple[Any, int], ...]) -> str:
    """A bundle as the harness writes it."""
    sent = [
        ",".join(map(str, message)) if isinstance(message, tuple) else str(message)
        for message, copies in bundle
        for _ in range(copies)
    ]
    return " ".join(sorted(sent))


def p_value(law: dict[str, float], counts: dict[str, int]) -> float:
    """The p-value of a chi-square test. Outcomes with few expected draws are one outcome."""
    draws = sum(counts.values())
    often = {key: draws * chance for key, chance in law.items() if draws * chance >= 20}
    observed = [counts.get(key, 0) for key in often]
    wanted = list(often.values())
    if draws - sum(wanted) > 1e-6 * draws or sum(observed) < draws:
        observed.append(draws - sum(observed))
        wanted.append(max(draws - sum(wanted), 1e-9))
    statistic = sum((o - e) ** 2 / e for o, e in zip(observed, wanted, strict=True))
    return float(stats.chi2.sf(statistic, max(1, len(wanted) - 1)))


def floats(law: BundleLaw) -> dict[str, float]:
    return {key_of(bundle): float(chance) for bundle, chance in law.items()}


SMALL = [
    Case("shuffle.fake-users", hc.Histogram(2), 3, (1,)),
    Case("shuffle.noisy-shuffler", hc.Histogram(5), 1, (3,), options=(("response_epsilon", 2.0),)),
    Case("shuffle.zero-exact", hc.Count(), 1, (0,)),
    Case("shuffle.zero-exact-histogram", hc.Histogram(3), 1, (2,)),
    Case("shuffle.fake-user-boxes", hc.Boxes(["a", "b", "c"], 2), 3, (["a", "c"],)),
    Case("local.randomized-response", hc.Count(), 1, (0, 1)),
    Case("local.some-boxes", hc.Boxes(["a", "b", "c"]), 1, (["a", "c"],)),
    Case("local.tree", hc.Distribution(0, 4, 4), 1, (2.5,)),
    Case("local.padded-boxes", hc.Boxes(["a", "b", "c", "d"], 2), 1, (["c"],)),
    Case("local.k-ary", hc.Histogram(4), 1, (3,)),
    Case("local.unary-optimized", hc.Histogram(5), 1, (2,)),
    Case("local.subset", hc.Histogram(6), 1, (5,)),
    Case("local.hadamard", hc.Histogram(6), 1, (5,)),
    Case("local.hashing", hc.Histogram(4), 1, (3,)),
    Case("local.one-bit-mean", hc.Mean(0, 10), 1, (3.3,)),
    Case("local.piecewise-mean", hc.Mean(0, 10), 1, (3.3,), options=(("levels", 8),)),
    Case("local.hybrid-mean", hc.Mean(0, 10), 3, (3.3,), options=(("levels", 8),)),
    Case("local.laplace-mean", hc.Mean(0, 10), 1, (3.3,), options=(("levels", 4),)),
    Case("shuffle.correlated", hc.Count(), 1, (1,), options=(("max_slots", 16),), slow=True),
    Case("shuffle.unary-sum", hc.Mean(0, 1), 1, (0.3,), options=(("bits", 4),), slow=True),
    Case("shuffle.correlated-histogram", hc.Histogram(3), 3, (2,), options=(("max_slots", 16),)),
    Case("shuffle.randomized-response", hc.Count(), 1, (0, 1)),
    Case("shuffle.k-ary", hc.Histogram(4), 1, (3,)),
    Case("shuffle.amplified", hc.Histogram(4), 1, (0,)),
    Case("shuffle.fixed-point-sum", hc.Mean(0, 1), 1, (0.3,)),
    Case("shuffle.tree", hc.Distribution(0, 4, 4), 3, (2.5,), 3000),
    Case("shuffle.tree", hc.Distribution(0, 4, 4), 1, (2.5,), options=(("noise", "shuffler"),)),
    Case("shuffle.margins", Margins(2, 2), 3, ((1, 0),)),
    Case("shuffle.noisy-shuffler", hc.Count(), 1, (0, 1)),
    Case("shuffle.noisy-shuffler", hc.Mean(0, 10, whole=True), 1, (7,)),
    Case("shuffle.noisy-shuffler", hc.Mean(0, 9), 1, (3.3,), options=(("levels_as", "digits"),)),
    Case("shuffle.noisy-shuffler", hc.Mean(0, 9), 1, (3.3,), options=(("levels", 4),)),
    Case("shuffle.noisy-shuffler", hc.Boxes(["a", "b", "c"], 2), 1, ([], ["b"], ["a", "c"])),
    Case("local.unary-symmetric", hc.Histogram(5), 1, (2,)),
]
# Laws that are too long to list.
UNLISTED = {"shuffle.hashed-histogram", "shuffle.split-and-mix"}


def sampled(page: Page, case: Case, value: Any, draws: int, **faults: str) -> dict[str, int]:
    made = case.protocol
    device = {**(device_data(made) or {}), **faults}
    call = [device, plain(case.task.encode([value])), draws, made.slots + 1000]
    found: dict[str, int] = in_browser(page, "drawn", [call])[0]
    return found


def check_law(page: Page, case: Case, draws: int) -> None:
    for value in case.values:
        law = case.protocol.randomizer.law(case.task.encode([value])[0].item())
        assert law is not None
        assert p_value(floats(law), sampled(page, case, value, draws)) > RARELY, case


@pytest.mark.parametrize("case", SMALL[:9:2], ids=str)
def test_chromium_follows_the_stated_law(page: Page, case: Case) -> None:
    check_law(page, case, 20_000)


def test_every_law_that_can_be_listed_is_compared() -> None:
    assert {case.name for case in CASES} - {case.name for case in SMALL} == UNLISTED


@pytest.mark.slow
@pytest.mark.parametrize("case", SMALL, ids=str)
def test_chromium_follows_every_stated_law(page: Page, case: Case) -> None:
    check_law(page, case, 400_000)


def two_percent_more(number: str) -> str:
    exact = Fraction(number)
    wrong = exact * Fraction(102, 100)
    return str(int(wrong) if exact.denominator == 1 else wrong)


@pytest.mark.parametrize(
    ("case", "field", "draws"),
    [
        (Case("local.randomized-response", hc.Count(), 1, (1,)), "weight", 600_000),
        *(
            pytest.param(*fault, marks=pytest.mark.slow)
            for fault in (
                (Case("shuffle.fake-users", hc.Histogram(2), 3, (1,)), "mean", 3_000_000),
                (Case("local.k-ary", hc.Histogram(4), 1, (3,)), "weight", 800_000),
                (Case("local.unary-symmetric", hc.Histogram(5), 1, (2,)), "own", 400_000),
                (Case("local.unary-symmetric", hc.Histogram(5), 1, (2,)), "other", 400_000),
            )
        ),
    ],
    ids=str,
)
def test_a_law_that_is_wrong_by_two_percent_is_rejected(
    page: Page, case: Case, field: str, draws: int
) -> None:
    (value,) = case.values
    law = floats(case.protocol.randomizer.law(case.task.encode([value])[0].item()) or {})
    wrong = two_percent_more((device_data(case.protocol) or {})[field])
    assert p_value(law, sampled(page, case, value, draws)) > RARELY
    assert p_value(law, sampled(page, case, value, draws, **{field: wrong})) < RARELY


@pytest.mark.slow
def test_chromium_sends_the_stated_number_of_hashed_messages(page: Page) -> None:
    """One message is the person's own. The number of the others is a Poisson number."""
    case = Case("shuffle.hashed-histogram", hc.Histogram(4), 1, (3,))
    mean = (device_data(case.protocol) or {})["mean"]
    law = {str(1 + k): float(stats.poisson.pmf(k, float(Fraction(mean)))) for k in range(60)}
    for given, allowed in ((mean, True), (two_percent_more(mean), False)):
        numbers = Counter[str]()
        for bundle, count in sampled(page, case, 3, 60_000, mean=given).items():
            numbers[str(len(bundle.split(" ")))] += count
        assert (p_value(law, dict(numbers)) > RARELY) is allowed


@pytest.mark.slow
def test_chromium_adds_the_stated_noise_to_shares(page: Page) -> None:
    """Shares add up to the level plus Z1 − Z2, two shares of geometric noise."""
    case = Case("shuffle.split-and-mix", hc.Mean(0, 9, whole=True), 1, (4,), 19)
    device = device_data(case.protocol) or {}
    then = device["then"]
    modulus, noise = int(then["modulus"]), then["noise"]
    r, gamma = Fraction(noise["r"]), Fraction(noise["gamma"])
    assert (r, gamma) == (Fraction(1, 19), Fraction(1, 9))
    one = {k: float(p) for k, p in NegativeBinomialShare(r, gamma).law(Fraction(1, 2**60)).items()}
    law: dict[str, float] = {}
    for (plus, p), (minus, q) in product(one.items(), one.items()):
        key = str((4 + plus - minus) % modulus)
        law[key] = law.get(key, 0.0) + p * q
    zero = {"4": law["4"], "other": 1 - law["4"]}
    for factor, allowed in ((Fraction(1), True), (Fraction(102, 100), False)):
        wrong = {**device, "then": {**then, "noise": {**noise, "r": str(r * factor)}}}
        call = [wrong, "4", 1_500_000, str(modulus)]
        found: dict[str, int] = in_browser(page, "drawnSums", [call])[0]
        merged = {"4": found["4"], "other": sum(found.values()) - found["4"]}
        assert (p_value(zero, merged) > RARELY) is allowed
        if allowed:
            assert p_value(law, found) > RARELY


if __name__ == "__main__":
    every = [*edges(), *(one for case in CASES for one in drawn(case, SEEDS))]
    FILE.write_text(json.dumps({"version": 1, "vectors": every}, indent=1) + "\n")
