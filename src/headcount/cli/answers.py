"""Private answers: what is stated about them, and how they are saved and shown."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from headcount.cli.arguments import Confidence
from headcount.cli.output import console, deliver, facts, print_table
from headcount.core import checks
from headcount.core.errors import InvalidParameter
from headcount.core.estimate import Estimate
from headcount.core.guarantee import PLAIN_NEIGHBORS
from headcount.core.postprocessing import STEPS, check_step
from headcount.core.table import counted_people, short
from headcount.core.task import Task
from headcount.data.grouped import GroupedEstimate
from headcount.data.release import Release
from headcount.plot import results

_SPREAD = ("distribution", "quantiles", "median")


@dataclass(frozen=True)
class AnswerOptions:
    """What is stated about an estimate, and where it is saved."""

    confidence: Confidence = 0.95
    sampling: Annotated[
        bool,
        typer.Option(
            "--sampling",
            help="Give the interval for the population that people were sampled from, for a mean, "
            "density, distribution or quantiles. It holds for any distribution of values.",
        ),
    ] = False
    simultaneous: Annotated[
        bool,
        typer.Option(
            "--simultaneous",
            help="Make the confidence level hold for all intervals at once, not for each alone.",
        ),
    ] = False
    postprocess: Annotated[
        str | None, typer.Option(help=f"Post-processing of the estimate: {', '.join(STEPS)}.")
    ] = None
    out: Annotated[
        Path | None,
        typer.Option(
            help="Save the result: .json, .parquet or .html. For a density, distribution or "
            "quantiles also a figure: .png, .svg or .pdf."
        ),
    ] = None

    @property
    def interval(self) -> dict[str, Any]:
        """Which interval is meant."""
        return {
            "confidence": checks.confidence(self.confidence),
            "sampling": self.sampling,
            "simultaneous": self.simultaneous,
        }

    @property
    def drawn(self) -> bool:
        """Whether a figure is saved."""
        return self.out is not None and self.out.suffix.lower() in results.DRAWN

    def check(self, task: Task, group: str | None) -> None:
        """Refuse what does not go with the task, before any data are read."""
        if self.postprocess is not None:
            check_step(self.postprocess, task.name)
        for flag, present, kinds in (
            ("--sampling", self.sampling, ("mean", "density", *_SPREAD)),
            ("--simultaneous", self.simultaneous, ("histogram", "density", *_SPREAD[:2])),
            (f"--out {self.out}", self.drawn, ("density", *_SPREAD)),
        ):
            if present and task.name not in kinds:
                wanted = " or ".join(kinds)
                raise InvalidParameter(f"{flag} must come with a {wanted}, got a {task.name}")
        if self.out is not None:
            results.check_path(self.out)
        if self.drawn and group is not None and task.name not in _SPREAD[1:]:
            raise InvalidParameter(f"a figure must show one group, got --group {group}; try .html")


@dataclass(frozen=True)
class Answer:
    """An estimate that was released, with remarks about its plan and ledger."""

    found: Estimate | GroupedEstimate
    release: Release
    options: AnswerOptions
    remarks: dict[str, str]

    def deliver(self, *, as_json: bool) -> None:
        deliver(
            self._document,
            self._show,
            as_json=as_json,
            out=self.options.out,
            save=lambda place: results.save(self.found, place, **self.options.interval),
            paid=True,
        )

    def _document(self) -> dict[str, Any]:
        promise = self.found.guarantee
        return {
            **self.found.to_dict(**self.options.interval),
            **(facts(self.release.protocols[0]) if isinstance(self.found, Estimate) else {}),
            **({} if promise.secure else {"not_private": promise.warning}),
            **self.remarks,
        }

    def _show(self, saved: Path | None) -> None:
        print_table(self.found.table(**self.options.interval))
        console.print()
        told = (self._run(), self._way(), *self._cost(), *self._explanation())
        for line in (*told, *self._remarks(saved)):
            console.print(line, soft_wrap=True)

    def _run(self) -> str:
        """What was run, and on how many people."""
        crowd = counted_people(self.found.users)
        if not isinstance(self.found, Estimate):
            groups = "1 group" if len(self.found) == 1 else f"{len(self.found):,} groups"
            return f"{self.release.name}, {groups}, {crowd}"
        each = short(self.release.protocols[0].messages_per_user, 4)
        sent = "1 message each" if each == "1" else f"{each} messages each"
        steps = self.found.postprocessing
        marked = f", post-processed: {' and '.join(steps)}" if steps else ""
        return f"{self.release.name}, {crowd}, {sent}{marked}"

    def _way(self) -> str:
        """How the tally was made, in each group if the ways differ."""
        estimates = [self.found] if isinstance(self.found, Estimate) else self.found.values()
        return f"how: {'; '.join(dict.fromkeys(one.way for one in estimates))}"

    def _cost(self) -> Iterator[str]:
        promise = self.found.guarantee
        whole = "" if isinstance(self.found, Estimate) else " for all groups together"
        yield f"spent{whole}: {promise}; {promise.method}"
        if promise.neighbors != PLAIN_NEIGHBORS:
            yield f"protected: {promise.neighbors}"

    def _explanation(self) -> Iterator[str]:
        """Why the estimate is not in its interval, if it is not."""
        if not isinstance(self.found, Estimate):
            return
        if self.found.value not in self.found.interval(**self.options.interval):
            yield (
                "The interval belongs to the unbiased estimate, before post-processing."
                if self.found.postprocessing
                else "The estimate is unbiased, so it can be an impossible value. The interval "
                "contains only possible values."
            )

    def _remarks(self, saved: Path | None) -> Iterator[str]:
        for name, remark in self.remarks.items():
            yield f"{name.replace('_', ' ')}: {remark}"
        if saved is not None:
            yield f"{'figure' if self.options.drawn else 'saved'}: {saved}"
