"""Who is trusted, how much privacy may be spent, and how many people follow the protocol."""

from dataclasses import dataclass
from enum import StrEnum

from headcount.core import checks
from headcount.core.errors import InvalidParameter
from headcount.core.table import short

# With this many people, counts are still exact as 64-bit integers and as floats, even if each
# person sends several messages.
MOST_USERS = 2**50
# Below the least epsilon, the noise is too large for any crowd. Above the largest epsilon, hardly
# any privacy is left, and e^epsilon comes near the largest float.
LEAST_EPSILON, MOST_EPSILON = 1e-12, 500.0
# Computations cut off the tails of probability laws. The probability of these tails, up to 1e-23,
# is added to delta, so delta must be much larger.
LEAST_DELTA = 1e-18


class Trust(StrEnum):
    """Whom people trust.

    In central trust, the curator sees raw values. In shuffle trust, nobody sees them, but people
    trust the shuffler to mix messages. In local trust, people trust nobody.
    """

    CENTRAL = "central"  # a curator sees all values and adds noise to the answer
    SHUFFLE = "shuffle"  # people send noisy messages, and a shuffler hides who sent which message
    LOCAL = "local"  # people send noisy messages to an analyzer that nobody trusts


@dataclass(frozen=True)
class Budget:
    """The largest privacy loss that one question may cause: (epsilon, delta)-differential privacy.

    Take any event, and let q be its probability. If one person's value is replaced by any other,
    the event's new probability is at most e^epsilon·q + delta. The default, delta = 0, is the
    strictest and is called pure differential privacy. Protocols that cannot offer pure privacy
    refuse a budget with delta = 0.
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        epsilon = checks.real("epsilon", self.epsilon)
        if epsilon <= 0:
            raise InvalidParameter(f"`epsilon` must be positive and finite, got {epsilon}")
        if not LEAST_EPSILON <= epsilon <= MOST_EPSILON:
            raise InvalidParameter(
                f"`epsilon` must be between {short(LEAST_EPSILON)} and {short(MOST_EPSILON)}, "
                f"got {epsilon}"
            )
        delta = checks.real("delta", self.delta)
        if not 0 <= delta < 1:
            raise InvalidParameter(f"`delta` must be at least 0 and below 1, got {delta}")
        if 0 < delta < LEAST_DELTA:
            raise InvalidParameter(
                f"`delta` must be 0 or at least {short(LEAST_DELTA)}, got {delta}"
            )
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)


@dataclass(frozen=True, init=False)
class Crowd:
    """At least `users` people take part, and at least `honest` of them follow the protocol.

    Guarantees are computed from the noise of honest people alone. By default, everybody is honest.
    """

    users: int
    honest: int

    def __init__(self, users: int, honest: int | None = None) -> None:
        users = checks.whole("users", users, low=1, high=MOST_USERS)
        honest = users if honest is None else checks.whole("honest", honest, low=1, high=users)
        object.__setattr__(self, "users", users)
        object.__setattr__(self, "honest", honest)
