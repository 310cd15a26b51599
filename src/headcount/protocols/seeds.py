"""Public hashes that are derived from short seeds, so that nobody can choose a hash directly.

Notation    A seed is a number below 2^64. Its *words* are two numbers u and v below 2^64.
Function    The words are computed by the block function of ChaCha (RFC 8439), with 8 rounds instead
            of 20. The first two of its eight key words are the low and the high half of the seed.
            The other key words, the counter and the nonce are 0. u and v are the first and the
            second 64 bits of the block, in little-endian order.
Purpose     The function cannot be inverted, because its input is added to the block at the end.
            Anyone who wants a hash with some property has to try seeds.
"""

import numpy as np
from numpy.typing import NDArray

_CONSTANTS = np.frombuffer(b"expand 32-byte k", dtype="<u4").astype(np.uint32)
_ROUNDS = 8
_CHUNK = 1 << 12  # the blocks of this many seeds are computed at a time, to stay in the cache


def chacha(state: NDArray[np.uint32], rounds: int) -> NDArray[np.uint32]:
    """The ChaCha blocks for these states.

    A state has four rows of four words. The last axis of `state` runs over the states.
    """
    a, b, c, d = (row.copy() for row in state)
    for number in range(rounds):
        # Odd rounds mix diagonals: rows are rotated so that diagonals become columns.
        if number % 2:
            b, c, d = (np.roll(row, -by, axis=0) for by, row in enumerate((b, c, d), 1))
        for one, other, left, by in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            _step(one, other, left, by)
        if number % 2:
            b, c, d = (np.roll(row, by, axis=0) for by, row in enumerate((b, c, d), 1))
    return np.stack([a, b, c, d]) + state


def _step(
    one: NDArray[np.uint32], other: NDArray[np.uint32], left: NDArray[np.uint32], by: int
) -> None:
    """In place, add `other` to `one`, xor `left` with `one`, and rotate `left` by `by` bits."""
    one += other
    left ^= one
    low = left >> np.uint32(32 - by)
    left <<= np.uint32(by)
    left |= low


def words_of(seeds: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The words (u, v) of each seed, as rows."""
    out = np.empty((len(seeds), 2), dtype=np.uint64)
    for start in range(0, len(seeds), _CHUNK):
        piece = seeds[start : start + _CHUNK]
        state = np.zeros((4, 4, len(piece)), dtype=np.uint32)
        state[0] = _CONSTANTS[:, None]
        state[1, 0] = piece & np.uint64(2**32 - 1)
        state[1, 1] = piece >> np.uint64(32)
        low_u, high_u, low_v, high_v = chacha(state, _ROUNDS)[0].astype(np.uint64)
        out[start : start + _CHUNK, 0] = low_u | high_u << np.uint64(32)
        out[start : start + _CHUNK, 1] = low_v | high_v << np.uint64(32)
    return out
