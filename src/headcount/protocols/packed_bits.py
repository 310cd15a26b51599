"""Rows of bits, packed eight to a byte like the messages of `Alphabet.packed`.

Frequency oracles that send many bits use these functions.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

_PEOPLE = 1 << 14  # the number of people whose bits are written at a time
# The sums of columns are computed from blocks of rows (see `column_sums`).
_BLOCKS = 64  # rows are divided into at least this many blocks, if there are enough rows
_BYTES = 1 << 17  # the largest size of a block; the blocks in use then stay in the cache
_FEW = 1 << 14  # blocks of at most this many bytes are added up bit by bit


def row_bytes(bits: int) -> int:
    return -(-bits // 8)


def as_rows(payload: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """The messages as a table with a row of bytes for each message.

    A message that is a single number becomes a row of one byte.
    """
    return np.ascontiguousarray(payload).reshape(-1, row_bytes(bits))


def as_payload(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The rows as messages. If rows are one byte long, each message is a single number."""
    return rows if rows.shape[1] > 1 else rows[:, 0]


def message(bits: NDArray[Any]) -> int | tuple[int, ...]:
    """One message that consists of these bits."""
    row = tuple(np.packbits(bits, bitorder="little").tolist())
    return row if len(row) > 1 else int(row[0])


def cleared(rows: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """The same rows, changed in place so that the unused bits of their last byte are zero."""
    if bits % 8:
        rows[:, -1] &= np.uint8((1 << bits % 8) - 1)
    return rows


def put(rows: NDArray[np.uint8], positions: NDArray[Any], bits: NDArray[np.uint8]) -> None:
    """Write one bit into each row, at the row's own position."""
    flat = rows.reshape(-1)
    for start in range(0, len(rows), _PEOPLE):
        chunk = positions[start : start + _PEOPLE]
        at = np.arange(start, start + len(chunk)) * rows.shape[1] + (chunk >> 3)
        place = (chunk & 7).astype(np.uint8)
        old = flat[at]
        # The old bit is flipped if it differs from the new bit.
        old ^= (((old >> place) ^ bits[start : start + _PEOPLE]) & 1) << place
        flat[at] = old


def row_sums(rows: NDArray[np.uint8]) -> NDArray[np.int32]:
    """The number of bits that are set in each row."""
    size = next(size for size in (8, 4, 2, 1) if rows.shape[1] % size == 0)
    counts = np.bitwise_count(rows.view(np.dtype(f"u{size}")))
    total = np.zeros(len(rows), dtype=np.int32)
    for column in counts.T:
        total += column
    return total


def column_sums(rows: NDArray[np.uint8], bits: int) -> NDArray[np.int64]:
    """For each bit, the number of rows in which it is set.

    The method is carry-save addition. A digit is a block of rows whose bits all have the same
    weight, a power of two. Bitwise operations replace three digits of one weight with one digit of
    that weight and one digit of twice the weight. In the end, there are at most two digits of each
    weight. All digits are then cut into halves, which are added up in the same way, until these are
    small.
    """
    width = rows.shape[1]
    blocks = max(_BLOCKS, -(-len(rows) * width // _BYTES))
    block = max(1, len(rows) // blocks)
    whole = len(rows) // block * block
    total = _sum(rows[whole:])
    digits: list[list[NDArray[np.uint8]]] = []  # the digits of weight 1, 2, 4, …
    for start in range(0, whole, block):
        _add(digits, rows[start : start + block], 0)
    while block * width > _FEW:
        block //= 2
        halved: list[list[NDArray[np.uint8]]] = []
        for place, alike in enumerate(digits):
            for digit in alike:
                _add(halved, digit[:block], place)
                _add(halved, digit[block : 2 * block], place)
                # If a digit has an odd number of rows, one row is left over.
                total += _sum(digit[2 * block :]) << place
        digits = halved
    for place, alike in enumerate(digits):
        for digit in alike:
            total += _sum(digit) << place
    return total[:bits]


def _add(digits: list[list[NDArray[np.uint8]]], digit: NDArray[np.uint8], place: int) -> None:
    """Add a digit of weight 2^place to `digits`, with carries."""
    while len(digits) <= place:
        digits.append([])
    while len(digits[place]) == 2:
        one, other = digits[place]
        differ = one ^ other
        carry = one ^ digit
        carry &= differ
        carry ^= one  # now `carry` is the majority of the three bits
        differ ^= digit
        digits[place] = [differ]
        digit, place = carry, place + 1
        if place == len(digits):
            digits.append([])
    digits[place].append(digit)


def _sum(rows: NDArray[np.uint8]) -> NDArray[np.int64]:
    """The sums of `column_sums` for few rows, computed bit by bit. Unused bits are included."""
    total = np.zeros(8 * rows.shape[1], dtype=np.int64)
    for start in range(0, len(rows), 255):  # the sum of 255 bits fits into a byte
        bits = np.unpackbits(rows[start : start + 255], axis=1, bitorder="little")
        total += bits.sum(axis=0, dtype=np.uint8)
    return total
