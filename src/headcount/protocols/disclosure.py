"""A randomizer that sends the value itself, either to a curator or encrypted for an analyzer."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core.messages import Alphabet, Messages
from headcount.core.randomizer import BundleLaw, Randomizer
from headcount.core.source import Source


@dataclass(frozen=True)
class Disclosure(Randomizer):
    """Sends the value itself."""

    values: Alphabet

    fixed_messages = 1

    @property
    def alphabet(self) -> Alphabet:
        return self.values

    @property
    def instructions(self) -> Mapping[str, Any]:
        return {"kind": "value"}

    def send(self, encoded: NDArray[np.integer], source: Source) -> Messages:
        return Messages.one_each(encoded.astype(self.values.dtype, copy=False))

    def law(self, value: int) -> BundleLaw:
        return {((value, 1),): Fraction(1)}
