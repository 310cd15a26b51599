"""A density from bins that a frequency oracle counts (Duchi, Jordan, Wainwright 2018, section 5).

Notation    See `protocols.density_histogram`; x a person's bin.
Randomizer  That of subset selection, the oracle with the least error for any number of bins, or of
            another one. Paper: add two-sided geometric noise of rate ε/2, which is Laplace noise on
            whole numbers, to each of the K numbers of the one-hot vector of x; K is
            (nε²)^{1/(2β+2)}, rounded.
Analyzer    The oracle's counts; the paper's are the sums of all vectors. Then the polynomials of
            `protocols.density_histogram`.
Privacy     Pure, that of the oracle. Paper: whoever moves to another bin moves two numbers by one
            each, and ε' ≤ ε is twice that of one number (see `local.laplace-mean`).
Error       V is near 4ne^ε/(e^ε−1)², less for few bins. Paper: near 8n/ε², twice that if ε is
            small. The integrated squared error falls like (nε²)^{−2β/(2β+2)}, which is the best
            order that a local protocol can have.
Messages    1 of the oracle; of the paper K whole numbers.
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
from headcount.core.guarantee import Guarantee, NearCurve
from headcount.core.messages import Alphabet, Messages
from headcount.core.old_form import OldForm
from headcount.core.protocol import Protocol
from headcount.core.randomizer import MOST_BUNDLES, BundleLaw
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Histogram, Holding, Sum
from headcount.protocols.density_histogram import MOST_BINS, DensityHistogram
from headcount.protocols.registry import protocol
from headcount.randomness.table import FINE

_CHUNK = 1 << 20  # numbers that are drawn at a time


@dataclass(frozen=True)
class LaplaceBins(OldForm):
    """The paper's oracle: noise on every number of the one-hot vector, as if each were a sum."""

    name = "local.density-histogram"
    trust = Trust.LOCAL
    tasks = (Histogram,)
    fixed_messages = 1

    @cached_property
    def _number(self) -> Protocol:
        """What is done to one number, 0 or 1, for half of ε."""
        half = Budget(self.budget.epsilon / 2)
        bit = Sum(0, 1, whole=True)
        return protocol("local.laplace-mean", bit, half, self.crowd, levels=1)

    @property
    def _sent(self) -> range:
        """What is sent for one number."""
        return self._number.alphabet.columns[0]

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet(self._number.alphabet.dtype.type, *[self._sent] * self.task.domain)

    @property
    def tally_size(self) -> int:
        return self.task.domain

    @property
    def most_users(self) -> int:
        return self._number.most_users

    @property
    def parameters(self) -> Mapping[str, float]:
        return {key: self._number.parameters[key] for key in ("rate", "reach")}

    @property
    def guarantee(self) -> Guarantee:
        return self._promise_alone()

    @property
    def local_epsilon(self) -> float:
        return 2 * self._number.local_epsilon

    @cached_property
    def curve(self) -> SymmetricCurve:
        # Two numbers move; rounding moves at most this of the law of each.
        exact = MovedCurve(*moved_laws(self.parameters["rate"], 1))
        near = NearCurve(exact, 2 * len(self._sent) / FINE)
        return SymmetricCurve(near.delta, self.local_epsilon, steps=2)

    def law(self, value: int) -> BundleLaw | None:
        if len(self._sent) ** self.task.domain > MOST_BUNDLES:
            return None
        laws = [self._number.law(int(bucket == value)) for bucket in range(self.task.domain)]
        out: dict[Any, Fraction] = {}
        for row in product(*(law.items() for law in laws if law is not None)):
            message = tuple(bundle[0][0] for bundle, _ in row)
            out[((message, 1),)] = prod((chance for _, chance in row), start=Fraction(1))
        return out

    def _standard_error(self, users: int, held: Holding | None) -> float:
        return self._number._standard_error(users, None)

    def _error_law(self, users: int, value: Answer) -> ErrorLaw:
        return self._number._error_law(users, 0.0)

    def _randomize(self, encoded: NDArray[Any], source: Source) -> Messages:
        buckets = self.task.domain
        rows = np.empty((len(encoded), buckets), dtype=self.alphabet.dtype)
        people = max(1, _CHUNK // buckets)
        for start in range(0, len(encoded), people):
            own = encoded[start : start + people, None] == np.arange(buckets)
            noisy = self._number._randomize(own.ravel().astype(np.int64), source).payload
            rows[start : start + people] = noisy.reshape(own.shape)
        return Messages.one_each(rows)

    def _tally(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        sums: NDArray[np.int64] = payload.sum(axis=0, dtype=np.int64)
        return sums

    def _unbiased(self, tally: Tally, source: Source | None) -> Answer:
        # The number that stands for 0 is `reach`.
        return (tally.counts - tally.users * int(self.parameters["reach"])).astype(np.float64)

    def _simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        bits = np.arange(2)
        return np.concatenate(
            [
                self._number._simulate(Holding(bits, np.array([held.users - count, count])), source)
                for count in held.counts.tolist()
            ]
        )


@dataclass(frozen=True)
class LocalDensityHistogram(DensityHistogram):
    name = "local.density-histogram"
    trust = Trust.LOCAL

    histogram: str | None = None  # a local protocol that counts; by default local.subset

    def __post_init__(self) -> None:
        if self.histogram is not None:
            self._check_histogram(self.histogram)
            if self.calibration == "paper":
                raise InvalidParameter(
                    f"`histogram` must be left out for the paper's calibration, "
                    f"got {self.histogram!r}"
                )
        super().__post_init__()

    @cached_property
    def _bins(self) -> int:
        if self.bins is None and self.calibration == "paper":
            power = 1 / (2 * self.task.smoothness + 2)
            near: float = (self.crowd.users * self.budget.epsilon**2) ** power
            return min(max(round(near), 2), MOST_BINS)
        return super()._bins

    def _histogram(self, bins: int) -> Protocol:
        if self.calibration == "paper":
            return LaplaceBins(Histogram(bins), self.budget, self.crowd)
        return protocol(self.histogram or "local.subset", Histogram(bins), self.budget, self.crowd)
