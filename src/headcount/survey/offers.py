"""Offers. An offer is a protocol for a release, before its amount of noise is chosen.

All errors here are relative: they are shares of the possible range of the answer, divided by the
weight of the question. An offer says how private a release with a given relative error is. The
split of the budget chooses the error, and the offer builds the protocol that has this error.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator

from headcount.accounting import laws
from headcount.accounting.divergence import SymmetricCurve
from headcount.accounting.joint_curve import Observations, observations_of
from headcount.accounting.moved_pairs import boxes_curve, moved_curve
from headcount.core.budget import LEAST_DELTA, LEAST_EPSILON, MOST_EPSILON, Budget, Crowd
from headcount.core.bundles import RESERVED
from headcount.core.cached import cached_property
from headcount.core.errors import Infeasible
from headcount.core.guarantee import PrivacyCurve
from headcount.core.protocol import Protocol, option_names
from headcount.core.task import Task
from headcount.protocols.registry import protocol
from headcount.protocols.shuffle.fake_users import GRAIN
from headcount.survey.design import Ask

_SMALLEST = 1 / 4  # the smallest ε that is tried, as a fraction of an equal share of the budget


@dataclass(frozen=True, eq=False)
class Offer(ABC):
    """A protocol for the questions `asks`, which are answered by one release of `task`."""

    asks: tuple[Ask, ...]
    task: Task
    name: str
    crowd: Crowd
    budget: Budget  # the budget of the whole survey
    sharing: int  # how many releases share the budget, over all waves
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def weight(self) -> float:
        return self.asks[0].weight

    @property
    def key(self) -> Hashable:
        """Offers with the same key build the same protocol for the same error."""
        return self.name, repr(self.task), repr(dict(self.options)), self.weight, len(self.asks)

    @property
    def words(self) -> str:
        """The questions, for error messages."""
        return ", ".join(repr(ask.id) for ask in self.asks)

    def relative(self, built: Protocol) -> float:
        """The relative error of a protocol."""
        users = self.crowd.users
        size = self.asks[0].task.answer_size(users)
        return built.estimator.ranking_error(users) / (size * self.weight)

    @abstractmethod
    def observations(self, error: float, *, quick: bool = False) -> Observations:
        """What an adversary observes if the release has this relative error. If `quick`, the result
        may understate the privacy loss a little, so only searches use it.
        """

    @property
    def has_quick(self) -> bool:
        """Whether `observations` gives a different result if `quick`."""
        return False

    @abstractmethod
    def build(self, error: float) -> Protocol:
        """The protocol with about this relative error."""

    @property
    @abstractmethod
    def errors(self) -> tuple[float, float]:
        """The smallest and the largest relative error that may be asked for."""

    @property
    @abstractmethod
    def guess(self) -> float:
        """An error with which a search begins. Any error will do."""

    def _built(self, budget: Budget) -> Protocol:
        return protocol(self.name, self.task, budget, self.crowd, **self.options)


@dataclass(frozen=True, eq=False)
class PoissonOffer(Offer):
    """People add Poisson noise to all buckets. The error is proportional to the square root of the
    mean of this noise.
    """

    @cached_property
    def _reference(self) -> Protocol:
        """A protocol of this kind, with any amount of noise. It shows which options all protocols
        of this offer have, and how the error depends on the noise.
        """
        share = math.sqrt(self.sharing)
        budget = Budget(self.budget.epsilon / share, max(self.budget.delta / 2, LEAST_DELTA))
        built = self._built(budget)
        # Protocols with a different amount of noise must have the same tree.
        shape = getattr(getattr(built, "tree", None), "fanouts", None)
        if shape is None:
            return built
        fanouts = ",".join(map(str, shape))
        return protocol(
            self.name, self.task, budget, self.crowd, **{**self.options, "fanouts": fanouts}
        )

    @cached_property
    def _unit(self) -> float:
        """The relative error if the mean of the noise is 1."""
        return self.relative(self._reference) / math.sqrt(poisson_noise(self._reference))

    def _curve(self, error: float) -> PrivacyCurve:
        noise = max(1, round((error / self._unit) ** 2 * GRAIN))
        if self.task.value_kind == "collections":
            found = self.task.settings
            return _boxes_curve(noise, len(found["labels"]), found["at_most"])
        pairs = self._reference.parameters.get("levels", self.task.histograms)
        return _pairs_curve(noise, int(pairs))

    def observations(self, error: float, *, quick: bool = False) -> Observations:
        return observations_of(self._curve(error))[0]

    def build(self, error: float) -> Protocol:
        """The protocol with about this relative error. Its budget is a point on the curve of its
        noise.
        """
        curve, reference = self._curve(error), self._reference
        options = {name: getattr(reference, name) for name in option_names(type(reference))}
        for delta in (self.budget.delta / self.sharing, self.budget.delta):
            if delta < LEAST_DELTA:
                continue
            # A curve of several pairs rounds ε up, by at most one part in 10,000. This much is
            # taken off again.
            epsilon = curve.epsilon(delta * (1 - RESERVED)) * (1 - 1e-4)
            if epsilon <= MOST_EPSILON:
                budget = Budget(max(epsilon, LEAST_EPSILON), delta)
                return protocol(self.name, self.task, budget, self.crowd, **options)
        raise Infeasible(f"no noise of {self.name} is enough for {self.words}")

    @property
    def errors(self) -> tuple[float, float]:
        return self._unit, 1e4 * self._unit

    @property
    def guess(self) -> float:
        return self.relative(self._reference)


# These curves are cached, because surveys of other crowds need them again.


@lru_cache(maxsize=256)
def _boxes_curve(noise: int, boxes: int, ticks: int) -> PrivacyCurve:
    return boxes_curve(laws.poisson(Fraction(noise, GRAIN)), boxes, ticks)


@lru_cache(maxsize=256)
def _pairs_curve(noise: int, pairs: int) -> PrivacyCurve:
    return moved_curve(laws.poisson(Fraction(noise, GRAIN)), pairs)


@dataclass(frozen=True, eq=False)
class ScaledOffer(Offer):
    """A protocol whose noise grows as its ε falls. The error is tabulated for some ε."""

    points: int = field(default=17, kw_only=True)  # how many ε are tabulated
    _made: dict[float, Protocol] = field(default_factory=dict, init=False, repr=False)

    @property
    def delta(self) -> float:
        """The δ of the protocol, if it needs one."""
        return max(self.budget.delta / (4 * self.sharing), LEAST_DELTA) if self.budget.delta else 0

    def protocol(self, epsilon: float) -> Protocol:
        """The protocol with this ε."""
        return self._built(Budget(epsilon, self.delta))

    @cached_property
    def _table(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The logarithms of some errors, in ascending order, and the logarithm of the ε that each
        of them needs.
        """
        most = self.budget.epsilon
        tried = np.geomspace(most * _SMALLEST / self.sharing, most, self.points)
        found: list[tuple[float, float]] = []
        refusal: Infeasible | None = None
        for epsilon in tried.tolist():
            try:
                found.append((self.relative(self.protocol(epsilon)), epsilon))
            except Infeasible as error:
                refusal = error
        falling = [
            point for at, point in enumerate(found) if not at or point[0] < min(found[:at])[0]
        ]
        if not falling:
            reason = "" if refusal is None else f": {refusal.message}"
            nearest = {} if refusal is None else refusal.nearest
            raise Infeasible(f"the budget is too small for {self.words}{reason}", nearest=nearest)
        errors, epsilons = (np.log(column) for column in np.transpose(falling[::-1]))
        return errors, epsilons

    def epsilon(self, error: float) -> float:
        """The ε for this relative error. For errors above the table, ε is proportional to 1/error.
        For errors below the table, it is the largest ε of the table.
        """
        errors, epsilons = self._table
        wanted = math.log(error)
        inside = min(max(wanted, float(errors[0])), float(errors[-1]))
        found = PchipInterpolator(errors, epsilons)(inside) if len(errors) > 1 else epsilons[0]
        return math.exp(min(float(found) + inside - wanted, float(epsilons[0])))

    def observations(self, error: float, *, quick: bool = False) -> Observations:
        curve = self.build(error).curve
        if quick and isinstance(curve, SymmetricCurve):
            curve = curve.quick
        return observations_of(curve)[0]

    @property
    def has_quick(self) -> bool:
        curve = self.build(self.guess).curve
        return isinstance(curve, SymmetricCurve) and curve.quick_at is not None

    def build(self, error: float) -> Protocol:
        if error not in self._made:
            self._made[error] = self.protocol(self.epsilon(error))
        return self._made[error]

    @property
    def errors(self) -> tuple[float, float]:
        errors, _ = self._table
        return math.exp(float(errors[0])), math.exp(float(errors[-1])) * 1e4

    @property
    def guess(self) -> float:
        return self.errors[0]


def poisson_noise(built: Protocol) -> float:
    """The mean of the Poisson noise in each bucket."""
    return next(value for name, value in built.parameters.items() if name.startswith("noise_per_"))


def least_split(offers: Sequence[Offer], epsilon: float) -> float:
    """The smallest relative error that all releases can have if their ε add up to `epsilon`."""

    def spent(error: float) -> float:
        return math.fsum(offer.epsilon(error) for offer in offers if isinstance(offer, ScaledOffer))

    low = max(offer.errors[0] for offer in offers)
    high = max(low, *(offer.errors[1] for offer in offers))
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if spent(middle) > epsilon else (low, middle)
    return high
