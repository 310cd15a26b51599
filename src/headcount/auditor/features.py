"""Features of a mechanism's outputs. A feature gives each output a whole number, its code.

An audit tries all features that suit the outputs, and keeps the one that distinguishes two datasets
best. The audit needs no knowledge of the mechanism. If numbers are whole and have few different
values, their only feature is the value. Otherwise, numbers have a size and, if they are floats,
also last bits and an exact value. If an output consists of several numbers, its features are those
of each number, the sum, the count of numbers, the whole output, the output without the order of its
numbers, and the joint odds of the numbers (see `_of_odds`). A feature is learned from some outputs,
but it gives every output a code. For example, a feature of numbers also gives a code to a word.
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

# The outputs of several runs: a sequence of any objects, or an array with a row for each run.
Outputs: TypeAlias = Sequence[Any] | NDArray[Any]
Codes: TypeAlias = NDArray[np.int64]
MOST_PARTS = 64  # only the first 64 numbers of an output have features of their own
_BINS = 512  # the most bins for the sizes of numbers
_COARSE = 32  # the most bins for each number in the joint odds
_NAMED = 6  # the most codes that a description lists
_MOST_BITS = 1023  # whole numbers with more bits may not fit into a float
_NO_NUMBER = np.iinfo(np.int64).min  # the code of an output that is not a whole number
# These objects replace −1 and NaN, because −1 has the same hash as −2, and NaN does not equal NaN.
_MINUS_ONE, _NAN = object(), object()


@dataclass(frozen=True)
class Feature:
    """A feature of outputs. `codes_of` returns the code of each output. `in_words` describes codes,
    which must be in ascending order.
    """

    name: str
    codes_of: Callable[[Outputs], Codes]
    in_words: Callable[[Codes], str]

    def describe(self, codes: Codes) -> str:
        return f"{self.name}: {self.in_words(codes)}"


def checked(outputs: Outputs) -> Outputs:
    """The outputs, after a check that they have features. Outputs must be numbers, words, other
    objects with a hash, or lists of such objects.
    """
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
    """Whether all outputs are None, or lists of None."""

    def nothing(output: Any) -> bool:
        listed = isinstance(output, list | tuple) and len(output) > 0
        return all(map(nothing, output)) if listed else output is None

    return not isinstance(outputs, np.ndarray) and all(map(nothing, outputs))


def features(outputs: Outputs, others: Outputs) -> Iterator[Feature]:
    """All features that suit these outputs, learned from both sides."""
    arrays = isinstance(outputs, np.ndarray) and isinstance(others, np.ndarray)
    both = np.concatenate([outputs, others]) if arrays else [*outputs, *others]
    if _all_numbers(both):
        yield from _of_numbers("", _numbers_of, both)
        return
    yield Feature("whole output", same, _one_of)
    if isinstance(both, np.ndarray):
        least = both.shape[1] if both.ndim == 2 else 0
    elif all(isinstance(one, list | tuple | np.ndarray) for one in both):
        least = min(len(one) for one in both)
        yield Feature("length", _sizes, _numbers)
        yield Feature("output without order", _without_order, _one_of)
    else:
        return
    for at in range(min(least, MOST_PARTS)):
        yield from _of_numbers(f"number {at},", partial(_column, at=at), both)
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
    """The outputs as numbers. An output that is not a number becomes NaN."""
    if _all_numbers(outputs):
        array = np.asarray(outputs)
        if array.dtype.kind in "iufb":  # otherwise some numbers have more than 64 bits
            return array
    return np.array([float(one) if _is_number(one) else np.nan for one in outputs])


def _column(outputs: Outputs, at: int) -> Outputs:
    """Number `at` of each output, or None for an output that has no such number."""
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
    """The features of one number of an output. The function `listed` takes this number from each
    output. Whole numbers with few different values have only their value. Others have a size and,
    if they are floats, last bits and an exact value. If some outputs have no such number, there are
    no features.
    """
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
    """The edges of at most `most` bins that each have about the same number of elements. Both the
    number of bins and the number of elements in each bin grow with the number of elements.
    """
    finite = numbers[np.isfinite(numbers)]
    bins = min(most, 2 + int(4 * len(finite) ** (1 / 3)))
    return np.unique(np.quantile(finite, np.linspace(0, 1, bins))) if len(finite) else np.zeros(1)


def _of_odds(outputs: Outputs, others: Outputs, parts: int) -> Iterator[Feature]:
    """The feature of the joint odds that an output comes from one side and not from the other.

    Each number of the output has its own odds. Their logarithms are added, as if the numbers were
    independent. The odds are learned only from the first half of the runs. `best_event` uses the
    same half to choose the codes of an event.
    """
    half = len(outputs) // 2
    sides = [[_column(side[:half], at) for at in range(parts)] for side in (outputs, others)]
    if not all(map(_all_numbers, sides[0] + sides[1])):
        return
    tables = []
    for one, other in zip(*sides, strict=True):
        ours, theirs = (_numbers_of(column).astype(np.float64) for column in (one, other))
        edges = _edges(np.concatenate([ours, theirs]), _COARSE)
        seen, beside = (
            np.bincount(np.searchsorted(edges, column), minlength=len(edges) + 1)
            for column in (ours, theirs)
        )
        tables.append((edges, np.log((seen + 1) / (beside + 1))))

    def odds(given: Outputs) -> NDArray[Any]:
        total = np.zeros(len(given))
        for at, (edges, said) in enumerate(tables):
            column = _numbers_of(_column(given, at)).astype(np.float64)
            total += said[np.searchsorted(edges, column)]
        return total

    known = np.concatenate([odds(outputs[:half]), odds(others[:half])])
    yield _by_size("odds of all numbers", odds, known)


def _bits(numbers: NDArray[Any]) -> Codes:
    return np.ascontiguousarray(numbers, dtype=np.float64).view(np.int64)


def last_bits(numbers: NDArray[Any]) -> Codes:
    """For each float, the exponent of the power of two that its last nonzero bit stands for.

    A sum of a value and noise is rounded to a precision that depends on the larger one. So the last
    bits of the sum may reveal the value (Mironov 2012).
    """
    given = np.where(np.isfinite(numbers), numbers, 0.0).astype(np.float64)
    mantissa, exponent = np.frexp(np.abs(given))
    digits = (mantissa * 2.0**53).astype(np.int64)
    lowest = np.maximum(digits & -digits, 1).astype(np.float64)
    places: Codes = exponent - 53 + np.log2(lowest).astype(np.int64)
    return places


def same(outputs: Outputs) -> Codes:
    """A code for each output. Two outputs have the same code if they are equal, and hardly ever
    otherwise.
    """
    if isinstance(outputs, np.ndarray):
        if outputs.ndim == 1:
            return _bits(outputs) if outputs.dtype.kind == "f" else outputs.astype(np.int64)
        rows = np.ascontiguousarray(outputs.reshape(len(outputs), -1))
        outputs = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1])))[:, 0].tolist()
    return np.array([hash(_plain(one)) for one in outputs], dtype=np.int64)


def _plain(output: Any) -> Any:
    """An object whose hash stands for an output. Equal outputs have the same hash, and different
    outputs hardly ever have the same hash.
    """
    if isinstance(output, np.ndarray):
        return output.tobytes() if output.dtype.kind in "iufb" else _plain(output.tolist())
    if isinstance(output, list | tuple):
        return tuple(map(_plain, output))
    if isinstance(output, int) and output.bit_length() > _MOST_BITS:
        raise InvalidParameter(
            "a mechanism must give numbers that a float can hold, got a number of "
            f"{output.bit_length()} bits"
        )
    if output is not None and getattr(type(output), "__hash__", None) is object.__hash__:
        raise TypeError(f"two objects of type {type(output).__name__} are never equal")
    if isinstance(output, float | np.floating) and math.isnan(output):
        return _NAN
    return _MINUS_ONE if _is_number(output) and output == -1 else output


def _one_of(codes: Codes) -> str:
    return f"one of {len(codes):,} values" if len(codes) > 1 else "one particular value"


def _numbers(codes: Codes) -> str:
    if len(codes) <= _NAMED:
        return ", ".join(map(str, codes.tolist()))
    return f"one of {len(codes)} values from {codes[0]} to {codes[-1]}"


def _ranges(codes: Codes, edges: NDArray[np.float64]) -> str:
    """A description of bins in words. Code c is the bin from edge c − 1 to edge c. Adjacent bins
    are described as one range.
    """
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
