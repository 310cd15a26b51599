"""Turns the releases of a survey document into data for JSON, and reads them again."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from headcount.collect.device import device_data
from headcount.core import checks
from headcount.core.budget import Budget, Crowd
from headcount.core.errors import InvalidParameter
from headcount.core.protocol import Protocol, option_names
from headcount.core.task import task_from
from headcount.core.tasks.boxes import Boxes
from headcount.protocols.registry import protocol
from headcount.survey.design import LINE, Ask, AskedTable, Release
from headcount.survey.local import people_asked
from headcount.survey.split import YES_NO


def release_data(release: Release, slots: int, tables: Mapping[str, AskedTable]) -> dict[str, Any]:
    """A release as data for JSON. `slots` is the number of messages that a person sends for it.

    The entry `questions` lists questions and two-way tables. Each has its id, its task, and in `of`
    the ids of the questions that people answer: two for a table, and otherwise only its own id.
    """
    made = release.protocol
    return {
        "questions": [
            {"id": ask.id, "of": _sides(ask, tables), "task": ask.task.to_dict()}
            for ask in release.asks
        ],
        "share": release.share,
        "protocol": made.name,
        "task": made.task.to_dict(),
        "budget": asdict(made.budget),
        "crowd": asdict(made.crowd),
        "options": {name: getattr(made, name) for name in option_names(type(made))},
        "parameters": dict(made.parameters),
        "slots": slots,
        "device": device_data(made),
    }


def _sides(ask: Ask, tables: Mapping[str, AskedTable]) -> list[str]:
    found = tables.get(ask.id)
    return [ask.id] if found is None else [found.rows.id, found.columns.id]


def release_from(document: Mapping[str, Any], least_people: int) -> Release:
    """The release that `release_data` wrote. Its protocol is calibrated again. The document is
    refused if its parameters differ from those of the calibrated protocol.
    """
    made = protocol(
        document["protocol"],
        task_from(document["task"]),
        Budget(**document["budget"]),
        Crowd(**document["crowd"]),
        **document["options"],
    )
    asks = tuple(Ask(one["id"], task_from(one["task"])) for one in document["questions"])
    release = release_of(asks, made, least_people, document["share"])
    computed = plain(dict(made.parameters))
    if computed != document["parameters"]:
        raise InvalidParameter(
            f"this version of headcount computes the parameters {checks.shown(computed)} for "
            f"{made.name}, but the document says {checks.shown(document['parameters'])}"
        )
    return release


def release_of(
    asks: tuple[Ask, ...], made: Protocol, least_people: int, share: int = LINE
) -> Release:
    """The release of these questions, with the protocol `made`. At least `least_people` people take
    part, and the share `share` / `LINE` of them answers the release.
    """
    asked, expected = people_asked(checks.whole("share", share, low=1, high=LINE), least_people)
    ids = tuple(ask.id for ask in asks)
    return Release(ids, made, asked, asks, share, expected, least_people)


def answers_its_questions(release: Release) -> bool:
    """Whether the task of a release fits the tasks of its questions. A yes-no question may be
    answered as a histogram of two buckets. Several yes-no questions are answered as boxes to tick,
    with one box for each question.
    """
    task = release.protocol.task
    if len(release.asks) == 1:
        ask = release.asks[0].task
        return ask.to_dict() == task.to_dict() or (ask.yes_no and task == YES_NO)
    yes_no = all(ask.task.yes_no for ask in release.asks)
    return yes_no and task.to_dict() == Boxes(release.ids).to_dict()


def plain(value: Any) -> Any:
    """The value after it was written as JSON and read again. Tuples become lists, and members of
    enumerations become strings.
    """
    return json.loads(json.dumps(value))
