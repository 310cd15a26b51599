"""Ways to look at what a mechanism puts out: each turns outputs into whole numbers, by a name.

An audit tries all of them where it may, and keeps the one that tells most. None of them needs to
know the mechanism: a number may tell by its size, by being exactly one of few, or by its last bits;
several numbers by each, by their order, their sum, how many they are, or all together.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Outputs: TypeAlias = Sequence[Any] | NDArray[Any]
Codes: TypeAlias = NDArray[np.int64]
MOST_PARTS = 64  # numbers of one output that are looked at by themselves
_BINS = 512  # into which sizes are put


def readings(outputs: Outputs, others: Outputs) -> Iterator[tuple[str, Callable[[Outputs], Codes]]]:
    """Readings that fit, made for these outputs of both sides."""
    arrays = isinstance(outputs, np.ndarray) and isinstance(others, np.ndarray)
    both = np.concatenate([outputs, others]) if arrays else [*outputs, *others]
    if _all_numbers(both):
        yield from _of_numbers("", np.asarray, both)
        return
    yield "everything", _whole
    if not all(isinstance(one, list | tuple | np.ndarray) for one in both):
        return
    yield "how many", lambda given: np.array([len(one) for one in given], dtype=np.int64)
    yield "without order", lambda given: _whole([tuple(sorted(one, key=repr)) for one in given])
    least = min(len(one) for one in both)
    for at in range(min(least, MOST_PARTS)):
        part = partial(_part, at=at)
        if _all_numbers([one[at] for one in both]):
            yield from _of_numbers(f"number {at}, ", part, both)
    if least and _all_numbers([number for one in both for number in one]):
        yield from _of_numbers("sum, ", _sums, both)


def _part(outputs: Outputs, at: int) -> NDArray[Any]:
    return np.array([one[at] for one in outputs])


def _sums(outputs: Outputs) -> NDArray[Any]:
    return np.array([sum(one) for one in outputs], dtype=np.float64)


def _all_numbers(outputs: Outputs) -> bool:
    if isinstance(outputs, np.ndarray):
        return outputs.ndim == 1 and outputs.dtype.kind in "iufb"
    return all(isinstance(one, int | float | np.number | np.bool_) for one in outputs)


def _of_numbers(
    prefix: str, numbers: Callable[[Outputs], NDArray[Any]], both: Outputs
) -> Iterator[tuple[str, Callable[[Outputs], Codes]]]:
    """By size, by being equal, and by the last bits of a float."""
    known = np.asarray(numbers(both))
    if known.dtype.kind in "iub":
        distinct = np.unique(known)
        if len(distinct) <= _BINS:
            yield f"{prefix}value", lambda given: np.asarray(numbers(given)).astype(np.int64)
            return
    floats = known.astype(np.float64)
    edges = np.unique(np.quantile(floats[np.isfinite(floats)], np.linspace(0, 1, _BINS)))
    yield (
        f"{prefix}size",
        lambda given: np.searchsorted(edges, np.asarray(numbers(given), dtype=np.float64)),
    )
    if known.dtype.kind == "f":
        yield f"{prefix}last bits", lambda given: last_bits(numbers(given))
        yield f"{prefix}exact value", lambda given: _bits(numbers(given))


def _bits(numbers: NDArray[Any]) -> Codes:
    return np.ascontiguousarray(numbers, dtype=np.float64).view(np.int64)


def last_bits(numbers: NDArray[Any]) -> Codes:
    """The power of two that is a float's last bit: what was added to noise may show there (Mironov
    2012), since a sum is rounded to multiples that fit the larger of the two.
    """
    given = np.where(np.isfinite(numbers), numbers, 0.0).astype(np.float64)
    mantissa, exponent = np.frexp(np.abs(given))
    digits = (mantissa * 2.0**53).astype(np.int64)
    lowest = np.maximum(digits & -digits, 1).astype(np.float64)
    places: Codes = exponent - 53 + np.log2(lowest).astype(np.int64)
    return places


def _whole(outputs: Outputs) -> Codes:
    """A number for each different output."""
    return np.array([hash(_plain(one)) for one in outputs], dtype=np.int64)


def _plain(output: Any) -> Any:
    if isinstance(output, np.ndarray):
        return output.tobytes()
    return tuple(map(_plain, output)) if isinstance(output, list | tuple) else output
