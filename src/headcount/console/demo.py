"""A survey of a made-up campus, with all roles on this machine.

The analyzer and the shuffler are two processes. They run the same programs as in a real survey.
This process plays the made-up respondents, who answer over the network.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from headcount.collect.client import Respondent
from headcount.console.surveys import Round
from headcount.core.budget import Budget, Trust
from headcount.survey.questions import Choice, YesNo
from headcount.survey.survey import Survey

WAYS = ("on foot", "bicycle", "bus", "car")


class Campus:
    """A made-up campus, and a survey of it. Real people may answer the survey as well."""

    def __init__(self, folder: Path, people: int, *, address: str | None, port: int | None) -> None:
        self.answers = made_up(people)
        self.round = Round.create(
            folder / "1", campus(people), "open", in_class=False, address=address, port=port
        )

    @property
    def truth(self) -> dict[str, Any]:
        """How many of the made-up people gave each answer."""
        ways = [self.answers["commute"].count(way) for way in WAYS]
        counts = {name: self.answers[name].count("yes") for name in ("smoke", "drink")}
        return {**counts, "commute": ways}

    def answer(self) -> None:
        """Let all made-up people answer."""
        with ThreadPoolExecutor(8) as crowd:
            list(crowd.map(self._answer, range(len(self.answers["smoke"]))))

    def close(self) -> dict[str, Any]:
        """Close the survey, and wait for its results."""
        self.round.close()
        return self.round.pair.until(self.round.pair.results)

    def _answer(self, number: int) -> None:
        place = self.round.pair.folder / "respondents" / str(number)
        person = Respondent(self.round.document, place)
        person.answer({name: column[number] for name, column in self.answers.items()})
        person.send()


def campus(people: int) -> Survey:
    """The survey of the made-up campus."""
    return Survey(
        (
            YesNo("smoke", "Do you smoke?"),
            YesNo("drink", "Did you drive after drinking last month?"),
            Choice("commute", "How do you come to the campus?", choices=WAYS),
        ),
        Budget(2, 1e-6),
        Trust.SHUFFLE,
        people,
        title="A made-up campus",
        introduction="Three questions. They show how a survey works.",
    )


def made_up(people: int) -> dict[str, list[Any]]:
    """The answers of the made-up people. A person's answers are computed from the person's number,
    so they are the same every time.
    """
    return {
        "smoke": ["yes" if number * 7 % 20 < 5 else "no" for number in range(people)],
        "drink": ["yes" if number * 13 % 25 < 2 else "no" for number in range(people)],
        "commute": [WAYS[min(3, number * 11 % 10 // 3)] for number in range(people)],
    }
