"""What a survey promises, in words for people who do not program."""

import math
from dataclasses import dataclass

from headcount.auditor.report import PrivacyReport, privacy_report
from headcount.core.budget import Trust
from headcount.core.guarantee import rounded_up
from headcount.core.table import counted, counted_people
from headcount.survey.design import Design, Noise


@dataclass(frozen=True)
class Odds:
    """How many of 100 people guess right about somebody on average, without and with that person's
    answers. The number with the answers, `within`, is an upper bound.

    They guess which of two statements about the person is true. From everything else that they
    know, both statements are equally likely.
    """

    without: int
    within: int
    report: PrivacyReport
    waves: int = 1
    kept: bool = False

    @classmethod
    def of(cls, design: Design) -> "Odds":
        """The odds that the joint guarantee of all answers allows."""
        report = privacy_report(design.guarantee)
        advantage = report.advantage.value
        most = 100.0 if advantage is None else 50 * (1 + advantage)
        kept = design.kept_waves > 1
        waves = design.kept_waves if kept else design.waves
        return cls(50, min(100, math.ceil(most - 1e-9)), report, waves, kept)

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
            f"together{in_waves(self.waves, kept=self.kept)}."
        )

    @property
    def delta(self) -> str:
        """What δ means. The sentence is the same as in a privacy report."""
        return self.report.sentences[0]


def in_waves(waves: int, *, kept: bool) -> str:
    """The end of a sentence about a promise: for which waves it holds."""
    if waves == 1:
        return ""
    return f", in all {waves} waves" + (", if the answers stay the same" if kept else "")


def shared(
    trust: Trust,
    noise: Noise,
    asked: int,
    *,
    tables: bool,
    each: tuple[int, int] | None,
    messages: int,
) -> str:
    """What a person's device sends, in words.

    `asked` is the number of questions. It includes two-way tables, if `tables` says that there are
    any. A device answers at least `each[0]` and at most `each[1]` questions, or all of them if
    `each` is None.
    """
    if trust == Trust.CENTRAL:
        return "Each person's answers are handed to the people who run the survey, as they are."
    if trust == Trust.LOCAL:
        if asked == 1:
            return "Each device answers the question, and randomizes the answer before it is sent."
        questions = f"{asked} questions" + (" and tables" if tables else "")
        answered = f"all {questions}"
        if each is not None:
            some = str(each[0]) if each[0] == each[1] else f"{each[0]} to {each[1]}"
            answered = f"{some} of the {questions}, chosen at random"
        return f"Each device answers {answered}, and randomizes every answer before it is sent."
    noisy = "" if noise == "shuffler" else ", some of them random"
    return (
        f"Each device sends {counted(messages, 'sealed message')}{noisy}. Everybody sends the same "
        "number of messages, and all of them have the same size."
    )


def repeated(waves: int) -> tuple[str, ...]:
    """How devices repeat their answers, and what this means for errors."""
    return (
        f"Each device randomizes an answer once. In all {waves} waves, it sends the same result as "
        "long as the answer stays the same. The promise is for people whose answers stay the same.",
        "The mean over several waves is hardly more exact than one wave, because the noise is the "
        "same. The difference between two waves is more exact, because only people whose answers "
        "changed add noise to it.",
    )


def not_hidden(epsilon: float, shown: float | None) -> tuple[str, ...]:
    """What repeated answers do not hide. `shown` is the largest probability that a change shows, or
    None if this probability is not known.
    """
    often = "usually"
    if shown is not None:
        often = f"with a probability of up to {math.ceil(1000 * shown) / 10:.1f} %"
    return (
        "Changes are not hidden. If an answer changes, the device randomizes the new answer, and "
        f"{often} it sends something different. Whoever compares the waves then knows for "
        "certain that an answer changed, and when.",
        "Even then, it stays uncertain what the answers were. Somebody who gives two different "
        f"sets of answers has epsilon = {rounded_up(2 * epsilon)} instead of "
        f"{rounded_up(epsilon)}, compared with anybody whose answers change at the same times. "
        f"Each further different set of answers adds {rounded_up(epsilon)}.",
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


def _duties(noise: Noise) -> str:
    return "mix the messages" + (" and to add the noise" if noise == "shuffler" else "")


def relies_on(trust: Trust, noise: Noise, least_people: int) -> str:
    """What people have to rely on, in one sentence."""
    if trust == Trust.CENTRAL:
        return "People rely on those who run the survey: they see all answers."
    if trust == Trust.LOCAL:
        return "People rely on nobody but their own device."
    return (
        f"People rely on the shuffler to {_duties(noise)}, on the shuffler and the analyzer not to "
        f"work together, and on {counted_people(least_people)} to take part honestly."
    )


def you_rely_on(trust: Trust, noise: Noise, least_people: int) -> str:
    """Like `relies_on`, for the text that people agree to. This text calls the shuffler the first
    party, and the analyzer the second party.
    """
    if trust == Trust.CENTRAL:
        return "You rely on us: we see all answers."
    if trust == Trust.LOCAL:
        return "You rely on nobody but your own device."
    return (
        f"You rely on the first party to {_duties(noise)}, on the two parties not to work "
        f"together, and on {counted_people(least_people)} to take part honestly."
    )


def consent(
    title: str, questions: int, contact: str, trust: Trust, odds: Odds, relied: str
) -> tuple[str, ...]:
    """A text that people can agree to, in paragraphs. It is a draft to be changed. `relied` says
    what people rely on.
    """
    again = {
        True: "We will ask you again. As long as your answers stay the same, your device sends the "
        "same randomized answers each time. If an answer changes, we may notice that it changed. ",
        False: "We will ask you again. ",
    }[odds.kept]
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
        f"{again}{who}" if odds.waves > 1 else who,
        f"{odds.sentence} {odds.explanation} {odds.delta}",
        relied,
        "Results about all people together are published. They can say something about people "
        "like you, whether or not you take part.",
        *([f"Questions: {contact}"] if contact else []),
    )
