"""The least ε for two laws and a given δ, and the worst event. All probabilities are fractions."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

# A mapping from outcomes to their probabilities.
Law: TypeAlias = Mapping[Any, Fraction]


@dataclass(frozen=True)
class Loss:
    """The worst event of two laws P and Q: the event with the largest (P(event) − δ)/Q(event).

    This largest value is `ratio`. It equals e^ε for the least possible ε, or is None if no ε is
    large enough. If ε = 0 is enough, `ratio` is 1, and the event is empty. `chance` is P(event),
    and `other_chance` is Q(event).
    """

    ratio: Fraction | None
    event: tuple[Any, ...]
    chance: Fraction
    other_chance: Fraction

    @property
    def epsilon(self) -> float:
        """ε, rounded up."""
        if self.ratio is None:
            return math.inf
        if self.ratio <= 1:
            return 0.0
        near = math.log(self.ratio.numerator) - math.log(self.ratio.denominator)
        return near + 2.0**-50 * (1 + near)

    def __gt__(self, other: "Loss") -> bool:
        if self.ratio is None or other.ratio is None:
            return self.ratio is None and other.ratio is not None
        return self.ratio > other.ratio


def least_loss(law: Law, other: Law, delta: Fraction) -> Loss:
    """The least ε ≥ 0 with P(E) ≤ e^ε·Q(E) + δ for all events E. P is `law`, and Q is `other`.

    Outcomes are sorted by the ratio P/Q, in descending order. Some worst event consists of all
    outcomes up to a place in this list. Let p and q be the probabilities of these outcomes under P
    and Q. Then e^ε is the largest (p − δ)/q over all places, but at least 1.
    """

    def order(outcome: Any) -> tuple[bool, Fraction]:
        beside = other.get(outcome, Fraction(0))
        return (True, -law[outcome] / beside) if beside else (False, Fraction(0))

    outcomes = sorted(law, key=order)
    chance = other_chance = Fraction(0)
    worst = Loss(Fraction(1), (), Fraction(0), Fraction(0))
    for count, outcome in enumerate(outcomes, 1):
        chance += law[outcome]
        other_chance += other.get(outcome, Fraction(0))
        if chance > delta:
            ratio = (chance - delta) / other_chance if other_chance else None
            loss = Loss(ratio, tuple(outcomes[:count]), chance, other_chance)
            worst = loss if loss > worst or (ratio is None and worst.ratio is None) else worst
    return worst
