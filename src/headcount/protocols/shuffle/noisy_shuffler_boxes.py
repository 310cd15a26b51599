"""Boxes that people tick, with noise that the shuffler adds.

This is the augmented shuffle model (Murakami, Sei, Eriguchi 2025), with the noise of
`central.cube`.

Notation    There are m boxes, and each person ticks at most k of them. z is the noise of all boxes,
            and N(z) is its size (see `accounting.ball_noise`). J is the largest size that the noise
            may have.
Randomizer  Send k messages, encrypted for the analyzer: the ticked boxes, and then fillers. So the
            number of messages does not tell the number of ticks.
Shuffler    Draw z with a probability proportional to e^{−ε·N(z)} among all z with N(z) ≤ J. Add
            J + z_b messages of each box b, and kJ − Σz_b fillers. Mix all messages. The number of
            fillers is never negative, since Σz_b ≤ k·N(z).
Analyzer    Subtract J from the number of messages of each box.
Privacy     The total number of messages is always the same. So the number of fillers follows from
            the noisy counts of the boxes, and the view reveals no more than these counts. If one
            value is replaced, the noise that leads to the same view changes its size by at most 1.
            δ is the probability that the dummies cannot make up for this change, because the size
            of the noise would exceed J. J is the least integer with which δ is within the budget. δ
            is exact for the noise that is drawn, unless there are very many boxes with a limit on
            ticks (see `accounting.cut_ball`). Only the dummies hide people. So the guarantee of a
            person needs no other honest people, and holds against the analyzer and all other people
            together. The shuffler knows z. It learns the exact answer once the noisy answer is
            published.
Error       Unbiased. The variance of a box is that of z_b for all data. This variance is a little
            less than that of `central.cube`. The protocol needs δ > 0.
Messages    k messages per person, and (m + k)·J dummies in total. A person's messages contain the
            ticks, so the local ε is infinite.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.ball_noise import BallNoise, ball_size
from headcount.accounting.cut_ball import MOST_RADIUS, CutBall, least_cut_ball
from headcount.accounting.laws import Law
from headcount.core.budget import MOST_EPSILON, Trust
from headcount.core.cached import cached_property
from headcount.core.errors import Infeasible
from headcount.core.estimate import Answer
from headcount.core.estimator import Estimator
from headcount.core.guarantee import Guarantee, PrivacyCurve
from headcount.core.influence import Shifts
from headcount.core.lattice import LatticeLaw
from headcount.core.messages import Alphabet, Messages
from headcount.core.promise import promise
from headcount.core.protocol import Protocol
from headcount.core.randomizer import MOST_BUNDLES, BundleLaw, Randomizer, bundle_of
from headcount.core.source import Source
from headcount.core.table import short
from headcount.core.tally import Tally
from headcount.core.task import Holding, Task
from headcount.core.tasks.boxes import Boxes, box_counts
from headcount.protocols.dummies import Copies, Dummies, DummyShuffler
from headcount.protocols.shuffle.noisy_shuffler import SHUFFLER_KNOWS
from headcount.randomness.ball_noise import in_cut_ball

# Randomizer -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class FilledTicks(Randomizer):
    """Sends the ticked boxes, and fillers until there are k messages. The message m is a filler."""

    boxes: int  # m
    ticks: int  # k

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet.numbers(self.boxes + 1)

    @property
    def fixed_messages(self) -> int:
        return self.ticks

    @property
    def instructions(self) -> Mapping[str, Any]:
        return {"kind": "filled-ticks", "boxes": self.boxes, "ticks": self.ticks}

    def send(self, encoded: NDArray[Any], source: Source) -> Messages:
        users, dtype = len(encoded), self.alphabet.dtype
        payload = np.full((users, self.ticks), self.boxes, dtype=dtype)
        sent = np.zeros(users, dtype=np.int64)
        codes = encoded.astype(np.uint64)
        for box in range(self.boxes):
            people = np.flatnonzero((codes >> np.uint64(box)) & np.uint64(1))
            payload[people, sent[people]] = box
            sent[people] += 1
        each = np.broadcast_to(np.int64(self.ticks), users)
        return Messages(payload.reshape(-1), users, each)

    def law(self, value: int) -> BundleLaw:
        ticked = [box for box in range(self.boxes) if value >> box & 1]
        fillers = (self.boxes, self.ticks - len(ticked))
        return {bundle_of([*((box, 1) for box in ticked), fillers]): Fraction(1)}


# Shuffler -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BoxDummies(Dummies):
    """J + z_b dummies of each box, and kJ − Σz_b fillers."""

    cut: CutBall

    @property
    def buckets(self) -> int:
        return self.cut.noise.boxes + 1

    @property
    def most(self) -> int:
        return 2 * self.cut.radius

    @property
    def total(self) -> int:
        return (self.cut.noise.boxes + self.cut.noise.ticks) * self.cut.radius

    def draw(self, source: Source) -> NDArray[np.int64]:
        copies = self.cut.radius + in_cut_ball(source, self.cut)
        return np.append(copies, self.total - copies.sum())

    def law(self) -> Mapping[Copies, Fraction] | None:
        return _law(self)

    @property
    def one(self) -> Law:
        return self.cut.one

    @property
    def variance(self) -> float:
        return self.cut.variance

    @property
    def curve(self) -> PrivacyCurve:
        return self.cut.curve

    @property
    def likeliest_end(self) -> Fraction:
        return self.cut.chance(self.cut.radius)


@lru_cache(maxsize=32)
def _law(dummies: BoxDummies) -> Mapping[Copies, Fraction] | None:
    cut = dummies.cut
    boxes, radius = cut.noise.boxes, cut.radius
    if (2 * radius + 1) ** boxes > MOST_BUNDLES:
        return None
    every = np.array(list(product(range(-radius, radius + 1), repeat=boxes)))
    sizes = ball_size(every, cut.noise.ticks)
    copies = np.column_stack([every + radius, dummies.total - (every + radius).sum(axis=1)])
    return {
        tuple(row): cut.chance(size)
        for row, size in zip(copies.tolist(), sizes.tolist(), strict=True)
        if size <= radius
    }


# Analyzer and its error -----------------------------------------------------------------------


@dataclass(frozen=True)
class CutBallError:
    """The error of one box, which is its noise z_b."""

    cut: CutBall

    @property
    def standard_error(self) -> float:
        return math.sqrt(self.cut.variance)

    def margins(self, confidence: float) -> tuple[float, float]:
        low, high = self.cut.one.central_interval(confidence)
        return float(-low), float(high)

    def lattice(self) -> LatticeLaw:
        return self.cut.one.lattice(0)


@dataclass(frozen=True)
class FilledBoxes(Estimator):
    """Counts the messages of each box, and subtracts the mean number of dummies."""

    task: Boxes
    cut: CutBall

    @property
    def tally_size(self) -> int:
        return len(self.task.labels)

    def count(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        counts = np.bincount(payload, minlength=self.tally_size + 1)
        return counts[: self.tally_size].astype(np.int64)

    def simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        return box_counts(held.values, self.tally_size, held.counts)

    def unbiased(self, tally: Tally, source: Source | None = None) -> Answer:
        return (tally.counts - self.cut.radius).astype(np.float64)

    def shifts(self, users: int, alphabet: Alphabet) -> Shifts:
        return Shifts(most=1.0, least=0.0, places=(0, 1))

    def standard_error(self, users: int, held: Holding | None) -> float:
        return self.error_law(users, None).standard_error

    def error_law(self, users: int, unbiased: Answer) -> CutBallError:
        return CutBallError(self.cut)


# Calibration and privacy ----------------------------------------------------------------------


@dataclass(frozen=True)
class NoisyShufflerBoxes(Protocol):
    name = "shuffle.noisy-shuffler"
    trust = Trust.SHUFFLE
    tasks: ClassVar[tuple[type[Task], ...]] = (Boxes,)

    task: Boxes

    def check_options(self) -> None:
        if not self.budget.delta:
            raise Infeasible(
                f"{self.name} needs delta above 0: noise messages can only be added, so extreme "
                "noise reveals a value",
                nearest={"delta": 1e-9},
            )

    def _least(self, epsilon: float) -> CutBall | None:
        boxes = len(self.task.labels)
        # The usual size of the noise is about m/ε, which must not exceed the largest possible J.
        if boxes > epsilon * MOST_RADIUS:
            return None
        noise = BallNoise(Fraction(epsilon), boxes, self.task.at_most)
        return least_cut_ball(noise, self.budget.delta)

    @cached_property
    def cut(self) -> CutBall:
        """The noise with the smallest J that the budget allows."""
        found = self._least(self.budget.epsilon)
        if found is not None:
            return found
        nearest = 2 * max(self.budget.epsilon, len(self.task.labels) / MOST_RADIUS)
        while nearest < MOST_EPSILON and self._least(nearest) is None:
            nearest *= 2
        raise Infeasible(
            f"{self.name} needs more than {2 * MOST_RADIUS:,} dummies in a box for "
            f"epsilon={short(self.budget.epsilon)} and delta={short(self.budget.delta)}",
            nearest={"epsilon": nearest},
        )

    @cached_property
    def randomizer(self) -> FilledTicks:
        return FilledTicks(len(self.task.labels), self.task.at_most)

    @cached_property
    def shuffler(self) -> DummyShuffler:
        return DummyShuffler(dummies=BoxDummies(self.cut), each=self.task.at_most)

    @cached_property
    def estimator(self) -> FilledBoxes:
        return FilledBoxes(self.task, self.cut)

    @property
    def parameters(self) -> Mapping[str, float]:
        dummies = self.shuffler.dummies
        return {"dummies": dummies.most, "all_dummies": dummies.total}

    @property
    def curve(self) -> PrivacyCurve:
        return self.cut.curve

    @cached_property
    def guarantee(self) -> Guarantee:
        return promise(
            self,
            "law of the dummies",
            delta=self.cut.delta,
            exact=self.cut.is_exact,
            honest=1,
            relies_on=SHUFFLER_KNOWS,
        )

    @property
    def local_epsilon(self) -> float:
        return math.inf
