"""What an estimate can be used for, besides its numbers and their intervals."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Uses:
    """What the estimates of a task can be used for. By default, they have only numbers and
    intervals.

    sampling      how the sampling error is known, that is, the error from drawing people from a
                  population: "binomial" if each number counts people, "widest" if only the largest
                  possible spread is known, and "stated" if the error law or the estimate itself
                  states the sampling error. None if the sampling error is not known.
    comparison    the quantity by which two estimates are compared. None if they cannot be compared.
    instead       the name of a similar task whose estimates can be compared, or "".
    shares        what shares can be computed of: the "buckets" of a histogram, the "cells" of a
                  table, or "boxes". People may tick several boxes. None if there are no shares.
    simultaneous  whether `headcount estimate` offers intervals that hold for all numbers at once.
    figure        whether `headcount estimate` draws a figure of "one group" or of "all groups".
                  None if it draws no figure.
    curve         whether the numbers are points of a curve.
    """

    sampling: Literal["binomial", "widest", "stated"] | None = None
    comparison: Literal["share", "mean"] | None = None
    instead: str = ""
    shares: Literal["buckets", "cells", "boxes"] | None = None
    simultaneous: bool = False
    figure: Literal["one group", "all groups"] | None = None
    curve: bool = False
