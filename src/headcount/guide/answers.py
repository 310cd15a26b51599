"""Part 4, many answers: flipped bits, shares in a triangle, and what private answers are worth."""

from typing import Any

import headcount as hc
from headcount.collect.device import device_data
from headcount.core.protocol import Protocol
from headcount.theory import survey_worth

QUESTION = "How often do you drink alcohol?"
ANSWERS = ("never", "rarely", "weekly", "often", "daily")
COUNTS = (700, 500, 400, 300, 100)  # how many of a made-up crowd hold each answer
EPSILONS = (0.5, 1.0, 2.0, 4.0)
CORNERS = ("never", "sometimes", "often")
SHARES = (0.6, 0.3, 0.1)  # the share of people who hold each of the three answers at the corners
CROWDS = (300, 1000, 10_000)
RUNS = 50  # crowds whose estimates are drawn in the triangle

# The settings that the reader can choose in the widget that shows what private answers are worth.
BUCKETS = (2, 3, 5, 10, 20, 50, 100)
PEOPLE = (100, 1000, 10_000, 100_000, 1_000_000)
LEVELS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0)  # values of ε
CROWD = hc.Crowd(10_000)  # any crowd would do, since the variance per person is always the same
EXAMPLE = (10_000, 1.0, 5)  # people, ε and buckets


def flipped(buckets: int, epsilon: float) -> Protocol:
    return hc.protocol("local.unary-symmetric", hc.Histogram(buckets), hc.Budget(epsilon), CROWD)


def noisy(epsilon: float) -> Protocol:
    """Each person sends a one-hot vector with Laplace noise on integers. The variance of a bucket
    is the same for any number of buckets, so two are enough here.
    """
    made: Any = hc.protocol(
        "local.density-histogram",
        hc.Density(0, 1),
        hc.Budget(epsilon),
        CROWD,
        calibration="paper",
        bins=2,
    )
    counting: Protocol = made.inner
    return counting


def subset(buckets: int, epsilon: float) -> Protocol:
    return hc.protocol("local.subset", hc.Histogram(buckets), hc.Budget(epsilon), CROWD)


def per_person(protocol: Protocol, buckets: int | None = None) -> float:
    """The variance of the estimated number of people in a bucket, per person.

    If `buckets` is given, people are spread evenly over this many buckets. Otherwise, the variance
    is that of the worst data.
    """
    users = CROWD.users
    if buckets is None:
        return protocol.standard_error() ** 2 / users
    even = [users // buckets + (bucket < users % buckets) for bucket in range(buckets)]
    return protocol.standard_error(even) ** 2 / users


def numbers() -> dict[str, Any]:
    users, epsilon, buckets = EXAMPLE
    return {
        "question": QUESTION,
        "answers": ANSWERS,
        "counts": COUNTS,
        "people": sum(COUNTS),
        "levels": [
            {
                "epsilon": level,
                "flip": flipped(len(ANSWERS), level).parameters["q"],
                "variance": per_person(flipped(len(ANSWERS), level)),
                "device": device_data(flipped(len(ANSWERS), level)),
            }
            for level in EPSILONS
        ],
        "corners": CORNERS,
        "shares": SHARES,
        "crowds": CROWDS,
        "runs": RUNS,
        "worth": {
            "buckets": BUCKETS,
            "people": PEOPLE,
            "epsilons": LEVELS,
            "flipped": [per_person(flipped(2, level)) for level in LEVELS],
            "laplace": [per_person(noisy(level)) for level in LEVELS],
            "subset": [
                [per_person(subset(number, level), number) for level in LEVELS]
                for number in BUCKETS
            ],
            # The rate nε²/d for n = 1 person and d = 1 bucket. It is proven only for ε ≤ 1.
            "rate": [survey_worth(1, level) * 2 if level <= 1 else None for level in LEVELS],
        },
        "example": {
            "people": users,
            "epsilon": epsilon,
            "buckets": buckets,
            "rate": survey_worth(users, epsilon, buckets),
            "flipped": per_person(flipped(buckets, epsilon)),
            "laplace": per_person(noisy(epsilon)),
        },
    }
