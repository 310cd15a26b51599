"""Laplace noise on a histogram (Dwork, McSherry, Nissim, Smith 2006).

Notation    There are n people, each in one bucket.
Randomizer  None. People send their bucket to the curator.
Analyzer    Each count plus Laplace noise of scale 2/ε, on a grid with steps of 1/1024 (see
            `laplace`). Then the estimates are corrected so that they add up to n, as for geometric
            noise (see `histogram`).
Privacy     Pure ε-differential privacy, as for geometric noise.
Error       Unbiased. The variance is slightly larger than that of geometric noise.
Messages    1 per person. The curator who receives it must be trusted, because the local ε is
            infinite.
"""

from dataclasses import dataclass

from headcount.protocols.central.histogram import GeometricHistogram
from headcount.protocols.central.laplace import METHOD, STEPS


@dataclass(frozen=True)
class LaplaceHistogram(GeometricHistogram):
    name = "central.laplace"
    steps = STEPS
    method = METHOD
