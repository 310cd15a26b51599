"""The options that describe a protocol."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from headcount.cli.arguments import Honest
from headcount.cli.texts import options_of
from headcount.core.budget import Budget, Crowd
from headcount.core.errors import InvalidParameter
from headcount.core.protocol import Protocol
from headcount.core.task import Task
from headcount.protocols.registry import protocol, protocol_names


def complete_protocol(incomplete: str) -> list[str]:
    """The protocols whose names begin with this text, for shell completion. In a list, only the
    last name is completed.
    """
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in protocol_names() if name.startswith(last)]


@dataclass(frozen=True)
class ProtocolOptions:
    """The options that say how a protocol is calibrated."""

    honest: Honest = None
    calibration: Annotated[
        str | None,
        typer.Option(
            help="How the noise is calibrated: exact computes the privacy loss, paper uses the "
            "published formula. [default: exact]"
        ),
    ] = None
    option: Annotated[
        list[str] | None,
        typer.Option(
            help="Option of the protocol, as NAME=VALUE, such as error_ratio=1.02, rate=0.1 or "
            "levels=8. A wrong name shows a list of all names. May be repeated."
        ),
    ] = None

    def named(self) -> dict[str, Any]:
        """The protocol's own options by name. Options that were not given are left out."""
        options = options_of(self.option)
        if self.calibration is not None:
            if "calibration" in options:
                raise InvalidParameter("`calibration` must be given only once, got it twice")
            options["calibration"] = self.calibration
        return options

    def protocol(self, name: str, task: Task, budget: Budget, users: int) -> Protocol:
        return protocol(name, task, budget, Crowd(users, self.honest), **self.named())
