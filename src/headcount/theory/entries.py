"""The table of all known lower bounds and rates, and the search for those that apply.

An entry applies to one or more tasks. In formulas, n is the number of people, h the number of
honest people among them, d the number of buckets, and β the smoothness.
"""

import math
from collections.abc import Callable

from headcount.core import checks
from headcount.core.budget import Budget, Crowd, Trust
from headcount.core.task import Task
from headcount.theory import limits
from headcount.theory.bound import Bound
from headcount.theory.entry import Entry, Setting

_NUMBERS = ("count", "sum", "mean")
_COUNTS = (*_NUMBERS, "histogram")


def bounds(task: Task, budget: Budget, crowd: Crowd) -> tuple[Bound, ...]:
    """All lower bounds and rates whose conditions hold for this task, budget and crowd.

    Their values have the units of a protocol's `standard_error`, unless `measure` says otherwise.
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


# Conditions of entries ------------------------------------------------------------------------


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
    """The condition that noise of size 1/ε in each bin is smaller than the sampling error.

    The number of bins is the one that would be best without noise. In central trust, `people`
    returns n. In shuffle trust it returns √(nh), because the noise is larger by the factor √(n/h).
    """

    def holds(at: Setting) -> bool:
        exponent = (at.smoothness + 1) / (2 * at.smoothness + 1)
        return people(at) * at.epsilon >= math.pow(at.users, exponent)

    return holds


# Values of entries ----------------------------------------------------------------------------


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
_TWO_POINTS = f"two-point argument (derived in headcount.theory.limits), based on {_PAIR}"
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
_BEST_T = (
    "the maximum is over t from 1 to {people}; κ = δₜ + (1−δₜ)·tanh²(tε/2), "
    "δₜ = δ(e^{{tε}}−1)/(e^ε−1)"
)
# Like a curator's noise, a shuffler's noise protects people even if all others are dishonest. So
# some bounds do not hold if the shuffler adds noise.
_MIXES = "the shuffler adds no noise"

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
        "No answer that hides one person's value, biased or not, has a smaller error for all data.",
        "holds for biased answers, too; " + _BEST_T.format(people="n"),
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
        "No noise that is the same for all data is smaller than geometric noise for counts, or "
        "staircase noise for other numbers.",
        "δ = 0; noise that does not depend on the data; integer noise for sums of whole numbers",
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
        "No unbiased counts of all buckets have a smaller error in the worst bucket.",
        "δ = 0; unbiased; w from 1 to d−1 minimizes the bound",
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
        "A curator's noise grows neither with the number of people nor, in a histogram, with the "
        "number of buckets.",
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
        "1/n ≤ ε ≤ 1, δ ≤ ε/4; if ln(1/δ) < ln d, the answer for small counts may be 0",
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
        "The error of an estimated density has the same order as without privacy.",
        "density of smoothness β; nε ≥ n^((β+1)/(2β+1)), so noise is below the sampling error",
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
        "No unbiased shuffle protocol whose privacy relies only on the honest people has a smaller "
        "error.",
        f"unbiased; any number of messages; {_MIXES}; " + _BEST_T.format(people="h"),
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
        "No answer that hides one person's value, biased or not, has a smaller error for all data.",
        "holds for biased answers, too; any number of messages; " + _BEST_T.format(people="n"),
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
        "No unbiased shuffled counts of all buckets have a smaller error in the worst bucket.",
        f"δ = 0; unbiased; no shared randomness; {_MIXES}; w from 1 to d−1 minimizes the bound",
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
        "With one message per person and δ = 0, shuffling does not help: the local bound holds.",
        "δ = 0; one message per person, with the same randomizer for everybody; "
        f"{_MIXES}; unbiased",
        f"{_SEPARATING}; combined with local.*.lower",
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
        "With more than one message per person, errors are near those of a curator. 1 + o(1) "
        "messages are enough.",
        "1/h ≤ ε ≤ 1, 0 < δ ≤ ε/4; more than one message per person, and possibly many for d "
        "buckets or real numbers",
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
        "With one message per person, the error of a count also grows with √ln(1/δ).",
        "ln(1/δ) ≤ hε², ε ≤ 1, 0 < δ < 1/n; one message per person; "
        f"{_MIXES}; tight in δ for a constant ε",
        "Cheu, Smith, Ullman, Zeber, Zhilyaev 2019, Distributed Differential Privacy via Shuffling "
        "(EUROCRYPT); lower bound Ω(√log(1/δ)): as stated by Ghazi, Kumar, "
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
        "With one message per person, the error of a sum of real numbers grows like n^(1/6).",
        "real numbers; ln(1/δ) ≤ hε², ε ≤ 1, 0 < δ < 1/n; one message per person; "
        f"{_MIXES}; tight in n",
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
        "1/h ≤ ε ≤ 1, 0 < δ ≤ ε/4; up to d + 1 messages per person; the answer for small counts "
        "is 0",
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
        "With one message per person, the largest error of all buckets grows with their number.",
        "ln(1/δ) ≤ hε², ε ≤ 1, 0 < δ < 1/n; one message per person; "
        f"{_MIXES}; up to logarithmic factors and powers of ε",
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
        "The error of an estimated density has the same order as without privacy, and people need "
        "no curator.",
        "density of smoothness β; δ > 0; ε·√(nh) ≥ n^((β+1)/(2β+1)), so noise is below the "
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
        "No unbiased answer has a smaller error. For counts, randomized response has this error.",
        "unbiased; everybody sends one message, independently; κ = δ + (1−δ)·tanh²(ε/2)",
        _TWO_POINTS + ", for each person",
        _always,
        _local_lower,
    ),
    Entry(
        Trust.LOCAL,
        "any-lower",
        _COUNTS,
        "lower bound",
        "max √(n(1−κ)(1−c)/4 + n²(1−κ)²/(nI+J)), near √n/ε if nε² is large",
        "No answer, biased or not, has a smaller error for all data.",
        "holds for biased answers, too; everybody sends one message, which may depend on earlier "
        "messages; κ = δ + (1−δ)·T, T = tanh²(ε/2); the maximum is over w below 1; "
        "c = w²(1/3 − 2/π²), I = 4δ/(1−w²) + 4(1−δ)T/(1−Tw²), J = 4π²/w²",
        f"van Trees' inequality (derived in headcount.theory.limits), based on {_PAIR}",
        _always,
        lambda at: math.sqrt(limits.any_local_answer(at.epsilon, at.delta, at.users)),
    ),
    Entry(
        Trust.LOCAL,
        "pure-lower",
        ("histogram",),
        "lower bound",
        "√n · √((d−1)²(w+(d−w)b)²/(d²·w(d−w)(1−b)²) − (d−1)/d²), near 2√n/ε; b = e^−ε",
        "No unbiased counts of all buckets have a smaller error in the worst bucket.",
        "δ = 0; unbiased; everybody sends one message, independently; w from 1 to d−1 minimizes "
        "the bound",
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
        "The noise of all people adds up, so the error grows with the square root of their number.",
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
        "The largest error of all buckets grows with the square root of the logarithm of their "
        "number.",
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
        "The estimate of a population's density converges more slowly than without privacy.",
        "density of smoothness β; 1/√n ≤ ε ≤ 1, δ ≤ ε²/4",
        _LOCAL_MINIMAX,
        _local_rate,
        _local_density,
        measure="integrated error",
    ),
)
