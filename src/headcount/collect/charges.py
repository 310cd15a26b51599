"""Charging a ledger for a survey: once, before its batch is opened.

The ledger names a charge by the survey's digest. If an analyzer is killed after the
charge, it asks for the same charge again, and the ledger does not charge it twice. Another survey
of the same people has another digest, and is charged separately.
"""

from dataclasses import dataclass, replace

from headcount.collect.document import Document
from headcount.core.guarantee import FittedCurve, Guarantee, PrivacyCurve, fitted_delta
from headcount.ledger.ledger import Ledger
from headcount.survey.run import of_one_wave


@dataclass(frozen=True)
class Charges:
    """A ledger, and its dataset to which surveys are charged. None means its only dataset."""

    ledger: Ledger
    dataset: str | None = None

    def __call__(self, document: Document, people: int) -> None:
        """Charge a survey. If it does not fit within the limit, `BudgetExhausted` is raised."""
        promise, curve = spent(document)
        names = dict.fromkeys(release.protocol.name for release in document.releases)
        self.ledger.charge(
            self.dataset, promise, curve,
            {
                "survey": document.digest,
                "questions": [ask.id for ask in document.design.asked],
                "protected": promise.neighbors,
            },
            protocol=", ".join(names)[:200], task="survey", users=people,
            once=f"survey {document.digest}",
        )  # fmt: skip


def spent(document: Document) -> tuple[Guarantee, PrivacyCurve]:
    """What the responses to a survey spend, or those of one wave if there are several waves."""
    promise, curve = of_one_wave(document.design)
    redrawn = document.design.redrawn  # for all waves, so it is an upper bound for one wave
    if not redrawn:
        return promise, curve
    delta = float(fitted_delta(promise.delta, promise.epsilon, redrawn))
    return replace(promise, delta=delta, exact=False), FittedCurve(curve, redrawn)
