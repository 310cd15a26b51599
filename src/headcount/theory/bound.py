"""One thing that is known about an error, evaluated."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from headcount.core import checks
from headcount.core.budget import Trust

Kind: TypeAlias = Literal["lower bound", "rate"]
MessageLimit: TypeAlias = Literal["one", "any"]
# Only the first is what a protocol's `standard_error` states.
Measure: TypeAlias = Literal["standard error", "largest bucket error", "integrated error"]


@dataclass(frozen=True)
class Bound:
    """What is known about the worst-case error of every protocol within the conditions.

    A "lower bound" is proven with its constants: no such protocol has a smaller error. A "rate" is
    an order of magnitude with the constant 1, which tells how errors grow and bounds nothing.
    `tight` says that the other side is known too: protocols of that order for a lower bound, a
    lower bound of that order for a rate. `messages` is "one" where it holds only for shuffled
    protocols in which everybody sends one message.

    `measure` is what `value` is the size of: the root mean squared error of the answer (of a
    histogram, in the worst bucket), the largest error of all buckets at once, or the root of a
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
        """The bound for JSON."""
        return {**asdict(self), "trust": str(self.trust)}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> "Bound":
        """What `to_dict` wrote."""
        checks.real("value", document["value"])
        return cls(**{**document, "trust": Trust(document["trust"])})
