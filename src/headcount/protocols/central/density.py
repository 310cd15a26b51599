"""A density from bins. A trusted curator adds noise to their counts (Wasserman, Zhou 2010).

Notation    See `protocols.density_histogram`.
Randomizer  None: people send the bin of their number to the curator.
Analyzer    The histogram with geometric or Laplace noise in every bin, or with geometric noise that
            adds up to 0, and the polynomials of `protocols.density_histogram`.
Privacy     The privacy of the histogram, pure ε.
Error       V is near 8/ε² for any number of people, as in `shuffle.density-histogram`.
Messages    1, to a curator who must be trusted: the local ε is infinite.
"""

from dataclasses import dataclass

from headcount.core.budget import Trust
from headcount.core.protocol import Protocol
from headcount.core.tasks.histogram import Histogram
from headcount.protocols.central.histogram import GeometricHistogram
from headcount.protocols.central.laplace import LaplaceHistogram
from headcount.protocols.central.sum_zero import SumZeroHistogram
from headcount.protocols.density_histogram import DensityHistogram


@dataclass(frozen=True)
class GeometricDensity(DensityHistogram):
    name = "central.geometric"
    trust = Trust.CENTRAL

    def counting(self, bins: int) -> Protocol:
        return GeometricHistogram(Histogram(bins), self.budget, self.crowd)


@dataclass(frozen=True)
class LaplaceDensity(DensityHistogram):
    name = "central.laplace"
    trust = Trust.CENTRAL

    def counting(self, bins: int) -> Protocol:
        return LaplaceHistogram(Histogram(bins), self.budget, self.crowd)


@dataclass(frozen=True)
class SumZeroDensity(DensityHistogram):
    name = "central.sum-zero"
    trust = Trust.CENTRAL

    def counting(self, bins: int) -> Protocol:
        return SumZeroHistogram(Histogram(bins), self.budget, self.crowd)
