"""Linear hashes x ↦ Mx + b over the field of two elements. Fast transforms can count them.

Notation    x < 2^m is a bucket. M is a matrix with l rows of m bits, and b a vector of l bits; all
            bits are uniform. ⟨a, x⟩ is the parity of the bits that are set in both a and x. A
            *word* w is a row of M with its bit of b in front, at 2^m, so ⟨w, x + 2^m⟩ is a bit of
            the hash.
Hash        Any three different buckets have independent uniform hashes, because x − x' and x − x''
            are different and not 0, and so linearly independent.
"""

import numpy as np
from numpy.typing import NDArray


def parity(words: NDArray[np.unsignedinteger]) -> NDArray[np.uint8]:
    bits: NDArray[np.uint8] = np.bitwise_count(words)
    bits &= np.uint8(1)
    return bits


def walsh(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Σ_a numbers[a]·(−1)^⟨a, x⟩ for every x. There must be 2^m numbers; they are overwritten."""
    half = 1
    while half < len(numbers):
        pairs = numbers.reshape(-1, 2, half)
        one, other = pairs[:, 0], pairs[:, 1]
        one += other
        other *= -2
        other += one
        half *= 2
    return numbers
