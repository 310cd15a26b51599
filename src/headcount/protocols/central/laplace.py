"""Laplace noise on a count, a sum or a mean (Dwork, McSherry, Nissim, Smith 2006).

Notation    x_i is the number that person i holds, in [low, high]. n is the number of people.
Randomizer  Real numbers are rounded to a fine grid. People add no noise.
Analyzer    Add Laplace noise of scale (high−low)/ε to the sum, on a grid whose steps are at most
            (high−low)/1024. The noise on this grid is two-sided geometric noise with many small
            steps (see `geometric`), sampled exactly. A Laplace variable in floating point would
            leak information through its low bits (Mironov 2012).
Privacy     Pure ε-differential privacy, as for geometric noise.
Error       Unbiased. The variance is about 2((high−low)/ε)². For whole numbers, geometric noise has
            a smaller variance, because it only takes whole steps. The difference is small unless ε
            is large.
Messages    1 per person, to the curator. The local ε is infinite, so the curator must be trusted.
"""

from dataclasses import dataclass

from headcount.protocols.central.geometric import Geometric

STEPS = 1024
METHOD = "Laplace noise on a fine grid, sampled exactly"


@dataclass(frozen=True)
class Laplace(Geometric):
    name = "central.laplace"
    steps = STEPS
    method = METHOD
