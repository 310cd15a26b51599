"""Part 6, somebody to mix: the errors of means under three kinds of trust."""

from typing import Any

import headcount as hc

DELTA = 1e-6
EPSILONS = (0.5, 1.0, 2.0)
CROWDS = (1000, 10_000, 100_000)
PROTOCOLS = (
    ("local.laplace-mean", "local", "Laplace noise"),
    ("local.one-bit-mean", "local", "one random bit"),
    ("local.piecewise-mean", "local", "piecewise"),
    ("local.hybrid-mean", "local", "hybrid"),
    ("shuffle.fixed-point-sum", "shuffle", "one message, rounded"),
    ("shuffle.unary-sum", "shuffle", "many bits"),
    ("shuffle.noisy-shuffler", "shuffle", "noisy shuffler"),
    ("shuffle.split-and-mix", "shuffle", "split and mix"),
    ("central.laplace", "central", "the curator adds noise"),
)
# The option `levels` of `shuffle.fixed-point-sum`, for each crowd and each ε. Values are rounded to
# the levels 0, …, `levels`. The protocol would choose the same numbers itself, but its search takes
# long.
LEVELS = ((3, 4, 5), (5, 7, 10), (10, 15, 20))


def errors(name: str, crowd: int, level: int) -> dict[str, float]:
    """The standard error and the number of messages per person. `crowd` is an index of CROWDS, and
    `level` is an index of EPSILONS.
    """
    found = name == "shuffle.fixed-point-sum"
    options = {"levels": LEVELS[crowd][level]} if found else {}
    asked = hc.Mean(0, 1), hc.Budget(EPSILONS[level], DELTA), hc.Crowd(CROWDS[crowd])
    made = hc.protocol(name, *asked, **options)
    return {"error": made.standard_error(), "messages": made.messages_per_user}


def numbers() -> dict[str, Any]:
    return {
        "delta": DELTA,
        "epsilons": EPSILONS,
        "crowds": CROWDS,
        "protocols": [
            {
                "name": name,
                "trust": trust,
                "label": label,
                "cells": [
                    [errors(name, crowd, level) for level in range(len(EPSILONS))]
                    for crowd in range(len(CROWDS))
                ],
            }
            for name, trust, label in PROTOCOLS
        ],
    }
