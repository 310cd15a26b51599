"""A tree of counts with fake users, or with noise that the shuffler adds.

Such trees were proposed by Hay, Rastogi, Miklau, Suciu 2010. Noise from fake users was proposed by
Luo, Wang, Yi 2022 and Cheu, Zhilyaev 2022, and noise from a shuffler was proposed by Murakami, Sei,
Eriguchi 2025.

Notation    Each of n people is in one of N cells; m people are honest. The tree has h levels (see
            `protocols.tree`) and M nodes in total. μ is the expected number of noise messages per
            node that all honest people together send. a = e^{−ε/(2h)}. An edge is the border
            between two neighboring cells.
Randomizer  Send h messages: on each level, the node to which the person's cell belongs. No two
            nodes have the same number, so a message tells its level. With fake users, also send
            Poisson(Mμ/m) noise messages, each a uniform node. After shuffling, the messages of one
            person are not linked.
Shuffler    With `noise="shuffler"`, the shuffler adds T + Z messages of every node, with P(Z = z)
            proportional to a^|z| for |z| ≤ T. T is the least number that the budget allows. With
            fake users, the shuffler only mixes the messages.
Analyzer    The number of messages of each node, minus the mean of the noise. Then a tree is fitted
            to these counts by least squares. The number of people below an edge is estimated by the
            sum of the fitted cells below this edge.
Privacy     If a person's cell is replaced by a cell below another node of the first level, the
            person's message changes on every level. So the view changes in h pairs of nodes, and no
            replacement changes more nodes. Fake users: the noise X of the honest people is
            Poisson(μ) in every node, independently. X' is an independent copy of X. δ is the
            divergence of (X+1, X') and (X, X'+1), for h pairs of nodes together. With more than one
            level, the computation rounds δ up by about 0.03 % (see `accounting.moved_pairs`).
            Shuffler: the privacy losses of all 2h nodes add up to at most ε, unless the noise of
            one of these nodes is at an end of its range. δ is the probability of this exception.
Error       Unbiased. `protocols.tree` states the variance, and `protocols.tree_error` computes the
            exact law. Without the option `fanouts`, the shape of the tree minimizes the mean
            squared error of the share of people below an edge, averaged over edges. With h levels,
            μ is about h times as large as with one level, but the variance of the shuffler's noise
            is about h² times as large. So the best tree has more levels with fake users than with
            the shuffler's noise.
Messages    With fake users, h + Mμ/m messages per person on average. With the shuffler's noise, h
            messages per person, and on average M·T dummies in total. The local ε is infinite.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from headcount.accounting import laws
from headcount.accounting.bucket_noise import BucketCurve, BucketNoise, least_bucket_noise
from headcount.accounting.moved_pairs import moved_curve
from headcount.core import checks
from headcount.core.budget import MOST_EPSILON, Budget, Crowd, Trust
from headcount.core.cached import cached_property
from headcount.core.errors import Infeasible
from headcount.core.guarantee import Guarantee, NearCurve, PrivacyCurve
from headcount.core.influence import Shifts
from headcount.core.limits import Limits
from headcount.core.messages import Alphabet, Messages
from headcount.core.promise import check_curve, promise
from headcount.core.randomizer import BundleLaw, Randomizer
from headcount.core.shuffler import Shuffler
from headcount.core.source import Source
from headcount.core.table import short
from headcount.core.tally import Tally
from headcount.core.task import Holding, Task
from headcount.protocols.dummies import BucketDummies, DummyShuffler
from headcount.protocols.shuffle.fake_users import BucketRandomizer, joint_noise, least_joint_noise
from headcount.protocols.shuffle.noisy_shuffler import SHUFFLER_KNOWS
from headcount.protocols.tree import Tree, best_fanouts, shapes
from headcount.protocols.tree_error import (
    PoissonNoise,
    TreeNoise,
    TruncatedNoise,
)
from headcount.protocols.tree_estimator import TreeEstimator, best_pure_fanouts
from headcount.protocols.tree_protocol import TreeProtocol
from headcount.randomness.totals import poisson

# Randomizer -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class PathRandomizer(Randomizer):
    """Sends, for each level, the node to which the person's cell belongs."""

    tree: Tree

    @property
    def fixed_messages(self) -> int:
        return self.tree.levels

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet.numbers(self.tree.nodes)

    @property
    def instructions(self) -> Mapping[str, Any]:
        return {"kind": "path", "fanouts": list(self.tree.fanouts)}

    def send(self, encoded: NDArray[Any], source: Source) -> Messages:
        nodes = self.tree.paths(encoded).astype(self.alphabet.dtype)
        counts = np.broadcast_to(np.int64(self.tree.levels), len(encoded))
        return Messages(nodes.reshape(-1), len(encoded), counts)

    def law(self, value: int) -> BundleLaw:
        path = self.tree.paths(np.array([value]))[0].tolist()
        return {tuple((node, 1) for node in path): Fraction(1)}


@dataclass(frozen=True)
class NoisyPathRandomizer(BucketRandomizer):
    """Sends the person's node on each level, and noise messages, each a uniform node."""

    tree: Tree

    @property
    def own_messages(self) -> int:
        return self.tree.levels

    @property
    def own_instructions(self) -> Mapping[str, Any]:
        return {"kind": "path", "fanouts": list(self.tree.fanouts)}

    def own(self, encoded: NDArray[Any]) -> NDArray[Any]:
        return self.tree.paths(encoded)


# Analyzer and its error -----------------------------------------------------------------------


@dataclass(frozen=True)
class CountedTree(TreeEstimator):
    """Counts the messages of each node, and subtracts the mean of the noise."""

    # The expected numbers of noise messages of a node: those of one person, and those of the
    # shuffler.
    noise_per_person: Fraction
    added: int

    @property
    def tally_size(self) -> int:
        return self.tree.nodes

    def noise_of(self, users: int) -> TreeNoise:
        if self.added:
            return self.noise
        return TreeNoise.alike(self.tree, PoissonNoise(float(self.noise_per_person * users)))

    def simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        cells = np.zeros(self.tree.cells, dtype=np.int64)
        cells[: self.task.cells] = held.counts
        counts = self.tree.node_counts(cells)
        if self.added:  # the shuffler adds its noise later
            return counts
        return counts + poisson(source, self.noise_per_person * held.users, self.tree.nodes)

    def noisy_counts(self, tally: Tally, source: Source | None) -> NDArray[np.float64]:
        mean = float(self.noise_per_person * tally.users + self.added)
        return tally.counts.astype(np.float64) - mean

    def shifts(self, users: int, alphabet: Alphabet) -> Shifts:
        # One more person adds 1 to the known total, and adds to the mean noise that is subtracted.
        fit, noise = self.fit, float(self.noise_per_person)
        person = fit.cells(np.full(self.tree.nodes, -noise), 1.0)
        least, most = fit.extreme_coefficients(np.arange(1, self.task.cells))
        return Shifts(
            most=most,
            least=least,
            person=np.cumsum(person)[: self.task.cells - 1],
            everywhere=self.tree.levels == 1 and self.task.cells > 2,
        ).scaled(1 / users)


# Calibration and privacy ----------------------------------------------------------------------


@lru_cache(maxsize=64)
def _best_with_fake_users(cells: int, budget: Budget) -> tuple[int, ...] | None:
    def variance(levels: int) -> float | None:
        noise = least_joint_noise(budget, levels)
        return None if noise is None else float(noise)

    return None if variance(1) is None else best_fanouts(cells, variance)


@dataclass(frozen=True)
class ShuffledTree(TreeProtocol):
    name = "shuffle.tree"
    trust = Trust.SHUFFLE

    # Who adds the noise: the people themselves (fake users), or the shuffler.
    noise: Literal["fake-users", "shuffler"] = "fake-users"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_curve(self)

    @classmethod
    def settings_within(
        cls, task: Task, budget: Budget, crowd: Crowd, limits: Limits
    ) -> Iterator[dict[str, Any]]:
        yield {}
        build: Callable[..., ShuffledTree] = cls  # the task is known to be a distribution
        if budget.delta == 0:
            return
        # With fewer levels, people send fewer messages of their own. With fewer nodes, they send
        # less noise.
        found = []
        for fanouts in shapes(task.domain):
            options = {"fanouts": ",".join(map(str, fanouts))}
            try:
                found.append((build(task, budget, crowd, **options), options))
            except Infeasible:
                continue
        allowed = [one for one in found if limits.allow(one[0])]
        if allowed:
            yield min(allowed, key=lambda one: one[0].estimator.ranking_error(crowd.users))[1]
        elif found:
            yield min(found, key=lambda one: one[0].messages_per_user)[1]

    def check_options(self) -> None:
        checks.choice("noise", self.noise, ("fake-users", "shuffler"))
        super().check_options()
        if self.budget.delta == 0:
            raise Infeasible(
                f"{self.name} needs delta above 0: noise messages can only be added",
                nearest={"delta": 1e-9},
            )

    @property
    def by_shuffler(self) -> bool:
        return self.noise == "shuffler"

    def best_fanouts(self) -> tuple[int, ...]:
        cells, budget = self.task.cells, self.budget
        if self.by_shuffler:
            return best_pure_fanouts(cells, budget.epsilon)
        # If no noise is enough for one level, no noise is enough for more levels. Then any shape
        # will do, since `noise_per_node` raises an error.
        return _best_with_fake_users(cells, budget) or (cells,)

    @cached_property
    def noise_per_node(self) -> Fraction:
        """The expected number μ of noise messages per node, if people add the noise."""
        return joint_noise(self, self.tree.levels, self.tree.nodes)

    @cached_property
    def dummies(self) -> BucketNoise:
        """The law of the numbers T + Z of dummies, if the shuffler adds the noise."""
        budget, levels = self.budget, self.tree.levels

        def least(epsilon: float) -> BucketNoise | None:
            return least_bucket_noise(
                Fraction(epsilon) / (2 * levels),
                self.tree.nodes,
                budget.delta,
                fixed_total=False,
                moves=levels,
            )

        found = least(budget.epsilon)
        if found is not None:
            return found
        nearest = 2 * budget.epsilon
        while nearest < MOST_EPSILON and least(nearest) is None:
            nearest *= 2
        raise Infeasible(
            f"{self.name} needs too many dummies for epsilon={short(budget.epsilon)}, "
            f"delta={short(budget.delta)} and {levels} levels",
            nearest={"epsilon": min(nearest, MOST_EPSILON)},
        )

    @cached_property
    def randomizer(self) -> PathRandomizer | NoisyPathRandomizer:
        if self.by_shuffler:
            return PathRandomizer(self.tree)
        share = self.noise_per_node / self.crowd.honest
        return NoisyPathRandomizer(self.tree.nodes, share, self.tree)

    @cached_property
    def shuffler(self) -> Shuffler:
        if not self.by_shuffler:
            return Shuffler()
        return DummyShuffler(dummies=BucketDummies(self.dummies), each=self.tree.levels)

    @cached_property
    def estimator(self) -> CountedTree:
        if self.by_shuffler:
            dummies = TreeNoise.alike(self.tree, TruncatedNoise(self.dummies.bucket))
            return CountedTree(self.task, dummies, Fraction(0), self.dummies.most // 2)
        share = self.noise_per_node / self.crowd.honest
        noise = TreeNoise.alike(self.tree, PoissonNoise(float(share * self.crowd.users)))
        return CountedTree(self.task, noise, share, 0)

    @property
    def parameters(self) -> Mapping[str, float]:
        shape = {"levels": self.tree.levels, "nodes": self.tree.nodes}
        if self.by_shuffler:
            return {**shape, "dummies": self.dummies.most, "all_dummies": self.dummies.total}
        return {**shape, "noise_per_node": float(self.noise_per_node)}

    @cached_property
    def curve(self) -> PrivacyCurve:
        if self.by_shuffler:
            return BucketCurve(self.dummies, self.tree.levels)
        known = moved_curve(laws.poisson(self.noise_per_node), self.tree.levels)
        randomizer = self.randomizer
        assert isinstance(randomizer, NoisyPathRandomizer)
        return NearCurve(known, self.crowd.honest * randomizer.share.total_variation)

    @cached_property
    def guarantee(self) -> Guarantee:
        delta = self.curve.delta(self.budget.epsilon)
        if self.by_shuffler:
            return promise(
                self,
                "law of the dummies of two nodes per level",
                delta=delta,
                honest=1,
                relies_on=SHUFFLER_KNOWS,
            )
        return promise(self, "law of two nodes per level, all levels together", delta=delta)

    @property
    def local_epsilon(self) -> float:
        return math.inf
