"""The table of everything that is known, and how it is looked up.

An entry stands for one or more tasks. Its value is that of a count, or of a sum of numbers in
[0, 1]; sums and means are scaled. In formulas n is the people, h the honest ones among them, d the
buckets and β the smoothness.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from headcount.core import checks
from headcount.core.budget import Budget, Crowd, Trust
from headcount.core.task import Task
from headcount.theory import limits
from headcount.theory.bound import Bound, Kind, Measure, MessageLimit


@dataclass(frozen=True)
class Setting:
    """The numbers of a task, a budget and a crowd."""

    users: int
    honest: int
    epsilon: float
    delta: float
    task: str
    span: float  # from the lowest number to the highest; of counts 1
    whole: bool
    buckets: int
    smoothness: float

    @classmethod
    def of(cls, task: Task, budget: Budget, crowd: Crowd) -> "Setting":
        bounded, buckets = task.bounded, task.buckets
        return cls(
            users=crowd.users,
            honest=crowd.honest,
            epsilon=budget.epsilon,
            delta=budget.delta,
            task=task.name,
            span=float(bounded.span) if bounded else 1.0,
            whole=bounded.whole if bounded else True,
            buckets=max(2, len(buckets)) if buckets and not bounded else 2,
            smoothness=task.smoothness or 0.0,
        )

    @property
    def scale(self) -> float:
        """What the value of an entry is multiplied by."""
        match self.task:
            case "mean":
                return self.span / self.users
            case "density":
                return 1 / math.sqrt(self.span)  # of squares that are integrated over the span
            case _:
                return self.span

    @property
    def noise(self) -> float:
        """√(n/h): shuffled noise must do with that of h people, and comes from n."""
        return math.sqrt(self.users / self.honest)


@dataclass(frozen=True)
class Entry:
    """A row of the table; `holds` says for which numbers, as `conditions` do in words."""

    trust: Trust
    ending: str
    tasks: tuple[str, ...]
    kind: Kind
    formula: str
    statement: str
    conditions: str
    source: str
    holds: Callable[[Setting], bool]
    value: Callable[[Setting], float]
    tight: bool = True
    messages: MessageLimit = "any"
    measure: Measure = "standard error"

    def name(self, task: str) -> str:
        return f"{self.trust}.{task}.{self.ending}"

    def at(self, setting: Setting) -> Bound:
        return Bound(
            name=self.name(setting.task),
            task=setting.task,
            trust=self.trust,
            kind=self.kind,
            formula=_SCALES.get(setting.task, "") + self.formula,
            statement=self.statement,
            conditions=self.conditions,
            source=self.source,
            messages=self.messages,
            measure=self.measure,
            tight=self.tight,
            value=setting.scale * self.value(setting),
        )


_SCALES = {
    "sum": "(high − low) · ",
    "mean": "(high − low)/n · ",
    "density": "1/√(high − low) · ",
}
_NUMBERS = ("count", "sum", "mean")
_COUNTS = (*_NUMBERS, "histogram")


def bounds(task: Task, budget: Budget, crowd: Crowd) -> tuple[Bound, ...]:
    """All lower bounds and rates whose conditions hold for such a task, budget and crowd.

    Their values are in the units of a protocol's `standard_error`, unless `measure` says otherwise.
    """
    checks.instance("task", task, Task)
    checks.instance("budget", budget, Budget)
    checks.instance("crowd", crowd, Crowd)
    setting = Setting.of(task, budget, crowd)
    return tuple(
        entry.at(setting)
        for entry in ENTRIES
        if setting.task in entry.tasks and entry.holds(setting)
    )


# When entries hold ----------------------------------------------------------------------------


def _always(_: Setting) -> bool:
    return True


def _pure(at: Setting) -> bool:
    return at.delta == 0


def _central_rate(at: Setting) -> bool:
    return 4 * at.delta <= at.epsilon <= 1 and at.users * at.epsilon >= 1


def _shuffle_rate(at: Setting) -> bool:
    return 0 < 4 * at.delta <= at.epsilon <= 1 and at.honest * at.epsilon >= 1


def _local_rate(at: Setting) -> bool:
    return at.epsilon <= 1 and max(4 * at.delta, 1 / at.users) <= at.epsilon**2


def _one_message(at: Setting) -> bool:
    enough = at.honest * at.epsilon**2 >= math.log(1 / at.delta) if at.delta else False
    return enough and at.epsilon <= 1 and at.delta < 1 / at.users


def _negligible_noise(people: Callable[[Setting], float]) -> Callable[[Setting], bool]:
    """Whether noise of 1/ε in each bin is below the sampling error at the best number of bins."""

    def holds(at: Setting) -> bool:
        exponent = (at.smoothness + 1) / (2 * at.smoothness + 1)
        return people(at) * at.epsilon >= math.pow(at.users, exponent)

    return holds


# What they come to ----------------------------------------------------------------------------


def _shuffle_lower(at: Setting) -> float:
    crowds = at.users // at.honest
    return math.sqrt(crowds * limits.unbiased(at.epsilon, at.delta, at.honest))


def _shuffle_buckets(at: Setting) -> float:
    return math.sqrt(at.users // at.honest * limits.all_buckets(at.epsilon, at.buckets))


def _local_lower(at: Setting) -> float:
    return math.sqrt(at.users * limits.unbiased(at.epsilon, at.delta, 1))


def _added(at: Setting) -> float:
    if at.whole:
        return math.sqrt(limits.added_whole(at.epsilon, round(at.span)))
    return math.sqrt(limits.added_real(at.epsilon))


def _one_message_sum(at: Setting) -> float:
    crowd = math.pow(at.users, 1 / 6) * math.pow(at.noise, 2 / 3)
    return crowd * math.pow(math.log(1 / at.delta) / at.epsilon**2, 1 / 3)


def _without_privacy(at: Setting) -> float:
    return math.pow(at.users, -at.smoothness / (2 * at.smoothness + 1))


def _local_density(at: Setting) -> float:
    weight = at.users * at.epsilon**2
    return math.pow(weight, -at.smoothness / (2 * at.smoothness + 2))


_PAIR = "Kairouz, Oh, Viswanath 2015, The Composition Theorem for Differential Privacy"
_TWO_POINTS = f"two-point argument (derived in headcount.theory.limits) on {_PAIR}"
_EIGENVALUES = (
    "eigenvalues of a private channel (derived in headcount.theory.limits), as in Ye, Barg 2018, "
    "Optimal Schemes for Discrete Distribution Estimation under Locally Differential Privacy"
)
_SEPARATING = (
    "Balcer, Cheu 2020, Separating Local & Shuffled Differential Privacy via Histograms (ITC)"
)
_LOCAL_MINIMAX = (
    "Duchi, Jordan, Wainwright 2018, Minimax Optimal Procedures for Locally Private Estimation"
)
_BEST_T = "the best t from 1 to {people}; κ = δₜ + (1−δₜ)·tanh²(tε/2), δₜ = δ(e^{{tε}}−1)/(e^ε−1)"

ENTRIES = (
    Entry(
        Trust.CENTRAL,
        "lower",
        _COUNTS,
        "lower bound",
        "max (t/2)·√(1/κ − 1); with δ = 0 that is 1/(2·sinh(ε/2)), near 1/ε",
        "No unbiased answer that hides one person's value has a smaller error for all data.",
        "unbiased; " + _BEST_T.format(people="n"),
        _TWO_POINTS,
        _always,
        lambda at: math.sqrt(limits.unbiased(at.epsilon, at.delta, at.users)),
    ),
    Entry(
        Trust.CENTRAL,
        "any-lower",
        _COUNTS,
        "lower bound",
        "max (t/2)·√(1 − κ), near 0.66/ε",
        "No answer that hides one person's value has a smaller error for all data, biased or not.",
        "biased answers too; " + _BEST_T.format(people="n"),
        _TWO_POINTS,
        _always,
        lambda at: math.sqrt(limits.any_answer(at.epsilon, at.delta, at.users)),
    ),
    Entry(
        Trust.CENTRAL,
        "additive-lower",
        _NUMBERS,
        "lower bound",
        "counts: √(2b)/(1−b); real numbers: √((b(1+b)/2)^(2/3) + b)/(1−b); b = e^−ε",
        "No noise that is the same for all data is smaller: geometric for counts, else staircase.",
        "δ = 0; noise that does not depend on the data; whole noise if whole numbers are summed",
        "Ghosh, Roughgarden, Sundararajan 2012, Universally Utility-Maximizing Privacy Mechanisms; "
        "Geng, Viswanath 2014, The Optimal Mechanism in Differential Privacy",
        _pure,
        _added,
    ),
    Entry(
        Trust.CENTRAL,
        "pure-lower",
        ("histogram",),
        "lower bound",
        "√((d−1)²(w+(d−w)b)²/(d²·w(d−w)(1−b)²) − (d−1)/d²), near 2/ε; b = e^−ε",
        "No unbiased counts of all buckets have a smaller error in the worst of them.",
        "δ = 0; unbiased; the w from 1 to d−1 that makes it least",
        _EIGENVALUES,
        _pure,
        lambda at: math.sqrt(limits.all_buckets(at.epsilon, at.buckets)),
    ),
    Entry(
        Trust.CENTRAL,
        "rate",
        _COUNTS,
        "rate",
        "1/ε",
        "A curator's noise does not grow with the crowd, nor in each bucket with their number.",
        "1/n ≤ ε ≤ 1, δ ≤ ε/4",
        "Dwork, McSherry, Nissim, Smith 2006, Calibrating Noise to Sensitivity in Private Data "
        "Analysis; lower bound: central.*.any-lower",
        _central_rate,
        lambda at: 1 / at.epsilon,
    ),
    Entry(
        Trust.CENTRAL,
        "largest-rate",
        ("histogram",),
        "rate",
        "min(ln d, ln(1/δ))/ε",
        "The largest error of all buckets grows with the logarithm of their number, up to ln(1/δ).",
        "1/n ≤ ε ≤ 1, δ ≤ ε/4; small counts may be answered 0 if ln(1/δ) is less than ln d",
        "Vadhan 2017, The Complexity of Differential Privacy",
        _central_rate,
        lambda at: (
            min(math.log(at.buckets), math.log(1 / at.delta) if at.delta else math.inf) / at.epsilon
        ),
        measure="largest bucket error",
    ),
    Entry(
        Trust.CENTRAL,
        "rate",
        ("density",),
        "rate",
        "n^(−β/(2β+1))",
        "The density of a population is found as well as without privacy.",
        "density of smoothness β; nε ≥ n^((β+1)/(2β+1)), so that noise is below sampling error",
        "Wasserman, Zhou 2010, A Statistical Framework for Differential Privacy; "
        "lower bound: Tsybakov 2009, Introduction to Nonparametric Estimation",
        _negligible_noise(lambda at: at.users),
        _without_privacy,
        measure="integrated error",
    ),
    Entry(
        Trust.SHUFFLE,
        "lower",
        _COUNTS,
        "lower bound",
        "√⌊n/h⌋ · max (t/2)·√(1/κ − 1)",
        "No unbiased shuffled protocol that needs only the honest people has a smaller error.",
        "unbiased; any number of messages; " + _BEST_T.format(people="h"),
        _TWO_POINTS + ", for each of ⌊n/h⌋ crowds of h people",
        _always,
        _shuffle_lower,
    ),
    Entry(
        Trust.SHUFFLE,
        "any-lower",
        _COUNTS,
        "lower bound",
        "max (t/2)·√(1 − κ), near 0.66/ε",
        "No answer that hides one person's value has a smaller error for all data, biased or not.",
        "biased answers too; any number of messages; " + _BEST_T.format(people="n"),
        _TWO_POINTS,
        _always,
        lambda at: math.sqrt(limits.any_answer(at.epsilon, at.delta, at.users)),
    ),
    Entry(
        Trust.SHUFFLE,
        "pure-lower",
        ("histogram",),
        "lower bound",
        "√⌊n/h⌋ · √((d−1)²(w+(d−w)b)²/(d²·w(d−w)(1−b)²) − (d−1)/d²); b = e^−ε",
        "No unbiased shuffled counts of all buckets have a smaller error in the worst of them.",
        "δ = 0; unbiased; no randomness that people share; the w from 1 to d−1 that makes it least",
        _EIGENVALUES + ", for each of ⌊n/h⌋ crowds of h people",
        _pure,
        _shuffle_buckets,
    ),
    Entry(
        Trust.SHUFFLE,
        "one-message-lower",
        _COUNTS,
        "lower bound",
        "√n/(2·sinh(ε/2))",
        "With one message per person and δ = 0, shuffling buys nothing: the local bound holds.",
        "δ = 0; one message per person, by the same randomizer for all; unbiased",
        f"{_SEPARATING}; then local.*.lower",
        _pure,
        _local_lower,
        messages="one",
    ),
    Entry(
        Trust.SHUFFLE,
        "rate",
        _COUNTS,
        "rate",
        "√(n/h)/ε",
        "With more than one message, errors are near a curator's; 1 + o(1) messages are enough.",
        "1/h ≤ ε ≤ 1, 0 < δ ≤ ε/4; more than one message, and possibly many for d buckets or real "
        "numbers",
        "Ghazi, Kumar, Manurangsi, Pagh 2020, Private Counting from Anonymous Messages (ICML); "
        "Ghazi, Kumar, Manurangsi, Pagh, Sinha 2021, Differentially Private Aggregation in the "
        "Shuffle Model (ICML); lower bound: shuffle.*.lower",
        _shuffle_rate,
        lambda at: at.noise / at.epsilon,
    ),
    Entry(
        Trust.SHUFFLE,
        "one-message-rate",
        ("count",),
        "rate",
        "√(n/h)·√ln(1/δ)/ε",
        "With one message per person the error of a count also grows with √ln(1/δ).",
        "ln(1/δ) ≤ hε², ε ≤ 1, 0 < δ < 1/n; one message per person; tight in δ for a constant ε",
        "Cheu, Smith, Ullman, Zeber, Zhilyaev 2019, Distributed Differential Privacy via Shuffling "
        "(EUROCRYPT); lower bound Ω(√log(1/δ)): as stated for one message by Ghazi, Kumar, "
        "Manurangsi, Pagh 2020",
        _one_message,
        lambda at: at.noise * math.sqrt(math.log(1 / at.delta)) / at.epsilon,
        messages="one",
    ),
    Entry(
        Trust.SHUFFLE,
        "one-message-rate",
        ("sum", "mean"),
        "rate",
        "n^(1/6)·(n/h)^(1/3)·ln(1/δ)^(1/3)/ε^(2/3)",
        "With one message per person the error of a sum of real numbers grows like n^(1/6).",
        "real numbers; ln(1/δ) ≤ hε², ε ≤ 1, 0 < δ < 1/n; one message per person; tight in n",
        "Balle, Bell, Gascón, Nissim 2019, The Privacy Blanket of the Shuffle Model (CRYPTO)",
        lambda at: _one_message(at) and not at.whole,
        _one_message_sum,
        messages="one",
    ),
    Entry(
        Trust.SHUFFLE,
        "largest-rate",
        ("histogram",),
        "rate",
        "(n/h)·ln(1/δ)/ε²",
        "The largest error of all buckets does not depend on their number.",
        "1/h ≤ ε ≤ 1, 0 < δ ≤ ε/4; up to d + 1 messages per person; small counts are answered 0",
        _SEPARATING,
        _shuffle_rate,
        lambda at: at.noise**2 * math.log(1 / at.delta) / at.epsilon**2,
        tight=False,
        measure="largest bucket error",
    ),
    Entry(
        Trust.SHUFFLE,
        "one-message-largest-rate",
        ("histogram",),
        "rate",
        "min(n^(1/4), √d)",
        "With one message per person the largest error of all buckets grows with their number.",
        "ln(1/δ) ≤ hε², ε ≤ 1, 0 < δ < 1/n; one message per person; up to logarithms and powers "
        "of ε",
        "Ghazi, Golowich, Kumar, Pagh, Velingker 2021, On the Power of Multiple Anonymous Messages "
        "(EUROCRYPT)",
        _one_message,
        lambda at: min(at.users**0.25, math.sqrt(at.buckets)),
        messages="one",
        measure="largest bucket error",
    ),
    Entry(
        Trust.SHUFFLE,
        "rate",
        ("density",),
        "rate",
        "n^(−β/(2β+1))",
        "The density of a population is found as well as without privacy, and no curator sees it.",
        "density of smoothness β; δ > 0; ε·√(nh) ≥ n^((β+1)/(2β+1)), so that noise is below "
        "sampling error; more than one message",
        "bins counted as in shuffle.histogram.rate; "
        "lower bound: Tsybakov 2009, Introduction to Nonparametric Estimation",
        lambda at: (
            at.delta > 0 and _negligible_noise(lambda it: math.sqrt(it.users * it.honest))(at)
        ),
        _without_privacy,
        measure="integrated error",
    ),
    Entry(
        Trust.LOCAL,
        "lower",
        _COUNTS,
        "lower bound",
        "(√n/2)·√(1/κ − 1); with δ = 0 that is √n/(2·sinh(ε/2)), near √n/ε",
        "No unbiased answer has a smaller error; randomized response to a yes or no has this one.",
        "unbiased; everybody sends once, independently; κ = δ + (1−δ)·tanh²(ε/2)",
        _TWO_POINTS + ", for each person",
        _always,
        _local_lower,
    ),
    Entry(
        Trust.LOCAL,
        "any-lower",
        _COUNTS,
        "lower bound",
        "max √(n(1−κ)(1−c)/4 + n²(1−κ)²/(nI+J)), near √n/ε where nε² is large",
        "No answer has a smaller error for all data, biased or not.",
        "biased answers too; everybody sends once, possibly knowing what others sent; "
        "κ = δ + (1−δ)·T, T = tanh²(ε/2); "
        "the best w below 1; c = w²(1/3 − 2/π²), I = 4δ/(1−w²) + 4(1−δ)T/(1−Tw²), J = 4π²/w²",
        f"van Trees' inequality (derived in headcount.theory.limits) on {_PAIR}",
        _always,
        lambda at: math.sqrt(limits.any_local_answer(at.epsilon, at.delta, at.users)),
    ),
    Entry(
        Trust.LOCAL,
        "pure-lower",
        ("histogram",),
        "lower bound",
        "√n · √((d−1)²(w+(d−w)b)²/(d²·w(d−w)(1−b)²) − (d−1)/d²), near 2√n/ε; b = e^−ε",
        "No unbiased counts of all buckets have a smaller error in the worst of them.",
        "δ = 0; unbiased; everybody sends once, independently; the w from 1 to d−1 that makes "
        "it least",
        _EIGENVALUES,
        _pure,
        lambda at: math.sqrt(at.users * limits.all_buckets(at.epsilon, at.buckets)),
    ),
    Entry(
        Trust.LOCAL,
        "rate",
        _COUNTS,
        "rate",
        "√n/ε",
        "Everybody's own noise adds up: the error grows with the root of the crowd.",
        "1/√n ≤ ε ≤ 1, δ ≤ ε²/4",
        "Beimel, Nissim, Omri 2008, Distributed Private Data Analysis (CRYPTO); Chan, Shi, Song "
        "2012, Optimal Lower Bound for Differentially Private Multi-Party Aggregation (ESA)",
        _local_rate,
        lambda at: math.sqrt(at.users) / at.epsilon,
    ),
    Entry(
        Trust.LOCAL,
        "largest-rate",
        ("histogram",),
        "rate",
        "√(n·ln d)/ε",
        "The largest error of all buckets grows with the root of the logarithm of their number.",
        "1/√n ≤ ε ≤ 1, δ ≤ ε²/4",
        "Bassily, Smith 2015, Local, Private, Efficient Protocols for Succinct Histograms (STOC)",
        _local_rate,
        lambda at: math.sqrt(at.users * math.log(at.buckets)) / at.epsilon,
        measure="largest bucket error",
    ),
    Entry(
        Trust.LOCAL,
        "rate",
        ("density",),
        "rate",
        "(n·ε²)^(−β/(2β+2))",
        "The density of a population is found more slowly than without privacy, however many come.",
        "density of smoothness β; 1/√n ≤ ε ≤ 1, δ ≤ ε²/4",
        _LOCAL_MINIMAX,
        _local_rate,
        _local_density,
        measure="integrated error",
    ),
)
