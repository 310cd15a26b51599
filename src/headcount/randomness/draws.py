"""Exact draws from simple laws, with integers only and without floating point."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core.errors import InvalidParameter
from headcount.core.source import Source

WHOLE = 1 << 64  # a probability is an integer divided by this, unless `bits` is given
_CHUNK = 1 << 18  # the number of bits that `bernoulli` draws at a time, one byte for each
_WORDS = 1 << 14  # the number of 64-bit words that are packed at a time
_FIRST = 10  # after this many binary digits, few words have an undecided bit


def bernoulli(source: Source, count: int, weight: int, bits: int = 64) -> NDArray[np.uint8]:
    """`count` independent bits that are 1 with probability exactly weight / 2^bits, bits ≤ 128."""
    if not (1 <= bits <= 128 and 0 <= weight <= 1 << bits):
        raise InvalidParameter(
            f"a probability must be weight/2^bits, with bits from 1 to 128, got {weight}/2^{bits}"
        )
    first, last = divmod(weight << (128 - bits), WHOLE)

    def rest(ties: int) -> NDArray[np.bool_]:
        if not last:  # the rest of the threshold is 0, and no number is below 0
            return np.zeros(ties, dtype=np.bool_)
        return source.integers(ties, np.uint64) < np.uint64(last)

    return _below(source, count, first, rest)


def real_bernoulli(source: Source, count: int, binary: Callable[[int], int]) -> NDArray[np.uint8]:
    """`count` independent bits that are 1 with probability exactly p, for any real p below 1.

    `binary(b)` must return ⌊p·2^b⌋, for any number b of binary digits. More than 64 digits are
    rarely needed.
    """

    def rest(ties: int) -> NDArray[np.bool_]:
        return np.array([decided(source, binary) for _ in range(ties)], dtype=np.bool_)

    return _below(source, count, binary(64), rest)


def decided(source: Source, binary: Callable[[int], int]) -> bool:
    """Whether a uniform number in [0, 1) is below p, given that both have the same first 64 binary
    digits. `binary(b)` must return ⌊p·2^b⌋.
    """
    digits = 64
    while True:
        digits += 64
        drawn, threshold = int(source.integers(1, np.uint64)[0]), binary(digits) % WHOLE
        if drawn != threshold:
            return drawn < threshold


def _below(
    source: Source, count: int, first: int, rest: Callable[[int], NDArray[np.bool_]]
) -> NDArray[np.uint8]:
    """For each of `count` uniform numbers in [0, 1), whether it is below a threshold.

    `first` is ⌊threshold·2^64⌋. The top byte of a number is compared first. With a chance of 1/256,
    it equals the threshold's top byte. Then the next 56 bits are drawn and compared. If these are
    equal too, `rest` decides. `rest` gets the number of undecided numbers, and returns for each of
    them whether it is below the threshold.
    """
    top, more = divmod(first, 1 << 56)
    out = np.empty(count, dtype=np.uint8)
    if top == 256:
        out.fill(1)
        return out
    threshold, beyond = np.uint8(top), np.uint64(more)
    # `_positions` needs a length that is a multiple of 64.
    equal = np.zeros(min(_CHUNK, -(-count // 64) * 64), dtype=np.bool_)
    for start in range(0, count, _CHUNK):
        piece = out[start : start + _CHUNK]
        source.fill(piece)
        equal[len(piece) :] = False
        np.equal(piece, threshold, out=equal[: len(piece)])
        np.less(piece, threshold, out=piece.view(np.bool_))
        ties = _positions(equal)
        further = source.integers(len(ties), np.uint64) >> np.uint64(8)
        piece[ties] = further < beyond
        if len(again := ties[further == beyond]):
            piece[again] = rest(len(again))
    return out


def successes(source: Source, count: int, weight: int, bits: int = 64) -> NDArray[np.int64]:
    """The positions of the ones among `count` bits from `bernoulli`.

    The function suits many bits with few ones, because only the positions of the ones take memory.
    """
    positions = []
    for start in range(0, count, _CHUNK):
        mask = np.zeros(_CHUNK, dtype=np.bool_)
        drawn = bernoulli(source, min(_CHUNK, count - start), weight, bits)
        mask[: len(drawn)] = drawn
        positions.append(_positions(mask) + start)
    return np.concatenate(positions) if positions else np.zeros(0, dtype=np.int64)


def packed_bernoulli(source: Source, size: int, weight: int) -> NDArray[np.uint8]:
    """`size` bytes of independent bits, each 1 with probability exactly weight / 2^64.

    A bit is 1 if a uniform number is below a threshold. Binary digits are compared one by one, the
    most significant first, for 64 numbers at a time. On average, each step decides half of the
    numbers that were still equal to the threshold.
    """
    if not 0 <= weight <= WHOLE:
        raise InvalidParameter(f"a probability must be weight/2^64, got {weight}/2^64")
    out = np.zeros(-(-size // 8), dtype=np.uint64)
    if weight == WHOLE:
        out.fill(WHOLE - 1)
        return out.view(np.uint8)[:size]
    digits = [weight >> (63 - place) & 1 for place in range(64)]
    while digits and not digits[-1]:  # trailing zeros of the threshold decide nothing
        digits.pop()
    # The first digits are compared for all words, `_WORDS` words at a time. The other digits are
    # compared only for words with an undecided bit.
    first = digits[:_FIRST]
    uniforms = np.empty((len(first), min(_WORDS, len(out))), dtype=np.uint64)
    places, undecided = [], []
    for start in range(0, len(out), _WORDS):
        piece = out[start : start + _WORDS]
        source.fill(uniforms.reshape(-1).view(np.uint8))
        equal: Any = None
        for digit, drawn in zip(first, uniforms[:, : len(piece)], strict=True):
            equal = _compared(digit, drawn, equal, piece)
        if len(digits) > len(first):
            at = np.flatnonzero(equal)
            places.append(at + start)
            undecided.append(equal[at])
    if not places:
        return out.view(np.uint8)[:size]
    where, equal = np.concatenate(places), np.concatenate(undecided)
    for digit in digits[_FIRST:]:
        below = out[where]
        equal = _compared(digit, source.integers(len(equal), np.uint64), equal, below)
        out[where] = below
        where, equal = where[left := equal != 0], equal[left]
    return out.view(np.uint8)[:size]


def _compared(digit: int, drawn: NDArray[Any], equal: Any, below: NDArray[np.uint64]) -> Any:
    """Compare one more binary digit of each number with the threshold. `below` is updated in place.
    The result is a mask, whose ones are the numbers that are still equal to the threshold.

    A drawn 1 means that the number's digit equals the threshold's digit, and a drawn 0 means that
    the two digits differ. So the number's digit is 0 or 1 with equal probability, like the drawn
    bit.
    """
    if equal is None:  # before the first digit, all numbers are equal
        if digit:
            np.invert(drawn, out=below)
        return drawn
    drawn &= equal
    if digit:
        equal ^= drawn
        below |= equal
    return drawn


def _positions(mask: NDArray[np.bool_], levels: int = 2) -> NDArray[np.int64]:
    """The positions where a mask is true. This is faster than `nonzero` if few entries are true.

    Entries are tested in groups of eight, each as one 64-bit integer. With two `levels`, the groups
    are again tested in groups of eight. The length of the mask must be a multiple of 8^levels.
    """
    if not levels:
        return mask.nonzero()[0]
    eights = mask.view(np.uint64)
    filled = _positions(eights != 0, levels - 1)
    inside = eights[filled].view(np.bool_).nonzero()[0]
    positions: NDArray[np.int64] = (filled[inside >> 3] << 3) + (inside & 7)
    return positions


def uniform(
    source: Source, count: int, below: int, dtype: type[np.unsignedinteger] = np.uint64
) -> NDArray[np.unsignedinteger]:
    """`count` independent integers, exactly uniform on 0 … below − 1. They must fit `dtype`.

    Random integers are cut to the number of bits of below − 1. Integers that are still too large
    are drawn again.
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
    """One integer, exactly uniform on 0 … below − 1. `below` may have any size."""
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

    Each number gets a random key, and the numbers are sorted by their keys. A key and its number
    are packed into one 64-bit integer, so one plain sort moves both. Then the few numbers with
    equal keys are put into a new random order among themselves. So the whole order is uniform.
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
    """A uniform order within each group of equal elements of a sorted vector.

    Elements are sorted by 64-bit keys, which are drawn again until all keys are distinct.
    """
    while True:
        keys = source.integers(len(groups), np.uint64)
        if len(np.unique(keys)) == len(keys):
            return np.lexsort((keys, groups))
