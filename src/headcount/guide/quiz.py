"""Part 11, the quiz: the settings from which its questions draw their numbers."""

import math
from bisect import bisect_left
from fractions import Fraction
from typing import Any

import numpy as np

import headcount as hc
from headcount.accounting import laws
from headcount.accounting.divergence import hockey_stick
from headcount.accounting.laws import Law
from headcount.collect.device import device_data
from headcount.core.protocol import Protocol
from headcount.core.tally import Tally

DELTA = 1e-6
ODDS = (2, 3, 4, 9)  # e^ε of randomized response
EPSILONS = (0.5, 1.0)
CROWDS = (1000, 10_000)
BUCKETS = (4, 8, 16, 32)
LEVELS = (1.0, 0.5, 0.25)  # the ε of questions about many answers, which call it α
SMALL_CROWDS = (100, 200, 400)
LARGE_DELTA = 0.01  # large enough to show in a simulation
HONEST = (2, 4)  # one in this many people is honest
MOST_CLIPPED = 2000  # the largest crowd in questions about negative estimates that are set to 0
CONFIDENCES = (90, 95, 99)  # in percent
# If an interval contains the truth, its number of yes messages differs from the mean number by less
# than this.
WINDOW = 128
MISSING = 4  # how many intervals that miss the truth are shown above it, and how many below it
SHARES = (Fraction(3, 10), Fraction(2, 5))  # shares of people who hold a yes


def response(epsilon: float, people: int) -> Protocol:
    return hc.protocol(
        "local.randomized-response", hc.Count(), hc.Budget(epsilon), hc.Crowd(people)
    )


def shuffled(name: str, epsilon: float, delta: float, people: int) -> Any:
    return hc.protocol(name, hc.Count(), hc.Budget(epsilon, delta), hc.Crowd(people))


def numbers() -> dict[str, Any]:
    return {
        "delta": DELTA,
        "responses": [
            {"odds": odds, "device": device_data(response(math.log(odds), CROWDS[0]))}
            for odds in ODDS
        ],
        "errors": [_errors(epsilon, people) for epsilon in EPSILONS for people in CROWDS],
        "answers": [_answers(buckets, alpha) for buckets in BUCKETS for alpha in LEVELS],
        "trusts": [_trusts(epsilon, people) for epsilon in EPSILONS for people in CROWDS],
        "collusion": [
            _collusion(name, epsilon, people)
            for name in ("shuffle.randomized-response", "shuffle.zero-exact")
            for epsilon in EPSILONS
            for people in CROWDS
        ],
        "honest": [
            _honest(epsilon, people, people // part)
            for epsilon in EPSILONS
            for people in SMALL_CROWDS
            for part in HONEST
        ],
        "shuffler": [_noisy_shuffler(epsilon) for epsilon in EPSILONS],
        "clipping": [
            _clipped(epsilon, people)
            for epsilon in EPSILONS
            for people in (*SMALL_CROWDS, CROWDS[0], MOST_CLIPPED)
        ],
        "intervals": [
            _interval(epsilon, confidence, share)
            for epsilon in EPSILONS
            for confidence in CONFIDENCES
            for share in SHARES
        ],
    }


def _errors(epsilon: float, people: int) -> dict[str, Any]:
    """The standard errors of a count, with a curator and without anybody to trust."""
    local = response(epsilon, people)
    central = hc.protocol(
        "central.geometric", hc.Count(), hc.Budget(epsilon), hc.Crowd(people)
    )  # fmt: skip
    return {
        "epsilon": epsilon,
        "people": people,
        "device": device_data(local),
        "local": local.standard_error(),
        "central": central.standard_error(),
    }


def _answers(buckets: int, alpha: float) -> dict[str, Any]:
    """Flipped bits, with the variance of an estimated count divided by the number of people."""
    people = CROWDS[0]
    flipped = hc.protocol(
        "local.unary-symmetric", hc.Histogram(buckets), hc.Budget(alpha), hc.Crowd(people)
    )
    return {
        "buckets": buckets,
        "alpha": alpha,
        "variance": flipped.standard_error() ** 2 / people,
        "device": device_data(flipped),
    }


def _trusts(epsilon: float, people: int) -> dict[str, Any]:
    """Whom a count relies on in each trust model, in the library's own words."""
    mixed = shuffled("shuffle.zero-exact", epsilon, DELTA, people)
    found = {
        "central": hc.protocol(
            "central.geometric", hc.Count(), hc.Budget(epsilon), hc.Crowd(people)
        ),
        "shuffle": mixed,
        "noisy": shuffled("shuffle.noisy-shuffler", epsilon, DELTA, people),
        "local": response(epsilon, people),
    }
    return {
        "epsilon": epsilon,
        "people": people,
        "relies_on": {name: protocol.guarantee.relies_on for name, protocol in found.items()},
        "shuffle": device_data(mixed),
        "withheld": float(mixed.randomizer.withheld),
        "local": device_data(found["local"]),
    }


def _collusion(name: str, epsilon: float, people: int) -> dict[str, Any]:
    """The ε that is left if the shuffler and the analyzer collude, or None if it is infinite. The
    entry `bit` is the ε that is left of shuffled randomized response.
    """
    protocol = shuffled(name, epsilon, DELTA, people)
    bit = shuffled("shuffle.randomized-response", epsilon, DELTA, people)
    finite = math.isfinite(protocol.local_epsilon)
    return {
        "protocol": name,
        "epsilon": epsilon,
        "people": people,
        "left": protocol.local_epsilon if finite else None,
        "bit": bit.local_epsilon,
        "device": device_data(protocol),
    }


def _honest(epsilon: float, people: int, honest: int) -> dict[str, Any]:
    """A zero-exact count whose noise is calibrated for a crowd in which everybody is honest. In
    fact, only `honest` people are honest.

    M of the honest people's noise messages are withheld at random. If all honest people hold a no,
    they send `honest` − M messages. If one of them holds a yes, they send one more. The attacker
    bets on a yes if they send at least `least` messages.
    """
    protocol = shuffled("shuffle.zero-exact", epsilon, LARGE_DELTA, people)
    missing = laws.binomial(honest, protocol.randomizer.withheld)
    one_less = missing.shift(-1)  # a yes makes up for one missing message
    delta = hockey_stick(one_less, missing, epsilon)
    assert delta >= hockey_stick(missing, one_less, epsilon)
    most = max(
        gap
        for gap in range(-1, honest)
        if _mass(one_less, gap) > math.exp(epsilon) * _mass(missing, gap)
    )
    return {
        "epsilon": epsilon,
        "people": people,
        "honest": honest,
        "claimed": LARGE_DELTA,
        "delta": delta,
        "weight": protocol.randomizer.instructions["weight"],
        "least": honest - most,
    }


def _mass(law: Law, at: int) -> float:
    return float(law.mass[at - law.start]) if law.start <= at < law.stop else 0.0


def _noisy_shuffler(epsilon: float) -> dict[str, Any]:
    protocol = shuffled("shuffle.noisy-shuffler", epsilon, DELTA, CROWDS[0])
    noise = protocol.dummies.noise
    return {
        "epsilon": epsilon,
        "people": CROWDS[0],
        "most": noise.most,
        # The probabilities that the shuffler adds 0, …, `most` ones, times 2^128.
        "weights": [str(weight) for weight in noise.weights],
        "standard_error": protocol.standard_error(),
    }


def _clipped(epsilon: float, people: int) -> dict[str, Any]:
    """The mean of the estimates if nobody holds a yes and negative estimates are set to 0."""
    protocol: Any = response(epsilon, people)
    lie = protocol.randomizer.lie_probability
    law = laws.binomial(people, lie)
    estimates = (np.arange(law.start, law.stop) - people * float(lie)) / float(1 - 2 * lie)
    return {
        "epsilon": epsilon,
        "people": people,
        "device": device_data(protocol),
        "standard_error": protocol.standard_error(),
        "mean": float(law.mass @ np.maximum(estimates, 0.0)),
    }


def _interval(epsilon: float, confidence: int, share: Fraction) -> dict[str, Any]:
    """Which numbers of yes messages give an interval that contains the truth, and some that do not.

    Intervals move up with the number of yes messages. So the interval contains the truth for all
    numbers of yes messages from `first` to `last`, and for no others.
    """
    people = CROWDS[0]
    protocol: Any = response(epsilon, people)
    lie = protocol.randomizer.lie_probability
    yes = int(share * people)
    true, false = laws.binomial(yes, 1 - lie), laws.binomial(people - yes, lie)
    mass = np.convolve(true.mass, false.mass)
    start = true.start + false.start
    middle = round(yes + float(lie) * (people - 2 * yes))
    first, last = (_end(protocol, confidence, yes, middle, step) for step in (-1, 1))
    return {
        "epsilon": epsilon,
        "people": people,
        "confidence": confidence,
        "yes": yes,
        "device": device_data(protocol),
        "first": first,
        "last": last,
        "covered": float(mass[first - start : last - start + 1].sum()),
        "missing": [
            _row(protocol, confidence, sum_of_messages)
            for off in range(1, MISSING + 1)
            for sum_of_messages in (first - off, last + off)
        ],
    }


def _row(protocol: Protocol, confidence: int, messages: int) -> dict[str, Any]:
    """The estimate and the interval, if this many messages say yes."""
    tally = Tally(np.array([messages]), protocol.crowd.users, protocol.name)
    estimate: Any = protocol.estimate(tally)
    interval = estimate.interval(confidence / 100)
    return {
        "sum": messages,
        "value": estimate.value,
        "low": int(interval.low),
        "high": int(interval.high),
    }


def _end(protocol: Protocol, confidence: int, yes: int, middle: int, step: int) -> int:
    """The last number of yes messages whose interval contains the truth, counting from `middle` up
    (`step` = 1) or down (`step` = −1).
    """

    def misses(off: int) -> bool:
        row = _row(protocol, confidence, middle + step * off)
        return not row["low"] <= yes <= row["high"]

    return middle + step * (bisect_left(range(WINDOW), True, key=misses) - 1)
