"""Headcount: count a crowd without looking at anyone.

Counts, sums, means, histograms and densities with differential privacy, in the central, local and
shuffle trust models. Start with `plan(...)`, `protocol(...)` and `run(...)`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headcount.core.budget import Budget, Crowd, Trust
from headcount.core.errors import (
    BudgetExhausted,
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
from headcount.planner.candidate import Candidate, Refusal
from headcount.planner.comparison import Comparison, compare
from headcount.planner.margin import Margin
from headcount.planner.needs import (
    Needs,
    dishonest_plans,
    needed_crowd,
    needed_epsilon,
    price_of_trust,
)
from headcount.planner.plan import Plan, best_protocol, plan
from headcount.protocols.registry import protocol, protocol_names
from headcount.protocols.run import run
from headcount.protocols.shuffler import shuffle
from headcount.randomness.sources import SecureSource, SeededSource
from headcount.theory import Bound, bounds, survey_worth

if TYPE_CHECKING:
    from headcount.auditor.audit import Audit, audit
    from headcount.auditor.exact import ExactAudit, exact_audit
    from headcount.auditor.report import PrivacyReport, Thresholds, privacy_report
    from headcount.data.estimate import estimate
    from headcount.data.grouped import GroupedEstimate
    from headcount.ledger.ledger import Ledger

__version__ = "0.1.0"

__all__ = [
    "Alphabet",
    "Audit",
    "Batch",
    "Bound",
    "Budget",
    "BudgetExhausted",
    "Candidate",
    "Comparison",
    "Count",
    "Crowd",
    "CrowdMismatch",
    "Density",
    "Estimate",
    "ExactAudit",
    "GroupedEstimate",
    "Guarantee",
    "HeadcountError",
    "Histogram",
    "Infeasible",
    "Interval",
    "InvalidParameter",
    "InvalidValue",
    "Ledger",
    "Margin",
    "Mean",
    "Messages",
    "MissingPackage",
    "Needs",
    "Plan",
    "PrivacyCurve",
    "PrivacyReport",
    "Protocol",
    "Refusal",
    "SecureSource",
    "SeededSource",
    "Source",
    "Sum",
    "Tally",
    "Task",
    "Thresholds",
    "Trust",
    "UnknownName",
    "UnreadableData",
    "audit",
    "best_protocol",
    "bounds",
    "compare",
    "dishonest_plans",
    "estimate",
    "exact_audit",
    "needed_crowd",
    "needed_epsilon",
    "plan",
    "price_of_trust",
    "privacy_report",
    "protocol",
    "protocol_names",
    "run",
    "shuffle",
    "survey_worth",
]

# Rooms that planning and running protocols do without: they load when they are asked for.
_LATER = {
    "Audit": "headcount.auditor.audit",
    "ExactAudit": "headcount.auditor.exact",
    "GroupedEstimate": "headcount.data.grouped",
    "Ledger": "headcount.ledger.ledger",
    "PrivacyReport": "headcount.auditor.report",
    "Thresholds": "headcount.auditor.report",
    "audit": "headcount.auditor.audit",
    "estimate": "headcount.data.estimate",
    "exact_audit": "headcount.auditor.exact",
    "privacy_report": "headcount.auditor.report",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_LATER[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
