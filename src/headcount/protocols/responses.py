"""Randomized responses with exact probabilities.

Probabilities are multiples of 2^−64. They are rounded so that the privacy loss is at most ε.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.divergence import PairCurve
from headcount.accounting.laws import ROUNDING, Law
from headcount.core.decimal_digits import decimal_digits
from headcount.core.messages import Alphabet, Messages
from headcount.core.randomizer import BundleLaw, Randomizer
from headcount.core.source import Source
from headcount.randomness.draws import WHOLE, bernoulli, uniform
from headcount.randomness.totals import binomial, multinomial


def lie_weight(values: int, epsilon: float) -> int:
    """The smallest t with (2^64 − (k−1)t)/t ≤ e^ε for k values, which is ⌈2^64/(e^ε + k − 1)⌉.

    A report is ε-private if it names each of the k−1 wrong values with probability t/2^64.
    """
    return share_weight(1, 1, values - 1, epsilon)


def share_weight(part: int, truths: int, lies: int, epsilon: float) -> int:
    """The weight ⌈2^64·part/(truths·e^ε + lies)⌉.

    A response has `truths` likely outcomes and `lies` unlikely outcomes. Each likely outcome has
    e^ε times the probability of each unlikely outcome. The weight divided by 2^64 is `part` times
    the probability of one unlikely outcome, rounded up.
    """
    with decimal_digits(60):
        # The number is below 10^20 and has 60 digits, so 10^−30 exceeds all rounding errors.
        exact = Decimal(WHOLE) * part / (truths * Decimal(epsilon).exp() + lies)
        return int((exact + Decimal("1e-30")).to_integral_value(ROUND_CEILING))


def ratio_epsilon(excess: Fraction) -> float:
    """The privacy loss ln(1 + excess) of probabilities with the ratio 1 + excess, rounded up."""
    return math.log1p(float(excess)) * (1 + 4 * ROUNDING)


def response_curve(own: Fraction, other: Fraction, *same: Fraction) -> PairCurve:
    """The privacy curve of a report, for two neighboring values.

    One class of reports has the probability `own` under the first value and `other` under the
    second. Another class has these two probabilities the other way round. `same` lists the
    probabilities of all classes that are equally likely under both values.
    """
    rest = [float(chance) for chance in same if chance]
    pair = [float(own), float(other)]
    one, two = (Law(0, np.array([*law, *rest]), ROUNDING) for law in (pair, pair[::-1]))
    return PairCurve.both_directions(one, two)


def respond(
    values: NDArray[np.integer], among: int, weight: int, source: Source
) -> NDArray[np.unsignedinteger]:
    """Random responses for values below `among`. Each lie has the probability weight/2^64.

    With probability among·weight/2^64, a response is a uniform number below `among`. Otherwise it
    is the truth.
    """
    dtype = np.min_scalar_type(among - 1)
    blind = bernoulli(source, len(values), among * weight).view(np.bool_)
    if 4 * among * weight > WHOLE:  # if many lie, drawing a number for everybody is faster
        reports = uniform(source, len(values), among, dtype.type)
        # The bits of this mask are all ones for people who tell the truth, and all zeros for
        # others. A mask is faster than np.where.
        honest = blind.astype(dtype) - dtype.type(1)
        honest &= reports ^ values.astype(dtype, copy=False)
        reports ^= honest
        return reports
    reports = values.astype(dtype)
    lies = np.flatnonzero(blind)
    reports[lies] = uniform(source, len(lies), among, dtype.type)
    return reports


def responded(counts: NDArray[np.int64], lie: Fraction, source: Source) -> NDArray[np.int64]:
    """The number of random responses that name each value.

    counts[v] people hold the value v. They name each wrong value with probability `lie`.
    """
    # With probability `share` a response is a uniform value. Otherwise it is the truth.
    share = len(counts) * lie
    blind = [int(binomial(source, n, share)[0]) for n in counts.tolist()]
    return counts - blind + multinomial(source, sum(blind), [1] * len(counts))


@dataclass(frozen=True)
class KAryRandomizer(Randomizer):
    """Sends each wrong bucket with probability t/2^64, and otherwise the person's own bucket."""

    buckets: int
    weight: int  # t

    fixed_messages = 1

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet.numbers(self.buckets)

    @property
    def instructions(self) -> Mapping[str, Any]:
        return {"kind": "response", "among": self.buckets, "weight": str(self.weight)}

    def send(self, encoded: NDArray[Any], source: Source) -> Messages:
        return Messages.one_each(respond(encoded, self.buckets, self.weight, source))

    def law(self, value: int) -> BundleLaw:
        lie = Fraction(self.weight, WHOLE)
        truth = 1 - (self.buckets - 1) * lie
        return {((bucket, 1),): truth if bucket == value else lie for bucket in range(self.buckets)}
