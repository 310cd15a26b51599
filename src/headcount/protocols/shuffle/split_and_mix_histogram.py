"""Split and mix for a histogram.

For every bucket, each person adds noise to a count of 0 or 1, and splits the result into shares.

Notation    x ∈ {0, …, d−1} is a person's bucket. n is the number of people; h of them are honest. A
            person's counts are 1 for x and 0 for all other buckets. Shares are numbers modulo
            q = 2^b. NB is the negative binomial law (see `geometric_error`).
Randomizer  Add this person's part Z1 − Z2 of the geometric noise to each count, where Z1 and Z2 are
            independent and have the law NB(1/h, a) with a = e^{−ε/2}. With `vectors`, the d results
            are one secret: send m vectors of d numbers modulo q that add up to the secret and are
            otherwise uniform. With `buckets`, each result is a secret of its own: for each bucket,
            send m pairs, each of which consists of the bucket and one share.
Analyzer    The estimate of each bucket is the sum of all shares of this bucket modulo q, read as a
            number between about −q/2 + n/2 and q/2 + n/2. Then the excess of the total over n,
            divided by d, is subtracted from each estimate (see `known_total`).
Privacy     Replacing one value changes two sums by 1 each. Each sum has a curator's noise of rate
            ε/2, so the sums alone are ε-private. A secret is an element of a group of Q elements.
            The shares of the honest people are within total variation 2^−σ of messages that depend
            only on the sum of their secrets, if h ≥ 19 and m ≥ 2 + (2σ + log2 Q)/(log2 h − log2 e)
            (see `secret_sharing`). With `vectors`, Q = q^d and each person has one secret, so
            δ = (1 + e^ε)·2^−σ. With `buckets`, Q = q, and only the two buckets that change matter,
            so δ = (1 + e^ε)·2·2^−σ. All other buckets are independent of these two and have the
            same law for both neighbors. The noise is drawn from tables. Let v be the total
            variation between the noise drawn for two buckets and its exact law. In these formulas
            for δ, v is added to 2^−σ with `vectors`, and to 2·2^−σ with `buckets`.
Error       If everyone is honest, each bucket has geometric noise of rate ε/2, as in central trust.
            Otherwise the variance is n/h times as large. The noise of different buckets is
            independent. Since n is known, the variance is 1 − 1/d times that of the noise. The
            noisy count of a bucket exceeds the range of q with probability below 2^−99.
Messages    `vectors`: m messages of d·b bits, where m grows with d. `buckets`: d·m messages, each
            with a bucket and a share of b bits. All messages of one person together almost
            certainly reveal the bucket, because one person's noise is nearly always 0. So no finite
            local ε is claimed. If one message is lost, the analyzer gives no answer.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.divergence import SymmetricCurve
from headcount.accounting.geometric import moved_together_curve
from headcount.core import checks
from headcount.core.budget import Budget, Crowd
from headcount.core.cached import cached_property
from headcount.core.errors import Infeasible
from headcount.core.estimate import Answer
from headcount.core.estimator import Estimator
from headcount.core.influence import Shifts
from headcount.core.limits import Limits
from headcount.core.messages import Alphabet, Messages
from headcount.core.promise import check_curve
from headcount.core.randomizer import BundleLaw, Randomizer
from headcount.core.source import Source
from headcount.core.table import short
from headcount.core.tally import Tally
from headcount.core.task import Holding, Task
from headcount.core.tasks.histogram import Histogram
from headcount.protocols.known_total import KnownTotalError, with_known_total
from headcount.protocols.secret_sharing import SecretSharing, SharedNoise, add_noise, read, split
from headcount.randomness.shares import LEAST_GAMMA, NegativeBinomialShare

_MOST_NUMBERS = 2**20  # the most shares that one person may send, for all buckets together


# Randomizer -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class BucketSecrets(Randomizer):
    """Adds this person's part Z1 − Z2 of the geometric noise to the count of every bucket.

    A subclass splits the results.
    """

    buckets: int  # d
    modulus: int  # q, a power of two
    shares: int  # m
    noise: NegativeBinomialShare

    @property
    def instructions(self) -> Mapping[str, Any]:
        return {
            "kind": "bucket-shares",
            "buckets": self.buckets,
            "modulus": str(self.modulus),
            "shares": self.shares,
            "noise": self.noise.instructions,
        }

    @abstractmethod
    def messages(self, shares: NDArray[np.unsignedinteger]) -> NDArray[np.unsignedinteger]:
        """The messages of all people. `shares[i, j, b]` is share j of person i for bucket b."""

    def send(self, encoded: NDArray[Any], source: Source) -> Messages:
        users = len(encoded)
        counts = np.zeros((users, self.buckets), dtype=np.uint64)
        counts[np.arange(users), encoded] = 1
        secrets = add_noise(counts, self.noise, source)
        payload = self.messages(split(secrets, self.shares, self.modulus, source))
        return Messages(payload, users, np.broadcast_to(np.int64(len(payload) // users), users))

    def law(self, value: int) -> BundleLaw | None:
        return None  # there are too many shares to list


@dataclass(frozen=True)
class VectorShares(BucketSecrets):
    """Sends m vectors, each with a share of every bucket."""

    @property
    def instructions(self) -> Mapping[str, Any]:
        return {**super().instructions, "vectors": True}

    @property
    def alphabet(self) -> Alphabet:
        dtype = np.min_scalar_type(self.modulus - 1).type
        return Alphabet(dtype, *[range(self.modulus)] * self.buckets)

    @property
    def fixed_messages(self) -> int:
        return self.shares

    def messages(self, shares: NDArray[np.unsignedinteger]) -> NDArray[np.unsignedinteger]:
        return shares.reshape(-1, self.buckets)


@dataclass(frozen=True)
class BucketShares(BucketSecrets):
    """Sends m pairs for each bucket. A pair consists of the bucket and one share."""

    @property
    def alphabet(self) -> Alphabet:
        dtype = np.min_scalar_type(max(self.modulus, self.buckets) - 1).type
        return Alphabet(dtype, range(self.buckets), range(self.modulus))

    @property
    def fixed_messages(self) -> int:
        return self.buckets * self.shares

    def messages(self, shares: NDArray[np.unsignedinteger]) -> NDArray[np.unsignedinteger]:
        pairs = np.empty((*shares.shape, 2), dtype=self.alphabet.dtype)
        pairs[..., 0] = np.arange(self.buckets)
        pairs[..., 1] = shares
        return pairs.reshape(-1, 2)


# Analyzer and its error -----------------------------------------------------------------------


@dataclass(frozen=True)
class BucketSums(Estimator):
    """Adds up all shares of each bucket modulo q."""

    noise: SharedNoise
    modulus: int  # q
    vectors: bool  # whether a message has a share of every bucket

    @property
    def tally_size(self) -> int:
        return self.task.domain

    @property
    def tally_modulus(self) -> int:
        return self.modulus

    @cached_property
    def most_users(self) -> int:
        return self.noise.most_users(1, self.modulus)

    def count(self, payload: NDArray[np.unsignedinteger]) -> NDArray[np.int64]:
        totals = np.zeros(self.tally_size, dtype=np.uint64)
        if self.vectors:
            totals += payload.sum(axis=0, dtype=np.uint64)
        else:
            np.add.at(totals, payload[:, 0], payload[:, 1].astype(np.uint64))
        return self._modulo(totals)

    def _modulo(self, totals: NDArray[np.uint64]) -> NDArray[np.int64]:
        # Totals are computed modulo 2^64, and q divides 2^64.
        return (totals % np.uint64(self.modulus)).astype(np.int64)

    def simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        noise = self.noise.totals(held.users, source, self.tally_size)
        return self._modulo((held.counts + noise).view(np.uint64))

    def unbiased(self, tally: Tally, source: Source | None = None) -> Answer:
        return with_known_total(read(tally.counts, self.modulus, tally.users), tally.users)

    def shifts(self, users: int, alphabet: Alphabet) -> Shifts:
        # One share can change the sum of a bucket to any number modulo q. Everybody sends a share
        # of every bucket, so one person can change all sums. The answer for a bucket is largest if
        # the sum of this bucket is largest and all other sums are smallest.
        own = 1 / self.task.domain
        apart = (self.modulus - 1) * (1 - own)
        return Shifts(0.0, 0.0, everywhere=True, answers=(users * own - apart, users * own + apart))

    def standard_error(self, users: int, held: Holding | None) -> float:
        return self.error_law(users, None).standard_error

    def error_law(self, users: int, unbiased: Answer) -> KnownTotalError:
        return KnownTotalError(self.task.domain, self.noise.error(users))


# Calibration and privacy ----------------------------------------------------------------------


@dataclass(frozen=True)
class SplitAndMixHistogram(SecretSharing):
    name = "shuffle.split-and-mix"
    tasks: ClassVar[tuple[type[Task], ...]] = (Histogram,)

    levels = 1  # a person adds 0 or 1 to each sum
    changed = 2  # a person who moves to another bucket changes two sums

    # With vectors, people send the fewest messages. With buckets, they send more messages, but
    # fewer bits.
    sharing: Literal["vectors", "buckets"] = "vectors"

    @classmethod
    def settings_within(
        cls, task: Task, budget: Budget, crowd: Crowd, limits: Limits
    ) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"sharing": "buckets"}  # with vectors, messages may be too long

    def check_options(self) -> None:
        checks.choice("sharing", self.sharing, ("vectors", "buckets"))

    @property
    def rate(self) -> Fraction:
        """The rate ε/2 of the noise."""
        return Fraction(self.budget.epsilon) / 2

    @property
    def numbers(self) -> int:
        return self.task.domain if self.sharing == "vectors" else 1

    @property
    def changed_secrets(self) -> int:
        return 1 if self.sharing == "vectors" else 2

    def _too_small_rate(self) -> Infeasible:
        least = float(2 * LEAST_GAMMA)
        return Infeasible(
            f"{self.name} needs an epsilon of at least {short(least)} for a histogram, "
            f"got {short(self.budget.epsilon)}",
            nearest={"epsilon": least},
        )

    @cached_property
    def randomizer(self) -> BucketSecrets:
        buckets = self.task.domain
        if buckets * self.shares > _MOST_NUMBERS:
            other = "; sharing='buckets' needs fewer" if self.sharing == "vectors" else ""
            raise Infeasible(
                f"{self.name} needs {buckets * self.shares} shares per person for {buckets} "
                f"buckets and sharing={self.sharing!r}, but at most {_MOST_NUMBERS} are allowed"
                f"{other}"
            )
        check_curve(self)
        kind = VectorShares if self.sharing == "vectors" else BucketShares
        return kind(buckets, self.modulus, self.shares, self.noise)

    @cached_property
    def estimator(self) -> BucketSums:
        return BucketSums(self.task, self.shared_noise, self.modulus, self.sharing == "vectors")

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"shares": self.shares, "modulus": self.modulus, "sigma": self.sigma}

    @property
    def sum_curve(self) -> SymmetricCurve:
        return moved_together_curve(self.budget.epsilon, 2)
