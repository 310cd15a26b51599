"""Headcount: count a crowd without looking at anyone.

Headcount estimates counts, sums, means, histograms, densities, distributions and quantiles with
differential privacy, in the central, local and shuffle trust models. Start with `plan(...)`,
`protocol(...)` and `run(...)`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headcount.core.tasks.registry import task_modules

if TYPE_CHECKING:
    from headcount.auditor.audit import Audit, audit
    from headcount.auditor.exact import ExactAudit, exact_audit
    from headcount.auditor.report import PrivacyReport, Thresholds, privacy_report
    from headcount.collect.client import Respondent
    from headcount.collect.document import Document
    from headcount.core.budget import Budget, Crowd, Trust
    from headcount.core.contrasts.contrast import Contrast, difference, ratio
    from headcount.core.contrasts.many import Contrasts, contrasts
    from headcount.core.contrasts.side import population_share
    from headcount.core.errors import (
        AlreadyCharged,
        BudgetExhausted,
        CrowdMismatch,
        DiskFull,
        HeadcountError,
        Infeasible,
        InvalidParameter,
        InvalidValue,
        LedgerLocked,
        MissingPackage,
        UnconfirmedCharge,
        UnknownName,
        UnreadableData,
    )
    from headcount.core.estimate import Estimate, Interval
    from headcount.core.guarantee import Guarantee, PrivacyCurve
    from headcount.core.messages import Alphabet, Batch, Messages
    from headcount.core.protocol import Protocol
    from headcount.core.shares import share
    from headcount.core.source import Source
    from headcount.core.tally import Tally
    from headcount.core.task import Task
    from headcount.core.tasks.bounded import Mean, Sum
    from headcount.core.tasks.boxes import Boxes
    from headcount.core.tasks.count import Count
    from headcount.core.tasks.density import Density
    from headcount.core.tasks.distribution import Distribution
    from headcount.core.tasks.histogram import Histogram
    from headcount.core.tasks.margins import Margins
    from headcount.core.tasks.quantiles import Median, Quantiles
    from headcount.core.tasks.table import Table
    from headcount.core.two_way import TableEstimate
    from headcount.data.estimate import Prepared, estimate, prepare
    from headcount.data.grouped import GroupedEstimate
    from headcount.ledger.ledger import Ledger
    from headcount.planner.best import best_protocol
    from headcount.planner.candidate import Candidate, Refusal
    from headcount.planner.comparison import Comparison, compare
    from headcount.planner.differences import GroupNeeds, needed_groups
    from headcount.planner.margin import Margin
    from headcount.planner.needs import (
        Needs,
        dishonest_plans,
        needed_crowd,
        needed_epsilon,
        price_of_trust,
    )
    from headcount.planner.plan import Plan, plan
    from headcount.protocols.matrix import MatrixProtocol
    from headcount.protocols.registry import protocol, protocol_names, register
    from headcount.randomness.sources import SecureSource, SeededSource
    from headcount.road.road import run
    from headcount.road.shuffler import shuffle
    from headcount.survey.kept import KeptAnswers
    from headcount.survey.plan import SurveyPlan
    from headcount.survey.questions import Choice, Number, Scale, Several, YesNo
    from headcount.survey.results import SurveyResults
    from headcount.survey.survey import Survey
    from headcount.theory import Bound, bounds, survey_worth

__version__ = "0.1.0"

__all__ = [
    "Alphabet",
    "AlreadyCharged",
    "Audit",
    "Batch",
    "Bound",
    "Boxes",
    "Budget",
    "BudgetExhausted",
    "Candidate",
    "Choice",
    "Comparison",
    "Contrast",
    "Contrasts",
    "Count",
    "Crowd",
    "CrowdMismatch",
    "Density",
    "DiskFull",
    "Distribution",
    "Document",
    "Estimate",
    "ExactAudit",
    "GroupNeeds",
    "GroupedEstimate",
    "Guarantee",
    "HeadcountError",
    "Histogram",
    "Infeasible",
    "Interval",
    "InvalidParameter",
    "InvalidValue",
    "KeptAnswers",
    "Ledger",
    "LedgerLocked",
    "Margin",
    "Margins",
    "MatrixProtocol",
    "Mean",
    "Median",
    "Messages",
    "MissingPackage",
    "Needs",
    "Number",
    "Plan",
    "Prepared",
    "PrivacyCurve",
    "PrivacyReport",
    "Protocol",
    "Quantiles",
    "Refusal",
    "Respondent",
    "Scale",
    "SecureSource",
    "SeededSource",
    "Several",
    "Source",
    "Sum",
    "Survey",
    "SurveyPlan",
    "SurveyResults",
    "Table",
    "TableEstimate",
    "Tally",
    "Task",
    "Thresholds",
    "Trust",
    "UnconfirmedCharge",
    "UnknownName",
    "UnreadableData",
    "YesNo",
    "audit",
    "best_protocol",
    "bounds",
    "compare",
    "contrasts",
    "difference",
    "dishonest_plans",
    "estimate",
    "exact_audit",
    "needed_crowd",
    "needed_epsilon",
    "needed_groups",
    "plan",
    "population_share",
    "prepare",
    "price_of_trust",
    "privacy_report",
    "protocol",
    "protocol_names",
    "ratio",
    "register",
    "run",
    "share",
    "shuffle",
    "survey_worth",
]

# The module of each public name. A module is loaded when one of its names is first used. So the
# command line starts with almost nothing loaded, and reacts to Ctrl-C at once. Tasks are not listed
# here, since they have their own registry.
_MODULES = {
    "Alphabet": "headcount.core.messages",
    "AlreadyCharged": "headcount.core.errors",
    "Audit": "headcount.auditor.audit",
    "Batch": "headcount.core.messages",
    "Bound": "headcount.theory",
    "Budget": "headcount.core.budget",
    "BudgetExhausted": "headcount.core.errors",
    "Candidate": "headcount.planner.candidate",
    "Choice": "headcount.survey.questions",
    "Comparison": "headcount.planner.comparison",
    "Contrast": "headcount.core.contrasts.contrast",
    "Contrasts": "headcount.core.contrasts.many",
    "Crowd": "headcount.core.budget",
    "CrowdMismatch": "headcount.core.errors",
    "DiskFull": "headcount.core.errors",
    "Document": "headcount.collect.document",
    "Estimate": "headcount.core.estimate",
    "ExactAudit": "headcount.auditor.exact",
    "GroupNeeds": "headcount.planner.differences",
    "GroupedEstimate": "headcount.data.grouped",
    "Guarantee": "headcount.core.guarantee",
    "HeadcountError": "headcount.core.errors",
    "Infeasible": "headcount.core.errors",
    "Interval": "headcount.core.estimate",
    "InvalidParameter": "headcount.core.errors",
    "InvalidValue": "headcount.core.errors",
    "KeptAnswers": "headcount.survey.kept",
    "Ledger": "headcount.ledger.ledger",
    "LedgerLocked": "headcount.core.errors",
    "Margin": "headcount.planner.margin",
    "MatrixProtocol": "headcount.protocols.matrix",
    "Messages": "headcount.core.messages",
    "MissingPackage": "headcount.core.errors",
    "Needs": "headcount.planner.needs",
    "Number": "headcount.survey.questions",
    "Plan": "headcount.planner.plan",
    "Prepared": "headcount.data.estimate",
    "PrivacyCurve": "headcount.core.guarantee",
    "PrivacyReport": "headcount.auditor.report",
    "Protocol": "headcount.core.protocol",
    "Refusal": "headcount.planner.candidate",
    "Respondent": "headcount.collect.client",
    "Scale": "headcount.survey.questions",
    "SecureSource": "headcount.randomness.sources",
    "SeededSource": "headcount.randomness.sources",
    "Several": "headcount.survey.questions",
    "Source": "headcount.core.source",
    "Survey": "headcount.survey.survey",
    "SurveyPlan": "headcount.survey.plan",
    "SurveyResults": "headcount.survey.results",
    "TableEstimate": "headcount.core.two_way",
    "Tally": "headcount.core.tally",
    "Task": "headcount.core.task",
    "Thresholds": "headcount.auditor.report",
    "Trust": "headcount.core.budget",
    "UnconfirmedCharge": "headcount.core.errors",
    "UnknownName": "headcount.core.errors",
    "UnreadableData": "headcount.core.errors",
    "YesNo": "headcount.survey.questions",
    "audit": "headcount.auditor.audit",
    "best_protocol": "headcount.planner.best",
    "bounds": "headcount.theory",
    "compare": "headcount.planner.comparison",
    "contrasts": "headcount.core.contrasts.many",
    "difference": "headcount.core.contrasts.contrast",
    "dishonest_plans": "headcount.planner.needs",
    "estimate": "headcount.data.estimate",
    "exact_audit": "headcount.auditor.exact",
    "needed_crowd": "headcount.planner.needs",
    "needed_epsilon": "headcount.planner.needs",
    "needed_groups": "headcount.planner.differences",
    "plan": "headcount.planner.plan",
    "population_share": "headcount.core.contrasts.side",
    "prepare": "headcount.data.estimate",
    "price_of_trust": "headcount.planner.needs",
    "privacy_report": "headcount.auditor.report",
    "protocol": "headcount.protocols.registry",
    "protocol_names": "headcount.protocols.registry",
    "ratio": "headcount.core.contrasts.contrast",
    "register": "headcount.protocols.registry",
    "run": "headcount.road.road",
    "share": "headcount.core.shares",
    "shuffle": "headcount.road.shuffler",
    "survey_worth": "headcount.theory",
}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name) or task_modules().get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(module), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *task_modules()})
