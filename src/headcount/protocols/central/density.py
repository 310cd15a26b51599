"""A density from the counts of bins, to which a trusted curator adds noise (Wasserman, Zhou 2010).

Notation    See `protocols.density_histogram`.
Randomizer  None. People send the bin of their number to the curator.
Analyzer    The curator adds geometric or Laplace noise to the count of every bin, or geometric
            noise that adds up to 0. Then the curator computes the polynomials of
            `protocols.density_histogram` from the noisy counts.
Privacy     The privacy of the histogram, which is pure ε-differential privacy.
Error       The variance V of the noise in a bin is near 8/ε² if ε is small. It does not depend on
            the number of people.
Messages    1 per person, to the curator. The local ε is infinite, so the curator must be trusted.
"""

from dataclasses import dataclass

from headcount.core.budget import Trust
from headcount.core.protocol import Protocol
from headcount.core.tasks.histogram import Histogram
from headcount.protocols.central.histogram import GeometricHistogram
from headcount.protocols.central.laplace_histogram import LaplaceHistogram
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
