"""Ways to look at what a mechanism puts out: each turns outputs into whole numbers, its codes.

An audit tries all of them where it may, and keeps the one that tells most. None of them needs to
know the mechanism: a number may tell by its size, by being exactly one of few, or by its last bits;
several numbers by each, by their order, their sum, how many they are, by odds that add up what each
of them tells, or all together.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headcount.core.table import short

# One for each run: a sequence of anything, or an array whose rows they are.
Outputs: TypeAlias = Sequence[Any] | NDArray[Any]
Codes: TypeAlias = NDArray[np.int64]
MOST_PARTS = 64  # numbers of one output that are looked at by themselves
_BINS = 512  # into which sizes are put, at most
_COARSE = 32  # the same where many numbers are put together
_NAMED = 6  # codes that a description lists


@dataclass(frozen=True)
class Reading:
    """`read` gives the code of each output; `say` puts some codes, rising, into words."""

    name: str
    read: Callable[[Outputs], Codes]
    say: Callable[[Codes], str]

    def describe(self, codes: Codes) -> str:
        return f"{self.name} {self.say(codes)}".strip()


def readings(outputs: Outputs, others: Outputs) -> Iterator[Reading]:
    """Readings that fit, made for these outputs of both sides."""
    arrays = isinstance(outputs, np.ndarray) and isinstance(others, np.ndarray)
    both = np.concatenate([outputs, others]) if arrays else [*outputs, *others]
    if _all_numbers(both):
        yield from _of_numbers("", np.asarray, both)
        return
    yield Reading("everything", _whole, _one_of)
    if isinstance(both, np.ndarray):
        least = both.shape[1] if both.ndim == 2 else 0
    elif all(isinstance(one, list | tuple | np.ndarray) for one in both):
        least = min(len(one) for one in both)
        yield Reading("how many", _sizes, _numbers)
        yield Reading("without order", _without_order, _one_of)
    else:
        return
    for at in range(min(least, MOST_PARTS)):
        yield from _of_numbers(f"number {at},", partial(_part, at=at), both)
    if least > 1:
        yield from _of_numbers("sum,", _sums, both)
        yield from _of_odds(outputs, others, min(least, MOST_PARTS))


def _all_numbers(outputs: Outputs) -> bool:
    if isinstance(outputs, np.ndarray):
        return outputs.ndim == 1 and outputs.dtype.kind in "iufb"
    return all(isinstance(one, int | float | np.number | np.bool_) for one in outputs)


def _part(outputs: Outputs, at: int) -> Any:
    return outputs[:, at] if isinstance(outputs, np.ndarray) else [one[at] for one in outputs]


def _sums(outputs: Outputs) -> Any:
    if isinstance(outputs, np.ndarray):
        return outputs.sum(axis=1)
    return [sum(one) if _all_numbers(one) else None for one in outputs]


def _sizes(outputs: Outputs) -> Codes:
    return np.array([len(one) for one in outputs], dtype=np.int64)


def _without_order(outputs: Outputs) -> Codes:
    return _whole([tuple(sorted(one, key=repr)) for one in outputs])


def _of_numbers(prefix: str, numbers: Callable[[Outputs], Any], both: Outputs) -> Iterator[Reading]:
    """By size, by being equal, and by the last bits of a float; nothing of what is no number."""
    listed = numbers(both)
    if not _all_numbers(listed):
        return
    known = np.asarray(listed)

    def name(kind: str) -> str:
        return f"{prefix} {kind}".strip()

    if _are_whole(known) and len(np.unique(known)) <= _BINS:
        yield Reading(name("value"), lambda given: np.asarray(numbers(given), np.int64), _numbers)
        return
    yield _by_size(name("size"), numbers, known)
    if known.dtype.kind == "f":
        yield Reading(
            name("last bits"),
            lambda given: last_bits(np.asarray(numbers(given))),
            lambda codes: (
                f"a multiple of 2^{codes[0]}"
                if len(codes) == 1
                else f"{len(codes)} powers of two, from 2^{codes[0]} to 2^{codes[-1]}"
            ),
        )
        yield Reading(name("exact value"), lambda given: _bits(np.asarray(numbers(given))), _one_of)


def _are_whole(numbers: NDArray[Any]) -> bool:
    return numbers.dtype.kind in "iub" or bool(
        np.all((np.abs(numbers) < 2**53) & (numbers == np.rint(numbers)))
    )


def _by_size(name: str, numbers: Callable[[Outputs], Any], known: NDArray[Any]) -> Reading:
    edges = _edges(known.astype(np.float64), _BINS)
    return Reading(
        name,
        lambda given: np.searchsorted(edges, np.asarray(numbers(given), dtype=np.float64)),
        partial(_ranges, edges=edges),
    )


def _edges(numbers: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    """Of bins that hold about as many numbers each: the more numbers, the more bins, and the more
    in each of them.
    """
    finite = numbers[np.isfinite(numbers)]
    bins = min(most, 2 + int(4 * len(finite) ** (1 / 3)))
    return np.unique(np.quantile(finite, np.linspace(0, 1, bins))) if len(finite) else np.zeros(1)


def _of_odds(outputs: Outputs, others: Outputs, parts: int) -> Iterator[Reading]:
    """By odds for the one side against the other: the sum of what each number says, as if they were
    independent. Learned from the first half of the runs alone, like the codes of an event.
    """
    half = len(outputs) // 2
    sides = [[_part(side[:half], at) for at in range(parts)] for side in (outputs, others)]
    if not all(map(_all_numbers, sides[0] + sides[1])):
        return
    tables = []
    for one, other in zip(*sides, strict=True):
        ours, theirs = (np.asarray(part, dtype=np.float64) for part in (one, other))
        edges = _edges(np.concatenate([ours, theirs]), _COARSE)
        seen, beside = (
            np.bincount(np.searchsorted(edges, part), minlength=len(edges) + 1)
            for part in (ours, theirs)
        )
        tables.append((edges, np.log((seen + 1) / (beside + 1))))

    def odds(given: Outputs) -> Any:
        total = np.zeros(len(given))
        for at, (edges, said) in enumerate(tables):
            part = np.asarray(_part(given, at), dtype=np.float64)
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


def _whole(outputs: Outputs) -> Codes:
    """A number for each different output."""
    if isinstance(outputs, np.ndarray):
        rows = np.ascontiguousarray(outputs.reshape(len(outputs), -1))
        outputs = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1])))[:, 0].tolist()
    return np.array([hash(_plain(one)) for one in outputs], dtype=np.int64)


def _plain(output: Any) -> Any:
    if isinstance(output, np.ndarray):
        return output.tobytes()
    return tuple(map(_plain, output)) if isinstance(output, list | tuple) else output


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
