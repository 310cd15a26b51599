"""Subset selection (Wang, Huang, Wang, Nie, Xu, Yang, Li, Qiao 2016; Ye, Barg 2018).

Notation    x ∈ {0, …, d−1} a person's bucket; w the size of the subsets; p the probability that a
            report has x in it.
Randomizer  Report a set of w buckets: with probability p = 1 − t/2^64 a uniform one of those with
            x, else a uniform one of those without. t is the least integer with
            p(d−w)/((1−p)w) ≤ e^ε, that is p near e^ε w/(e^ε w + d − w).
Sampler     From a list of all sets where there are few buckets. Else draw a bit for each other
            bucket; then, until there are as many ones as wanted, put in or take out a uniform one.
            All of this treats other buckets alike, so that every set of the size at which it stops
            is equally likely.
Analyzer    A report supports the buckets in it: see `frequency_oracle`.
Privacy     Pure: all sets with x are equally likely, and all without: ε' = ln(p(d−w)/((1−p)w)) ≤ ε.
Error       That of q = (p(w−1) + (1−p)w)/(d−1). w is the integer for which the variance of a rare
            bucket is least, near d/(e^ε+1). No oracle has less where all buckets are rare.
Messages    1 of d bits.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core.errors import InvalidValue
from headcount.core.messages import Alphabet, Messages
from headcount.core.protocol import MOST_BUNDLES, BundleLaw
from headcount.core.source import Source
from headcount.core.task import Holding
from headcount.protocols import packed_bits
from headcount.protocols.frequency_oracle import FrequencyOracle, Support
from headcount.protocols.responses import share_weight
from headcount.randomness.draws import WHOLE, bernoulli, packed_bernoulli, uniform
from headcount.randomness.totals import binomial, multinomial

_LISTED = 20  # buckets up to which all sets are listed
_PEOPLE = 1 << 17  # whose sets are mended at a time
_SIMULATED = 512  # draws, up to which a simulation counts every set


def best_size(buckets: int, epsilon: float) -> int:
    """The integer w that minimizes the variance q(1−q)/(p−q)² of a rare bucket."""

    def variance(size: int) -> float:
        # e^−ε times weights, so that nothing overflows.
        weight, rest = size, (buckets - size) * math.exp(-epsilon)
        own, lie = weight / (weight + rest), rest / (weight + rest)
        other = (own * (size - 1) + lie * size) / (buckets - 1)
        # p − q = (p(d−w) − (1−p)w)/(d−1)
        slope = (own * (buckets - size) - lie * size) / (buckets - 1)
        return other * (1 - other) / slope**2

    near = buckets / (math.exp(min(epsilon, 700.0)) + 1)
    sizes = range(max(1, math.floor(near) - 1), min(buckets - 1, math.ceil(near) + 1) + 1)
    return min(sizes, key=variance)


@lru_cache(maxsize=32)
def every_set(buckets: int, size: int) -> NDArray[np.uint32]:
    """All sets of a size, as numbers whose bits they are."""
    every = combinations(range(buckets), size)
    return np.array([sum(1 << x for x in chosen) for chosen in every], dtype=np.uint32)


@dataclass(frozen=True)
class Subset(FrequencyOracle):
    name = "local.subset"

    @cached_property
    def _size(self) -> int:
        """The number w."""
        return best_size(self.task.domain, self.budget.epsilon)

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet.packed(self.task.domain)

    @cached_property
    def _weight(self) -> int:
        """The number t."""
        others = self.task.domain - self._size
        return share_weight(others, self._size, others, self.budget.epsilon)

    @cached_property
    def support(self) -> Support:
        buckets, size = self.task.domain, self._size
        lie = Fraction(self._weight, WHOLE)
        # Of a set with the owner's bucket and of one without: how many other buckets it has.
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

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"size": self._size, "p": float(self.support.own), "q": float(self.support.other)}

    def law(self, value: int) -> BundleLaw | None:
        buckets, size = self.task.domain, self._size
        if math.comb(buckets, size) > MOST_BUNDLES:
            return None
        truth = self.support.own
        with_it, without = math.comb(buckets - 1, size - 1), math.comb(buckets - 1, size)
        out: dict[Any, Fraction] = {}
        for chosen in combinations(range(buckets), size):
            bits = np.isin(np.arange(buckets), chosen)
            chance = truth / with_it if value in chosen else (1 - truth) / without
            out[((packed_bits.message(bits), 1),)] = chance
        return out

    def _randomize(self, encoded: NDArray[Any], source: Source) -> Messages:
        buckets, people = self.task.domain, len(encoded)
        lies = bernoulli(source, people, self._weight)
        width = packed_bits.row_bytes(buckets)
        if buckets <= _LISTED:
            sets = self._listed(encoded, lies, source)
            rows = sets.astype("<u4").view(np.uint8).reshape(people, 4)[:, :width].copy()
            return Messages.one_each(packed_bits.as_payload(rows))
        rows = packed_bernoulli(source, people * width, self._first).reshape(people, width)
        rows = packed_bits.cleared(rows, buckets)
        packed_bits.put(rows, encoded, np.zeros(people, dtype=np.uint8))
        for start in range(0, people, _PEOPLE):
            piece = slice(start, start + _PEOPLE)
            self._mend(rows[piece], encoded[piece], lies[piece], source)
        packed_bits.put(rows, encoded, 1 - lies)
        return Messages.one_each(packed_bits.as_payload(rows))

    def _listed(
        self, own: NDArray[Any], lies: NDArray[np.uint8], source: Source
    ) -> NDArray[np.uint32]:
        """Sets as numbers whose bits they are, by choosing from a list of all there are."""
        out = np.empty(len(own), dtype=np.uint32)
        for lie in (0, 1):
            people = np.flatnonzero(lies == lie)
            numbers = every_set(self.task.domain - 1, self._size - 1 + lie)
            drawn = numbers[uniform(source, len(people), len(numbers), np.uint32)]
            # Other buckets without a gap; the owner's is put in between.
            place = own[people].astype(np.uint32)
            below = (np.uint32(1) << place) - np.uint32(1)
            drawn += drawn & ~below
            out[people] = drawn if lie else drawn | (below + np.uint32(1))
        return out

    @cached_property
    def _first(self) -> int:
        """The weight of the bits that are drawn first: any would do, one near w/d saves time.

        A little below, since what is put in fits more often than what is taken out. Of few digits,
        which is quick: as many as bring it within half a standard deviation.
        """
        buckets, size = self.task.domain, self._size
        lean = 0.6 * math.sqrt(size * (1 - size / buckets)) * (1 if 2 * size < buckets else -1)
        share = max(0.0, size - 0.5 - lean) / (buckets - 1)
        digits = math.ceil(math.log2(buckets * buckets / size) / 2) + 1
        first: int = min(round(share * 2**digits), 1 << digits) << (64 - digits)
        return first

    def _mend(
        self, rows: NDArray[np.uint8], own: NDArray[Any], lies: NDArray[Any], source: Source
    ) -> None:
        """Put in or take out uniform buckets, but nobody's own, until all sets have their size."""
        buckets, width, flat = self.task.domain, rows.shape[1], rows.reshape(-1)
        dtype = np.uint16 if buckets <= 2**16 else np.uint32
        missing = lies + (self._size - 1 - packed_bits.row_sums(rows))
        surplus, missing = (missing < 0).view(np.uint8), np.abs(missing)
        first, own = np.arange(len(rows)) * width, own.astype(dtype)
        while len(first):
            chosen = uniform(source, len(first), buckets, dtype)
            at = first + (chosen >> 3)
            place = (chosen & 7).astype(np.uint8)
            found = flat[at]
            # Its own bucket is not there, and so never taken out.
            fits = (found >> place) & 1 == surplus
            fits &= chosen != own
            fits &= missing != 0
            found ^= fits.view(np.uint8) << place
            flat[at] = found
            missing -= fits
            if np.count_nonzero(missing) < 0.75 * len(first):
                going = np.flatnonzero(missing)
                first, own = first[going], own[going]
                surplus, missing = surplus[going], missing[going]

    def _simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        """How many report each set, where those are few. Else every bucket has its law, but their
        correlation of about −1/(d−1), since all sets have one size, is left out.
        """
        buckets, size = self.task.domain, self._size
        if buckets * math.comb(buckets, size) > _SIMULATED:
            return super()._simulate(held, source)
        sets = np.array(
            [np.isin(np.arange(buckets), chosen) for chosen in combinations(range(buckets), size)]
        )
        supported = np.zeros(buckets, dtype=np.int64)
        for bucket, people in enumerate(held.counts.tolist()):
            lies = int(binomial(source, people, 1 - self.support.own)[0])
            for some, having in ((people - lies, True), (lies, False)):
                among = sets[sets[:, bucket] == having]
                supported += multinomial(source, some, [1] * len(among)) @ among
        return supported

    def _tally(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        rows = packed_bits.as_rows(payload, self.task.domain)
        sizes = packed_bits.row_sums(rows)
        if (sizes != self._size).any():
            raise InvalidValue(
                f"messages of {self.name} must be sets of {self._size} buckets, "
                f"got some of {sizes.min()} to {sizes.max()}"
            )
        return packed_bits.column_sums(rows, self.task.domain)
