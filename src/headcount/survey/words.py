"""What a survey promises, in words for people who do not program."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from headcount.auditor.report import PrivacyReport, privacy_report
from headcount.core.budget import Trust
from headcount.core.guarantee import rounded_up
from headcount.core.table import counted, counted_people
from headcount.survey.design import Design, Noise


@dataclass(frozen=True)
class Odds:
    """How many of 100 people guess right about somebody on average, without and with that person's
    answers.

    They guess which of two statements about the person is true. From everything else that they
    know, both statements are equally likely.
    """

    without: int
    within: int
    report: PrivacyReport

    @classmethod
    def of(cls, design: Design) -> "Odds":
        """The odds that the joint guarantee of all answers allows."""
        report = privacy_report(design.guarantee)
        advantage = report.advantage.value
        most = 100.0 if advantage is None else 50 * (1 + advantage)
        return cls(50, min(100, math.ceil(most - 1e-9)), report)

    @property
    def sentence(self) -> str:
        return (
            f"Of 100 people who guess about you, on average {self.without} are right without your "
            f"answers, and at most {self.within} with them."
        )

    @property
    def explanation(self) -> str:
        return (
            "They guess which of two statements about you is true. From everything else that they "
            "know, both statements are equally likely. The numbers hold for all of your answers "
            "together."
        )

    @property
    def delta(self) -> str:
        """What δ means. The sentence is that of a privacy report."""
        return self.report.sentences[0]


def shared(trust: Trust, noise: Noise, questions: int, each: int, messages: int) -> str:
    """What a person's device sends, in one sentence."""
    if trust == Trust.CENTRAL:
        return "Each person's answers are handed to the people who run the survey, as they are."
    if trust == Trust.LOCAL:
        asked = (
            f"Each device answers all {questions} questions"
            if each == questions
            else f"Each device answers {each} of the {questions} questions, chosen at random"
        )
        return f"{asked}, and randomizes every answer before it is sent."
    noisy = "" if noise == "shuffler" else ", some of them random"
    return (
        f"Each device sends {counted(messages, 'sealed message')}{noisy}. Everybody sends the same "
        "number of messages, and all of them have the same size."
    )


def who_sees(trust: Trust, noise: Noise, collusion: float) -> tuple[tuple[str, str], ...]:
    """Who could see what. `collusion` is the ε that is left if shuffler and analyzer work together.
    It may be infinite.
    """
    everybody = (
        "Whoever reads the results",
        "The published numbers. Their noise protects each person.",
    )
    if trust == Trust.CENTRAL:
        return (
            ("Those who run the survey", "All answers. They may also know who gave them."),
            everybody,
        )
    if trust == Trust.LOCAL:
        return (
            (
                "Those who run the survey",
                "Randomized answers. The promise limits what these say about the person who sent "
                "them.",
            ),
            ("Whoever listens on the way", "The same randomized answers, if they are not sealed."),
            everybody,
        )
    adds = (
        " It also adds the noise. Since it knows the noise, it can compute the exact results once "
        "the noisy results are published."
        if noise == "shuffler"
        else ""
    )
    together = (
        "Everybody's answers. Then nothing protects people."
        if math.isinf(collusion)
        else f"Randomized answers. Only local privacy with ε = {rounded_up(collusion)} is left."
    )
    return (
        (
            "The shuffler, who mixes the answers",
            f"Who answered and when, but not the answers: all messages are sealed.{adds}",
        ),
        (
            "The analyzer, who opens the messages",
            "All messages of all people, mixed. It cannot tell who sent which message, or which "
            "messages came from the same person.",
        ),
        ("Shuffler and analyzer together", together),
        everybody,
    )


def relies_on(trust: Trust, noise: Noise, least_people: int) -> str:
    """What people have to rely on, in one sentence."""
    if trust == Trust.CENTRAL:
        return "People rely on those who run the survey: they see all answers."
    if trust == Trust.LOCAL:
        return "People rely on nobody but their own device."
    duties = "mix the messages" + (" and to add the noise" if noise == "shuffler" else "")
    return (
        f"People rely on the shuffler to {duties}, on the shuffler and the analyzer not to work "
        f"together, and on {counted_people(least_people)} to take part honestly."
    )


def consent(
    title: str, questions: int, contact: str, trust: Trust, odds: Odds, seen: Sequence[str]
) -> tuple[str, ...]:
    """A text that people can agree to, in paragraphs. It is a draft to be changed."""
    who = {
        Trust.CENTRAL: "We will see your answers. We add random noise to the numbers that we "
        "publish. The noise limits what these numbers reveal about any single person.",
        Trust.SHUFFLE: "Your answers leave your device in sealed messages. A first party mixes "
        "the messages of all people and cannot open them. A second party opens the mixed messages "
        "and cannot tell who sent them. The two parties have promised not to work together.",
        Trust.LOCAL: "Your device changes your answers at random before it sends them. Nobody who "
        "sees what it sends can be certain of your true answers.",
    }[trust]
    asked = f"“{title}” asks" if title else "This survey asks"
    return (
        f"{asked} {counted(questions, 'question')}. Taking part is voluntary. You may stop at any "
        "time before you send your answers. You cannot take them back afterwards."
        if trust != Trust.CENTRAL
        else f"{asked} {counted(questions, 'question')}. Taking part is voluntary.",
        who,
        f"{odds.sentence} {odds.explanation} {odds.delta}",
        *seen,
        "Results about all people together are published. They can say something about people "
        "like you, whether or not you take part.",
        *([f"Questions: {contact}"] if contact else []),
    )
