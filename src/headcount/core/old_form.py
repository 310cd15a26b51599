"""Protocols that still state everything in one class, seen as a randomizer and an estimator.

It goes when the last of them has been divided.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core.budget import MOST_USERS
from headcount.core.errors import Infeasible
from headcount.core.estimate import Answer, ErrorLaw
from headcount.core.estimator import Estimator
from headcount.core.guarantee import Guarantee
from headcount.core.messages import Alphabet, Messages
from headcount.core.promise import check_curve, paper_is_not_private, promise, promise_alone
from headcount.core.protocol import Protocol
from headcount.core.randomizer import BundleLaw, Randomizer
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Holding


@dataclass(frozen=True)
class _OldRandomizer(Randomizer):
    whole: Any

    @property
    def alphabet(self) -> Alphabet:
        return self.whole.alphabet

    @property
    def fixed_messages(self) -> int | None:
        return self.whole.fixed_messages

    @property
    def messages_per_user(self) -> float:
        return self.whole.messages_per_user

    def send(self, encoded: NDArray[Any], source: Source) -> Messages:
        return self.whole._randomize(encoded, source)

    def law(self, value: Any) -> BundleLaw | None:
        return self.whole.law(value)

    def overflow(self, slots: int) -> float:
        return super().overflow(slots) if self.fixed_messages else self.whole._excess(slots)


@dataclass(frozen=True)
class _OldEstimator(Estimator):
    whole: Any

    @property
    def tally_size(self) -> int:
        return self.whole.tally_size

    @property
    def tally_modulus(self) -> int | None:
        return self.whole.tally_modulus

    @property
    def most_users(self) -> int:
        return self.whole.most_users

    def count(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        return self.whole._tally(payload)

    def simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        return self.whole._simulate(held, source)

    @property
    def simulates_exactly(self) -> bool:
        return self.whole.simulates_exactly

    def unbiased(self, tally: Tally, source: Source | None = None) -> Answer:
        return self.whole._unbiased(tally, source)

    def answer(self, users: int, unbiased: Answer) -> Answer:
        return self.whole._answer(users, unbiased)

    def postprocessing(self, tally: Tally) -> tuple[str, Callable[[Answer], Answer]] | None:
        return self.whole._postprocessing(tally)

    def release_law(self, tally: Tally) -> Mapping[Any, Fraction] | None:
        return self.whole.release_law(tally)

    def standard_error(self, users: int, held: Holding | None) -> float:
        return self.whole._standard_error(users, held)

    @property
    def worst_is_attained(self) -> bool:
        return self.whole.worst_is_attained

    def error_law(self, users: int, unbiased: Answer) -> ErrorLaw:
        return self.whole._error_law(users, unbiased)

    def truth(self, held: Holding) -> Answer:
        return self.whole._target(held)

    def answer_range(self, users: int) -> tuple[float, float]:
        return self.whole._answer_range(users)

    def ranking_error(self, users: int) -> float:
        return self.whole.expected_error

    def extremes(self, users: int, confidence: float) -> Iterable[Answer]:
        return self.whole._extremes(users, confidence)


@dataclass(frozen=True)
class OldForm(Protocol):
    tally_modulus = None
    most_users = MOST_USERS
    fixed_messages = None
    simulates_exactly = True
    worst_is_attained = True

    @property
    def randomizer(self) -> Randomizer:
        return _OldRandomizer(self)

    @property
    def estimator(self) -> Estimator:
        return _OldEstimator(self.task, self)

    @property
    def expected_error(self) -> float:
        return self.standard_error()

    @property
    @abstractmethod
    def tally_size(self) -> int: ...

    @property
    def messages_per_user(self) -> float:
        return float(self.fixed_messages)

    def release_law(self, tally: Tally) -> Mapping[Any, Fraction] | None:
        return None

    def _tally(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        return Estimator.count(self, payload)

    def _answer(self, users: int, unbiased: Answer) -> Answer:
        return unbiased

    def _target(self, held: Holding) -> Answer:
        return self.task.answer(held)

    def _answer_range(self, users: int) -> tuple[float, float]:
        return self.task.answer_range(users)

    def _postprocessing(self, tally: Tally) -> tuple[str, Callable[[Answer], Answer]] | None:
        return None

    def _excess(self, slots: int) -> float:
        return 1.0

    def _extremes(self, users: int, confidence: float) -> Iterable[Answer]:
        return Estimator.extremes(self.estimator, users, confidence)

    def _promise(self, method: str, **rest: Any) -> Guarantee:
        return promise(self, method, **rest)

    def _promise_alone(self) -> Guarantee:
        return promise_alone(self)

    def _not_private(self) -> Infeasible:
        return paper_is_not_private(self)

    def _check_curve(self) -> None:
        check_curve(self)
