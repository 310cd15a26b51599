"""The options that describe a task."""

from dataclasses import dataclass
from typing import Annotated

import typer

from headcount.cli.texts import labels_of, whole_number
from headcount.core import checks
from headcount.core.errors import InvalidParameter
from headcount.core.task import TASKS, Count, Density, Histogram, Mean, Sum, Task
from headcount.protocols.registry import protocol_class


def complete_task(incomplete: str) -> list[str]:
    """For the shell: the tasks whose names begin so."""
    return [name for name in TASKS if name.startswith(incomplete)]


TaskName = Annotated[
    str,
    typer.Argument(
        help=f"What to estimate: {', '.join(TASKS)}.",
        metavar="TASK",
        autocompletion=complete_task,
    ),
]
Clamp = Annotated[
    bool,
    typer.Option("--clamp", help="Move values outside --low and --high to the nearest bound."),
]
_BOUNDED = ("sum", "mean", "density")


@dataclass(frozen=True)
class TaskOptions:
    """What a task needs besides its name."""

    buckets: Annotated[
        str | None,
        typer.Option(
            help="Buckets of a histogram: a number d, for the values 0 to d−1, or labels, such as "
            "red,green,blue."
        ),
    ] = None
    open_buckets: Annotated[
        bool,
        typer.Option("--open", help="People may also hold values that are in none of the buckets."),
    ] = False
    low: Annotated[
        float | None, typer.Option(help="Smallest possible value, for a sum, mean or density.")
    ] = None
    high: Annotated[
        float | None, typer.Option(help="Largest possible value, for a sum, mean or density.")
    ] = None
    whole: Annotated[
        bool, typer.Option("--whole", help="All values of a sum or mean are whole numbers.")
    ] = False
    smoothness: Annotated[
        float | None,
        typer.Option(
            help="Smoothness of a density, from 0.1 to 4: how often it can be differentiated. "
            "[default: 1]"
        ),
    ] = None

    def task(self, name: str | None, *, clamp: bool = False) -> Task:
        """The task with this name. Without one, buckets make a histogram, bounds a mean, and
        smoothness a density.
        """
        meant = checks.choice("task", name or self._likely(), list(TASKS))
        self._check_fit(meant, clamp)
        if meant == "count":
            return Count()
        if meant == "histogram":
            return self._histogram()
        low, high = self._bounds(meant)
        if meant == "density":
            smoothness = 1.0 if self.smoothness is None else self.smoothness
            return Density(low, high, smoothness, clamp=clamp)
        return (Sum if meant == "sum" else Mean)(low, high, whole=self.whole, clamp=clamp)

    def task_of(self, protocol: str) -> Task:
        """The task of a protocol. If it answers several and no option tells which, the first."""
        given = (self.buckets, self.low, self.high, self.smoothness)
        if all(one is None for one in given):
            return self.task(protocol_class(protocol).tasks[0].name)
        return self.task(only_task(protocol))

    def _likely(self) -> str:
        if self.buckets is not None:
            return "histogram"
        if self.smoothness is not None:
            return "density"
        return "count" if self.low is None and self.high is None else "mean"

    def _check_fit(self, meant: str, clamp: bool) -> None:
        """Refuse options that belong to other tasks."""
        for flag, present, wanted in (
            ("--buckets", self.buckets is not None, ("histogram",)),
            ("--open", self.open_buckets, ("histogram",)),
            ("--low", self.low is not None, _BOUNDED),
            ("--high", self.high is not None, _BOUNDED),
            ("--whole", self.whole, ("sum", "mean")),
            ("--clamp", clamp, _BOUNDED),
            ("--smoothness", self.smoothness is not None, ("density",)),
        ):
            if present and meant not in wanted:
                kinds = " or ".join(wanted)
                raise InvalidParameter(f"{flag} must come with a {kinds}, got a {meant}")

    def _bounds(self, meant: str) -> tuple[float, float]:
        if self.low is not None and self.high is not None:
            return self.low, self.high
        bounds = {"--low": self.low, "--high": self.high}
        missing = " and ".join(flag for flag, bound in bounds.items() if bound is None)
        raise InvalidParameter(f"a {meant} must have {missing}, got none")

    def _histogram(self) -> Histogram:
        if self.buckets is None:
            raise InvalidParameter("a histogram must have --buckets, got none")
        if self.buckets.strip().isdecimal() and not self.open_buckets:
            return Histogram(whole_number("buckets", self.buckets))
        return Histogram(labels_of("buckets", self.buckets), open=self.open_buckets)


def only_task(protocol: str) -> str | None:
    """The name of the task that a protocol answers, if there is one only."""
    kinds = protocol_class(protocol).tasks
    return kinds[0].name if len(kinds) == 1 else None
