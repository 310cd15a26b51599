"""A mechanism of another library with its claim, and a way to call it many times."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

# A function of a dataset and a number n. It returns n outputs.
Sampler = Callable[[Any, int], Any]


@dataclass(frozen=True)
class Audited:
    """A mechanism to audit. `relation` says how the two datasets of a pair differ. `reason` says
    why a claim does not hold, and must be given if the claim is refuted.
    """

    library: str
    mechanism: str
    claim: float
    run: Sampler
    pairs: Sequence[tuple[Any, Any]]
    relation: str = "any two values"
    delta: float = 0.0
    runs: int = 60_000
    reason: str = ""


def each(call: Callable[[Any], Any]) -> Sampler:
    """Call a function once for each output, and collect the outputs in an array."""

    def sample(dataset: Any, count: int) -> Any:
        return np.array([call(dataset) for _ in range(count)])

    return sample
