"""Dominating laws: laws of privacy losses that dominate all neighboring pairs of a release.

A law of losses dominates a pair of neighbors if the law's δ(ε) is nowhere smaller than that of the
pair. A release has many neighboring pairs. The pair and the direction that are worst in one release
need not be worst in another release. So the law of a release must dominate the *pointwise maximum*
of the curves of all pairs. A composition of such laws then covers every combination of neighbors
and directions.

A law can be stored. The stored bytes hold exact integers and the exact bits of floats. So every
process and every version of the library that reads the law computes the same composition.
"""

import hashlib
import math
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.cached import cached_property
from headcount.core.errors import InvalidParameter
from headcount.core.guarantee import PrivacyCurve

STEP = 1e-4  # the default step of the grid of losses
_RARE = 1e-18  # the largest losses count as infinite if their total probability is at most this
_HEADING = struct.Struct("<8sddq")
_NAME = b"hcloss 1"
_MOST_BYTES = 1 << 30


@dataclass(frozen=True, eq=False)
class DominatingLaw:
    """A dominating law, given by its δ at the points ε = grid·step, where `grid` is in ascending
    order.

    Between these points δ is linear in e^ε, and above the last point δ is constant. The release has
    no loss above `pure_epsilon`, which may be infinite.
    """

    step: float
    pure_epsilon: float
    grid: NDArray[np.int64] = field(repr=False)
    deltas: NDArray[np.float64] = field(repr=False)

    @classmethod
    def of(
        cls, curve: PrivacyCurve, step: float = STEP, *, at: Sequence[float] = ()
    ) -> "DominatingLaw":
        """A law whose curve lies nowhere below the given curve ("connect the dots").

        δ is convex in e^ε, and it is linear between adjacent losses. So only the grid points next
        to losses are needed, because chords between these points lie on the curve or above it. If a
        curve lists only some of its losses, the law is exact only near the listed losses. For each
        ε in `at`, the law is also exact at the first grid point that is not below this ε.
        """
        if not 1e-7 <= checks.real("discretization", step) <= 1:
            raise InvalidParameter(f"`discretization` must be between 1e-07 and 1, got {step}")
        certain = curve.delta(curve.last)  # the mass of infinite losses
        most = max(curve.epsilon(certain + _RARE), step)
        bends = curve.bends / step
        ends = np.array([-1.0, 1.0]) * math.ceil(most / step)
        wanted = np.ceil(np.asarray(at, dtype=np.float64) / step)
        points = np.clip(np.concatenate([np.floor(bends), np.ceil(bends), wanted, ends]), *ends)
        grid = np.unique(points.astype(np.int64))
        deltas = np.minimum.accumulate(curve.deltas(grid * step))
        return cls(float(step), curve.epsilon(0.0), grid, deltas)

    def delta(self, epsilon: float) -> float:
        """δ on the chord between the two grid points around ε. ε must not be below the first grid
        point.
        """
        after = int(np.searchsorted(self.grid * self.step, epsilon, side="left"))
        if after in (0, len(self.grid)):
            return float(self.deltas[min(after, len(self.grid) - 1)])
        low, high = (float(self.grid[i]) * self.step for i in (after - 1, after))
        first, last = (float(self.deltas[i]) for i in (after - 1, after))
        share = math.expm1(min(epsilon - low, 700.0)) / math.expm1(min(high - low, 700.0))
        return first + (last - first) * share

    @cached_property
    def _plain(self) -> bytes:
        heading = _HEADING.pack(_NAME, self.step, self.pure_epsilon, len(self.grid))
        return heading + self.grid.astype("<i8").tobytes() + self.deltas.astype("<f8").tobytes()

    @cached_property
    def digest(self) -> str:
        """A hash that identifies this law."""
        return hashlib.sha256(self._plain).hexdigest()

    def to_bytes(self) -> bytes:
        return zlib.compress(self._plain, 9)

    @classmethod
    def from_bytes(cls, data: bytes) -> "DominatingLaw":
        """The law that `to_bytes` wrote. Other bytes raise a ValueError."""
        unpacker = zlib.decompressobj()
        try:
            plain = unpacker.decompress(data, _MOST_BYTES)
            name, step, pure, count = _HEADING.unpack_from(plain)
        except (zlib.error, struct.error, TypeError):
            raise ValueError("these bytes are not a privacy loss law") from None
        if not unpacker.eof or unpacker.unused_data or name != _NAME:
            raise ValueError("these bytes are not a privacy loss law, or have a later version")
        if count < 1 or len(plain) != _HEADING.size + 16 * count:
            raise ValueError("these bytes are a truncated privacy loss law")
        numbers = plain[_HEADING.size :]
        grid = np.frombuffer(numbers, "<i8", count).astype(np.int64)
        deltas = np.frombuffer(numbers, "<f8", count, offset=8 * count).astype(np.float64)
        sound = (
            1e-7 <= step <= 1
            and pure >= 0
            and bool(np.all(np.diff(grid) > 0))
            and bool(np.all((deltas >= 0) & (deltas <= 1)))
            and bool(np.all(np.diff(deltas) <= 0))
        )
        if not sound:
            raise ValueError("the numbers in these bytes are not a privacy loss law")
        return cls(step, pure, grid, deltas)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DominatingLaw) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)
