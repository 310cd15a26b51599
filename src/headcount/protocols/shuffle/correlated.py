"""The correlated-noise count (Ghazi, Kumar, Manurangsi, Pagh 2020).

Notation    x ∈ {0,1} is a person's value, n the number of people; h of them are honest.
            ε1 = −ln a.
Randomizer  Send x messages +1, and noise of +1 and −1 that mostly cancels (see `correlated_noise`).
Analyzer    (number of +1) − (number of −1).
Privacy     With f = NB(1, a²) + NB(r, p), δ = HS_{ε−ε1}(f ‖ f moved by 1)/(1+a) for ε ≥ ε1. In the
            other direction δ is 0. All neighbors have this same pair of views, and δ is computed
            exactly. Paper (the lemma of Ghazi, Kumar, Manurangsi, Pagh, Sinha 2021):
            r = 3(1 + ln(1/δ)), p = e^{−0.2(ε−ε1)}.
Error       Two-sided geometric noise of ε1 if everyone is honest, and otherwise n/h times its
            variance.
Messages    x + 2(a/(1−a) + rp/(1−p))/h messages of 1 bit. Whoever sees one person's messages can
            tell x. The options of `correlated_protocol` trade messages for error.
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
from headcount.core.estimate import Answer
from headcount.core.estimator import Estimator
from headcount.core.guarantee import Guarantee, PrivacyCurve
from headcount.core.influence import Shifts
from headcount.core.messages import Alphabet, Messages
from headcount.core.promise import promise
from headcount.core.protocol import Calibration
from headcount.core.randomizer import BundleLaw, Randomizer
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Holding, Task
from headcount.core.tasks.count import Count
from headcount.protocols.correlated_noise import CorrelatedNoise, cheapest_flood
from headcount.protocols.correlated_protocol import CorrelatedProtocol, NoiseFamily
from headcount.protocols.geometric_error import GeometricError

# Randomizer -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class CountRandomizer(Randomizer):
    """Sends x messages +1, and noise of +1 and −1."""

    noise: CorrelatedNoise

    alphabet = Alphabet(np.int8, range(-1, 2, 2), dummy=(0,))

    @property
    def messages_per_user(self) -> float:
        return self.noise.messages_per_user(cells=1)

    def send(self, encoded: NDArray[np.uint8], source: Source) -> Messages:
        ones = np.ones(int(np.count_nonzero(encoded)), dtype=np.int8)
        own = Messages(ones, len(encoded), encoded)
        people, copies = self.noise.draw(source, len(encoded))
        # For each person who has noise, the +1 and then the −1.
        signs = np.tile(np.array([1, -1], dtype=np.int8), len(people))
        return own.plus(np.repeat(people, copies.sum(axis=1)), np.repeat(signs, copies.ravel()))

    def law(self, value: int) -> BundleLaw | None:
        shares = self.noise.share_law()
        if shares is None:
            return None
        out: dict[Any, Fraction] = {}
        for (plus, minus), chance in shares.items():
            copies = ((-1, minus), (1, plus + value))
            out[tuple(pair for pair in copies if pair[1])] = chance
        return out

    def overflow(self, slots: int) -> float:
        return self._noise_messages.above(slots - 1)

    @cached_property
    def _noise_messages(self) -> Law:
        return self.noise.number_law(cells=1)


# Analyzer and its error -----------------------------------------------------------------------


@dataclass(frozen=True)
class SignedCounts(Estimator):
    """Computes the number of messages +1 minus the number of messages −1."""

    noise: CorrelatedNoise

    @property
    def tally_size(self) -> int:
        return 2

    def count(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        plus = np.count_nonzero(payload > 0)
        return np.array([plus, len(payload) - plus])

    def simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        tally = self.noise.totals(held.users, self.tally_size // 2, source)
        tally[:, 0] += self.true_counts(held)
        return tally.ravel()

    def unbiased(self, tally: Tally, source: Source | None = None) -> Answer:
        return float(tally.counts[0] - tally.counts[1])

    def shifts(self, users: int, alphabet: Alphabet) -> Shifts:
        return Shifts(most=1.0, least=-1.0)

    def standard_error(self, users: int, held: Holding | None) -> float:
        return self.noise.error(users).standard_error

    def error_law(self, users: int, unbiased: Answer) -> GeometricError:
        return self.noise.error(users)

    def true_counts(self, held: Holding) -> NDArray[np.int64]:
        """The number of people in each cell."""
        return held.counts[1:]


# Calibration and privacy ----------------------------------------------------------------------


@lru_cache(maxsize=256)
def _calibrate(
    crowd: Crowd, budget: Budget, epsilon1: float, cells: int, calibration: Calibration
) -> CorrelatedNoise | None:
    """Noise of this ε1 whose exact δ is within the budget; None if there is none."""
    a, most = math.exp(-epsilon1), budget.delta * (1 - RESERVED)
    # A person who moves between cells changes two of them.
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

    @property
    def cells(self) -> int:
        """The number of cells in which people are counted."""
        return 1

    @property
    def family(self) -> NoiseFamily[CorrelatedNoise]:
        cells = self.cells

        def calibrate(epsilon1: float) -> CorrelatedNoise | None:
            return _calibrate(self.crowd, self.budget, epsilon1, cells, self.calibration)

        return NoiseFamily(
            self.crowd,
            most_epsilon1=self.budget.epsilon / min(cells, 2),
            calibrate=calibrate,
            messages=lambda noise: noise.messages_per_user(cells),
        )

    @cached_property
    def randomizer(self) -> Randomizer:
        return CountRandomizer(self.noise)

    @cached_property
    def estimator(self) -> SignedCounts:
        return SignedCounts(self.task, self.noise)

    @property
    def parameters(self) -> Mapping[str, float]:
        noise = self.noise
        return {
            "epsilon1": -math.log(noise.a),
            "r": noise.r,
            "flood_p": noise.p,
            "flood_pairs": noise.flood_pairs * self.crowd.users / self.crowd.honest,
        }

    @cached_property
    def curve(self) -> PrivacyCurve:
        return self.noise.curve(self.cells)

    @cached_property
    def guarantee(self) -> Guarantee:
        exact = self.calibration == "exact"
        return promise(
            self,
            "joint law of the numbers of +1 and −1"
            if exact
            else "Ghazi, Kumar, Manurangsi, Pagh and Sinha 2021",
            delta=self.curve.delta(self.budget.epsilon) if exact else self.budget.delta,
            exact=exact,
        )

    @property
    def local_epsilon(self) -> float:
        return math.inf
