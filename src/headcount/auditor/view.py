"""The names of the views that an adversary may have."""

from enum import StrEnum


class View(StrEnum):
    """What an adversary sees. The first three views have the names of trust models: each shows what
    the adversary in that trust model sees.
    """

    LOCAL = "local"  # one person's messages
    SHUFFLE = "shuffle"  # everyone's messages without their order
    CENTRAL = "central"  # the release
    SHUFFLER = "shuffler"  # the release, and the noise that the shuffler added
