"""The figures, all in one style. matplotlib loads when the first one is drawn."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

from headcount.core.errors import InvalidParameter, MissingPackage, UnreadableData
from headcount.core.estimate import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
# Okabe and Ito's palette: distinct for color-blind readers, and in print.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
MARKERS = ("o", "s", "D", "^", "v", "P", "X")  # one more, so that pairs repeat late


def check_path(path: Path) -> None:
    """Refuse a file that cannot become a figure, before the work that would fill it."""
    if path.suffix.lower() not in FORMATS:
        raise InvalidParameter(f"a figure must end in {', '.join(FORMATS)}, got {path.name!r}")
    if not path.absolute().parent.is_dir():
        raise UnreadableData(f"there must be a folder {str(path.parent)!r} to write to, got none")


def save(figure: "Figure", path: Path) -> None:
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise UnreadableData(
            f"{str(path)!r} must be a place to write to, got: {error.strerror}"
        ) from None


def curve_figure(title: str, curves: Mapping[str, Sequence[tuple[float, float]]]) -> "Figure":
    """Privacy curves: (epsilon, delta) points of each mechanism, by its label."""
    figure, (axes,) = _figure(1, title)
    for (label, points), color, marker in zip(
        curves.items(), cycle(COLORS), cycle(MARKERS), strict=False
    ):
        axes.plot(*zip(*points, strict=True), color=color, marker=marker, markersize=4, label=label)
    axes.set_yscale("log")
    axes.set_xlim(left=0)
    axes.set_xlabel("ε  (smaller is more private)")
    axes.set_ylabel("δ")
    axes.legend(frameon=False)
    return figure


def density_figure(
    estimate: Estimate, confidence: float, *, sampling: bool = False, simultaneous: bool = False
) -> "Figure":
    """A density with its band."""
    band = estimate.interval(confidence, sampling=sampling, simultaneous=simultaneous)
    grid = list(estimate.buckets or ())
    figure, (axes,) = _figure(
        1, f"Density of {estimate.users:,} people, {estimate.guarantee.trust} trust"
    )
    whose = " of the population" * sampling + ", everywhere at once" * simultaneous
    label = f"{100 * confidence:.10g} % band{whose}"
    axes.fill_between(
        grid, band.low, band.high, step="mid", color=COLORS[0], alpha=0.2, lw=0, label=label
    )
    line = ", ".join([estimate.protocol, *estimate.postprocessing])
    axes.plot(grid, estimate.value, color=COLORS[0], drawstyle="steps-mid", label=line)
    axes.axhline(0, color="0.6", linewidth=0.8)
    axes.set_xlabel("value")
    axes.set_ylabel("density")
    axes.legend(frameon=False, ncols=2, fontsize="small", loc="lower left", bbox_to_anchor=(0, 1))
    return figure


def rate_figure(
    title: str, panels: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]]
) -> "Figure":
    """Errors against the size of the crowd, on two logarithmic scales; a panel for each case."""
    figure, axes = _figure(len(panels), title)
    for panel, (name, lines) in zip(axes, panels.items(), strict=True):
        for (label, points), color, marker in zip(
            lines.items(), cycle(COLORS), cycle(MARKERS), strict=False
        ):
            panel.plot(
                *zip(*points, strict=True), color=color, label=label, marker=marker, markersize=4
            )
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_title(name, fontsize="medium")
        panel.set_xlabel("people in the crowd")
        panel.set_ylabel("mean integrated squared error")
        panel.legend(frameon=False, fontsize="small")
    return figure


def trust_figure(
    title: str,
    truth: float,
    estimates: Sequence[Estimate],
    errors: Mapping[str, Sequence[tuple[int, float]]],
) -> "Figure":
    """One question under several trusts: the answers with intervals, and error against crowd."""
    figure, (left, right) = _figure(2, title)
    left.axvline(truth, color="0.4", linewidth=1, linestyle="--", label=f"truth: {truth:,.0f}")
    for row, (estimate, color, marker) in enumerate(
        zip(estimates, cycle(COLORS), cycle(MARKERS), strict=False)
    ):
        interval = estimate.interval(0.95)
        left.plot([interval.low, interval.high], [row, row], color=color, linewidth=2.5)
        left.plot(estimate.value, row, color=color, marker=marker, markersize=7)
        width = f"±{(interval.high - interval.low) / 2:,.0f}"
        left.annotate(
            f"{estimate.value:,.0f} {width}",
            (estimate.value, row),
            xytext=(0, 11),
            textcoords="offset points",
            ha="center",
            color=color,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )
    left.set_yticks(range(len(estimates)), [str(e.guarantee.trust) for e in estimates])
    left.set_ylim(len(estimates) - 0.4, -0.7)
    left.set_xlabel("people who answered yes (95 % interval)")
    left.legend(loc="lower left", facecolor="white", edgecolor="none", framealpha=1)

    for (label, points), color, marker in zip(
        errors.items(), cycle(COLORS), cycle(MARKERS), strict=False
    ):
        right.plot(
            *zip(*points, strict=True), color=color, marker=marker, markersize=4, label=label
        )
    right.set_xscale("log")
    right.set_yscale("log")
    right.set_xlabel("people in the crowd")
    right.set_ylabel("standard error of the count")
    right.legend(frameon=False)
    return figure


def _figure(panels: int, title: str) -> tuple["Figure", "list[Axes]"]:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingPackage(
            "figures need matplotlib", hint="pip install 'headcount[plot]'"
        ) from None
    figure = Figure(figsize=(5.2 * panels + 0.6, 4.2), layout="constrained")
    figure.suptitle(title)
    axes = list(figure.subplots(1, panels, squeeze=False)[0])
    for panel in axes:
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(True, color="0.92")
        panel.set_axisbelow(True)
    return figure, axes
