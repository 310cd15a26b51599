"""The whole path, from values to an estimate, in one process."""

from numpy.typing import ArrayLike

from headcount.core import checks
from headcount.core.budget import Trust
from headcount.core.estimate import Estimate
from headcount.core.protocol import Protocol
from headcount.core.source import Source
from headcount.protocols.road import collect
from headcount.protocols.shuffler import shuffle
from headcount.randomness.sources import SecureSource


def run(protocol: Protocol, values: ArrayLike, source: Source | None = None) -> Estimate:
    """Randomize, shuffle (in shuffle trust), tally, estimate. Randomness is secure unless given."""
    checks.instance("protocol", protocol, Protocol)
    source = SecureSource() if source is None else source
    if protocol.trust is not Trust.SHUFFLE:
        return protocol.estimate(collect(protocol, values, source), source)
    messages = protocol.randomize(values, source)
    batch = shuffle(
        messages, source, least_copies=protocol.least_copies, dummy=protocol.alphabet.dummy
    )
    return protocol.estimate(protocol.tally(batch), source)
