"""Who is trusted, how much privacy may be spent, and on how many people one can count."""

from dataclasses import dataclass
from enum import StrEnum

from headcount.core import checks
from headcount.core.errors import InvalidParameter
from headcount.core.table import short

# Counts up to here are exact as 64-bit integers and as floats, several messages a person included.
MOST_USERS = 2**50
# Below, noise drowns any crowd; above, e^epsilon is beyond a float, and no privacy is left.
LEAST_EPSILON, MOST_EPSILON = 1e-12, 500.0
# What is cut from the tails of a law weighs up to 1e-23 and counts as lost.
LEAST_DELTA = 1e-18


class Trust(StrEnum):
    """Who sees a raw value: the curator; nobody, if the shuffler is honest; nobody at all."""

    CENTRAL = "central"  # a curator sees all values and adds noise to the answer
    SHUFFLE = "shuffle"  # people send noisy messages, and a shuffler hides who sent which
    LOCAL = "local"  # people send noisy messages to an analyzer whom nobody trusts


@dataclass(frozen=True)
class Budget:
    """The most that may be spent on one question: (epsilon, delta)-differential privacy.

    Any event is at most e^epsilon times as likely with one person's value as with any other value
    in its place, plus delta. delta = 0, the default, is the strictest: pure privacy. Protocols that
    cannot give it say so.
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

    Guarantees are computed from the noise of the honest ones alone. Left out, `honest` is everyone.
    """

    users: int
    honest: int

    def __init__(self, users: int, honest: int | None = None) -> None:
        users = checks.whole("users", users, low=1, high=MOST_USERS)
        honest = users if honest is None else checks.whole("honest", honest, low=1, high=users)
        object.__setattr__(self, "users", users)
        object.__setattr__(self, "honest", honest)
