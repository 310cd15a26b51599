"""Boxes that people tick, with fake users.

Fake users are noise messages that look as if more people took part. They were proposed by Luo,
Wang, Yi 2022 and Cheu, Zhilyaev 2022.

Notation    There are m boxes, and each person ticks at most k of them. n is the number of people; h
            of them are honest. μ is the expected number of noise messages per box that all honest
            people together send.
Randomizer  Send a message for each ticked box, and Poisson(mμ/h) noise messages, each a uniform
            box. After shuffling, the messages of one person are not linked.
Analyzer    The number of messages of each box, minus the mean nμ/h of the noise.
Privacy     The noise of the honest people is Poisson(μ) in every box, independently. Replacing one
            value changes up to min(2k, m) boxes: up to k ticks are added, and up to k others are
            removed. δ is the largest divergence over all possible numbers of added ticks among the
            changed boxes (see `accounting.moved_pairs`). The computation rounds δ up by at most
            0.03 %.
Error       The error of each box is Poisson(nμ/h) minus its mean, for all data.
Bundles     Every bundle has room for k ticks, even if the person ticks fewer boxes. So the size of
            a bundle does not tell the number of ticks.
Messages    At most k + mμ/h messages on average, each with a box. The ticked boxes are among these
            messages, so the local ε is infinite.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headcount.accounting import laws
from headcount.accounting.calibration import near_least_private
from headcount.accounting.moved_pairs import boxes_curve
from headcount.core.budget import Budget, Trust
from headcount.core.bundles import RESERVED
from headcount.core.cached import cached_property
from headcount.core.guarantee import Guarantee, NearCurve, PrivacyCurve
from headcount.core.messages import Alphabet, Messages
from headcount.core.promise import check_curve, promise
from headcount.core.protocol import Protocol
from headcount.core.randomizer import MOST_BUNDLES, RARE, BundleLaw
from headcount.core.source import Source
from headcount.core.task import Holding, Task
from headcount.core.tasks.boxes import Boxes, box_counts, ticks_of
from headcount.protocols.shuffle.fake_users import (
    GRAIN,
    MOST_NOISE,
    NoisyTotals,
    PoissonRandomizer,
    noise_per_cell,
)
from headcount.randomness.draws import uniform

# Randomizer -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class TickRandomizer(PoissonRandomizer):
    """Sends the ticked boxes, and noise messages, each a uniform box."""

    ticks: int  # k

    @property
    def own_messages(self) -> int:
        return self.ticks

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet.numbers(self.cells, dummies=True)

    def fewer_messages(self, encoded: NDArray[Any]) -> int:
        return self.ticks - int(ticks_of(encoded)[0])

    @property
    def own_instructions(self) -> Mapping[str, Any]:
        return {"kind": "ticks", "most": self.ticks}

    def send(self, encoded: NDArray[Any], source: Source) -> Messages:
        codes = encoded.astype(np.uint64)
        ticked = (codes[:, None] >> np.arange(self.cells, dtype=np.uint64)) & np.uint64(1)
        people, boxes = np.nonzero(ticked)
        senders = self.noise_senders(len(encoded), source)
        noise = uniform(source, len(senders), self.cells)
        dtype = self.alphabet.dtype
        counts = np.bincount(people, minlength=len(encoded))
        return Messages(boxes.astype(dtype), len(encoded), counts).plus(
            senders, noise.astype(dtype)
        )

    def law(self, value: int) -> BundleLaw | None:
        boxes = self.cells
        own = [value >> box & 1 for box in range(boxes)]
        numbers = {number: p for number, p in self.share.law.items() if p >= RARE}
        if math.comb(max(numbers) + boxes, boxes) > MOST_BUNDLES:
            return None
        out: dict[Any, Fraction] = {}
        for number, chance in numbers.items():
            for others in combinations_with_replacement(range(boxes), number):
                noise = [others.count(box) for box in range(boxes)]
                rows = math.factorial(number) // math.prod(map(math.factorial, noise))
                if (share := chance * Fraction(rows, boxes**number)) >= RARE:
                    copies = [mine + more for mine, more in zip(own, noise, strict=True)]
                    out[tuple(pair for pair in enumerate(copies) if pair[1])] = share
        return out


# Analyzer and its error -----------------------------------------------------------------------


@dataclass(frozen=True)
class NoisyBoxes(NoisyTotals):
    """Subtracts the mean of the noise from the number of messages of every box."""

    task: Boxes

    @property
    def tally_size(self) -> int:
        return len(self.task.labels)

    def totals(self, held: Holding) -> NDArray[np.int64]:
        return box_counts(held.values, self.tally_size, held.counts)


# Calibration and privacy ----------------------------------------------------------------------


@lru_cache(maxsize=256)
def _least_noise(budget: Budget, boxes: int, ticks: int) -> Fraction | None:
    """A mean μ, nearly the least, whose δ is within the budget. None if there is no such mean."""

    def delta_at(noise: int) -> float:
        return boxes_curve(laws.poisson(Fraction(noise, GRAIN)), boxes, ticks).delta(budget.epsilon)

    allowed = budget.delta * (1 - RESERVED)
    noise = near_least_private(delta_at, allowed, start=GRAIN, stop=MOST_NOISE * GRAIN)
    return None if noise is None else Fraction(noise, GRAIN)


@dataclass(frozen=True)
class FakeUserBoxes(Protocol):
    name = "shuffle.fake-user-boxes"
    trust = Trust.SHUFFLE
    tasks: ClassVar[tuple[type[Task], ...]] = (Boxes,)

    task: Boxes

    def __post_init__(self) -> None:
        super().__post_init__()
        check_curve(self)

    @cached_property
    def noise(self) -> Fraction:
        """The expected number μ of noise messages per box."""
        boxes, ticks = len(self.task.labels), self.task.at_most
        return noise_per_cell(self, boxes, lambda budget: _least_noise(budget, boxes, ticks))

    @cached_property
    def randomizer(self) -> TickRandomizer:
        share = self.noise / self.crowd.honest
        return TickRandomizer(len(self.task.labels), share, self.task.at_most)

    @cached_property
    def estimator(self) -> NoisyBoxes:
        return NoisyBoxes(self.task, self.noise / self.crowd.honest)

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"noise_per_box": float(self.noise)}

    @cached_property
    def curve(self) -> PrivacyCurve:
        variation = self.crowd.honest * self.randomizer.share.total_variation
        known = boxes_curve(laws.poisson(self.noise), len(self.task.labels), self.task.at_most)
        return NearCurve(known, variation)

    @cached_property
    def guarantee(self) -> Guarantee:
        delta = self.curve.delta(self.budget.epsilon)
        return promise(self, "law of all boxes that change", delta=delta, exact=False)

    @property
    def local_epsilon(self) -> float:
        return math.inf
