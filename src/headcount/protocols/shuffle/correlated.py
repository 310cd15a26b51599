"""The correlated-noise count (Ghazi, Kumar, Manurangsi, Pagh 2020).

Notation    x ∈ {0,1} is a person's value. n is the number of people; h of them are honest.
            ε₊ = −ln b is the rate of the noise messages +1, and ε₋ = −ln a is the rate of the noise
            messages −1. The noise also has NB(r, p) pairs of +1 and −1, which are called the flood
            (see `correlated_noise`). HS is the hockey-stick divergence.
Randomizer  Send x messages +1. Also send noise messages +1 and −1, which mostly cancel (see
            `correlated_noise`).
Analyzer    (number of +1) − (number of −1), minus the mean of the noise.
Privacy     Let f be the law of the sum of independent variables NB(1, ab) and NB(r, p). Then
            δ = (1−b)/(1−ab)·HS_{ε−ε₋}(f ‖ f moved by 1) in one direction. In the other direction δ
            is 0 for ε ≥ ε₊, whatever the flood is. So the protocol uses ε₊ = ε. Only ε₋, which is
            the option `epsilon1`, must be less than ε, to leave a part of ε for the flood. The two
            views are the same for all neighbors, up to a shift, so this δ is exact. With
            `calibration="paper"`, the noise is that of a lemma of Ghazi, Kumar, Manurangsi, Pagh,
            Sinha 2021: ε₊ = ε₋, r = 3(1 + ln(1/δ)), p = e^{−0.2(ε−ε₋)}.
Error       The variance is (n/h)(b/(1−b)² + a/(1−a)²). If ε₊ = ε₋ and everybody is honest, the
            error is two-sided geometric noise.
Bundles     A bundle holds all messages of one person, each in its own slot. With `max_slots=K`,
            nobody ever has more than K messages. With `minimize="slots"`, K is the smallest number
            of slots that allows the wanted error. `capped_noise` describes the noise of these
            options.
Messages    x + (b/(1−b) + a/(1−a) + 2rp/(1−p))/h messages of 1 bit on average. Only a person
            with x = 0 may send no message at all, so the local ε is infinite. The options of
            `correlated_protocol` trade messages for error.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.laws import Law
from headcount.core import checks
from headcount.core.budget import Budget, Crowd, Trust
from headcount.core.bundles import RESERVED
from headcount.core.cached import cached_property
from headcount.core.errors import Infeasible, InvalidParameter
from headcount.core.estimate import Answer, ErrorLaw
from headcount.core.estimator import Estimator
from headcount.core.guarantee import Guarantee, PrivacyCurve
from headcount.core.influence import Shifts
from headcount.core.limits import Limits
from headcount.core.messages import Alphabet, Messages
from headcount.core.promise import promise
from headcount.core.protocol import Calibration
from headcount.core.randomizer import BundleLaw, Randomizer, bundle_of
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Holding, Task
from headcount.core.tasks.count import Count
from headcount.protocols.capped_noise import (
    LEAST_CAPPED_SLOTS,
    MOST_CAPPED_SLOTS,
    CappedShares,
    SlotSearch,
)
from headcount.protocols.correlated_noise import CorrelatedNoise, cheapest_flood
from headcount.protocols.correlated_protocol import WISHES, CorrelatedProtocol, NoiseFamily

_ROOM = 2.0**-24  # the part of ε that is left unused, to cover the rounding errors of all laws
_PEOPLE = 1 << 15  # messages are made for this many people at a time, so that they fit into caches
_SIGNS = np.tile(np.array([1, -1], dtype=np.int8), _PEOPLE)


# Randomizer -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class CountRandomizer(Randomizer):
    """Sends x messages +1, and noise messages +1 and −1."""

    noise: CorrelatedNoise

    alphabet = Alphabet(np.int8, range(-1, 2, 2), dummy=(0,))

    @property
    def messages_per_user(self) -> float:
        return self.noise.messages_per_user(cells=1)

    def send(self, encoded: NDArray[np.uint8], source: Source) -> Messages:
        ones = np.ones(int(np.count_nonzero(encoded)), dtype=np.int8)
        own = Messages(ones, len(encoded), encoded)
        people, copies = self.noise.draw(source, len(encoded))
        # For each person who has noise, the messages +1 come before the messages −1.
        signs = np.tile(np.array([1, -1], dtype=np.int8), len(people))
        return own.plus(np.repeat(people, copies.sum(axis=1)), np.repeat(signs, copies.ravel()))

    def law(self, value: int) -> BundleLaw | None:
        shares = self.noise.share_law()
        return None if shares is None else _bundles(shares, value)

    def fewer_messages(self, encoded: NDArray[np.uint8]) -> int:
        return 1 - int(encoded[0])

    def overflow(self, slots: int) -> float:
        return self._noise_messages.above(slots - 1)

    @cached_property
    def _noise_messages(self) -> Law:
        return self.noise.number_law(cells=1)


@dataclass(frozen=True)
class CappedCountRandomizer(Randomizer):
    """Sends x messages +1, and at most K − 1 messages of noise."""

    noise: CappedShares

    alphabet = CountRandomizer.alphabet

    @property
    def messages_per_user(self) -> float:
        return self.noise.messages_per_user

    @property
    def instructions(self) -> Mapping[str, Any]:
        return {"kind": "signs", **self.noise.instructions}

    def send(self, encoded: NDArray[np.uint8], source: Source) -> Messages:
        counts = np.empty(len(encoded), dtype=np.uint8)
        payload = [np.zeros(0, dtype=np.int8)]
        for start in range(0, len(encoded), _PEOPLE):
            people = slice(start, start + _PEOPLE)
            held = encoded[people]
            copies = self.noise.copies[self.noise.table.sample(source, len(held))]
            # For each person, the messages +1 come before the messages −1.
            each = copies.view(np.uint8).reshape(-1, 2)
            each[:, 0] += held
            np.add(each[:, 0], each[:, 1], out=counts[people])
            payload.append(np.repeat(_SIGNS[: each.size], each.ravel()))
        return Messages(np.concatenate(payload), len(encoded), counts)

    def law(self, value: int) -> BundleLaw:
        return _bundles(self.noise.law(), value)

    fewer_messages = CountRandomizer.fewer_messages

    def overflow(self, slots: int) -> float:
        return self.noise.above(slots - 1)


def _bundles(shares: Mapping[tuple[int, int], Fraction], value: int) -> BundleLaw:
    """The law of a bundle. `shares` is the law of the numbers of +1 and −1 in its noise."""
    out: dict[Any, Fraction] = {}
    for (plus, minus), chance in shares.items():
        out[bundle_of([(-1, minus), (1, plus + value)])] = chance
    return out


# Analyzer and its error -----------------------------------------------------------------------


@dataclass(frozen=True)
class SignedCounts(Estimator):
    """Computes (number of +1) − (number of −1), minus the mean of the noise."""

    noise: CorrelatedNoise | CappedShares

    @property
    def tally_size(self) -> int:
        return 2

    def count(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        plus = np.count_nonzero(payload > 0)
        return np.array([plus, len(payload) - plus])

    def simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        tally = self.noise.totals(held.users, self.tally_size // 2, source)
        tally[:, 0] += self.true_counts(held)
        return tally.ravel()

    def unbiased(self, tally: Tally, source: Source | None = None) -> Answer:
        return float(int(tally.counts[0] - tally.counts[1]) - tally.users * self.noise.mean)

    def shifts(self, users: int, alphabet: Alphabet) -> Shifts:
        # For every person, the analyzer subtracts the mean of one person's noise.
        return Shifts(most=1.0, least=-1.0, person=-float(self.noise.mean))

    def standard_error(self, users: int, held: Holding | None) -> float:
        return self.noise.error(users).standard_error

    def error_law(self, users: int, unbiased: Answer) -> ErrorLaw:
        return self.noise.error(users)

    def true_counts(self, held: Holding) -> NDArray[np.int64]:
        """The number of people in each cell."""
        return held.counts[1:]


# Calibration and privacy ----------------------------------------------------------------------


@lru_cache(maxsize=256)
def _calibrate(
    crowd: Crowd, budget: Budget, epsilon1: float, cells: int, calibration: Calibration
) -> CorrelatedNoise | None:
    """Noise with this ε1 whose exact δ is within the budget; None if there is none."""
    a, most = math.exp(-epsilon1), budget.delta * (1 - RESERVED)
    # If there are several cells, a person who moves changes two of them.
    touched = min(cells, 2)
    spare = budget.epsilon - touched * epsilon1
    if not (0 < a < 1 and spare > 0 and budget.delta):
        return None

    if calibration == "paper":
        r = 3 * (1 + math.log(touched / budget.delta))
        noise = CorrelatedNoise(crowd.honest, a, a, r, math.exp(-0.2 * spare / touched))
        return noise if noise.delta(budget.epsilon, touched, most) <= most else None
    b = a if touched > 1 else math.exp(-_plus_rate(budget.epsilon))
    return cheapest_flood(crowd.honest, b, a, budget.epsilon, most, changed=touched)


def _plus_rate(epsilon: float) -> float:
    """The rate ε₊ of the noise messages +1 in a count: ε minus a margin for rounding errors."""
    return epsilon * (1 - _ROOM)


@dataclass(frozen=True)
class Correlated(CorrelatedProtocol[CorrelatedNoise]):
    name = "shuffle.correlated"
    trust = Trust.SHUFFLE
    tasks: ClassVar[tuple[type[Task], ...]] = (Count,)

    # The largest number of messages that anybody may have. If it is given, the protocol uses the
    # noise with the smallest error that its search finds, unless `minimize` is "slots".
    max_slots: int | None = None
    # The quantity that is minimized for the wanted error: a person's expected number of messages,
    # or the number of slots of a bundle. Nobody can have more messages than slots.
    minimize: Literal["messages", "slots"] = "messages"

    @classmethod
    def settings_within(
        cls, task: Task, budget: Budget, crowd: Crowd, limits: Limits
    ) -> Iterator[dict[str, Any]]:
        if limits.slots is None or limits.slots > MOST_CAPPED_SLOTS:
            yield from super().settings_within(task, budget, crowd, limits)
        if limits.slots is not None:
            yield {"max_slots": min(max(limits.slots, LEAST_CAPPED_SLOTS), MOST_CAPPED_SLOTS)}

    @property
    def cells(self) -> int:
        """The number of cells in which people are counted."""
        return 1

    @property
    def family(self) -> NoiseFamily[CorrelatedNoise]:
        cells = self.cells

        def calibrate(epsilon1: float) -> CorrelatedNoise | None:
            return _calibrate(self.crowd, self.budget, epsilon1, cells, self.calibration)

        return NoiseFamily(
            self.crowd,
            most_epsilon1=self.budget.epsilon / min(cells, 2),
            calibrate=calibrate,
            messages=lambda noise: noise.messages_per_user(cells),
            one_sided=cells == 1 and self.calibration == "exact",
        )

    def check_options(self) -> None:
        super().check_options()
        checks.choice("minimize", self.minimize, ("messages", "slots"))
        if self.max_slots is not None:
            slots = checks.whole(
                "max_slots", self.max_slots, low=LEAST_CAPPED_SLOTS, high=MOST_CAPPED_SLOTS
            )
            object.__setattr__(self, "max_slots", slots)
            if self.wishes:
                raise InvalidParameter(
                    f"at most one of {', '.join(WISHES)}, max_slots may be given, "
                    f"got {', '.join(self.wishes)}, max_slots"
                )
        if self.minimize == "slots" and self.wishes not in ([], ["error_ratio"]):
            raise InvalidParameter(
                f'`{self.wishes[0]}` must not be given with minimize="slots", which takes '
                "only error_ratio"
            )

    @property
    def capped(self) -> bool:
        """Whether the noise is limited so that nobody ever has more messages than slots."""
        return self.max_slots is not None or self.minimize == "slots"

    @cached_property
    def capped_noise(self) -> CappedShares:
        """The noise for these options, with which nobody has more than K messages."""
        self.check_delta()
        if self.calibration == "paper":
            raise Infeasible(
                f"the paper's noise for {self.name} has no largest number of slots; the exact "
                "calibration has one"
            )
        search = SlotSearch(self.name, self.budget, self.crowd, self.cells)
        if self.minimize == "messages" and self.max_slots is not None:
            return search.within(self.max_slots)
        return search.least(self.error_ratio, self.max_slots)

    @property
    def shares(self) -> CorrelatedNoise | CappedShares:
        """The noise for these options, capped or not."""
        return self.capped_noise if self.capped else self.noise

    @cached_property
    def randomizer(self) -> Randomizer:
        if self.capped:
            return CappedCountRandomizer(self.capped_noise)
        return CountRandomizer(self.noise)

    @cached_property
    def estimator(self) -> SignedCounts:
        return SignedCounts(self.task, self.shares)

    @cached_property
    def slots(self) -> int:
        return self.capped_noise.slots if self.capped else super().slots

    @property
    def parameters(self) -> Mapping[str, float]:
        if self.capped:
            law = self.capped_noise.noise
            return {
                "slots": law.slots,
                "epsilon_plus": law.plus_rate,
                "epsilon_minus": law.minus_rate,
                "jump_scale": law.scale,
                "longest_jump_factor": law.last,
            }
        noise = self.noise
        return {
            "epsilon1": -math.log(noise.a),
            **({"epsilon_plus": -math.log(noise.b)} if noise.b != noise.a else {}),
            "r": noise.r,
            "flood_p": noise.p,
            "flood_pairs": noise.flood_pairs * self.crowd.users / self.crowd.honest,
        }

    @cached_property
    def curve(self) -> PrivacyCurve:
        if self.capped:
            return self.capped_noise.curve(self.budget)
        return self.noise.curve(min(self.cells, 2))

    @cached_property
    def guarantee(self) -> Guarantee:
        exact = self.calibration == "exact"
        return promise(
            self,
            "joint law of the numbers of +1 and −1"
            if exact
            else "Ghazi, Kumar, Manurangsi, Pagh and Sinha 2021",
            delta=self.curve.delta(self.budget.epsilon) if exact else self.budget.delta,
            exact=exact and (not self.capped or self.capped_noise.crowds.exact),
        )

    @property
    def local_epsilon(self) -> float:
        return math.inf
