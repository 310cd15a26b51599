"""The order in which the real shuffler hands messages over. It must not link messages of a person:
envelopes with all messages of one person would be cheaper to mix, but break the promise.
"""

import itertools
import secrets
from collections import Counter
from pathlib import Path

from scipy import stats

import headcount as hc
from collection import document, shuffler
from headcount.collect.client import response
from headcount.collect.document import Document

MIXES = 3600
FALSE_ALARM = 1e-7


def survey(folder: Path) -> Document:
    """Two yes-no questions to people who randomize their answers themselves."""
    made = hc.protocol(
        "shuffle.randomized-response", hc.Count(), hc.Budget(1, 1e-3), hc.Crowd(1000)
    )
    return document(folder, {"a": made, "b": made}, least_people=1000)


def test_every_order_of_the_messages_is_equally_likely(tmp_path: Path) -> None:
    """Two people send two messages each. All 24 orders of the four messages are equally likely, so
    also the 16 orders that separate the messages of a person.
    """
    asked, mixer = survey(tmp_path), shuffler(tmp_path)
    size = asked.envelope.size
    four = [secrets.token_bytes(size) for _ in range(4)]
    bodies = [four[0] + four[1], four[2] + four[3]]
    seen: Counter[tuple[int, ...]] = Counter()
    for _ in range(MIXES):
        mixed = mixer.mixed(asked, bodies, 2).messages
        seen[tuple(four.index(mixed[at : at + size]) for at in range(0, 4 * size, size))] += 1
    orders = list(itertools.permutations(range(4)))
    expected = MIXES / len(orders)
    statistic = sum((seen[order] - expected) ** 2 / expected for order in orders)
    assert statistic < stats.chi2.isf(FALSE_ALARM, len(orders) - 1)


def test_the_batch_has_every_message_by_itself(tmp_path: Path) -> None:
    """The batch is a string of messages of one size. It does not say where a response begins."""
    asked, mixer = survey(tmp_path), shuffler(tmp_path)
    size, source = asked.envelope.size, hc.SecureSource()
    bodies = [response(asked, {"a": at % 2, "b": 0}, source) for at in range(40)]
    batch = mixer.mixed(asked, bodies, len(bodies))
    assert (batch.people, batch.size) == (len(bodies), size)
    assert len(bodies[0]) >= 2 * size
    sent = [body[at : at + size] for body in bodies for at in range(0, len(body), size)]
    found = [batch.messages[at : at + size] for at in range(0, len(batch.messages), size)]
    assert sorted(found) == sorted(sent)
    owner = {message: at // (len(bodies[0]) // size) for at, message in enumerate(sent)}
    neighbors = sum(owner[one] == owner[other] for one, other in itertools.pairwise(found))
    # A pair of neighbors is of one person with probability 1/79 here, and each of 40 persons has
    # at most one such pair. With linked envelopes, there are 40 pairs.
    assert neighbors < 20
