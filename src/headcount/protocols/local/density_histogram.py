"""A density from bins that a frequency oracle counts (Duchi, Jordan, Wainwright 2018, section 5).

Notation    See `protocols.density_histogram`. x is a person's bin.
Randomizer  The randomizer of a frequency oracle. The default is subset selection, which has the
            smallest error for any number of bins. The paper's randomizer instead adds two-sided
            geometric noise of rate ε/2, which is Laplace noise on integers, to each of the K
            numbers of the one-hot vector of x. There, K is (nε²)^{1/(2β+2)}, rounded.
Analyzer    Take the counts of the oracle, or the sums of the paper's vectors over all people. Apply
            the polynomials of `protocols.density_histogram` to them.
Privacy     The privacy of the oracle, which is pure. With the paper's randomizer, a person who
            moves to another bin changes two numbers by one each. So the privacy loss ε' ≤ ε is
            twice that of one number (see `local.laplace-mean`).
Error       V is near 4ne^ε/(e^ε−1)². It is smaller for few bins. With the paper's randomizer, V is
            near 8n/ε², which is twice as large if ε is small. The integrated squared error falls
            like (nε²)^{−2β/(2β+2)}, which is the best rate of any local protocol.
Messages    1 message of the oracle. The paper's randomizer sends 1 message of K integers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.buckets import MovedCurve
from headcount.accounting.divergence import SymmetricCurve
from headcount.accounting.geometric import moved_laws
from headcount.core.budget import Budget, Trust
from headcount.core.cached import cached_property
from headcount.core.errors import InvalidParameter
from headcount.core.estimate import Answer, ErrorLaw
from headcount.core.estimator import Estimator
from headcount.core.guarantee import Guarantee, NearCurve
from headcount.core.influence import Shifts
from headcount.core.messages import Alphabet, Messages
from headcount.core.promise import promise_alone
from headcount.core.protocol import Protocol
from headcount.core.randomizer import MOST_BUNDLES, BundleLaw, Randomizer
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Holding
from headcount.core.tasks.bounded import Sum
from headcount.core.tasks.histogram import Histogram
from headcount.protocols.density_histogram import (
    MOST_BINS,
    DensityHistogram,
    check_histogram,
)
from headcount.protocols.registry import protocol
from headcount.randomness.table import FINE

_CHUNK = 1 << 20  # the number of noisy numbers that are drawn at a time


# Randomizer of the paper ----------------------------------------------------------------------


@dataclass(frozen=True)
class NoisyVectors(Randomizer):
    """Sends the one-hot vector of x with noise on each of its numbers."""

    buckets: int
    number: Randomizer  # adds noise to one number, 0 or 1

    fixed_messages = 1

    @property
    def sent(self) -> range:
        """The values that may be sent for one number."""
        return self.number.alphabet.columns[0]

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet(self.number.alphabet.dtype.type, *[self.sent] * self.buckets)

    def send(self, encoded: NDArray[Any], source: Source) -> Messages:
        rows = np.empty((len(encoded), self.buckets), dtype=self.alphabet.dtype)
        people = max(1, _CHUNK // self.buckets)
        for start in range(0, len(encoded), people):
            own = encoded[start : start + people, None] == np.arange(self.buckets)
            noisy = self.number.send(own.ravel().astype(np.int64), source).payload
            rows[start : start + people] = noisy.reshape(own.shape)
        return Messages.one_each(rows)

    def law(self, value: int) -> BundleLaw | None:
        if len(self.sent) ** self.buckets > MOST_BUNDLES:
            return None
        laws = [self.number.law(int(bucket == value)) for bucket in range(self.buckets)]
        out: dict[Any, Fraction] = {}
        for row in product(*(law.items() for law in laws if law is not None)):
            message = tuple(bundle[0][0] for bundle, _ in row)
            out[((message, 1),)] = prod((chance for _, chance in row), start=Fraction(1))
        return out


# Analyzer of the paper ------------------------------------------------------------------------


@dataclass(frozen=True)
class VectorSums(Estimator):
    """Adds up all vectors."""

    number: Estimator  # estimates the sum of one number over all people
    reach: int  # the message for the number 0 without noise

    @property
    def tally_size(self) -> int:
        return self.task.domain

    @property
    def most_users(self) -> int:
        return self.number.most_users

    def count(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        sums: NDArray[np.int64] = payload.sum(axis=0, dtype=np.int64)
        return sums

    def simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        bits, number = np.arange(2), self.number
        return np.concatenate(
            [
                number.simulate(Holding(bits, np.array([held.users - count, count])), source)
                for count in held.counts.tolist()
            ]
        )

    def unbiased(self, tally: Tally, source: Source | None = None) -> Answer:
        return (tally.counts - tally.users * self.reach).astype(np.float64)

    def shifts(self, users: int, alphabet: Alphabet) -> Shifts:
        # Each number of a message is from −C to 1 + C, where C is `reach`. One message may have the
        # largest noise in all of its numbers.
        buckets, noise = self.task.domain, float(self.reach)
        return Shifts(1 + noise, -noise, places=(0, buckets), everywhere=True)

    def standard_error(self, users: int, held: Holding | None) -> float:
        return self.number.standard_error(users, None)

    def error_law(self, users: int, unbiased: Answer) -> ErrorLaw:
        return self.number.error_law(users, 0.0)


# Calibration and privacy ----------------------------------------------------------------------


@dataclass(frozen=True)
class LaplaceBins(Protocol):
    """The paper's protocol for the counts of all bins: each person sends a noisy one-hot vector."""

    name = "local.density-histogram"
    trust = Trust.LOCAL
    tasks = (Histogram,)

    @cached_property
    def number(self) -> Protocol:
        """The protocol that adds noise to one number, 0 or 1, and spends half of ε."""
        half = Budget(self.budget.epsilon / 2)
        bit = Sum(0, 1, whole=True)
        return protocol("local.laplace-mean", bit, half, self.crowd, levels=1)

    @cached_property
    def randomizer(self) -> NoisyVectors:
        return NoisyVectors(self.task.domain, self.number.randomizer)

    @cached_property
    def estimator(self) -> VectorSums:
        reach = int(self.number.parameters["reach"])
        return VectorSums(self.task, self.number.estimator, reach)

    @property
    def parameters(self) -> Mapping[str, float]:
        return {key: self.number.parameters[key] for key in ("rate", "reach")}

    @cached_property
    def curve(self) -> SymmetricCurve:
        # If a person moves to another bin, two numbers change. Rounded probabilities change the law
        # of each number by a small total variation.
        exact = MovedCurve.of(*moved_laws(self.parameters["rate"], 1))
        near = NearCurve(exact, 2 * len(self.randomizer.sent) / FINE)
        return SymmetricCurve(near.delta, self.local_epsilon, steps=2)

    @property
    def guarantee(self) -> Guarantee:
        return promise_alone(self)

    @property
    def local_epsilon(self) -> float:
        return 2 * self.number.local_epsilon


@dataclass(frozen=True)
class LocalDensityHistogram(DensityHistogram):
    name = "local.density-histogram"
    trust = Trust.LOCAL

    histogram: str | None = None  # the local protocol that counts bins; by default local.subset

    def check_options(self) -> None:
        if self.histogram is not None:
            check_histogram(self.histogram, self.trust)
            if self.calibration == "paper":
                raise InvalidParameter(
                    f"`histogram` must be left out for the paper's calibration, "
                    f"got {self.histogram!r}"
                )
        super().check_options()

    def best_bins(self) -> int:
        if self.calibration == "paper":
            power = 1 / (2 * self.task.smoothness + 2)
            near: float = (self.crowd.users * self.budget.epsilon**2) ** power
            return min(max(round(near), 2), MOST_BINS)
        return super().best_bins()

    def counting(self, bins: int) -> Protocol:
        if self.calibration == "paper":
            return LaplaceBins(Histogram(bins), self.budget, self.crowd)
        return protocol(self.histogram or "local.subset", Histogram(bins), self.budget, self.crowd)
