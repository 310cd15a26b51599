"""What a person's device needs to know about a release, as data.

A client in another language reads these data from the document, and draws exactly the messages that
this library would draw from the same random bits. Whoever checks a document computes the data anew.
"""

from collections.abc import Mapping
from typing import Any

from headcount.core.protocol import Protocol


def device_data(made: Protocol) -> Mapping[str, Any] | None:
    """The instructions for the randomizer of a protocol. `bytes` is the size of each integer of a
    message. None if only this library can run the randomizer.
    """
    instructions = made.randomizer.instructions
    if instructions is None:
        return None
    return {"bytes": made.alphabet.dtype.itemsize, **instructions}
