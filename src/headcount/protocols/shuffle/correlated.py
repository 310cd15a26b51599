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
            The options that trade them for error are those of `correlated_protocol`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.laws import Law
from headcount.core.budget import Budget, Crowd, Trust
from headcount.core.bundles import RESERVED
from headcount.core.cached import cached_property
from headcount.core.guarantee import Guarantee, PrivacyCurve
from headcount.core.messages import Alphabet, Messages
from headcount.core.protocol import Calibration
from headcount.core.randomizer import BundleLaw
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Count, Holding, Task
from headcount.protocols.correlated_noise import CorrelatedNoise, cheapest_flood
from headcount.protocols.correlated_protocol import CorrelatedProtocol
from headcount.protocols.geometric_error import GeometricError


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
class Correlated(CorrelatedProtocol[CorrelatedNoise]):
    name = "shuffle.correlated"
    trust = Trust.SHUFFLE
    tasks: ClassVar[tuple[type[Task], ...]] = (Count,)

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

    def _calibrate(self, epsilon1: float) -> CorrelatedNoise | None:
        return calibrate(self.crowd, self.budget, epsilon1, self._cells, self.calibration)

    @property
    def _most_epsilon1(self) -> float:
        """Of ε/2 where a person touches two cells."""
        return self.budget.epsilon / min(self._cells, 2)

    def _messages(self, noise: CorrelatedNoise) -> float:
        return 1 + self._cells * noise.messages

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
        return self._promise(
            "joint law of the numbers of +1 and −1"
            if exact
            else "Ghazi, Kumar, Manurangsi, Pagh and Sinha 2021",
            delta=self.curve.delta(self.budget.epsilon) if exact else self.budget.delta,
            exact=exact,
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

    def _standard_error(self, users: int, held: Holding | None) -> float:
        return self._error_law(users, None).standard_error

    def _error_law(self, users: int, value: Any) -> GeometricError:
        return GeometricError(-math.log(self._noise.a), Fraction(users, self.crowd.honest))

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

    def _simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        tally = self._noise.totals(held.users, self._cells, source)
        tally[:, 0] += self._truth(held.counts)
        return tally.ravel()
