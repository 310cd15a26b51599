"""Laplace noise on a count, a sum, a mean or a histogram (Dwork, McSherry, Nissim, Smith 2006).

Notation    x_i the number of person i, in [low, high]; n people.
Randomizer  none but rounding of reals to a fine grid.
Analyzer    Sum + Laplace noise of scale (high−low)/ε, on a grid of a thousandth of a person or
            finer: geometric noise of many small steps (see `geometric`), drawn exactly. A Laplace
            variable in floating point would leak through its low bits (Mironov 2012).
Privacy     Pure ε, as for geometric noise. A histogram has the scale 2/ε in each bucket.
Error       Unbiased; variance 2((high−low)/ε)², a little more than geometric noise of whole steps.
Messages    1, to somebody who must be trusted: local ε is infinite.
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
