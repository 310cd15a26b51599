"""The data that a person's device needs for a release.

A client in another language reads these data from the document. From the same random bits, it draws
exactly the messages that this library would draw. Whoever checks a document computes the data
again, and compares them with the document.
"""

from collections.abc import Mapping
from typing import Any

from headcount.core.protocol import Protocol


def device_data(made: Protocol) -> Mapping[str, Any] | None:
    """The instructions with which a device runs the randomizer of a protocol. The entry `bytes` is
    the size of each integer of a message. The result is None if only this library can run the
    randomizer.
    """
    instructions = made.randomizer.instructions
    if instructions is None:
        return None
    return {"bytes": made.alphabet.dtype.itemsize, **instructions}
