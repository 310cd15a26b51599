"""A histogram with fake users: balls in bins (Luo, Wang, Yi 2022; Cheu, Zhilyaev 2022).

Notation    x ∈ {0, …, d−1} a person's bucket, n people, h of them honest, μ noise per bucket.
Randomizer  Send x, and Poisson(dμ/h) further messages, each a uniform bucket.
Analyzer    In every bucket, the number of messages less its mean of noise, nμ/h.
Privacy     The noise of the honest is Poisson(μ) in every bucket, independently. A person who moves
            touches two buckets: δ is the exact divergence of the pair, (N+1, N') against (N, N'+1).
            Paper: μ = (32/ε²) ln(2/δ).
Error       Poisson(nμ/h) less its mean, in each bucket, whatever d and the data are.
Messages    1 + dμ/h of a bucket each. Their number says nothing about x, but x is among them: local
            ε is infinite.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.accounting import laws
from headcount.accounting.buckets import MovedCurve
from headcount.accounting.calibration import least_private
from headcount.core.budget import Budget, Trust
from headcount.core.bundles import RESERVED
from headcount.core.cached import cached_property
from headcount.core.errors import Infeasible
from headcount.core.guarantee import Guarantee, NearCurve, PrivacyCurve
from headcount.core.messages import Alphabet, Messages
from headcount.core.old_form import OldForm
from headcount.core.protocol import Calibration
from headcount.core.randomizer import MOST_BUNDLES, RARE, BundleLaw
from headcount.core.source import Source
from headcount.core.table import short
from headcount.core.tally import Tally
from headcount.core.task import Histogram, Holding
from headcount.randomness.draws import uniform
from headcount.randomness.shares import poisson_share
from headcount.randomness.table import ThresholdTable
from headcount.randomness.totals import poisson

_GRAIN = 1 << 16  # μ is a multiple of 1/_GRAIN
_MOST_NOISE = 10**8  # per bucket
_MOST_MESSAGES = 2.0**20


def noise_curve(noise: Fraction) -> MovedCurve:
    """Of Poisson noise in every bucket."""
    law = laws.poisson(noise)
    return MovedCurve(law.shift(1), law)


@lru_cache(maxsize=256)
def least_noise(budget: Budget, calibration: Calibration) -> Fraction | None:
    """The mean μ to use, looked at again; None if there is none."""
    allowed = budget.delta * (1 - RESERVED)

    def delta_at(noise: int) -> float:
        return noise_curve(Fraction(noise, _GRAIN)).delta(budget.epsilon)

    if calibration == "paper":
        noise = math.ceil(32 / budget.epsilon**2 * math.log(2 / budget.delta) * _GRAIN)
        within = noise <= _MOST_NOISE * _GRAIN and delta_at(noise) <= allowed
        return Fraction(noise, _GRAIN) if within else None
    # More noise is more private: Poisson laws add up.
    found = least_private(delta_at, allowed, start=1, stop=_MOST_NOISE * _GRAIN, steps=1)
    return None if found is None else Fraction(found, _GRAIN)


@dataclass(frozen=True)
class PoissonError:
    """The error of a bucket: Poisson(mean) less its mean."""

    mean: Fraction

    @property
    def standard_error(self) -> float:
        return math.sqrt(self.mean)

    def margins(self, confidence: float) -> tuple[float, float]:
        low, high = laws.poisson(self.mean).central_interval(confidence)
        return float(self.mean - low), float(high - self.mean)


@dataclass(frozen=True)
class FakeUsers(OldForm):
    name = "shuffle.fake-users"
    trust = Trust.SHUFFLE
    tasks = (Histogram,)

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self._noise  # an infeasible request is refused now, not at the first use
        self._check_curve()

    @cached_property
    def _noise(self) -> Fraction:
        """μ."""
        setting = f"epsilon={short(self.budget.epsilon)}, delta={short(self.budget.delta)}"
        if self.budget.delta == 0:
            raise Infeasible(
                f"{self.name} needs delta above 0: it may happen that nobody sends noise",
                nearest={"delta": 1e-9},
            )
        found = least_noise(self.budget, self.calibration)
        if found is None:
            raise Infeasible(
                f"the paper's noise for {self.name} does not keep {setting}; the exact one does"
                if self.calibration == "paper"
                else f"{self.name} needs more than {_MOST_NOISE} noise messages for {setting}"
            )
        if self._cells * found > _MOST_MESSAGES * self.crowd.honest:
            raise Infeasible(
                f"{self.name} must take at most {_MOST_MESSAGES:.0f} messages per person, got "
                f"{short(float(self._cells * found / self.crowd.honest), 3)} for {setting} with "
                f"{self.crowd.honest} honest people",
                nearest={"honest": self._enough(found)},
            )
        return found

    def _enough(self, noise: Fraction) -> int:
        """How many honest people keep the messages of each few enough."""
        people, needed = 0, 1
        while people < needed:
            people = needed
            cells = self._cells_for(max(people, self.crowd.users))
            needed = math.ceil(cells * noise / int(_MOST_MESSAGES))
        return people

    @property
    def _cells(self) -> int:
        """Of which a noise message is a uniform one."""
        return self._cells_for(self.crowd.users)

    def _cells_for(self, users: int) -> int:
        return self.task.domain

    @property
    def _share(self) -> ThresholdTable:
        """The law of one person's number of noise messages."""
        return poisson_share(self._mean_share)

    @property
    def _mean_share(self) -> Fraction:
        return self._cells * self._noise / self.crowd.honest

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet.numbers(self.task.domain, dummies=True)

    @property
    def tally_size(self) -> int:
        return self.task.domain

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"noise_per_bucket": float(self._noise)}

    @cached_property
    def guarantee(self) -> Guarantee:
        exact = self.calibration == "exact"
        return self._promise(
            "law of two buckets" if exact else "Luo, Wang and Yi 2022",
            delta=self.curve.delta(self.budget.epsilon) if exact else self.budget.delta,
            exact=exact,
        )

    @cached_property
    def curve(self) -> PrivacyCurve:
        variation = self.crowd.honest * self._share.total_variation
        return NearCurve(noise_curve(self._noise), variation)

    @property
    def messages_per_user(self) -> float:
        return float(1 + self._mean_share)

    @property
    def local_epsilon(self) -> float:
        return math.inf

    def law(self, value: int) -> BundleLaw | None:
        buckets = self.task.domain
        numbers = {number: p for number, p in self._share.law.items() if p >= RARE}
        if math.comb(max(numbers) + buckets, buckets) > MOST_BUNDLES:
            return None
        out: dict[Any, Fraction] = {}
        for number, chance in numbers.items():
            for others in combinations_with_replacement(range(buckets), number):
                copies = [others.count(bucket) for bucket in range(buckets)]
                # Of buckets^number equally likely rows of messages, so many have these copies.
                rows = math.factorial(number) // math.prod(map(math.factorial, copies))
                copies[value] += 1
                bundle = tuple(pair for pair in enumerate(copies) if pair[1])
                if (share := chance * Fraction(rows, buckets**number)) >= RARE:
                    out[bundle] = share
        return out

    def _standard_error(self, users: int, held: Holding | None) -> float:
        return self._error_law(users, None).standard_error

    def _error_law(self, users: int, value: Any) -> PoissonError:
        return PoissonError(self._noise * users / self.crowd.honest)

    def _excess(self, slots: int) -> float:
        return laws.poisson(self._mean_share).above(slots - 1)

    def _randomize(self, encoded: NDArray[Any], source: Source) -> Messages:
        numbers = self._share.sample(source, len(encoded))
        noise = uniform(source, int(numbers.sum()), self.task.domain)
        senders = np.repeat(np.arange(len(encoded)), numbers)
        dtype = self.alphabet.dtype
        return Messages.one_each(encoded.astype(dtype)).plus(senders, noise.astype(dtype))

    def _unbiased(self, tally: Tally, source: Source | None) -> Any:
        return tally.counts - float(self._noise * tally.users / self.crowd.honest)

    def _simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        noise = self._noise * held.users / self.crowd.honest
        return held.counts + poisson(source, noise, len(held.counts))
