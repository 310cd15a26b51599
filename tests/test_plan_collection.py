"""Plans for real collections: what people send, what one of them can do, and limits on both."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest

import headcount as hc
from headcount.core.limits import Limits
from headcount.core.protocol import option_names
from headcount.planner.candidate import Candidate, InfluenceRange, assess
from headcount.planner.wishes import Purpose, Wishes
from headcount.planner.within import assess_within
from headcount.protocols.registry import protocol_class
from headcount.protocols.shuffle.zero_exact import ZeroExact

BUDGET, CROWD = hc.Budget(1, 1e-6), hc.Crowd(10_000)
SEALED = 112  # the bytes of a sealed short message: a key of 32, content of 64, a tag of 16
TASKS: list[hc.Task] = [hc.Count(), hc.Sum(0, 1), hc.Histogram(10), hc.Density(0, 1)]
tasks = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache without the answers of others."""
    monkeypatch.setenv("HEADCOUNT_CACHE", str(tmp_path / "cache"))


def limit_name(name: str) -> Any:
    """The value of a candidate that a limit is about."""
    return {
        "max_messages": lambda one: one.messages_per_user,
        "max_slots": lambda one: one.slots,
        "max_bytes": lambda one: one.sealed_bytes,
        "max_influence": lambda one: max(abs(one.influence.up), abs(one.influence.down)),
    }[name]


# What candidates say ------------------------------------------------------------------------------


@tasks
def test_candidates_say_what_people_send(task: hc.Task) -> None:
    for candidate in hc.plan(task, BUDGET, CROWD).candidates:
        built = hc.protocol(candidate.protocol, task, BUDGET, CROWD)
        assert candidate.slots == built.slots
        assert candidate.slots >= candidate.messages_per_user
        assert candidate.sealed_bytes == SEALED * candidate.slots
        shuffled = candidate.trust == hc.Trust.SHUFFLE
        assert candidate.shuffler_duties == (built.shuffler_duties if shuffled else None)
        assert candidate.relies_on_honest_people == (shuffled and built.guarantee.honest > 1)


@pytest.mark.parametrize(
    ("task", "name", "up", "down"),
    [
        (hc.Count(), "central.geometric", 1, 0),
        (hc.Count(), "local.randomized-response", 1.58198, -0.581977),
        (hc.Count(), "shuffle.zero-exact", 1.00341, -0.996593),
        (hc.Count(), "shuffle.randomized-response", 1.00339, -0.00339445),
        (hc.Histogram(10), "shuffle.fake-users", 8 * 0.9 + 0.1, -8 * 0.1 + 0.1),
        (hc.Histogram(10), "shuffle.zero-exact-histogram", 11 * 0.9 + 0.1, -11 * 0.1 + 0.1),
        (hc.Sum(0, 1), "shuffle.split-and-mix", math.inf, -math.inf),
    ],
)
def test_candidates_say_how_far_one_person_shifts_the_answer(
    task: hc.Task, name: str, up: float, down: float
) -> None:
    influence = hc.plan(task, BUDGET, CROWD)[name].influence
    assert influence is not None
    assert (influence.up, influence.down) == pytest.approx((up, down), rel=1e-5)
    assert influence.most == max(influence.up, -influence.down)


@pytest.mark.parametrize(
    "task",
    [
        pytest.param(task, id=task.name, marks=[pytest.mark.slow] * (task.name == "histogram"))
        for task in TASKS
    ],
)
def test_candidates_are_the_same_after_json(task: hc.Task) -> None:
    plan = hc.plan(task, BUDGET, CROWD, purpose="collection")
    document = json.loads(json.dumps(plan.to_dict(), allow_nan=False))
    assert hc.Plan.from_dict(document) == plan
    for one, candidate in zip(document["candidates"], plan.candidates, strict=True):
        assert set(one["influence"]) == {"up", "down"}
        assert one["slots"] == candidate.slots
        assert one["sealed_bytes"] == candidate.sealed_bytes
        assert one["relies_on_honest_people"] == candidate.relies_on_honest_people
    free = dataclasses.replace(plan.best, influence=InfluenceRange(math.inf, -math.inf))
    assert free.to_dict()["influence"] == {"up": None, "down": None}
    assert Candidate.from_dict(free.to_dict()) == free
    unknown = dataclasses.replace(plan.best, influence=None, slots=None, sealed_bytes=None)
    assert Candidate.from_dict(unknown.to_dict()) == unknown


@pytest.mark.parametrize(
    "change",
    [
        {"slots": 0},
        {"slots": "many"},
        {"sealed_bytes": 1.5},
        {"influence": {"up": "far", "down": 0}},
        {"influence": {"up": 1}},
        {"shuffler_duties": 3},
        {"relies_on_honest_people": None},
    ],
    ids=str,
)
def test_changed_candidates_are_refused(change: dict[str, Any]) -> None:
    document = hc.plan(hc.Count(), BUDGET, CROWD).to_dict()
    document["candidates"][0] |= change
    with pytest.raises(hc.UnreadableData):
        hc.Plan.from_dict(document)


@pytest.mark.usefixtures("own_cache")
def test_protocols_without_bundles_have_no_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    def impossible(_: hc.Protocol) -> int:
        raise hc.Infeasible("no bundles")

    monkeypatch.setattr(ZeroExact, "slots", property(impossible))
    candidate = assess("shuffle.zero-exact", hc.Count(), BUDGET, CROWD)
    assert isinstance(candidate, Candidate)
    assert (candidate.slots, candidate.sealed_bytes) == (None, None)
    assert candidate.influence is not None
    assert candidate.influence.most == math.inf
    for limit in ({"max_slots": 5}, {"max_bytes": 10**6}):
        (miss,) = Wishes(**limit).misses(candidate)  # type: ignore[arg-type]
        assert "it has no bundles" in miss.reason
    plan = hc.plan(hc.Count(), BUDGET, CROWD, trust="shuffle", purpose="collection")
    assert "shuffle.zero-exact" in {one.protocol for one in plan.refused}


@pytest.mark.usefixtures("own_cache")
def test_influence_that_is_not_stated_is_not_small(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(_: hc.Protocol) -> int:
        raise NotImplementedError

    monkeypatch.setattr(ZeroExact, "influence", property(silent))
    candidate = assess("shuffle.zero-exact", hc.Count(), BUDGET, CROWD)
    assert isinstance(candidate, Candidate)
    assert candidate.influence is None
    (miss,) = Wishes(max_influence=1e9).misses(candidate)
    assert "does not state how far" in miss.reason


# Limits -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "limits",
    [
        {"max_slots": 1},
        {"max_bytes": 500},
        {"max_influence": 1.2},
        {"max_messages": 1.0, "max_slots": 1},
        {"max_slots": 2, "max_bytes": 300, "max_influence": 1.001},
        {"max_slots": 1, "exact": True},
        {"max_influence": 0.001},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "task",
    [hc.Count(), pytest.param(hc.Histogram(10), marks=pytest.mark.slow)],
    ids=["count", "histogram"],
)
def test_limits_hold_and_refusals_say_which_would(task: hc.Task, limits: dict[str, Any]) -> None:
    crowd = hc.Crowd(10_000, 9_000)
    plan = hc.plan(task, BUDGET, crowd, trust="shuffle", **limits)
    numbers = {name: limit for name, limit in limits.items() if name != "exact"}
    for candidate in plan.candidates:
        assert all(limit_name(name)(candidate) <= limit for name, limit in numbers.items())
        assert candidate.guarantee.exact or "exact" not in limits
    missed = [refusal for refusal in plan.refused if refusal.missed]
    assert missed
    for refusal in missed:
        assert "is allowed" in refusal.reason or "was asked for" in refusal.reason
        if refusal.feasible:
            enough = {**limits, **refusal.feasible}
            again = hc.plan(task, BUDGET, crowd, trust="shuffle", **enough)
            assert refusal.protocol in {one.protocol for one in again.candidates}
    if not plan.candidates:
        with pytest.raises(hc.Infeasible, match="no protocol fits") as caught:
            _ = plan.best
        again = hc.plan(task, BUDGET, crowd, trust="shuffle", **{**limits, **caught.value.nearest})
        assert again.candidates


def test_the_nearest_miss_needs_the_smallest_change() -> None:
    with pytest.raises(hc.Infeasible, match="bytes per person is 112, but at most 100") as caught:
        hc.best_protocol(hc.Count(), BUDGET, CROWD, "shuffle", max_bytes=100)
    assert caught.value.nearest == {"max_bytes": 112}


def least_error(
    name: str, task: hc.Task, settings: list[dict[str, Any]], limits: dict[str, Any]
) -> float:
    """The least error of settings within the limits."""
    errors = [math.inf]
    for options in settings:
        built = hc.protocol(name, task, BUDGET, CROWD, **options)
        sent = {"max_messages": built.messages_per_user, "max_slots": built.slots}
        if all(sent[one] <= limit for one, limit in limits.items()):
            errors.append(built.estimator.ranking_error(CROWD.users))
    return min(errors)


@pytest.mark.parametrize(
    ("name", "task", "settings"),
    [
        (
            "shuffle.unary-sum",
            hc.Sum(0, 1),
            [{"bits": bits} for bits in (1, 2, 4, 5, 8, 12, 13, 30, 31, 60)],
        ),
        (
            "shuffle.hashed-histogram",
            hc.Histogram(4),
            [{"cells": 2**power} for power in range(1, 14)],
        ),
        (
            "shuffle.split-and-mix",
            hc.Sum(0, 1),
            [{"precision": levels} for levels in (1, 2, 8, 32, 200)] + [{}],
        ),
        (
            "shuffle.density-histogram",
            hc.Density(0, 1),
            [{"bins": bins} for bins in range(2, 31)],  # 30 are usual, and more are not tried
        ),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
@pytest.mark.parametrize(
    "limits",
    [
        {"max_slots": 4},
        {"max_slots": 7},
        {"max_slots": 12},
        {"max_slots": 30},
        {"max_slots": 30, "max_messages": 1.02},
        {"max_slots": 8, "max_messages": 8.5},
        {"max_messages": 1.01},
    ],
    ids=str,
)
def test_plans_use_all_slots_that_are_allowed(
    name: str, task: hc.Task, settings: list[dict[str, Any]], limits: dict[str, Any]
) -> None:
    wishes = Wishes(**limits)
    found = assess_within(name, task, BUDGET, CROWD, wishes)
    assert isinstance(found, Candidate)
    best = least_error(name, task, settings, limits)
    if list(wishes.misses(found)):
        assert best == math.inf
    else:
        assert found.expected_error <= 1.0001 * best


def test_limits_of_bytes_are_used_up_like_slots() -> None:
    task, name = hc.Sum(0, 1), "shuffle.unary-sum"
    by_slots = hc.plan(task, BUDGET, CROWD, trust="shuffle", max_slots=20)[name]
    for most in (20 * SEALED, 21 * SEALED - 1):
        by_bytes = hc.plan(task, BUDGET, CROWD, trust="shuffle", max_bytes=most)[name]
        assert by_bytes == by_slots
    assert by_slots.slots == 20


def test_too_much_influence_is_answered_with_fewer_slots() -> None:
    name, task = "shuffle.hashed-histogram", hc.Histogram(4)
    usual = hc.plan(task, BUDGET, CROWD)[name]
    assert usual.influence is not None
    assert usual.influence.most > 15
    fewer = hc.plan(task, BUDGET, CROWD, max_influence=15)[name]
    assert fewer.influence is not None
    assert fewer.influence.most <= 15
    # The next power of two would be too many cells.
    cells = 2 * fewer.options["cells"]
    assert hc.protocol(name, task, BUDGET, CROWD, cells=cells).influence.up > 15


def test_few_more_messages_bring_a_count_close_to_central() -> None:
    central = 1 / (math.sqrt(2) * math.sinh(0.5))  # two-sided geometric noise of ε = 1
    crowd = hc.Crowd(100_000)
    plan = hc.plan(hc.Count(), BUDGET, crowd, trust="shuffle", max_messages=1.03)
    assert plan.best.protocol == "shuffle.correlated"
    assert plan.best.standard_error < 1.0175 * central
    built = hc.best_protocol(hc.Count(), BUDGET, crowd, "shuffle", max_messages=1.03)
    assert dict(built.parameters) == dict(plan.best.parameters)
    usual = hc.plan(hc.Count(), BUDGET, crowd, trust="shuffle")["shuffle.correlated"]
    assert plan.best.standard_error < usual.standard_error


@pytest.mark.parametrize("name", ["shuffle.correlated", "shuffle.correlated-histogram"])
def test_correlated_noise_uses_its_slots_if_it_can_be_capped(name: str) -> None:
    task = hc.Count() if name == "shuffle.correlated" else hc.Histogram(5)
    kind = protocol_class(name, task)
    capped = "max_slots" in option_names(kind)
    for slots in (1, 10, 1000):
        settings = list(kind.settings_within(task, BUDGET, CROWD, Limits(slots=slots)))
        assert settings
        for options in settings:
            assert ("max_slots" in options) == (capped and options != {})
            assert options.get("max_slots", 0) <= max(slots, 2)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"max_slots": 0}, "`max_slots` must be between 1 and 16777216, got 0"),
        ({"max_slots": 2.5}, "`max_slots` must be a whole number, got 2.5"),
        ({"max_bytes": -1}, "`max_bytes` must be between"),
        ({"max_bytes": "much"}, "`max_bytes` must be a real number"),
        ({"max_influence": 0}, "`max_influence` must be positive, got 0"),
        ({"max_influence": math.nan}, "`max_influence` must be finite"),
        ({"max_messages": 0}, "`max_messages` must be positive, got 0"),
        ({"max_messages": math.inf}, "`max_messages` must be finite"),
        ({"purpose": "fun"}, "`purpose` must be one of accuracy, collection, got 'fun'"),
        ({"purpose": "collection", "trust": "central"}, "`trust` must be shuffle or local"),
        ({"exact": 1}, "`exact` must be True or False"),
    ],
    ids=str,
)
def test_bad_limits_are_refused(limits: dict[str, Any], message: str) -> None:
    with pytest.raises(hc.InvalidParameter, match=message):
        hc.plan(hc.Count(), BUDGET, CROWD, **limits)


def test_unknown_limits_are_refused() -> None:
    with pytest.raises(TypeError, match="max_meters"):
        hc.plan(hc.Count(), BUDGET, CROWD, max_meters=3)  # type: ignore[call-arg]


# Collections --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "task",
    [
        pytest.param(task, id=task.name, marks=[pytest.mark.slow] * (task.name == "histogram"))
        for task in TASKS
    ],
)
def test_collections_follow_their_rule(task: hc.Task) -> None:
    plan = hc.plan(task, BUDGET, CROWD, purpose="collection")
    errors = [one.expected_error for one in plan.candidates]
    assert errors == sorted(errors)
    assert plan.best == plan.candidates[0]
    for one in plan.candidates:
        assert one.trust != hc.Trust.CENTRAL
        assert one.influence is not None
        assert one.influence.most <= 10 * one.standard_error
        assert one.slots is not None
        assert one.slots <= 64
        assert one.sealed_bytes is not None
        assert one.sealed_bytes <= 16_000
    named = {one.protocol for one in plan.candidates} | {one.protocol for one in plan.refused}
    assert named == {name for name in hc.protocol_names(task) if not name.startswith("central")}
    # What is left out breaks the rule with its usual options.
    usual = hc.plan(task, BUDGET, CROWD)
    for refusal in plan.refused:
        assert refusal.missed
        other = usual[refusal.protocol]
        assert other.influence is not None
        assert other.slots is not None
        assert other.slots > 64 or other.influence.most > 10 * other.standard_error


def test_a_collection_allows_no_more_than_it_says() -> None:
    usual = hc.plan(hc.Count(), BUDGET, CROWD)["shuffle.zero-exact"]
    wishes, error = Wishes(Purpose.COLLECTION), usual.standard_error
    for fitting, beyond in (
        ({"slots": 64}, {"slots": 65}),
        ({"sealed_bytes": 16_000}, {"sealed_bytes": 16_001}),
        (
            {"influence": InfluenceRange(10 * error, 0)},
            {"influence": InfluenceRange(10.01 * error, 0)},
        ),
        (
            {"influence": InfluenceRange(0, -10 * error)},
            {"influence": InfluenceRange(0, -10.01 * error)},
        ),
    ):
        assert not list(wishes.misses(dataclasses.replace(usual, **fitting)))
        assert len(list(wishes.misses(dataclasses.replace(usual, **beyond)))) == 1


def test_given_limits_take_the_place_of_a_collections_own() -> None:
    task = hc.Sum(0, 1)
    usual = hc.plan(task, BUDGET, CROWD, purpose="collection")
    assert usual["shuffle.unary-sum"].slots == 64
    more = hc.plan(
        task, BUDGET, CROWD, purpose="collection", max_slots=100, max_bytes=20_000, max_influence=2
    )
    assert more["shuffle.unary-sum"].slots == 100
    assert max(abs(more.best.influence.up), abs(more.best.influence.down)) <= 2  # type: ignore[union-attr]
    few = hc.plan(task, BUDGET, CROWD, purpose="collection", max_slots=3)
    assert few["shuffle.unary-sum"].slots == 3
    free = hc.plan(task, BUDGET, CROWD, purpose="collection", trust="local")
    assert {one.trust for one in free.candidates} == {hc.Trust.LOCAL}


@pytest.mark.slow
@tasks
def test_tables_of_collections_fit_a_terminal(task: hc.Task) -> None:
    plan = hc.plan(task, BUDGET, CROWD, purpose="collection")
    table = plan.table().within(100)
    assert table.width <= 100
    assert {"slots", "influence"} <= set(table.columns)
    whole = plan.table().columns
    assert {"slots", "bytes", "influence", "shuffler"} <= set(whole)
    assert "bits" not in whole
    assert "these protocols rely on honest people for privacy: shuffle." in str(plan)
    assert "bits" in hc.plan(task, BUDGET, CROWD).table().columns


def test_plans_of_collections_are_saved_and_run(tmp_path: Path) -> None:
    plan = hc.plan(hc.Sum(0, 1), BUDGET, CROWD, purpose="collection", max_slots=12)
    plan.save(tmp_path / "plan.json")
    loaded = hc.Plan.load(tmp_path / "plan.json")
    assert loaded == plan
    assert loaded.purpose == "collection"
    built = loaded.protocol()
    assert built.slots <= 12
    assert built == hc.best_protocol(
        hc.Sum(0, 1), BUDGET, CROWD, None, purpose="collection", max_slots=12
    )
    document = {**plan.to_dict(), "version": 1}
    (tmp_path / "plan.json").write_text(json.dumps(document))
    with pytest.raises(hc.UnreadableData, match=r"version 3, got .*, version 1"):
        hc.Plan.load(tmp_path / "plan.json")


# Comparisons --------------------------------------------------------------------------------------


def test_comparisons_over_slots() -> None:
    task = hc.Sum(0, 1)
    names = ["shuffle.unary-sum", "shuffle.split-and-mix", "shuffle.fixed-point-sum"]
    found = hc.compare(task, BUDGET, CROWD, over="slots", protocols=names, values=[1, 5, 20])
    unary, split, single = found.series
    assert [point.at for point in unary.points] == [1, 5, 20]
    errors = [point.standard_error for point in unary.points]
    assert errors == sorted(errors, reverse=True)
    assert all(5 < point.at <= 20 for point in split.points)
    assert set(split.refused) == {"1", "5"}
    assert "but at most 1 is allowed" in split.refused["1"]
    assert [point.at for point in single.points] == [1]
    assert not found.theory
    assert "slots per person" in str(found)
    paper = hc.compare(
        task, BUDGET, CROWD, over="slots", protocols=names[:1], values=[1, 5], calibration="paper"
    )
    assert len(paper.series[0].points) <= 1
    with pytest.raises(hc.InvalidParameter, match="`slots` must be a whole number"):
        hc.compare(task, BUDGET, CROWD, over="slots", protocols=names, values=[1.5])
