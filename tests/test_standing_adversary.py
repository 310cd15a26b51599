"""A standing adversary: no printed or saved statement about random settings is false.

`adversary` lists the views of small crowds. `adversary_settings` and `adversary_ledgers` draw
settings and run them. HEADCOUNT_ADVERSARY_SEED draws others.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import adversary
import adversary_ledgers as ledgers
import adversary_settings as settings
import headcount as hc
from adversary import Crowd
from adversary_settings import Asked, Finding, Gathering, Reading, Refused, Table
from commands import Headcount

SEED = os.environ.get("HEADCOUNT_ADVERSARY_SEED", "16")
CHUNK, CHUNKS = 50, 41
QUICK = 60
DOORS = {"python": 30, "command": 15, "run": 25, "bundles": 25, "ledger": 5}


QUICK_DOORS = {door: share for door, share in DOORS.items() if door != "ledger"}


def attack(
    seed: str, headcount: Headcount, folder: Path, doors: Mapping[str, int] = DOORS
) -> list[Finding]:
    """Attack one setting that gives an answer. Settings that are refused are drawn again."""
    random = Random(seed)
    (door,) = random.choices(list(doors), weights=list(doors.values()))
    for _ in range(300):
        try:
            return list(_through(door, random, headcount, folder))
        except Refused:
            continue
    raise AssertionError(f"no setting of {seed!r} has an answer")


def _through(door: str, random: Random, headcount: Headcount, folder: Path) -> Iterator[Finding]:
    if door == "python":
        return settings.by_python(settings.table(random))
    if door == "command":
        return settings.by_command(settings.table(random), headcount, folder, random)
    if door == "run":
        return settings.by_run(settings.gathering(random))
    if door == "bundles":
        return settings.by_bundles(settings.gathering(random, hc.Trust.SHUFFLE))
    made = ledgers.releases(random)
    if made.rule is None and made.limit.delta:
        made = ledgers.tightened(made, folder)
    return ledgers.by_ledger(made, folder)


def told(findings: list[Finding]) -> str:
    """The first finding of each kind, for the message of a failure."""
    kinds = {one.reading.where.split(",")[0]: one for one in reversed(findings)}
    return f"{len(findings)} readings are false:\n" + "\n".join(map(str, kinds.values()))


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_statement_about_a_random_setting_is_false(
    chunk: int, headcount: Headcount, tmp_path: Path
) -> None:
    """2,050 settings in all."""
    found = [
        finding
        for number in range(chunk * CHUNK, (chunk + 1) * CHUNK)
        for finding in attack(f"{SEED}-{number}", headcount, tmp_path)
    ]
    assert not found, told(found)


def test_no_statement_about_a_few_random_settings_is_false(
    headcount: Headcount, tmp_path: Path
) -> None:
    found = [
        finding
        for number in range(QUICK)
        for finding in attack(f"{SEED}-quick-{number}", headcount, tmp_path, QUICK_DOORS)
    ]
    assert not found, told(found)


# Statements that were false once ---------------------------------------------------------------


def response(epsilon: float, delta: float) -> Asked:
    budget = hc.Budget(epsilon, delta)
    return Asked("shuffle.randomized-response", hc.Count(), budget, {})


def rows_of(*groups: tuple[str, int], gaps: int = 0) -> tuple[settings.Row, ...]:
    rows = [(f"{group}{at}", group, at % 2) for group, size in groups for at in range(size)]
    return tuple((who, group, None if at < gaps else v) for at, (who, group, v) in enumerate(rows))


TABLES = {
    "honest people of groups": Table(
        response(1, 0.1), rows_of(("a", 4), ("b", 4)), 3, True, False, 1, "error"
    ),
    "everybody in groups is honest": Table(
        response(1, 0.1), rows_of(("a", 4), ("b", 3)), None, True, False, 1, "error"
    ),
    "a protocol built before, for groups": Table(
        response(1, 0.1),
        rows_of(("a", 4), ("b", 4)),
        None,
        True,
        False,
        1,
        "error",
        response(1, 0.1).built(4),
    ),
    "those who are left out were honest": Table(
        response(1, 0.1), rows_of(("a", 8), gaps=3), 5, False, False, 1, "drop"
    ),
}


@pytest.mark.parametrize("made", TABLES.values(), ids=TABLES)
def test_honest_people_are_those_that_are_relied_on(made: Table) -> None:
    try:
        found = list(settings.by_python(made))
    except Refused:
        return
    assert not found, told(found)


def gathered(name: str, task: hc.Task, budget: hc.Budget, users: int) -> Gathering:
    asked = Asked(name, task, budget, {})
    return Gathering(asked, asked.built(users), (0,) * users)


def test_redrawn_bundles_are_not_promised_more_than_they_keep() -> None:
    """If SECURITY.md says to seal whole bundles, this attack is not possible."""
    made = gathered("shuffle.fake-users", hc.Histogram(2), hc.Budget(2, 0.1), 3)
    slots = made.protocol.slots
    assert made.protocol.randomizer.overflow(slots) > 0
    crowd = Crowd(made.protocol, 3, slots=slots)
    for guarantee in settings.collected(made, slots):
        (reading,) = settings.in_json({"guarantee": guarantee.to_dict()}, "README")
        found = list(settings.false("redrawn bundles", reading, [crowd]))
        assert not found, told(found)


@pytest.mark.parametrize(
    ("name", "task"),
    [("shuffle.unary-sum", hc.Sum(0, 2, whole=True)), ("shuffle.fake-users", hc.Histogram(2))],
    ids=["unary-sum", "fake-users"],
)
def test_bundles_are_sealed_so_that_they_keep_their_promise(name: str, task: hc.Task) -> None:
    found = list(settings.by_bundles(gathered(name, task, hc.Budget(1.5, 0.4), 6)))
    assert not found, told(found)


def test_rare_messages_that_nobody_withheld_are_not_taken() -> None:
    made = gathered("shuffle.sample-threshold", hc.Histogram(3), hc.Budget(2, 0.05), 4)
    found = list(settings.by_bundles(made))
    assert not found, told(found)


def built_for(name: str, task: hc.Task, budget: hc.Budget, users: int) -> hc.Protocol:
    return Asked(name, task, budget, {}).built(users)


def small_ledger(rule: str | None = None) -> ledgers.Releases:
    """A response, and then one of two others of the same budget, chosen by its answer."""
    budget = hc.Budget(0.4, 0.05)
    return ledgers.Releases(
        hc.Budget(0.43, 0.05),
        rule,
        built_for("local.randomized-response", hc.Count(), hc.Budget(0.1), 1),
        (
            built_for("shuffle.sample-threshold", hc.Histogram(3), budget, 3),
            built_for("shuffle.randomized-response", hc.Count(), budget, 4),
        ),
    )


@pytest.fixture(scope="module")
def of_ledgers(tmp_path_factory: pytest.TempPathFactory) -> list[Finding]:
    return list(ledgers.by_ledger(small_ledger(), tmp_path_factory.mktemp("ledger")))


@pytest.mark.parametrize("where", ["limit", "spent, printed", "spent, to_dict"])
def test_a_ledger_keeps_what_it_says(where: str, of_ledgers: list[Finding]) -> None:
    found = [one for one in of_ledgers if one.reading.where == where]
    assert not found, told(found)


# Faults that the adversary must notice ----------------------------------------------------------


@pytest.fixture
def promising(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make a protocol promise something else."""

    def promise(protocol: hc.Protocol, **changed: Any) -> None:
        said = replace(protocol.guarantee, **changed)
        monkeypatch.setattr(type(protocol), "guarantee", said)
        vars(protocol).pop("guarantee", None)

    return promise


@pytest.fixture
def fresh() -> Iterator[None]:
    """Clear the caches for protocols that a test has changed."""
    adversary.forget()
    yield
    adversary.forget()


CHECKED = [
    Asked("central.geometric", hc.Count(), hc.Budget(1), {}),
    Asked("local.k-ary", hc.Histogram(3), hc.Budget(1), {}),
    response(1, 0.1),
    Asked("shuffle.unary-sum", hc.Sum(0, 2, whole=True), hc.Budget(1, 0.2), {}),
    Asked("shuffle.fake-users", hc.Histogram(2), hc.Budget(2, 0.1), {}),
    Asked("shuffle.correlated-histogram", hc.Histogram(2), hc.Budget(2, 0.1), {}),
    Asked("shuffle.zero-exact", hc.Count(), hc.Budget(2, 0.1), {}),
    Asked("shuffle.sample-threshold", hc.Histogram(3), hc.Budget(2, 0.05), {"rate": 0.3}),
]
noisy = pytest.mark.parametrize("asked", CHECKED, ids=lambda asked: asked.name)


def gathering(asked: Asked, users: int = 5, honest: int | None = None) -> Gathering:
    return Gathering(asked, asked.built(users, honest), (0,) * users)


@noisy
def test_what_is_said_now_is_true(asked: Asked) -> None:
    assert not list(settings.by_run(gathering(asked)))


@noisy
def test_half_of_a_delta_is_seen(asked: Asked, promising: Callable[..., None]) -> None:
    """For a pure guarantee, an ε that is a hundredth too small is noticed."""
    made = gathering(asked)
    said = made.protocol.guarantee
    half = {"delta": said.delta / 2} if said.delta else {"epsilon": 0.99 * said.epsilon}
    promising(made.protocol, **half)
    found = {finding.reading.where for finding in settings.by_run(made)}
    assert found == {"to_dict", "str", "notebook"}


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("asked", [CHECKED[0], CHECKED[2]], ids=lambda asked: asked.name)
def test_noise_that_is_a_twentieth_too_small_is_seen(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The noise is smaller than that for which the guarantee was computed."""
    made = gathering(asked)
    protocol = made.protocol
    said = protocol.guarantee, protocol.curve
    if asked.name == "central.geometric":
        estimator: Any = protocol.estimator
        monkeypatch.setitem(vars(protocol), "estimator", replace(estimator, rate=Fraction(21, 20)))
    else:
        randomizer: Any = protocol.randomizer
        weight = randomizer.weight * 19 // 20
        monkeypatch.setitem(vars(protocol), "randomizer", replace(randomizer, weight=weight))
    assert (protocol.guarantee, protocol.curve) == said
    assert {one.reading.where for one in settings.by_run(made)} >= {"to_dict", "str", "notebook"}


@pytest.mark.parametrize("asked", CHECKED[2:], ids=lambda asked: asked.name)
def test_dishonest_people_who_are_forgotten_are_seen(asked: Asked) -> None:
    """The noise is made for everybody, but only a few are honest, as the guarantee says."""
    protocol = gathering(asked, users=6).protocol
    said = replace(protocol.guarantee, honest=3)
    (reading,) = settings.in_json({"guarantee": said.to_dict()}, "to_dict")
    crowd = Crowd(protocol, 3, 1, dishonest=3)
    assert list(settings.false("forgotten", reading, [crowd]))


def test_rows_whose_honesty_is_forgotten_are_seen() -> None:
    """The noise of a table is made for everybody, but the caller said that few are honest."""
    everybody = Table(response(1, 0.1), rows_of(("a", 6)), None, False, False, 1, "error")
    answer, protocols = settings.answered(everybody)
    readings = settings.in_json(answer.to_dict(), "to_dict")
    assert not list(settings.judged_table(everybody, readings, protocols))
    assert list(settings.judged_table(replace(everybody, honest=2), readings, protocols))


@pytest.mark.parametrize("name", ["shuffle.zero-exact", "shuffle.correlated"])
def test_a_guarantee_for_one_direction_only_is_seen(
    name: str, promising: Callable[..., None]
) -> None:
    made = gathering(Asked(name, hc.Count(), hc.Budget(2, 0.1), {}))
    pairs = adversary.seen((made.crowd,)).pairs
    forth, back = (
        max(
            float(np.maximum(pair.one - np.exp(2.0) * pair.other, 0).sum())
            for pair in pairs
            if (pair.one[0] > pair.other[0]) == first
        )
        for first in (True, False)
    )
    assert min(forth, back) < 0.9 * max(forth, back)
    promising(made.protocol, delta=min(forth, back))
    assert list(settings.by_run(made))


def test_a_guarantee_that_is_called_exact_and_is_not_is_seen(
    promising: Callable[..., None],
) -> None:
    made = gathering(response(1, 0.1))
    said = made.protocol.guarantee
    assert said.exact
    promising(made.protocol, delta=1.01 * said.delta)
    (finding,) = settings.by_run(made)
    assert "exact" in finding.honest


@pytest.mark.parametrize("rows", [2, 3])
def test_rows_that_are_protected_one_by_one_are_seen(rows: int) -> None:
    """A person has several rows, and the guarantee holds only for one of them."""
    for asked in (CHECKED[0], CHECKED[1], response(1, 0.1)):
        said = gathering(asked).protocol.guarantee
        reading = Reading("to_dict", said.epsilon, said.delta)
        crowd = Crowd(gathering(asked).protocol, 5, rows)
        assert list(settings.false("one by one", reading, [crowd]))


def test_all_doors_and_readings_are_looked_at(headcount: Headcount, tmp_path: Path) -> None:
    """Text, JSON, a page and a table each state a guarantee, and so do groups."""
    made = Table(response(2, 0.2), rows_of(("a", 3)), None, True, False, 1, "error")
    seen: list[Reading] = []

    def look(of: Table, readings: Any, protocols: Any) -> Iterator[Finding]:
        seen.extend(readings)
        return iter(())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settings, "judged_table", look)
        for number in range(12):
            list(settings.by_command(made, headcount, tmp_path, Random(number)))
    assert {"--json", "printed", "result.json", "result.html", "result.parquet"} <= {
        reading.where for reading in seen
    }
    assert {reading.honest for reading in seen} == {None, 3}
