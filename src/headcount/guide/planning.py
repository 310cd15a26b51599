"""Part 10, plan yours: how exact the answers of a survey are, for every point of a grid."""

from collections.abc import Mapping, Sequence
from typing import Any

import headcount as hc

TRUSTS: Mapping[hc.Trust, float] = {  # each trust, with the δ that its surveys have
    hc.Trust.CENTRAL: 0.0,
    hc.Trust.SHUFFLE: 1e-8,
    hc.Trust.LOCAL: 0.0,
}
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
PEOPLE = (100, 300, 1000, 3000, 10_000, 30_000, 100_000)
MARGINS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2)
CONFIDENCE = 0.95

TITLE = "Health on our campus"
SIZES = (5, 10)  # numbers of questions
QUESTIONS = (
    "Do you smoke?",
    "Do you sleep well?",
    "Were you harassed on the campus in the last year?",
    "Did you take part in sports last week?",
    "Would you know where to find help?",
    "Did you see a doctor in the last year?",
    "Do you eat breakfast on most days?",
    "Do you live alone?",
    "Did you skip a class because of illness last month?",
    "Do you worry about money?",
)


def numbers() -> dict[str, Any]:
    # For each number of questions and each trust: a row for each ε, with a plan for each crowd.
    plans = {
        str(size): {str(trust): _plans(QUESTIONS[:size], trust) for trust in TRUSTS}
        for size in SIZES
    }
    return {
        "title": TITLE,
        "confidence": CONFIDENCE,
        "epsilons": list(EPSILONS),
        "people": list(PEOPLE),
        "margins": list(MARGINS),
        "deltas": {str(trust): delta for trust, delta in TRUSTS.items()},
        "questions": list(QUESTIONS),
        "sizes": list(SIZES),
        "counts": {"epsilons": len(EPSILONS), "people": len(PEOPLE)},
        "plans": plans,
        # Margins in percentage points at one point of the table, which the prose compares.
        "example": {
            trust: 100 * rows[EPSILONS.index(1.0)][PEOPLE.index(10_000)]["margin"]
            for trust, rows in plans[str(SIZES[0])].items()
        },
    }


def _plans(texts: Sequence[str], trust: hc.Trust) -> list[list[dict[str, Any]]]:
    questions = [hc.YesNo(f"q{at}", text) for at, text in enumerate(texts, start=1)]
    return [[_plan(questions, trust, epsilon, people) for people in PEOPLE] for epsilon in EPSILONS]


def _plan(
    questions: Sequence[hc.YesNo], trust: hc.Trust, epsilon: float, people: int
) -> dict[str, Any]:
    survey = hc.Survey(
        questions, budget=hc.Budget(epsilon, TRUSTS[trust]), trust=trust, least_people=people
    )
    plan = survey.plan(confidence=CONFIDENCE)
    worst = max(plan.answers, key=lambda answer: answer.margin)
    return {
        "margin": worst.margin,  # from privacy alone
        "with_sampling": worst.with_sampling,
        "within": plan.odds.within,  # at most this many of 100 guesses are right
    }
