"""`headcount survey`: several questions to the same people, with one budget for all of them."""

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from headcount.cli.arguments import AsJson, Confidence, OptionalLedger
from headcount.cli.interrupts import unbroken
from headcount.cli.output import console, deliver, messages, print_table
from headcount.cli.reading_options import ReadingOptions
from headcount.cli.texts import share
from headcount.core import checks
from headcount.core.errors import InvalidParameter
from headcount.core.table import counted, counted_people, short
from headcount.core.writing import check_apart, check_writable, write_file
from headcount.ledger.ledger import Ledger
from headcount.plot import survey_pages
from headcount.survey.kept import KeptAnswers
from headcount.survey.plan import SurveyPlan, needed_epsilon, needed_people
from headcount.survey.results import SurveyResults
from headcount.survey.survey import Survey

_PAID = (
    "headcount: the budget is already spent, so the answer is finished first; "
    "press Ctrl-C again to discard it"
)

File = Annotated[Path, typer.Argument(help="The survey file.", metavar="PATH")]
People = Annotated[
    int | None,
    typer.Option("--users", help="Number of people. [default: least_people of the survey]"),
]
Sampling = Annotated[
    bool,
    typer.Option(
        "--sampling", help="Give intervals for the population from which people were sampled."
    ),
]
LedgerDataset = Annotated[
    str | None,
    typer.Option(help="Dataset of the ledger to charge. [default: the only dataset]"),
]
SavedResults = Annotated[
    Path | None, typer.Option(help="Save the results: .html, .pdf, .json, .csv or .parquet.")
]


def new(
    out: Annotated[
        Path, typer.Option(help="The file to write, a .toml file. It must not exist yet.")
    ] = Path("survey.toml"),
) -> None:
    """Write an example of a survey file, with comments."""
    if out.suffix.lower() != ".toml":
        raise InvalidParameter(f"the file name of a survey must end in .toml, got {out.name!r}")
    if out.exists():
        raise InvalidParameter(f"--out must be a new file, got {str(out)!r}, which exists")
    check_writable(out)
    write_file(out, files("headcount.survey").joinpath("example.toml").read_bytes())
    console.print(f"written: {out}\nnext: headcount survey check {out}", soft_wrap=True)


def check(path: File, as_json: AsJson = False) -> None:
    """Check a survey file, and show a short plan. Errors name the line and the fix."""
    asked = Survey.load(path)
    with messages.status("planning"):
        plan = asked.plan()
        plan.answers  # noqa: B018 (the plan is computed here)
    deliver(plan.to_dict, lambda saved: _show_short(plan, path), as_json=as_json)


def _show_short(plan: SurveyPlan, path: Path) -> None:
    asked = plan.survey
    worst = max(plan.answers, key=lambda one: one.with_sampling)
    lines = (
        f"{path.name} is fine: {counted(len(asked.questions), 'question')}, {asked.trust} trust, "
        f"at least {counted_people(asked.least_people)}",
        f"promised: {plan.promised}",
        f"largest margin: {worst.shown[0]} from privacy alone, {worst.shown[1]} with sampling "
        f"(question {worst.id!r})",
        plan.odds.sentence,
        f"more: headcount survey plan {path}",
    )
    console.print("\n".join(lines), soft_wrap=True)


def plan(
    path: File,
    users: People = None,
    confidence: Confidence = 0.95,
    margin: Annotated[
        str | None,
        typer.Option(
            help="Largest margin of error that any question may have, such as 3%. Also show the "
            "smallest epsilon for which privacy alone stays within this margin, and the smallest "
            "number of people for which privacy and sampling together do."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Save a page for an ethics board (.html or .pdf), or the plan itself (.json)."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show how exact each answer will be, what a person sends, and who could see what."""
    if out is not None:
        survey_pages.check_path(out, survey_pages.PLAN_FORMATS)
        check_apart(out, {"the survey": [path]})
    asked = Survey.load(path)
    wanted = None if margin is None else share("margin", margin)
    with messages.status("planning"):
        made = asked.plan(users, confidence)
        made.answers  # noqa: B018 (the plan is computed here)
        needs = {} if wanted is None else _needs(asked, wanted, made)
    deliver(
        lambda: {**made.to_dict(), **({"needed": needs} if needs else {})},
        lambda saved: _show_plan(made, needs, saved),
        as_json=as_json,
        out=out,
        save=lambda place: survey_pages.save_plan(made, place),
    )


def _needs(asked: Survey, wanted: float, made: SurveyPlan) -> dict[str, float]:
    epsilon = needed_epsilon(asked, wanted, users=made.users, confidence=made.confidence)
    people = needed_people(asked, wanted, confidence=made.confidence)
    return {"margin": wanted, "epsilon": epsilon, "users": people}


def _show_plan(made: SurveyPlan, needs: dict[str, float], saved: Path | None) -> None:
    print_table(made.table())
    if needs:
        wanted = f"±{short(100 * needs['margin'])} points"
        console.print(
            f"\nfor {wanted} from privacy alone: epsilon = {short(needs['epsilon'])}, with "
            f"{counted_people(made.users)}\nfor {wanted} with sampling: "
            f"{counted_people(int(needs['users']))}, with epsilon = "
            f"{short(made.survey.budget.epsilon)}",
            soft_wrap=True,
        )
    if saved is not None:
        console.print(f"\nsaved: {saved}", soft_wrap=True)


def run(
    path: File,
    answers: Annotated[
        Path,
        typer.Argument(
            help="The answers: a row for each person, and a column for each question, named by its "
            "id. Any file or folder that `headcount estimate` reads.",
            metavar="ANSWERS",
        ),
    ],
    *,
    written: ReadingOptions,
    kept: Annotated[
        Path | None,
        typer.Option(
            help="File of kept answers, for a survey with keep_answers. The first wave creates it. "
            "It has people's true answers."
        ),
    ] = None,
    person: Annotated[
        str | None, typer.Option(help="Column that names the person of each row, for --kept.")
    ] = None,
    confidence: Confidence = 0.95,
    sampling: Sampling = False,
    ledger: OptionalLedger = None,
    dataset: LedgerDataset = None,
    out: SavedResults = None,
    as_json: AsJson = False,
) -> None:
    """Answer all questions of a survey with differential privacy, from a table of answers."""
    if (kept is None) != (person is None):
        raise InvalidParameter("--kept and --person must come together, got one of them")
    answered(
        Survey.load(path), path, answers, written, kept=kept, person=person,
        confidence=confidence, sampling=sampling, ledger=ledger, dataset=dataset, out=out,
        as_json=as_json,
    )  # fmt: skip


def answered(
    asked: Survey,
    path: Path,
    answers: Path,
    written: ReadingOptions,
    *,
    kept: Path | None = None,
    person: str | None = None,
    confidence: float,
    sampling: bool,
    ledger: str | None,
    dataset: str | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Make all releases of a survey, and save and print the results."""
    checks.confidence(confidence)
    if out is not None:
        survey_pages.check_path(out, survey_pages.RESULT_FORMATS)
        inputs = {"the survey": [path], "the answers": [answers]}
        inputs["the ledger"] = [] if ledger is None else [Path(ledger)]
        inputs["the file of kept answers"] = [] if kept is None else [kept]
        check_apart(out, inputs)
    if dataset is not None and ledger is None:
        raise InvalidParameter(f"--dataset must come with --ledger, got {dataset!r} alone")
    book = None if ledger is None else Ledger.open(ledger)
    with unbroken(_PAID) as begin:
        if book is not None:
            begin()
        with messages.status("estimating"):
            found = asked.run(
                str(answers), ledger=book, dataset=dataset,
                kept=None if kept is None else KeptAnswers.open(kept, asked), people=person,
                **written.arguments(),
            )  # fmt: skip
            results = SurveyResults(
                asked, found.design, found.estimates, found.users, confidence, sampling
            )
            results.answers  # noqa: B018 (intervals are computed here)
        deliver(
            results.to_dict,
            lambda saved: _show_results(results, saved),
            as_json=as_json,
            out=out,
            save=lambda place: survey_pages.save_results(results, place),
            paid=True,
        )


def _show_results(results: SurveyResults, saved: Path | None) -> None:
    print_table(results.table())
    for one in results.tables:
        console.print(f"\n{one.rows.id} × {one.columns.id}\n", soft_wrap=True)
        print_table(one.shares.table())
    if saved is not None:
        console.print(f"\nsaved: {saved}", soft_wrap=True)
