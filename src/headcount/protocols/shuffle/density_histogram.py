"""A density from a histogram of bins, which a shuffle protocol counts.

Notation    See `protocols.density_histogram`.
Randomizer  The randomizer of a shuffle protocol for histograms, by default `shuffle.fake-users`.
Analyzer    Compute the polynomials of `protocols.density_histogram` from the counts that the
            histogram protocol estimates.
Privacy     The privacy of the histogram protocol, with its exact calibration or its paper's
            calibration.
Error       With `shuffle.fake-users`, the variance V of the privacy noise in a bin does not grow
            with n. So in a large crowd, this noise is negligible compared with the sampling error,
            and the integrated squared error falls like n^{−2β/(2β+1)}, as without privacy.
Messages    The messages of the histogram protocol.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from headcount.core.budget import Budget, Crowd, Trust
from headcount.core.errors import Infeasible, InvalidParameter
from headcount.core.limits import Limits
from headcount.core.protocol import Protocol
from headcount.core.task import Task
from headcount.core.tasks.histogram import Histogram
from headcount.protocols.density_histogram import DensityHistogram, check_histogram
from headcount.protocols.registry import protocol


@dataclass(frozen=True)
class ShuffledDensityHistogram(DensityHistogram):
    name = "shuffle.density-histogram"
    trust = Trust.SHUFFLE

    # The shuffle protocol that counts bins. The default is shuffle.fake-users.
    histogram: str | None = None

    @classmethod
    def settings_within(
        cls, task: Task, budget: Budget, crowd: Crowd, limits: Limits
    ) -> Iterator[dict[str, Any]]:
        yield {}
        build: Callable[..., ShuffledDensityHistogram] = cls  # the task is known to be a density
        try:
            usual = build(task, budget, crowd)
        except Infeasible:
            return
        if limits.allow(usual):
            return
        # With fewer bins, people send fewer messages, and the error grows.
        fewer = range(usual.least_bins, usual.randomizer.bins.number)
        number = bisect_left(fewer, True, key=lambda bins: not limits.allow(usual.counting(bins)))
        if fewer:
            yield {"bins": fewer[max(number - 1, 0)]}

    def check_options(self) -> None:
        if self.histogram is not None:
            check_histogram(self.histogram, self.trust)
        super().check_options()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shuffler.withholds:
            raise InvalidParameter(
                f"`histogram` must be a protocol that does not withhold small bins, "
                f"got {self.histogram!r}"
            )

    def counting(self, bins: int) -> Protocol:
        return protocol(
            self.histogram or "shuffle.fake-users",
            Histogram(bins),
            self.budget,
            self.crowd,
            calibration=self.calibration,
        )
