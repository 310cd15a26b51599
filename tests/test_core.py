"""Budgets, crowds, messages, tallies, estimates: what they accept, and how they refuse."""

import copy
import json
import math
import pickle
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headcount as hc
from headcount.core.cached import cached_property
from headcount.core.estimate import NormalError
from headcount.core.table import exact, number, short, size
from headcount.protocols import registry
from headcount.road import people


@pytest.mark.parametrize(
    "epsilon", [0, -1, math.nan, math.inf, 1e-13, 501, "1", None, True, np.True_, 1j, [1]]
)
def test_bad_epsilon(epsilon: Any) -> None:
    with pytest.raises(hc.InvalidParameter, match="`epsilon` must be") as caught:
        hc.Budget(epsilon)
    assert caught.value.code == "invalid-parameter"
    assert caught.value.exit_status == 2


@pytest.mark.parametrize("delta", [-0.1, 1, 1.5, 1e-19, math.nan, math.inf, "0", None, False])
def test_bad_delta(delta: Any) -> None:
    with pytest.raises(hc.InvalidParameter, match="`delta` must be"):
        hc.Budget(1, delta)


@pytest.mark.parametrize("users", [0, -5, 2.5, math.nan, "10", None, True, 2**60])
def test_bad_users(users: Any) -> None:
    with pytest.raises(hc.InvalidParameter, match="`users` must be"):
        hc.Crowd(users)


@pytest.mark.parametrize("honest", [0, 11, -1, 2.5, "3"])
def test_bad_honest(honest: Any) -> None:
    with pytest.raises(hc.InvalidParameter, match="`honest` must be"):
        hc.Crowd(10, honest)


def test_plain_types_come_out() -> None:
    half: Any = np.float32(0.5)
    eight: Any = np.int64(8)
    budget, crowd = hc.Budget(half, 0), hc.Crowd(eight, 5)
    assert type(budget.epsilon) is type(budget.delta) is float
    assert type(crowd.users) is type(crowd.honest) is int
    assert hc.Crowd(8).honest == 8
    assert hc.Crowd(1e3).users == 1000  # type: ignore[arg-type]
    assert hc.Budget(1) == hc.Budget(1.0, 0.0)


def _every_error(kind: type[hc.HeadcountError]) -> Iterator[type[hc.HeadcountError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _every_error(child)


def test_errors_survive_copying_and_other_processes() -> None:
    from headcount.data.problems import DoesNotFit, Problems

    room = {"epsilon": 0.5, "delta": 0.0}
    made: dict[type, Any] = {
        hc.BudgetExhausted: lambda m: hc.BudgetExhausted(m, remaining=room, limit={"epsilon": 1}),
        hc.AlreadyCharged: lambda m: hc.AlreadyCharged(m, entry={"number": 3}),
        hc.UnconfirmedCharge: lambda m: hc.UnconfirmedCharge(m, charged=True),
        hc.Infeasible: lambda m: hc.Infeasible(m, nearest={"rate": 0.25}),
        DoesNotFit: lambda m: DoesNotFit(m, Problems(missing=2, first_missing=(7,)), hint="why"),
    }
    kinds = list(_every_error(hc.HeadcountError))
    assert {*made} < {*kinds}
    for kind in kinds:
        make = made.get(kind, lambda message, kind=kind: kind(message, hint="what to do"))
        error = make("something must hold")
        for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
            assert type(other) is kind
            assert (str(other), other.args, vars(other)) == (str(error), error.args, vars(error))
            assert other == error
            assert hash(other) == hash(error)
        assert error != make("something else must hold")
        assert error != ValueError("something must hold")


def test_errors_are_one_family_with_codes_of_their_own() -> None:
    kinds = [
        kind
        for kind in (getattr(hc, name) for name in hc.__all__)
        if isinstance(kind, type) and issubclass(kind, hc.HeadcountError)
    ]
    assert len(kinds) >= 8
    assert len({kind.code for kind in kinds}) == len(kinds)
    assert {kind.exit_status for kind in kinds} == {2, 3, 4}
    assert str(hc.UnknownName("no such thing")) == "no such thing"
    assert str(hc.Infeasible("no", nearest={"users": 5})) == "no (nearest feasible: users=5)"


def test_unknown_protocol() -> None:
    with pytest.raises(hc.UnknownName, match=r"must be one of central\.geometric, .*got 'magic'"):
        hc.protocol("magic", hc.Count(), hc.Budget(1), hc.Crowd(5))
    with pytest.raises(hc.UnknownName, match=r"\(did you mean local\.hadamard\?\)$"):
        hc.protocol("local.hadamart", hc.Histogram(4), hc.Budget(1), hc.Crowd(5))


def test_tasks_of_other_kinds_are_refused() -> None:
    @dataclass(frozen=True)
    class Other(hc.Count):
        pass

    class Elsewhere(hc.Task):
        name = "elsewhere"
        whole_answers = False
        domain = 2

        def encode(self, values: Any, *, first: int = 0) -> Any:
            return values

        def answer(self, counts: Any) -> Any:
            return counts

        def answer_range(self, users: int) -> tuple[float, float]:
            return 0.0, 1.0

    hc.protocol("central.geometric", Other(), hc.Budget(1), hc.Crowd(5))
    with pytest.raises(hc.InvalidParameter, match="must be a count or sum or mean or histogram"):
        hc.protocol("central.geometric", Elsewhere(), hc.Budget(1), hc.Crowd(5))
    assert hc.protocol_names(Elsewhere()) == []
    with pytest.raises(hc.InvalidParameter, match="no protocol of this plan answers the task"):
        hc.best_protocol(Elsewhere(), hc.Budget(1), hc.Crowd(5), hc.Trust.LOCAL)


def test_the_registry_states_which_tasks_are_answered() -> None:
    """Otherwise a protocol would not be found, or would be loaded although it is not needed."""
    for places in registry._CLASSES.values():
        for file, noun, tasks in registry._PLACE.findall(places):
            kind = getattr(import_module(f"headcount.protocols.{file}"), noun)
            assert tasks.split(",") == [task.__name__ for task in kind.tasks], noun
        assert len(registry._PLACE.findall(places)) == len(places.split()) == places.count(":")


@pytest.mark.parametrize(
    "epsilon", [1.0, *(pytest.param(one, marks=pytest.mark.slow) for one in (0.01, 12.0))]
)
def test_the_best_central_protocol_is_that_of_the_plan(epsilon: float) -> None:
    tasks = [
        hc.Count(), hc.Sum(0, 5), hc.Sum(0, 5, whole=True), hc.Mean(-1, 1), hc.Histogram(2),
        hc.Histogram(["a", "b", "c"]), hc.Histogram(500), hc.Table(2, 3), hc.Table(20, 2),
        hc.Margins(3, 4), hc.Boxes(["a", "b"]), hc.Boxes(list("abcdefghij"), at_most=2),
        hc.Density(0, 1), hc.Distribution(0, 1, cells=64), hc.Median(0, 1),
    ]  # fmt: skip
    for task in tasks:
        for users in (2, 1000):
            setting = (task, hc.Budget(epsilon), hc.Crowd(users))
            best = hc.best_protocol(*setting, "central")
            assert best == hc.plan(*setting, trust="central").protocol(), task


def test_best_protocol() -> None:
    for trust in hc.Trust:
        best = hc.best_protocol(hc.Count(), hc.Budget(1, 1e-6), hc.Crowd(1000), trust)
        assert best.trust is trust
    pure = hc.best_protocol(hc.Count(), hc.Budget(1), hc.Crowd(10), hc.Trust.SHUFFLE)
    assert pure.name == "shuffle.randomized-response"  # all other protocols need a delta


@pytest.mark.parametrize(
    "values",
    [
        [True, False],
        [1, 0],
        [1.0, 0.0],
        np.array([1, 0], np.uint8),
        np.array([1, 0], np.int64),
        np.array([1, 0], np.float32),
        (1, 0),
    ],
)
def test_count_takes_every_kind_of_yes_and_no(values: Any) -> None:
    encoded = hc.Count().encode(values)
    assert encoded.dtype == np.uint8
    assert encoded.tolist() == [1, 0]


@pytest.mark.parametrize("name", hc.protocol_names(hc.Count()))
def test_bools_of_odd_bytes_do_not_slip_through(name: str) -> None:
    """A bool array may hold any byte, and a byte of 255 would reveal its owner."""
    odd = np.array([0, 255, 2, 1] * 5, np.uint8).view(np.bool_)
    protocol = hc.protocol(name, hc.Count(), hc.Budget(1, 0.5), hc.Crowd(20))
    with pytest.raises(hc.InvalidValue):
        protocol.randomize(odd, hc.SecureSource())


def test_bad_value_is_shown() -> None:
    with pytest.raises(hc.InvalidValue, match="got 7 from person 3, and 1 more like it"):
        hc.Count().encode([0, 1, 7, 9])
    with pytest.raises(hc.InvalidValue, match=r"got 0\.5 from person 102$"):
        hc.Count().encode([0.0, 0.5], first=100)


# Messages -----------------------------------------------------------------------------------

SHARES = hc.Alphabet(np.uint64, range(2**63))
SIGNS = hc.Alphabet(np.int8, range(-1, 2, 2))
RECORDS = hc.Alphabet(np.uint32, range(1, 100), range(100), range(5))


@given(st.lists(st.lists(st.integers(0, 2**63 - 1), max_size=4), min_size=1, max_size=6))
def test_bundles_of_any_length_travel_alone(people: list[list[int]]) -> None:
    flat = np.array([message for bundle in people for message in bundle], dtype=np.uint64)
    messages = hc.Messages(flat, len(people), np.array([len(bundle) for bundle in people]))
    assert [bundle.payload.tolist() for bundle in messages] == people
    assert messages[len(people) - 1].payload.tolist() == people[-1]
    received = [hc.Messages.receive(bundle.to_bytes(), SHARES) for bundle in messages]
    joined = hc.Messages.join(received)
    assert joined.users == len(people)
    assert joined.payload.tolist() == flat.tolist()
    assert joined.counts.tolist() == [len(bundle) for bundle in people]


def test_bytes_are_the_messages_and_nothing_else() -> None:
    bundle = hc.Messages(np.array([1, 258], np.uint64), 1, np.array([2]))
    assert bundle.to_bytes() == b"\1" + bytes(7) + b"\2\1" + bytes(6)
    with pytest.raises(hc.InvalidValue, match="one person, got 2 people"):
        hc.Messages.one_each(np.zeros(2, np.uint8)).to_bytes()
    with pytest.raises(hc.InvalidValue, match="whole messages of 8 byte"):
        hc.Messages.receive(b"123", SHARES)
    for wrong in (b"\5", b"\0", b"\1\0"):
        with pytest.raises(hc.InvalidValue, match=r"every message must be in range\(-1, 2, 2\)"):
            hc.Messages.receive(wrong, SIGNS)
    assert hc.Messages.receive(b"\xff\1", SIGNS, 2).payload.tolist() == [-1, 1]
    with pytest.raises(hc.InvalidValue, match="a bundle must have 3 slots, got 2 slots"):
        hc.Messages.receive(b"\xff\1", SIGNS, 3)
    with pytest.raises(hc.InvalidValue, match="at least one person"):
        hc.Messages.join([])
    for person in (-1, 2):
        with pytest.raises(IndexError):
            hc.Messages.one_each(np.zeros(2, np.uint8))[person]


def test_messages_and_tallies_of_nobody_or_of_too_many() -> None:
    ones = np.ones(3, np.uint8)
    with pytest.raises(hc.InvalidValue, match="a count for each of 7 people, got 1"):
        hc.Messages(ones, 7, np.array([3]))
    with pytest.raises(hc.InvalidValue, match="at least one person"):
        hc.Batch(ones, 0)
    with pytest.raises(hc.InvalidValue, match="at least one person"):
        hc.Tally(np.array([1]), -3, "x")
    protocol = hc.protocol("local.randomized-response", hc.Count(), hc.Budget(1), hc.Crowd(2))
    with pytest.raises(
        hc.InvalidValue, match="each person must send 1 message, got 3 messages from 2 people"
    ):
        protocol.tally(hc.Batch(ones, 2))
    assert len(repr(hc.Messages.one_each(np.zeros(1000, np.uint8)))) < 100


def test_sources_and_tasks_of_the_wrong_kind() -> None:
    protocol = hc.protocol("local.randomized-response", hc.Count(), hc.Budget(1), hc.Crowd(2))
    for wrong in (None, np.random.default_rng()):
        source: Any = wrong
        with pytest.raises(hc.InvalidParameter, match="`source` must be"):
            protocol.randomize([1, 0], source)
        with pytest.raises(hc.InvalidParameter, match="`source` must be"):
            protocol.simulate([1, 1], source)
    task: Any = "count"
    with pytest.raises(hc.InvalidParameter, match="`task` must be a Task"):
        hc.protocol_names(task)


def test_records_travel_and_are_checked_column_by_column() -> None:
    payload = np.array([[1, 0, 4], [99, 99, 0]], np.uint32)
    bundle = hc.Messages(payload, 1, np.array([2]))
    assert len(bundle.to_bytes()) == 2 * RECORDS.bytes_per_message == 24
    assert hc.Messages.receive(bundle.to_bytes(), RECORDS).payload.tolist() == payload.tolist()
    shuffled = hc.shuffle(bundle, hc.SeededSource(1)).payload
    assert sorted(shuffled.tolist()) == payload.tolist()
    for wrong in ([[0, 0, 0]], [[1, 100, 0]], [[1, 0, 5]]):
        with pytest.raises(hc.InvalidValue, match="every message must be in range"):
            RECORDS.messages(np.array(wrong, np.uint32))
    for shape in (payload[:, :2], payload[0], payload[None], payload.astype(np.uint64)):
        with pytest.raises(hc.InvalidValue, match="every message must be 3 numbers of type uint32"):
            RECORDS.messages(shape)
    assert RECORDS.bits == 7 + 7 + 3


def test_bits_of_an_alphabet() -> None:
    for high, bits in ((0, 1), (1, 1), (2, 2), (255, 8)):
        assert hc.Alphabet(np.uint8, range(high + 1)).bits == bits
    assert SHARES.bits == 63
    assert SIGNS.bits == 1


def test_shuffling_keeps_messages_and_loses_their_order() -> None:
    payload = np.arange(1000)
    batch = hc.shuffle(hc.Messages.one_each(payload), hc.SeededSource(1))
    assert sorted(batch.payload.tolist()) == payload.tolist()
    assert not hasattr(batch, "counts")
    fixed = int((batch.payload == payload).sum())
    assert fixed < 10
    # There is no rank correlation either, up to 6.5 standard deviations of 1/√n.
    assert abs(np.corrcoef(batch.payload, payload)[0, 1]) < 6.5 / math.sqrt(1000)


def test_run_shuffles_in_shuffle_trust(monkeypatch: pytest.MonkeyPatch) -> None:
    shuffled, shuffle = [], hc.shuffle

    def spy(messages: hc.Messages, source: hc.Source, protocol: hc.Protocol) -> hc.Batch:
        shuffled.append(messages)
        return shuffle(messages, source, protocol)

    monkeypatch.setattr(people, "shuffle", spy)
    for name in hc.protocol_names(hc.Count()):
        protocol = hc.protocol(name, hc.Count(), hc.Budget(1, 1e-3), hc.Crowd(100))
        shuffled.clear()
        hc.run(protocol, [1] * 100)
        assert len(shuffled) == (protocol.trust is hc.Trust.SHUFFLE)


def test_tallies_add_up_only_if_alike() -> None:
    total = hc.Tally(np.array([1, 2]), 3, "x") + hc.Tally(np.array([5, 6]), 7, "x")
    assert (total.counts.tolist(), total.users, total.protocol) == ([6, 8], 10, "x")
    others = [
        hc.Tally(np.array([5]), 7, "x"),
        hc.Tally(np.array([5, 6]), 7, "y"),
        hc.Tally(np.array([5, 6]), 7, "x", modulus=9),
    ]
    for other in others:
        with pytest.raises(hc.InvalidValue, match="the same protocol"):
            total + other
    with pytest.raises(hc.InvalidValue, match="vector of int64"):
        hc.Tally(np.array([1.0]), 3, "x")


@given(st.integers(2, 2**63), st.lists(st.integers(0, 2**63 - 1), min_size=2, max_size=5))
def test_shares_add_up_modulo_anything(modulus: int, shares: list[int]) -> None:
    tallies = [hc.Tally(np.array([share % modulus]), 1, "x", modulus) for share in shares]
    total = tallies[0]
    for tally in tallies[1:]:
        total = total + tally
    assert total.counts.tolist() == [sum(share % modulus for share in shares) % modulus]
    assert total.users == len(shares)


# Estimates ----------------------------------------------------------------------------------


def estimate(value: float, error: float, *, whole: bool = False, **more: Any) -> hc.Estimate:
    guarantee = hc.Guarantee(1.0, 0.0, hc.Trust.LOCAL, True, "test", 100)
    return hc.Estimate(
        "count", "test", value, 100, guarantee, (0.0, 100.0), whole, NormalError(error), **more
    )


def test_intervals() -> None:
    wide = estimate(50, 10).interval(0.95)
    assert wide.low == pytest.approx(50 - 19.59964, abs=1e-4)
    assert estimate(50, 1).interval(1 - 2.0**-53).high == pytest.approx(58.3, abs=0.1)
    assert 50 in wide
    assert 71 not in wide
    assert estimate(50, 10, whole=True).interval(0.95).to_dict() == {
        "low": 31.0,
        "high": 69.0,
        "confidence": 0.95,
    }
    # The interval is cut to the possible range, even if all of it lies outside.
    assert estimate(-500, 10).interval(0.95).to_dict()["high"] == 0
    assert estimate(500, 10).interval(0.95).to_dict()["low"] == 100
    # It contains no whole number, so the interval stays as it is.
    assert estimate(50.5, 0.1, whole=True).interval(0.5).low == pytest.approx(50.43, abs=0.01)
    for confidence in (0, 1, -0.5, math.nan, "0.9"):
        with pytest.raises(hc.InvalidParameter, match="`confidence` must"):
            estimate(50, 10).interval(confidence)  # type: ignore[arg-type]


def test_postprocessing_is_marked_and_the_unbiased_value_stays() -> None:
    raw = estimate(-4.0, 10)
    clipped = raw.changed("clip", lambda value: max(0.0, value))
    assert (clipped.value, clipped.unbiased_value) == (0.0, -4.0)
    assert clipped.postprocessing == ("clip",)
    assert clipped.interval(0.9) == raw.interval(0.9)
    doubled = clipped.changed("double", lambda value: 2 * value + 1)
    assert (doubled.value, doubled.unbiased_value) == (1.0, -4.0)
    assert doubled.to_dict()["postprocessing"] == ["clip", "double"]
    assert raw.unbiased_value == raw.value


def test_guarantee_in_words() -> None:
    guarantee = hc.Guarantee(0.5, 1e-6, hc.Trust.SHUFFLE, False, "somebody's theorem", 90)
    assert str(guarantee) == "(0.5, 1e-6)-DP, shuffle trust, upper bound"
    # What is shown never promises more than the guarantee.
    tight = hc.Guarantee(0.30000049, 1.0000001e-6, hc.Trust.LOCAL, True, "x", 1)
    assert str(tight).startswith("(0.3001, 1.001e-6)")
    plain = hc.Guarantee(0.1, 0.0, hc.Trust.LOCAL, True, "x", 1)
    assert str(plain).startswith("(0.1, 0)")
    assert guarantee.to_dict()["neighbors"] == "replace one person's value"


# Histograms ---------------------------------------------------------------------------------


def test_histograms_encode_numbers_and_labels() -> None:
    assert hc.Histogram(3).encode([2, 0, 1.0]).tolist() == [2, 0, 1]
    assert hc.Histogram(2).encode([True, False]).tolist() == [1, 0]
    colors = hc.Histogram(["red", "green", "blue"])
    assert colors.encode(np.array(["blue", "red"])).tolist() == [2, 0]
    assert colors.encode(["green"]).tolist() == [1]
    assert hc.Histogram([30, 10, -5]).encode([10, -5, 30]).tolist() == [1, 2, 0]
    assert hc.Histogram(3).buckets == range(3)
    assert colors.answer(colors.holding([1, 2, 3])).tolist() == [1, 2, 3]
    assert colors == hc.Histogram(("red", "green", "blue"))
    assert hash(colors) == hash(hc.Histogram(("red", "green", "blue")))
    for task, wrong in (
        (hc.Histogram(3), [3]),
        (hc.Histogram(3), [-1]),
        (hc.Histogram(3), [0.5]),
        (hc.Histogram(3), [float("nan")]),
        (hc.Histogram(3), ["1"]),
        (colors, ["pink"]),
        (colors, [1]),
        (hc.Histogram([30, 10]), [20]),
    ):
        with pytest.raises(hc.InvalidValue):
            task.encode(wrong)


def test_bad_buckets_are_refused() -> None:
    for buckets in (
        0,
        1,
        -3,
        2.5,
        2**25,
        "ab",
        [],
        ["a"],
        ["a", "a"],
        ["a", 1],
        [1.5, 2.5],
        [True],
    ):
        with pytest.raises(hc.InvalidParameter):
            hc.Histogram(typing.cast(Any, buckets))
    with pytest.raises(hc.InvalidParameter, match="between 0 and"):
        hc.Histogram([-1, 5], open=True)


def test_open_buckets_take_anything_but_only_where_they_are_understood() -> None:
    words = hc.Histogram(["cat", "dog"], open=True)
    assert words.domain == 3
    keys = words.encode(["dog", "axolotl", "cat"])
    assert keys.dtype == np.uint64
    assert [keys[2], keys[0]] == words.keys.tolist()
    numbers = hc.Histogram([1, 2**63, 2**63 + 1, 2**64 - 1], open=True)
    assert numbers.keys.tolist() == [1, 2**63, 2**63 + 1, 2**64 - 1]
    assert numbers.encode([5, 2**63 + 1]).tolist() == [5, 2**63 + 1]
    for wrong in ([-1, 2**63], [2.5], [2.0**60], ["a"], [2**64]):
        with pytest.raises(hc.InvalidValue):
            numbers.encode(wrong)
    with pytest.raises(hc.InvalidParameter, match="with all buckets declared"):
        hc.protocol("shuffle.fake-users", words, hc.Budget(1, 1e-6), hc.Crowd(100))


def test_histogram_estimates() -> None:
    task = hc.Histogram(["red", "green", "blue"])
    protocol = hc.protocol("shuffle.fake-users", task, hc.Budget(1, 1e-6), hc.Crowd(1000))
    estimate = hc.run(protocol, ["green"] * 700 + ["blue"] * 300)
    assert estimate.value.shape == estimate.standard_error.shape == (3,)
    interval = estimate.interval(0.999999)
    assert [0, 700, 300] in interval
    assert [0, 700, 900] not in interval
    assert [bucket for bucket, _ in estimate.largest(2)] == ["green", "blue"]
    said = estimate.to_dict()
    assert said["buckets"] == ["red", "green", "blue"]
    assert len(said["value"]) == len(said["interval"]["low"]) == 3
    json.dumps(said)
    count = hc.run(hc.protocol("central.geometric", hc.Count(), hc.Budget(1), hc.Crowd(2)), [1, 0])
    with pytest.raises(hc.InvalidParameter, match="only a histogram"):
        count.largest()


def test_further_messages_join_their_senders() -> None:
    rng = np.random.default_rng(3)
    various = [
        (rng.integers(0, most, users).astype(np.min_scalar_type(most)), extra)
        for users, most, extra in ((5, 3, 7), (1000, 2, 3), (1000, 300, 500), (100_000, 2, 40))
    ]
    equal = [(np.broadcast_to(np.int64(each), 10_000), 20) for each in (1, 3, 255)]
    for counts, extra in [*various, *equal]:
        users = len(counts)
        payload = rng.integers(0, 100, counts.sum()).astype(np.int16)
        people = np.sort(rng.integers(0, users, extra))
        added = rng.integers(100, 200, extra).astype(np.int16)
        whole = hc.Messages(payload, users, counts).plus(people, added)
        assert whole.counts.sum(dtype=np.int64) == len(whole.payload) == len(payload) + extra
        ends = np.cumsum(counts, dtype=np.int64)
        for person in {0, users - 1, *people.tolist()[:50]}:
            own = payload[ends[person] - int(counts[person]) : ends[person]].tolist()
            assert whole[person].payload.tolist() == own + added[people == person].tolist()
    alone = hc.Messages.one_each(np.array([7, 8, 9]))
    assert alone.plus(np.zeros(0, int), np.zeros(0, int)) is alone
    assert alone.plus(np.array([1] * 300), np.arange(300)).counts.tolist() == [1, 301, 1]


def test_dummies_are_left_out() -> None:
    signs = hc.Alphabet(np.int8, range(-1, 2, 2), dummy=(0,))
    assert signs.messages(np.array([1, 0, -1, 0], np.int8)).tolist() == [1, -1]
    assert signs.padding(2).tolist() == [0, 0]
    records = hc.Alphabet(np.uint32, range(5), range(3), dummy=(0, 3))
    mixed = np.array([[0, 1], [0, 3], [4, 2]], np.uint32)
    assert records.messages(mixed).tolist() == [[0, 1], [4, 2]]
    assert records.padding(1).tolist() == [[0, 3]]
    for wrong in ([[1, 3]], [[5, 0]], [[0, 4]]):
        with pytest.raises(hc.InvalidValue):
            records.messages(np.array(wrong, np.uint32))


def test_rare_messages_are_withheld_whole() -> None:
    payload = np.array([[1, 1], [2, 2], [1, 1], [3, 3], [2, 2], [1, 1]], np.uint8)
    sent = hc.Messages(payload, 6, np.ones(6, int))
    for least, kept in ((1, 6), (2, 5), (3, 3), (4, 0)):
        assert len(hc.shuffle(sent, hc.SeededSource(1), least_copies=least).payload) == kept
    # A person who sends the same message often does not lift it over the threshold.
    cheat = hc.Messages(np.array([5] * 30 + [7, 7], np.uint8), 3, np.array([30, 1, 1]))
    assert hc.shuffle(cheat, hc.SeededSource(1), least_copies=2).payload.tolist() == [7, 7]


def test_a_crowd_that_sends_nothing_is_shuffled() -> None:
    """A person who is not sampled sends nothing, and that may be everybody."""
    nothing = hc.Messages(np.empty(0, np.uint8), 4, np.zeros(4, np.int64))
    for least, dummy in ((1, None), (2, None), (2, (3,))):
        batch = hc.shuffle(nothing, hc.SeededSource(1), least_copies=least, dummy=dummy)
        assert len(batch.payload) == 0
        assert batch.users == 4


def test_numbers_are_short_and_never_below_zero_by_nothing() -> None:
    assert [number(-0.0), number(-0.04, 1.0), size(-0.0), short(-0.0), exact(-0.0)] == [
        "0", "0.0", "0", "0", "0",
    ]  # fmt: skip
    assert [short(1e-6), short(1.5e30), size(2.5e-7), exact(1e-6)] == [
        "1e-6", "1.5e30", "2.5e-7", "1e-6",
    ]  # fmt: skip
    assert exact(7.002947800229682e-07) == "7.002947800229682e-7"
    assert float(exact(0.1 + 0.2)) == 0.1 + 0.2


def test_a_cached_property_keeps_the_value_of_its_own_class() -> None:
    """It may ask for its parent's value first. Otherwise a guarantee could be the parent's."""

    class Parent:
        computed = 0

        @cached_property
        def answer(self) -> int:
            self.computed += 1
            return 1

    class Child(Parent):
        @cached_property
        def answer(self) -> int:
            return super().answer + 1

        def parents(self) -> int:
            return super().answer

    parent, child = Parent(), Child()
    assert (parent.answer, parent.answer, parent.computed) == (1, 1, 1)
    assert (child.answer, child.parents(), child.answer) == (2, 1, 2)
