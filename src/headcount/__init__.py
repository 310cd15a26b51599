"""Headcount: count a crowd without looking at anyone.

Counts, sums, means, histograms and densities with differential privacy, in the central, local and
shuffle trust models. Start with `protocol(...)` and `run(...)`.
"""

from headcount.core.budget import Budget, Crowd, Trust
from headcount.core.errors import (
    CrowdMismatch,
    HeadcountError,
    Infeasible,
    InvalidParameter,
    InvalidValue,
    MissingPackage,
    UnknownName,
    UnreadableData,
)
from headcount.core.estimate import Estimate, Interval
from headcount.core.guarantee import Guarantee, PrivacyCurve
from headcount.core.messages import Alphabet, Batch, Messages
from headcount.core.protocol import Protocol
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Count, Density, Histogram, Mean, Sum, Task
from headcount.protocols.registry import best_protocol, protocol, protocol_names
from headcount.protocols.run import run
from headcount.protocols.shuffler import shuffle
from headcount.randomness.sources import SecureSource, SeededSource

__version__ = "0.1.0"

__all__ = [
    "Alphabet",
    "Batch",
    "Budget",
    "Count",
    "Crowd",
    "CrowdMismatch",
    "Density",
    "Estimate",
    "Guarantee",
    "HeadcountError",
    "Histogram",
    "Infeasible",
    "Interval",
    "InvalidParameter",
    "InvalidValue",
    "Mean",
    "Messages",
    "MissingPackage",
    "PrivacyCurve",
    "Protocol",
    "SecureSource",
    "SeededSource",
    "Source",
    "Sum",
    "Tally",
    "Task",
    "Trust",
    "UnknownName",
    "UnreadableData",
    "best_protocol",
    "protocol",
    "protocol_names",
    "run",
    "shuffle",
]
