"""Local randomizers that are given as a matrix of probabilities."""

import math
from itertools import combinations
from typing import Any

import numpy as np

import headcount as hc

BUDGET, CROWD, THREE = hc.Budget(1), hc.Crowd(1000), hc.Histogram(3)


class Response(hc.MatrixProtocol):
    """k-ary randomized response in floats, written in the usual way."""

    name = "local.my-response"

    def matrix(self) -> Any:
        k, ratio = self.task.domain, math.exp(self.budget.epsilon)
        return (np.ones((k, k)) + (ratio - 1) * np.eye(k)) / (ratio + k - 1)


class Shy(hc.MatrixProtocol):
    """One in four people sends nothing."""

    name = "local.shy"
    tasks = (hc.Count,)

    def matrix(self) -> Any:
        truth = 0.75 / (1 + math.exp(-self.budget.epsilon))
        return [[truth, 0.75 - truth, 0.25], [0.75 - truth, truth, 0.25]]


class Uneven(hc.MatrixProtocol):
    """The truth, or a bucket with unequal probabilities."""

    name = "local.uneven"
    tasks = (hc.Histogram,)

    def matrix(self) -> Any:
        blind = np.array([3, 2, 1]) / 6
        odds = math.expm1(self.budget.epsilon) / 6
        return (blind + odds * np.eye(3)) / (1 + odds)


class Pairs(hc.MatrixProtocol):
    """A random pair of buckets, which contains the person's own more often."""

    name = "local.pairs"
    tasks = (hc.Histogram,)

    def matrix(self) -> Any:
        k, ratio = self.task.domain, math.exp(self.budget.epsilon)
        rows = np.array([[x in pair for pair in combinations(range(k), 2)] for x in range(k)])
        weights = np.where(rows, ratio, 1.0)
        return weights / weights.sum(axis=1, keepdims=True)


class Leaking(hc.MatrixProtocol):
    """The raw value with probability δ, and otherwise k-ary randomized response."""

    name = "local.leaking"
    tasks = (hc.Histogram,)

    def matrix(self) -> Any:
        k, ratio, leak = self.task.domain, math.exp(self.budget.epsilon), 0.05
        hidden = (np.ones((k, k)) + (ratio - 1) * np.eye(k)) / (ratio + k - 1)
        return np.hstack([(1 - leak) * hidden, leak * np.eye(k)])


class Coin(hc.MatrixProtocol):
    """A protocol with ε = ln 3 for every budget."""

    name = "local.coin"
    tasks = (hc.Count,)

    def matrix(self) -> Any:
        return [[3, 1], [1, 3]]


def small(kind: type[hc.Protocol], task: hc.Task, budget: hc.Budget = BUDGET) -> hc.Protocol:
    return kind(task, budget, hc.Crowd(5))
