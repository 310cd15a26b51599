"""The sum of numbers, with noise that the shuffler adds.

Notation    The levels are 0, …, L (see `fixed_point`). n is the number of people.
Randomizer  A person sends their level in a fixed number of messages, without noise. As bits: L
            bits, whose number of ones is the level. As digits: one message for each of the b binary
            digits of the level, with the digit and its place. As shares: m numbers modulo q that
            add up to the level.
Shuffler    Add noise messages, and mix all messages. As bits: T bits, of which Z are ones. Z is
            truncated geometric of rate ε/L on 0, …, T. As digits: the same kind of noise for each
            place j, with its own T_j and rate ε_j. The rates are in proportion to 4^{j/3} and add
            up to ε. As shares: the shares of k dummy people, whose numbers add up to two-sided
            geometric noise of rate ε/L.
Analyzer    Add up the levels that all messages stand for, and subtract the mean of the noise.
Privacy     The shuffler adds the noise, so the guarantee of a person needs no other honest people:
            all others may tell the analyzer what they sent. As bits: the view is the sum of all
            levels plus Z. So δ(ε) = P(Z < L), and the curve is exact. As digits: the view is the
            number of ones of each place, and δ(ε) = 1 − Π(1 − P(Z_j = 0)). This δ is exact if
            people can hold two levels whose digits all differ. As shares: δ is an upper bound (see
            `noisy_shares`). Whoever knows both the answer and the shuffler's noise knows the true
            sum. So the shuffler learns the true sum once the answer is published.
Error       Unbiased. As bits and as shares: the error of a curator who adds geometric noise of rate
            ε/L, plus rounding. As digits: the noise is about twice as large.
Messages    L bits, b digits or m shares. A lost bit changes the sum by at most one level, and a
            lost digit of place j changes it by at most 2^j levels. A lost share would make the sum
            meaningless, so a tally with a wrong number of messages is refused. If the shuffler and
            the analyzer collude, nothing protects a value: the local ε is infinite.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal, TypeAlias

from headcount.accounting.geometric import moved_steps_curve
from headcount.accounting.truncated_geometric import (
    MOST,
    ShiftCurve,
    TruncatedGeometric,
    least_most,
)
from headcount.core import checks
from headcount.core.budget import Budget, Crowd, Trust
from headcount.core.cached import cached_property
from headcount.core.errors import Infeasible, InvalidParameter
from headcount.core.guarantee import Guarantee, NearCurve, PrivacyCurve
from headcount.core.limits import Limits
from headcount.core.promise import check_curve, promise
from headcount.core.protocol import Protocol
from headcount.core.randomizer import Randomizer
from headcount.core.shuffler import Shuffler
from headcount.core.table import short
from headcount.core.task import Task
from headcount.core.tasks.bounded import MOST_LEVELS, Mean, Sum
from headcount.protocols.fixed_point import Grid
from headcount.protocols.levels import NoisySum, Rounding, bounded, check_levels, enough_levels
from headcount.protocols.secret_sharing import (
    MOST_MODULUS,
    ShareRandomizer,
    modulus_for,
    security,
    shares_needed,
    sigma_for,
)
from headcount.protocols.shuffle.noisy_bits import (
    BitRandomizer,
    BitShuffler,
    BitSum,
    DigitCurve,
    DigitRandomizer,
    digit_rates,
)
from headcount.protocols.shuffle.noisy_shares import (
    LEAST_DUMMIES,
    MOST_DUMMIES,
    ShareShuffler,
    ShareSum,
    distance,
    dummies_for,
    fewest_messages,
    noise_room,
)
from headcount.protocols.shuffle.noisy_shuffler import SHUFFLER_KNOWS

LevelsAs: TypeAlias = Literal["bits", "digits", "shares"]
_WAYS: tuple[LevelsAs, ...] = ("bits", "digits", "shares")
_FEW_LEVELS = 16  # up to this many levels, levels are sent as bits by default
_MOST_BITS = 2**12
_MOST_DIGITS = 12
# The share of the variance of central noise that rounding may add, if people do not send bits.
_ROUNDING_SHARE: Mapping[LevelsAs, float] = {"digits": 2.0**-6, "shares": 2.0**-8}


@dataclass(frozen=True)
class NoisyShufflerSum(Protocol):
    name = "shuffle.noisy-shuffler"
    trust = Trust.SHUFFLE
    tasks: ClassVar[tuple[type[Task], ...]] = (Sum, Mean)

    # How a level is sent. Bits have the error of central noise, but there are many of them. Digits
    # are few, and have about twice the error. Shares are few and have the error of central noise,
    # but one lost or wrong share spoils the sum. The default is bits for at most 16 levels, and
    # shares for more. Real numbers are sent as shares, unless `levels` is at most 16.
    levels_as: LevelsAs | None = None
    # The number of levels. By default, each whole number is a level, unless the range has too many.
    # For real numbers, there are enough levels to make rounding small, or about ε√n levels with
    # bits.
    levels: int | None = None
    # The number of dummy people whose shares the shuffler adds. With more of them, people send
    # fewer shares. By default, people and dummy people together send as few shares as possible.
    dummy_people: int | None = None

    @classmethod
    def settings_within(
        cls, task: Task, budget: Budget, crowd: Crowd, limits: Limits
    ) -> Iterator[dict[str, Any]]:
        yield {}
        allowed = limits.fixed
        if allowed >= 1:
            digits = min(allowed, _MOST_DIGITS)
            yield {"levels_as": "bits", "levels": min(allowed, _MOST_BITS)}
            yield {"levels_as": "digits"}
            yield {"levels_as": "digits", "levels": (1 << digits) - 1}
        try:
            shares = cls(task, budget, crowd, levels_as="shares")
        except Infeasible:
            return
        yield {"levels_as": "shares"}
        if 3 <= allowed < shares.messages_per_user:
            people = dummies_for(allowed, shares.modulus, shares.sigma)
            if people is not None:
                yield {"levels_as": "shares", "dummy_people": people}

    def check_options(self) -> None:
        if self.levels_as is not None:
            checks.choice("levels_as", self.levels_as, _WAYS)
        check_levels(self, "levels")
        if self.sent_as == "shares":
            most = MOST_LEVELS
        else:
            most = _MOST_BITS if self.sent_as == "bits" else (1 << _MOST_DIGITS) - 1
        check_levels(self, "levels", most)
        if self.dummy_people is not None:
            if self.sent_as != "shares":
                raise InvalidParameter(
                    "`dummy_people` must be left out unless levels are sent as shares, "
                    f"got {checks.shown(self.dummy_people)}"
                )
            people = checks.whole(
                "dummy_people", self.dummy_people, low=LEAST_DUMMIES, high=MOST_DUMMIES
            )
            object.__setattr__(self, "dummy_people", people)
        if not self.budget.delta:
            raise Infeasible(
                f"{self.name} needs delta above 0: noise messages can only be added, so extreme "
                "noise reveals a value",
                nearest={"delta": 1e-9},
            )

    # Levels -------------------------------------------------------------------------------------

    @property
    def sent_as(self) -> LevelsAs:
        """How a level is sent. This is the option `levels_as`, or its default."""
        if self.levels_as is not None:
            return self.levels_as
        task = bounded(self)
        levels = self.levels or (int(task.span) if task.whole else MOST_LEVELS)
        return "bits" if levels <= _FEW_LEVELS else "shares"

    @cached_property
    def grid(self) -> Grid:
        return Grid(bounded(self), self.levels or self._usual_levels())

    def _usual_levels(self) -> int:
        task, users, epsilon = bounded(self), self.crowd.users, self.budget.epsilon
        if self.sent_as == "bits":
            usual = max(1, min(math.ceil(epsilon * math.sqrt(users)), self._most_bits()))
            # If the range has few whole numbers, it is better not to round them.
            few = task.whole and task.span <= max(usual, _FEW_LEVELS)
            return int(task.span) if few else usual
        usual = enough_levels(task, users, epsilon, _ROUNDING_SHARE[self.sent_as])
        if self.sent_as == "shares" or (task.whole and usual < 1 << _MOST_DIGITS):
            return usual
        # With the same number of digits, more levels make rounding smaller.
        return (1 << min(usual.bit_length(), _MOST_DIGITS)) - 1

    def _most_bits(self) -> int:
        """About the largest L for which the truncated geometric law is not too long.

        The law has T + 1 values, and T/2 is about L·(1 + ln(1/2δ)/ε).
        """
        times = 1 + max(0.0, -math.log(2 * self.budget.delta)) / self.budget.epsilon
        return min(_MOST_BITS, int(0.99 * MOST / (2 * times)))

    # What each party does -----------------------------------------------------------------------

    @property
    def rate(self) -> Fraction:
        """The rate ε/L of noise on the sum of levels."""
        return Fraction(self.budget.epsilon) / self.grid.levels

    @cached_property
    def places(self) -> tuple[TruncatedGeometric, ...]:
        """The law of the number of ones that the shuffler adds at each place of bits or digits."""
        delta = self.budget.delta
        if self.sent_as == "bits":
            return (self._truncated(self.rate, self.grid.levels, delta),)
        digits = self.grid.levels.bit_length()
        # If P(Z_j = 0) ≤ `each` for every place, then 1 − Π(1 − P(Z_j = 0)) ≤ δ.
        each = -math.expm1(math.log1p(-delta) / digits) * (1 - 2.0**-40)
        rates = digit_rates(self.budget.epsilon, digits)
        return tuple(self._truncated(rate, 1, each) for rate in rates)

    def _truncated(self, rate: Fraction, steps: int, delta: float) -> TruncatedGeometric:
        most = least_most(rate, steps, delta)
        if most is None:
            fewer = min(self._most_bits(), self.grid.levels // 2)
            raise Infeasible(
                f"{self.name} would add more than {MOST:,} noise bits for {self.grid.levels:,} "
                f"levels, epsilon={short(self.budget.epsilon)} and "
                f"delta={short(self.budget.delta)}",
                nearest={"levels": fewer} if fewer else None,
            )
        return TruncatedGeometric(rate, most)

    @cached_property
    def modulus(self) -> int:
        """The modulus q of shares. The range of all likely sums of levels and noise fits into half
        of it.
        """
        modulus = modulus_for(self.crowd.users * self.grid.levels + noise_room(self.rate))
        if modulus > MOST_MODULUS:
            raise Infeasible(
                f"{self.name} needs a modulus above 2^63 for {self.crowd.users:,} people, "
                f"{self.grid.levels:,} levels and epsilon={short(self.budget.epsilon)}"
            )
        return modulus

    @property
    def sigma(self) -> float:
        """The σ that the budget requires if levels are sent as shares (see `noisy_shares`)."""
        return sigma_for(self.budget.epsilon, self.budget.delta)

    @cached_property
    def sharers(self) -> int:
        """The number k of dummy people."""
        return self.dummy_people or fewest_messages(self.crowd.users, self.modulus, self.sigma)

    @cached_property
    def sharing(self) -> ShareRandomizer:
        """How a number is split into shares."""
        shares = shares_needed(1 + self.sharers, math.log2(self.modulus), self.sigma)
        return ShareRandomizer(self.modulus, shares)

    @cached_property
    def randomizer(self) -> Rounding:
        sending: Randomizer
        match self.sent_as:
            case "bits":
                sending = BitRandomizer(self.grid.levels)
            case "digits":
                sending = DigitRandomizer(self.grid.levels.bit_length())
            case "shares":
                sending = self.sharing
                check_curve(self)
        return Rounding(self.grid, sending)

    @cached_property
    def shuffler(self) -> Shuffler:
        if self.sent_as == "shares":
            return ShareShuffler(sharing=self.sharing, people=self.sharers, rate=self.rate)
        return BitShuffler(places=self.places, each=self.randomizer.levels.fixed_messages or 0)

    @cached_property
    def estimator(self) -> NoisySum:
        if self.sent_as == "shares":
            return ShareSum(self.task, self.grid, self.modulus, self.rate)
        return BitSum(self.task, self.grid, self.places)

    # Privacy ------------------------------------------------------------------------------------

    @property
    def parameters(self) -> Mapping[str, float]:
        if self.sent_as == "shares":
            shares = self.sharing.shares
            return {
                "levels": self.grid.levels,
                "shares": shares,
                "modulus": self.modulus,
                "dummy_people": self.sharers,
                "all_dummies": shares * self.sharers,
                "sigma": security(1 + self.sharers, math.log2(self.modulus), shares),
            }
        dummies = sum(law.most for law in self.places)
        if self.sent_as == "bits":
            return {"levels": self.grid.levels, "all_dummies": dummies}
        return {"levels": self.grid.levels, "digits": len(self.places), "all_dummies": dummies}

    @cached_property
    def curve(self) -> PrivacyCurve:
        match self.sent_as:
            case "bits":
                return ShiftCurve(self.places[0], self.grid.levels)
            case "digits":
                return DigitCurve(self.places)
            case "shares":
                # The largest loss is exactly ε, although the float of the rate is rounded.
                moved = moved_steps_curve(float(self.rate), self.grid.levels)
                noise = replace(moved, pure_epsilon=self.budget.epsilon)
                return NearCurve(noise, distance(self.sharers, self.modulus, self.sharing.shares))

    @cached_property
    def guarantee(self) -> Guarantee:
        methods: Mapping[LevelsAs, str] = {
            "bits": "law of the number of ones",
            "digits": "law of the numbers of ones of all digits",
            "shares": "shares (Balle, Bell, Gascón, Nissim 2020) of exact noise",
        }
        return promise(
            self,
            methods[self.sent_as],
            delta=self.curve.delta(self.budget.epsilon),
            # If nobody can hold some of the levels, there may be no two possible levels whose
            # digits all differ. Then δ is only an upper bound.
            exact=self.sent_as == "bits" or (self.sent_as == "digits" and self.grid.full),
            honest=1,
            relies_on=SHUFFLER_KNOWS,
        )

    @property
    def local_epsilon(self) -> float:
        return math.inf
