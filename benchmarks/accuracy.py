"""The error and the messages of every protocol, with the paper's calibration and the exact one.
Errors are also measured.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import headcount as hc
from headcount.core.influence import Influence
from headcount.core.protocol import option_names
from headcount.core.table import short
from headcount.protocols.registry import protocol_class

_PAGE = Path(__file__).parents[1] / "docs" / "accuracy.md"
_USERS, _BUDGET, _RUNS = 100_000, hc.Budget(1, 1e-6), 200
_MOST_MESSAGES = 3 * 10**6  # runs with more messages are not measured
_WISHES: dict[str, list[dict[str, Any]]] = {
    "shuffle.correlated": [{"minimize": "slots"}, {"error_ratio": 1.0221}, {}],
    "shuffle.correlated-histogram": [{"minimize": "slots"}, {"error_ratio": 1.09}, {}],
    "shuffle.noisy-shuffler": [{}, {"publish_noise": True}],
}
_WITHOUT_PAPER = "shuffle.noisy-shuffler"
_LOCAL_PAPERS = ("local.piecewise-mean", "local.hybrid-mean")  # their papers choose parameters
_TASKS: dict[str, hc.Task] = {
    "Count": hc.Count(),
    "Mean of reals in [0, 1]": hc.Mean(0, 1),
    "Sum of whole numbers from 0 to 8": hc.Sum(0, 8, whole=True),
    "Histogram of 50 buckets": hc.Histogram(50),
}
_INTRODUCTION = f"""\
# Accuracy

`make bench` writes this page. Do not edit it.

The tables are for {_USERS:,} people at ε = 1 and δ = 1e-6. Everybody is honest.

- *Calibration* is exact if the noise is computed from the exact privacy loss, and paper if it comes
  from the published formula. After that, the column lists the options
  that differ from their defaults.
- *Guarantee* is exact, or a proven upper bound.
- *Worst error* is the standard error for the worst data, with the ratio to `central.geometric` in
  parentheses. It is the error of the count, the sum, the mean or one bucket, and comes from privacy
  noise and rounding.
- *Expected* is the standard error for data in which all values are equally frequent. For reals,
  the values are 0, 0.1, …, 1.
- *Measured* is the root mean squared error over {_RUNS} runs that make real messages from such
  data. It is left out if there are too many messages.
- *Slots* is the size of a bundle that hides how many messages a person has. The number in
  parentheses is its size in bytes if each message is encrypted.
- *One liar* is how far one dishonest person can shift the answer up and down, compared with staying
  away, if the shuffler refuses bundles of other sizes. "Any" means that one person can set the
  answer to any number.
- *Honest* says whether other people must be honest for the guarantee to hold.
- *Local ε* is the privacy of one person's messages alone. It is the only protection left if
  the shuffler and the analyzer collude.

`shuffle.amplified` stands for any local protocol behind a shuffler. By default, it is
`shuffle.randomized-response`, `shuffle.k-ary`, or a shuffled `local.one-bit-mean`, depending on the
task.
"""
_HEADINGS = (
    "protocol",
    "calibration; guarantee",
    "worst error",
    "expected",
    "measured",
    "slots (bytes)",
    "one liar",
    "honest",
    "local ε",
)


def write() -> None:
    parts = [_INTRODUCTION]
    for title, task in _TASKS.items():
        parts.append(f"## {title}\n")
        parts.append(_table(list(_lines(task))))
    page = "\n".join(parts)
    print(page)
    _PAGE.write_text(page, encoding="utf-8")


def _lines(task: hc.Task) -> Iterator[tuple[str, ...]]:
    central = hc.protocol("central.geometric", task, _BUDGET, hc.Crowd(_USERS)).standard_error()
    for name in hc.protocol_names(task):
        both = name.startswith("shuffle.") or name in _LOCAL_PAPERS
        calibrations = ("exact", "paper") if both else ("exact",)
        if name == "shuffle.split-and-mix":  # both calibrations are the paper's
            calibrations = ("paper",)
        if name == _WITHOUT_PAPER:
            calibrations = ("exact",)
        options = option_names(protocol_class(name, task))
        for calibration in calibrations:
            for wish in _WISHES.get(name, [{}]):
                capped = "minimize" in wish and calibration == "paper"
                if set(wish) <= set(options) and not capped:
                    yield _line(name, task, calibration, wish, central)


def _line(
    name: str, task: hc.Task, calibration: str, wish: dict[str, Any], central: float
) -> tuple[str, ...]:
    said = ", ".join(f"{option} {value}" for option, value in wish.items())
    kind = f"{calibration}, {said}" if said else calibration
    try:
        found = hc.protocol(name, task, _BUDGET, hc.Crowd(_USERS), calibration=calibration, **wish)
    except hc.Infeasible as refusal:
        return name, kind, refusal.message, *("–",) * (len(_HEADINGS) - 3)
    error, alone = found.standard_error(), found.local_epsilon
    return (
        name,
        f"{kind}; {'exact' if found.guarantee.exact else 'upper bound'}",
        f"{short(error, 4)} ({error / central:,.3f})",
        short(found.standard_error(_counts(found.task)), 4),
        _measured(found),
        f"{found.slots:,} ({found.sealed_bytes:,})",
        _liar(found.influence),
        "yes" if found.trust is hc.Trust.SHUFFLE and found.guarantee.honest > 1 else "no",
        f"{alone:.3g}" if math.isfinite(alone) else "∞",
    )


def _liar(influence: Influence) -> str:
    if influence.any_answer:
        return "any"
    return f"{short(influence.up, 3)}, {short(influence.down, 3)}"


def _measured(protocol: hc.Protocol) -> str:
    if _USERS * protocol.messages_per_user > _MOST_MESSAGES:
        return "–"
    task = protocol.task
    values = np.resize(_values(task), _USERS)
    truth = task.answer(task.holding(_counts(task)))
    source = hc.SecureSource()
    runs = [hc.run(protocol, values, source).value - truth for _ in range(_RUNS)]
    return short(math.sqrt(np.mean(np.square(runs))), 4)


def _values(task: hc.Task) -> NDArray[Any]:
    """The distinct values that people hold."""
    if task.value_kind == "real numbers":
        return np.linspace(0, 1, 11)
    return np.arange(task.domain)


def _counts(task: hc.Task) -> Any:
    values = _values(task)
    counts = np.bincount(np.arange(_USERS) % len(values))
    if not task.numbered:
        return dict(zip(values.tolist(), counts.tolist(), strict=True))
    return counts


def _table(rows: list[tuple[str, ...]]) -> str:
    lines = (_HEADINGS, tuple("---" for _ in _HEADINGS), *rows)
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)
