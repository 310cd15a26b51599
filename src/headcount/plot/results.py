"""Answers as files: JSON, a Parquet table, a page that holds all it needs, or a figure."""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from html import escape
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from headcount.core.errors import InvalidParameter, MissingPackage, UnreadableData
from headcount.core.estimate import Estimate
from headcount.data.grouped import GroupedEstimate
from headcount.plot import figures
from headcount.plot.style import GRAY, GRID, INK

DRAWN = (".png", ".svg", ".pdf")
_WRITTEN = (".json", ".parquet", ".html")
_STYLE = f"""
body {{ font-family: 'Liberation Sans', Arial, Helvetica, sans-serif; color: {INK};
  max-width: 70em; margin: 2em auto; padding: 0 1em; line-height: 1.5; }}
h1 {{ font-size: 1.5em; }}
table {{ border-collapse: collapse; }}
tr {{ border-bottom: 1px solid {GRID}; }}
figure {{ margin: 2em 0; }}
figcaption {{ color: {GRAY}; }}
svg {{ max-width: 100%; height: auto; }}
"""


def check_path(path: Path) -> None:
    """Refuse a file that cannot become a result, before the work that would fill it."""
    if path.suffix.lower() not in _WRITTEN:
        figures.check_path(path)
    elif not path.absolute().parent.is_dir():
        raise UnreadableData(f"there must be a folder {str(path.parent)!r} to write to, got none")


def save(
    result: Estimate | GroupedEstimate,
    path: Path,
    confidence: float,
    *,
    sampling: bool = False,
    simultaneous: bool = False,
) -> None:
    """Write a result; the ending says as what."""
    check_path(path)
    kind = {"sampling": sampling, "simultaneous": simultaneous}
    ending = path.suffix.lower()
    if ending in DRAWN:
        if not isinstance(result, Estimate):
            raise InvalidParameter("a figure must be of one estimate, got those of several groups")
        figures.save(figures.density_figure(result, confidence, **kind), path)
        return
    try:
        if ending == ".json":
            text = json.dumps(_finite(result.to_dict(confidence, **kind)), indent=2) + "\n"
            path.write_text(text, encoding="utf-8")
        elif ending == ".html":
            path.write_text(_page(result, confidence, kind), encoding="utf-8")
        else:
            _write_table(result, path, confidence, kind)
    except OSError as error:
        raise UnreadableData(
            f"{str(path)!r} must be a place to write to, got: {error.strerror or error}"
        ) from None


def _finite(value: Any) -> Any:
    """JSON has no infinity: it becomes null."""
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _estimates(result: Estimate | GroupedEstimate) -> list[tuple[Any, Estimate]]:
    return [(None, result)] if isinstance(result, Estimate) else [*result.items()]


def _write_table(
    result: Estimate | GroupedEstimate, path: Path, confidence: float, kind: dict[str, bool]
) -> None:
    """A row for each number; the guarantee is in the table's metadata."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise MissingPackage(
            "writing Parquet needs pyarrow", hint="pip install 'headcount[data]'"
        ) from None
    tables = []
    for group, estimate in _estimates(result):
        interval = estimate.interval(confidence, **kind)
        columns: dict[str, Any] = {} if group is None else {"group": group}
        if estimate.buckets is not None:
            columns["bucket"] = list(estimate.buckets)
        columns |= {
            "value": estimate.value,
            "unbiased_value": estimate.unbiased_value,
            "standard_error": estimate.standard_error,
            "low": interval.low,
            "high": interval.high,
            "users": estimate.users,
        }
        rows = np.size(estimate.value)
        whole = {
            name: values if np.ndim(values) else [values] * rows for name, values in columns.items()
        }
        tables.append(pyarrow.table(whole))
    about = {
        "task": result.task,
        "confidence": confidence,
        **{name: chosen for name, chosen in kind.items() if chosen},
        "guarantee": result.guarantee.to_dict(),
    }
    table = pyarrow.concat_tables(tables).replace_schema_metadata({"headcount": json.dumps(about)})
    parquet.write_table(table, path)


def _page(result: Estimate | GroupedEstimate, confidence: float, kind: dict[str, bool]) -> str:
    table, promise = result.table(confidence, **kind), result.guarantee
    title = f"A {result.task} of {result.users:,} people"
    drawings = "\n".join(
        f"<figure>\n{_drawing(estimate, confidence, kind)}\n"
        f"<figcaption>{escape('' if group is None else str(group))}</figcaption></figure>"
        for group, estimate in _estimates(result)
        if estimate.buckets is not None
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{escape(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{escape(title)}</h1>
{replace(table, title="").html()}
<h2>What is promised</h2>
{promise.table().html()}
{drawings}
</body>
</html>
"""


def _drawing(estimate: Estimate, confidence: float, kind: dict[str, bool]) -> str:
    draw = figures.density_figure if estimate.task == "density" else figures.histogram_figure
    out = StringIO()
    draw(estimate, confidence, **kind).save(out, format="svg")
    return out.getvalue()
