"""The privacy report: its statements hold for whole laws, and its bounds are tight where that is
known.
"""

import json
import math
from fractions import Fraction
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import enumeration
import headcount as hc
from headcount.plot.report_page import REPORT_FORMATS, save_report

SECRET = 100


def test_bounds_are_reached_by_randomized_response() -> None:
    """k-ary response with e^ε = 3: everything follows from its law."""
    epsilon, kinds = math.log(3), 10
    found = hc.privacy_report(hc.Budget(epsilon), secret=kinds)
    assert found.odds.value is not None
    assert 3 <= found.odds.value == pytest.approx(3)
    assert found.exception.value == 0
    assert found.advantage.value == pytest.approx(3 / 4 - 1 / 4)  # with two values
    assert found.singled_out.value == pytest.approx(3 / (3 + kinds - 1))
    assert found.never == pytest.approx(3)
    assert found.belief(1 / 2) == pytest.approx(3 / 4)
    assert found.detection(1 / 4) == pytest.approx(3 / 4)


def test_bounds_with_a_delta_are_reached_by_what_tells_all_now_and_then() -> None:
    """The value is revealed with a chance of δ. Otherwise it is randomized response with ε."""
    epsilon, delta = 1.0, 0.1
    found = hc.privacy_report(hc.Budget(epsilon, delta), secret=2)
    truth = math.e / (1 + math.e)
    right = delta + (1 - delta) * truth
    assert found.advantage.value == pytest.approx(2 * right - 1)
    assert found.singled_out.value == pytest.approx(right)
    # Odds are infinite with a chance of δ. This mechanism keeps e^ε otherwise, but not every
    # mechanism does.
    assert found.exception.value == pytest.approx(2 * delta)
    assert found.odds.value == pytest.approx(2 * math.e)
    assert found.never is None


def some_laws(count: int, size: int) -> list[tuple[list[Fraction], list[Fraction]]]:
    generator = np.random.default_rng(7)
    pairs = []
    for _ in range(count):
        one, other = (generator.integers(0, 9, size) ** 2 + [1, *[0] * (size - 1)] for _ in "PQ")
        laws = [[Fraction(int(w), int(side.sum())) for w in side] for side in (one, other)]
        pairs.append((laws[0], laws[1]))
    return pairs


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 2.5])
def test_no_pair_of_laws_shows_more(epsilon: float) -> None:
    """δ of any two laws, computed from all events. A report of (ε, δ) is never exceeded."""
    factor = math.exp(epsilon)
    for one, other in some_laws(60, 6):
        delta = max(
            float(sum(max(float(p) - factor * float(q), 0.0) for p, q in zip(*pair, strict=True)))
            for pair in ((one, other), (other, one))
        )
        if not 0 < delta < 0.5:
            continue
        said = hc.Guarantee(epsilon, delta, hc.Trust.LOCAL, False, "made up", 1)
        found = hc.privacy_report(said, secret=2)
        odds, left = found.odds.value, found.exception.value
        assert odds is not None
        assert left is not None
        assert found.advantage.value is not None
        apart = sum(abs(p - q) for p, q in zip(one, other, strict=True)) / 2
        assert float(apart) <= found.advantage.value + 1e-12
        for here, there in ((one, other), (other, one)):
            beyond = sum(p for p, q in zip(here, there, strict=True) if p > odds * (1 + 1e-9) * q)
            assert float(beyond) <= left + 1e-12
        order = sorted(range(6), key=lambda at: -float(one[at]) / max(float(other[at]), 1e-300))
        for count in range(7):
            detected = sum(one[at] for at in order[:count])
            alarms = sum(other[at] for at in order[:count])
            assert float(detected) <= found.detection(float(alarms)) + 1e-9


@pytest.mark.parametrize(
    ("name", "task", "users"),
    [
        ("shuffle.randomized-response", hc.Count(), 8),
        ("shuffle.zero-exact", hc.Count(), 8),
        ("shuffle.k-ary", hc.Histogram(3), 5),
        ("local.k-ary", hc.Histogram(3), 1),
    ],
)
def test_reports_of_protocols_hold_for_every_view(name: str, task: hc.Task, users: int) -> None:
    """The whole curve is used. So a report has smaller bounds than its (ε, δ) alone gives, and it
    still holds for any two neighboring views, which are enumerated.
    """
    protocol = hc.protocol(name, task, hc.Budget(1, 0.05), hc.Crowd(users))
    found = hc.privacy_report(protocol, secret=2)
    plain = hc.privacy_report(protocol.guarantee, secret=2)
    for mine, its in zip(found.facts, plain.facts, strict=True):
        assert mine.value is not None
        assert its.value is not None
        assert mine.value <= its.value * (1 + 1e-12)
    advantage, odds, left = found.advantage.value, found.odds.value, found.exception.value
    assert advantage is not None
    assert odds is not None
    assert left is not None
    apart = float(enumeration.worst_delta(protocol, 0.0))
    assert apart <= advantage * (1 + 1e-9)
    assert advantage <= apart * 1.3  # and not much more
    for one, other in enumeration.neighboring_views(protocol):
        assert isinstance(one, dict)
        assert isinstance(other, dict)
        beyond = sum(
            chance
            for seen, chance in one.items()
            if chance > Fraction(odds * (1 + 1e-9)) * other.get(seen, Fraction(0))
        )
        assert float(beyond) <= left + 1e-12


def test_thresholds_decide() -> None:
    budget = hc.Budget(2)
    assert not hc.privacy_report(budget).within  # an advantage of 0.76
    lenient = hc.Thresholds(odds=8, advantage=0.8)
    found = hc.privacy_report(budget, thresholds=lenient)
    assert found.within
    assert found.title.startswith("Within your thresholds")
    strict = hc.privacy_report(budget, thresholds=hc.Thresholds(odds=5))
    assert strict.title.startswith("Beyond your thresholds (odds, advantage)")
    assert [fact.name for fact in strict.facts if not fact.within] == ["odds", "advantage"]
    assert hc.privacy_report(hc.Budget(math.log(5)), thresholds=hc.Thresholds(odds=5)).odds.within


def test_no_privacy_is_called_so() -> None:
    none = hc.Guarantee(math.inf, 0.0, hc.Trust.SHUFFLE, True, "none", 5)
    found = hc.privacy_report(none)
    assert found.odds.value is None
    assert not found.within
    assert found.advantage.value == 1
    assert found.singled_out.value == 1
    assert "may become certain" in str(found)
    assert found.to_dict()["epsilon"] is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"secret": 1}, "`secret` must be between"),
        ({"thresholds": 3}, "`thresholds` must be"),
    ],
)
def test_bad_reports_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(hc.InvalidParameter, match=message):
        hc.privacy_report(hc.Budget(1), **settings)


@pytest.mark.parametrize("limits", [{"odds": 0.5}, {"advantage": 1.5}, {"exception": -0.1}])
def test_bad_thresholds_are_refused(limits: dict[str, float]) -> None:
    with pytest.raises(hc.InvalidParameter, match=next(iter(limits))):
        hc.Thresholds(**limits)


@pytest.mark.slow
def test_every_format_is_written(tmp_path: Path) -> None:
    protocol = hc.protocol("shuffle.zero-exact", hc.Count(), hc.Budget(1, 1e-6), hc.Crowd(1000))
    found = hc.privacy_report(protocol, secret=SECRET)
    for kind in REPORT_FORMATS:
        save_report(found, tmp_path / f"report{kind}")
    text = (tmp_path / "report.txt").read_text()
    page = (tmp_path / "report.html").read_text()
    for sentence in found.sentences:
        assert sentence in text
        assert escape(sentence) in page
    assert "<svg" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    document = json.loads((tmp_path / "report.json").read_text())
    assert document == json.loads(json.dumps(found.to_dict()))
    assert (tmp_path / "report.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(hc.InvalidParameter, match="must end in"):
        save_report(found, tmp_path / "report.docx")
    with pytest.raises(hc.UnreadableData, match="must be a folder"):
        save_report(found, tmp_path / "nowhere" / "report.txt")
