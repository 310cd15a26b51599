"""Local hashing (Wang, Blocki, Li, Jha 2017; with two values Bassily, Smith 2015).

Notation    x ∈ {0, …, d−1} is a person's bucket, d ≤ 2^m, and H(x) < g its hash. If g = 2^l, H is a
            linear hash v = Mx + b of l bits (see `linear_hashes`). For other g, v has enough bits
            to be divided into g nearly equal intervals by v ↦ ⌊vg/2^l⌋. If g is odd and the first
            bit of v is 1, the second bit is flipped before that.
Guards      The first row of M is a guard, and if g is odd the second one, too. So no hash is the
            same for all buckets. Proof: a guard's bit takes both values. The first bit of v says in
            which half v is. If g is even, no interval is in both halves. If g is odd, only the
            middle interval is. In it the first two bits of v are 01 or 10, so the second bit of
            Mx + b is always 1.
Randomizer  Draw a hash H. Report H, and H(x) through k-ary randomized response among g values: the
            truth with probability p, and each other value with probability t/2^64.
Analyzer    A report (H, y) supports the buckets with H(x) = y (see `frequency_oracle`). The reports
            are counted by hashing all buckets. If there are many buckets, they are counted by one
            fast transform: with 1[⌊vg/2^l⌋ = y] = 2^−l Σ_u c_u (−1)^⟨u, Mx + b⟩, the number of
            reports that support x is 2^−l Σ_u Σ_reports c_u (−1)^⟨u, b⟩ (−1)^⟨uM, x⟩.
Privacy     Pure: the privacy of k-ary response among g values, for every hash.
Error       κ and κ' are the probabilities that two and that three buckets have the same hash. They
            are computed exactly, and are a little smaller than without guards. Then
            q = κp + (1−κ)t/2^64, and r and s follow, too. For many buckets κ is near 1/g, and the
            variance per person for a rare bucket is near (e^ε+g−1)²/((g−1)(e^ε−1)²). g is the
            integer that minimizes this, near e^ε + 1.
Messages    1 message of l(m+1) bits and one of g values.
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
_EVEN = 4  # the number of bits beyond those of g, which make the intervals nearly equal
_CELLS = 1 << 19  # the number of hashes of buckets that are computed at a time
_LOG_BLOCK = 13  # the hashes of 2^_LOG_BLOCK buckets are kept at a time
_COEFFICIENTS = 1 << 24  # the largest number of coefficients that are kept
_REPORTS = 1 << 16  # the number of reports that are transformed at a time
_TRANSFORM = 32  # one term of the transform takes as long as this many hashes


@dataclass(frozen=True)
class Hashes:
    """The hashes of buckets to g values, none of which is the same for all buckets."""

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
        """The number of guards among the rows of M. Their words come last, for the first bits."""
        return 1 + self.values % 2

    @property
    def words(self) -> list[range]:
        """The possible words of each row of M. A guard is not 0."""
        every = 2 << self.log_size
        return [range(every)] * (self.bits - self.guards) + [range(2, every)] * self.guards

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """The start of each interval, and the end of the last one."""
        values = np.arange(self.values + 1)
        return -(-(values << self.bits) // self.values)

    def places(self, linear: NDArray[Any]) -> NDArray[Any]:
        """The number v whose interval is the hash, for each number Mx + b."""
        if self.guards == 1:
            return linear
        first = linear >> linear.dtype.type(self.bits - 1)
        places: NDArray[Any] = linear ^ (first << linear.dtype.type(self.bits - 2))
        return places

    @cached_property
    def collisions(self) -> tuple[Fraction, Fraction]:
        """The probabilities κ and κ' that two and that three buckets have the same hash."""
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
        # The first bucket has any of 2^l numbers. Of the others, only the bits below the guards'
        # bits are free.
        rest = 1 << free
        return same_two / (rest << self.bits), same_three / (rest * rest << self.bits)

    def of(self, words: NDArray[Any], buckets: NDArray[Any]) -> NDArray[np.int64]:
        """The hash H(x) of each person's bucket. Each person has their own hash."""
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
        # Half of all 2^m numbers, such as the smaller ones, can have the same hash. With two
        # values, those of the other half have the other hash.
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

    def count(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        log_size, bits = self.hashes.log_size, self.hashes.bits
        many = _TRANSFORM << bits < 1 << log_size
        if many and self.hashes.values << bits <= _COEFFICIENTS:
            return self._transformed(payload)
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
        """The number of reports that support each bucket, found by a transform of signs."""
        size, bits = 1 << self.hashes.log_size, self.hashes.bits
        signs = np.zeros(size, dtype=np.int64)
        coefficients = self._coefficients
        for start in range(0, len(payload), _REPORTS):
            reports = payload[start : start + _REPORTS]
            for which, words in _sums(reports[:, :bits]):
                weights = coefficients[which][reports[:, bits]]
                # The last bit of a word is that of b.
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
    """The bits of every word at this place, as one number."""
    column = np.zeros(len(reports), dtype=dtype)
    for row in range(bits):
        column |= (reports[:, row] >> place & 1).astype(dtype) << row
    return column


def _sums(words: NDArray[Any]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Every u, with the sum uM of the rows that u selects, including the bit of b."""
    rows = words.astype(np.int64).T
    total = np.zeros(len(words), dtype=np.int64)
    yield 0, total
    which = 0
    for step in range(1, 1 << len(rows)):
        # Consecutive u differ in one row.
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

    # The number g of hash values. The default has the smallest variance.
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
        """The weight t of each lie, over 2^64."""
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
