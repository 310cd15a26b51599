"""Saves an answer as JSON, as a CSV or Parquet table, as an HTML page, or as a figure."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from headcount.core.contrasts.many import Contrasts
from headcount.core.distribution import DistributionEstimate
from headcount.core.errors import InvalidParameter
from headcount.core.estimate import Estimate
from headcount.core.quantiles import QuantilesEstimate
from headcount.core.share_tables import ShareTable
from headcount.core.writing import check_writable, csv_text, json_text, parquet_bytes, write_file
from headcount.data.grouped import GroupedEstimate
from headcount.plot import figures
from headcount.plot.heat_map import can_be_read
from headcount.plot.numbers import numbers_figure
from headcount.plot.page import drawing, page, paragraphs

DRAWN = (".png", ".svg", ".pdf")
_TABLES = (".json", ".csv", ".parquet")


def check_path(path: Path) -> None:
    """Refuse a path that a result cannot be saved to, before any work is done."""
    if path.suffix.lower() in _TABLES:
        check_writable(path)
    elif path.suffix.lower() in figures.FORMATS:
        figures.check_path(path)
    else:
        kinds = ", ".join(dict.fromkeys((*_TABLES, ".html", *DRAWN)))
        raise InvalidParameter(f"the file name of a result must end in {kinds}, got {path.name!r}")


def save(
    result: Estimate | GroupedEstimate,
    path: Path,
    confidence: float,
    *,
    sampling: bool = False,
    simultaneous: bool = False,
    contrasts: Contrasts | None = None,
    shares: ShareTable | None = None,
    asked: str = "",
    charge: Mapping[str, Any] | None = None,
) -> None:
    """Write a result to a file. The file extension determines the format. JSON, Parquet and HTML
    files also have `contrasts` and `shares`, if they are given. JSON and Parquet files also have
    `charge`, which identifies the ledger's entry. HTML pages also have `asked`, a sentence about
    the question and the data.
    """
    check_path(path)
    kind = {"sampling": sampling, "simultaneous": simultaneous}
    ending = path.suffix.lower()
    if ending in DRAWN:
        figures.save(figure(result, confidence, **kind), path)
        return
    more = {} if contrasts is None else contrasts.to_dict(confidence)
    more |= {} if shares is None else shares.to_dict()
    more |= {} if charge is None else {"charge": charge}
    if ending == ".json":
        write_file(path, json_text({**result.to_dict(confidence, **kind), **more}) + "\n")
    elif ending == ".html":
        write_file(path, _page(result, confidence, kind, contrasts, shares, asked))
    elif ending == ".csv":
        write_file(path, csv_text(result.records(confidence, **kind)))
    else:
        write_file(path, _parquet(result, confidence, kind, more))


def _estimates(result: Estimate | GroupedEstimate) -> list[tuple[Any, Estimate]]:
    return [(None, result)] if isinstance(result, Estimate) else [*result.items()]


def _parquet(
    result: Estimate | GroupedEstimate,
    confidence: float,
    kind: dict[str, bool],
    more: dict[str, Any],
) -> bytes:
    """A Parquet table with a row for each number. Its metadata has the guarantee and `more`."""
    about = {
        "task": result.task,
        "confidence": confidence,
        **{name: chosen for name, chosen in kind.items() if chosen},
        "guarantee": result.guarantee.to_dict(),
        **more,
    }
    return parquet_bytes(result.records(confidence, **kind), about)


def _page(
    result: Estimate | GroupedEstimate,
    confidence: float,
    kind: dict[str, bool],
    contrasts: Contrasts | None,
    shares: ShareTable | None,
    asked: str,
) -> str:
    table = replace(result.table(confidence, **kind), title="").html()
    promised = f"<h2>What is promised</h2>\n{result.guarantee.table().html()}"
    if _read(result):
        drawn = [drawing(figure(result, confidence, **kind), "")]
    else:
        drawn = [
            drawing(_figure(estimate, confidence, kind), "" if group is None else str(group))
            for group, estimate in _estimates(result)
            if estimate.buckets is not None
        ]
    shown = [] if shares is None else ["<h2>Shares</h2>", shares.table().html()]
    compared = []
    if contrasts is not None:
        forest = drawing(figures.contrast_figure(contrasts, confidence))
        compared = ["<h2>Comparisons</h2>", contrasts.table(confidence).html(), forest]
    return page(
        _title(result), "\n".join([paragraphs(asked), table, *drawn, *shown, *compared, promised])
    )


def _title(result: Estimate | GroupedEstimate) -> str:
    """The question, the columns and the number of people, as the title of a page."""
    columns = " and ".join(_estimates(result)[0][1].column_names)
    by = "" if isinstance(result, Estimate) else f" by {result.group}"
    return f"{result.task.capitalize()}{f' of {columns}' * bool(columns)}{by}, {result.crowd}"


def _figure(estimate: Estimate, confidence: float, kind: dict[str, bool]) -> figures.Figure:
    if isinstance(estimate, DistributionEstimate):
        return figures.distribution_figure(estimate, confidence, **kind)
    draw = figures.density_figure if estimate.uses.curve else figures.histogram_figure
    if can_be_read(estimate):
        draw = figures.table_figure
    return draw(estimate, confidence, **kind)


def _read(result: Estimate | GroupedEstimate) -> bool:
    """Whether the result has quantiles. One figure shows the quantiles of all groups."""
    return all(isinstance(estimate, QuantilesEstimate) for _, estimate in _estimates(result))


def figure(
    result: Estimate | GroupedEstimate,
    confidence: float = 0.95,
    *,
    sampling: bool = False,
    simultaneous: bool = False,
) -> figures.Figure:
    """The figure of a result. One figure shows all groups if each group has a single number, or if
    each has quantiles. Other results with groups are refused.
    """
    kind = {"sampling": sampling, "simultaneous": simultaneous}
    group = "" if isinstance(result, Estimate) else result.group
    every = dict(_estimates(result))
    if _read(result):
        return figures.quantiles_figure(every, confidence, group=group, **kind)
    if all(estimate.buckets is None for estimate in every.values()):
        return numbers_figure(every, confidence, group=group, **kind)
    if not isinstance(result, Estimate):
        raise InvalidParameter("a figure must show one estimate, got several groups")
    return _figure(result, confidence, kind)
