"""A privacy report: the meaning of (ε, δ) for one person, compared with the user's thresholds.

Notation    Two datasets differ in one person's value. P and Q are the laws of what an attacker
            sees. For all events E, P(E) ≤ e^ε·Q(E) + δ, and the same holds with P and Q exchanged.
            Mixtures of such laws satisfy the same inequalities. So the bounds hold for any
            statement about a person: P is the law if the statement is true, and Q is the law if it
            is false. Each known pair (ε, δ) gives an upper bound on every quantity below. The
            report uses the smallest of these bounds.
Odds        The odds of a statement grow by the factor P/Q. The event E = {P > e^t·Q} has
            Q(E) ≤ e^−t·P(E), and so P(E) ≤ δ/(1 − e^(ε−t)) for t > ε. (It is a common mistake to
            assume P(E) ≤ δ at t = ε.) With t = ε + ln 2, the odds grow by more than e^t with a
            chance of at most Y = 2δ. If a whole curve δ(ε) is known, the smallest t with this
            chance Y is the minimum of ε − ln(1 − δ(ε)/Y) over ε. If δ(ε) = 0, the odds never grow
            by more than e^ε.
Advantage   P(E) − Q(E) is the chance of detection minus the chance of a false alarm. The sum of the
            inequalities P(E) ≤ e^ε·Q(E) + δ and 1 − Q(E) ≤ e^ε·(1 − P(E)) + δ gives
            P(E) − Q(E) ≤ (e^ε − 1 + 2δ)/(e^ε + 1). At ε = 0 this bound is δ(0).
Singled out A secret is one of k equally likely values. P_i is the law for value i. An attacker
            guesses value i if the event E_i occurs. The guess is correct with the chance
            s = Σ P_i(E_i)/k. Sum the inequality P_i(E_i) ≤ e^ε·P_j(E_i) + δ over all i ≠ j. The
            events E_i are a partition, so the result is (k−1)·ks ≤ e^ε·(k − ks) + k(k−1)δ. Hence
            s ≤ (e^ε + (k−1)δ)/(e^ε + k − 1).

With a curve δ(ε), each of the three bounds is a function of e^ε. Since δ is convex in e^ε, each
local minimum of a bound is a global minimum.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

import numpy as np

from headcount.core import checks
from headcount.core.budget import MOST_USERS, Budget, Trust
from headcount.core.errors import InvalidParameter, UnknownName
from headcount.core.guarantee import Guarantee, rounded_up
from headcount.core.protocol import Protocol
from headcount.core.table import Table, size

Points: TypeAlias = tuple[tuple[float, float], ...]

_FIRST = 16  # the number of points of a curve that are computed first
_HALVINGS = 8  # how often the distance between points is halved around the best point
_UP = 2.0**-49  # more than the relative rounding error of every formula here
_SAME = 1e-12  # two floats within this relative distance count as equal
_MOST_EXPONENT = 700.0  # up to this x, e^x does not overflow
_WORTH_SAYING = 1e6  # the report mentions the largest possible factor only if it is below this
# Chances from 0 to 1. They are closer together near both ends.
_CHANCES = (*(math.sin(math.pi * step / 200) ** 2 for step in range(100)), 1.0)


@dataclass(frozen=True)
class Thresholds:
    """The largest values that a user accepts.

    `odds` is the factor by which the odds of any statement about a person may rise. `exception` is
    the chance that the odds rise further. `advantage` is the chance that a test detects a value,
    minus the chance of a false alarm. `singled_out` is the chance that an attacker guesses a secret
    correctly.
    """

    odds: float = 10.0
    exception: float = 1e-4
    advantage: float = 0.5
    singled_out: float = 0.1

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = checks.real(entry.name, getattr(self, entry.name))
            if entry.name == "odds" and value < 1:
                raise InvalidParameter(f"`odds` must be at least 1, got {value}")
            if entry.name != "odds" and not 0 <= value <= 1:
                raise InvalidParameter(f"`{entry.name}` must be between 0 and 1, got {value}")
            object.__setattr__(self, entry.name, value)

    @classmethod
    def of(cls, limits: Mapping[str, float]) -> "Thresholds":
        """The thresholds with the values in `limits`. All others have their default values."""
        if not isinstance(limits, Mapping):
            raise InvalidParameter(
                '`limits` must map names to numbers, such as {"odds": 5}, '
                f"got {checks.shown(limits)}"
            )
        names = [entry.name for entry in fields(cls)]
        for name in limits:
            if name not in names:
                raise UnknownName(
                    f"a threshold must be one of {', '.join(names)}, got {checks.shown(name)}"
                )
        return cls(**limits)


_DEFAULT = Thresholds()
_WHO = {
    Trust.CENTRAL: "Whoever sees the published answer",
    Trust.SHUFFLE: "Whoever sees all messages without their order",
    Trust.LOCAL: "Whoever sees what a person sends",
    None: "Whoever sees the answer",
}
_SCOPE = (
    "These bounds are for one answer. Every further answer about the same people adds to them.",
    "They cover only the effect of a person's own value. Facts about people in general can be "
    "learned without that value.",
)


@dataclass(frozen=True)
class Fact:
    """An upper bound on a quantity, and its threshold.

    `value` is the bound, or None if there is no bound. `baseline` is the quantity for an attacker
    who sees no answer.
    """

    name: str
    what: str
    value: float | None
    baseline: float
    threshold: float

    @property
    def within(self) -> bool:
        return self.value is not None and self.value * (1 - _SAME) <= self.threshold

    def to_dict(self) -> dict[str, Any]:
        entries = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return {**entries, "within": self.within}


@dataclass(frozen=True)
class PrivacyReport:
    """The meaning of a guarantee for one person.

    The odds of a statement never rise by more than the factor `never`, which is None if no such
    factor is known. All facts follow from the pairs (ε, δ) in `known`.
    """

    protocol: str | None
    epsilon: float
    delta: float
    trust: Trust | None
    honest: int | None
    secret: int
    odds: Fact
    exception: Fact
    advantage: Fact
    singled_out: Fact
    never: float | None
    relies_on: str
    known: Points = field(repr=False)

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The four facts, each with its threshold."""
        return self.odds, self.exception, self.advantage, self.singled_out

    @property
    def within(self) -> bool:
        """Whether all facts are within their thresholds."""
        return all(fact.within for fact in self.facts)

    def detection(self, false_alarms: float) -> float:
        """The largest chance that a test detects a value, given its chance of a false alarm."""
        least = 1.0
        for epsilon, delta in self.known:
            factor, inverse = math.exp(min(epsilon, _MOST_EXPONENT)), math.exp(-epsilon)
            missed = inverse * (1 - delta - false_alarms)  # a lower bound on the chance of a miss
            least = min(least, factor * false_alarms + delta, 1 - missed)
        return least

    def belief(self, prior: float) -> float:
        """The largest posterior probability of a statement with this prior probability. With a
        chance of at most `exception`, the posterior probability is larger.
        """
        if self.odds.value is None:
            return float(prior > 0)
        return prior / (prior + (1 - prior) / self.odds.value)

    @property
    def points(self) -> dict[str, Points]:
        """The points of two curves: `detection` as a function of the chance of a false alarm, and
        `belief` as a function of the prior probability.
        """
        curves = {"detection": self.detection, "belief": self.belief}
        return {name: tuple((at, curve(at)) for at in _CHANCES) for name, curve in curves.items()}

    @property
    def title(self) -> str:
        """The verdict in one line."""
        beyond = ", ".join(fact.name for fact in self.facts if not fact.within)
        verdict = f"Beyond your thresholds ({beyond})" if beyond else "Within your thresholds"
        pair = f"({_shown(self.epsilon)}, {_shown(self.delta)})-DP"
        trust = f"{self.trust} trust" if self.trust else ""
        return f"{verdict}: {', '.join(filter(None, (self.protocol, pair, trust)))}"

    @property
    def but_for(self) -> str:
        """The chance that the odds rise further, in words. It is empty if the chance is 0."""
        left = self.exception.value
        return f"except with a chance of {_one_in(left)}" if left else ""

    @property
    def sentences(self) -> tuple[str, ...]:
        """The report as sentences."""
        return tuple(filter(None, (*self._learned, *self._guessed, self._relies, *_SCOPE)))

    @property
    def _learned(self) -> tuple[str, ...]:
        who = _WHO[self.trust]
        if self.odds.value is None:
            return (f"{who} may become certain about a person: no limit on the odds is known.",)
        rise = f"{who} can raise the odds of any statement about a person at most "
        rise += f"{_shown(self.odds.value)}-fold{self.but_for and f', {self.but_for}'}."
        if self.but_for and self.never is not None and self.never < _WORTH_SAYING:
            rise += f" More than {_shown(self.never)}-fold is impossible."
        even, rare = self.belief(1 / 2), self.belief(1 / self.secret)
        return (
            rise,
            f"A prior belief of 50 % in a statement about a person becomes at most "
            f"{_percent(even)}; a prior belief of 1 in {self.secret:,} becomes at most "
            f"{_percent(rare)}.",
        )

    @property
    def _guessed(self) -> tuple[str, ...]:
        advantage, named = self.advantage.value or 0.0, self.singled_out.value or 0.0
        return (
            "If a person has one of two equally likely values, an attacker guesses it correctly "
            f"with a chance of at most {_percent((1 + advantage) / 2)} (50 % without any answer): "
            f"a test detects a value at most {_shown(100 * advantage)} percentage points more "
            "often than it raises a false alarm.",
            f"A secret with {self.secret:,} equally likely values is guessed correctly with a "
            f"chance of at most {_percent(named)} ({size(100 / self.secret)} % without any "
            "answer).",
        )

    @property
    def _relies(self) -> str:
        return f"This relies on {self.relies_on}." if self.relies_on else ""

    def table(self) -> Table:
        """The facts and their thresholds, with the sentences as notes."""
        return Table(
            ("name", "what", "at most", "without answer", "threshold", "within"),
            tuple(
                (
                    fact.name,
                    fact.what,
                    _shown(fact.value),
                    size(fact.baseline),
                    size(fact.threshold),
                    "yes" if fact.within else "no",
                )
                for fact in self.facts
            ),
            title=self.title,
            notes=self.sentences,
            words=2,
            spare=("without answer",),
        )

    def to_dict(self) -> dict[str, Any]:
        """The report as a dictionary for JSON."""
        return {
            "protocol": self.protocol,
            "epsilon": self.epsilon if math.isfinite(self.epsilon) else None,
            "delta": self.delta,
            "trust": self.trust and str(self.trust),
            "honest": self.honest,
            "secret": self.secret,
            "within": self.within,
            "facts": [fact.to_dict() for fact in self.facts],
            "never": self.never,
            "relies_on": self.relies_on,
            "sentences": list(self.sentences),
        }

    def __str__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table().html()


def privacy_report(
    source: Protocol | Guarantee | Budget, *, secret: int = 100, thresholds: Thresholds = _DEFAULT
) -> PrivacyReport:
    """The meaning of a guarantee for one person, in words and compared with thresholds.

    A protocol gives the best bounds, since its whole privacy curve is known. A guarantee or a
    budget gives only one pair (ε, δ). `secret` is the number of values that a secret may have.

        print(privacy_report(protocol("shuffle.zero-exact", Count(), Budget(1, 1e-6), Crowd(1000))))
        privacy_report(Budget(2), thresholds=Thresholds(odds=5)).within
    """
    if not isinstance(source, Protocol | Guarantee | Budget):
        raise InvalidParameter(
            f"`source` must be a protocol, a Guarantee or a Budget, got {checks.shown(source)}"
        )
    secret = checks.whole("secret", secret, low=2, high=MOST_USERS)
    checks.instance("thresholds", thresholds, Thresholds)
    promise = source.guarantee if isinstance(source, Protocol) else source
    if isinstance(promise, Guarantee) and not promise.secure:
        raise InvalidParameter(f"a guarantee must hold to be reported, got: {promise.warning}")
    epsilon, delta = _checked(promise)
    # A bound that may fail with a chance of 2δ ≥ 1 says nothing. Then only bounds that never fail
    # are used.
    chance = 2 * delta if delta < 1 / 2 else 0.0
    known = _points(source, secret, chance) if isinstance(source, Protocol) else {epsilon: delta}
    points = tuple(sorted(known.items()))
    loss, left = min((_loss(*point, chance), chance if point[1] else 0.0) for point in points)
    odds = _factor(loss)

    def fact(name: str, what: str, value: float | None, baseline: float) -> Fact:
        return Fact(name, what, value, baseline, getattr(thresholds, name))

    stated = promise if isinstance(promise, Guarantee) else None
    return PrivacyReport(
        protocol=source.name if isinstance(source, Protocol) else None,
        epsilon=epsilon,
        delta=delta,
        trust=stated.trust if stated else None,
        honest=stated.honest if stated else None,
        secret=secret,
        odds=fact("odds", "odds about a person rise by a factor of", odds, 1.0),
        exception=fact(
            "exception", "chance that the odds rise further", None if odds is None else left, 0.0
        ),
        advantage=fact(
            "advantage",
            "detection minus false alarms of a test",
            _up(min(_advantage(*point) for point in points)),
            0.0,
        ),
        singled_out=fact(
            "singled_out",
            f"chance of guessing a secret, one of {secret:,}",
            _up(min(_named(*point, secret) for point in points)),
            1 / secret,
        ),
        never=_factor(min((epsilon for epsilon, delta in points if not delta), default=math.inf)),
        relies_on=stated.relies_on if stated else "",
        known=points,
    )


def _checked(promise: Guarantee | Budget) -> tuple[float, float]:
    """The ε and δ of a guarantee or budget, after a check, since a user may write any numbers into
    a guarantee. ε may be infinite.
    """
    epsilon, delta = promise.epsilon, checks.real("delta", promise.delta)
    epsilon = epsilon if epsilon == math.inf else checks.real("epsilon", epsilon)
    if epsilon < 0:
        raise InvalidParameter(f"`epsilon` must be at least 0, got {epsilon}")
    if not 0 <= delta <= 1:
        raise InvalidParameter(f"`delta` must be between 0 and 1, got {delta}")
    return epsilon, delta


def _points(protocol: Protocol, secret: int, chance: float) -> dict[float, float]:
    """Some pairs (ε, δ) of a protocol: a dictionary that maps ε to δ. If the protocol's curve has
    few bends, the result includes all pairs that matter. Otherwise it includes pairs that are close
    to the best ones.
    """
    promise, curve = protocol.guarantee, protocol.curve
    known = {promise.epsilon: promise.delta}

    def look(places: Iterable[float]) -> None:
        new = sorted(set(places) - set(known))
        known.update(zip(new, curve.deltas(np.array(new)).tolist(), strict=True))

    # For ε above `reach`, the bounds are worse than those of the guarantee, even with δ = 0.
    others = (secret - 1) * math.exp(-promise.epsilon)
    more = math.log1p(others * promise.delta) - math.log1p(-promise.delta)
    last = min(curve.last, _MOST_EXPONENT)
    reach = min(last, promise.epsilon + max(math.log(2), more))
    bends = curve.bends[(curve.bends > 0) & (curve.bends < reach)]
    look(bends.tolist() if len(bends) <= _FIRST else np.linspace(0, reach, _FIRST).tolist())
    exact = {0.0, promise.epsilon, last}
    look(exact)
    bounds: tuple[Callable[[tuple[float, float]], float], ...] = (
        lambda point: _loss(*point, chance),
        lambda point: _named(*point, secret),
    )
    for bound in bounds:
        for _ in range(_HALVINGS):
            points = sorted(known.items())
            best = min(range(len(points)), key=lambda at: bound(points[at]))
            near = points[max(best - 1, 0) : best + 2]
            look((points[best][0] + beside) / 2 for beside, _ in near)
        exact.add(min(known.items(), key=bound)[0])
    # `deltas` may round up more than `delta`, so `delta` computes the most important points again.
    return known | {epsilon: min(known[epsilon], curve.delta(epsilon)) for epsilon in exact}


def _loss(epsilon: float, delta: float, chance: float) -> float:
    """The logarithm of the factor by which odds may rise. Odds rise by more than this factor with a
    chance of at most `chance`, or never if δ = 0.
    """
    if not delta:
        return epsilon
    share = delta / chance * (1 + _UP) if chance else 1.0
    return epsilon - math.log1p(-share) if share < 1 else math.inf


def _advantage(epsilon: float, delta: float) -> float:
    inverse = math.exp(-epsilon)
    return (-math.expm1(-epsilon) + 2 * delta * inverse) / (1 + inverse)


def _named(epsilon: float, delta: float, secret: int) -> float:
    others = (secret - 1) * math.exp(-epsilon)
    return (1 + others * delta) / (1 + others)


def _up(chance: float) -> float:
    return min(1.0, chance * (1 + _UP))


def _factor(loss: float) -> float | None:
    """e^loss, rounded up, or None if it is too large for a float."""
    return None if loss > _MOST_EXPONENT else math.exp(loss) * (1 + _UP * (1 + loss))


def _shown(value: float | None) -> str:
    """A number with four digits, rounded up."""
    if value is None:
        return "no bound"
    return "∞" if math.isinf(value) else rounded_up(value * (1 - _SAME))


def _percent(chance: float) -> str:
    return f"{_shown(100 * chance)} %"


def _one_in(chance: float) -> str:
    """A chance in words, rounded up: a percentage, or "1 in" a number."""
    if chance > 0.1:
        return _percent(chance)
    count = math.floor(min(1 / chance, 1e300) * (1 + _SAME))
    if count >= 10**15:
        return f"1 in 10^{len(str(count)) - 1}"
    step = 10 ** max(0, len(str(count)) - 3)
    return f"1 in {count // step * step:,}"
