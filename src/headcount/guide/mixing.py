"""Part 6, somebody to mix: counts under three kinds of trust, and four ways to share the noise."""

import math
from typing import Any

import headcount as hc
from headcount.collect.device import device_data
from headcount.core.errors import Infeasible
from headcount.core.protocol import Protocol
from headcount.randomness.draws import WHOLE

DELTA = 1e-6
EPSILONS = (0.5, 1.0, 2.0)
CROWDS = (100, 1000, 10_000, 100_000)
SHARES = (0.0, 0.05, 0.3, 0.5)  # shares of people who hold a yes
CONFIDENCE = 0.95
RUNS = 30
SHOWN = 8  # people whose messages are shown
LARGE = 100_000  # a crowd for which all papers have formulas
EXAMPLE = (10_000, 1.0)  # people and ε
BUCKETS = 10


def weight(probability: float) -> str:
    """A probability as a whole number: its nearest multiple of 2^−53, times 2^64."""
    return str(round(probability * 2**53) * (WHOLE // 2**53))


def count(name: str, people: int, epsilon: float, **options: Any) -> Protocol:
    budget, crowd = hc.Budget(epsilon, DELTA), hc.Crowd(people)
    return hc.protocol(name, hc.Count(), budget, crowd, **options)


def lane(protocol: Protocol, **draws: Any) -> dict[str, Any]:
    """One lane of the widget, which compares protocols: the errors and the messages of a protocol,
    and in `draws` what the page needs to draw random estimates.
    """
    return {
        "error": protocol.standard_error(),
        "margin": protocol.margin(CONFIDENCE),
        "messages": protocol.messages_per_user,
        **draws,
    }


def flips(name: str, people: int, epsilon: float) -> dict[str, Any]:
    protocol = count(name, people, epsilon)
    device = device_data(protocol)
    assert device is not None
    return lane(protocol, weight=device["weight"])


def zero_exact(people: int, epsilon: float) -> dict[str, Any] | None:
    """The lane of the zero-exact count, or None if the crowd is too small for this protocol."""
    try:
        protocol = count("shuffle.zero-exact", people, epsilon)
    except Infeasible:
        return None
    device = device_data(protocol)
    assert device is not None
    return lane(protocol, withheld=str(WHOLE - int(device["weight"])))


def correlated(people: int, epsilon: float) -> dict[str, Any]:
    protocol = count("shuffle.correlated", people, epsilon)
    parts = protocol.parameters
    return lane(
        protocol,
        plus=math.exp(-parts["epsilon_plus"]),
        minus=math.exp(-parts["epsilon1"]),
        r=parts["r"],
        flood=parts["flood_p"],
    )


def noisy_shuffler(people: int, epsilon: float) -> dict[str, Any]:
    protocol = count("shuffle.noisy-shuffler", people, epsilon)
    return lane(protocol, dummies=int(protocol.parameters["dummies"]))


def row(people: int, epsilon: float) -> dict[str, Any]:
    return {
        "people": people,
        "epsilon": epsilon,
        "central": lane(
            count("central.geometric", people, epsilon), ratio=weight(math.exp(-epsilon))
        ),
        "response": flips("shuffle.randomized-response", people, epsilon),
        "zero": zero_exact(people, epsilon),
        "correlated": correlated(people, epsilon),
        "noisy": noisy_shuffler(people, epsilon),
        "local": flips("local.randomized-response", people, epsilon),
    }


# Paper constants against exact ones -----------------------------------------------------------


def noise(epsilon: float) -> list[dict[str, Any]]:
    """The noise of a whole crowd by exact computation and by the formulas of papers."""
    budget, crowd = hc.Budget(epsilon, DELTA), hc.Crowd(LARGE)

    def both(name: str, task: hc.Task) -> list[Protocol]:
        ways = ("exact", "paper")
        return [hc.protocol(name, task, budget, crowd, calibration=way) for way in ways]

    def withheld(protocol: Protocol) -> float:
        return LARGE * (1 - protocol.parameters["p"])

    histogram = hc.Histogram(BUCKETS)
    rows = [
        ("random answers λ, one bit", "shuffle.randomized-response", hc.Count(), "lambda"),
        ("withheld messages, zero-exact count", "shuffle.zero-exact", hc.Count(), None),
        ("pairs that cancel, correlated count", "shuffle.correlated", hc.Count(), "flood_pairs"),
        ("withheld per bucket, zero-exact", "shuffle.zero-exact-histogram", histogram, None),
        ("fake answers per bucket", "shuffle.fake-users", histogram, "noise_per_bucket"),
    ]
    out = []
    for label, name, task, key in rows:
        exact, paper = (withheld(p) if key is None else p.parameters[key] for p in both(name, task))
        out.append({"label": label, "protocol": name, "exact": exact, "paper": paper})
    return out


def protection(protocol: Protocol) -> str:
    """The ε that is left if the shuffler and the analyzer collude, as a text."""
    local = protocol.trust is hc.Trust.LOCAL
    left = protocol.guarantee.epsilon if local else protocol.local_epsilon
    return "none" if math.isinf(left) else f"ε = {math.ceil(100 * left) / 100:g}"


def numbers() -> dict[str, Any]:
    people, epsilon = EXAMPLE
    budget, crowd = hc.Budget(epsilon, DELTA), hc.Crowd(people)
    table = {
        "central": count("central.geometric", people, epsilon),
        "response": count("shuffle.randomized-response", people, epsilon),
        "zero": count("shuffle.zero-exact", people, epsilon),
        "correlated": count("shuffle.correlated", people, epsilon),
        "noisy": count("shuffle.noisy-shuffler", people, epsilon),
        "local": count("local.randomized-response", people, epsilon),
    }
    buckets = {
        key: hc.protocol(name, hc.Histogram(BUCKETS), budget, crowd)
        for key, name in (
            ("central", "central.sum-zero"),
            ("zero", "shuffle.zero-exact-histogram"),
            ("correlated", "shuffle.correlated-histogram"),
            ("noisy", "shuffle.noisy-shuffler"),
            ("local", "local.unary-symmetric"),
        )
    }
    return {
        "delta": DELTA,
        "epsilons": EPSILONS,
        "crowds": CROWDS,
        "shares": SHARES,
        "confidence": CONFIDENCE,
        "runs": RUNS,
        "shown": SHOWN,
        "rows": [row(number, level) for number in CROWDS for level in EPSILONS],
        "example": {"people": people, "epsilon": epsilon},
        "table": {
            key: {
                "error": protocol.standard_error(),
                "messages": protocol.messages_per_user,
                "left": protection(protocol),
            }
            for key, protocol in table.items()
        },
        "lambda": table["response"].parameters["lambda"],
        "withheld": people * (1 - table["zero"].parameters["p"]),
        "pairs": table["correlated"].parameters["flood_pairs"],
        "dummies": int(table["noisy"].parameters["dummies"]),
        "noisy_delta": table["noisy"].guarantee.delta,
        "minus": table["correlated"].parameters["epsilon1"],
        "buckets": BUCKETS,
        "histograms": {key: protocol.standard_error() for key, protocol in buckets.items()},
        "large": LARGE,
        "noise": [{"epsilon": level, "rows": noise(level)} for level in EPSILONS],
    }
