"""What an (ε, δ) means for one person, in words, against thresholds that the user can set.

Notation    P and Q are the laws of what is seen of two datasets that differ in one person's value;
            P(E) ≤ e^ε·Q(E) + δ for all events E, and the same with P and Q exchanged. Mixes of
            such laws keep it: what is said of two values holds for any statement about a person,
            true against false. Every known (ε, δ) gives upper bounds; the least of them is taken.
Odds        of a statement grow by the factor P/Q. E = {P > e^t·Q} has Q(E) ≤ e^−t·P(E), so that
            P(E) ≤ δ/(1 − e^(ε−t)) for t > ε. (That P(E) ≤ δ at t = ε is a common mistake.) A chance
            of Y = 2δ is left at t = ε + ln 2; with all of a curve δ(ε), at the least ε − ln(1 −
            δ(ε)/Y). Where δ(ε) = 0, the factor e^ε is never exceeded.
Advantage   P(E) − Q(E), detection minus false alarms. P(E) ≤ e^ε·Q(E) + δ and 1 − Q(E) ≤ e^ε·(1 −
            P(E)) + δ add up to P(E) − Q(E) ≤ (e^ε − 1 + 2δ)/(e^ε + 1); at ε = 0 that is δ(0).
Singled out A secret is one of k values, equally likely, with laws P_i; value i is guessed on the
            event E_i, and rightly with the chance s = Σ P_i(E_i)/k. Sum P_i(E_i) ≤ e^ε·P_j(E_i) + δ
            over all i ≠ j: (k−1)·ks ≤ e^ε·(k − ks) + k(k−1)δ, as the E_i are a partition. So
            s ≤ (e^ε + (k−1)δ)/(e^ε + k − 1).

Each of the three, as a function of e^ε, has no local minimum but the least: δ is convex in e^ε.
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

_FEW = 16  # points of a curve that are looked at first
_CLOSER = 8  # times that the distance of points is halved around the best
_UP = 2.0**-49  # relative, more than the rounding of any formula here
_SAME = 1e-12  # relative, within which floats say the same
_MOST_EXPONENT = 700.0  # whose e^x is a float
_WORTH_SAYING = 1e6  # a factor; larger ones limit nothing
# Chances, from 0 to 1, closer together near both ends.
_CHANCES = (*(math.sin(math.pi * step / 200) ** 2 for step in range(100)), 1.0)


@dataclass(frozen=True)
class Thresholds:
    """The most that one is willing to accept.

    `odds` is the factor by which the odds of anything about a person may rise, `exception` the
    chance that they rise further, `advantage` how much more often a test may detect a value than
    raise a false alarm, and `singled_out` the chance that a secret is named.
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
        """Some by name; the others as they are."""
        if not isinstance(limits, Mapping):
            raise InvalidParameter(
                f"`limits` must be numbers by name, such as odds=5, got {checks.shown(limits)}"
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
    "This is for one answer; every further one about the same people adds to it.",
    "Only what a person's own value adds is counted: what an answer says about people in general "
    "can be learned without it.",
)


@dataclass(frozen=True)
class Fact:
    """An upper bound, None if there is none; what it is without any answer; and its threshold."""

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
    """What the guarantee means. `never` is a factor that no odds ever rise by, if one is known;
    `known` are the (ε, δ) that all of this follows from.
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
        """The most that a test detects with so many false alarms, both as chances."""
        least = 1.0
        for epsilon, delta in self.known:
            factor, inverse = math.exp(min(epsilon, _MOST_EXPONENT)), math.exp(-epsilon)
            missed = inverse * (1 - delta - false_alarms)  # at least
            least = min(least, factor * false_alarms + delta, 1 - missed)
        return least

    def belief(self, prior: float) -> float:
        """The most that is believed afterwards, as a chance, but for the exception."""
        if self.odds.value is None:
            return float(prior > 0)
        return prior / (prior + (1 - prior) / self.odds.value)

    @property
    def points(self) -> dict[str, Points]:
        """Two curves: false alarms to detection, and belief before to belief after."""
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
        """With which chance the odds rise further, in words; empty where they never do."""
        left = self.exception.value
        return f"but for a chance of {_one_in(left)}" if left else ""

    @property
    def sentences(self) -> tuple[str, ...]:
        """The report in plain words."""
        return tuple(filter(None, (*self._learned, *self._guessed, self._relies, *_SCOPE)))

    @property
    def _learned(self) -> tuple[str, ...]:
        who = _WHO[self.trust]
        if self.odds.value is None:
            return (f"{who} may become certain about a person: no limit to the odds is known.",)
        rise = f"{who} can raise the odds of anything about a person {_shown(self.odds.value)}-fold"
        rise += f" at most, {self.but_for or 'always'}."
        if self.but_for and self.never is not None and self.never < _WORTH_SAYING:
            rise += f" More than {_shown(self.never)}-fold is impossible."
        even, rare = self.belief(1 / 2), self.belief(1 / self.secret)
        return (
            rise,
            f"Whoever took something about a person for an even chance is {_percent(even)} sure of "
            f"it afterwards, at most; whoever gave it one chance in {self.secret:,}, "
            f"{_percent(rare)}.",
        )

    @property
    def _guessed(self) -> tuple[str, ...]:
        advantage, named = self.advantage.value or 0.0, self.singled_out.value or 0.0
        return (
            "Which of two equally likely values a person has is guessed rightly with a chance of "
            f"{_percent((1 + advantage) / 2)} at most (50 % without any answer): a test detects a "
            f"value at most {_shown(100 * advantage)} percentage points more often than it raises "
            "a false alarm.",
            f"A secret that is one of {self.secret:,}, all equally likely, is named correctly with "
            f"a chance of {_percent(named)} at most ({size(100 / self.secret)} % without any "
            "answer).",
        )

    @property
    def _relies(self) -> str:
        people = "the people" if self.honest is None else f"{self.honest:,} people"
        return {
            Trust.CENTRAL: "This relies on the curator, who sees all values and adds the noise.",
            Trust.SHUFFLE: f"This relies on the shuffler, and on {people} to follow the protocol.",
            Trust.LOCAL: "This relies on nobody else: people add the noise to what they send.",
            None: "",
        }[self.trust]

    def table(self) -> Table:
        """The facts against their thresholds, and the sentences."""
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
        """The report for JSON."""
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
            "sentences": list(self.sentences),
        }

    def __str__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table().html()


def privacy_report(
    source: Protocol | Guarantee | Budget, *, secret: int = 100, thresholds: Thresholds = _DEFAULT
) -> PrivacyReport:
    """What is promised of one person's privacy, in words and against thresholds.

    A protocol tells most: all its (ε, δ), for what its trust lets an attacker see. Of a guarantee
    or a budget only one is known. `secret` is how many values a secret might have.

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
        raise InvalidParameter(f"a guarantee must be kept to be reported, got: {promise.warning}")
    epsilon, delta = _checked(promise)
    # With 2δ ≥ 1 nothing would be said: then only what holds always counts.
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
            "exception", "chance that they rise further", None if odds is None else left, 0.0
        ),
        advantage=fact(
            "advantage",
            "detection minus false alarms of a test",
            _up(min(_advantage(*point) for point in points)),
            0.0,
        ),
        singled_out=fact(
            "singled_out",
            f"chance to name a secret, one of {secret:,}",
            _up(min(_named(*point, secret) for point in points)),
            1 / secret,
        ),
        never=_factor(min((epsilon for epsilon, delta in points if not delta), default=math.inf)),
        known=points,
    )


def _checked(promise: Guarantee | Budget) -> tuple[float, float]:
    """ε, which may be infinite, and δ: anybody can write down a guarantee."""
    epsilon, delta = promise.epsilon, checks.real("delta", promise.delta)
    epsilon = epsilon if epsilon == math.inf else checks.real("epsilon", epsilon)
    if epsilon < 0:
        raise InvalidParameter(f"`epsilon` must be at least 0, got {epsilon}")
    if not 0 <= delta <= 1:
        raise InvalidParameter(f"`delta` must be between 0 and 1, got {delta}")
    return epsilon, delta


def _points(protocol: Protocol, secret: int, chance: float) -> dict[float, float]:
    """Some (ε, δ) of a protocol: all that matter, if its curve has few bends; else some that are
    close to the best.
    """
    promise, curve = protocol.guarantee, protocol.curve
    known = {promise.epsilon: promise.delta}

    def look(places: Iterable[float]) -> None:
        new = sorted(set(places) - set(known))
        known.update(zip(new, curve.deltas(np.array(new)).tolist(), strict=True))

    # Beyond, e^ε alone gives more than the guarantee does.
    others = (secret - 1) * math.exp(-promise.epsilon)
    more = math.log1p(others * promise.delta) - math.log1p(-promise.delta)
    last = min(curve.last, _MOST_EXPONENT)
    reach = min(last, promise.epsilon + max(math.log(2), more))
    bends = curve.bends[(curve.bends > 0) & (curve.bends < reach)]
    look(bends.tolist() if len(bends) <= _FEW else np.linspace(0, reach, _FEW).tolist())
    exact = {0.0, promise.epsilon, last}
    look(exact)
    bounds: tuple[Callable[[tuple[float, float]], float], ...] = (
        lambda point: _loss(*point, chance),
        lambda point: _named(*point, secret),
    )
    for bound in bounds:
        for _ in range(_CLOSER):
            points = sorted(known.items())
            best = min(range(len(points)), key=lambda at: bound(points[at]))
            near = points[max(best - 1, 0) : best + 2]
            look((points[best][0] + beside) / 2 for beside, _ in near)
        exact.add(min(known.items(), key=bound)[0])
    # Many at once may have been rounded up more.
    return known | {epsilon: min(known[epsilon], curve.delta(epsilon)) for epsilon in exact}


def _loss(epsilon: float, delta: float, chance: float) -> float:
    """The logarithm of a factor that odds exceed with at most this chance; never, if δ = 0."""
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
    """e^loss, rounded up; None beyond what a float holds."""
    return None if loss > _MOST_EXPONENT else math.exp(loss) * (1 + _UP * (1 + loss))


def _shown(value: float | None) -> str:
    """In four digits, rounded up."""
    if value is None:
        return "no bound"
    return "∞" if math.isinf(value) else rounded_up(value * (1 - _SAME))


def _percent(chance: float) -> str:
    return f"{_shown(100 * chance)} %"


def _one_in(chance: float) -> str:
    """A chance in words, rounded up."""
    if chance > 0.1:
        return _percent(chance)
    count = math.floor(min(1 / chance, 1e300) * (1 + _SAME))
    if count >= 10**15:
        return f"1 in 10^{len(str(count)) - 1}"
    step = 10 ** max(0, len(str(count)) - 3)
    return f"1 in {count // step * step:,}"
