"""The totals of a table's rows and columns with fake users.

Fake users are those of Luo, Wang, Yi 2022 and Cheu, Zhilyaev 2022.

Notation    n people, each in one cell of a table with d rows and e columns; h people are honest. μ
            is the expected noise per row and per column.
Randomizer  Send two messages: the row and the column. Rows and columns have different numbers.
            Messages of one person are not linked after shuffling. Also send Poisson((d+e)μ/h)
            messages, each a uniform row or column.
Analyzer    The number of messages of each row and column, minus the mean nμ/h of the noise.
Privacy     The noise of the honest people is Poisson(μ) in every row and column, independently. A
            person who moves to another row and another column changes two pairs of numbers, and
            nobody changes more. With noise N and N', δ is the exact divergence of two pairs
            (N+1, N') and (N, N'+1) together (see `accounting.moved_pairs`). Its computation rounds
            it up by up to 0.03 %.
Error       Poisson(nμ/h) minus its mean in each row and column, for all data. A histogram of cells
            has a smaller μ, but a total then has the noise of all its cells.
Messages    2 + (d+e)μ/h, each a row or a column. Their number does not depend on the value, but the
            row and the column are two of them. So the local ε is infinite.
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
from headcount.accounting.calibration import least_private
from headcount.accounting.moved_pairs import moved_curve
from headcount.core.budget import Budget, Trust
from headcount.core.bundles import RESERVED
from headcount.core.cached import cached_property
from headcount.core.errors import Infeasible
from headcount.core.estimate import Answer
from headcount.core.estimator import Estimator
from headcount.core.guarantee import Guarantee, NearCurve, PrivacyCurve
from headcount.core.influence import Shifts
from headcount.core.messages import Alphabet, Messages
from headcount.core.promise import check_curve, promise
from headcount.core.protocol import Protocol
from headcount.core.randomizer import MOST_BUNDLES, RARE, BundleLaw
from headcount.core.source import Source
from headcount.core.table import short
from headcount.core.tally import Tally
from headcount.core.task import Holding, Task
from headcount.core.tasks.margins import Margins
from headcount.protocols.shuffle.fake_users import PoissonError, PoissonNoise
from headcount.randomness.draws import uniform
from headcount.randomness.totals import poisson

_GRAIN = 1 << 12  # μ is a multiple of 1/_GRAIN
_MOST_NOISE = 10**7  # the largest expected number of noise messages per row or column
_MOST_MESSAGES = 2.0**20
_PAIRS = 2  # a person who moves changes a pair of rows and a pair of columns


# Randomizer -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class MarginsRandomizer(PoissonNoise):
    """Sends the row and the column, and noise messages, each a uniform row or column.

    The message of column j is the number of rows plus j. The cells of the noise are the rows and
    the columns.
    """

    shape: tuple[int, int]

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet.numbers(self.cells, dummies=True)

    @property
    def messages_per_user(self) -> float:
        return float(2 + self.cells * self.noise)

    def overflow(self, slots: int) -> float:
        return laws.poisson(self.cells * self.noise).above(slots - 2)

    def _own(self, encoded: NDArray[Any]) -> NDArray[np.int64]:
        """The two messages of each person."""
        rows, columns = self.shape
        return np.stack([encoded // columns, rows + encoded % columns], axis=1).astype(np.int64)

    def send(self, encoded: NDArray[Any], source: Source) -> Messages:
        numbers = self.share.sample(source, len(encoded))
        noise = uniform(source, int(numbers.sum()), self.cells)
        senders, dtype = np.repeat(np.arange(len(encoded)), numbers), self.alphabet.dtype
        own = self._own(encoded).astype(dtype).reshape(-1)
        counts = np.full(len(encoded), 2, dtype=np.uint8)
        return Messages(own, len(encoded), counts).plus(senders, noise.astype(dtype))

    def law(self, value: int) -> BundleLaw | None:
        numbers = {number: p for number, p in self.share.law.items() if p >= RARE}
        if math.comb(max(numbers) + self.cells, self.cells) > MOST_BUNDLES:
            return None
        out: dict[Any, Fraction] = {}
        own = self._own(np.array([value]))[0].tolist()
        for number, chance in numbers.items():
            for others in combinations_with_replacement(range(self.cells), number):
                copies = [others.count(cell) for cell in range(self.cells)]
                # There are cells^number equally likely sequences of noise messages. This is the
                # number of sequences with these copies.
                rows = math.factorial(number) // math.prod(map(math.factorial, copies))
                for message in own:
                    copies[message] += 1
                bundle = tuple(pair for pair in enumerate(copies) if pair[1])
                if (share := chance * Fraction(rows, self.cells**number)) >= RARE:
                    out[bundle] = share
        return out


# Analyzer and its error -----------------------------------------------------------------------


@dataclass(frozen=True)
class NoisyMargins(Estimator):
    """Subtracts the mean of the noise from the number of messages of every row and column."""

    task: Margins
    noise: Fraction  # μ/h

    @property
    def tally_size(self) -> int:
        return sum(self.task.shape)

    def simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        noise = poisson(source, self.noise * held.users, self.tally_size)
        return self.task.totals(held.counts) + noise

    def unbiased(self, tally: Tally, source: Source | None = None) -> Answer:
        return tally.counts - float(self.noise * tally.users)

    def shifts(self, users: int, alphabet: Alphabet) -> Shifts:
        return Shifts(most=1.0, least=0.0, person=-float(self.noise))

    def standard_error(self, users: int, held: Holding | None) -> float:
        return PoissonError(self.noise * users).standard_error

    def error_law(self, users: int, unbiased: Answer) -> PoissonError:
        return PoissonError(self.noise * users)


# Calibration and privacy ----------------------------------------------------------------------


@lru_cache(maxsize=256)
def _least_noise(budget: Budget) -> Fraction | None:
    """A mean μ whose δ is within the budget; None if there is none."""

    def delta_at(noise: int) -> float:
        return moved_curve(laws.poisson(Fraction(noise, _GRAIN)), _PAIRS).delta(budget.epsilon)

    # More noise is more private, because it is less noise plus independent Poisson noise.
    least = least_private(
        delta_at,
        budget.delta * (1 - RESERVED),
        start=_GRAIN // 64,
        stop=_MOST_NOISE * _GRAIN,
        steps=1,
    )
    return None if least is None else Fraction(least, _GRAIN)


@dataclass(frozen=True)
class ShuffledMargins(Protocol):
    name = "shuffle.margins"
    trust = Trust.SHUFFLE
    tasks: ClassVar[tuple[type[Task], ...]] = (Margins,)

    task: Margins

    def __post_init__(self) -> None:
        super().__post_init__()
        check_curve(self)

    @cached_property
    def noise(self) -> Fraction:
        """The expected noise μ per row and per column."""
        budget, honest, cells = self.budget, self.crowd.honest, sum(self.task.shape)
        setting = f"epsilon={short(budget.epsilon)}, delta={short(budget.delta)}"
        if budget.delta == 0:
            raise Infeasible(
                f"{self.name} needs delta above 0: it may happen that nobody sends noise",
                nearest={"delta": 1e-9},
            )
        noise = _least_noise(budget)
        if noise is None:
            raise Infeasible(
                f"{self.name} needs more than {_MOST_NOISE} noise messages for {setting}"
            )
        if cells * noise > _MOST_MESSAGES * honest:
            raise Infeasible(
                f"{self.name} must take at most {_MOST_MESSAGES:.0f} messages per person, got "
                f"{short(float(cells * noise / honest), 3)} for {setting} with {honest} honest "
                "people",
                nearest={"honest": math.ceil(cells * noise / int(_MOST_MESSAGES))},
            )
        return noise

    @cached_property
    def randomizer(self) -> MarginsRandomizer:
        shape = self.task.shape
        return MarginsRandomizer(sum(shape), self.noise / self.crowd.honest, shape)

    @cached_property
    def estimator(self) -> NoisyMargins:
        return NoisyMargins(self.task, self.noise / self.crowd.honest)

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"noise_per_total": float(self.noise)}

    @cached_property
    def curve(self) -> PrivacyCurve:
        variation = self.crowd.honest * self.randomizer.share.total_variation
        return NearCurve(moved_curve(laws.poisson(self.noise), _PAIRS), variation)

    @cached_property
    def guarantee(self) -> Guarantee:
        delta = self.curve.delta(self.budget.epsilon)
        return promise(self, "law of two rows and two columns", delta=delta, exact=True)

    @property
    def local_epsilon(self) -> float:
        return math.inf
