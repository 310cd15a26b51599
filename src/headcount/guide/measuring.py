"""Part 9, measure privacy: an audit in the browser, and how large a violation it finds.

The page runs a mechanism on two neighboring datasets. One half of the runs chooses an event, and
the other half counts it. The last round of `hc.audit` counts an event in the same way, but with
only a share of the error probability.
"""

from typing import Any

from headcount.auditor.power import POWER, smallest_response

CONFIDENCE = 0.99
CLAIMS = (0.1, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0)
DELTAS = (0.0, 0.01, 0.05, 0.1)
RUNS = (1000, 3000, 10_000, 30_000, 100_000)  # on each of the two datasets
LIES = (0.05, 0.1, 0.15, 0.2, 0.25, 0.27, 0.3, 0.35, 0.4, 0.45)  # probabilities of a lie
SCALES = (0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0)  # of two-sided geometric noise; its ε is 1/scale
TABLE = ((40, 30, 20, 10), (20, 30, 30, 20))  # weights of four outputs, for each dataset
# The probabilities with which coins of strangers lie. Every stranger claims that ε is at most 1,
# which is true only for the first coin.
STRANGERS = (0.27, 0.26, 0.24, 0.22, 0.2, 0.15)


def numbers() -> dict[str, Any]:
    return {
        "confidence": CONFIDENCE,
        "wrong": 1 - CONFIDENCE,
        "power": POWER,
        "claims": list(CLAIMS),
        "deltas": list(DELTAS),
        "runs": list(RUNS),
        "lies": list(LIES),
        "scales": list(SCALES),
        "table": [list(weights) for weights in TABLE],
        "strangers": list(STRANGERS),
        # For each number of runs, the smallest ε of a randomized response that an audit refutes
        # with a probability of at least `power`. The claim is ε = 1.
        "found": [[runs, _found(runs)] for runs in RUNS],
    }


def _found(runs: int) -> float:
    return smallest_response(1.0, 0.0, runs // 2, runs - runs // 2, 1 - CONFIDENCE)
