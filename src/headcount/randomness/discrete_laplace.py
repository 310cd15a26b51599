"""Two-sided geometric noise, drawn exactly (Canonne, Kamath, Steinke 2020, algorithms 1 and 2).

P(z) = (1−a)/(1+a)·a^|z| with a = e^−ε, for any rational ε. Every coin that is tossed has a rational
bias. A coin of bias e^−γ is made from such coins. OpenDP has a sampler of the same law. The sampler
in this file can also use the seeded source, and it spares the core a dependency. The time that a
draw takes depends on the noise; see SECURITY.md.
"""

from fractions import Fraction

from headcount.core.source import Source
from headcount.randomness.draws import uniform_below


def coin(source: Source, p: Fraction) -> bool:
    """True with probability p, for p in [0, 1]."""
    return uniform_below(source, p.denominator) < p.numerator


def exponential_coin(source: Source, gamma: Fraction) -> bool:
    """True with probability e^−γ, for γ in [0, 1].

    Toss coins of bias γ/1, γ/2, γ/3, … and let K be the number of the first coin that shows tails.
    Then P(K > k) = γ^k/k!, so P(K odd) = Σ (−γ)^k/k! = e^−γ.
    """
    k = 1
    while coin(source, gamma / k):
        k += 1
    return k % 2 == 1


def geometric(source: Source, gamma: Fraction) -> int:
    """One draw from the law P(k) = (1−a)·a^k, k ≥ 0, with a = e^−γ, for γ > 0."""
    s, t = gamma.numerator, gamma.denominator
    while True:
        remainder = uniform_below(source, t)
        if exponential_coin(source, Fraction(remainder, t)):
            break
    quotient = 0
    while exponential_coin(source, Fraction(1)):
        quotient += 1
    # remainder + t·quotient is geometric with ratio e^(−1/t). Dividing it by s makes the ratio
    # e^(−s/t) = e^−γ.
    return (remainder + t * quotient) // s


def discrete_laplace(source: Source, epsilon: Fraction) -> int:
    """One draw of two-sided geometric noise with parameter ε > 0."""
    while True:
        magnitude = geometric(source, epsilon)
        negative = uniform_below(source, 2) == 1
        if negative and magnitude == 0:
            continue  # otherwise zero would be twice as likely as it should be
        return -magnitude if negative else magnitude
