"""Tallies from messages, and tallies drawn in one step with the same law, anywhere and in parts."""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2_contingency

import headcount as hc
from headcount.core.protocol import passed_on
from headcount.data import release as releases
from headcount.data.engine import Census, Crowds, Engine
from headcount.data.local import LocalEngine
from headcount.data.question import Question
from headcount.randomness.sources import Owing
from headcount.road.people import Group, Progress
from headcount.road.pieces import collected, counted_pieces, joined, tally_of_part
from headcount.road.ways import Way

ALARM = 1e-7


def alike(one: Counter[Any], other: Counter[Any]) -> float:
    """The p-value that two samples have the same law. Rare outcomes are merged."""
    common = [key for key in one if one[key] + other[key] >= 20]
    table = [[sample[key] for key in common] for sample in (one, other)]
    for row, sample in zip(table, (one, other), strict=True):
        row.append(sum(sample.values()) - sum(row))
    kept = [column for column in zip(*table, strict=True) if sum(column)]
    return float(chi2_contingency(np.array(kept).T).pvalue) if len(kept) > 1 else 1.0


def samples(protocol: hc.Protocol, counts: list[int], runs: int) -> list[Counter[Any]]:
    source = hc.SeededSource(6)
    encoded = np.repeat(np.arange(len(counts)), counts).astype(np.uint8)
    drawn = [protocol.simulate(counts, source) for _ in range(runs)]
    sent = [
        passed_on(protocol, tally_of_part(protocol, encoded, source), source) for _ in range(runs)
    ]
    return [Counter(tuple(tally.counts.tolist()) for tally in some) for some in (drawn, sent)]


def histogram_protocol(name: str, buckets: int, users: int) -> hc.Protocol:
    return hc.protocol(name, hc.Histogram(buckets), hc.Budget(3, 0.3), hc.Crowd(users))


@pytest.mark.parametrize("name", hc.protocol_names(hc.Histogram(4)))
def test_exact_simulations_have_the_joint_law_of_messages(name: str) -> None:
    counts = [1, 1, 0, 0] if name.startswith("local") else [3, 2, 1, 0]
    if name == "shuffle.split-and-mix":
        counts = [10, 6, 3, 0]  # it needs 19 honest people
    protocol = histogram_protocol(name, 4, sum(counts))
    if protocol.estimator.simulates_exactly:
        assert alike(*samples(protocol, counts, 800)) > ALARM
    else:
        assert name in ("local.hashing", "shuffle.hashed-histogram")


def test_simulations_that_are_not_exact_say_so() -> None:
    """The test above would notice buckets that are drawn independently."""
    hadamard = histogram_protocol("local.hadamard", 4, 2)
    assert not histogram_protocol("local.hadamard", 64, 2).estimator.simulates_exactly
    vars(hadamard.estimator)["supports"] = None
    assert alike(*samples(hadamard, [1, 1, 0, 0], 800)) < ALARM
    assert not histogram_protocol("local.subset", 30, 6).estimator.simulates_exactly
    for local, exact in (("local.k-ary", True), ("local.hadamard", False)):
        inside = hc.protocol(
            "shuffle.amplified", hc.Histogram(64), hc.Budget(1, 1e-3), hc.Crowd(900), local=local
        )
        assert inside.estimator.simulates_exactly is exact
    for name in ("local.density-series", "local.density-histogram"):
        density = hc.protocol(name, hc.Density(0, 1), hc.Budget(1), hc.Crowd(10**6))
        assert not density.estimator.simulates_exactly


def test_people_from_counts_are_all_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headcount.core.randomizer.MOST_AT_ONCE", 7)
    counts = np.array([0, 5, 0, 16, 1, 0, 8, 0])
    protocol = histogram_protocol("local.k-ary", 8, 30)
    pieces = [*counted_pieces(protocol, counts, hc.SeededSource(1))]
    codes = [joined(piece.codes) for piece in pieces]
    assert [len(some) for some in codes] == [7, 7, 7, 7, 2]
    everyone = np.concatenate(codes)
    assert np.array_equal(np.bincount(everyone, minlength=8), counts)
    tally = collected(((0, piece) for piece in pieces), workers=2)[0]
    assert (tally.users, tally.counts.sum()) == (30, 30)


def test_errors_in_threads_reach_the_caller() -> None:
    protocol = histogram_protocol("central.geometric", 8, 30)
    pieces = [(0, piece) for piece in counted_pieces(protocol, np.full(9, 4), hc.SeededSource(1))]
    for workers in (1, 2):
        with pytest.raises(hc.HeadcountError):
            collected(pieces, workers)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages are drawn in a single step, even if there are few."""
    monkeypatch.setattr(releases, "_MANY", 0)


BITS = np.arange(3000) % 3 == 0
SHUFFLED: dict[str, Any] = {"task": hc.Count(), "protocol": "shuffle.zero-exact"}


@pytest.mark.usefixtures("drawn")
def test_drawing_at_once_is_paid_from_delta() -> None:
    budget = hc.Budget(1, 1e-4)
    ready = hc.prepare(BITS, budget=budget, **SHUFFLED)
    found, release = ready.answer(), ready.release
    assert isinstance(found, hc.Estimate)
    assert found.way == Way.AT_ONCE.words
    promise, protocol = found.guarantee, release.protocols[0]
    assert protocol.guarantee.delta < promise.delta <= budget.delta
    assert promise.delta - protocol.guarantee.delta >= budget.delta / 16
    assert not promise.exact
    assert "drawing all messages in a single step" in promise.method
    # The reserve is larger than the cost of the draw, which is (1 + e^ε) times its variation.
    owing = Owing(hc.SeededSource(1))
    protocol.simulate([2000, 1000], owing)
    assert 0 < (1 + math.exp(1)) * owing.owed < budget.delta / 16
    assert release.curve.delta(1.0) <= promise.delta
    assert release.curve.delta(1.0) >= protocol.curve.delta(1.0) + budget.delta / 16 * 0.999


@pytest.mark.usefixtures("drawn")
def test_too_little_delta_to_draw_at_once_means_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = hc.Budget(1, 1e-4)
    by_messages = []

    def counted(protocol: hc.Protocol, encoded: NDArray[Any], source: hc.Source) -> hc.Tally:
        by_messages.append(len(encoded))
        return tally_of_part(protocol, encoded, source)

    monkeypatch.setattr("headcount.road.pieces.tally_of_part", counted)
    ways = {hc.estimate(BITS, budget=budget, **SHUFFLED).to_dict()["way"]}
    assert not by_messages
    monkeypatch.setattr(Owing, "owe", lambda self, variation: setattr(self, "owed", 1e-4))
    ways.add(hc.estimate(BITS, budget=budget, **SHUFFLED).to_dict()["way"])
    assert by_messages == [3000]
    # The cost of a draw depends on people's values, so the answer must not reveal it.
    assert ways == {Way.AT_ONCE.words}


@pytest.mark.usefixtures("drawn")
def test_what_is_pure_stays_pure() -> None:
    for protocol in ("local.randomized-response", "central.geometric"):
        found = hc.estimate(BITS, hc.Count(), budget=hc.Budget(1, 1e-4), protocol=protocol)
        assert isinstance(found, hc.Estimate)
        assert found.guarantee.delta == 0
        assert found.guarantee.exact


def test_few_messages_are_made_and_promised_exactly() -> None:
    found = hc.estimate(BITS, budget=hc.Budget(1, 1e-4), **SHUFFLED)
    assert isinstance(found, hc.Estimate)
    assert found.guarantee.exact


@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize("protocol", ["shuffle.zero-exact", "shuffle.correlated"])
def test_drawn_answers_are_near_the_truth(protocol: str) -> None:
    z = []
    for seed in range(40):
        found = hc.estimate(
            BITS, hc.Count(), budget=hc.Budget(1, 1e-4), protocol=protocol,
            source=hc.SeededSource(seed),
        )  # fmt: skip
        assert isinstance(found, hc.Estimate)
        z.append((found.value - 1000) / found.standard_error)
    assert abs(np.mean(z)) * math.sqrt(40) < 5.5
    assert 0.2 < np.var(z) < 3.5


def test_parts_of_a_seed_are_different_and_repeat() -> None:
    def words(source: hc.Source) -> list[int]:
        found: list[int] = source.integers(4, np.uint64).tolist()
        return found

    seen = {}
    for path in ((), (0,), (1,), (0, 0), (0, 1), (1, 0), (2**40,)):
        for seed in (1, 2):
            source: hc.Source = hc.SeededSource(seed)
            for number in path:
                source = source.part(number)
            again: hc.Source = hc.SeededSource(seed)
            words(again)  # earlier draws make no difference to a part
            for number in path:
                again = again.part(number)
            seen[seed, path] = words(source)
            if path:
                assert words(again) == seen[seed, path]
    assert len({tuple(found) for found in seen.values()}) == len(seen)
    secure = hc.SecureSource()
    assert words(secure.part(0)) != words(secure.part(0))


def test_a_source_that_has_no_parts_is_used_by_one_thread() -> None:
    class Plain(hc.Source):
        def __init__(self) -> None:
            self.inner, self.busy = hc.SeededSource(1), False

        def fill(self, buffer: NDArray[np.uint8]) -> None:
            assert not self.busy
            self.busy = True
            self.inner.fill(buffer)
            self.busy = False

    values = np.random.default_rng(1).random(2**18)
    found = hc.estimate(
        values, hc.Mean(0, 1), budget=hc.Budget(1), protocol="local.one-bit-mean", source=Plain()
    )
    assert isinstance(found, hc.Estimate)
    assert abs(found.value - values.mean()) < 6 * found.standard_error


class Halves(Engine):
    """An engine that processes two halves separately, and adds up the results."""

    name = "halves"

    def census(
        self, data: Any, question: Question, source: hc.Source, progress: Progress
    ) -> Crowds:
        halves = [data[: len(data) // 2], data[len(data) // 2 :]]
        return _Both([LocalEngine().census(half, question, source, progress) for half in halves])


class _Both(Crowds):
    def __init__(self, crowds: list[Crowds]) -> None:
        self._crowds = crowds
        self.censuses = {None: crowds[0].censuses[None] + crowds[1].censuses[None]}
        self.people = sum(crowd.people for crowd in crowds)

    def tallies(
        self, protocols: Mapping[Group, hc.Protocol], source: hc.Source, progress: Progress
    ) -> Mapping[Group, hc.Tally]:
        one, other = (
            crowd.tallies(protocols, source.part(at), progress)
            for at, crowd in enumerate(self._crowds)
        )
        return {None: one[None] + other[None]}


@pytest.mark.parametrize(
    ("task", "protocol"),
    [
        (hc.Count(), "central.geometric"),
        (hc.Count(), "local.randomized-response"),
        (hc.Mean(0, 1), "local.laplace-mean"),
        (hc.Sum(0, 1, whole=True), "shuffle.split-and-mix"),
    ],
)
def test_another_engine_needs_two_functions(task: hc.Task, protocol: str) -> None:
    found = hc.estimate(
        BITS.astype(np.int64), task, column="value", budget=hc.Budget(3, 1e-6), protocol=protocol,
        engine=Halves(), source=hc.SeededSource(2),
    )  # fmt: skip
    assert isinstance(found, hc.Estimate)
    truth = BITS.mean() if task.name == "mean" else BITS.sum()
    assert found.users == 3000
    assert truth in found.interval(1 - 1e-9)


def test_censuses_of_one_question_add_up() -> None:
    whole = Census(3, np.array([1, 2])) + Census(4, np.array([4, 0]))
    assert (whole.users, whole.counts.tolist()) == (7, [5, 2])  # type: ignore[union-attr]
    with pytest.raises(hc.InvalidValue):
        Census(3) + Census(4, np.array([4, 0]))


def test_progress_is_told() -> None:
    steps: list[tuple[str, float]] = []
    hc.estimate(
        np.random.default_rng(1).random(10**6), hc.Mean(0, 1), budget=hc.Budget(1),
        protocol="local.one-bit-mean", progress=lambda step, share: steps.append((step, share)),
    )  # fmt: skip
    for name in ("reading", "randomizing"):
        shares = [share for step, share in steps if step == name]
        assert shares == sorted(shares)
        assert len(shares) > 3
        assert shares[-1] == 1
    assert ("calibrating", 0.0) in steps


def test_a_protocol_that_was_built_before() -> None:
    built = hc.protocol("shuffle.zero-exact", hc.Count(), hc.Budget(1, 1e-3), hc.Crowd(2000))
    found = hc.estimate(BITS, protocol=built)
    assert isinstance(found, hc.Estimate)
    assert found.guarantee == built.guarantee
    for settings, says in (
        ({"data": BITS[:1000]}, "built for at least 2,000 people, got 1,000"),
        ({"task": hc.Mean(0, 1)}, "the task must be the same as the task of the protocol"),
        ({"bins": [0, 1, 2]}, "the task must be the same as the task of the protocol"),
        ({"budget": hc.Budget(1)}, "`budget` must not be given with a protocol object"),
        ({"person": "value", "rows_per_person": 2}, "without a protocol object"),
    ):
        with pytest.raises(hc.HeadcountError, match=says):
            hc.estimate(**{"data": BITS, "protocol": built, **settings})


def test_settings_are_checked() -> None:
    for settings, says in (
        ({"budget": None}, "`budget` must be given"),
        ({"trust": "blind"}, "`trust` must be one of"),
        ({"engine": "steam"}, "`engine` must be one of local"),
        ({"protocol": "magic"}, "`protocol` must be one of"),
        ({"protocol": "central.geometric", "trust": "local"}, "`trust` must be central"),
        ({"options": {"rate": 1}}, "`rate` must come with a protocol"),
        ({"engine": Halves()}, "`column` must be given for the engine halves"),
        ({"engine": Halves(), "query": "SELECT 1"}, "`query` must come with the local engine"),
        ({"column": "valu"}, r"did you mean 'value'\?"),
        ({"source": 5}, "`source` must be a Source, got 5"),
    ):
        given: dict[str, Any] = {"budget": hc.Budget(1), **settings}
        with pytest.raises(hc.HeadcountError, match=says):
            hc.estimate(BITS, hc.Count(), **given)


def test_what_is_drawn_at_once_is_judged_as_it_is_calibrated() -> None:
    """With the rest of δ, a larger set is chosen, whose tallies cannot be drawn exactly. Every
    report names the same number of buckets, so the numbers of a tally have a fixed sum.
    """
    options = {"local": "local.subset"}
    budget, people = hc.Budget(0.0017203838213765464, 1e-6), 5_000_000
    task = hc.Histogram(10)
    full = hc.protocol("shuffle.amplified", task, budget, hc.Crowd(people), **options)
    less = hc.protocol(
        "shuffle.amplified", task, hc.Budget(budget.epsilon, 0.9375e-6), hc.Crowd(people), **options
    )
    assert full.estimator.simulates_exactly
    assert not less.estimator.simulates_exactly  # otherwise this tests nothing
    found = hc.estimate(
        np.arange(people) % 10, task, budget=budget, protocol="shuffle.amplified", options=options,
        source=hc.SeededSource(4),
    )  # fmt: skip
    assert isinstance(found, hc.Estimate)
    assert found.value.sum() == pytest.approx(people, rel=1e-9)
    assert found.guarantee.delta <= budget.delta
