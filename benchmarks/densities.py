"""How the error of a density falls with the size of the crowd, in simulations and in theory.

Writes the table of docs/densities.md and its figure: `make figures`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import headcount as hc
from headcount.core.table import short
from headcount.plot import figures

Numbers = NDArray[np.float64]
_DOCS = Path(__file__).parents[1] / "docs"
_BUDGET = hc.Budget(1, 1e-6)
_CROWDS = [round(10 ** (3 + step / 2)) for step in range(9)]
_RUNS = 24
_PLACES = 4096  # the minimum number of distinct values that people can hold
_MARK = "<!-- below: written by make figures -->"
_POINTS = 512  # the number of points at which the density is estimated
_PROTOCOLS = {
    "local.density-histogram": "local, by a histogram",
    "local.density-series": "local, by a series",
    "shuffle.density-histogram": "shuffle",
    "central.geometric": "central",
}


@dataclass(frozen=True)
class Case:
    """A density on [0, 1]."""

    title: str
    smoothness: float
    density: Callable[[Numbers], Numbers]

    def rate(self, name: str) -> float:
        """The exponent of n in the mean squared error."""
        beta = self.smoothness
        return -2 * beta / (2 * beta + (2 if name.startswith("local.") else 1))


CASES = [
    Case("β = 1: a tent", 1.0, lambda x: 2 - 4 * np.abs(x - 0.5)),
    Case("β = 2: 30x²(1−x)²", 2.0, lambda x: 30 * x**2 * (1 - x) ** 2),
]


def mean_squared_errors(case: Case, name: str, source: hc.Source) -> Iterator[tuple[int, float]]:
    """The size of each crowd, and its integrated squared error, averaged over runs."""
    generator = np.random.default_rng(7)
    for users in _CROWDS:
        task = hc.Density(0, 1, case.smoothness, points=_POINTS)
        protocol = hc.protocol(name, task, _BUDGET, hc.Crowd(users))
        truth = case.density(task.grid)
        # Every bin has the same number of places.
        bins = int(protocol.parameters.get("bins", 1))
        count = bins * -(-_PLACES // bins)
        places = (np.arange(count) + 0.5) / count
        chances = case.density(places) / case.density(places).sum()
        errors = []
        for _ in range(_RUNS):
            people = generator.multinomial(users, chances)
            held = dict(zip(places[people > 0].tolist(), people[people > 0].tolist(), strict=True))
            estimate = protocol.estimate(protocol.simulate(held, source), source)
            errors.append(np.mean((estimate.value - truth) ** 2))
        yield users, float(np.mean(errors))


def slope(points: list[tuple[int, float]]) -> float:
    """The slope of the straight line through points on two logarithmic scales."""
    users, errors = (np.log(np.array(column, dtype=float)) for column in zip(*points, strict=True))
    return float(np.polyfit(users, errors, 1)[0])


def write() -> None:
    source = hc.SeededSource(5)  # repeatable, since these are not real data
    panels: dict[str, dict[str, list[tuple[float, float]]]] = {}
    rows = []
    for case in CASES:
        lines: dict[str, list[tuple[float, float]]] = {}
        for name, label in _PROTOCOLS.items():
            points = list(mean_squared_errors(case, name, source))
            found, wanted = slope(points), case.rate(name)
            print(f"{case.title}, {name}: slope {found:.3f}, theory {wanted:.3f}", flush=True)
            lines[f"{label}: {found:.2f} ({wanted:.2f})"] = [(float(n), e) for n, e in points]
            errors = [short(error, 3) for _, error in points[::2]]
            rows.append((case.title, f"`{name}`", f"{found:.3f}", f"{wanted:.3f}", *errors))
        panels[case.title] = lines
    title = "Error of a density, ε = 1, δ = 1e-6: slope (in theory)"
    figures.save(figures.rate_figure(title, panels), _DOCS / "figures" / "density-rates.svg")
    heads = ("density", "protocol", "slope", "theory", *(f"n = 10^{p}" for p in range(3, 8)))
    table = "".join(
        "| " + " | ".join(row) + " |\n" for row in (heads, ("---",) * len(heads), *rows)
    )
    page = _DOCS / "densities.md"
    prose, _, _ = page.read_text(encoding="utf-8").partition(_MARK)
    page.write_text(f"{prose}{_MARK}\n\n{table}", encoding="utf-8")


if __name__ == "__main__":
    write()
