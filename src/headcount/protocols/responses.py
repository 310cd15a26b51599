"""Truth or a lie, with exact probabilities: whole numbers over 2^64, on the private side."""

import math
from decimal import ROUND_CEILING, Decimal, localcontext
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.laws import ROUNDING
from headcount.core.source import Source
from headcount.randomness.draws import WHOLE, bernoulli, uniform


def lie_weight(values: int, epsilon: float) -> int:
    """The least t with (2^64 − (k−1)t)/t ≤ e^ε, that is ⌈2^64/(e^ε + k − 1)⌉, for k values.

    With t/2^64 the probability of each of the k−1 lies, a report is ε-private.
    """
    return share_weight(1, 1, values - 1, epsilon)


def share_weight(part: int, truths: int, lies: int, epsilon: float) -> int:
    """⌈2^64·part/(truths·e^ε + lies)⌉: of `part` outcomes like lies, where there are truths, too,
    each e^ε times as likely as a lie.
    """
    with localcontext() as context:
        context.prec = 60
        # 60 digits of a number below 10^20: the margin of 10^−30 outweighs every rounding.
        exact = Decimal(WHOLE) * part / (truths * Decimal(epsilon).exp() + lies)
        return int((exact + Decimal("1e-30")).to_integral_value(ROUND_CEILING))


def ratio_epsilon(excess: Fraction) -> float:
    """The ε of a ratio 1 + excess between probabilities: its logarithm, rounded up."""
    return math.log1p(float(excess)) * (1 + 4 * ROUNDING)


def respond(
    values: NDArray[np.integer], among: int, weight: int, source: Source
) -> NDArray[np.unsignedinteger]:
    """Numbers below `among`, each kept or, with probability weight/2^64 each, turned into another.

    With probability among·weight/2^64 it is a uniform number, else the truth.
    """
    dtype = np.min_scalar_type(among - 1)
    blind = bernoulli(source, len(values), among * weight).view(np.bool_)
    if 4 * among * weight > WHOLE:  # most of them: a number for everybody is quicker
        reports = uniform(source, len(values), among, dtype.type)
        # All bits of those who tell the truth, and none of the others: quicker than to choose.
        honest = blind.astype(dtype) - dtype.type(1)
        honest &= reports ^ values.astype(dtype, copy=False)
        reports ^= honest
        return reports
    reports = values.astype(dtype)
    lies = np.flatnonzero(blind)
    reports[lies] = uniform(source, len(lies), among, dtype.type)
    return reports
