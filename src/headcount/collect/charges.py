"""Charging a survey to a ledger: once, before its batch is opened.

The name of a charge holds the survey's digest. If an analyzer is killed after the charge, it later
asks for the same charge again, and the ledger does not charge it twice. Another survey of the same
people has another digest, and is charged separately.
"""

from dataclasses import dataclass, replace

from headcount.collect.document import Document
from headcount.core.guarantee import FittedCurve, Guarantee, PrivacyCurve, fitted_delta
from headcount.ledger.ledger import Ledger
from headcount.survey.run import of_one_wave


@dataclass(frozen=True)
class Charges:
    """Charges surveys to the dataset `dataset` of a ledger. If `dataset` is None, the ledger must
    have only one dataset, which is charged.
    """

    ledger: Ledger
    dataset: str | None = None

    def __call__(self, document: Document, people: int) -> None:
        """Charge a survey. If the charge would exceed the limit, `BudgetExhausted` is raised."""
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
    """The guarantee and the privacy curve that the responses to a survey spend. If there are
    several waves, the result is for one wave. A device draws its noise again if the noise does not
    fit into the response. The result includes the small privacy loss of drawing again.
    """
    promise, curve = of_one_wave(document.design)
    # A bound on the probability that any device draws again in any wave, so also in one wave.
    redrawn = document.design.redrawn
    if not redrawn:
        return promise, curve
    delta = float(fitted_delta(promise.delta, promise.epsilon, redrawn))
    return replace(promise, delta=delta, exact=False), FittedCurve(curve, redrawn)
