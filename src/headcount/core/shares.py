"""Shares among some of a histogram's buckets, such as the share of yes among those who answered.

Notation    A and B are two sets of buckets that have no bucket in common. Y people are in A and N
            in B, and Ŷ and N̂ are their unbiased estimates. θ = Y/(Y+N) is the share, and 1 − α the
            confidence.
Interval    (1−θ)Y − θN = 0. So T(θ) = (1−θ)Ŷ − θN̂ is nothing but error, and its law is known for
            each θ. The interval consists of all θ in [0, 1] for which T(θ) is possible at level α
            (Fieller 1954), with the exact law in place of a normal law. It is [0, 1] if the data
            exclude no θ, or if Ŷ + N̂ is not positive. If A and B are all buckets, Y + N is the
            known number of people, and T(θ) is Ŷ − θ(Y+N).
Population  Given M = Y + N, Y is Bin(M, θ), where θ is the share of the population. So the
            difference Bin(M, θ) − Mθ is added to the error. M is unknown, so several M are tried,
            at level α − γ. The tried M come from an interval that contains the true M with
            probability 1 − γ.
Boxes       If people tick boxes, Y people ticked box A, and O people ticked a box that nobody ticks
            together with others, such as "no answer". Of n people, n − O remain, θ = Y/(n−O), and
            T(θ) = Ŷ + θÔ − θn is nothing but error.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headcount.core import checks
from headcount.core.bucket_sums import SumError, Weights, sum_error
from headcount.core.cached import cached_property
from headcount.core.contrasts.crowds import ratios
from headcount.core.errors import InvalidParameter
from headcount.core.estimate import Estimate, Interval

_GAMMA = 1e-3  # γ: the probability that the true M is outside the interval of the tried M
_CROWDS = 3  # the number of M that are tried


@dataclass(frozen=True)
class Share:
    """An estimated share and its interval. `method` says how the interval was computed.

    `value` is NaN if the estimated number of people among whom the share is taken is not positive.
    """

    value: float
    interval: Interval
    method: str

    @property
    def of_others(self) -> "Share":
        """The complement: the share of the people whom this share does not count."""
        low, high, confidence = self.interval.low, self.interval.high, self.interval.confidence
        return Share(1 - self.value, Interval(1 - high, 1 - low, confidence), self.method)

    def __str__(self) -> str:
        low, high = (100 * end for end in (self.interval.low, self.interval.high))
        value = "–" if math.isnan(self.value) else f"{100 * self.value:.1f} %"
        return f"{value} ({low:.1f} to {high:.1f})"

    def to_dict(self) -> dict[str, Any]:
        """The share for JSON. The value is null if it is NaN."""
        value = None if math.isnan(self.value) else self.value
        return {"value": value, "interval": self.interval.to_dict(), "method": self.method}


def share(
    estimate: Estimate,
    of: Any,
    among: Iterable[Any] | None = None,
    confidence: float = 0.95,
    *,
    without: Any = None,
    sampling: bool = False,
) -> Share:
    """The share of people in a bucket, or in several buckets, among those in the buckets `among`.

        share(answers, "yes", among=["yes", "no"])  # leaves out those who did not answer

    `among` must contain `of`. By default it has all buckets. The share is that of the people who
    took part or, with `sampling=True`, that of the population from which they were drawn.

    If people tick boxes, `of` is one box. People who ticked the box `without` are left out. Nobody
    may tick this box together with others.
    """
    checks.instance("estimate", estimate, Estimate)
    places = _places(estimate)
    if estimate.uses.shares == "boxes":
        return _box_share(estimate, of, among, without, confidence, sampling=sampling)
    if without is not None:
        raise InvalidParameter(
            f"`without` must come with boxes, got {checks.a_task(estimate.task)}",
            hint="use `among` instead",
        )
    counted = _chosen("of", of, places)
    everyone = set(places.values()) if among is None else _chosen("among", among, places)
    if not counted <= everyone:
        raise InvalidParameter(f"`among` must contain `of`, got {checks.shown(among)}")
    confidence = checks.confidence(confidence)
    return _Sets(estimate, frozenset(counted), frozenset(everyone)).share(
        confidence, sampling=sampling
    )


def _box_share(
    estimate: Estimate, of: Any, among: Any, without: Any, confidence: float, *, sampling: bool
) -> Share:
    places = _places(estimate)
    counted = _chosen("of", of, places)
    left_out = set() if without is None else _chosen("without", without, places)
    if len(counted) != 1 or len(left_out) > 1 or counted <= left_out or among is not None:
        raise InvalidParameter(
            "the share of a box must have one box `of`, and at most one other box `without`, got "
            f"{checks.shown(of)}, {checks.shown(without)} and `among` {checks.shown(among)}"
        )
    everyone = frozenset(places.values())
    sets = _Sets(estimate, frozenset(counted), everyone, frozenset(left_out))
    return sets.share(checks.confidence(confidence), sampling=sampling)


def _places(estimate: Estimate) -> dict[Any, int]:
    # In other tasks, buckets are not sets of people.
    if estimate.buckets is None or estimate.uses.shares is None:
        raise InvalidParameter(
            "`estimate` must have the buckets of a histogram or table, or boxes, got "
            f"{checks.a_task(estimate.task)}"
        )
    return {bucket: at for at, bucket in enumerate(estimate.buckets)}


def _chosen(name: str, chosen: Any, places: dict[Any, int]) -> set[int]:
    """The indices of one bucket or of several."""
    listed = isinstance(chosen, Iterable) and not isinstance(chosen, str)
    buckets: Sequence[Any] = list(chosen) if listed else [chosen]
    if not buckets or not all(_is_label(bucket) and bucket in places for bucket in buckets):
        raise InvalidParameter(
            f"`{name}` must be one or more of {checks.few(list(places))}, "
            f"got {checks.shown(chosen)}"
        )
    return {places[bucket] for bucket in buckets}


def _is_label(bucket: object) -> bool:
    return isinstance(bucket, str | int | float | np.integer)


@dataclass(frozen=True, eq=False)
class _Sets:
    """The sets A (`counted`) and A ∪ B (`everyone`), by the indices of their buckets. If people
    tick boxes, A is a box, and `left_out` is the box of the people who are left out, or empty.
    Otherwise `left_out` is None.
    """

    estimate: Estimate
    counted: frozenset[int]
    everyone: frozenset[int]
    left_out: frozenset[int] | None = None

    @cached_property
    def _of(self) -> Weights:
        """The weights of Y: 1 for each bucket in A, and 0 for all others."""
        return self._marked(self.counted)

    @cached_property
    def _among(self) -> Weights:
        """The weights of Y + N: 1 for each bucket in A or B, and 0 for all others."""
        return self._marked(self.everyone)

    def _marked(self, places: frozenset[int]) -> Weights:
        weights = np.zeros(np.size(self.estimate.value))
        weights[sorted(places)] = 1.0
        return weights

    @property
    def _known(self) -> int | None:
        """The number of people in A or B, or None if it is not known."""
        if self.left_out is not None:
            return None if self.left_out else self.estimate.users
        whole = len(self.everyone) == np.size(self.estimate.value)
        return self.estimate.users if whole and self.estimate.total is not None else None

    def _sum(self, weights: Weights) -> float:
        return float(weights @ self.estimate.unbiased_value)

    @property
    def _total(self) -> float:
        """The estimated number of people in A or B."""
        if self.left_out:
            return self.estimate.users - self._sum(self._marked(self.left_out))
        return self._sum(self._among)

    def share(self, confidence: float, *, sampling: bool) -> Share:
        wrong = 1 - confidence
        people: list[int] = []
        if sampling:
            people, spent = self._crowds()
            wrong -= spent

        def is_possible(angle: float) -> bool:
            across, up = math.cos(angle), math.sin(angle)
            return self._is_possible(up / (across + up), wrong, people)

        total = self._known or self._total
        counted = self._sum(self._of)
        likely = math.atan2(counted, total - counted)
        low, high = (_share_of(ratio) for ratio in ratios(is_possible, likely))
        if total <= 0:  # the estimates say nothing about the share
            low, high = 0.0, 1.0
        value = min(max(counted / total, low), high) if total > 0 else math.nan
        method = self._error(0.5).method
        return Share(value, Interval(low, high, confidence), method)

    def _weights(self, share: float) -> Weights:
        """The weights in T(θ): 1−θ for each bucket in A and −θ for each in B, or 1 and 0 if Y + N
        is known. With boxes, they are 1 for A and θ for the box of the people who are left out.
        """
        if self.left_out:
            return self._of + share * self._marked(self.left_out)
        return self._of if self._known is not None else self._of - share * self._among

    def _error(self, share: float) -> SumError:
        return sum_error(self.estimate.error_law, self._weights(share))

    def _statistic(self, share: float) -> float:
        """T(θ)"""
        fixed = self.estimate.users if self.left_out else self._known or 0
        return self._sum(self._weights(share)) - share * fixed

    def _is_possible(self, share: float, wrong: float, people: list[int]) -> bool:
        """Whether a test allows θ to be this share, for at least one M in `people`. If `people` is
        empty, the test is about the crowd itself.
        """
        error, statistic = self._error(share), self._statistic(share)
        if not people:
            return error.is_possible(statistic, wrong)
        return any(error.sampled(drawn, share).is_possible(statistic, wrong) for drawn in people)

    def _crowds(self) -> tuple[list[int], float]:
        """Some possible values of M, and the probability that M is not in their range: 0 or γ."""
        if self._known is not None:
            return [self._known], 0.0
        if self.left_out:  # the margins are swapped, since fewer people remain if more are left out
            out = sum_error(self.estimate.error_law, self._marked(self.left_out))
            above, below = out.margins(1 - _GAMMA)
        else:
            below, above = sum_error(self.estimate.error_law, self._among).margins(1 - _GAMMA)
        total, users = self._total, self.estimate.users
        low, high = (min(max(end, 0.0), users) for end in (total - above, total + below))
        tried = np.linspace(math.floor(high), math.ceil(min(low, high)), _CROWDS)
        return [int(number) for number in dict.fromkeys(np.rint(tried).tolist())], _GAMMA


def _share_of(ratio: float) -> float:
    """Y/(Y+N) for the ratio Y/N."""
    return 1.0 if math.isinf(ratio) else ratio / (1 + ratio)
