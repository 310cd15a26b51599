"""Rows of bits, eight to a byte, as `Alphabet.packed` has them: what oracles of many bits share."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

_PEOPLE = 1 << 14  # whose bits are set at a time
_BLOCKS = 64  # of rows that are added up, or more
_BYTES = 1 << 17  # of a block, at most: those in use stay in the cache
_FEW = 1 << 14  # bytes whose bits are added up one by one


def row_bytes(bits: int) -> int:
    return -(-bits // 8)


def as_rows(payload: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """A row of bytes for each message, also where a row is a single byte."""
    return np.ascontiguousarray(payload).reshape(-1, row_bytes(bits))


def as_payload(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Messages of rows."""
    return rows if rows.shape[1] > 1 else rows[:, 0]


def message(bits: NDArray[Any]) -> int | tuple[int, ...]:
    """One message, from its bits one by one."""
    row = tuple(np.packbits(bits, bitorder="little").tolist())
    return row if len(row) > 1 else int(row[0])


def cleared(rows: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """The same rows, with nothing behind their last bit."""
    if bits % 8:
        rows[:, -1] &= np.uint8((1 << bits % 8) - 1)
    return rows


def put(rows: NDArray[np.uint8], positions: NDArray[Any], bits: NDArray[np.uint8]) -> None:
    """Set in every row the bit at one position."""
    flat = rows.reshape(-1)
    for start in range(0, len(rows), _PEOPLE):
        chosen = positions[start : start + _PEOPLE]
        at = np.arange(start, start + len(chosen)) * rows.shape[1] + (chosen >> 3)
        place = (chosen & 7).astype(np.uint8)
        found = flat[at]
        # The bit that is there, and the one that shall be: differing, it is flipped.
        found ^= (((found >> place) ^ bits[start : start + _PEOPLE]) & 1) << place
        flat[at] = found


def row_sums(rows: NDArray[np.uint8]) -> NDArray[np.int32]:
    """How many bits each row has set."""
    size = next(size for size in (8, 4, 2, 1) if rows.shape[1] % size == 0)
    counts = np.bitwise_count(rows.view(np.dtype(f"u{size}")))
    total = np.zeros(len(rows), dtype=np.int32)
    for column in counts.T:
        total += column
    return total


def column_sums(rows: NDArray[np.uint8], bits: int) -> NDArray[np.int64]:
    """How many rows have each bit set.

    By carry-save addition: bitwise operations on blocks of rows turn three digits of one weight
    into one of it and one of twice the weight, for all bits at once. What is left in the end are
    two digits at most of each weight, blocks that are halved and added up in the same way.
    """
    width = rows.shape[1]
    blocks = max(_BLOCKS, -(-len(rows) * width // _BYTES))
    block = max(1, len(rows) // blocks)
    whole = len(rows) // block * block
    total = _sum(rows[whole:])
    digits: list[list[NDArray[np.uint8]]] = []  # of weight 1, 2, 4, …
    for start in range(0, whole, block):
        _add(digits, rows[start : start + block], 0)
    while block * width > _FEW:
        block //= 2
        halved: list[list[NDArray[np.uint8]]] = []
        for place, alike in enumerate(digits):
            for digit in alike:
                _add(halved, digit[:block], place)
                _add(halved, digit[block : 2 * block], place)
                total += _sum(digit[2 * block :]) << place  # one row, if they were odd
        digits = halved
    for place, alike in enumerate(digits):
        for digit in alike:
            total += _sum(digit) << place
    return total[:bits]


def _add(digits: list[list[NDArray[np.uint8]]], digit: NDArray[np.uint8], place: int) -> None:
    """Add a block of digits to those of its weight, 2^place, and carry."""
    while len(digits) <= place:
        digits.append([])
    while len(digits[place]) == 2:
        one, other = digits[place]
        differ = one ^ other
        carry = one ^ digit
        carry &= differ
        carry ^= one  # the bit that two or all three of them have
        differ ^= digit
        digits[place] = [differ]
        digit, place = carry, place + 1
        if place == len(digits):
            digits.append([])
    digits[place].append(digit)


def _sum(rows: NDArray[np.uint8]) -> NDArray[np.int64]:
    """The same bit by bit, for few rows."""
    total = np.zeros(8 * rows.shape[1], dtype=np.int64)
    for start in range(0, len(rows), 255):  # whose sums fit a byte
        bits = np.unpackbits(rows[start : start + 255], axis=1, bitorder="little")
        total += bits.sum(axis=0, dtype=np.uint8)
    return total
