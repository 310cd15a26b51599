"""How the error of a density falls with the crowd: simulated, and against what theory says.

Writes docs/densities.md and its figure: `make figures`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import headcount as hc
from headcount.plot import figures

Numbers = NDArray[np.float64]
_DOCS = Path(__file__).parents[1] / "docs"
_BUDGET = hc.Budget(1, 1e-6)
_CROWDS = [round(10 ** (3 + step / 2)) for step in range(9)]
_RUNS = 24
_PLACES = 4096  # at which people are, at least
_POINTS = 512  # at which the density is asked for
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
    """The mean over runs of the integrated squared error, for each crowd."""
    generator = np.random.default_rng(7)
    for users in _CROWDS:
        task = hc.Density(0, 1, case.smoothness, points=_POINTS)
        protocol = hc.protocol(name, task, _BUDGET, hc.Crowd(users))
        truth = case.density(task.grid)
        # As many places in every bin.
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
    """Of the straight line through points on two logarithmic scales."""
    users, errors = (np.log(np.array(column, dtype=float)) for column in zip(*points, strict=True))
    return float(np.polyfit(users, errors, 1)[0])


def write() -> None:
    source = hc.SeededSource(5)  # nobody's data: repeatable
    panels: dict[str, dict[str, list[tuple[float, float]]]] = {}
    rows = []
    for case in CASES:
        lines: dict[str, list[tuple[float, float]]] = {}
        for name, label in _PROTOCOLS.items():
            points = list(mean_squared_errors(case, name, source))
            found, wanted = slope(points), case.rate(name)
            print(f"{case.title}, {name}: slope {found:.3f}, theory {wanted:.3f}", flush=True)
            lines[f"{label}: {found:.2f} ({wanted:.2f})"] = [(float(n), e) for n, e in points]
            errors = [f"{error:.2e}" for _, error in points[::2]]
            rows.append((case.title, f"`{name}`", f"{found:.3f}", f"{wanted:.3f}", *errors))
        panels[case.title] = lines
    title = "Error of a density, ε = 1, δ = 1e-6: slope (of theory)"
    figures.save(figures.rate_figure(title, panels), _DOCS / "figures" / "density-rates.svg")
    heads = ("density", "protocol", "slope", "theory", *(f"n = 10^{p}" for p in range(3, 8)))
    table = "".join(
        "| " + " | ".join(row) + " |\n" for row in (heads, ("---",) * len(heads), *rows)
    )
    (_DOCS / "densities.md").write_text(f"{_TEXT}\n{table}", encoding="utf-8")


_TEXT = f"""\
# Densities

Written by `make figures`; do not edit.

How are people's numbers spread? `hc.Density(low, high, smoothness)` asks for the density of the
population that they were drawn from:

```python
import numpy as np
import headcount as hc

ages = np.random.default_rng(1).triangular(18, 30, 90, size=20_000)
task = hc.Density(0, 100, smoothness=1)
p = hc.protocol("shuffle.density-histogram", task, hc.Budget(1, 1e-6), hc.Crowd(20_000))
e = hc.run(p, ages)
band = e.interval(0.95, sampling=True, simultaneous=True)  # of the population, everywhere at once
shown = e.postprocess("density")  # not negative, and integrates to one; e.unbiased_value stays
print(p.parameters, e.value[::64], band.low[::64], band.high[::64], shown.value.mean() * 100)
```

Four protocols answer. Three put numbers into equal bins and have another protocol count them: a
frequency oracle (`local.density-histogram`), fake users (`shuffle.density-histogram`) or noise by a
curator (`central.geometric`, `central.laplace`). `local.density-series` estimates the coefficients
of waves instead, from one random sign for each. How many bins or waves there are follows from the
crowd, the budget and the smoothness, never from the data. For a smoothness above 1, the density
between bins is a polynomial that has the averages of the nearest ones.

What is told is the density as such bins or waves show it. Its band holds privacy noise and, with
`sampling=True`, who happened to take part; it does not hold what bins or waves smooth away.

## The price of trust

The mean squared error of a β-smooth density falls like (nε²)^(−2β/(2β+2)) in local trust, and no
protocol has a better order (Duchi, Jordan, Wainwright 2018). Without privacy it is n^(−2β/(2β+1)),
and that is also what shuffled and central histograms reach: their noise does not grow with the
crowd.

![Mean integrated squared error against the size of the crowd](figures/density-rates.svg)

Each point is the mean of {_RUNS} simulated runs, ε = 1, δ = 1e-6; slopes are of straight lines
through all points.
"""


if __name__ == "__main__":
    write()
