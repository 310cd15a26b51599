"""Exact draws from simple laws. Integers in, integers out: no floating point touches a bit."""

import numpy as np
from numpy.typing import NDArray

from headcount.core.errors import InvalidParameter
from headcount.core.source import Source

WHOLE = 1 << 64  # a probability is an integer of at most this, over it
_CHUNK = 1 << 18


def bernoulli(source: Source, count: int, weight: int, bits: int = 64) -> NDArray[np.uint8]:
    """`count` independent bits that are 1 with probability exactly weight / 2^bits, bits ≤ 128.

    A uniform 128-bit integer is below the threshold if its top byte is below the threshold's; only
    on a tie, once in 256 times, are the next 56 bits drawn and compared, and then the last 64.
    """
    if not (1 <= bits <= 128 and 0 <= weight <= 1 << bits):
        raise InvalidParameter(
            f"a probability must be weight/2^bits, with bits from 1 to 128, got {weight}/2^{bits}"
        )
    top, rest = divmod(weight << (128 - bits), 1 << 120)
    out = np.empty(count, dtype=np.uint8)
    if top == 256:
        out.fill(1)
        return out
    threshold, beyond, last = np.uint8(top), np.uint64(rest >> 64), np.uint64(rest % WHOLE)
    equal = np.zeros(_CHUNK, dtype=np.bool_)
    for start in range(0, count, _CHUNK):
        piece = out[start : start + _CHUNK]
        source.fill(piece)
        equal[len(piece) :] = False
        np.equal(piece, threshold, out=equal[: len(piece)])
        np.less(piece, threshold, out=piece.view(np.bool_))
        ties = _positions(equal)
        further = source.integers(len(ties), np.uint64) >> np.uint64(8)
        piece[ties] = further < beyond
        if last and len(again := ties[further == beyond]):
            piece[again] = source.integers(len(again), np.uint64) < last
    return out


def successes(source: Source, count: int, weight: int, bits: int = 64) -> NDArray[np.int64]:
    """Where `bernoulli` would have ones, without making the zeros: for rare ones among many."""
    found = []
    for start in range(0, count, _CHUNK):
        mask = np.zeros(_CHUNK, dtype=np.bool_)
        drawn = bernoulli(source, min(_CHUNK, count - start), weight, bits)
        mask[: len(drawn)] = drawn
        found.append(_positions(mask) + start)
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)


def _positions(mask: NDArray[np.bool_], levels: int = 2) -> NDArray[np.int64]:
    """Where a mask with few true entries is true: `nonzero`, looking at 64 entries at a time."""
    if not levels:
        return mask.nonzero()[0]
    eights = mask.view(np.uint64)
    found = _positions(eights != 0, levels - 1)
    inside = eights[found].view(np.bool_).nonzero()[0]
    positions: NDArray[np.int64] = (found[inside >> 3] << 3) + (inside & 7)
    return positions


def uniform(source: Source, count: int, below: int) -> NDArray[np.uint64]:
    """`count` independent integers, exactly uniform on 0 … below − 1, for below up to 2^64.

    Masked to the least power of two that is enough, and drawn again if too large.
    """
    if not 1 <= below <= 1 << 64:
        raise InvalidParameter(f"`below` must be between 1 and 2^64, got {below}")
    mask = np.uint64((1 << (below - 1).bit_length()) - 1)
    out = source.integers(count, np.uint64) & mask
    while len(large := np.flatnonzero(out > np.uint64(below - 1))):
        out[large] = source.integers(len(large), np.uint64) & mask
    return out


def uniform_below(source: Source, below: int) -> int:
    """One integer, exactly uniform on 0 … below − 1, of any size."""
    bits = (below - 1).bit_length()
    size = max(1, (bits + 7) // 8)
    while True:
        buffer = np.empty(size, dtype=np.uint8)
        source.fill(buffer)
        number = int.from_bytes(buffer.tobytes(), "little") >> (8 * size - bits)
        if number < below:
            return number


def permutation(source: Source, count: int) -> NDArray[np.intp]:
    """An exactly uniform permutation of 0 … count − 1.

    The order of random keys is uniform if keys that are equal are ordered by chance as well. A key
    fills what the number itself leaves free of 64 bits, so that one plain sort carries both; the
    few numbers whose keys are equal are then ordered anew within their group.
    """
    bits = max(1, (count - 1).bit_length())
    number = np.uint64((1 << bits) - 1)
    keyed = source.integers(count, np.uint64)
    keyed &= ~number
    keyed |= np.arange(count, dtype=np.uint64)
    keyed.sort()
    order = (keyed & number).astype(np.intp)
    keyed >>= np.uint64(bits)
    equal = np.flatnonzero(keyed[1:] == keyed[:-1])
    if len(equal):
        tied = np.union1d(equal, equal + 1)
        order[tied] = order[tied][_order_within(source, keyed[tied])]
    return order


def _order_within(source: Source, groups: NDArray[np.uint64]) -> NDArray[np.intp]:
    """A uniform order within each group of a sorted vector.

    By 64-bit keys, which give a uniform order if they are all distinct; drawn until they are.
    """
    while True:
        keys = source.integers(len(groups), np.uint64)
        if len(np.unique(keys)) == len(keys):
            return np.lexsort((keys, groups))
