"""A mechanism of another library with what it claims, and how it is called many times."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

# So many outputs of a dataset.
Sampler = Callable[[Any, int], Any]


@dataclass(frozen=True)
class Audited:
    """`relation` says how the two datasets of a pair differ; `reason` why a claim is not kept,
    which nobody may be told without.
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
    """As many calls as outputs; rows of an array where outputs are numbers of one length."""

    def sample(dataset: Any, count: int) -> Any:
        return np.array([call(dataset) for _ in range(count)])

    return sample
