"""Two-sided geometric noise, drawn exactly (Canonne, Kamath, Steinke 2020, algorithms 1 and 2).

P(z) = (1−a)/(1+a)·a^|z| with a = e^−ε, for any rational ε: every coin has a rational bias, and a
coin of bias e^−γ is a parity of such coins. Our own rather than OpenDP's sampler of the same law,
so that the seeded source can drive it and the core needs no further package. How long a draw takes
depends on the noise; see SECURITY.md.
"""

from fractions import Fraction

from headcount.core.source import Source
from headcount.randomness.draws import uniform_below


def _coin(source: Source, p: Fraction) -> bool:
    return uniform_below(source, p.denominator) < p.numerator


def _exponential_coin(source: Source, gamma: Fraction) -> bool:
    """True with probability e^−γ, for γ in [0, 1].

    The number K of the first failure among coins of bias γ/1, γ/2, γ/3, … has
    P(K > k) = γ^k/k!, so P(K odd) = Σ (−γ)^k/k! = e^−γ.
    """
    k = 1
    while _coin(source, gamma / k):
        k += 1
    return k % 2 == 1


def discrete_laplace(source: Source, epsilon: Fraction) -> int:
    """One draw of two-sided geometric noise with parameter ε > 0."""
    s, t = epsilon.numerator, epsilon.denominator
    while True:
        remainder = uniform_below(source, t)
        if not _exponential_coin(source, Fraction(remainder, t)):
            continue
        quotient = 0
        while _exponential_coin(source, Fraction(1)):
            quotient += 1
        # remainder + t·quotient is geometric with ratio e^(−1/t); a block of s makes e^−ε.
        magnitude = (remainder + t * quotient) // s
        negative = uniform_below(source, 2) == 1
        if negative and magnitude == 0:
            continue  # zero has one sign only
        return -magnitude if negative else magnitude
