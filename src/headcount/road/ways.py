"""The ways in which people's values can become a tally."""

from enum import StrEnum


class Way(StrEnum):
    """How a tally is made. The law of the tally is the same for all ways, or the guarantee covers
    the difference.

    The way is published with the estimate. So it must depend on public facts alone: the trust
    model, the question, the number of people and the protocol.
    """

    MESSAGES = "messages"
    FROM_COUNTS = "messages from counts"
    AT_ONCE = "tally at once"
    COUNTED = "counted values"

    @property
    def words(self) -> str:
        return _WORDS[self]


_WORDS = {
    Way.MESSAGES: "messages were made from each person's value, one by one",
    Way.FROM_COUNTS: "messages were made one by one, from counts of people by value",
    Way.AT_ONCE: "the tally was drawn in a single step, from counts of people by value; or it was "
    "made from messages, if the reserved part of δ does not cover this draw",
    Way.COUNTED: "the curator counted people by value",
}
