"""Local hashing (Wang, Blocki, Li, Jha 2017; for two hash values, Bassily, Smith 2015).

Notation    x ∈ {0, …, d−1} is a person's bucket, and d ≤ 2^m. H(x) = ⌊vg/2^l⌋ is its hash, which is
            one of the g values 0, …, g−1. Here v has l bits and is the linear hash Mx + b (see
            `linear_hashes`), with one exception: if g is odd and the first bit is 1, the second bit
            is flipped. If g is a power of two, g = 2^l and H(x) = v. For other g, l is so large
            that the g intervals of numbers v with the same hash are nearly equally long.
Guards      The first row of M is a guard, which is a row that is never 0. If g is odd, the second
            row is a guard too. So no H gives all buckets the same hash. Proof: the bit of a guard
            is 0 for some buckets and 1 for others. The first bit of v tells whether v is in the
            lower or in the upper half. If g is even, no interval reaches into both halves. If g is
            odd, only the middle interval does. In the middle interval, the first two bits of v are
            01 or 10, so the second bit of Mx + b is 1. But the second guard makes this bit 0 for
            some buckets.
Randomizer  Draw a hash H. Report H, and report H(x) by k-ary randomized response among g values:
            the truth with probability p, and each other value with probability t/2^64.
Analyzer    A report (H, y) supports the buckets with H(x) = y (see `frequency_oracle`). For each
            report, all buckets are hashed to find those that it supports. If there are many
            buckets, one fast transform counts the reports instead. For all vectors u of l
            bits, let c_u be the coefficients with 1[⌊vg/2^l⌋ = y] = 2^−l Σ_u c_u (−1)^⟨u, Mx + b⟩.
            Then the number of reports that support x is 2^−l Σ_u Σ_reports c_u (−1)^⟨u, b⟩
            (−1)^⟨uM, x⟩.
Privacy     Pure: for every hash H, the report of H(x) has the privacy of k-ary response among g
            values.
Error       κ is the probability that two given buckets have the same hash, and κ' is the
            probability that three given buckets have the same hash. Both are computed exactly, and
            are a little smaller than without guards. In the notation of `frequency_oracle`, q is
            κp + (1−κ)t/2^64, and r and s also follow from κ and κ'. For many buckets, κ is near
            1/g, and the variance per person for a rare bucket is near (e^ε+g−1)²/((g−1)(e^ε−1)²).
            By default, g is the integer near e^ε + 1 that minimizes this variance.
Messages    1 message, which consists of l(m+1) bits for the hash and of one of g values.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.cached import cached_property
from headcount.core.messages import Alphabet, Messages
from headcount.core.randomizer import MOST_BUNDLES, BundleLaw, Randomizer
from headcount.core.source import Source
from headcount.protocols.frequency_oracle import (
    FrequencyOracle,
    Support,
    SupportEstimator,
    SupportSets,
    check_told_apart,
)
from headcount.protocols.linear_hashes import guard_pair, guard_triple, parity, walsh
from headcount.protocols.responses import lie_weight, respond
from headcount.randomness.draws import WHOLE, uniform

MOST_VALUES = 2**16
_EVEN = 4  # the number of additional bits of v that make the intervals nearly equally long
_CELLS = 1 << 19  # the number of hashes of buckets that are computed, or listed, at a time
_LOG_BLOCK = 13  # the hashes of 2^_LOG_BLOCK buckets are kept at a time
_COEFFICIENTS = 1 << 24  # the largest number of coefficients that are kept
_REPORTS = 1 << 16  # the number of reports that are transformed at a time
_TRANSFORM = 32  # one term of the transform takes as long as this many hashes
_HASH = 3e-9  # the seconds that one core takes for one hash


@dataclass(frozen=True)
class Hashes:
    """The hashes that map buckets to g values. No H gives all buckets the same hash."""

    buckets: int
    values: int  # g

    @property
    def bits(self) -> int:
        """The number l of bits of a linear hash."""
        enough = (self.values - 1).bit_length()
        return enough if self.values == 1 << enough else enough + _EVEN

    @property
    def log_size(self) -> int:
        """The number m of bits of a bucket."""
        return (self.buckets - 1).bit_length()

    @property
    def guards(self) -> int:
        """The number of guards among the rows of M.

        The words of guards come last, because the last words give the first bits of v.
        """
        return 1 + self.values % 2

    @property
    def words(self) -> list[range]:
        """The possible words of each row (see `linear_hashes`). The row of a guard is not 0."""
        every = 2 << self.log_size
        return [range(every)] * (self.bits - self.guards) + [range(2, every)] * self.guards

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """The start of each interval, and the end of the last one."""
        values = np.arange(self.values + 1)
        return -(-(values << self.bits) // self.values)

    def places(self, linear: NDArray[Any]) -> NDArray[Any]:
        """The number v for each linear hash Mx + b."""
        if self.guards == 1:
            return linear
        first = linear >> linear.dtype.type(self.bits - 1)
        places: NDArray[Any] = linear ^ (first << linear.dtype.type(self.bits - 2))
        return places

    @cached_property
    def collisions(self) -> tuple[Fraction, Fraction]:
        """The probability κ that two buckets have the same hash, and κ' for three buckets."""
        guards, free = self.guards, self.bits - self.guards
        linear = np.arange(1 << self.bits)
        cells = (self.places(linear) * self.values >> self.bits) << guards | linear >> free
        sizes = np.bincount(cells, minlength=self.values << guards).reshape(self.values, -1)
        pairs = np.einsum("ya,yb->ab", sizes, sizes)
        triples = np.einsum("ya,yb,yc->abc", sizes, sizes, sizes)
        two, three = guard_pair(self.log_size), guard_triple(self.log_size)
        same_two = same_three = Fraction(0)
        for (one, other), ways in np.ndenumerate(pairs):
            bits = [(one ^ other) >> i & 1 for i in range(guards)]
            same_two += int(ways) * math.prod((two[bit] for bit in bits), start=Fraction(1))
        for (one, other, third), ways in np.ndenumerate(triples):
            differ = [(one ^ other | one ^ third) >> i & 1 for i in range(guards)]
            same_three += int(ways) * math.prod((three[bit] for bit in differ), start=Fraction(1))
        # The linear hash of the first bucket is any of 2^l numbers. In the linear hashes of the
        # other buckets, only the bits below those of the guards are free.
        rest = 1 << free
        return same_two / (rest << self.bits), same_three / (rest * rest << self.bits)

    def of(self, words: NDArray[Any], buckets: NDArray[Any]) -> NDArray[np.int64]:
        """The hash H(x) of each person's bucket. Each person has their own H."""
        asked = buckets.astype(words.dtype) << words.dtype.type(1) | words.dtype.type(1)
        hashed = np.zeros(len(buckets), dtype=np.min_scalar_type(self.values << self.bits))
        for place in range(self.bits):
            hashed |= parity(words[:, place] & asked).astype(hashed.dtype) << place
        return (self.places(hashed) * self.values) >> self.bits


# Randomizer -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class HashingRandomizer(Randomizer):
    """Sends a random hash H, and H(x) by randomized response. Each lie has probability t/2^64."""

    hashes: Hashes
    weight: int  # t

    fixed_messages = 1

    @property
    def alphabet(self) -> Alphabet:
        columns = [*self.hashes.words, range(self.hashes.values)]
        largest = max(column[-1] for column in columns)
        return Alphabet(np.min_scalar_type(largest).type, *columns)

    @property
    def instructions(self) -> Mapping[str, Any]:
        return {
            "kind": "hashing",
            "buckets": self.hashes.buckets,
            "values": self.hashes.values,
            "bits": self.hashes.bits,
            "guards": self.hashes.guards,
            "weight": str(self.weight),
        }

    def send(self, encoded: NDArray[Any], source: Source) -> Messages:
        bits, dtype = self.hashes.bits, self.alphabet.dtype
        small: Any = dtype.type
        payload = np.empty((len(encoded), bits + 1), dtype=dtype)
        words = source.integers(len(encoded) * bits, dtype).reshape(-1, bits)
        words >>= dtype.type(8 * dtype.itemsize - 1 - self.hashes.log_size)
        for place in range(bits - self.hashes.guards, bits):
            guards = self.hashes.words[place]
            words[:, place] = uniform(source, len(encoded), len(guards), small)
            words[:, place] += dtype.type(guards[0])
        payload[:, :bits] = words
        hashed = self.hashes.of(words, encoded)
        payload[:, bits] = respond(hashed, self.hashes.values, self.weight, source)
        return Messages.one_each(payload)

    def law(self, value: int) -> BundleLaw | None:
        words, values = self.hashes.words, self.hashes.values
        every = math.prod(map(len, words))
        if every * values > MOST_BUNDLES:
            return None
        lie = Fraction(self.weight, WHOLE)
        truth = 1 - (values - 1) * lie
        out: dict[Any, Fraction] = {}
        for row in product(*words):
            hashed = int(self.hashes.of(np.array([row]), np.array([value]))[0])
            for report in range(values):
                out[(((*row, report), 1),)] = (truth if report == hashed else lie) / every
        return out


# Analyzer -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HashingEstimator(SupportEstimator):
    """Counts for each bucket the reports (H, y) with H(x) = y."""

    hashes: Hashes

    @property
    def supported(self) -> tuple[int, int]:
        # At most half of all 2^m numbers have the same hash, so a report supports at most `half`
        # buckets. With two values, exactly half of the numbers have each hash. Then a report also
        # leaves out at most `half` buckets.
        half = 1 << (self.hashes.log_size - 1)
        return self.task.domain - half if self.hashes.values == 2 else 0, half

    @cached_property
    def supports(self) -> SupportSets | None:
        words, buckets = self.hashes.words, np.arange(self.task.domain)
        number = math.prod(map(len, words))
        if number * self.hashes.values * len(buckets) > _CELLS:
            return None
        every = np.array(list(product(*words)))
        hashed = self.hashes.of(np.repeat(every, len(buckets), axis=0), np.tile(buckets, number))
        reports = hashed.reshape(number, 1, -1) == np.arange(self.hashes.values)[:, None]
        return SupportSets.of(reports.reshape(-1, len(buckets)))

    @property
    def transforms(self) -> bool:
        """Whether there are so many buckets that a transform is faster than hashing all of them."""
        many = _TRANSFORM << self.hashes.bits < 1 << self.hashes.log_size
        return many and self.hashes.values << self.hashes.bits <= _COEFFICIENTS

    @property
    def seconds_per_message(self) -> float:
        hashes = _TRANSFORM << self.hashes.bits if self.transforms else 1 << self.hashes.log_size
        return _HASH * hashes

    def count(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        if self.transforms:
            return self._transformed(payload)
        log_size = self.hashes.log_size
        total = np.zeros(1 << log_size, dtype=np.int64)
        size = max(64, _CELLS >> log_size)
        for start in range(0, len(payload), size):
            total += self._tried(payload[start : start + size])
        return total[: self.task.domain]

    def _tried(self, reports: NDArray[Any]) -> NDArray[np.int64]:
        """The number of these reports that support each bucket, found by hashing all buckets."""
        log_size, bits = self.hashes.log_size, self.hashes.bits
        small = np.min_scalar_type((1 << bits) - 1)
        # Bit i of x adds column i of M to the hash of x. The hashes of the first block of buckets
        # are computed by doubling, and those of other blocks from the first block.
        columns = [
            self.hashes.places(_column(reports, place, bits, small))
            for place in (*range(1, log_size + 1), 0)
        ]
        low = min(log_size, _LOG_BLOCK)
        first = np.empty((1 << low, len(reports)), dtype=small)
        first[0] = columns[-1]
        for place, column in enumerate(columns[:low]):
            np.bitwise_xor(first[: 1 << place], column, out=first[1 << place : 2 << place])
        starts = self.hashes.starts[reports[:, bits]].astype(small)
        widths = np.diff(self.hashes.starts)[reports[:, bits]].astype(small)
        supported = np.empty(1 << log_size, dtype=np.int64)
        for block in range(1 << (log_size - low)):
            further = [column for i, column in enumerate(columns[low:-1]) if block >> i & 1]
            hashes = reduce(np.bitwise_xor, further, first) - starts
            packed = np.packbits(hashes < widths, axis=1)
            counts = np.bitwise_count(packed).sum(axis=1, dtype=np.int64)
            supported[block << low : (block + 1) << low] = counts
        return supported

    def _transformed(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        """The number of reports that support each bucket, found by a Walsh transform."""
        size, bits = 1 << self.hashes.log_size, self.hashes.bits
        signs = np.zeros(size, dtype=np.int64)
        coefficients = self._coefficients
        for start in range(0, len(payload), _REPORTS):
            reports = payload[start : start + _REPORTS]
            for which, words in _sums(reports[:, :bits]):
                weights = coefficients[which][reports[:, bits]]
                # The last bit of each sum of words is ⟨u, b⟩, which gives the sign.
                weights = np.where(words & 1, -weights, weights)
                sums = np.bincount(words >> 1, weights, minlength=size)
                signs += sums.astype(np.int64)
        return walsh(signs)[: self.task.domain] >> bits

    @cached_property
    def _coefficients(self) -> NDArray[np.float64]:
        """The coefficients c_u of every value, with one row per u."""
        linear = np.arange(1 << self.hashes.bits)
        table = np.zeros((self.hashes.values, len(linear)), dtype=np.int64)
        table[self.hashes.places(linear) * self.hashes.values >> self.hashes.bits, linear] = 1
        for row in table:
            walsh(row)
        return np.ascontiguousarray(table.T, dtype=np.float64)


def _column(
    reports: NDArray[Any], place: int, bits: int, dtype: np.dtype[Any]
) -> NDArray[np.unsignedinteger]:
    """The bits at this place of all words of a report, as one number for each report."""
    column = np.zeros(len(reports), dtype=dtype)
    for row in range(bits):
        column |= (reports[:, row] >> place & 1).astype(dtype) << row
    return column


def _sums(words: NDArray[Any]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Every u, and for each report the sum uM of the rows that u selects, with their bits of b."""
    rows = words.astype(np.int64).T
    total = np.zeros(len(words), dtype=np.int64)
    yield 0, total
    which = 0
    for step in range(1, 1 << len(rows)):
        # Consecutive u differ in one bit, so only one row is added or removed.
        row = (step & -step).bit_length() - 1
        which ^= 1 << row
        total ^= rows[row]
        yield which, total


# Calibration ----------------------------------------------------------------------------------


def best_values(epsilon: float) -> int:
    """The integer g from 2 to `MOST_VALUES` that minimizes (e^ε+g−1)²/(g−1)."""
    if epsilon > math.log(MOST_VALUES):
        return MOST_VALUES
    ratio = math.exp(epsilon)
    below = 1 + math.floor(ratio)
    return min((max(2, below), below + 1), key=lambda g: (ratio + g - 1) ** 2 / (g - 1))


@dataclass(frozen=True)
class Hashing(FrequencyOracle):
    name = "local.hashing"

    # The number g of hash values. By default, it is the number with the smallest variance.
    values: int | None = None

    def check_options(self) -> None:
        if self.values is not None:
            whole = checks.whole("values", self.values, low=2, high=MOST_VALUES)
            object.__setattr__(self, "values", whole)

    @cached_property
    def hashes(self) -> Hashes:
        return Hashes(self.task.domain, self.values or best_values(self.budget.epsilon))

    @cached_property
    def weight(self) -> int:
        """The weight t of each lie, which has probability t/2^64."""
        return lie_weight(self.hashes.values, self.budget.epsilon)

    @cached_property
    def support(self) -> Support:
        two, three = self.hashes.collisions
        lie = Fraction(self.weight, WHOLE)
        truth = 1 - (self.hashes.values - 1) * lie
        return Support(
            own=truth,
            other=two * truth + (1 - two) * lie,
            own_and_other=two * truth,
            two_others=three * truth + (two - three) * lie,
        )

    @cached_property
    def randomizer(self) -> HashingRandomizer:
        return HashingRandomizer(self.hashes, self.weight)

    @cached_property
    def estimator(self) -> HashingEstimator:
        check_told_apart(self, self.hashes.values, "values")
        return HashingEstimator(self.task, self.support, self.hashes)

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"values": self.hashes.values, "lie_probability": float(1 - self.support.own)}
