"""What a private survey is worth."""

from headcount.core import checks
from headcount.core.budget import LEAST_EPSILON, MOST_USERS
from headcount.core.errors import InvalidParameter
from headcount.core.table import short
from headcount.core.tasks.histogram import MOST_BUCKETS


def survey_worth(users: int, epsilon: float, buckets: int = 2) -> float:
    """To about how many unprotected respondents the answers of `users` amount in local trust.

    nε²/d, for the shares of d buckets and ε ≤ 1, up to a constant (Duchi, Jordan, Wainwright 2018,
    Minimax Optimal Procedures for Locally Private Estimation). For a larger ε, compare standard
    errors instead.
    """
    users = checks.whole("users", users, low=1, high=MOST_USERS)
    buckets = checks.whole("buckets", buckets, low=2, high=MOST_BUCKETS)
    found = checks.real("epsilon", epsilon)
    if not LEAST_EPSILON <= found <= 1:
        raise InvalidParameter(
            f"`epsilon` must be between {short(LEAST_EPSILON)} and 1 to weigh a survey, "
            f"got {short(found)}"
        )
    return users * found**2 / buckets
