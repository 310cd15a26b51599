"""Deliberate faults, each a small change of a protocol's text. The quick conformance suite finds
them.

The names are those of the last table of `docs/adding-a-protocol.md`.
"""

import ast
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

import conformance
import guide
import test_conformance_calls
import test_conformance_estimates
import test_conformance_influence
import test_conformance_privacy
from headcount.protocols import registry

SUITE = (
    test_conformance_privacy,
    test_conformance_estimates,
    test_conformance_influence,
    test_conformance_calls,
)


@dataclass(frozen=True)
class Original:
    """A protocol without faults."""

    name: str
    class_name: str
    text: str


def of_the_library(name: str, file: str, class_name: str) -> Original:
    path = guide.ROOT / "src" / "headcount" / "protocols" / file
    return Original(name, class_name, path.read_text())


SKELETON = Original(guide.NAME, "FairCoin", guide.skeleton())
ZERO_EXACT = of_the_library("shuffle.zero-exact", "shuffle/zero_exact.py", "ZeroExact")
K_ARY = of_the_library("local.k-ary", "local/k_ary.py", "KAry")


@dataclass(frozen=True)
class Fault:
    name: str
    original: Original
    changes: dict[str, str]
    test: str  # of the conformance suite, without "test_"


def fault(name: str, test: str, changes: dict[str, str]) -> Fault:
    original = {"`zero": ZERO_EXACT, "`k_ar": K_ARY}.get(name[:5], SKELETON)
    return Fault(name, original, changes, test)


FAULTS = [
    # Privacy
    fault(
        "the curve covers only one direction",
        "curve_is_that_of_every_view",
        {"PairCurve.both_directions(yes, no)": "PairCurve(((no, yes),))"},
    ),
    fault(
        "the noise is calibrated for an ε that is 2 % larger",
        "guarantee_is_that_of_every_view",
        {"lies, self.budget.epsilon)": "lies, 1.02 * self.budget.epsilon)"},
    ),
    fault(
        "the promised ε is 2 % too small",
        "guarantee_is_that_of_every_view",
        {
            "epsilon = min(self.budget.epsilon, self.local_epsilon)": (
                "epsilon = 0.98 * self.local_epsilon"
            )
        },
    ),
    fault(
        "a probability is rounded in the direction that weakens privacy",
        "guarantee_is_that_of_every_view",
        {"-(-least // unit) * unit": "(least - 1) // unit * unit"},
    ),
    fault(
        "`local_epsilon` is 2 % too small",
        "local_epsilon_is_what_one_bundle_betrays",
        {"return ratio_epsilon(": "return 0.98 * ratio_epsilon("},
    ),
    # Messages
    fault(
        "`send` lies 2 % more often than `law` says",
        "sampler_follows_its_law_and_no_other",
        {"len(encoded), self.no)": "len(encoded), self.no * 51 // 50)"},
    ),
    fault(
        "`law` states a probability that is 2 % too large",
        "sampler_follows_its_law_and_no_other",
        {"else self.no, WHOLE)": "else self.no * 51 // 50, WHOLE)"},
    ),
    fault(
        "one coin decides for two people",
        "people_are_randomized_independently",
        {
            "reports = bernoulli(source, len(encoded), self.no)": (
                "coins = bernoulli(source, (len(encoded) + 1) // 2, self.no)\n"
                "        reports = coins.repeat(2)[: len(encoded)]"
            )
        },
    ),
    fault(
        "the alphabet has a message that nobody sends",
        "law_sums_to_one_over_its_alphabet",
        {"Alphabet(np.uint8, range(2))": "Alphabet(np.uint8, range(3))"},
    ),
    # Estimates
    fault(
        "the estimator is biased",
        "unbiased_value_is_unbiased",
        {"tally.users * self.no)": "(tally.users - 1) * self.no)"},
    ),
    fault(
        "the standard error is 5 % too small",
        "stated_error_is_that_of_all_outcomes",
        {"return max(float(": "return 0.95 * max(float("},
    ),
    fault(
        "the variance is computed as if everybody held 0",
        "stated_error_is_that_of_all_outcomes",
        {"(int(held.counts[1]),)": "(0,)"},
    ),
    fault(
        "the worst data are sought at one end only",
        "stated_error_is_that_of_all_outcomes",
        {"(0, users) if held is None": "(0,) if held is None"},
    ),
    fault(
        "an estimate states an error that is 5 % too small",
        "stated_error_is_that_of_all_outcomes",
        {
            "return SupportError(users, Support(self.yes, self.no, both, both), unbiased)": (
                "law = SupportError(users, Support(self.yes, self.no, both, both), unbiased)\n"
                "        from headcount.core.estimate import NormalError\n"
                "        return NormalError(0.95 * law.standard_error, step=9)"
            ),
            "float(self.error_law(users, count).standard_error)": (
                "float(self.error_law(users, count).standard_error) / 0.95"
            ),
        },
    ),
    fault(
        "intervals for a crowd of five assume a normal error",
        "intervals_cover",
        {
            "return SupportError(users, Support(self.yes, self.no, both, both), unbiased)": (
                "law = SupportError(users, Support(self.yes, self.no, both, both), unbiased)\n"
                "        from headcount.core.estimate import NormalError\n"
                "        return NormalError(law.standard_error)"
            )
        },
    ),
    fault(
        "`simulate` forgets the noise of people who hold 1",
        "simulation_and_messages_have_the_law_of_the_tally",
        {"+ binomial(source, ones, self.yes)": "+ round(ones * self.yes)"},
    ),
    # Options
    fault(
        "an option that is a word is ignored",
        "every_choice_of_a_word_makes_a_difference",
        {'if self.coin == "biased"': "if True"},
    ),
    fault(
        "an option that is a number is ignored",
        "every_tried_number_makes_a_difference",
        {"WHOLE >> self.digits": "WHOLE >> 64"},
    ),
    # Several messages, and the noise of others
    fault(
        "`zero_exact.py`: the guarantee relies on the noise of dishonest people",
        "guarantee_is_that_of_every_view",
        {"self.crowd.honest": "self.crowd.users"},
    ),
    fault(
        "`zero_exact.py`: the promised δ is 2 % too small",
        "guarantee_is_that_of_every_view",
        {
            "delta=self.curve.delta(self.budget.epsilon) if exact": (
                "delta=0.98 * self.curve.delta(self.budget.epsilon) if exact"
            )
        },
    ),
    fault(
        "`zero_exact.py`: δ covers only one direction",
        "guarantee_is_that_of_every_view",
        {
            "Neighbors(1, PairCurve.both_directions)": (
                "Neighbors(1, lambda one, other: PairCurve(((other, one),)))"
            )
        },
    ),
    fault(
        "`zero_exact.py`: `local_epsilon` is finite, but the number of messages reveals the value",
        "local_epsilon_is_what_one_bundle_betrays",
        {"return math.inf": "return self.budget.epsilon"},
    ),
    fault(
        "`zero_exact.py`: dummies are missing",
        "bundles_all_have_one_size",
        {", dummy=(0,))": ")"},
    ),
    fault(
        "`zero_exact.py`: `overflow` is too small",
        "messages_per_user_and_bundles",
        {"[slots] if slots < 2 else 0.0": "[slots] if slots < 1 else 0.0"},
    ),
    fault(
        "`zero_exact.py`: a person who holds 0 has room for more noise",
        "noise_has_one_law",
        {"return 1 - int(encoded[0])": "return 0"},
    ),
    fault(
        "`zero_exact.py`: `messages_per_user` is the number for a person who holds 0",
        "messages_per_user_and_bundles",
        {"float(2 - self.withheld)": "float(1 - self.withheld)"},
    ),
    fault(
        "`zero_exact.py`: `shifts` forgets what one more person adds",
        "nobody_shifts_an_answer_by_more_than_stated",
        {"person=self.weight / WHOLE - 1)": "person=0.0)"},
    ),
    fault(
        "`k_ary.py`: `simulate` draws the numbers of a tally independently",
        "simulation_and_messages_have_the_law_of_the_tally",
        {
            "return responded(held.counts, self.support.other, source)": (
                "return super().simulate(held, source)"
            )
        },
    ),
]


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Original, str], None]]:
    """Register the text of a protocol under the name of the sound one."""

    def put(original: Original, text: str) -> None:
        module = types.ModuleType("headcount.protocols.with_a_fault")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(compile(text, original.name, "exec"), vars(module))
        tasks = ",".join(task.__name__ for task in vars(module)[original.class_name].tasks)
        place = f"with_a_fault:{original.class_name}({tasks})"
        monkeypatch.setitem(registry._CLASSES, original.name, place)

    (line,) = (line for table, _, line in guide.additions() if table == "SMALL_OPTIONS")
    for name, tried in ast.literal_eval(f"{{{line}}}").items():
        monkeypatch.setitem(conformance.SMALL_OPTIONS, name, tried)
    monkeypatch.setattr(conformance, "worker", None)
    forget()
    yield put
    forget()


def forget() -> None:
    conformance.build.cache_clear()
    conformance.crowds.cache_clear()


def quick_tests(name: str) -> dict[str, list[Callable[[], None]]]:
    """The names of the quick conformance tests of one protocol."""
    found: dict[str, list[Callable[[], None]]] = {}
    for module in SUITE:
        for title, test in vars(module).items():
            if title.startswith("test_"):
                found[title.removeprefix("test_")] = list(calls(test, name))
    return found


def calls(test: Any, name: str) -> Iterator[Callable[[], None]]:
    marks = {mark.name: mark.kwargs for mark in test.pytestmark}
    if "slow" in marks or "parametrize" in marks:
        return
    if "crowds" in marks:
        for protocol, late in conformance.asked_crowds(name, True, **marks["crowds"]):
            if not late:
                yield partial(test, protocol)
    else:
        for pair in conformance.asked_pairs(name, **marks["pairs"]):
            yield partial(test, *pair)


def fails(call: Callable[[], None]) -> bool:
    try:
        call()
    except (AssertionError, pytest.fail.Exception):
        return True
    return False


def test_the_page_names_these_faults() -> None:
    assert guide.mistakes() == {fault.name: fault.test for fault in FAULTS}
    assert sum(fault.original is SKELETON for fault in FAULTS) >= 12


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_fails_the_quick_suite(
    fault: Fault, register: Callable[[Original, str], None]
) -> None:
    text = fault.original.text
    for old, new in fault.changes.items():
        assert old in text
        text = text.replace(old, new)
    register(fault.original, text)
    assert any(fails(call) for call in quick_tests(fault.original.name)[fault.test])


@pytest.mark.parametrize("original", [SKELETON, ZERO_EXACT, K_ARY], ids=lambda one: one.name)
def test_without_a_fault_the_same_tests_pass(
    original: Original, register: Callable[[Original, str], None]
) -> None:
    register(original, original.text)
    wanted = {fault.test for fault in FAULTS if fault.original is original}
    for title, tests in quick_tests(original.name).items():
        for call in tests if title in wanted else []:
            call()
