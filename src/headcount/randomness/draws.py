"""Exact draws from simple laws. Integers in, integers out: no floating point touches a bit."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core.errors import InvalidParameter
from headcount.core.source import Source

WHOLE = 1 << 64  # a probability is an integer of at most this, over it
_CHUNK = 1 << 18
_WORDS = 1 << 14  # of 64 bits, packed at a time
_FIRST = 10  # digits of packed bits, after which few words have an undecided one


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


def packed_bernoulli(source: Source, size: int, weight: int) -> NDArray[np.uint8]:
    """`size` bytes of independent bits, each 1 with probability exactly weight / 2^64.

    The digits of uniform numbers are compared with the threshold's from the first on, 64 numbers
    at a time: each step decides half of the bits that are still equal to it.
    """
    if not 0 <= weight <= WHOLE:
        raise InvalidParameter(f"a probability must be weight/2^64, got {weight}/2^64")
    out = np.zeros(-(-size // 8), dtype=np.uint64)
    if weight == WHOLE:
        out.fill(WHOLE - 1)
        return out.view(np.uint8)[:size]
    digits = [weight >> (63 - place) & 1 for place in range(64)]
    while digits and not digits[-1]:  # where the threshold has no more digits, no number is below
        digits.pop()
    # The first digits for all words, piece by piece; then the others where a bit is undecided.
    first = digits[:_FIRST]
    uniforms = np.empty((len(first), _WORDS), dtype=np.uint64)
    found, undecided = [], []
    for start in range(0, len(out), _WORDS):
        piece = out[start : start + _WORDS]
        source.fill(uniforms.reshape(-1).view(np.uint8))
        equal: Any = None
        for digit, drawn in zip(first, uniforms[:, : len(piece)], strict=True):
            equal = _compared(digit, drawn, equal, piece)
        if len(digits) > len(first):
            at = np.flatnonzero(equal)
            found.append(at + start)
            undecided.append(equal[at])
    if not found:
        return out.view(np.uint8)[:size]
    where, equal = np.concatenate(found), np.concatenate(undecided)
    for digit in digits[_FIRST:]:
        below = out[where]
        equal = _compared(digit, source.integers(len(equal), np.uint64), equal, below)
        out[where] = below
        where, equal = where[left := equal != 0], equal[left]
    return out.view(np.uint8)[:size]


def _compared(digit: int, drawn: NDArray[Any], equal: Any, below: NDArray[np.uint64]) -> Any:
    """One digit more: which bits are `below` by now, in place, and which are still equal.

    A fair digit may be read either way: a 1 is taken for what keeps the bits equal.
    """
    if equal is None:  # before the first digit all are
        if digit:
            np.invert(drawn, out=below)
        return drawn
    drawn &= equal
    if digit:
        equal ^= drawn
        below |= equal
    return drawn


def _positions(mask: NDArray[np.bool_], levels: int = 2) -> NDArray[np.int64]:
    """Where a mask with few true entries is true: `nonzero`, looking at 64 entries at a time."""
    if not levels:
        return mask.nonzero()[0]
    eights = mask.view(np.uint64)
    found = _positions(eights != 0, levels - 1)
    inside = eights[found].view(np.bool_).nonzero()[0]
    positions: NDArray[np.int64] = (found[inside >> 3] << 3) + (inside & 7)
    return positions


def uniform(
    source: Source, count: int, below: int, dtype: type[np.unsignedinteger] = np.uint64
) -> NDArray[np.unsignedinteger]:
    """`count` independent integers, exactly uniform on 0 … below − 1, which the type must hold.

    Masked to the least power of two that is enough, and drawn again if too large.
    """
    most = int(np.iinfo(dtype).max) + 1
    if not 1 <= below <= most:
        raise InvalidParameter(f"`below` must be between 1 and {most}, got {below}")
    mask = dtype((1 << (below - 1).bit_length()) - 1)
    out: NDArray[np.unsignedinteger] = source.integers(count, dtype) & mask
    if below - 1 == int(mask):
        return out
    while len(large := np.flatnonzero(out > dtype(below - 1))):
        out[large] = source.integers(len(large), dtype) & mask
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
