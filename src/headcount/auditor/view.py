"""The names of what an adversary may see."""

from enum import StrEnum


class View(StrEnum):
    """What an adversary sees. The first three are named after the trust model whose adversary sees
    it.
    """

    LOCAL = "local"  # one person's messages
    SHUFFLE = "shuffle"  # everyone's messages in no order
    CENTRAL = "central"  # the release
    SHUFFLER = "shuffler"  # the release, and the noise that the shuffler added
