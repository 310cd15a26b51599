"""A histogram of any domain, by public hashes (Luo, Wang, Yi 2022).

Notation    x < 2^w a person's key, n people, h of them honest, μ noise per bucket, b = 2^l cells,
            w = 65 − l; H(x) = ((ux + v) mod 2^64) ≫ (64 − l) the cell of x under a hash (u, v). A
            message (u, v, cell) *matches* x if cell = H(x).
Randomizer  Draw a hash of one's own, u and v below 2^64, and send (u, v, H(x)); and Poisson(bμ/h)
            dummies, each uniform on (u, v, cell).
Analyzer    Of every bucket, the number m of messages that match its key. A dummy does so with
            probability 1/b, and so does the message of someone with another key: the estimate is
            (m − nμ/h − n/b)/(1 − 1/b).
Hash        For x ≠ x' all pairs (H(x), H(x')) are equally likely (Dietzfelbinger 1996): v makes
            H(x) uniform, and u the first l bits of u(x − x'), for x − x' has at most w − 1 factors
            2, and 2^64 = 2^(w−1) b.
Keys        Of declared buckets, their numbers through a bijection of w bits. Of open ones, values
            through one of 64 bits, cut to w ≥ 40: two share a key with chance 2^−w, which hides
            them more, and adds n·2^−w at most to the count of a candidate, on average.
Privacy     Take for known what others send, dummies excepted. A view with M messages that match x
            is M/μ times as likely as by dummies alone. M = A + C and, of another key x', M' = B + C
            where C match both: all independent, A and B ~ Poisson(μ(1−1/b)), C ~ Poisson(μ/b). So

                HS_ε = E(A + C − e^ε(B + C))₊/μ ≤ E(A + C − e^ε(B + C'))₊/μ

            with C' like C but independent, which is δ of fake users with this μ, for any b. Proof:
            turn C bit by bit into C and C'. The expectation of a convex f(Y) changes by that of
            f(Y+1) + f(Y−e^ε) − f(Y) − f(Y+1−e^ε): two points less two between them, of equal sums.
            (At b = 128, ε = 1, δ = 1e-6 it is 6 % above HS_ε.) Paper: μ = (32/ε²) ln(2/δ).
Error       With true count c, m = c + Poisson(nμ/h) + Bin(n−c, 1/b). The estimate has variance
            (nμ/h + (n−c)(1−1/b)/b)/(1−1/b)², largest for c = 0, whatever the domain is.
Messages    1 + bμ/h of 128 + l bits, with b near n/ln n. Local ε is infinite.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.accounting import laws
from headcount.core import checks
from headcount.core.budget import Budget, Crowd
from headcount.core.cached import cached_property
from headcount.core.errors import InvalidParameter
from headcount.core.estimate import Answer
from headcount.core.estimator import Estimator
from headcount.core.guarantee import Guarantee
from headcount.core.messages import Alphabet, Messages
from headcount.core.randomizer import BundleLaw
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Holding, Task
from headcount.core.tasks.histogram import Histogram
from headcount.protocols.shuffle.fake_users import (
    FakeUsers,
    PoissonError,
    PoissonNoise,
    least_noise,
)
from headcount.randomness.totals import binomial, groups, poisson

_MOST_LOG_CELLS = 25  # so that keys keep 40 bits
_CHUNK = 1 << 15  # messages whose hashes stay in the cache while all buckets look at them
_ODD = tuple(np.uint64(number) for number in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


# Randomizer -----------------------------------------------------------------------------------


def cells_of(keys: NDArray[np.uint64], hashes: NDArray[np.uint64], log_cells: int) -> Any:
    """H(x) of each key, with a row (u, v) for each."""
    # H(x) = ((ux + v) mod 2^64) ≫ (64 − l); numbers of 64 bits wrap around by themselves.
    return (hashes[:, 0] * keys + hashes[:, 1]) >> np.uint64(64 - log_cells)


def spread(numbers: NDArray[np.integer], bits: int) -> NDArray[np.uint64]:
    """A fixed bijection of the numbers of so many bits, after which they follow no pattern.

    Without it, the keys that match a message would come in rows: see `MatchedBuckets.simulate`.
    """
    half, mask = np.uint64(bits // 2), np.uint64(2**bits - 1)
    out = numbers.astype(np.uint64)
    for odd in _ODD:
        out = ((out ^ (out >> half)) * odd) & mask
    return out ^ (out >> half)


@dataclass(frozen=True)
class HashRandomizer(PoissonNoise):
    """Sends (u, v, H(x)) for a hash of one's own, and uniform dummies."""

    open: bool  # whether values come as numbers of 64 bits; if not, as the numbers of buckets

    @property
    def log_cells(self) -> int:
        """The number l."""
        return self.cells.bit_length() - 1

    @property
    def alphabet(self) -> Alphabet:
        words, cells = range(2**64), range(self.cells)
        return Alphabet(np.uint64, words, words, cells, dummy=(0, 0, self.cells))

    def keys(self, encoded: NDArray[Any]) -> NDArray[np.uint64]:
        """The key x of each value, of w = 65 − l bits."""
        if self.open:
            return spread(encoded, 64) >> np.uint64(self.log_cells - 1)
        return spread(encoded, 65 - self.log_cells)

    def send(self, encoded: NDArray[Any], source: Source) -> Messages:
        own = np.empty((len(encoded), 3), dtype=np.uint64)
        own[:, :2] = source.integers(2 * len(encoded), np.uint64).reshape(-1, 2)
        own[:, 2] = cells_of(self.keys(encoded), own[:, :2], self.log_cells)
        numbers = self.share.sample(source, len(encoded))
        dummies = source.integers(3 * int(numbers.sum()), np.uint64).reshape(-1, 3)
        dummies[:, 2] >>= np.uint64(64 - self.log_cells)
        return Messages.one_each(own).plus(np.repeat(np.arange(len(encoded)), numbers), dummies)

    def law(self, value: int) -> BundleLaw | None:
        return None  # every hash is another message


# Analyzer and its error -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class MatchError(PoissonError):
    """The error of a bucket: Poisson(mean) + Bin(users − c, 1/b) less its mean, over 1 − 1/b."""

    users: int
    cells: int
    counts: Any  # c of every bucket, as far as it is known

    @property
    def standard_error(self) -> Any:
        p = 1 / self.cells
        others = np.maximum(self.users - self.counts, 0)
        return np.sqrt(float(self.mean) + others * p * (1 - p)) / (1 - p)

    def margins(self, confidence: float) -> tuple[float, float]:
        """Those of c = 0, which is the widest law, and one step: that of other c has its lattice
        elsewhere. Together they cover every c; that was computed for many laws, not proven.
        """
        p = Fraction(1, self.cells)
        law = laws.poisson(self.mean).plus(laws.binomial(self.users, p))
        low, high = law.central_interval(confidence)
        mean = self.mean + self.users * p
        return float((mean - low + 1) / (1 - p)), float((high + 1 - mean) / (1 - p))


@dataclass(frozen=True, eq=False)
class MatchedBuckets(Estimator):
    """Counts the messages that match each bucket's key, and takes away those of chance."""

    cells: int
    noise: Fraction  # μ/h: of a person's bμ/h dummies, one in b matches
    keys: NDArray[np.uint64]  # of the buckets

    simulates_exactly = False

    @property
    def tally_size(self) -> int:
        return len(self.keys)

    def count(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        matches = np.zeros(self.tally_size, dtype=np.int64)
        width = np.uint64(2**64 // self.cells)
        words, hits = np.empty(_CHUNK, dtype=np.uint64), np.empty(_CHUNK, dtype=np.bool_)
        for start in range(0, len(payload), _CHUNK):
            u, v, cell = payload[start : start + _CHUNK].T.copy()
            # H(x) = cell where ux + v lies less than 2^(64−l) above the start of the cell.
            v -= cell * width
            word, hit = words[: len(u)], hits[: len(u)]
            for bucket, key in enumerate(self.keys):
                np.multiply(u, key, out=word)
                np.add(word, v, out=word)
                np.less(word, width, out=hit)
                matches[bucket] += np.count_nonzero(hit)
        return matches

    def simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        """Every bucket has the law of its messages' matches; that they are independent of each
        other is an approximation. Two buckets x and y have covariance nμ/(hb) by dummies, and
        P(H(x) = H(y) = H(z)) − 1/b² by each person who holds a third z. That is 0 for most keys,
        but near 1/(2b) if x, y, z have equal distances, which is why keys are spread.
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
    cells: int | None = None  # b, a power of two

    @classmethod
    def settings_within(
        cls, task: Task, budget: Budget, crowd: Crowd, max_messages: float
    ) -> Iterator[dict[str, Any]]:
        noise = least_noise(budget, "exact") if budget.delta else None
        # 1 + bμ/h messages, and the error falls with b.
        allowed = 0 if noise is None else int((max_messages - 1) * crowd.honest / noise)
        largest = min(allowed.bit_length() - 1, _MOST_LOG_CELLS)
        yield {"cells": 2**largest} if largest > 0 else {}

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
                "got two alike",
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
