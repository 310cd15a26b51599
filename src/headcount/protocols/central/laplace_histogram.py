"""Laplace noise on a histogram (Dwork, McSherry, Nissim, Smith 2006).

Notation    There are n people, each in one bucket.
Randomizer  None. People send their bucket to the curator.
Analyzer    Add Laplace noise of scale 2/ε to each count, on a grid with steps of 1/1024 (see
            `laplace`). Then correct the estimates so that they add up to n, as for geometric noise
            (see `histogram`).
Privacy     Pure ε-differential privacy, as for geometric noise.
Error       Unbiased. The variance is larger than that of geometric noise, but only slightly unless
            ε is large.
Messages    1 per person, to the curator. The local ε is infinite, so the curator must be trusted.
"""

from dataclasses import dataclass

from headcount.protocols.central.histogram import GeometricHistogram
from headcount.protocols.central.laplace import METHOD, STEPS


@dataclass(frozen=True)
class LaplaceHistogram(GeometricHistogram):
    name = "central.laplace"
    steps = STEPS
    method = METHOD
