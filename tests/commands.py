"""How tests call the command line."""

from collections.abc import Callable
from typing import NamedTuple


class Outcome(NamedTuple):
    status: int
    out: str
    err: str


Headcount = Callable[..., Outcome]
