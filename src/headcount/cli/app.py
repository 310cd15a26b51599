"""The command line with all of its commands. Each command is a function that reads options, calls
the library and shows the result.
"""

from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer

from headcount import __version__
from headcount.cli.command import Command, Group
from headcount.cli.grouping import ungrouped

# The commands with their examples. Each command is a function in a file of the same name.
_COMMANDS: dict[str, tuple[str, ...]] = {
    "plan": (
        "headcount plan histogram --buckets 50 --users 20000 --epsilon 1 --delta 1e-8",
        "headcount plan count --users 2000 --epsilon 1 --delta 1e-6 --trust shuffle "
        "--out plan.json",
        "headcount plan count --margin 1% --epsilon 1 --delta 1e-6",
    ),
    "estimate": (
        "headcount estimate people.csv --column smoker --task count --epsilon 1",
        "headcount estimate people.csv --column smoker --plan plan.json",
        "headcount estimate ages.csv --column age --bins 0,18,65,120 --epsilon 1",
        "headcount estimate --query \"SELECT smoker FROM 'people.csv'\" --epsilon 1",
    ),
    "compare": (
        "headcount compare count --out trusts.png",
        "headcount compare histogram --buckets 50 --over epsilon --runs 50 --out errors.html",
        "headcount compare count --protocols shuffle.zero-exact --calibration both",
    ),
    "curve": ("headcount curve shuffle.zero-exact --users 100000 --epsilon 1 --delta 1e-6",),
    "audit": (
        "headcount audit local.randomized-response --epsilon 1 --runs 1000000",
        "headcount audit shuffle.randomized-response --epsilon 1 --delta 0.01 --users 8 --exact",
        "headcount audit shuffle.zero-exact --epsilon 1 --delta 1e-6 --users 1000 --report "
        "--out report.html",
        "headcount audit mine.py:lie --epsilon 1.2 --dataset 0 --neighbor 1",
    ),
    "console": (
        "headcount console surveys",
        "headcount console --class survey.toml --address https://survey.example",
    ),
    "guide": ("headcount guide --out guide",),
    "report": ("headcount report questions.toml town.csv --out report.html",),
    "demo": ("headcount demo --out demo.svg",),
}
_GROUPS = ("survey", "ledger", "shuffler", "analyzer")
_STATUSES = (
    "Exit status: 0 for success; 1 if an audit refutes a claim, if a report exceeds a "
    "threshold, or if a survey has too few people to be closed; 2 if the usage or the input is "
    "wrong, or if the answer could not be saved or printed; 3 if no protocol meets the "
    "requirements, or if the named protocol does not; 4 if the charge would exceed the limit of "
    "a ledger; 70 for a bug in Headcount; 129 if the terminal was closed; 130 for Ctrl-C; 143 "
    "for a signal to terminate. Set NO_COLOR to turn colors off, and HEADCOUNT_CACHE to the "
    "folder where plans are cached."
)


@cache
def app(command: str = "") -> typer.Typer:
    """The program with only the command `command`, since loading all commands takes a while. If
    `command` is --version, the program has no commands. If `command` is unknown, the program has
    all commands.
    """
    made = typer.Typer(
        name="headcount",
        cls=Group,
        help="Count a crowd without looking at anyone: statistics with differential privacy.",
        epilog=_STATUSES,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    made.callback(invoke_without_command=True)(_headcount)
    known = (*_COMMANDS, *_GROUPS, "--version")
    for name, examples in _COMMANDS.items():
        if command == name or command not in known:
            epilog = "\n\n".join(f"Example: {example}" for example in examples)
            made.command(cls=Command, epilog=epilog)(ungrouped(_loaded(name, name)))
    for name in _GROUPS:
        if command == name or command not in known:
            made.add_typer(_survey() if name == "survey" else _loaded(name, name))
    return made


def _survey() -> typer.Typer:
    made = typer.Typer(
        name="survey",
        cls=Group,
        help="Ask several questions with one budget: write a survey file, plan it, and run it.",
        rich_markup_mode=None,
    )
    for name, file, function, example in (
        ("new", "survey", "new", "headcount survey new --out survey.toml"),
        ("check", "survey", "check", "headcount survey check survey.toml"),
        ("plan", "survey", "plan", "headcount survey plan survey.toml --out board.html"),
        (
            "run", "survey", "run",
            "headcount survey run survey.toml answers.csv --out results.html",
        ),
        (
            "open", "survey_open", "open_survey",
            "headcount survey open campus.toml --key analyzer/key.json --shuffler "
            "https://mix.example --analyzer https://count.example --out campus.json",
        ),
        (
            "answer", "survey_answer", "answer",
            "headcount survey answer campus.json --answer smoke=yes",
        ),
        (
            "export", "survey_export", "export",
            "headcount survey export campus.json --out site",
        ),
        ("demo", "survey_demo", "demo", "headcount survey demo --out demo.json"),
    ):  # fmt: skip
        command = made.command(name, cls=Command, epilog=f"Example: {example}")
        command(ungrouped(_loaded(file, function)))
    return made


def _loaded(file: str, name: str) -> Any:
    return getattr(import_module(f"headcount.cli.{file}"), name)


def _headcount(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    if version:
        print(f"headcount {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())
