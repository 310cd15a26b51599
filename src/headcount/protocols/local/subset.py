"""Subset selection (Wang, Huang, Wang, Nie, Xu, Yang, Li, Qiao 2016; Ye, Barg 2018).

Notation    x ∈ {0, …, d−1} is a person's bucket, w is the size of the subsets, and p is the
            probability that a report contains x.
Randomizer  Report a set of w buckets. With probability p = 1 − t/2^64 it is a uniform set that
            contains x, and otherwise a uniform set that does not. t is the smallest integer with
            p(d−w)/((1−p)w) ≤ e^ε, so p is near e^ε w/(e^ε w + d − w).
Sampler     If there are few buckets, choose from a list of all sets. Otherwise draw a random bit
            for each bucket, and draw all bits again if w or more are ones. The ones are a set of
            buckets. Add x to the set, then add uniform buckets until the set has w buckets. If the
            report must not contain x, add one more bucket, then remove x. All buckets except x are
            treated in the same way, so all sets with x are equally likely, and so are all sets
            without x.
Analyzer    A report supports the buckets in it (see `frequency_oracle`).
Privacy     Pure: all sets that contain x are equally likely, and so are all others. So
            ε' = ln(p(d−w)/((1−p)w)) ≤ ε.
Error       The error of `frequency_oracle` with q = (p(w−1) + (1−p)w)/(d−1). w is the integer near
            d/(e^ε+1) that minimizes the variance of a rare bucket. No oracle has a smaller variance
            if all buckets are rare.
Messages    1 message of d bits.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core.cached import cached_property
from headcount.core.errors import InvalidValue
from headcount.core.messages import Alphabet, Messages
from headcount.core.randomizer import MOST_BUNDLES, BundleLaw, Randomizer
from headcount.core.source import Source
from headcount.protocols import packed_bits
from headcount.protocols.frequency_oracle import (
    MOST_DRAWS,
    FrequencyOracle,
    Support,
    SupportEstimator,
    SupportSets,
)
from headcount.protocols.responses import share_weight
from headcount.randomness.draws import WHOLE, bernoulli, packed_bernoulli, uniform

_LISTED = 20  # with at most this many buckets, all sets are listed
_BYTES = 1 << 21  # the number of bytes of the sets that are made at a time
# The bits that are drawn first are ones with a probability of fewer than this many binary digits.
_DIGITS = 12
# The times to draw one more row of bits and to add one more bucket, in multiples of the time to
# draw one random byte.
_ROW, _STEP = 25, 25


# Randomizer -----------------------------------------------------------------------------------


@lru_cache(maxsize=32)
def every_set(buckets: int, size: int) -> NDArray[np.uint32]:
    """All sets of this size, as numbers. Bit x of a number is set if bucket x is in the set."""
    every = combinations(range(buckets), size)
    return np.array([sum(1 << x for x in members) for members in every], dtype=np.uint32)


def _rows(people: int, few: float) -> int:
    """How many rows of bits are drawn for this many people, if a row has fewer than w ones with
    probability `few`.
    """
    return math.ceil(people / few + 4 * math.sqrt(people) / few) + 1


@dataclass(frozen=True)
class SubsetRandomizer(Randomizer):
    """Sends a uniform set of w buckets. It contains x, except with probability t/2^64."""

    buckets: int
    size: int  # w
    weight: int  # t

    fixed_messages = 1

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet.packed(self.buckets)

    @property
    def instructions(self) -> Mapping[str, Any]:
        return {
            "kind": "subset",
            "buckets": self.buckets,
            "size": self.size,
            "weight": str(self.weight),
            # With many buckets, a set begins as a row of random bits. `first` is the weight of a 1.
            # A device draws this many `rows` at a time, until a row has fewer than w ones.
            "first": None if self.buckets <= _LISTED else str(self._first[0]),
            "rows": None if self.buckets <= _LISTED else _rows(1, self._first[1]),
        }

    def send(self, encoded: NDArray[Any], source: Source) -> Messages:
        buckets, people = self.buckets, len(encoded)
        lies = bernoulli(source, people, self.weight)
        width = packed_bits.row_bytes(buckets)
        if buckets <= _LISTED:
            sets = self._listed(encoded, lies, source)
            rows = sets.astype("<u4").view(np.uint8).reshape(people, 4)[:, :width].copy()
            return Messages.one_each(packed_bits.as_payload(rows))
        rows = np.empty((people, width), dtype=np.uint8)
        some = max(1, _BYTES // width)
        for start in range(0, people, some):
            piece = slice(start, start + some)
            rows[piece] = self._small_sets(len(lies[piece]), source)
            self._put_in(rows[piece], encoded[piece], lies[piece], source)
        packed_bits.put(rows, encoded, 1 - lies)
        return Messages.one_each(packed_bits.as_payload(rows))

    def law(self, value: int) -> BundleLaw | None:
        buckets, size = self.buckets, self.size
        if math.comb(buckets, size) > MOST_BUNDLES:
            return None
        truth = 1 - Fraction(self.weight, WHOLE)
        with_it, without = math.comb(buckets - 1, size - 1), math.comb(buckets - 1, size)
        out: dict[Any, Fraction] = {}
        for members in combinations(range(buckets), size):
            bits = np.isin(np.arange(buckets), members)
            chance = truth / with_it if value in members else (1 - truth) / without
            out[((packed_bits.message(bits), 1),)] = chance
        return out

    def _listed(
        self, own: NDArray[Any], lies: NDArray[np.uint8], source: Source
    ) -> NDArray[np.uint32]:
        """Sets as numbers (see `every_set`), chosen from a list of all sets."""
        out = np.empty(len(own), dtype=np.uint32)
        for lie in (0, 1):
            people = np.flatnonzero(lies == lie)
            numbers = every_set(self.buckets - 1, self.size - 1 + lie)
            drawn = numbers[uniform(source, len(people), len(numbers), np.uint32)]
            # The sets `drawn` leave out the owner's bucket and number the others without a gap. So
            # a bit for the owner's bucket is inserted.
            place = own[people].astype(np.uint32)
            below = (np.uint32(1) << place) - np.uint32(1)
            drawn += drawn & ~below
            out[people] = drawn if lie else drawn | (below + np.uint32(1))
        return out

    @cached_property
    def _first(self) -> tuple[int, float]:
        """The weight of the bits that are drawn first, and the probability of fewer than w ones.

        A bit is 1 with probability weight/2^64. Sets have the right law for every weight. The
        chosen weight minimizes the time to draw the bits and to add the missing buckets.
        """
        buckets, size = self.buckets, self.size
        spread = math.sqrt(size * (1 - size / buckets))
        choices = []
        for digits in range(_DIGITS):
            weight = (size << digits) // buckets
            missing = size - 0.5 - buckets * weight / 2**digits
            few = 0.5 * math.erfc(-missing / spread / math.sqrt(2))
            density = math.exp(-0.5 * (missing / spread) ** 2) / math.sqrt(2 * math.pi)
            steps = (missing + spread * density / few) / (1 - size / buckets)
            time = (_ROW + digits * buckets / 8) / few + steps * _STEP
            choices.append((time, weight << (64 - digits), few))
        return min(choices)[1:]

    def _small_sets(self, people: int, source: Source) -> NDArray[np.uint8]:
        """Random sets with fewer than w buckets."""
        weight, few = self._first
        width = packed_bits.row_bytes(self.buckets)
        kept, left = [], people
        while left > 0:
            count = _rows(left, few)
            rows = packed_bernoulli(source, count * width, weight).reshape(count, width)
            rows = packed_bits.cleared(rows, self.buckets)
            small = np.flatnonzero(packed_bits.row_sums(rows) < self.size)[:left]
            kept.append(rows.take(small, axis=0))
            left -= len(small)
        return kept[0] if len(kept) == 1 else np.concatenate(kept)

    def _put_in(
        self, rows: NDArray[np.uint8], own: NDArray[Any], lies: NDArray[np.uint8], source: Source
    ) -> None:
        """Add each person's own bucket, and uniform others until the set has w buckets.

        The sets of people who lie get w + 1 buckets, because `send` removes their own bucket
        again. Adding a bucket that is already in the set changes nothing.
        """
        packed_bits.put(rows, own, np.ones(len(rows), dtype=np.uint8))
        missing = lies + (self.size - packed_bits.row_sums(rows))
        buckets, width, flat = self.buckets, rows.shape[1], rows.reshape(-1)
        dtype = np.min_scalar_type(buckets - 1).type  # large enough for `missing` too
        going = np.flatnonzero(missing != 0)
        first, left = going * width, missing[going].astype(dtype)
        while len(first):
            added = uniform(source, len(first), buckets, dtype)
            at = first + (added >> 3)
            place = (added & 7).astype(np.uint8)
            before = flat.take(at)
            after = before | ((left != 0).view(np.uint8) << place)
            flat[at] = after
            left -= after != before
            if np.count_nonzero(left) < 0.75 * len(first):
                going = np.flatnonzero(left != 0)
                first, left = first[going], left[going]


# Analyzer -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SubsetEstimator(SupportEstimator):
    """Counts the sets that contain each bucket."""

    size: int  # w

    def count(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        rows = packed_bits.as_rows(payload, self.task.domain)
        sizes = packed_bits.row_sums(rows)
        if (sizes != self.size).any():
            raise InvalidValue(
                f"messages of local.subset must be sets of {self.size} buckets, "
                f"got sets of {sizes.min()} to {sizes.max()} buckets"
            )
        return packed_bits.column_sums(rows, self.task.domain)

    @property
    def supported(self) -> tuple[int, int]:
        return self.size, self.size

    @cached_property
    def supports(self) -> SupportSets | None:
        buckets, size = self.task.domain, self.size
        if buckets * math.comb(buckets, size) > MOST_DRAWS:
            return None  # then simulations ignore that buckets have correlations of about −1/(d−1)
        sets = combinations(range(buckets), size)
        return SupportSets.of(np.array([np.isin(np.arange(buckets), some) for some in sets]))


# Calibration ----------------------------------------------------------------------------------


def best_size(buckets: int, epsilon: float) -> int:
    """The integer w that minimizes the variance q(1−q)/(p−q)² of a rare bucket."""

    def variance(size: int) -> float:
        # The weights are multiplied by e^−ε to avoid overflow.
        weight, rest = size, (buckets - size) * math.exp(-epsilon)
        own, lie = weight / (weight + rest), rest / (weight + rest)
        other = (own * (size - 1) + lie * size) / (buckets - 1)
        # p − q = (p(d−w) − (1−p)w)/(d−1)
        slope = (own * (buckets - size) - lie * size) / (buckets - 1)
        return other * (1 - other) / slope**2

    near = buckets / (math.exp(min(epsilon, 700.0)) + 1)
    sizes = range(max(1, math.floor(near) - 1), min(buckets - 1, math.ceil(near) + 1) + 1)
    return min(sizes, key=variance)


@dataclass(frozen=True)
class Subset(FrequencyOracle):
    name = "local.subset"

    @cached_property
    def size(self) -> int:
        """The size w of the sets."""
        return best_size(self.task.domain, self.budget.epsilon)

    @cached_property
    def weight(self) -> int:
        """The weight t of a lie, which has probability t/2^64."""
        others = self.task.domain - self.size
        return share_weight(others, self.size, others, self.budget.epsilon)

    @cached_property
    def support(self) -> Support:
        buckets, size = self.task.domain, self.size
        lie = Fraction(self.weight, WHOLE)
        # A pair for a set with the owner's bucket, and a pair for a set without it. Each pair has
        # the probability of such a set, and the number of other buckets in the set.
        sets = ((1 - lie, size - 1), (lie, size))
        others = max(1, buckets - 2)
        return Support(
            own=1 - lie,
            other=sum((c * Fraction(some, buckets - 1) for c, some in sets), Fraction(0)),
            own_and_other=(1 - lie) * Fraction(size - 1, buckets - 1),
            two_others=sum(
                (c * Fraction(some * (some - 1), (buckets - 1) * others) for c, some in sets),
                Fraction(0),
            ),
        )

    @cached_property
    def randomizer(self) -> SubsetRandomizer:
        return SubsetRandomizer(self.task.domain, self.size, self.weight)

    @cached_property
    def estimator(self) -> SubsetEstimator:
        return SubsetEstimator(self.task, self.support, self.size)

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"size": self.size, "p": float(self.support.own), "q": float(self.support.other)}
