"""A histogram with fake users: balls in bins (Luo, Wang, Yi 2022; Cheu, Zhilyaev 2022).

Notation    x ∈ {0, …, d−1} is a person's bucket. n is the number of people; h of them are honest. μ
            is the expected number of noise messages per bucket that all honest people together
            send.
Randomizer  Send x, and Poisson(dμ/h) noise messages, each a uniform bucket. The noise messages look
            as if more people took part, who are called fake users.
Analyzer    From the number of messages in each bucket, subtract the mean number over all buckets,
            and add n/d. The result is the same as if first the mean nμ/h of the noise were
            subtracted, and then the excess of the total over n, divided by d (see `known_total`).
Privacy     The noise of the honest people is Poisson(μ) in every bucket, independently. A person
            who moves to another bucket changes two buckets. Let N and N' be the noise of these two
            buckets. δ is the exact divergence of (N+1, N') and (N, N'+1). With
            `calibration="paper"`, μ = (32/ε²) ln(2/δ).
Error       The noise of each bucket is Poisson(nμ/h), for any d and all data. Since n is known, the
            variance is (1 − 1/d)·nμ/h. For a yes/no question with two buckets, it is half of nμ/h.
Messages    1 + dμ/h messages on average, each with a bucket. Their number does not depend on x, but
            one of them is x. So the local ε is infinite.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headcount.accounting import laws
from headcount.accounting.calibration import least_private, near_least_private
from headcount.accounting.laws import Law
from headcount.accounting.moved_pairs import moved_curve
from headcount.core.bucket_sums import Part, Weights, independent_parts, lattice_of
from headcount.core.budget import Budget, Trust
from headcount.core.bundles import RESERVED
from headcount.core.cached import cached_property
from headcount.core.errors import Infeasible
from headcount.core.estimate import Answer
from headcount.core.estimator import Estimator
from headcount.core.guarantee import Guarantee, NearCurve, PrivacyCurve
from headcount.core.influence import Shifts
from headcount.core.lattice import LatticeLaw
from headcount.core.messages import Alphabet, Messages
from headcount.core.promise import check_curve, promise
from headcount.core.protocol import Calibration, Protocol
from headcount.core.randomizer import MOST_BUNDLES, RARE, BundleLaw, Randomizer
from headcount.core.source import Source
from headcount.core.table import short
from headcount.core.tally import Tally
from headcount.core.task import Holding
from headcount.core.tasks.histogram import Histogram
from headcount.protocols.known_total import (
    KnownTotalError,
    known_total_shifts,
    with_known_total,
)
from headcount.randomness.draws import uniform
from headcount.randomness.shares import poisson_share
from headcount.randomness.table import ThresholdTable
from headcount.randomness.totals import poisson

GRAIN = 1 << 16  # μ is a multiple of 1/GRAIN
MOST_NOISE = 10**8  # the largest expected number of noise messages per bucket
_MOST_MESSAGES = 2.0**20  # the largest expected number of noise messages per person


# Randomizer -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class PoissonRandomizer(Randomizer):
    """Sends the value and a Poisson number of noise messages, each with a uniform cell.

    A subclass defines the messages.
    """

    cells: int
    noise: Fraction  # μ/h, the expected number of noise messages of one person in each cell

    @property
    def own_messages(self) -> int:
        """The largest number of messages that tell a person's value, without noise."""
        return 1

    @property
    def share(self) -> ThresholdTable:
        """The law of one person's number of noise messages."""
        return poisson_share(self.cells * self.noise)

    def noise_senders(self, people: int, source: Source) -> NDArray[np.int64]:
        """The sender of each noise message, as a number below `people`, in increasing order."""
        senders, numbers = self.share.sample_nonzero(source, people)
        return np.repeat(senders, numbers)

    @property
    def own_instructions(self) -> Mapping[str, Any]:
        """How other programs make the messages that tell a person's value."""
        return {"kind": "value"}

    @property
    def instructions(self) -> Mapping[str, Any] | None:
        return {
            "kind": "fake-users",
            "own": self.own_instructions,
            "cells": self.cells,
            "mean": str(self.cells * self.noise),
        }

    @property
    def messages_per_user(self) -> float:
        return float(self.own_messages + self.cells * self.noise)

    def overflow(self, slots: int) -> float:
        return laws.poisson(self.cells * self.noise).above(slots - self.own_messages)


@dataclass(frozen=True)
class BucketRandomizer(PoissonRandomizer):
    """Sends x, and noise messages, each a uniform bucket. `cells` is the number of buckets."""

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet.numbers(self.cells, dummies=True)

    def own(self, encoded: NDArray[Any]) -> NDArray[Any]:
        """The messages that tell each person's value, in one row per person."""
        return encoded[:, None]

    def send(self, encoded: NDArray[Any], source: Source) -> Messages:
        senders = self.noise_senders(len(encoded), source)
        noise = uniform(source, len(senders), self.cells)
        dtype = self.alphabet.dtype
        own = self.own(encoded).astype(dtype).reshape(-1)
        counts = np.broadcast_to(np.int64(self.own_messages), len(encoded))
        return Messages(own, len(encoded), counts).plus(senders, noise.astype(dtype))

    def law(self, value: int) -> BundleLaw | None:
        buckets, own = self.cells, self.own(np.array([value]))[0].tolist()
        numbers = {number: p for number, p in self.share.law.items() if p >= RARE}
        if math.comb(max(numbers) + buckets, buckets) > MOST_BUNDLES:
            return None
        out: dict[Any, Fraction] = {}
        for number, chance in numbers.items():
            for others in combinations_with_replacement(range(buckets), number):
                copies = [others.count(bucket) for bucket in range(buckets)]
                # There are buckets^number equally likely sequences of noise messages. `rows` is
                # the number of sequences with these copies.
                rows = math.factorial(number) // math.prod(map(math.factorial, copies))
                for message in own:
                    copies[message] += 1
                bundle = tuple(pair for pair in enumerate(copies) if pair[1])
                if (share := chance * Fraction(rows, buckets**number)) >= RARE:
                    out[bundle] = share
        return out


# Analyzer and its error -----------------------------------------------------------------------


@dataclass(frozen=True)
class PoissonError:
    """The error of a bucket if the total is not known: Poisson(mean) minus its mean."""

    mean: Fraction

    grain: ClassVar[int] = 1

    @property
    def standard_error(self) -> float:
        return math.sqrt(self.mean)

    @property
    def law(self) -> Law:
        return laws.poisson(self.mean)

    def lattice(self) -> LatticeLaw:
        return laws.poisson(self.mean).lattice(self.mean)

    def margins(self, confidence: float) -> tuple[float, float]:
        low, high = laws.poisson(self.mean).central_interval(confidence)
        return float(self.mean - low), float(high - self.mean)

    def weighted(self, weights: Weights) -> list[Part] | None:
        return independent_parts(lattice_of(self), weights)


@dataclass(frozen=True)
class NoisyTotals(Estimator):
    """Subtracts the mean of the noise from the number of messages of every cell. A person may be in
    several cells, so the sum of all counts is not known.
    """

    noise: Fraction  # μ/h

    @abstractmethod
    def totals(self, held: Holding) -> NDArray[np.int64]:
        """The true number of people in each cell."""

    def simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        return self.totals(held) + poisson(source, self.noise * held.users, self.tally_size)

    def unbiased(self, tally: Tally, source: Source | None = None) -> Answer:
        return tally.counts - float(self.noise * tally.users)

    def shifts(self, users: int, alphabet: Alphabet) -> Shifts:
        return Shifts(most=1.0, least=0.0, person=-float(self.noise))

    def standard_error(self, users: int, held: Holding | None) -> float:
        return PoissonError(self.noise * users).standard_error

    def error_law(self, users: int, unbiased: Answer) -> PoissonError:
        return PoissonError(self.noise * users)


@dataclass(frozen=True)
class NoisyBuckets(Estimator):
    """Subtracts the mean number of messages over all buckets from the number of messages in each
    bucket, and adds n/d.
    """

    noise: Fraction  # μ/h

    @property
    def tally_size(self) -> int:
        return self.task.domain

    def simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        return held.counts + poisson(source, self.noise * held.users, len(held.counts))

    def unbiased(self, tally: Tally, source: Source | None = None) -> Answer:
        return with_known_total(tally.counts, tally.users)

    def shifts(self, users: int, alphabet: Alphabet) -> Shifts:
        return known_total_shifts(self.task.domain)

    def standard_error(self, users: int, held: Holding | None) -> float:
        return self.error_law(users, None).standard_error

    def error_law(self, users: int, unbiased: Answer) -> KnownTotalError:
        return KnownTotalError(self.task.domain, PoissonError(self.noise * users))


# Calibration and privacy ----------------------------------------------------------------------


def noise_curve(noise: Fraction) -> PrivacyCurve:
    """The privacy curve if every bucket has Poisson noise with this mean."""
    return moved_curve(laws.poisson(noise), pairs=1)


@lru_cache(maxsize=256)
def least_noise(budget: Budget, calibration: Calibration) -> Fraction | None:
    """The least mean μ whose exact δ is within the budget, or the paper's mean μ.

    The result is None if δ exceeds the budget for the paper's μ, or for every allowed μ.
    """
    allowed = budget.delta * (1 - RESERVED)

    def delta_at(noise: int) -> float:
        return noise_curve(Fraction(noise, GRAIN)).delta(budget.epsilon)

    if calibration == "paper":
        noise = math.ceil(32 / budget.epsilon**2 * math.log(2 / budget.delta) * GRAIN)
        within = noise <= MOST_NOISE * GRAIN and delta_at(noise) <= allowed
        return Fraction(noise, GRAIN) if within else None
    # A larger μ is more private, because it adds independent Poisson noise.
    least = least_private(delta_at, allowed, start=1, stop=MOST_NOISE * GRAIN, steps=1)
    return None if least is None else Fraction(least, GRAIN)


@lru_cache(maxsize=1024)
def least_joint_noise(budget: Budget, pairs: int) -> Fraction | None:
    """A mean μ, nearly the least, whose δ is within the budget if a person changes this many pairs
    of cells at once; None if there is none.
    """
    if pairs == 1:
        return least_noise(budget, "exact")
    fewer = least_joint_noise(budget, pairs - 1)
    if fewer is None:
        return None

    def delta_at(noise: int) -> float:
        return moved_curve(laws.poisson(Fraction(noise, GRAIN)), pairs).delta(budget.epsilon)

    # More pairs need more noise, and more noise is more private. So the search begins at the noise
    # for one pair fewer.
    allowed, start = budget.delta * (1 - RESERVED), int(fewer * GRAIN)
    noise = near_least_private(delta_at, allowed, start=start, stop=MOST_NOISE * GRAIN)
    return None if noise is None else Fraction(noise, GRAIN)


def joint_noise(protocol: Protocol, pairs: int, cells: int) -> Fraction:
    """The expected number μ of noise messages per cell, if a person changes this many pairs of
    cells at once.
    """
    return noise_per_cell(protocol, cells, lambda budget: least_joint_noise(budget, pairs))


def noise_per_cell(
    protocol: Protocol, cells: int, least: Callable[[Budget], Fraction | None]
) -> Fraction:
    """The expected number μ of noise messages per cell, where `least` returns the least μ for a
    budget, or None if no μ is enough.

    A budget that cannot be met is refused, and so is a crowd in which each person would send too
    many messages.
    """
    name, budget, honest = protocol.name, protocol.budget, protocol.crowd.honest
    setting = f"epsilon={short(budget.epsilon)}, delta={short(budget.delta)}"
    if budget.delta == 0:
        raise Infeasible(
            f"{name} needs delta above 0: it may happen that nobody sends noise",
            nearest={"delta": 1e-9},
        )
    noise = least(budget)
    if noise is None:
        raise Infeasible(f"{name} needs more than {MOST_NOISE} messages per cell for {setting}")
    if cells * noise > _MOST_MESSAGES * honest:
        raise Infeasible(
            f"{name} needs {short(float(cells * noise / honest), 3)} messages per person for "
            f"{setting} with {honest} honest people, but at most {_MOST_MESSAGES:.0f} are allowed",
            nearest={"honest": math.ceil(cells * noise / int(_MOST_MESSAGES))},
        )
    return noise


@dataclass(frozen=True)
class FakeUsers(Protocol):
    name = "shuffle.fake-users"
    trust = Trust.SHUFFLE
    tasks = (Histogram,)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_curve(self)

    @cached_property
    def noise(self) -> Fraction:
        """The expected number μ of noise messages per bucket."""
        setting = f"epsilon={short(self.budget.epsilon)}, delta={short(self.budget.delta)}"
        if self.budget.delta == 0:
            raise Infeasible(
                f"{self.name} needs delta above 0: it may happen that nobody sends noise",
                nearest={"delta": 1e-9},
            )
        noise = least_noise(self.budget, self.calibration)
        if noise is None:
            raise Infeasible(
                f"the paper's noise for {self.name} does not keep {setting}; the exact noise does"
                if self.calibration == "paper"
                else f"{self.name} needs more than {MOST_NOISE} messages per bucket for {setting}"
            )
        noise_messages = self._cells_for(self.crowd.users) * noise
        if noise_messages > _MOST_MESSAGES * self.crowd.honest:
            raise Infeasible(
                f"{self.name} needs {short(float(noise_messages / self.crowd.honest), 3)} messages "
                f"per person for {setting} with {self.crowd.honest} honest people, but at most "
                f"{_MOST_MESSAGES:.0f} are allowed",
                nearest={"honest": self._enough(noise)},
            )
        return noise

    def _enough(self, noise: Fraction) -> int:
        """A number of honest people with which each person sends few enough messages."""
        people, needed = 0, 1
        while people < needed:
            people = needed
            cells = self._cells_for(max(people, self.crowd.users))
            needed = math.ceil(cells * noise / int(_MOST_MESSAGES))
        return people

    def _cells_for(self, users: int) -> int:
        """The number of cells from which noise messages are drawn, for this many people."""
        return self.task.domain

    @cached_property
    def randomizer(self) -> PoissonRandomizer:
        return BucketRandomizer(self.task.domain, self.noise / self.crowd.honest)

    @cached_property
    def estimator(self) -> Estimator:
        return NoisyBuckets(self.task, self.noise / self.crowd.honest)

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"noise_per_bucket": float(self.noise)}

    @cached_property
    def curve(self) -> PrivacyCurve:
        variation = self.crowd.honest * self.randomizer.share.total_variation
        return NearCurve(noise_curve(self.noise), variation)

    @cached_property
    def guarantee(self) -> Guarantee:
        exact = self.calibration == "exact"
        return promise(
            self,
            "law of two buckets" if exact else "Luo, Wang and Yi 2022",
            delta=self.curve.delta(self.budget.epsilon) if exact else self.budget.delta,
            exact=exact,
        )

    @property
    def local_epsilon(self) -> float:
        return math.inf
