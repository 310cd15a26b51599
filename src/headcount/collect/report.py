"""The report on a survey that was collected: all results in a form that people can read.

The report is made once, together with the estimates, and is stored. Pages and tables are made from
the stored report. So showing the results again never draws new noise.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headcount.collect.document import Document
from headcount.core.estimate import Estimate
from headcount.survey.answers import NO_ANSWER
from headcount.survey.results import Answered, SurveyResults
from headcount.survey.words import Odds, who_sees

CONFIDENCE = 0.95


def report(
    document: Document, estimates: Mapping[str, Estimate], people: int
) -> dict[str, Any] | None:
    """All answers with intervals, and the guarantee. Questions without an estimate are left out.
    The report is None if the document has no texts for its questions, or if nothing was estimated.

    A reading is a number that people read from the results, such as a share or a mean. Each reading
    has two intervals. The first is about the people who took part, and allows for privacy noise
    alone. The second is about the population from which these people were drawn, and also allows
    for sampling.
    """
    survey = document.questions
    if survey is None or not estimates:
        return None
    design = document.design
    here = SurveyResults(survey, design, estimates, people, CONFIDENCE)
    drawn = replace(here, sampling=True)
    tables = zip(here.tables, drawn.tables, strict=True)
    odds = Odds.of(design)
    return {
        "title": survey.title,
        "introduction": survey.introduction,
        "users": people,
        "confidence": CONFIDENCE,
        "questions": [
            _question(
                Answered(one, estimates[one.id], one.readings(
                    estimates[one.id], CONFIDENCE, sampling=False)),
                Answered(one, estimates[one.id], one.readings(
                    estimates[one.id], CONFIDENCE, sampling=True)),
            )
            for one in survey.questions
            if one.id in estimates
        ],
        "tables": [
            {
                **one.to_dict(CONFIDENCE),
                "texts": [one.rows.text, one.columns.text],
                "cells": one.cells(),
                "population": {**other.shares.to_dict(), "cells": other.cells()},
            }
            for one, other in tables
        ],
        "guarantee": here.guarantee.to_dict(),
        "odds": {
            "without": odds.without,
            "with": odds.within,
            "sentence": odds.sentence,
            "explanation": odds.explanation,
            "delta": odds.delta,
        },
        "sees": [
            {"who": who, "what": what}
            for who, what in who_sees(document.trust, survey.noise, document.local_epsilon)
        ],
    }  # fmt: skip


def _question(here: Answered, drawn: Answered) -> dict[str, Any]:
    """The answers to one question. `here` has the intervals about the people who took part, and
    `drawn` has those about the population. In the result, `answered` is the share of people who
    answered the question, and `range` has the smallest and the largest possible number.
    """
    made, asked = here.to_dict(CONFIDENCE), here.question
    ends = [getattr(asked, name, None) for name in ("low", "high")]
    for reading, other in zip(made["readings"], drawn.readings, strict=True):
        reading["population"] = {"low": other.low, "high": other.high}
    skipped = [one for one in made["readings"] if one["name"] == NO_ANSWER]
    return {
        **made,
        "range": None if None in ends else ends,
        "answered": _rest(skipped[0]) if skipped else None,
    }


def _rest(skipped: Mapping[str, Any]) -> dict[str, Any]:
    """The share of people who answered, computed from the share of people who did not."""
    return {
        "value": None if skipped["value"] is None else 1 - skipped["value"],
        "low": 1 - skipped["high"],
        "high": 1 - skipped["low"],
        "population": {
            "low": 1 - skipped["population"]["high"],
            "high": 1 - skipped["population"]["low"],
        },
    }
