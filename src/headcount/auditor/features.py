"""Ways to look at what a mechanism puts out: each turns outputs into whole numbers, its codes.

An audit tries all of them where it may, and keeps the one that tells most. None of them needs to
know the mechanism: a number may tell by its size, by being exactly one of few, or by its last bits;
several numbers by each, by their order, their sum, how many they are, by odds that add up what each
of them tells, or all together. A feature is made for some outputs, but reads all others, too: what
it does not know, such as a word among numbers, has a code as well.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headcount.core.errors import InvalidParameter
from headcount.core.table import short

# One for each run: a sequence of anything, or an array whose rows they are.
Outputs: TypeAlias = Sequence[Any] | NDArray[Any]
Codes: TypeAlias = NDArray[np.int64]
MOST_PARTS = 64  # numbers of one output that are looked at by themselves
_BINS = 512  # into which sizes are put, at most
_COARSE = 32  # the same where many numbers are put together
_NAMED = 6  # codes that a description lists
_MOST_BITS = 1023  # of a whole number that a float can hold
_NO_NUMBER = np.iinfo(np.int64).min  # the code of what is no whole number
_MINUS_ONE, _NAN = object(), object()  # stand-ins: -1 has the hash of -2, and no two NaNs agree


@dataclass(frozen=True)
class Feature:
    """`read` gives the code of each output; `say` puts some codes, rising, into words."""

    name: str
    codes_of: Callable[[Outputs], Codes]
    in_words: Callable[[Codes], str]

    def describe(self, codes: Codes) -> str:
        return f"{self.name} {self.in_words(codes)}".strip()


def checked(outputs: Outputs) -> Outputs:
    """The outputs, if they can be read: numbers, words, anything with a hash, or lists of these."""
    if isinstance(outputs, np.ndarray):
        if outputs.dtype.kind in "iufb":
            return outputs
        outputs = outputs.tolist()
    try:
        for output in outputs:
            hash(_plain(output))
    except (TypeError, RecursionError) as error:
        raise InvalidParameter(
            "a mechanism must give numbers, words or lists of them, got something else: "
            f"{type(error).__name__}: {error}"
        ) from None
    return outputs


def says_nothing(outputs: Outputs) -> bool:
    """Whether all of them are None, or lists of None."""

    def nothing(output: Any) -> bool:
        listed = isinstance(output, list | tuple) and len(output) > 0
        return all(map(nothing, output)) if listed else output is None

    return not isinstance(outputs, np.ndarray) and all(map(nothing, outputs))


def features(outputs: Outputs, others: Outputs) -> Iterator[Feature]:
    """Readings that fit, made for these outputs of both sides."""
    arrays = isinstance(outputs, np.ndarray) and isinstance(others, np.ndarray)
    both = np.concatenate([outputs, others]) if arrays else [*outputs, *others]
    if _all_numbers(both):
        yield from _of_numbers("", _numbers_of, both)
        return
    yield Feature("everything", same, _one_of)
    if isinstance(both, np.ndarray):
        least = both.shape[1] if both.ndim == 2 else 0
    elif all(isinstance(one, list | tuple | np.ndarray) for one in both):
        least = min(len(one) for one in both)
        yield Feature("how many", _sizes, _numbers)
        yield Feature("without order", _without_order, _one_of)
    else:
        return
    for at in range(min(least, MOST_PARTS)):
        yield from _of_numbers(f"number {at},", partial(_part, at=at), both)
    if least > 1:
        yield from _of_numbers("sum,", _sums, both)
        yield from _of_odds(outputs, others, min(least, MOST_PARTS))


def _is_number(output: Any) -> bool:
    return isinstance(output, int | float | np.integer | np.floating | np.bool_)


def _all_numbers(outputs: Outputs) -> bool:
    if isinstance(outputs, np.ndarray):
        return outputs.ndim == 1 and outputs.dtype.kind in "iufb"
    return all(map(_is_number, outputs))


def _numbers_of(outputs: Outputs) -> NDArray[Any]:
    """The outputs as numbers; NaN for each that is none."""
    if _all_numbers(outputs):
        array = np.asarray(outputs)
        if array.dtype.kind in "iufb":  # else some are beyond 64 bits
            return array
    return np.array([float(one) if _is_number(one) else np.nan for one in outputs])


def _part(outputs: Outputs, at: int) -> Outputs:
    if isinstance(outputs, np.ndarray):
        return outputs[:, at]
    return [one[at] if _has(one, at) else None for one in outputs]


def _has(output: Any, at: int) -> bool:
    return isinstance(output, list | tuple | np.ndarray) and len(output) > at


def _sums(outputs: Outputs) -> Outputs:
    if isinstance(outputs, np.ndarray):
        summed: NDArray[Any] = outputs.sum(axis=1)
        return summed
    return [sum(one) if _has(one, 0) and _all_numbers(one) else None for one in outputs]


def _sizes(outputs: Outputs) -> Codes:
    listed = (isinstance(one, list | tuple | np.ndarray) for one in outputs)
    sizes = [len(one) if yes else -1 for one, yes in zip(outputs, listed, strict=True)]
    return np.array(sizes, dtype=np.int64)


def _without_order(outputs: Outputs) -> Codes:
    return same([tuple(sorted(one, key=repr)) if _has(one, 0) else one for one in outputs])


def _of_numbers(
    prefix: str, listed: Callable[[Outputs], Outputs], both: Outputs
) -> Iterator[Feature]:
    """By size, by being equal, and by the last bits of a float; nothing of what is no number."""
    if not _all_numbers(listed(both)):
        return
    known = _numbers_of(listed(both))

    def numbers(given: Outputs) -> NDArray[Any]:
        return _numbers_of(listed(given))

    def name(kind: str) -> str:
        return f"{prefix} {kind}".strip()

    if _are_whole(known) and len(np.unique(known)) <= _BINS:
        yield Feature(name("value"), lambda given: _as_whole(numbers(given)), _numbers)
        return
    yield _by_size(name("size"), numbers, known)
    if known.dtype.kind == "f":
        yield Feature(
            name("last bits"),
            lambda given: last_bits(numbers(given)),
            lambda codes: (
                f"a multiple of 2^{codes[0]}"
                if len(codes) == 1
                else f"{len(codes)} powers of two, from 2^{codes[0]} to 2^{codes[-1]}"
            ),
        )
        yield Feature(name("exact value"), lambda given: _bits(numbers(given)), _one_of)


def _are_whole(numbers: NDArray[Any]) -> bool:
    return numbers.dtype.kind in "iub" or bool(
        np.all((np.abs(numbers) < 2**53) & (numbers == np.rint(numbers)))
    )


def _as_whole(numbers: NDArray[Any]) -> Codes:
    if numbers.dtype.kind in "iub":
        return numbers.astype(np.int64)
    whole = (np.abs(numbers) < 2**53) & (numbers == np.rint(numbers))
    return np.where(whole, np.where(whole, numbers, 0).astype(np.int64), _NO_NUMBER)


def _by_size(name: str, numbers: Callable[[Outputs], NDArray[Any]], known: NDArray[Any]) -> Feature:
    edges = _edges(known.astype(np.float64), _BINS)
    return Feature(
        name,
        lambda given: np.searchsorted(edges, numbers(given).astype(np.float64)),
        partial(_ranges, edges=edges),
    )


def _edges(numbers: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    """Of bins that hold about as many numbers each: the more numbers, the more bins, and the more
    in each of them.
    """
    finite = numbers[np.isfinite(numbers)]
    bins = min(most, 2 + int(4 * len(finite) ** (1 / 3)))
    return np.unique(np.quantile(finite, np.linspace(0, 1, bins))) if len(finite) else np.zeros(1)


def _of_odds(outputs: Outputs, others: Outputs, parts: int) -> Iterator[Feature]:
    """By odds for the one side against the other: the sum of what each number says, as if they were
    independent. Learned from the first half of the runs alone, like the codes of an event.
    """
    half = len(outputs) // 2
    sides = [[_part(side[:half], at) for at in range(parts)] for side in (outputs, others)]
    if not all(map(_all_numbers, sides[0] + sides[1])):
        return
    tables = []
    for one, other in zip(*sides, strict=True):
        ours, theirs = (_numbers_of(part).astype(np.float64) for part in (one, other))
        edges = _edges(np.concatenate([ours, theirs]), _COARSE)
        seen, beside = (
            np.bincount(np.searchsorted(edges, part), minlength=len(edges) + 1)
            for part in (ours, theirs)
        )
        tables.append((edges, np.log((seen + 1) / (beside + 1))))

    def odds(given: Outputs) -> NDArray[Any]:
        total = np.zeros(len(given))
        for at, (edges, said) in enumerate(tables):
            part = _numbers_of(_part(given, at)).astype(np.float64)
            total += said[np.searchsorted(edges, part)]
        return total

    known = np.concatenate([odds(outputs[:half]), odds(others[:half])])
    yield _by_size("odds of all numbers,", odds, known)


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


def same(outputs: Outputs) -> Codes:
    """A code for each output: equal outputs have the same one."""
    if isinstance(outputs, np.ndarray):
        if outputs.ndim == 1:
            return _bits(outputs) if outputs.dtype.kind == "f" else outputs.astype(np.int64)
        rows = np.ascontiguousarray(outputs.reshape(len(outputs), -1))
        outputs = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1])))[:, 0].tolist()
    return np.array([hash(_plain(one)) for one in outputs], dtype=np.int64)


def _plain(output: Any) -> Any:
    """A stand-in for an output: equal ones have the same hash, and others hardly ever do."""
    if isinstance(output, np.ndarray):
        return output.tobytes() if output.dtype.kind in "iufb" else _plain(output.tolist())
    if isinstance(output, list | tuple):
        return tuple(map(_plain, output))
    if isinstance(output, int) and output.bit_length() > _MOST_BITS:
        raise InvalidParameter(
            "a mechanism must give numbers that a float can hold, got one of "
            f"{output.bit_length()} bits"
        )
    if output is not None and getattr(type(output), "__hash__", None) is object.__hash__:
        raise TypeError(f"no two of type {type(output).__name__} are equal")
    if isinstance(output, float | np.floating) and math.isnan(output):
        return _NAN
    return _MINUS_ONE if _is_number(output) and output == -1 else output


def _one_of(codes: Codes) -> str:
    return f"one of {len(codes):,}" if len(codes) > 1 else "a certain one"


def _numbers(codes: Codes) -> str:
    if len(codes) <= _NAMED:
        return ", ".join(map(str, codes.tolist()))
    return f"one of {len(codes)} from {codes[0]} to {codes[-1]}"


def _ranges(codes: Codes, edges: NDArray[np.float64]) -> str:
    """Bins that follow each other are one range: code c is from edge c − 1 to edge c."""
    ends = np.flatnonzero(np.diff(codes) > 1)
    cuts = [0, *(ends + 1).tolist(), len(codes)]
    said = [_range(int(codes[a]), int(codes[b - 1]), edges) for a, b in pairwise(cuts)]
    return " or ".join(said) if len(said) <= _NAMED // 2 else f"in one of {len(said)} ranges"


def _range(first: int, last: int, edges: NDArray[np.float64]) -> str:
    if first == 0:
        return f"at most {short(edges[min(last, len(edges) - 1)], 4)}"
    if last >= len(edges) - 1:
        return f"above {short(edges[first - 1], 4)}"
    return f"from {short(edges[first - 1], 4)} to {short(edges[last], 4)}"
