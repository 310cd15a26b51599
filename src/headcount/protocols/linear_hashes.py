"""Hashes by parities of bits: x ↦ Mx + b over two elements, which fast transforms can count.

Notation    x < 2^m a bucket; M a matrix of l rows of m bits and b a vector of l bits, all uniform.
            A *word* is a row of M with its bit of b above it: its parity with x + 2^m is a bit of
            the hash. ⟨a, x⟩ is the parity of the bits that a and x share.
Hash        Any three different buckets have independent uniform hashes: x − x' and x − x'' are
            different and not 0, so they are linearly independent.
"""

import numpy as np
from numpy.typing import NDArray


def parity(words: NDArray[np.unsignedinteger]) -> NDArray[np.uint8]:
    bits: NDArray[np.uint8] = np.bitwise_count(words)
    bits &= np.uint8(1)
    return bits


def walsh(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Σ_a numbers[a]·(−1)^⟨a, x⟩ for every x, in place; there are 2^m of them."""
    half = 1
    while half < len(numbers):
        pairs = numbers.reshape(-1, 2, half)
        one, other = pairs[:, 0], pairs[:, 1]
        one += other
        other *= -2
        other += one
        half *= 2
    return numbers
