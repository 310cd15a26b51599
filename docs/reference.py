"""The pages of the API reference: which public name is on which page, and what a protocol defines.
The pages only list names. mkdocstrings fills in signatures and docstrings when the site is built,
and `docs/docstrings.py` says how it reads them.
"""

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module

import headcount as hc
from headcount.core.estimator import Estimator
from headcount.core.protocol import Protocol
from headcount.core.randomizer import Randomizer
from headcount.core.tasks.registry import task_modules

# Public names are attributes of `headcount` itself. All other names are given by their full path.
PAGES = {
    "questions": (
        "Questions and budgets",
        "The question, the number of people, the trust model, and the privacy budget.",
        f"Task {' '.join(task_modules())} Trust Budget Crowd Guarantee PrivacyCurve",
    ),
    "planning": (
        "Planning",
        "Which protocol to use, how accurate it will be, and how many people it needs.",
        "plan Plan Candidate Refusal best_protocol Margin needed_crowd needed_epsilon Needs "
        "needed_groups GroupNeeds dishonest_plans price_of_trust compare Comparison",
    ),
    "surveys": (
        "Surveys",
        "Several questions to the same people, with one budget for everything that a person says.",
        "Survey YesNo Choice Several Scale Number SurveyPlan SurveyResults KeptAnswers "
        "headcount.survey.plan.PlannedAnswer headcount.survey.plan.needed_epsilon "
        "headcount.survey.plan.needed_people headcount.survey.results.Answered "
        "headcount.survey.results.Crossed headcount.survey.readings.Reading",
    ),
    "protocols": (
        "Protocols and their roles",
        "A protocol calibrates a randomizer, which each person runs, and an estimator, which the "
        "analyzer runs. In shuffle trust, a shuffler stands between the two.",
        "protocol protocol_names register Protocol MatrixProtocol "
        "headcount.core.randomizer.Randomizer headcount.core.estimator.Estimator "
        "headcount.core.shuffler.Shuffler run shuffle Alphabet Messages Batch Tally Source "
        "SecureSource SeededSource",
    ),
    "estimating": (
        "Estimating",
        "Private answers about a table, with their errors and intervals.",
        "estimate prepare Prepared Estimate Interval GroupedEstimate TableEstimate share",
    ),
    "comparing": (
        "Comparing",
        "Differences and ratios of estimates, with intervals and tests.",
        "difference ratio contrasts Contrast Contrasts population_share",
    ),
    "auditing": (
        "Auditing",
        "Tests of privacy claims, and reports of what a guarantee means for one person.",
        "audit Audit exact_audit ExactAudit privacy_report PrivacyReport Thresholds",
    ),
    "collecting": (
        "Collecting",
        "The document of a survey, and a respondent who answers it over the network.",
        "Document headcount.collect.document.Addresses "
        "Respondent headcount.collect.shuffler.Shuffler headcount.collect.analyzer.Analyzer",
    ),
    "ledger": (
        "Ledger",
        "Records of the budget that was spent on each dataset, and of the budget that is left.",
        "Ledger headcount.ledger.spending.Spending headcount.ledger.entry.Entry",
    ),
    "theory": (
        "Theory",
        "Known lower bounds and rates for all protocols.",
        "bounds Bound survey_worth",
    ),
    "errors": (
        "Errors",
        "Every refusal is a `HeadcountError`.",
        "HeadcountError InvalidParameter InvalidValue Infeasible CrowdMismatch BudgetExhausted "
        "AlreadyCharged UnknownName UnreadableData DiskFull LedgerLocked UnconfirmedCharge "
        "MissingPackage",
    ),
}


def page_of(subject: str) -> str:
    return f"reference/{subject}.md"


def path_of(name: str) -> str:
    """The path by which mkdocstrings finds a name."""
    return name if "." in name else f"headcount.{name}"


def found(path: str) -> object:
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def documented() -> dict[str, list[str]]:
    """The paths on each page."""
    return {
        page_of(subject): [path_of(name) for name in names.split()]
        for subject, (_, _, names) in PAGES.items()
    }


def public_members(kind: type) -> list[str]:
    """The public members of a class: its own, and those of base classes without an entry."""
    entries = {found(path) for paths in documented().values() for path in paths}
    bases = [base for base in kind.__mro__ if base.__module__.startswith("headcount.")]
    owners = [base for base in bases if base is kind or base not in entries]
    return list(
        dict.fromkeys(
            name
            for base in owners
            for name in (*inspect.get_annotations(base), *vars(base))
            if not name.startswith("_")
        )
    )


def pages_made() -> dict[str, Callable[[], str]]:
    """The functions that make the pages of the reference, as Markdown."""
    return {
        "reference/index.md": _overview,
        "reference/SUMMARY.md": _navigation,
        **{page_of(subject): partial(_subject_page, subject) for subject in PAGES},
        "reference/contract.md": _contract,
    }


def _overview() -> str:
    text = "# API reference\n\nEverything public is in `headcount` itself: `import headcount as "
    text += "hc`. If you write a protocol, you also need [the contract](contract.md).\n\n"
    for subject, (title, about, _) in PAGES.items():
        text += f"## [{title}]({subject}.md)\n\n{about}\n\n| | |\n|---|---|\n"
        for path in documented()[page_of(subject)]:
            first = inspect.getdoc(found(path)) or ""
            summary = " ".join(first.partition("\n\n")[0].split()).replace("|", r"\|")
            text += f"| [`{path.rpartition('.')[2]}`][{path}] | {summary} |\n"
        text += "\n"
    return text


def _navigation() -> str:
    """The pages of the reference in the navigation, with the page of the commands."""
    subjects = "".join(f"- [{title}]({subject}.md)\n" for subject, (title, *_) in PAGES.items())
    text = f"- [API reference](index.md)\n{subjects}"
    text += "- [The contract of a protocol](contract.md)\n- [Commands](../commands.md)\n"
    return text


def _subject_page(subject: str) -> str:
    title, about, _ = PAGES[subject]
    entries = (_entry(path) for path in documented()[page_of(subject)])
    return f"# {title}\n\n{about}\n\n{''.join(entries)}"


def _entry(path: str) -> str:
    thing = found(path)
    # Docstrings are plain text. TOML has no null, so each entry says so.
    text = f"::: {path}\n    options:\n      docstring_style: null\n"
    if inspect.isclass(thing):
        own = {*vars(thing), *inspect.get_annotations(thing)}
        inherited = [name for name in public_members(thing) if name not in own]
        if inherited:
            text += f"      inherited_members: {inherited}\n"
    return f"{text}\n"


def _contract() -> str:
    """A page with the members that a protocol must define, and those that it may define."""
    text = "# The contract of a protocol\n\nA protocol is a class that extends `Protocol`, with a "
    text += "randomizer and an estimator of its own. [Adding a protocol](../adding-a-protocol.md) "
    text += "has a skeleton. The tables list the members that each of the three classes must "
    text += "define, and those that it may define instead of the default.\n\n"
    for contract in (Protocol, Randomizer, Estimator):
        path = f"{contract.__module__}.{contract.__name__}"
        path = path_of("Protocol") if contract is Protocol else path
        stated = _stated(contract)
        text += f"## {contract.__name__}\n\n| | | |\n|---|---|---|\n"
        for name in public_members(contract):
            member = inspect.getattr_static(contract, name, None)
            doc = inspect.getdoc(member) if callable(member) or hasattr(member, "fget") else None
            must = getattr(member, "__isabstractmethod__", False)
            if doc and (must or name in stated):
                summary = " ".join(doc.partition("\n\n")[0].split()).replace("|", r"\|")
                word = "must" if must else "may"
                text += f"| [`{name}`][{path}.{name}] | {word} | {summary} |\n"
        text += "\n"
    return text


def _stated(contract: type) -> set[str]:
    """The members that some protocol, or its randomizer or estimator, defines itself."""
    hc.protocol_names(hc.Count())  # loads all of them
    return {
        name
        for kind in _below(contract)
        if kind.__module__.startswith("headcount.protocols")
        for name in vars(kind)
    }


def _below(kind: type) -> Iterator[type]:
    found: list[type] = kind.__subclasses__()
    for below in found:
        yield below
        yield from _below(below)
