"""The part of a protocol that the shuffler runs.

Every shuffler mixes: it removes the senders and the order of messages. Some protocols ask for more.
The shuffler may have to withhold rare messages, or to add noise messages of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headcount.core.messages import Messages
from headcount.core.randomizer import Bundle
from headcount.core.source import Source


class Noise(NamedTuple):
    """The messages that a shuffler adds. If `alone`, the shuffler discards the messages of all
    people.
    """

    # An array of messages for drawn noise. In the keys of a `NoiseLaw`, a `Bundle` takes its place.
    messages: Any
    alone: bool = False


NoiseLaw: TypeAlias = Mapping[tuple[Bundle, bool], Fraction]


@dataclass(frozen=True)
class Shuffler:
    """The shuffler of a protocol. By default, it only mixes.

    Messages with fewer than `least_copies` copies are withheld, which hides rare values. If
    `least_copies` is above 1, a person who sends several messages is left out, because this
    person's copies could make a rare message pass.
    """

    least_copies: int = 1

    @property
    def duties(self) -> str:
        """The duties of the shuffler, in words."""
        if self.adds:
            return "mix and add dummies"
        return "mix and withhold" if self.withholds else "mix"

    @property
    def withholds(self) -> bool:
        """Whether rare messages are withheld."""
        return self.least_copies > 1

    def admitted(self, messages: Messages) -> Messages:
        """The messages of the people who are not left out."""
        return messages.only_single() if self.withholds else messages

    def passes(self, copies: Any) -> Any:
        """Whether a message with this number of copies is passed on. `copies` may be an array."""
        return copies >= self.least_copies

    # Noise --------------------------------------------------------------------------------------

    @property
    def adds(self) -> bool:
        """Whether the shuffler adds noise messages."""
        return False

    def fits(self, users: int, messages: int) -> bool:
        """Whether the shuffler may pass on this number of messages, including the messages of
        people.

        This is called only for shufflers that add noise.
        """
        return True

    def noise(self, users: int, source: Source) -> Noise:
        """The noise messages for a crowd. This is called only for shufflers that add noise."""
        raise NotImplementedError(f"{type(self).__name__} adds no messages")

    def noise_law(self, users: int) -> NoiseLaw | None:
        """The exact law of `noise`, or None if the law is too long to list. Each outcome is a pair
        (messages, alone), as in `Noise`.
        """
        return {((), False): Fraction(1)}


def joined(noise: Noise, payload: NDArray[Any]) -> NDArray[Any]:
    """The messages of people together with the noise."""
    return noise.messages if noise.alone else np.concatenate([payload, noise.messages])
