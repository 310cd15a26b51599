"""The correlated-noise count (Ghazi, Kumar, Manurangsi, Pagh 2020).

Notation    x ∈ {0,1} a person's value, n people, h of them honest, ε1 = −ln a.
Randomizer  Send x messages +1, and noise of +1 and −1 that mostly cancels: see `correlated_noise`.
Analyzer    (number of +1) − (number of −1).
Privacy     With f = NB(1, a²) + NB(r, p): δ = HS_{ε−ε1}(f ‖ f moved by 1)/(1+a) for ε ≥ ε1, and
            nothing in the other direction; computed exactly. All neighbors are this one pair.
            Paper (the lemma of Ghazi, Kumar, Manurangsi, Pagh, Sinha 2021): r = 3(1 + ln(1/δ)),
            p = e^{−0.2(ε−ε1)}.
Error       Two-sided geometric noise of ε1 if everyone is honest, of n/h times that variance else.
Messages    x + 2(a/(1−a) + rp/(1−p))/h of 1 bit. Somebody who sees one person's can tell x.
            ε1 near ε is near central error and costs messages. One may state the error wanted
            (`error_ratio`, to central), the messages allowed (`max_messages`), or `epsilon1`; the
            flood (r, p) is the one with the fewest messages that is private.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.laws import Law
from headcount.core import checks
from headcount.core.budget import Budget, Crowd, Trust
from headcount.core.errors import Infeasible, InvalidParameter
from headcount.core.guarantee import Guarantee, PrivacyCurve
from headcount.core.messages import Alphabet, Messages
from headcount.core.protocol import RESERVED, BundleLaw, Calibration, Protocol
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Count, Task
from headcount.protocols.correlated_noise import CorrelatedNoise, DifferenceError, cheapest_flood

_ERROR_RATIO = 1.05  # to the best there can be, where the caller states nothing
_LEAST_SPARE = 2e-3  # between ε1 and the most that it can be: less makes laws too long
_MOST_MESSAGES = 2.0**20
_STEPS = 8


@lru_cache(maxsize=256)
def calibrate(
    crowd: Crowd, budget: Budget, epsilon1: float, cells: int, calibration: Calibration
) -> CorrelatedNoise | None:
    """Noise of this ε1 within the budget, looked at again; None if there is none."""
    a, most = math.exp(-epsilon1), budget.delta * (1 - RESERVED)
    # A person who moves between cells touches two of them.
    touched = min(cells, 2)
    spare = budget.epsilon - touched * epsilon1
    if not (0 < a < 1 and spare > 0 and budget.delta):
        return None

    moved = cells > 1
    if calibration == "paper":
        r = 3 * (1 + math.log(touched / budget.delta))
        noise = CorrelatedNoise(crowd.honest, a, r, math.exp(-0.2 * spare / touched))
        return noise if noise.delta(budget.epsilon, moved) <= most else None
    return cheapest_flood(crowd.honest, a, budget.epsilon, most, moved=moved)


@dataclass(frozen=True)
class Correlated(Protocol):
    name = "shuffle.correlated"
    trust = Trust.SHUFFLE
    tasks: ClassVar[tuple[type[Task], ...]] = (Count,)

    error_ratio: float | None = None
    max_messages: float | None = None
    epsilon1: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        wishes = ("error_ratio", "max_messages", "epsilon1")
        given = [name for name in wishes if getattr(self, name) is not None]
        if len(given) > 1:
            raise InvalidParameter(
                f"at most one of {', '.join(wishes)} must be given, got {', '.join(given)}"
            )
        for name in given:
            number = checks.real(name, getattr(self, name))
            if number <= 0:
                raise InvalidParameter(f"`{name}` must be positive, got {number}")
            object.__setattr__(self, name, number)
        _ = self._noise  # an infeasible request is refused now, not at the first use
        if self.curve.delta(self.budget.epsilon) > self.budget.delta:
            raise Infeasible(
                f"{self.name} cannot draw its noise exactly enough for epsilon="
                f"{self.budget.epsilon:g}, delta={self.budget.delta:g} with "
                f"{self.crowd.honest} honest people"
            )

    # What the histogram does in another way ---------------------------------------------------

    @property
    def _cells(self) -> int:
        return 1

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet(np.int8, range(-1, 2, 2), dummy=(0,))

    def _own(self, encoded: NDArray[Any]) -> Messages:
        """People's messages without noise."""
        payload = np.ones(int(np.count_nonzero(encoded)), dtype=np.int8)
        return Messages(payload, len(encoded), encoded)

    def _coded(self, cells: NDArray[np.int64], sign: int) -> NDArray[Any]:
        """The message of a sign in each of these cells."""
        return np.full(len(cells), sign, dtype=np.int8)

    def law(self, value: int) -> BundleLaw | None:
        shares = self._noise.share_law()
        if shares is None:
            return None
        out: dict[Any, Fraction] = {}
        for (plus, minus), chance in shares.items():
            copies = ((-1, minus), (1, plus + value))
            out[tuple(pair for pair in copies if pair[1])] = chance
        return out

    def _tally(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        plus = np.count_nonzero(payload > 0)
        return np.array([plus, len(payload) - plus])

    def _unbiased(self, tally: Tally, source: Source | None) -> Any:
        return float(tally.counts[0] - tally.counts[1])

    def _truth(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many people hold each cell."""
        return counts[1:]

    # Calibration --------------------------------------------------------------------------------

    @cached_property
    def _noise(self) -> CorrelatedNoise:
        if not self.budget.delta:
            raise Infeasible(
                f"{self.name} needs delta above 0: it may happen that nobody sends noise",
                nearest={"delta": 1e-9},
            )
        largest = self._most_epsilon1 - _LEAST_SPARE
        if largest < _LEAST_SPARE:
            least = 2.0001 * _LEAST_SPARE * min(self._cells, 2)
            raise Infeasible(
                f"{self.name} needs epsilon of at least {least:g}, got {self.budget.epsilon:g}",
                nearest={"epsilon": least},
            )
        if self.max_messages is not None:
            return self._within(self.max_messages)
        if self.epsilon1 is not None:
            epsilon1 = self.epsilon1
        elif self.error_ratio is not None:
            epsilon1 = self._epsilon1(self.error_ratio)
        else:
            epsilon1 = min(self._epsilon1(_ERROR_RATIO * self._dishonesty), largest)
        if epsilon1 > largest and self.error_ratio is not None:
            least_ratio = (
                math.sinh(self._most_epsilon1 / 2) / math.sinh(largest / 2) * self._dishonesty
            )
            raise Infeasible(
                f"{self.name} needs an error_ratio of at least {least_ratio:.6g}, "
                f"got {self.error_ratio:g}",
                nearest={"error_ratio": math.ceil(least_ratio * 1e6) / 1e6},
            )
        if epsilon1 > largest:
            raise Infeasible(
                f"{self.name} needs epsilon1 of at most {largest:g} (nearer to "
                f"{self._most_epsilon1:g} the laws of its noise are too long), got {epsilon1:.6g}",
                nearest={"epsilon1": min(0.99 * self._most_epsilon1, largest)},
            )
        noise = self._calibrate(epsilon1)
        if noise is None:
            raise Infeasible(
                f"the paper's parameters for {self.name} do not keep epsilon="
                f"{self.budget.epsilon:g}, delta={self.budget.delta:g}; the exact calibration does"
                if self.calibration == "paper"
                else f"{self.name} finds no flood for epsilon={self.budget.epsilon:g}, "
                f"delta={self.budget.delta:g}, epsilon1={epsilon1:g}"
            )
        if self._messages(noise) > _MOST_MESSAGES:
            fewer = math.ceil(self.crowd.honest * self._messages(noise) / _MOST_MESSAGES)
            raise Infeasible(
                f"{self.name} needs {self._messages(noise):.3g} messages per person of "
                f"{self.crowd.honest} honest people, more than {_MOST_MESSAGES:.0f}",
                nearest={"honest": fewer},
            )
        return noise

    def _calibrate(self, epsilon1: float) -> CorrelatedNoise | None:
        return calibrate(self.crowd, self.budget, epsilon1, self._cells, self.calibration)

    @property
    def _most_epsilon1(self) -> float:
        """Central noise that spends all of ε: of ε/2 where a person touches two cells."""
        return self.budget.epsilon / min(self._cells, 2)

    @property
    def _dishonesty(self) -> float:
        """What the noise of those who are not counted on adds to the standard error."""
        return math.sqrt(self.crowd.users / self.crowd.honest)

    def _epsilon1(self, ratio: float) -> float:
        # The standard error of two-sided geometric noise is 1/(√2·sinh(ε/2)).
        if ratio <= self._dishonesty:
            raise Infeasible(
                f"{self.name} needs an error_ratio above {self._dishonesty:g} with "
                f"{self.crowd.honest} honest of {self.crowd.users} people, got {ratio:g}",
                nearest={"error_ratio": round(self._dishonesty * 1.01, 4)},
            )
        return 2 * math.asinh(math.sinh(self._most_epsilon1 / 2) * self._dishonesty / ratio)

    def _messages(self, noise: CorrelatedNoise) -> float:
        return 1 + self._cells * noise.messages

    def _within(self, allowed: float) -> CorrelatedNoise:
        """The least error for so many messages: ε1 up to where they are too many."""

        def cost(epsilon1: float) -> float:
            noise = self._calibrate(epsilon1)
            return math.inf if noise is None else self._messages(noise)

        # Messages fall with ε1, as there is less single noise, and then rise with the flood.
        share = 0.5
        if cost(share * self._most_epsilon1) > allowed:
            shares = (0.02, 0.1, 0.2, 0.3, 0.4, 0.6)
            least, share = min((cost(other * self._most_epsilon1), other) for other in shares)
            if least > allowed:
                raise Infeasible(
                    f"{self.name} needs at least {least:.4g} messages per person for epsilon="
                    f"{self.budget.epsilon:g}, delta={self.budget.delta:g} with "
                    f"{self.crowd.honest} honest people, got max_messages={allowed:g}",
                    nearest={"max_messages": math.ceil(least * 1000 + 1) / 1000},
                )
        # The flood is about inverse to what ε1 leaves of ε.
        best = gap = 1 - share
        for _ in range(_STEPS):
            ratio = (cost((1 - gap) * self._most_epsilon1) - 1) / (allowed - 1)
            if ratio <= 1:
                best = min(best, gap)
                if ratio > 0.995:
                    break
            gap = max(gap * ratio * 1.002, _LEAST_SPARE / self._most_epsilon1)
        noise = self._calibrate((1 - best) * self._most_epsilon1)
        assert noise is not None
        return noise

    # What follows -------------------------------------------------------------------------------

    @property
    def tally_size(self) -> int:
        return 2 * self._cells

    @property
    def parameters(self) -> Mapping[str, float]:
        noise = self._noise
        return {
            "epsilon1": -math.log(noise.a),
            "r": noise.r,
            "flood_p": noise.p,
            "flood_pairs": noise.flood_pairs * self.crowd.users / self.crowd.honest,
        }

    @cached_property
    def guarantee(self) -> Guarantee:
        exact = self.calibration == "exact"
        return Guarantee(
            epsilon=self.budget.epsilon,
            delta=self.curve.delta(self.budget.epsilon) if exact else self.budget.delta,
            trust=self.trust,
            exact=exact,
            method="joint law of the numbers of +1 and −1"
            if exact
            else "Ghazi, Kumar, Manurangsi, Pagh and Sinha 2021",
            honest=self.crowd.honest,
        )

    @cached_property
    def curve(self) -> PrivacyCurve:
        return self._noise.curve(self._cells)

    @property
    def messages_per_user(self) -> float:
        return self._messages(self._noise)

    @property
    def local_epsilon(self) -> float:
        return math.inf

    def _standard_error(self, users: int, counts: NDArray[np.int64] | None) -> float:
        return self._error_law(users, None).standard_error

    def _error_law(self, users: int, value: Any) -> DifferenceError:
        return DifferenceError(Fraction(users, self.crowd.honest), self._noise.a)

    def _excess(self, slots: int) -> float:
        return self._number.above(slots - 1)

    @cached_property
    def _number(self) -> Law:
        """Of a person's noise messages."""
        return self._noise.number_law(self._cells)

    def _randomize(self, encoded: NDArray[Any], source: Source) -> Messages:
        touched, plus, minus = self._noise.draw(source, len(encoded) * self._cells)
        people, cells = np.divmod(touched, self._cells)
        # For each cell that has noise, its +1 and then its −1.
        codes = np.stack([self._coded(cells, 1), self._coded(cells, -1)], axis=1).ravel()
        copies = np.stack([plus, minus], axis=1).ravel()
        senders = np.repeat(np.repeat(people, 2), copies)
        return self._own(encoded).plus(senders, np.repeat(codes, copies))

    def _simulate(self, counts: NDArray[np.int64], source: Source) -> NDArray[np.int64]:
        tally = self._noise.totals(int(counts.sum()), self._cells, source)
        tally[:, 0] += self._truth(counts)
        return tally.ravel()
