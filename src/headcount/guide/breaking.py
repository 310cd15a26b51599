"""Part 8, break it: what is left of a guarantee if something that it relies on is missing.

Most breakages begin with the same claim: a count of PEOPLE people has the guarantee CLAIM. For each
breakage, the numbers show what is left of the claim, and quote what the library says or why it
refuses.
"""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import headcount as hc
from headcount.accounting.amplification import BinaryResponse
from headcount.accounting.composition import compose_laws
from headcount.accounting.dominating import STEP, DominatingLaw
from headcount.collect.device import device_data
from headcount.core.errors import HeadcountError
from headcount.survey.kept import shown_changes

CLAIM = hc.Budget(1, 1e-6)
PEOPLE = 10_000
MIXED = "shuffle.randomized-response"

# Collusion: the protocols that people run, with a description in words.
RUN = {
    MIXED: "Randomized response, mixed",
    "shuffle.zero-exact": "Zero-exact count, mixed",
    "shuffle.noisy-shuffler": "Bare answers, and a shuffler that adds the noise",
    "local.randomized-response": "Randomized response, not mixed",
}
CROWDS = (100, 300, 1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000)

# Honesty and small crowds: how many of PEOPLE people are honest, and how many people came instead.
HONEST = (10_000, 9000, 8000, 7000, 6000, 5000, 4000, 3000, 2000, 1000, 500, 200, 100)
CAME = (10, 20, 50, 80, 100, 200, 500, 1000, 2000, 5000, 10_000)

# Waves.
EACH = 0.1  # the ε of a wave with new noise
WAVES = (1, 2, 3, 5, 7, 10, 12, 20, 26, 52, 104, 200, 365)
PANEL = 100_000  # the people of a survey with several waves

# Floats.
RUNS = 20_000


def numbers() -> dict[str, Any]:
    return {
        "epsilon": CLAIM.epsilon,
        "delta": CLAIM.delta,
        "people": PEOPLE,
        "collusion": _collusion(),
        "honesty": _honesty(),
        "waves": _waves(),
        "small": _small(),
        "floats": _floats(),
    }


def _count(name: str, crowd: hc.Crowd, budget: hc.Budget = CLAIM) -> hc.Protocol:
    return hc.protocol(name, hc.Count(), budget, crowd)


def _said(attempt: Callable[[], Any]) -> str | None:
    """What the library says if it refuses, or None if it does not."""
    try:
        attempt()
    except HeadcountError as refusal:
        return f"{type(refusal).__name__}: {refusal}"
    return None


# The shuffler colludes ------------------------------------------------------------------------


def _collusion() -> dict[str, Any]:
    return {
        "protocols": [_alone(name, label) for name, label in RUN.items()],
        "by_people": [[n, _count(MIXED, hc.Crowd(n)).local_epsilon] for n in CROWDS],
    }


def _alone(name: str, label: str) -> dict[str, Any]:
    """What one person's messages show to somebody who knows who sent them."""
    protocol = _count(name, hc.Crowd(PEOPLE))
    no, yes = protocol.law(0), protocol.law(1)
    assert no is not None
    assert yes is not None
    left = protocol.local_epsilon
    return {
        "name": name,
        "label": label,
        "device": device_data(protocol),
        "slots": protocol.slots,
        "promised": str(protocol.guarantee),
        "relies_on": protocol.guarantee.relies_on,
        "left": left if np.isfinite(left) else None,
        # The chance that the best guess is right, if no and yes are equally likely.
        "right": float(sum(max(no.get(bag, 0), yes.get(bag, 0)) for bag in {**no, **yes}) / 2),
    }


# Nine of ten lie, or the crowd is too small -----------------------------------------------------


def _hidden_in(people: int) -> dict[str, Any]:
    """What is left of the claim if only this many people add noise, instead of PEOPLE."""
    crowd, alone = BinaryResponse(people), _count(MIXED, hc.Crowd(PEOPLE)).local_epsilon
    return {
        "people": people,
        "epsilon": crowd.epsilon(alone, CLAIM.delta),
        "delta": crowd.delta(alone, CLAIM.epsilon),
    }


def _honesty() -> dict[str, Any]:
    built = _count(MIXED, hc.Crowd(PEOPLE))
    everybody = np.zeros(PEOPLE, dtype=np.int64)
    instructions = device_data(built)
    assert instructions is not None
    return {
        "weight": instructions["weight"],
        "noise": built.parameters["lambda"],
        "standard_error": built.standard_error(),
        "rows": [
            {
                **_hidden_in(honest),
                "refusal": _said(partial(hc.estimate, everybody, protocol=built, honest=honest)),
                "repaired": _count(MIXED, hc.Crowd(PEOPLE, honest)).standard_error(),
            }
            for honest in HONEST
        ],
    }


def _small() -> dict[str, Any]:
    built = _count(MIXED, hc.Crowd(PEOPLE))
    return {
        "rows": [
            {
                **_hidden_in(came),
                "refusal": _said(partial(hc.run, built, np.zeros(came), hc.SeededSource(1))),
                "repaired": _count(MIXED, hc.Crowd(came)).standard_error(),
                "local": _count("local.randomized-response", hc.Crowd(came)).standard_error(),
                "other": _said(partial(_count, "shuffle.zero-exact", hc.Crowd(came))),
            }
            for came in CAME
        ],
    }


# The same person is asked every day -------------------------------------------------------------


def _waves() -> dict[str, Any]:
    alone = hc.Crowd(1)
    fresh = _count("local.randomized-response", alone, hc.Budget(EACH))
    mixed = hc.protocol(
        "shuffle.fake-users", hc.Histogram(["no", "yes"]), hc.Budget(EACH, CLAIM.delta),
        hc.Crowd(PEOPLE),
    )  # fmt: skip
    kept = _panel(52, keep=True)
    repeated = _count("local.randomized-response", alone, hc.Budget(CLAIM.epsilon))
    return {
        "each": EACH,
        "delta": CLAIM.delta,
        "device": device_data(fresh),
        "rows": _composed(fresh, mixed),
        "ledger": _ledger(),
        "panel": PANEL,
        "kept": {
            "epsilon": kept.guarantee.epsilon,
            "device": device_data(repeated),
            "right": 1 - repeated.parameters["lie_probability"],
            "margin": kept.plan().worst_margin,
            "shown": shown_changes(kept.design),
            "not_hidden": list(kept.plan().not_hidden),
            "shuffled": _said(lambda: _panel(52, keep=True, trust=hc.Trust.SHUFFLE)),
        },
    }


def _panel(waves: int, *, keep: bool, trust: hc.Trust = hc.Trust.LOCAL) -> hc.Survey:
    """A survey whose budget is for all waves together."""
    return hc.Survey(
        [hc.YesNo("smoke", "Do you smoke?")], budget=hc.Budget(CLAIM.epsilon), trust=trust,
        least_people=PANEL, waves=waves, keep_answers=keep,
    )  # fmt: skip


def _composed(fresh: hc.Protocol, mixed: hc.Protocol) -> list[dict[str, Any]]:
    """The joint privacy loss of several waves with new noise, and the margin for a joint ε of 1."""
    one, other = (DominatingLaw.of(protocol.curve, STEP) for protocol in (fresh, mixed))
    joint = {times: compose_laws([(one, times)]) for times in WAVES}
    return [
        {
            "waves": times,
            "sum": times * EACH,
            "epsilon": joint[times].epsilon(CLAIM.delta),
            "mixed": compose_laws([(other, times)]).epsilon(CLAIM.delta),
            # No guess about a fair coin is right with a probability above (1 + δ(0))/2.
            "right": (1 + joint[times].delta(0.0)) / 2,
            "margin": _panel(times, keep=False).plan().worst_margin,
        }
        for times in WAVES
    ]


def _ledger() -> dict[str, Any]:
    """How many days a ledger pays for, and what it says on the next day."""

    def asked(ledger: hc.Ledger) -> hc.Estimate:
        return hc.estimate(
            [0, 1], hc.Count(), protocol="local.randomized-response", trust="local",
            budget=hc.Budget(EACH), ledger=ledger, dataset="panel",
        )  # fmt: skip

    with tempfile.TemporaryDirectory() as folder:
        ledger = hc.Ledger.create(Path(folder) / "ledger.db")
        ledger.create_dataset("panel", CLAIM)
        days = 0
        while (refusal := _said(lambda: asked(ledger))) is None:
            days += 1
    return {"days": days, "refusal": refusal}


# A float leaks its last bits ----------------------------------------------------------------------


def _floats() -> dict[str, Any]:
    generator = np.random.default_rng(1)

    def noisy_count(bits: list[int]) -> float:
        return sum(bits) + float(generator.laplace(0, 1 / CLAIM.epsilon))

    found = hc.audit(noisy_count, [([0], [1])], claim=CLAIM.epsilon, runs=RUNS)
    assert found.refuted
    safe = hc.protocol("central.geometric", hc.Count(), hc.Budget(CLAIM.epsilon), hc.Crowd(1000))
    table = found.table()
    measured = dict(zip(table.columns, table.rows[0], strict=True))["measured ε, at least"]
    return {
        "runs": found.runs,
        "audit": [table.title, f"measured ε, at least {measured}", *table.notes],
        "promised": str(safe.guarantee),
    }
