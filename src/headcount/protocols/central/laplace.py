"""Laplace noise on a count, a sum, a mean or a histogram (Dwork, McSherry, Nissim, Smith 2006).

Notation    x_i is the number of person i, in [low, high]. n is the number of people.
Randomizer  Only rounding of real numbers to a fine grid.
Analyzer    Sum + Laplace noise of scale (high−low)/ε, on a grid of a thousandth of a person or
            finer. This is geometric noise with many small steps (see `geometric`), drawn exactly. A
            Laplace variable in floating point would leak information through its low bits (Mironov
            2012).
Privacy     Pure ε, as for geometric noise. In a histogram, the noise of each bucket has scale 2/ε.
Error       Unbiased. The variance 2((high−low)/ε)² is slightly larger than that of geometric noise
            with whole steps.
Messages    1, to a curator who must be trusted: the local ε is infinite.
"""

from dataclasses import dataclass

from headcount.protocols.central.geometric import Geometric
from headcount.protocols.central.histogram import GeometricHistogram

_STEPS = 1024
_METHOD = "Laplace noise on a fine grid, sampled exactly"


@dataclass(frozen=True)
class Laplace(Geometric):
    name = "central.laplace"
    steps = _STEPS
    method = _METHOD


@dataclass(frozen=True)
class LaplaceHistogram(GeometricHistogram):
    name = "central.laplace"
    steps = _STEPS
    method = _METHOD
