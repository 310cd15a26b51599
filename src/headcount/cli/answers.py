"""Private answers on the command line: which facts are shown with them, and how they are saved."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headcount.cli.arguments import Confidence
from headcount.cli.output import console, deliver, facts, print_table
from headcount.cli.share_options import ShareOptions
from headcount.core import checks
from headcount.core.cached import cached_property
from headcount.core.errors import InvalidParameter
from headcount.core.estimate import Estimate
from headcount.core.guarantee import PLAIN_NEIGHBORS
from headcount.core.postprocessing import STEPS, check_step
from headcount.core.table import short
from headcount.core.task import Task
from headcount.core.tasks.registry import tasks_with
from headcount.data.estimate import Prepared
from headcount.data.grouped import GroupedEstimate
from headcount.data.release import Release
from headcount.road.people import Group

if TYPE_CHECKING:
    from headcount.core.contrasts.many import Contrasts
    from headcount.core.share_tables import ShareTable


@dataclass(frozen=True)
class AnswerOptions:
    """The options for the intervals and comparisons of an estimate, and for its output file."""

    confidence: Confidence = 0.95
    sampling: Annotated[
        bool,
        typer.Option(
            "--sampling",
            help="Give the interval for the population from which people were sampled. For a count "
            "or a bucket, the interval is for the population's share, multiplied by the number of "
            "people in the table. With more than 2,000 buckets, it is approximate.",
        ),
    ] = False
    simultaneous: Annotated[
        bool,
        typer.Option(
            "--simultaneous",
            help="Make the confidence level hold for all intervals at once, not only for each one.",
        ),
    ] = False
    postprocess: Annotated[
        str | None, typer.Option(help=f"Post-processing of the estimate: {', '.join(STEPS)}.")
    ] = None
    contrast: Annotated[
        list[str] | None,
        typer.Option(
            help="Two groups to compare, such as north,south: the difference of their shares or "
            "means, with intervals and p-values. Can be given several times; p-values are then "
            "corrected for the number of comparisons."
        ),
    ] = None
    out: Annotated[
        Path | None,
        typer.Option(
            help="Save the result: .json, .csv, .parquet or .html. For a density, distribution, "
            "quantiles or table, .png, .svg or .pdf saves a figure."
        ),
    ] = None

    @property
    def drawn(self) -> bool:
        """Whether a figure is saved."""
        if self.out is None:
            return False
        from headcount.plot import results

        return self.out.suffix.lower() in results.DRAWN

    def check(self, task: Task, group: str | None, *, shares: bool) -> None:
        """Refuse options that do not fit the task, before any data are read."""
        if self.postprocess is not None:
            check_step(self.postprocess, task.name)
        for flag, present, use in (
            ("--contrast", bool(self.contrast), "comparison"),
            ("--sampling", self.sampling and not shares, "sampling"),
            ("--simultaneous", self.simultaneous, "simultaneous"),
            (f"--out {self.out}", self.drawn, "figure"),
        ):
            if present and not getattr(task.uses, use):
                wanted = checks.a_task(" or ".join(tasks_with(use)))
                given = checks.a_task(task.name)
                raise InvalidParameter(f"{flag} must come with {wanted}, got {given}")
        if self.out is not None:
            from headcount.plot import results

            results.check_path(self.out)
            if self.out.suffix.lower() == ".csv":
                for flag, present in (
                    ("--contrast", bool(self.contrast)),
                    ("--within or --among", shares),
                ):
                    if present:
                        raise InvalidParameter(
                            f"--out must end in .json, .parquet or .html with {flag}, "
                            f"got {self.out.name!r}",
                            hint=f"a .csv file has no columns for {flag}",
                        )
        if self.drawn and group is not None and task.uses.figure != "all groups":
            raise InvalidParameter(f"a figure must show one group, got --group {group}; try .html")

    def pairs(self, ready: Prepared) -> list[tuple[Group, Group]]:
        """The pairs of groups that --contrast compares. A pair that cannot be compared is refused
        here, before the release is charged.

        Names of groups are matched as text, since groups in a table may be numbers.
        """
        known = {str(group): group for group in ready.groups}
        found = []
        for text in self.contrast or []:
            names = [name.strip() for name in text.split(",")]
            if len(names) != 2 or names[0] == names[1]:
                raise InvalidParameter(
                    "--contrast must name two groups, such as north,south, got "
                    f"{checks.shown(text)}"
                )
            for name in names:
                if name not in known:
                    raise InvalidParameter(
                        f"--contrast must name groups of {checks.few([*known])}, "
                        f"got {checks.shown(name)}"
                    )
            found.append((known[names[0]], known[names[1]]))
        withholding = [one for one in ready.release.protocols if one.shuffler.withholds]
        if found and withholding:
            raise InvalidParameter(
                f"--contrast must come with unbiased estimates, got {withholding[0].name}, which "
                "withholds rare values"
            )
        return found


@dataclass(frozen=True)
class Answer:
    """An estimate that was released, with a remark about its plan, and the ledger's entry."""

    found: Estimate | GroupedEstimate
    release: Release
    options: AnswerOptions
    share_options: ShareOptions
    remarks: dict[str, str]
    data: str  # the name of the file, or the query
    compared: "Contrasts | None" = None
    charge: dict[str, Any] | None = None

    @property
    def _interval(self) -> dict[str, Any]:
        """The kind of interval. If shares are shown, `--sampling` applies only to the shares."""
        return {
            "confidence": checks.confidence(self.options.confidence),
            "sampling": self.options.sampling and not self.share_options.wanted,
            "simultaneous": self.options.simultaneous,
        }

    @cached_property
    def _shares(self) -> "ShareTable | None":
        if not isinstance(self.found, Estimate):
            return None
        options = self.options
        return self.share_options.of(self.found, options.confidence, sampling=options.sampling)

    def deliver(self, *, as_json: bool) -> None:
        deliver(
            self._document,
            self._show,
            as_json=as_json,
            out=self.options.out,
            save=self._save,
            paid=True,
        )

    def _save(self, place: Path) -> None:
        from headcount.plot import results

        results.save(
            self.found, place, **self._interval, contrasts=self.compared, shares=self._shares,
            asked=f"Question: {self.release.task}, from the data in {self.data}.",
            charge=self.charge,
        )  # fmt: skip

    def _document(self) -> dict[str, Any]:
        promise = self.found.guarantee
        return {
            **self.found.to_dict(**self._interval),
            **({} if self.compared is None else self.compared.to_dict(self.options.confidence)),
            **({} if self._shares is None else self._shares.to_dict()),
            **(facts(self.release.protocols[0]) if isinstance(self.found, Estimate) else {}),
            **({} if promise.secure else {"not_private": promise.warning}),
            **self.remarks,
            **({} if self.charge is None else {"charge": self.charge}),
        }

    def _show(self, saved: Path | None) -> None:
        print_table(self.found.table(**self._interval))
        console.print()
        if self._shares is not None:
            print_table(self._shares.table())
            console.print()
        if self.compared is not None:
            print_table(self.compared.table(self.options.confidence))
            console.print()
        told = (self._run(), self._way(), *self._cost(), *self._explanation())
        for line in (*told, *self._remarks(saved)):
            console.print(line, soft_wrap=True)

    def _run(self) -> str:
        """The protocol that was run, and the number of people and messages."""
        crowd = self.found.crowd
        if not isinstance(self.found, Estimate):
            groups = "1 group" if len(self.found) == 1 else f"{len(self.found):,} groups"
            return f"{self.release.name}, {groups}, {crowd}"
        each = short(self.release.protocols[0].messages_per_user, 4)
        sent = "1 message each" if each == "1" else f"{each} messages each"
        steps = self.found.postprocessing
        marked = f", post-processed: {' and '.join(steps)}" if steps else ""
        return f"{self.release.name}, {crowd}, {sent}{marked}"

    def _way(self) -> str:
        """How the tally was made. All ways are named if they differ between groups."""
        estimates = [self.found] if isinstance(self.found, Estimate) else self.found.values()
        return f"how: {'; '.join(dict.fromkeys(one.way for one in estimates))}"

    def _cost(self) -> Iterator[str]:
        promise = self.found.guarantee
        whole = "" if isinstance(self.found, Estimate) else " for all groups together"
        yield f"spent{whole}: {promise}; {promise.method}"
        if promise.neighbors != PLAIN_NEIGHBORS:
            yield f"protected: {promise.neighbors}"

    def _explanation(self) -> Iterator[str]:
        """An explanation if the estimate is outside its interval, or else nothing."""
        if not isinstance(self.found, Estimate):
            return
        if self.found.value not in self.found.interval(**self._interval):
            yield (
                "The interval belongs to the unbiased estimate, before post-processing."
                if self.found.postprocessing
                else "The estimate is unbiased, so it can be an impossible value. The interval "
                "contains only possible values."
            )

    def _remarks(self, saved: Path | None) -> Iterator[str]:
        for name, remark in self.remarks.items():
            yield f"{name.replace('_', ' ')}: {remark}"
        if self.charge is not None:
            yield "recorded in: {ledger}, entry {entry} of dataset {dataset!r}".format(
                **self.charge
            )
        if saved is not None:
            yield f"{'figure' if self.options.drawn else 'saved'}: {saved}"
