"""What the driver of Spark sends to executors, without Spark."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

import headcount as hc
from conformance import small_tasks


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name.endswith("-sum") else [])
        for name in hc.protocol_names()
    ],
)
def test_protocols_travel_calibrated(name: str) -> None:
    task = next(task for task in small_tasks() if name in hc.protocol_names(task))
    protocol = hc.protocol(name, task, hc.Budget(1, 1e-4), hc.Crowd(400))
    # With all that was computed.
    _ = protocol.guarantee, protocol.curve, protocol.bundled_guarantee
    copy = pickle.loads(pickle.dumps(protocol))
    assert copy == protocol
    known = set(vars(protocol)) - {"curve", "guarantee", "bundled_guarantee"}
    assert set(vars(copy)) == known  # nothing is computed again
    one, other = (p.randomize([0, 1] * 50, hc.SeededSource(1)).payload for p in (protocol, copy))
    assert np.array_equal(one, other)
    assert copy.guarantee == protocol.guarantee


def test_seeds_travel() -> None:
    seed = hc.SeededSource(9).part(3)
    copy = pickle.loads(pickle.dumps(seed))
    assert np.array_equal(seed.part(1).integers(9, np.uint64), copy.part(1).integers(9, np.uint64))


def test_nothing_of_spark_is_loaded_before_it_is_used() -> None:
    code = (
        "import sys, headcount as hc; import headcount.data.spark; "
        "hc.estimate([0, 1], hc.Count(), budget=hc.Budget(1)); "
        "print([name for name in sys.modules if name.partition('.')[0] in ('pyspark', 'py4j')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
