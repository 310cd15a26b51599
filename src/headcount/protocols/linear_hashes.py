"""Linear hashes x ↦ Mx + b over the field of two elements, tallied by fast Walsh transforms.

Notation    x < 2^m is a bucket. M is a matrix with l rows of m bits, and b is a vector of l bits.
            ⟨a, x⟩ is the parity of the bits that are set in both a and x. A *word* is a row of M
            followed by its bit of b, so ⟨word, 2x + 1⟩ is a bit of the hash.
Hash        If all bits of M and b are uniform, the hashes of any three different buckets x, x' and
            x'' are independent and uniform. The reason is that x ⊕ x' and x ⊕ x'' are different and
            not 0, and so linearly independent.
Guards      A *guard* is a row that is drawn uniformly from all rows except 0. Its bit of the hash
            is not the same for all buckets: it differs between bucket 0 and some bucket 2^i. A row
            that is 0 would let one dishonest person support all buckets at once. Of the 2^m − 1
            possible guards, 2^(m−1) have ⟨row, x ⊕ x'⟩ = 1. So a guard's bits are equal for two
            buckets with probability α = (2^(m−1) − 1)/(2^m − 1), and for three buckets with
            probability α' = (2^(m−2) − 1)/(2^m − 1). If three buckets are given, the bit of the
            first differs from the bits of the other two with probability 2^(m−2)/(2^m − 1).
"""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray


def parity(words: NDArray[np.unsignedinteger]) -> NDArray[np.uint8]:
    bits: NDArray[np.uint8] = np.bitwise_count(words)
    bits &= np.uint8(1)
    return bits


def guard_pair(log_size: int) -> tuple[Fraction, Fraction]:
    """Two probabilities: that a guard's bits for two different buckets are equal, and that they
    differ.
    """
    every, half = 2**log_size - 1, 2 ** (log_size - 1)
    return Fraction(half - 1, every), Fraction(half, every)


def guard_triple(log_size: int) -> tuple[Fraction, Fraction]:
    """Two probabilities for a guard's bits of three different buckets.

    The first is the probability that all three bits are equal. The second is the probability that
    the bit of the first bucket differs from both others. Both are 0 for fewer than three buckets.
    """
    if log_size < 2:
        return Fraction(0), Fraction(0)
    every, quarter = 2**log_size - 1, 2 ** (log_size - 2)
    return Fraction(quarter - 1, every), Fraction(quarter, every)


def walsh(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Overwrite `numbers` with its Walsh transform, which is Σ_a numbers[a]·(−1)^⟨a, x⟩ at x."""
    half = 1
    while half < len(numbers):
        pairs = numbers.reshape(-1, 2, half)
        one, other = pairs[:, 0], pairs[:, 1]
        one += other
        other *= -2
        other += one
        half *= 2
    return numbers
