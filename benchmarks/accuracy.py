"""What every protocol costs: its error and its messages, by its paper and exactly; measured too."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import headcount as hc

_PAGE = Path(__file__).parents[1] / "docs" / "accuracy.md"
_USERS, _BUDGET, _RUNS = 100_000, hc.Budget(1, 1e-6), 200
_MOST_MESSAGES = 3 * 10**6  # of a run that is measured 200 times
_WISHES: dict[str, list[dict[str, Any]]] = {
    "shuffle.correlated": [{"error_ratio": 1.0221}, {}],
    "shuffle.correlated-histogram": [{"error_ratio": 1.09}, {}],
}
_INTRODUCTION = f"""\
# Accuracy

Written by `make bench`; do not edit.

{_USERS:,} people, ε = 1, δ = 1e-6, everybody honest. *Error* is the standard error of the count, or
of a bucket in the worst case, from privacy alone; *measured* is the root mean squared error over
{_RUNS} runs with real messages (over all buckets, equally full), where these are not too
many. *Messages* are those of one person on average, *slots* the size of a bundle that hides their
number. *Left* is what remains of ε if shuffler and analyzer collude. Errors relative to central are
in brackets.
"""
_HEADINGS = (
    "protocol",
    "calibration",
    "error",
    "measured",
    "messages",
    "slots",
    "left",
    "guarantee",
)


def write() -> None:
    parts = [_INTRODUCTION]
    for title, task in (("Count", hc.Count()), ("Histogram of 50 buckets", hc.Histogram(50))):
        parts.append(f"## {title}\n")
        parts.append(_table(list(_lines(task))))
    page = "\n".join(parts)
    print(page)
    _PAGE.write_text(page, encoding="utf-8")


def _lines(task: hc.Task) -> Iterator[tuple[str, ...]]:
    central = hc.protocol("central.geometric", task, _BUDGET, hc.Crowd(_USERS)).standard_error()
    for name in hc.protocol_names(task):
        calibrations = ("exact", "paper") if name.startswith("shuffle.") else ("exact",)
        for calibration in calibrations:
            for wish in _WISHES.get(name, [{}]):
                yield _line(name, task, calibration, wish, central)


def _line(
    name: str, task: hc.Task, calibration: str, wish: dict[str, Any], central: float
) -> tuple[str, ...]:
    said = ", ".join(f"{option} {value:g}" for option, value in wish.items())
    kind = f"{calibration}, {said}" if said else calibration
    try:
        found = hc.protocol(name, task, _BUDGET, hc.Crowd(_USERS), calibration=calibration, **wish)
    except hc.Infeasible as refusal:
        return name, kind, f"– ({refusal.message.split(';')[0]})", "–", "–", "–", "–", "–"
    error = found.standard_error()
    left = found.local_epsilon
    return (
        name,
        kind,
        f"{error:.3g} ({error / central:.3f})",
        _measured(found),
        f"{found.messages_per_user:.4g}",
        str(found.slots) if found.trust is hc.Trust.SHUFFLE else "–",
        f"{left:.3g}" if math.isfinite(left) else "nothing",
        "exact" if found.guarantee.exact else "upper bound",
    )


def _measured(protocol: hc.Protocol) -> str:
    if _USERS * protocol.messages_per_user > _MOST_MESSAGES:
        return "–"
    values = np.arange(_USERS) % protocol.task.domain
    truth = protocol.task.answer(np.bincount(values))
    source = hc.SecureSource()
    runs = [hc.run(protocol, values, source).value - truth for _ in range(_RUNS)]
    return f"{math.sqrt(np.mean(np.square(runs))):.3g}"


def _table(rows: list[tuple[str, ...]]) -> str:
    lines = (_HEADINGS, tuple("---" for _ in _HEADINGS), *rows)
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)
