"""Several comparisons, with p-values that are corrected for their number (Holm 1979)."""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.cached import cached_property
from headcount.core.contrasts.contrast import Contrast, contrast, shown_chances
from headcount.core.contrasts.pairs import Kind
from headcount.core.errors import InvalidParameter, UnknownName
from headcount.core.estimate import Estimate
from headcount.core.table import Table, counted


def contrasts(
    estimates: Mapping[Any, Estimate],
    pairs: Iterable[tuple[Any, Any]] | None = None,
    *,
    kind: Kind = "difference",
    same_people: bool = False,
) -> "Contrasts":
    """Compare several estimates, such as those of the groups of a `GroupedEstimate`.

        contrasts(estimate(frame, Count(), column="smoker", group="city", budget=Budget(1)))

    estimates    the estimates by their names.
    pairs        the pairs of names to compare. By default, all pairs are compared.
    kind         "difference" or "ratio".
    same_people  whether a person may be in several estimates: see `difference`.
    """
    checks.instance("estimates", estimates, Mapping)
    checks.choice("kind", kind, ("difference", "ratio"))
    try:
        chosen = list(combinations(estimates, 2) if pairs is None else pairs)
    except TypeError:
        raise InvalidParameter(
            f"`pairs` must be pairs of names, got {checks.shown(pairs)}"
        ) from None
    if not chosen:
        given = counted(len(estimates), "estimate") if pairs is None else "no pairs"
        raise InvalidParameter(f"there must be at least one pair to compare, got {given}")
    found: dict[tuple[Any, Any], Contrast] = {}
    for pair in chosen:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise InvalidParameter(f"a pair must have two names, got {checks.shown(pair)}")
        one, other = pair
        for name in pair:
            if not isinstance(name, Hashable) or name not in estimates:
                known = checks.few([*estimates])
                raise UnknownName(
                    f"a compared name must be one of {known}, got {checks.shown(name)}"
                )
        found[one, other] = contrast(
            kind,
            estimates[one],
            estimates[other],
            same_people=same_people,
            names=(str(one), str(other)),
            covering=getattr(estimates, "guarantee", None),  # a grouped estimate has one
        )
    tasks = list(dict.fromkeys(one.first.task for one in found.values()))
    if len(tasks) > 1:
        raise InvalidParameter(
            "all estimates must answer the same question, got "
            f"{' and '.join(map(checks.a_task, tasks))}"
        )
    return Contrasts(found)


@dataclass(frozen=True, eq=False)
class Contrasts(Mapping[tuple[Any, Any], Contrast]):
    """Several comparisons, by the names of the compared estimates."""

    found: Mapping[tuple[Any, Any], Contrast]

    def __getitem__(self, pair: tuple[Any, Any]) -> Contrast:
        return self.found[pair]

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)

    @cached_property
    def adjusted_p_values(self) -> dict[tuple[Any, Any], Any]:
        """The p-values of the hypothesis that two crowds are equal, after Holm's correction.

        Suppose that equality is rejected wherever the adjusted p-value is at most α. Then the
        probability of one or more false rejections, among all pairs and buckets, is at most α.
        """
        return self._adjusted([one.p_value for one in self.values()])

    @cached_property
    def adjusted_population_p_values(self) -> dict[tuple[Any, Any], Any]:
        """The Holm-corrected p-values of the hypothesis that two populations are equal."""
        return self._adjusted([one.population_p_value for one in self.values()])

    @cached_property
    def adjusted_population_p_values_are_bounds(self) -> dict[tuple[Any, Any], Any]:
        """Which of the adjusted p-values of populations are only upper bounds."""
        adjusted = self.adjusted_population_p_values
        bounded = [
            np.max(adjusted[pair], where=one.population_p_value_is_bound, initial=-1.0)
            for pair, one in self.items()
        ]
        # An adjusted p-value comes from its own p-value or from a smaller one.
        return {pair: adjusted[pair] <= max(bounded) for pair in self}

    def _adjusted(self, chances: list[Any]) -> dict[tuple[Any, Any], Any]:
        corrected = holm(np.concatenate([np.atleast_1d(one) for one in chances]))
        parts = np.split(corrected, np.cumsum([np.size(one) for one in chances])[:-1])
        single = np.ndim(chances[0]) == 0
        return {
            pair: float(part[0]) if single else part for pair, part in zip(self, parts, strict=True)
        }

    def table(self, confidence: float = 0.95) -> Table:
        """A table of all comparisons. Only the p-values are corrected for their number."""
        tables = []
        for pair, one in self.items():
            columns = one.columns(confidence)
            columns["p-value"] = shown_chances(self.adjusted_p_values[pair])
            if not one.same_people:
                adjusted = self.adjusted_population_p_values[pair]
                columns["populations: p-value"] = shown_chances(
                    adjusted, self.adjusted_population_p_values_are_bounds[pair]
                )
            tables.append(columns)
        notes = dict.fromkeys(note for one in self.values() for note in one.notes)
        many = sum(len(one.labels) for one in self.values())
        corrected = f"p-values are corrected for {many:,} comparisons (Holm)"
        return Table(
            tuple(tables[0]),
            tuple(row for columns in tables for row in zip(*columns.values(), strict=True)),
            notes=(*notes, *([corrected] if many > 1 else [])),
        )

    def __str__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table().html()

    def to_dict(self, confidence: float = 0.95) -> dict[str, Any]:
        """All comparisons for JSON, with adjusted p-values."""
        return {"contrasts": [self._one(pair, confidence) for pair in self]}

    def _one(self, pair: tuple[Any, Any], confidence: float) -> dict[str, Any]:
        document = self[pair].to_dict(confidence)
        document["adjusted_p_value"] = np.asarray(self.adjusted_p_values[pair]).tolist()
        if not self[pair].same_people:
            adjusted = self.adjusted_population_p_values[pair]
            document["populations"]["adjusted_p_value"] = np.asarray(adjusted).tolist()
            bounds = self.adjusted_population_p_values_are_bounds[pair]
            document["populations"]["adjusted_p_value_is_upper_bound"] = np.asarray(bounds).tolist()
        return document


def holm(chances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Holm's adjusted p-values. The i-th smallest of m p-values is multiplied by m − i + 1. If a
    smaller p-value has a larger product, that product is used instead. Products are cut to 1.
    """
    order = np.argsort(chances, kind="stable")
    factors = np.arange(len(chances), 0, -1)
    adjusted = np.minimum(np.maximum.accumulate(chances[order] * factors), 1.0)
    out = np.empty_like(adjusted)
    out[order] = adjusted
    return out
