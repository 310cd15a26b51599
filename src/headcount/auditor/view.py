"""The names of the views that an adversary may have."""

from enum import StrEnum


class View(StrEnum):
    """What an adversary sees. Each of the first three views is what the adversary of the trust
    model with the same name sees.
    """

    LOCAL = "local"  # one person's messages
    SHUFFLE = "shuffle"  # everyone's messages without their order
    CENTRAL = "central"  # the release
    SHUFFLER = "shuffler"  # the release, and the noise that the shuffler added
