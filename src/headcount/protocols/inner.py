"""Protocols that run another one inside: its messages, its tallies, and so its privacy."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core.guarantee import Guarantee, PrivacyCurve
from headcount.core.messages import Alphabet
from headcount.core.old_form import OldForm
from headcount.core.protocol import Protocol


@dataclass(frozen=True)
class InnerProtocol(OldForm):
    """A subclass says what runs inside, what people's values are there, and what comes of it."""

    @property
    @abstractmethod
    def _inner(self) -> Protocol:
        """What people run."""

    @property
    def alphabet(self) -> Alphabet:
        return self._inner.alphabet

    @property
    def tally_size(self) -> int:
        return self._inner.tally_size

    @property
    def tally_modulus(self) -> int | None:
        return self._inner.tally_modulus

    @property
    def most_users(self) -> int:
        return self._inner.most_users

    @property
    def fixed_messages(self) -> int | None:
        return self._inner.fixed_messages

    @property
    def simulates_exactly(self) -> bool:
        return self._inner.simulates_exactly

    @property
    def least_copies(self) -> int:
        return self._inner.least_copies

    @property
    def parameters(self) -> Mapping[str, float]:
        return self._inner.parameters

    @property
    def guarantee(self) -> Guarantee:
        return self._inner.guarantee

    @property
    def curve(self) -> PrivacyCurve:
        return self._inner.curve

    @property
    def messages_per_user(self) -> float:
        return self._inner.messages_per_user

    @property
    def local_epsilon(self) -> float:
        return self._inner.local_epsilon

    def _tally(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        return self._inner._tally(payload)

    def _excess(self, slots: int) -> float:
        return self._inner._excess(slots)
