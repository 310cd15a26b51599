"""A lower bound on an error, or the rate of an error, with its value."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from headcount.core import checks
from headcount.core.budget import Trust

Kind: TypeAlias = Literal["lower bound", "rate"]
MessageLimit: TypeAlias = Literal["one", "any"]
# Protocols state only the first of these measures, as their `standard_error`.
Measure: TypeAlias = Literal["standard error", "largest bucket error", "integrated error"]


@dataclass(frozen=True)
class Bound:
    """A statement about the worst-case error of all protocols that meet the `conditions`.

    A "lower bound" is proven with its constants: no protocol has a smaller error. A "rate" is an
    order of magnitude with the constant 1. It says how errors grow, but it is not a bound. A lower
    bound is `tight` if some protocol has an error of that order. A rate is `tight` if a lower bound
    of that order is known. If `messages` is "one", the statement holds only for shuffle protocols
    in which everybody sends one message.

    `measure` says which error `value` is: the root mean squared error of the answer (for a
    histogram, of the worst bucket), the largest error of all buckets at once, or the root of a
    density's mean integrated squared error.
    """

    name: str
    task: str
    trust: Trust
    kind: Kind
    formula: str
    statement: str
    conditions: str
    source: str
    messages: MessageLimit
    measure: Measure
    tight: bool
    value: float

    def to_dict(self) -> dict[str, Any]:
        """The bound as a dictionary for JSON."""
        return {**asdict(self), "trust": str(self.trust)}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> "Bound":
        """The bound that `to_dict` wrote."""
        checks.real("value", document["value"])
        return cls(**{**document, "trust": Trust(document["trust"])})
