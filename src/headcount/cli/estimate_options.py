"""The options of `headcount estimate` that describe the data, and checks of all its options."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from headcount.cli.task_options import TaskOptions, takes
from headcount.cli.texts import labels_of, listed, number_of
from headcount.cli.usage import check_matters
from headcount.core import checks
from headcount.core.errors import InvalidParameter
from headcount.core.task import Task
from headcount.core.tasks.table import sides_of
from headcount.core.writing import check_apart
from headcount.data.folders import belongs_to
from headcount.data.queries import files_named
from headcount.data.reading import Reading
from headcount.data.several_columns import cleaning_of

_NOT_OF_BINS = (
    "--buckets", "--open", "--labels", "--at-most", "--rows", "--columns", "--low", "--high",
    "--whole", "--clamp", "--smoothness", "--at", "--cells",
)  # fmt: skip
_IN_PLAN = (
    "--task", "--epsilon", "--delta", *_NOT_OF_BINS, "--bins", "--period", "--trust", "--honest",
    "--calibration", "--option",
)  # fmt: skip


@dataclass(frozen=True)
class DataOptions:
    """The options that say where people's values are, and how the values are cleaned."""

    path: Annotated[
        Path | None,
        typer.Argument(
            help="A .csv, .parquet, .jsonl, .xlsx or .feather file, a folder of such files, or a "
            "pattern in quotes, with one row for each person. Leave this out if you give --query."
        ),
    ] = None
    column: Annotated[
        str | None,
        typer.Option(
            help="Column of people's values. May be left out if a query has only one column. With "
            "--task table, give two columns, such as region,smoker. With --task boxes, give a "
            "column of 0 and 1 for each box, or one column of labels such as tea;milk."
        ),
    ] = None
    table: Annotated[
        str | None,
        typer.Option(
            help="Two columns of a two-way table, such as region,sex, instead of --column. Their "
            "labels come from --rows and --columns, or from --dictionary."
        ),
    ] = None
    dictionary: Annotated[
        Path | None,
        typer.Option(
            help="Data dictionary with the labels of columns: .toml or .json with a list for each "
            "column, or .csv with the columns column and label. Labels are never taken from the "
            "data, since they would not be private."
        ),
    ] = None
    query: Annotated[
        str | None,
        typer.Option(
            help="Query for DuckDB instead of a file, such as SELECT smoker FROM 'people.csv'."
        ),
    ] = None
    bins: Annotated[
        str | None,
        typer.Option(help="Edges of buckets, for a histogram of numbers, such as 0,18,30,65,120."),
    ] = None
    period: Annotated[
        str | None,
        typer.Option(
            help="Buckets of dates, for a histogram: year, quarter, month, week or day, with "
            "--bins for the first and the last day, such as 2024-01-01,2024-12-31; or weekday or "
            "hour."
        ),
    ] = None
    missing: Annotated[
        str,
        typer.Option(
            help="What to do about people without a value: error, drop (then the answer does not "
            "hide who has no value), bucket (count them in one more bucket), or a value to fill in."
        ),
    ] = "error"
    outside: Annotated[
        str,
        typer.Option(
            help="What to do about values that the task does not allow: error, clamp (to the "
            "nearest bound or bin), or other (count them in one more bucket)."
        ),
    ] = "error"
    person: Annotated[
        str | None,
        typer.Option(
            help="Column that identifies the person of each row. [default: each row is one person]"
        ),
    ] = None
    rows_per_person: Annotated[
        int,
        typer.Option(
            help="Maximum number of rows that are used for each person. They are chosen at random."
        ),
    ] = 1
    group: Annotated[
        str | None,
        typer.Option(
            help="Column of groups, or several, such as region,sex. The statistic is estimated for "
            "each group. The names and sizes of groups are not protected."
        ),
    ] = None
    groups: Annotated[
        str | None,
        typer.Option(
            help="Names of the groups, such as north,south. [default: all groups in the data]"
        ),
    ] = None

    @property
    def place(self) -> str:
        """Where people's values are: the name of a file or folder, or a query."""
        return self.path.name if self.path is not None else str(self.query)

    @property
    def _column(self) -> str | None:
        return self.column if self.table is None else self.table

    def labels(self, question: TaskOptions, name: str | None) -> dict[str, list[Any]]:
        """The labels that the task `name` needs, from the data dictionary. The result is empty if
        there is no dictionary.
        """
        if self.table is not None and len(listed(self.table)) != 2:
            raise InvalidParameter(f"--table must be two columns, got {checks.shown(self.table)}")
        if self.dictionary is None:
            if self.table is not None and (question.rows is None or question.columns is None):
                raise InvalidParameter(
                    "--table must come with the labels of both columns, got none",
                    hint="give --rows and --columns, or --dictionary",
                )
            return {}
        from headcount.data.dictionary import DataDictionary

        found = DataDictionary(self.dictionary)
        columns = listed(self._column or "")
        if len(columns) == 2:
            return dict(zip(("rows", "columns"), map(found.labels, columns), strict=True))
        fits = name is None or takes(name, "buckets")
        if not fits or question.asks or self.column is None:
            raise InvalidParameter(
                "--dictionary must come with --table, or with a histogram without --buckets, got "
                f"{'another task' if name is None else checks.a_task(name)}"
            )
        return {"buckets": found.labels(self.column)}

    def task(self, given: Task | None, reading: Reading) -> Task:
        """The task after cleaning: bins make a histogram, and `missing` and `outside` may each add
        a bucket.
        """
        settings = self._cleaning(given, reading)
        return cleaning_of(self._named(given) or "", given, **settings, reading=reading).task

    def arguments(self, given: Task | None, reading: Reading) -> dict[str, Any]:
        """The arguments of `data.estimate.prepare` that describe the data."""
        return {
            "query": self.query,
            "column": self._named(given),
            **self._cleaning(given, reading),
            "period": self.period,
            "person": self.person,
            "rows_per_person": self.rows_per_person,
            "group": listed(self.group) if self.group and "," in self.group else self.group,
            "groups": None if self.groups is None else labels_of("groups", self.groups),
        }

    def _named(self, given: Task | None) -> str | list[str] | None:
        """The name of the column, or a list of names: two for a table, or one for each box.

        A table may also have a single column, with the names of cells. Boxes may also have a single
        column, with the labels of all boxes that a person ticked.
        """
        boxes = given is not None and given.value_kind == "collections"
        several = boxes or sides_of(given) is not None
        if self._column is None or not several or "," not in self._column:
            return self._column
        return listed(self._column)

    def _cleaning(self, given: Task | None, reading: Reading) -> dict[str, Any]:
        edges: list[Any] | None = None
        if self.bins is not None:
            edges = listed(self.bins)
            if reading.period is None:
                edges = [number_of("bins", edge) for edge in edges]
        return {"missing": self._fill(given, reading), "outside": self.outside, "bins": edges}

    def _fill(self, given: Task | None, reading: Reading) -> str | float:
        """The value of `--missing`: error, drop, bucket, a word, a date, or a number."""
        kind = "whole numbers" if given is None else given.value_kind
        ticks = kind == "collections" and isinstance(self._named(given), list)
        words = bool(reading.yes) or not (ticks or kind.endswith("numbers"))
        kept = words or self.missing in ("error", "drop", "bucket")
        return self.missing if kept else number_of("missing", self.missing)

    def check_apart(self, out: Path, plan: Path | None, ledger: str | None) -> None:
        """Refuse an output that is an input file, or that the next run would read as data."""
        check_apart(
            out,
            {
                "the plan": [] if plan is None else [plan],
                "the ledger": [] if ledger is None else [Path(ledger)],
                "the data of the query": [] if self.query is None else files_named(self.query),
            },
        )
        if self.path is not None and belongs_to(out, self.path):
            raise InvalidParameter(
                f"--out must not be a file of the data at {str(self.path)!r}, got {str(out)!r}"
            )


def check_usage(given: dict[str, Any]) -> None:
    """Refuse options that contradict each other, or that would have no effect."""
    if ("path" in given) == ("--query" in given):
        raise typer.BadParameter("either a file or --query must be given, but not both")
    if "path" in given and "--column" not in given and "--table" not in given:
        raise typer.BadParameter("--column or --table must be given with a file")
    if ("--seed" in given) != ("--not-private" in given):
        raise InvalidParameter(
            "--seed and --not-private must come together: anyone who knows the seed can remove "
            "the noise"
        )
    bins = "--bins" in given or "--period" in given
    task = given.get("--task", "histogram")
    paired = "--table" in given
    check_matters(
        given,
        [
            ("--plan" not in given, _IN_PLAN, "come without --plan"),
            (not bins, _NOT_OF_BINS, "come without --bins"),
            (not bins or task == "histogram", ["--task"], "be a histogram with --bins"),
            (not paired, ["--column", "--bins", "--period"], "come without --table"),
            (
                not bins and "--plan" not in given,
                ["--dictionary"],
                "come without --bins and --plan",
            ),
            ("--person" in given, ["--rows-per-person"], "come with --person"),
            ("--group" in given, ["--groups", "--contrast"], "come with --group"),
            ("--ledger" in given, ["--dataset", "--once"], "come with a ledger"),
            (
                "--seed" not in given,
                ["--ledger"],
                "come without --seed (seeded noise protects nobody)",
            ),
        ],
    )
