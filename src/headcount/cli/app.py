"""The command line with all of its commands. Each command is a file that reads options, calls the
library and shows the result.
"""

from typing import Annotated

import typer

from headcount import __version__
from headcount.cli.analyzer import analyzer
from headcount.cli.audit import audit
from headcount.cli.compare import compare
from headcount.cli.curve import curve
from headcount.cli.demo import demo
from headcount.cli.estimate import estimate
from headcount.cli.grouping import ungrouped
from headcount.cli.ledger import ledger
from headcount.cli.plan import plan
from headcount.cli.shuffler import shuffler
from headcount.cli.survey_answer import answer
from headcount.cli.survey_demo import demo as demonstration

app = typer.Typer(
    name="headcount",
    help="Count a crowd without looking at anyone: statistics with differential privacy.",
    epilog="Exit status: 0 for success; 1 if an audit refutes a claim, or a report exceeds a "
    "threshold; 2 if the usage or the input is wrong, or if the answer could not be saved or "
    "printed; 3 if no protocol meets the requirements, or if the named protocol does not; 4 if the "
    "charge would exceed the limit of a ledger; 70 for a bug in Headcount; 129 if the terminal was "
    "closed; 130 for Ctrl-C; 143 for a signal to terminate. Set NO_COLOR to turn colors off, and "
    "HEADCOUNT_CACHE to the folder where plans are cached.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def headcount(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    if version:
        print(f"headcount {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


for command, examples in (
    (
        plan,
        (
            "headcount plan histogram --buckets 50 --users 20000 --epsilon 1 --delta 1e-8",
            "headcount plan count --users 2000 --epsilon 1 --delta 1e-6 --trust shuffle "
            "--out plan.json",
            "headcount plan count --margin 1% --epsilon 1 --delta 1e-6",
        ),
    ),
    (
        estimate,
        (
            "headcount estimate people.csv --column smoker --task count --epsilon 1",
            "headcount estimate people.csv --column smoker --plan plan.json",
            "headcount estimate ages.csv --column age --bins 0,18,65,120 --epsilon 1",
            "headcount estimate --query \"SELECT smoker FROM 'people.csv'\" --epsilon 1",
        ),
    ),
    (
        compare,
        (
            "headcount compare count --out trusts.png",
            "headcount compare histogram --buckets 50 --over epsilon --runs 50 --out errors.html",
            "headcount compare count --protocols shuffle.zero-exact --calibration both",
        ),
    ),
    (
        curve,
        ("headcount curve shuffle.zero-exact --users 100000 --epsilon 1 --delta 1e-6",),
    ),
    (
        audit,
        (
            "headcount audit local.randomized-response --epsilon 1 --runs 1000000",
            "headcount audit shuffle.randomized-response --epsilon 1 --delta 0.01 --users 8 "
            "--exact",
            "headcount audit shuffle.zero-exact --epsilon 1 --delta 1e-6 --users 1000 --report "
            "--out report.html",
            "headcount audit mine.py:lie --epsilon 1.2 --dataset 0 --neighbor 1",
        ),
    ),
    (demo, ("headcount demo --out demo.svg",)),
):
    app.command(epilog="\n\n".join(f"Example: {example}" for example in examples))(
        ungrouped(command)
    )
survey = typer.Typer(
    name="survey",
    help="Ask several questions, with one budget for all answers.",
    rich_markup_mode=None,
)
survey.command(epilog="Example: headcount survey answer campus.json --answer smoke=yes")(answer)
survey.command(epilog="Example: headcount survey demo --out demo.json")(demonstration)
for group in (ledger, survey, shuffler, analyzer):
    app.add_typer(group)
