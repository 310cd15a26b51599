"""The part of a protocol that a person's device runs: it turns a value into messages.

A device needs no other part.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, TypeAlias

from numpy.typing import NDArray

from headcount.core.messages import Alphabet, Messages
from headcount.core.source import Source

Message: TypeAlias = int | tuple[int, ...]
# One person's messages without their order: sorted pairs of a message and its number of copies.
Bundle: TypeAlias = tuple[tuple[Message, int], ...]
BundleLaw: TypeAlias = Mapping[Bundle, Fraction]
RARE = Fraction(1, 2**50)  # a law may leave out bundles with a smaller probability
MOST_BUNDLES = 10_000  # a law lists at most this many bundles
# Messages are made for at most this many people at a time, in about this much memory. If these
# numbers change, the same seed gives different messages.
MOST_AT_ONCE = 2**20
_BYTES_AT_ONCE = 2**28


def bundle_of(copies: Iterable[tuple[Message, int]]) -> Bundle:
    """The bundle with these numbers of copies. Messages with 0 copies are left out."""
    return tuple(pair for pair in copies if pair[1])


class Randomizer(ABC):
    """Turns people's values into messages. A randomizer holds calibrated numbers and never changes.

    All methods take the encoded values that `Task.encode` returns.
    """

    @property
    @abstractmethod
    def alphabet(self) -> Alphabet:
        """The possible messages. They include a dummy unless `fixed_messages` is defined."""

    @property
    def fixed_messages(self) -> int | None:
        """The number of messages that everybody sends, or None if people send different numbers."""
        return None

    @property
    def messages_per_user(self) -> float:
        """The expected number of a person's messages, for the value with the most messages.

        A subclass must define this property unless it defines `fixed_messages`.
        """
        if self.fixed_messages is None:
            raise NotImplementedError(f"{type(self).__name__} must define `messages_per_user`")
        return float(self.fixed_messages)

    @abstractmethod
    def send(self, encoded: NDArray[Any], source: Source) -> Messages:
        """Everybody's messages. All random bits come from the source."""

    @abstractmethod
    def law(self, value: Any) -> BundleLaw | None:
        """The exact law of the messages of a person who holds this value.

        It may leave out bundles with a probability below `RARE`. It is None if there are more than
        `MOST_BUNDLES` bundles.
        """

    def fewer_messages(self, encoded: NDArray[Any]) -> int:
        """How many fewer messages this value has than the value with the most messages.

        Noise is not counted. `encoded` is one person's value. A person's number of messages plus
        this number must have the same law for every value.
        """
        return 0

    @property
    def instructions(self) -> Mapping[str, Any] | None:
        """What other programs need to draw the same messages from the same random bits, as data
        for JSON. None if only this library can draw them.

        `kind` names the procedure. Large integers and fractions are written as strings.
        """
        return None

    def overflow(self, slots: int) -> float:
        """An upper bound on the probability of more messages than slots, for the value with the
        most messages. A subclass must define this method unless it defines `fixed_messages`.
        """
        return 1.0 if self.fixed_messages is None else float(slots < self.fixed_messages)

    def send_fitting(self, encoded: NDArray[Any], source: Source, slots: int) -> Messages:
        """One person's messages, drawn again until their noise would fit into a bundle, whatever
        value the person holds.
        """
        most = slots - self.fewer_messages(encoded)
        messages = self.send(encoded, source)
        while len(messages.payload) > most:
            messages = self.send(encoded, source)
        return messages

    @property
    def bytes_per_user(self) -> float:
        """The approximate memory in bytes for making and counting one person's messages."""
        return 128 + self.messages_per_user * (64 + 4 * self.alphabet.bytes_per_message)

    @property
    def people_at_once(self) -> int:
        """The number of people whose messages are made and counted at a time, a power of two."""
        fitting = max(1, int(_BYTES_AT_ONCE / self.bytes_per_user))
        return min(MOST_AT_ONCE, 1 << (fitting.bit_length() - 1))
