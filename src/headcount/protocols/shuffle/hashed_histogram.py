"""A histogram over any domain, with public hashes (Luo, Wang, Yi 2022).

Notation    x < 2^w is a person's key, which stands for the person's bucket (see Keys below). n is
            the number of people; h of them are honest. There are b = 2^l cells, and w = 65 − l. μ
            is the expected number of noise messages per cell that all honest people together send.
            A seed is a number below 2^64, and two words u and v are derived from it (see `seeds`).
            H(x) = ((ux + v) mod 2^64) ≫ (64 − l) is the cell of x under the seed's hash. A message
            (seed, cell) *matches* x if cell = H(x).
Randomizer  Draw a uniform seed, and send (seed, H(x)). Also send Poisson(bμ/h) dummies, each with a
            uniform seed and a uniform cell.
Analyzer    m is the number of messages that match the key of a bucket. A dummy matches this key
            with probability 1/b, and so does the message of a person with another key. So the
            estimate is (m − nμ/h − n/b)/(1 − 1/b).
Hash        If u and v are uniform, all pairs (H(x), H(x')) are equally likely for x ≠ x'
            (Dietzfelbinger 1996). The reason: v makes H(x) uniform. u makes the first l bits of
            u(x − x') uniform, because x − x' is divisible by 2 at most w − 1 times, and
            2^64 = 2^(w−1) b. The formulas for errors treat the words of seeds as uniform. If the
            words were 2^64 random pairs, the share κ of seeds with H(x) = H(x') would differ from
            1/b by about 2^−32/√b.
Cheating    If people could choose the words u and v, a message with u = 0 could match all buckets
            at once. Since the words are derived from a seed, it takes about b^(t−1) trials to find
            a message that matches t given buckets.
Keys        If people may hold only the listed buckets, the key is computed from the bucket's number
            by a fixed bijection of the w-bit numbers. In an open histogram (see `Histogram`),
            people may hold any value, which is encoded in 64 bits. A fixed bijection of the 64-bit
            numbers is applied to it, and the key is the first w ≥ 40 bits of the result. So in an
            open histogram, two values share a key with probability 2^−w. Shared keys do not harm
            privacy. On average, they add at most n·2^−w to the count of a bucket.
Privacy     Call (seed, H(x)) the true message of a person with the key x. Assume that the adversary
            knows the true messages of all people except one, but no dummies. The view consists of
            the remaining messages: all dummies, and the true message of this person. Let M be the
            number of messages in the view that match x. If the person's key is x, the view is M/μ
            times as likely as if all of its messages were dummies, because the true message has the
            law of a dummy that matches x. For keys x and x', M = A + C and M' = B + C, where C
            messages match both keys. If all messages are dummies, A and B ~ Poisson(μ(1−κ)) and
            C ~ Poisson(μκ) are independent. So the hockey-stick divergence is

                HS_ε = E(A + C − e^ε(B + C))₊/μ ≤ E(A + C − e^ε(B + C'))₊/μ,

            where C' is independent of C and has the same law. The right side is the δ of
            `shuffle.fake-users` with this μ, for any b and any κ, and so for any hash that is
            derived from seeds. Proof of the inequality: divide C into a sum of many small
            independent Poisson variables. In the second sum, B + C, replace them one by one by
            independent copies. Let Y be the difference in parentheses, and f a convex function. In
            each replacement, E f(Y) changes in proportion to the mean of
            f(Y+1) + f(Y−e^ε) − f(Y) − f(Y+1−e^ε). This mean is not negative, because f is convex,
            and the last two arguments lie between the first two and have the same sum. So E f(Y)
            never falls. (At κ = 1/128, ε = 1 and δ = 1e-6, the bound is 6 % above HS_ε.)
            With `calibration="paper"`, μ = (32/ε²) ln(2/δ).
Error       For a true count c, m = c + Poisson(nμ/h) + Bin(n−c, 1/b). The variance of the estimate
            is (nμ/h + (n−c)(1−1/b)/b)/(1−1/b)². The variance is largest for c = 0, and does not
            depend on the size of the domain.
Messages    1 + bμ/h messages of 64 + l bits, with b near n/ln n. The local ε is infinite.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.accounting import laws
from headcount.core import checks
from headcount.core.bucket_sums import Weights
from headcount.core.budget import Budget, Crowd
from headcount.core.bundles import MOST_SLOTS
from headcount.core.cached import cached_property
from headcount.core.errors import InvalidParameter
from headcount.core.estimate import Answer
from headcount.core.estimator import Estimator
from headcount.core.guarantee import Guarantee
from headcount.core.influence import Shifts
from headcount.core.lattice import Reports
from headcount.core.limits import Limits
from headcount.core.messages import Alphabet, Messages
from headcount.core.randomizer import BundleLaw
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Holding, Task
from headcount.core.tasks.histogram import Histogram
from headcount.protocols.seeds import words_of
from headcount.protocols.shuffle.fake_users import (
    FakeUsers,
    PoissonRandomizer,
    least_noise,
)
from headcount.randomness.totals import binomial, groups, poisson

_MOST_LOG_CELLS = 25  # the largest l; keys then have at least 40 bits
_MATCH = 1e-9  # the seconds that one core takes to compare a message with a bucket
_CHUNK = 1 << 15  # the number of messages that are compared at a time, so that caches hold them
# The odd factors by which `spread` multiplies.
_ODD = tuple(np.uint64(number) for number in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


# Randomizer -----------------------------------------------------------------------------------


def cells_of(keys: NDArray[np.uint64], hashes: NDArray[np.uint64], log_cells: int) -> Any:
    """The cell H(x) of each key. Each key has its own hash, a row (u, v)."""
    # H(x) = ((ux + v) mod 2^64) ≫ (64 − l). Arithmetic in 64 bits is modulo 2^64.
    return (hashes[:, 0] * keys + hashes[:, 1]) >> np.uint64(64 - log_cells)


def spread(numbers: NDArray[np.integer], bits: int) -> NDArray[np.uint64]:
    """A fixed bijection of the numbers with `bits` bits. It destroys regular patterns.

    Without this bijection, the keys that match a message would often be equally spaced.
    `MatchedBuckets.simulate` says why that matters.
    """
    half, mask = np.uint64(bits // 2), np.uint64(2**bits - 1)
    out = numbers.astype(np.uint64)
    for odd in _ODD:
        out = ((out ^ (out >> half)) * odd) & mask
    return out ^ (out >> half)


@dataclass(frozen=True)
class HashRandomizer(PoissonRandomizer):
    """Sends (seed, H(x)) with a new seed, and uniform dummies."""

    open: bool  # whether values are numbers of 64 bits; otherwise they are the numbers of buckets

    @property
    def log_cells(self) -> int:
        """The number l of bits of a cell."""
        return self.cells.bit_length() - 1

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet(np.uint64, range(2**64), range(self.cells), dummy=(0, self.cells))

    def keys(self, encoded: NDArray[Any]) -> NDArray[np.uint64]:
        """The key x of each value. Keys have w = 65 − l bits."""
        if self.open:
            return spread(encoded, 64) >> np.uint64(self.log_cells - 1)
        return spread(encoded, 65 - self.log_cells)

    @property
    def instructions(self) -> Mapping[str, Any] | None:
        if self.open:
            return None
        return {
            "kind": "hashed",
            "log_cells": self.log_cells,
            "mean": str(self.cells * self.noise),
        }

    def send(self, encoded: NDArray[Any], source: Source) -> Messages:
        seeds = source.integers(len(encoded), np.uint64)
        own = np.stack([seeds, cells_of(self.keys(encoded), words_of(seeds), self.log_cells)], 1)
        senders = self.noise_senders(len(encoded), source)
        dummies = source.integers(2 * len(senders), np.uint64).reshape(-1, 2)
        dummies[:, 1] >>= np.uint64(64 - self.log_cells)
        return Messages.one_each(own).plus(senders, dummies)

    def law(self, value: int) -> BundleLaw | None:
        return None  # there are too many hashes to list


# Analyzer and its error -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class MatchError:
    """The error of a bucket: N minus its mean, divided by 1 − 1/b.

    Here N ~ Poisson(mean) + Bin(users − c, 1/b).
    """

    mean: Fraction
    users: int
    cells: int
    counts: Any  # the count c of every bucket, or an estimate of it

    @property
    def standard_error(self) -> Any:
        p = 1 / self.cells
        others = np.maximum(self.users - self.counts, 0)
        return np.sqrt(float(self.mean) + others * p * (1 - p)) / (1 - p)

    def margins(self, confidence: float) -> tuple[float, float]:
        """The margins for the count c = 0, whose law is widest, plus one step of 1/(1 − 1/b).

        For each c, the possible errors are one step apart, but where they lie depends on c. That is
        why the step is added. Computations for many laws confirm that these margins cover every c,
        but there is no proof.
        """
        p = Fraction(1, self.cells)
        law = laws.poisson(self.mean).plus(laws.binomial(self.users, p))
        low, high = law.central_interval(confidence)
        mean = self.mean + self.users * p
        return float((mean - low + 1) / (1 - p)), float((high + 1 - mean) / (1 - p))

    def reports(self) -> Reports:
        noise = laws.poisson(self.mean).lattice(self.mean)
        return Reports(self.users, 1.0, 1 / self.cells, noise)

    def weighted(self, weights: Weights) -> None:
        """None: one message may match several buckets, so the errors of buckets are dependent."""
        return


@dataclass(frozen=True, eq=False)
class MatchedBuckets(Estimator):
    """Counts the messages that match each bucket's key, and corrects for expected false matches."""

    cells: int
    noise: Fraction  # μ/h: on average, one in b of a person's bμ/h dummies matches a bucket
    keys: NDArray[np.uint64]  # the keys of the buckets

    simulates_exactly = False

    @property
    def tally_size(self) -> int:
        return len(self.keys)

    @property
    def seconds_per_message(self) -> float:
        return _MATCH * self.tally_size

    def count(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        matches = np.zeros(self.tally_size, dtype=np.int64)
        width = np.uint64(2**64 // self.cells)
        words, hits = np.empty(_CHUNK, dtype=np.uint64), np.empty(_CHUNK, dtype=np.bool_)
        for start in range(0, len(payload), _CHUNK):
            seeds, cell = payload[start : start + _CHUNK].T.copy()
            u, v = words_of(seeds).T.copy()
            # H(x) = cell if ux + v lies in the cell's range of numbers. `width` is the length
            # 2^(64−l) of this range, and its start is cell·width.
            v -= cell * width
            word, hit = words[: len(u)], hits[: len(u)]
            for bucket, key in enumerate(self.keys):
                np.multiply(u, key, out=word)
                np.add(word, v, out=word)
                np.less(word, width, out=hit)
                matches[bucket] += np.count_nonzero(hit)
        return matches

    def simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        """The tally of each bucket is drawn from its exact law, but independently of the other
        buckets.

        Independence is an approximation. For two buckets x and y, dummies add nμ/(hb) to the
        covariance. Each person who holds a third key z adds P(H(x) = H(y) = H(z)) − 1/b². This
        difference is 0 for most keys, but near 1/(2b) if x, y and z are equally spaced. Therefore
        `spread` is applied to keys.
        """
        users = held.users
        counts = held.counts[: self.tally_size]
        matches = counts + poisson(source, self.noise * users, len(counts))
        for count, alike in groups(counts):
            by_chance = binomial(source, users - count, Fraction(1, self.cells), len(alike))
            matches[alike] += by_chance
        return matches

    def unbiased(self, tally: Tally, source: Source | None = None) -> Answer:
        # (m − nμ/h − n/b)/(1 − 1/b)
        by_chance = self.noise * tally.users + Fraction(tally.users, self.cells)
        return (tally.counts - float(by_chance)) / (1 - 1 / self.cells)

    def shifts(self, users: int, alphabet: Alphabet) -> Shifts:
        apart = 1 - 1 / self.cells
        # Of 2^64 seeds, about 2^64/b^(t−1) have a message that matches t given buckets. `together`
        # is the largest t for which at least one such seed is expected.
        together = 1 + 64 // (self.cells.bit_length() - 1)
        return Shifts(
            most=1 / apart,
            least=0.0,
            person=-(float(self.noise) + 1 / self.cells) / apart,
            places=(0, min(together, self.tally_size)),
            everywhere=1 < self.tally_size <= together,
        )

    def standard_error(self, users: int, held: Holding | None) -> float:
        least = 0 if held is None else int(held.counts[: self.tally_size].min())
        return float(self.error_law(users, least).standard_error)

    def error_law(self, users: int, unbiased: Answer) -> MatchError:
        return MatchError(self.noise * users, users, self.cells, unbiased)


# Calibration and privacy ----------------------------------------------------------------------


@dataclass(frozen=True)
class HashedHistogram(FakeUsers):
    name = "shuffle.hashed-histogram"
    open_buckets = True

    task: Histogram
    cells: int | None = None  # the number b of cells, a power of two; by default near n/ln n

    @classmethod
    def settings_within(
        cls, task: Task, budget: Budget, crowd: Crowd, limits: Limits
    ) -> Iterator[dict[str, Any]]:
        noise = least_noise(budget, "exact") if budget.delta else None
        if noise is None:
            yield {}
            return
        build: Callable[..., HashedHistogram] = cls  # the task is known to be a histogram

        def too_many(log_cells: int) -> bool:
            return not limits.allow(build(task, budget, crowd, cells=2**log_cells))

        # A person sends 1 + bμ/h messages. As b grows, the error falls and bundles grow.
        most = min(one for one in (limits.messages, limits.slots, MOST_SLOTS) if one is not None)
        allowed = int((most - 1) * crowd.honest / noise)
        largest = min(allowed.bit_length() - 1, _MOST_LOG_CELLS)
        if limits.slots is not None:
            largest = bisect_left(range(1, largest + 1), True, key=too_many)
        yield {"cells": 2 ** max(largest, 1)}

    def check_options(self) -> None:
        if self.cells is not None:
            cells = checks.whole("cells", self.cells, low=2, high=2**_MOST_LOG_CELLS)
            if cells.bit_count() > 1:
                raise InvalidParameter(f"`cells` must be a power of two, got {cells}")
            object.__setattr__(self, "cells", cells)

    def _cells_for(self, users: int) -> int:
        if self.cells is not None:
            return self.cells
        people = max(users, 3)
        return 1 << min(round(math.log2(people / math.log(people))), _MOST_LOG_CELLS)

    @cached_property
    def randomizer(self) -> HashRandomizer:
        cells = self._cells_for(self.crowd.users)
        return HashRandomizer(cells, self.noise / self.crowd.honest, self.task.open)

    @cached_property
    def estimator(self) -> MatchedBuckets:
        hashing = self.randomizer
        keys = hashing.keys(self.task.keys)
        if len(np.unique(keys)) < len(keys):
            raise InvalidParameter(
                f"`buckets` must have different keys of {65 - hashing.log_cells} bits, "
                "got two with the same key",
                hint="fewer `cells` make longer keys",
            )
        return MatchedBuckets(self.task, hashing.cells, hashing.noise, keys)

    @property
    def parameters(self) -> Mapping[str, float]:
        return {**super().parameters, "cells": self.randomizer.cells}

    @cached_property
    def guarantee(self) -> Guarantee:
        stated = super().guarantee
        return replace(stated, exact=False, method=f"bound by {stated.method}")
