"""A survey of a made-up campus, with all roles as processes of this machine.

The analyzer and the shuffler are the same programs that a real survey runs. Made-up respondents
answer over the network, on loopback.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headcount.collect.client import Respondent
from headcount.collect.document import Addresses, Document
from headcount.collect.keys import PublicKey
from headcount.collect.pair import Pair
from headcount.core.budget import Budget, Trust
from headcount.survey.questions import Choice, YesNo
from headcount.survey.survey import Survey

WAYS = ("on foot", "bicycle", "bus", "car")


@dataclass(frozen=True)
class Demo:
    """The results of the made-up campus, and the true answers."""

    document: Document
    results: dict[str, Any]
    truth: dict[str, Any]


def demonstrate(folder: Path, people: int, said: Callable[[str], None]) -> Demo:
    """Run a whole survey. `said` is called with each step."""
    said("making the analyzer's key")
    answers = made_up(people)
    with Pair.create(folder, lambda key, places: campus(key, places, people)) as running:
        said("starting the analyzer and the shuffler")
        running.start(close_with=people)
        document = running.document
        said(f"{people} people answer")
        with ThreadPoolExecutor(8) as crowd:
            list(
                crowd.map(lambda number: _answer(document, folder, number, answers), range(people))
            )
        said("closing, mixing, opening and counting")
        found = running.until(running.results)
    truth = {"smoke": answers["smoke"].count("yes"), "drink": answers["drink"].count("yes"),
             "commute": [answers["commute"].count(way) for way in WAYS]}  # fmt: skip
    return Demo(document, found, truth)


def campus(key: PublicKey, places: Addresses, people: int) -> Document:
    """The survey of the made-up campus."""
    survey = Survey(
        (
            YesNo("smoke", "Do you smoke?"),
            YesNo("drink", "Did you drive after drinking last month?"),
            Choice("commute", "How do you come to the campus?", choices=WAYS),
        ),
        Budget(2, 1e-6),
        Trust.SHUFFLE,
        people,
        title="A made-up campus",
    )
    return Document.of(survey, key, places)


def made_up(people: int) -> dict[str, list[Any]]:
    """The answers of the made-up people. They follow from the number of each person."""
    return {
        "smoke": ["yes" if number * 7 % 20 < 5 else "no" for number in range(people)],
        "drink": ["yes" if number * 13 % 25 < 2 else "no" for number in range(people)],
        "commute": [WAYS[min(3, number * 11 % 10 // 3)] for number in range(people)],
    }


def _answer(document: Document, folder: Path, number: int, answers: dict[str, list[Any]]) -> None:
    person = Respondent(document, folder / "respondents" / str(number))
    person.answer({name: column[number] for name, column in answers.items()})
    person.send()
