"""Buckets for numbers.

Each bucket is the interval from one edge to the next. It includes its lower edge. Only the last
bucket also includes its upper edge.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from headcount.core import checks
from headcount.core.errors import InvalidParameter


def edges_of(bins: Sequence[float | str]) -> tuple[float, ...]:
    given = list(bins) if isinstance(bins, Iterable) and not isinstance(bins, str) else [bins]
    whole = all(isinstance(edge, int | np.integer) for edge in given)
    edges = tuple(int(edge) if whole else checks.real("bins", edge) for edge in given)
    rising = all(one < other for one, other in pairwise(edges))
    if len(edges) < 3 or not rising or (whole and max(map(abs, edges)) >= 2**62):
        raise InvalidParameter(
            f"`bins` must be 3 or more edges in increasing order, got {checks.shown(bins)}"
        )
    return edges


def bin_names(edges: Sequence[float]) -> list[str]:
    shown = [str(edge) if isinstance(edge, int) else f"{edge:.12g}" for edge in edges]
    closed = ")" * (len(edges) - 2) + "]"
    return [
        f"[{low}, {high}{end}" for (low, high), end in zip(pairwise(shown), closed, strict=True)
    ]
