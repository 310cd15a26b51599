"""`headcount survey answer`: a person answers a survey at a terminal."""

from pathlib import Path
from typing import Annotated, Any

import typer

from headcount.cli.arguments import AsJson
from headcount.cli.output import console, deliver
from headcount.collect.client import Respondent
from headcount.core import checks
from headcount.core.errors import InvalidParameter, InvalidValue
from headcount.core.table import short
from headcount.survey.questions import Question


def answer(
    survey: Annotated[
        str, typer.Argument(help="The survey: its document, or its address.", metavar="SURVEY")
    ],
    given: Annotated[
        list[str] | None,
        typer.Option("--answer", help="Answer to a question: smoke=yes. [default: ask for it]"),
    ] = None,
    code: Annotated[str | None, typer.Option(help="Invitation code.")] = None,
    folder: Annotated[Path, typer.Option(help="Folder that remembers what was sealed.")] = Path(
        ".headcount-answers"
    ),
    as_json: AsJson = False,
) -> None:
    """Answer a survey. Answers are randomized and sealed once, on this device.

    If sending fails, run the command again: it sends the same bytes. Answers themselves are never
    stored.
    """
    person = Respondent(survey, folder)
    if not person.answered:
        answers = _given(given or [])
        promise = person.document.guarantee
        console.print(
            f"{person.document.title}\nAll of your answers together: epsilon "
            f"{short(promise.epsilon)}, delta {short(promise.delta)}. This relies on "
            f"{promise.relies_on}.",
            soft_wrap=True,
        )
        person.answer(_asked(person, answers))
    receipt = person.send(code)
    deliver(
        lambda: {
            "survey": person.document.digest, "receipt": receipt, "bytes": len(person.sealed)
        },
        lambda saved: console.print(
            f"{receipt}: {len(person.sealed):,} sealed bytes left this device", soft_wrap=True
        ),
        as_json=as_json,
    )  # fmt: skip


def _given(texts: list[str]) -> dict[str, str]:
    found = dict(text.partition("=")[::2] for text in texts)
    if wrong := [text for text in texts if "=" not in text]:
        raise InvalidParameter(f"--answer must have the form question=answer, got {wrong[0]!r}")
    return found


def _asked(person: Respondent, answers: dict[str, str]) -> dict[str, Any]:
    """The answers to the survey. A device may draw only some of the questions. The person is asked
    each drawn question that has no answer in `answers`.
    """
    survey = person.document.questions
    if survey is None:
        raise InvalidParameter("the survey must have questions in words, but this one has none")
    asked, found = person.questions(), {}
    if len(asked) < len(survey.questions):
        console.print(
            f"This device answers {len(asked)} of {len(survey.questions)} questions. It has drawn "
            "them at random.",
            soft_wrap=True,
        )
    for one in survey.questions:
        text = answers.pop(one.id, None)
        if text is None and one.id not in asked:
            continue
        if text is None:
            text = typer.prompt(f"{one.text or one.id} [{one.allowed}]")
        found[one.id] = None if one.optional and not text.strip() else _value(one, text.strip())
    return {**found, **answers}


def _value(question: Question, text: str) -> Any:
    """The answer that a text states. The labels of ticked boxes are separated by commas."""
    if question.boxes:
        return [box.strip() for box in text.split(",") if box.strip()]
    if not question.of_numbers:
        return text
    try:
        return float(text)
    except ValueError:
        raise InvalidValue(
            f"question {question.id!r} must be answered {question.allowed}, "
            f"got {checks.shown(text)}"
        ) from None
