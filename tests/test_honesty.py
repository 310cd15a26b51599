"""The number of honest people that groups rely on, compared with all views of small crowds."""

import json
from pathlib import Path
from typing import Any

import pytest

import headcount as hc
from commands import Headcount
from enumeration import worst_delta
from headcount.data.release import Release

SMALL = hc.Budget(2, 0.2)
PROTOCOLS = ["shuffle.zero-exact", "shuffle.randomized-response"]


def table(sizes: dict[str, int], missing: int = 0) -> dict[str, list[Any]]:
    """People of some cities. Some of them have no value, and could be from any city."""
    cities = [city for city, people in sizes.items() for _ in range(people)]
    values: list[int | None] = [at % 2 for at in range(len(cities))]
    return {
        "value": values + [None] * missing,
        "city": cities + [min(sizes)] * missing,
        "who": [f"p{at}" for at in range(len(cities) + missing)],
    }


def asked(data: Any, **settings: Any) -> tuple[hc.Estimate | hc.GroupedEstimate, Release]:
    task = None if isinstance(settings.get("protocol"), hc.Protocol) else hc.Count()
    ready = hc.prepare(data, task, **{"column": "value", "trust": "shuffle", **settings})
    return ready.answer(), ready.release


def grouped(data: Any, **settings: Any) -> tuple[hc.GroupedEstimate, Release]:
    found, release = asked(data, group="city", **settings)
    assert isinstance(found, hc.GroupedEstimate)
    return found, release


def test_dishonest_people_may_all_be_in_one_group() -> None:
    """In two groups of 60, 50 people are said to be honest. All others may be in one group."""
    data, budget = table({"Bonn": 60, "Ulm": 60}), hc.Budget(1, 1e-3)
    with pytest.raises(hc.Infeasible) as refused:
        asked(data, group="city", budget=budget, honest=50)
    assert "group 'Bonn' of 60 people: 70 of 120 people may be dishonest" in str(refused.value)
    assert "`honest` must be at least 61" in str(refused.value)
    assert "honest={group: people}" in str(refused.value)
    # The old behavior, if one honest person is left in the victim's group.
    before = hc.protocol("shuffle.randomized-response", hc.Count(), budget, hc.Crowd(60, 50))
    assert before.guarantee.delta <= 1e-3
    assert worst_delta(before, 1.0, honest=1) > 0.46


def test_without_a_word_everybody_is_relied_on() -> None:
    found, _ = grouped(table({"Bonn": 60, "Ulm": 60}), budget=hc.Budget(1, 1e-3))
    assert found.guarantee.honest == 120
    assert [one.guarantee.honest for one in found.values()] == [60, 60]
    assert "relies on 60 honest people in each group" in found.guarantee.method


@pytest.mark.parametrize("name", PROTOCOLS)
@pytest.mark.parametrize("missing", [0, 2])
def test_no_place_of_the_dishonest_breaks_a_claim(name: str, missing: int) -> None:
    answered = 0
    for bonn, ulm in [(3, 4), (5, 3)]:
        sizes = {"Bonn": bonn, "Ulm": ulm}
        everybody = bonn + ulm + missing
        for honest in range(1, everybody + 1):
            try:
                found, release = grouped(
                    table(sizes, missing), budget=SMALL, protocol=name, honest=honest,
                    missing="drop",
                )  # fmt: skip
            except hc.Infeasible:
                continue
            answered += 1
            for dishonest in (everybody - honest, everybody - found.guarantee.honest):
                for (city, one), protocol in zip(found.items(), release.protocols, strict=True):
                    left = sizes[city] - dishonest  # type: ignore[index]
                    for promise in (one.guarantee, found.guarantee):
                        truth = worst_delta(protocol, promise.epsilon, honest=left)
                        assert truth <= promise.delta, (sizes, honest, city)
            assert found.guarantee.honest <= honest
    assert answered >= 2


def test_said_of_each_group() -> None:
    data = table({"Bonn": 60, "Ulm": 40})
    found, _ = grouped(data, budget=hc.Budget(1, 1e-3), honest={"Bonn": 50, "Ulm": 40})
    assert [one.guarantee.honest for one in found.values()] == [50, 40]
    assert found.guarantee.honest == 100  # since one dishonest person could be in Ulm
    assert "50 in 'Bonn', 40 in 'Ulm'" in found.guarantee.method
    found, _ = grouped(data, budget=hc.Budget(1, 1e-3), honest={"Bonn": 50, "Ulm": 35})
    assert found.guarantee.honest == 95
    # All people without a value may be honest, and from any city.
    data = table({"Bonn": 60, "Ulm": 40}, missing=5)
    said = {"Bonn": 55, "Ulm": 40}
    found, _ = grouped(data, budget=hc.Budget(1, 1e-3), honest=said, missing="drop")
    assert [one.guarantee.honest for one in found.values()] == [50, 35]


@pytest.mark.parametrize(
    ("honest", "settings", "message"),
    [
        ({"Bonn": 50}, {}, "got none for 'Ulm'"),
        ({"Bonn": 50, "Ulm": 40, "Köln": 1}, {}, "got 'Köln', which has no people"),
        ({"Bonn": 61, "Ulm": 40}, {}, "honest\\['Bonn'\\]` must be between 1 and 60"),
        ({"Bonn": 50, "Ulm": 0}, {}, "must be between 1 and 40"),
        ({"Bonn": 50, "Ulm": 40}, {"group": None}, "must be a number, unless there are groups"),
        ({"Bonn": 50, "Ulm": 40}, {"person": "who"}, "must be a number, unless there are groups"),
        (101, {}, "`honest` must be between 1 and 100"),
        ("many", {}, "`honest` must be a real number"),
    ],
)
def test_what_cannot_be_said_is_refused(
    honest: Any, settings: dict[str, Any], message: str
) -> None:
    data = table({"Bonn": 60, "Ulm": 40})
    with pytest.raises(hc.InvalidParameter, match=message):
        asked(data, budget=hc.Budget(1, 1e-3), honest=honest, **{"group": "city", **settings})


def test_all_who_are_dropped_may_be_honest() -> None:
    """Of 100 rows, 70 are honest and 20 have no value. So 50 of the rows that count are honest."""
    data = table({"Bonn": 80}, missing=20)
    found, release = asked(data, budget=hc.Budget(1, 1e-3), honest=70, missing="drop")
    assert isinstance(found, hc.Estimate)
    assert (found.users, found.guarantee.honest) == (80, 50)
    assert release.protocols[0].crowd == hc.Crowd(80, 50)
    with pytest.raises(hc.Infeasible, match="`honest` must be at least 21"):
        asked(data, budget=hc.Budget(1, 1e-3), honest=20, missing="drop")
    together, _ = grouped(data, budget=hc.Budget(1, 1e-3), honest=70, missing="drop")
    assert together.guarantee.honest == 70


def test_people_of_several_rows_are_counted_once() -> None:
    """90 people have two rows with a value. 10 people have no value, and one has no name."""
    rows: list[tuple[str | None, int | None]]
    rows = [(f"p{at % 90}", at % 2) for at in range(180)]
    rows += [("p0", None), ("p89", None), (None, None)]
    rows += [(f"q{at % 9}", None) for at in range(18)]
    who, values = (list(column) for column in zip(*rows, strict=True))
    places = {name: at for at, name in enumerate(dict.fromkeys(who)) if name is not None}
    for names in (who, [places.get(name) for name in who]):
        data = {"who": names, "value": values, "city": ["Bonn"] * len(rows)}
        settings: dict[str, Any] = {"person": "who", "missing": "drop"}
        found, _ = grouped(data, budget=hc.Budget(1, 1e-3), honest=98, **settings)
        assert (found.users, found["Bonn"].guarantee.honest) == (90, 88)
        assert found.guarantee.honest == 98
        # Each of two dishonest people has two rows.
        found, _ = grouped(
            data, budget=hc.Budget(1, 1e-3), honest=98, rows_per_person=2, **settings
        )
        assert (found.users, found["Bonn"].guarantee.honest) == (180, 176)
        assert found.guarantee.honest == 98
        with pytest.raises(hc.InvalidParameter, match="between 1 and 100"):
            grouped(data, budget=hc.Budget(1, 1e-3), honest=101, **settings)


def test_a_protocol_that_was_built_relies_on_its_honest_people_in_every_group() -> None:
    built = hc.protocol(
        "shuffle.randomized-response", hc.Count(), hc.Budget(1, 1e-3), hc.Crowd(60, 50)
    )
    data = table({"Bonn": 60, "Ulm": 70})
    found, _ = grouped(data, protocol=built, trust=None)
    assert [one.guarantee.honest for one in found.values()] == [50, 50]
    assert found.guarantee.honest == 120  # if the other ten live in Bonn, 50 are left there
    assert "relies on 50 honest people in each group" in found.guarantee.method
    grouped(data, protocol=built, trust=None, honest=120)
    with pytest.raises(hc.CrowdMismatch, match=r"'Bonn'.* at least 50 honest .*, got 49 among 60"):
        grouped(data, protocol=built, trust=None, honest=119)
    with pytest.raises(hc.CrowdMismatch, match="got 49 among 60"):
        asked(table({"Bonn": 60}), protocol=built, trust=None, honest=49)


@pytest.mark.parametrize("trust", ["central", "local"])
@pytest.mark.parametrize("honest", [None, 50, 7, 100])
def test_other_trusts_rely_on_nobody_else(trust: str, honest: int | None) -> None:
    data = table({"Bonn": 60, "Ulm": 40})
    found, _ = grouped(data, budget=hc.Budget(1), trust=trust, honest=honest)
    said = [min(people, honest or people) for people in (60, 40)]
    assert [one.guarantee.honest for one in found.values()] == said
    assert found.guarantee.honest == min(said)
    assert "relies on" not in found.guarantee.method


def test_the_command_says_what_groups_rely_on(headcount: Headcount, tmp_path: Path) -> None:
    data = table({"Bonn": 60, "Ulm": 60})
    lines = [f"{value},{city}" for value, city in zip(data["value"], data["city"], strict=True)]
    (tmp_path / "town.csv").write_text("\n".join(["value,city", *lines]) + "\n")
    asking = ["estimate", "town.csv", "--column", "value", "--group", "city"]
    spent = ["--epsilon", "1", "--delta", "1e-3", "--trust", "shuffle"]
    done = headcount(*asking, *spent, "--honest", "50")
    assert (done.status, done.out, done.err.count("\n")) == (3, "", 1)
    assert "`honest` must be at least 61" in done.err
    answer = json.loads(headcount(*asking, *spent, "--honest", "110", "--json").out)
    assert answer["guarantee"]["honest"] == 110
    assert [one["guarantee"]["honest"] for one in answer["groups"]] == [50, 50]
    planned = ["plan", "count", "--users", "60", "--honest", "50", *spent, "--out", "plan.json"]
    assert headcount(*planned).status == 0
    assert (
        "relies on 50 honest people in each group" in headcount(*asking, "--plan", "plan.json").out
    )
    answer = json.loads(headcount(*asking, "--plan", "plan.json", "--json").out)
    assert answer["guarantee"]["honest"] == 110
