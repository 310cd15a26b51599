"""Every figure is a valid chart, in every format, with the right words and colors."""

import colorsys
import itertools
import json
import math
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headcount as hc
from commands import Headcount
from headcount.core.distribution import DistributionEstimate
from headcount.core.errors import InvalidParameter, MissingPackage, UnreadableData
from headcount.plot import figures
from headcount.plot.palette import colors, trust_color
from headcount.plot.style import INK, WIDTH

LINES = {
    "central": [(100.0, 2.0), (1000.0, 2.0), (10_000.0, 2.0)],
    "local": [(100.0, 10.0), (1000.0, 31.0), (10_000.0, 100.0)],
}
MEASURED = {
    "local": [(100.0, 11.0, 9.0, 13.0), (10_000.0, 98.0, 90.0, 107.0)],
    "peers' library": [(1000.0, 40.0, 35.0, 45.0)],
}
BOUNDS = {"lower bound": [(100.0, 5.0), (10_000.0, 50.0)], "no noise": [(100.0, 1.0)]}


def compare(
    lines: Any = LINES, measured: Any = MEASURED, bounds: Any = BOUNDS, **words: str
) -> figures.Figure:
    return figures.comparison_figure(
        "Error of a count",
        x_title="people in the crowd",
        y_title="standard error (people)",
        lines=lines,
        measured=measured,
        bounds=bounds,
        **words,
    )


def asked(name: str, task: hc.Task, values: Any) -> hc.Estimate:
    budget = hc.Budget(1, 0 if name.startswith("local.") else 1e-6)
    return hc.run(hc.protocol(name, task, budget, hc.Crowd(len(values))), values)


def density() -> figures.Figure:
    values = np.linspace(0, 120, 500)
    estimate = asked("local.density-histogram", hc.Density(0, 120), values)
    return figures.density_figure(
        estimate.postprocess("density"), 0.9, sampling=True, simultaneous=True
    )


def distribution() -> figures.Figure:
    estimate = asked("central.tree", hc.Distribution(0, 120, cells=60), np.linspace(0, 120, 500))
    shown = estimate.postprocess("monotone")
    assert isinstance(shown, DistributionEstimate)
    return figures.distribution_figure(shown, 0.9, simultaneous=True)


def quantiles() -> figures.Figure:
    task, values = hc.Quantiles(0, 120, (0.1, 0.5), cells=60), np.linspace(0, 120, 500)
    groups = {name: asked("central.tree", task, values) for name in ("north", "south")}
    return figures.quantiles_figure(groups, 0.9, group="region", sampling=True)


def trusts() -> figures.Figure:
    names = ("central.geometric", "shuffle.zero-exact", "local.randomized-response")
    answers = [asked(name, hc.Count(), np.arange(1000) % 2) for name in names]
    errors = {"central": [(100, 2.0), (1000, 2.0)], "local": [(100, 10.0), (1000, 31.0)]}
    return figures.trust_figure("Who?", 500, answers, errors)


def contrasts() -> figures.Figure:
    groups = {name: asked("central.geometric", hc.Count(), np.arange(500) % 2) for name in "AB"}
    return figures.contrast_figure(hc.contrasts(groups), 0.9)


FIGURES: dict[str, tuple[Callable[[], figures.Figure], str]] = {
    "curve": (
        lambda: figures.curve_figure("Curves", {"one": [(0.0, 0.1), (2.0, 1e-9)], "two": [(1, 1)]}),
        "Curves|one|two|δ|ε (smaller is more private)|1e-8|1",
    ),
    "density": (
        density,
        "Density of 500 people, local trust|density (per unit of value)|value|"
        "90 % band of the population, everywhere at once|"
        "local.density-histogram, post-processed: density",
    ),
    "distribution": (
        distribution,
        "Distribution of 500 people, central trust|share of people below|value|"
        "90 % band, everywhere at once|central.tree, post-processed: monotone",
    ),
    "quantiles": (
        quantiles,
        "Quantiles of 1,000 people, central trust|value (90 % intervals of the population)|region|"
        "north|south|10 % quantile|median",
    ),
    "rate": (
        lambda: figures.rate_figure("Rates", {"tent": LINES, "bump": {"shuffle": [(9, 1e-9)]}}),
        "Rates|tent|bump|central|local|shuffle|people in the crowd|mean integrated squared error",
    ),
    "trust": (
        trusts,
        "Who?|truth: 500|central|shuffle|local|standard error of the count (people)",
    ),
    "contrast": (
        contrasts,
        "Comparison of shares, central trust|A − B|crowds|populations|"
        "difference of shares (90 % intervals)",
    ),
    "comparison": (
        lambda: compare(subtitle="simulated"),
        "Error of a count|simulated|central|local|peers' library|lower bound|no noise|1,000|"
        "people in the crowd|standard error (people)",
    ),
}


def found(node: Any, key: str) -> Iterator[Any]:
    """Everything under a key, anywhere in a specification."""
    for name, value in node.items() if isinstance(node, dict) else enumerate(node):
        if name == key:
            yield value
        if isinstance(value, dict | list):
            yield from found(value, key)


def scales(chart: figures.Figure, channel: str) -> list[dict[str, Any]]:
    encodings = found(chart.to_dict(), "encoding")
    return [encoding[channel].get("scale", {}) for encoding in encodings if channel in encoding]


def axis(chart: figures.Figure, channel: str) -> dict[str, Any]:
    first, *others = [scale for scale in scales(chart, channel) if "domain" in scale]
    assert all(other == first for other in others)
    return first


def records(chart: figures.Figure) -> list[dict[str, Any]]:
    return [row for rows in chart.to_dict()["datasets"].values() for row in rows]


def written(svg: str) -> list[str]:
    return [
        re.sub(r"\s+", " ", text).replace("&apos;", "'").replace("&#39;", "'")
        for text in re.findall(r"<text[^>]*>([^<]*)</text>", svg)
    ]


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_in_every_kind_of_file(name: str, tmp_path: Path) -> None:
    make, texts = FIGURES[name]
    chart = make()
    assert chart.to_dict()["$schema"].startswith("https://vega.github.io/schema/vega-lite/v6")
    json.dumps(chart.to_dict(), allow_nan=False)
    for ending, magic in {
        ".png": b"\x89PNG\r\n",
        ".svg": b"<svg ",
        ".pdf": b"%PDF-",
        ".html": b"<!DOCTYPE html>",
    }.items():
        figures.save(chart, tmp_path / f"figure{ending}")
        assert (tmp_path / f"figure{ending}").read_bytes().startswith(magic)
    svg = (tmp_path / "figure.svg").read_text(encoding="utf-8")
    words = written(svg)
    for text in texts.split("|"):
        assert text in words
    # Nothing in it depends on the machine or the day.
    assert "/tmp" not in svg
    assert "/home" not in svg
    assert not re.search(r"20\d\d-\d\d", svg)
    sizes = [float(size) for size in re.findall(r'font-size="([\d.]+)px"', svg)]
    assert min(sizes) >= 12
    png = (tmp_path / "figure.png").read_bytes()
    wide = re.search(r'<svg[^>]* width="(\d+)"', svg)
    assert wide
    assert int.from_bytes(png[16:20]) == 2 * int(wide[1])


@pytest.mark.parametrize("name", FIGURES)
def test_a_page_needs_no_network_and_answers_a_pointer(name: str, tmp_path: Path) -> None:
    chart = FIGURES[name][0]()
    figures.save(chart, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert len(page) > 500_000  # Vega itself is inside
    tags = re.sub(r"(<script[^>]*>).*?</script>", r"\1", page, flags=re.DOTALL)
    assert len(tags) < 1000
    assert "http" not in tags
    assert "src" not in tags
    specification = chart.to_dict()
    zooms = [p for params in found(specification, "params") for p in params if "bind" in p]
    assert zooms
    assert all(zoom["bind"] == "scales" for zoom in zooms)
    assert list(found(specification, "tooltip"))


def test_capital_endings(tmp_path: Path) -> None:
    figures.save(compare(), tmp_path / "X.PNG")
    assert (tmp_path / "X.PNG").read_bytes().startswith(b"\x89PNG")


def test_no_label_can_leave_its_script(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script>"
    figures.save(figures.curve_figure("Curve", {evil: [(1.0, 0.1)]}), tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script>alert" in page  # as the words of a label
    assert evil not in page
    assert page.count("</script>") == 2


def test_notebooks_show_a_chart() -> None:
    bundle: Any = compare()._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    assert any("vegalite" in kind or kind == "text/html" for kind in data)


def test_what_has_one_label_has_one_color() -> None:
    chart = compare()
    labels = ["central", "local", "peers' library"]
    assert all(scale["domain"] == labels for scale in scales(chart, "color"))
    ranges = {tuple(scale["range"]) for scale in scales(chart, "color")}
    (range_,) = ranges  # of lines, points and bars
    assert range_[:2] == (trust_color(hc.Trust.CENTRAL), trust_color(hc.Trust.LOCAL))
    assert len(set(range_)) == 3
    (shapes,) = {tuple(scale["range"]) for scale in scales(chart, "shape")}
    assert len(set(shapes)) == 3
    (dashes,) = scales(chart, "strokeDash")
    assert dashes["domain"] == list(BOUNDS)
    assert dashes["range"][0] != dashes["range"][1]
    many = {f"line {number}": [(1.0, 0.1)] for number in range(20)}
    chart = figures.curve_figure("Many", many)
    pairs = zip(scales(chart, "color")[0]["range"], scales(chart, "shape")[0]["range"], strict=True)
    assert len(set(pairs)) == 20
    assert len(set(scales(chart, "color")[0]["range"])) == 20


def contrast_with_white(color: str) -> float:
    """The contrast as the Web Content Accessibility Guidelines define it."""
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 1.05 / (float(np.dot([0.2126, 0.7152, 0.0722], linear)) + 0.05)


def test_colors_follow_the_trust_and_never_repeat() -> None:
    names = hc.protocol_names()
    found = dict(zip(names, colors(names), strict=True))
    assert len(set(found.values())) == len(names) > 25
    assert all(contrast_with_white(color) >= 3 for color in found.values())
    for trust in hc.Trust:
        (alone,) = colors([f"{trust}.only-one, 1,000 people"])
        assert alone == trust_color(trust) == colors([trust])[0]
    # A hue belongs to one trust, no matter how many other protocols are drawn.
    hues = {
        trust: {round(colorsys.rgb_to_hsv(*channels(found[name]))[0], 2) for name in names
                if name.startswith(trust)}
        for trust in hc.Trust
    }  # fmt: skip
    assert not hues[hc.Trust.CENTRAL] & hues[hc.Trust.SHUFFLE]
    assert not hues[hc.Trust.CENTRAL] & hues[hc.Trust.LOCAL]
    assert not hues[hc.Trust.SHUFFLE] & hues[hc.Trust.LOCAL]


def channels(color: str) -> tuple[float, float, float]:
    red, green, blue = (int(color[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return red, green, blue


def bars_of(estimate: hc.Estimate) -> list[dict[str, Any]]:
    return [row for row in records(figures.histogram_figure(estimate, 0.95)) if "top" in row]


def test_many_quantiles_stay_distinguishable_in_the_color_of_their_trust() -> None:
    task = hc.Quantiles(0, 120, np.arange(1, 10) / 10, cells=60)
    groups = {"all": asked("shuffle.tree", task, np.linspace(0, 120, 500))}
    chart = figures.quantiles_figure(groups, 0.9, group="region")
    shades = next(scale["range"] for scale in scales(chart, "color") if scale)
    assert len(set(shades)) == 9
    assert trust_color(hc.Trust.SHUFFLE) in shades
    assert not {trust_color(hc.Trust.CENTRAL), trust_color(hc.Trust.LOCAL)} & {*shades}


def test_texts_of_quantiles_keep_apart() -> None:
    """Two texts on the same side of a row do not overlap. A letter is at least 6 pixels wide."""
    task = hc.Quantiles(0, 120_000, (0.1, 0.15, 0.5, 0.55, 0.9), cells=600)
    values = np.linspace(0, 120_000, 5000)
    groups = {name: asked("central.tree", task, values) for name in ("north", "south")}
    chart = figures.quantiles_figure(groups, 0.9, group="region")
    low, high = axis(chart, "x")["domain"]
    for side, row in itertools.product((True, False), groups):
        texts = [dot for dot in records(chart) if dot["row"] == row and dot["under"] == side]
        assert texts
        places = sorted((dot["x"] / (high - low) * WIDTH, len(dot["says"])) for dot in texts)
        for (left, one), (right, other) in itertools.pairwise(places):
            assert right - left > 6 * (one + other) / 2


def test_quantiles_in_rows_of_their_own_have_the_color_of_their_trust() -> None:
    task = hc.Quantiles(0, 120, (0.25, 0.5, 0.75), cells=60)
    estimate = asked("shuffle.tree", task, np.linspace(0, 120, 500))
    chart = figures.quantiles_figure({"": estimate}, 0.9)
    shades = next(scale["range"] for scale in scales(chart, "color") if scale)
    assert shades == [trust_color(hc.Trust.SHUFFLE)]


def test_the_line_of_a_distribution_stays_within_its_band() -> None:
    task, values = hc.Distribution(0, 120, cells=60), np.full(300, 60.0)
    estimate: Any = hc.run(
        hc.protocol("local.tree", task, hc.Budget(1), hc.Crowd(300)), values, hc.SeededSource(2)
    )
    assert not np.all((estimate.value >= 0) & (estimate.value <= 1))
    chart = figures.distribution_figure(estimate, 0.95)
    drawn = [row for row in records(chart) if "band" in row]
    assert len(drawn) == 61
    assert all(row["low"] <= row["share"] <= row["high"] for row in drawn)
    assert "outside the band" in json.dumps(chart.to_dict()["title"])


@pytest.mark.parametrize(
    ("low", "high", "label"),
    [
        ("1940-01-01", "2010-12-31", r"\d{4}"),
        ("2010-01-01", "2011-12-31", r"\d{4}-\d\d"),
        ("2010-01-01", "2010-02-28", r"\d{4}-\d\d-\d\d"),
        ("2010-01-01T00:00", "2010-01-01T20:00", r"\d\d-\d\d \d\d:\d\d"),
        ("2010-01-01T00:00", "2010-01-01T00:30", r"\d\d:\d\d:\d\d"),
    ],
)
def test_axes_of_dates(low: str, high: str, label: str, tmp_path: Path) -> None:
    first, last = np.datetime64(low, "s"), np.datetime64(high, "s")
    held = first + (last - first) * np.arange(51) // 50
    e: Any = hc.estimate({"born": held}, hc.Distribution(low, high, 16), budget=hc.Budget(5))
    path = tmp_path / "dates.svg"
    figures.save(figures.distribution_figure(e, 0.9), path)
    words = written(path.read_text())
    assert "born" in words
    assert len([word for word in words if re.fullmatch(label, word)]) >= 3


def test_axes_name_the_column() -> None:
    data = {"age": np.arange(100.0), "sex": ["f", "m"] * 50, "smokes": [0, 1] * 50}
    budget = hc.Budget(5)
    for task, column, draw in (
        (hc.Histogram(["f", "m"]), "sex", figures.histogram_figure),
        (hc.Density(0, 100), "age", figures.density_figure),
        (hc.Table(["f", "m"], 2), ["sex", "smokes"], figures.table_figure),
    ):
        e: Any = hc.estimate(data, task, column=column, budget=budget)
        titles = set(map(str, found(draw(e, 0.9).to_dict(), "title")))
        assert {column} <= titles if isinstance(column, str) else {*column} <= titles
    groups: Any = hc.estimate(data, hc.Count(), column="smokes", group="sex", budget=budget)
    titles = set(map(str, found(figures.contrast_figure(hc.contrasts(groups)).to_dict(), "title")))
    assert "difference of shares of smokes (95 % intervals)" in titles


def test_bars_are_as_wide_as_their_bins() -> None:
    ages = np.arange(2000) % 120
    bins = [0, 18, 30, 65, 120]
    found = hc.estimate(ages, bins=bins, budget=hc.Budget(1), source=hc.SeededSource(1))
    assert isinstance(found, hc.Estimate)
    assert found.edges == tuple(bins)
    assert found.to_dict()["edges"] == bins
    rows = bars_of(found)[:4]
    assert [(row["left"], row["right"]) for row in rows] == list(itertools.pairwise(bins))
    for row in rows:
        width = row["right"] - row["left"]
        assert row["top"] * width == pytest.approx(row["people"])
        assert row["bottom"] * width == pytest.approx(row["low"])
    chart = figures.histogram_figure(found, 0.95).to_dict()
    assert "x2" in chart["layer"][0]["encoding"]
    others = hc.estimate(
        ages, bins=[0, 18, 30], outside="other", budget=hc.Budget(1), source=hc.SeededSource(1)
    )
    assert isinstance(others, hc.Estimate)
    assert len({row["bucket"] for row in bars_of(others)}) == 2
    said = figures.histogram_figure(others, 0.95).to_dict()["title"]["subtitle"]
    assert re.search(r"other: [\d,.]+ people", " ".join(said))


def test_heat_map_shows_all_cells_and_totals() -> None:
    task = hc.Table(["north", "all"], ["yes", "no", "none"])  # a row has the name of the totals
    values = [code for code in range(6) for _ in range(100 * code + 3)]
    estimate = asked("central.geometric", task, values)
    assert isinstance(estimate, hc.TableEstimate)
    drawn = [row for row in records(figures.table_figure(estimate, 0.9)) if "shown" in row]
    places = {(row["row"], row["column"]): row for row in drawn}
    assert len(places) == 3 * 4
    interval = estimate.rows.interval(0.9)
    total = places["all", "all"]
    assert total["people"] == estimate.rows.value[1]
    assert total["between"] == f"{interval.low[1]:,.0f} to {interval.high[1]:,.0f}"
    assert not total["cell"]
    assert places["north", "no"]["people"] == estimate.cells[0, 1]
    assert places["all together", "all"]["shown"] == f"{estimate.users:,}"
    with pytest.raises(hc.InvalidParameter, match="a heat map must show a table"):
        figures.table_figure(asked("central.geometric", hc.Histogram(6), values), 0.9)


def test_totals_have_a_label_of_their_own() -> None:
    task = hc.Table(["all", "all together"], ["all", "none"])
    estimate = asked("central.geometric", task, [0, 1, 2, 3] * 50)
    drawn = [row for row in records(figures.table_figure(estimate, 0.9)) if "shown" in row]
    assert len({(row["row"], row["column"]) for row in drawn}) == len(drawn) == 9
    shown = estimate.table()
    assert shown.columns[-1] == "all together"
    assert shown.rows[-1][0] == "all together together"


def test_figures_say_what_their_intervals_are_about() -> None:
    """With sampling, intervals are wider, since they are about the population."""
    values = [0, 1, 2, 3] * 50
    histogram = asked("central.geometric", hc.Histogram(4), values)
    table = asked("central.geometric", hc.Table(2, 2), values)
    for draw, estimate in ((figures.histogram_figure, histogram), (figures.table_figure, table)):
        plain, sampled = (str(draw(estimate, 0.9, sampling=one).to_dict()) for one in (False, True))
        assert "population" not in plain
        assert "90 % intervals for the population" in sampled


@pytest.mark.parametrize("trust", hc.Trust)
def test_texts_of_a_heat_map_can_be_read(trust: hc.Trust) -> None:
    """The contrast of each text with its cell is at least 3.5 to 1."""
    names = {
        "central": "central.geometric",
        "shuffle": "shuffle.fake-users",
        "local": "local.k-ary",
    }
    task = hc.Table(6, 2)
    values = [code for code in range(12) for _ in range(60 * code + 3)]
    chart = figures.table_figure(asked(names[trust], task, values), 0.9)
    (test,) = {rule["test"] for rule in found(chart.to_dict(), "condition")}
    from_here = float(test.rpartition(">")[2])
    cells = [row["shade"] for row in records(chart) if row.get("cell")]
    whole = np.array(channels(trust_color(trust)))
    ink = luminance(np.array(channels(INK)))
    for shade in cells:
        cell = luminance(1 - shade / max(cells) * (1 - whole))
        text = 1.0 if shade > from_here else ink
        assert (max(cell, text) + 0.05) / (min(cell, text) + 0.05) > 3.5


def luminance(color: Any) -> float:
    linear = np.where(color <= 0.04045, color / 12.92, ((color + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def test_bars_of_a_density_table_begin_at_the_left() -> None:
    """They do in a page and in a terminal, and for groups, where another column comes first."""
    values = np.concatenate([np.full(900, 0.2), np.linspace(0, 1, 100)])
    estimate = asked("central.geometric", hc.Density(0, 1), values)
    table = estimate.table()
    *_, heading = re.findall(r"<th style=\"text-align:(\w+)", table.html())
    cells = re.findall(r'<td style="text-align:(\w+)[^>]*>(█*)</td>', table.html())
    assert heading == "left"
    assert {side for side, bar in cells if bar} == {"left"}
    rows = table.lines()[1:]
    (start,) = {row.index("█") for row in rows if "█" in row}
    assert all(row.rstrip("█ ") == row[:start].rstrip() for row in rows)
    by_group = hc.estimate(
        {"x": values, "side": np.arange(1000) % 2}, hc.Density(0, 1), column="x", group="side",
        budget=hc.Budget(1),
    )  # fmt: skip
    assert by_group.table().bars


def test_a_bar_ends_within_its_interval() -> None:
    """Unbiased estimates of empty buckets may be negative; their intervals are not."""
    task = hc.Histogram(40)
    found = asked("central.geometric", task, np.zeros(50, dtype=int))
    interval = found.interval(0.95)
    assert (found.value < interval.low).any()
    rows = bars_of(found)
    assert all(row["bottom"] <= row["top"] <= row["above"] for row in rows)
    assert {row["people"] for row in rows} == set(found.value.tolist())
    said = " ".join(figures.histogram_figure(found, 0.95).to_dict()["title"]["subtitle"])
    assert "outside the possible range; a bar ends within its interval" in said


def test_a_drawn_curve_is_as_round_as_the_real_one(
    headcount: Headcount, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two neighboring points of the line, the curve is within a pixel of it."""
    drawn: dict[str, Any] = {}
    monkeypatch.setattr(figures, "save", lambda figure, path: drawn.update(figure=figure))
    arguments = "curve shuffle.zero-exact --users 1000 --epsilon 1 --delta 1e-6 --out c.png"
    assert headcount(*arguments.split()).status == 0
    line = sorted({(row["x"], row["y"]) for row in records(drawn["figure"])})
    budget, crowd = hc.Budget(1, 1e-6), hc.Crowd(1000)
    curve = hc.protocol("shuffle.zero-exact", hc.Count(), budget, crowd).curve
    for (x, y), (next_x, next_y) in itertools.pairwise(line):
        chord = math.sqrt(y * next_y)  # the middle of a line on a logarithmic axis
        off = math.log10(chord / curve.delta((x + next_x) / 2))
        assert abs(off) * 400 / 12 < 1  # twelve powers of ten are 400 pixels high


def test_trusts_have_the_same_color_in_both_panels() -> None:
    for channel in ("color", "shape"):
        maps = [
            dict(zip(scale["domain"], scale["range"], strict=True))
            for scale in scales(trusts(), channel)
        ]
        assert all(map_[label] == maps[0][label] for map_ in maps for label in map_)


def test_axes_are_logarithmic_where_that_shows_more() -> None:
    assert (axis(compare(), "x")["type"], axis(compare(), "y")["type"]) == ("log", "log")
    for heights in ([1.0, 9.0], [0.0, 1e6], [-1.0, 1000.0]):
        chart = compare({"a": [(1.0, heights[0]), (5.0, heights[1])]}, {}, {})
        assert (axis(chart, "x")["type"], axis(chart, "y")["type"]) == ("linear", "linear")
        low, high = axis(chart, "y")["domain"]
        assert low <= heights[0] < heights[1] < high


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan, 1e308])
def test_what_is_not_finite_is_left_out(bad: float) -> None:
    lines = {"a": [(1.0, 2.0), (bad, 3.0), (4.0, bad), (100.0, 200.0)]}
    for chart in (
        compare(lines, {"a": [(1.0, bad, 0.0, 1.0), (2.0, 3.0, 2.0, bad)]}, lines),
        figures.curve_figure("Curve", lines),
        figures.rate_figure("Rate", {"panel": lines}),
    ):
        places = {(r["x"], r["y"]) for r in records(chart)}
        assert places - {(2.0, 3.0)} == {(1.0, 2.0), (100.0, 200.0)}
        json.dumps(chart.to_dict(), allow_nan=False)


def test_a_logarithm_of_zero_is_never_asked_for() -> None:
    lines = {"a": [(10.0, 0.0), (0.0, 1.0), (20.0, 1e-3), (30.0, -1.0), (4000.0, 10.0)]}
    chart = figures.rate_figure("Rate", {"panel": lines})
    assert {(r["x"], r["y"]) for r in records(chart)} == {(20.0, 1e-3), (4000.0, 10.0)}
    assert min(axis(chart, "x")["domain"]) > 0
    # A bar that goes down to zero, or nearly, ends at the border of the panel.
    bars = {"a": [(20.0, 1.0, 0.0, 2.0), (30.0, 100.0, 1e-300, 1e300), (40.0, 5.0, math.nan, 6.0)]}
    chart = compare({}, bars, {})
    low, high = axis(chart, "y")["domain"]
    assert axis(chart, "y")["type"] == "log"
    assert 0.1 < low < 1
    ends = {r["x"]: (r["low"], r["high"]) for r in records(chart) if "low" in r}
    assert ends[20.0] == (low, 2.0)
    assert ends[30.0] == (low, high)
    assert ends[40.0] == (5.0, 6.0)


def test_a_figure_of_nothing_is_refused() -> None:
    empty: list[Callable[[], figures.Figure]] = [
        lambda: compare({}, {}, {}),
        lambda: compare({"a": [(1.0, math.inf)]}, {}, {}),
        lambda: figures.curve_figure("Curve", {"a": []}),
        lambda: figures.rate_figure("Rate", {"panel": {"a": [(10.0, 0.0)]}}),
    ]
    for make in empty:
        with pytest.raises(InvalidParameter, match="numbers to show, got none"):
            make()


def test_a_label_without_points_stays_in_the_legend(tmp_path: Path) -> None:
    figures.save(figures.curve_figure("Curve", {"a": [(1, 0.1)], "b": []}), tmp_path / "c.svg")
    assert "b" in written((tmp_path / "c.svg").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["x.jpg", "x", "x.json", "png", "x.svg.gz"])
def test_unknown_endings_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match=r"must end in \.png, \.svg, \.pdf, \.html, got"):
        figures.check_path(tmp_path / name)
    with pytest.raises(InvalidParameter):
        figures.save(compare(), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(UnreadableData, match="there must be a folder"):
        figures.check_path(tmp_path / "absent" / "x.png")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(UnreadableData, match="must be a place to write to"):
        figures.save(compare(), tmp_path / "folder.png")


@pytest.mark.parametrize("package", ["altair", "vl_convert"])
def test_missing_packages(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chart = compare()
    monkeypatch.setitem(sys.modules, package, None)
    hint = r"pip install 'headcount\[plot\]'"
    with pytest.raises(MissingPackage, match=hint):
        figures.check_path(tmp_path / "x.png")
    with pytest.raises(MissingPackage, match=hint):
        figures.save(chart, tmp_path / "x.html")
    if package == "altair":
        with pytest.raises(MissingPackage, match=hint):
            compare()


def test_altair_loads_when_a_figure_is_made() -> None:
    program = (
        "import sys, headcount, headcount.plot.figures; from headcount.cli.app import app; app();"
        "print([m for m in ('altair', 'vl_convert', 'narwhals', 'jsonschema') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
