"""Questions of every kind, as data of a survey file, and surveys that ask them."""

from collections.abc import Sequence
from typing import Any

from headcount.collect.document import Addresses, Document
from headcount.collect.keys import PublicKey
from headcount.survey.file import survey_from


def question(name: str, text: str, kind: str, **settings: Any) -> dict[str, Any]:
    return {"id": name, "text": text, "kind": kind, **settings}


SMOKE = question("smoke", "Do you smoke?", "yes-no")
DRINK = question("drink", "Do you drink?", "yes-no")
SEX = question("sex", "What is your sex?", "choice", choices=["female", "male", "other"])
DRUGS = question(
    "drugs", "Which of these did you take?", "several",
    choices=["cannabis", "stimulants", "opioids"], at_most=2,
)  # fmt: skip
PLACES = question(
    "places", "Where have you been?", "several",
    choices=[f"place {number}" for number in range(20)], at_most=2,
)  # fmt: skip
SLEEP = question("sleep", "How well do you sleep?", "scale")
AGE = question("age", "How old are you?", "number", low=18, high=99.5)
PARTNERS = question(
    "partners", "How many partners did you have?", "number",
    low=0, high=9, whole=True, want=["quantiles"], optional=True,
)  # fmt: skip

LOCAL = {"trust": "local", "epsilon": 2, "least_people": 200}
SHUFFLED = {"trust": "shuffle", "epsilon": 3, "delta": 1e-3, "least_people": 200}


def document(
    privacy: dict[str, Any],
    questions: Sequence[dict[str, Any]],
    key: PublicKey,
    places: Addresses,
    *,
    admission: Any = "open",
    **about: Any,
) -> Document:
    """The document of a survey. `about` has its title, its tables, and so on."""
    survey = survey_from({**about, "privacy": privacy, "question": list(questions)})
    return Document.of(survey, key, places, admission)
