"""Assesses a protocol with the options that best meet the requirements of a plan."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

from headcount.core.budget import Budget, Crowd
from headcount.core.limits import Limits
from headcount.core.protocol import Protocol
from headcount.core.task import Task
from headcount.planner.candidate import Candidate, Refusal, assess
from headcount.planner.wishes import Wishes
from headcount.protocols.registry import protocol_class

_TRIES = 3  # how often a smaller number of slots is tried if one person has too much influence


def assess_within(
    name: str,
    task: Task,
    budget: Budget,
    crowd: Crowd,
    wishes: Wishes,
    confidence: float = 0.95,
    keep: Callable[[Protocol], None] = lambda built: None,
) -> Candidate | Refusal:
    """The errors and costs of a protocol, or its refusal with settings that would be feasible.

    Some protocols can trade messages or slots for error. Such a protocol gets the options with the
    least error among those that fulfill the wishes. If one person would have too much influence,
    fewer slots are tried.
    """
    kind, limits = protocol_class(name, task), wishes.limits
    tried: list[Mapping[str, Any]] = []
    results: list[Candidate | Refusal] = []

    def attempt(settings: Iterable[Mapping[str, Any]]) -> None:
        for options in settings:
            if options not in tried:
                tried.append(options)
                results.append(assess(name, task, budget, crowd, confidence, keep, **options))

    limited = limits != Limits()
    attempt(kind.settings_within(task, budget, crowd, limits) if limited else [{}])
    for _ in range(_TRIES):
        best = _best(results, wishes)
        slots = None if best is None else wishes.fewer_slots(best)
        if slots is None:
            break
        attempt(kind.settings_within(task, budget, crowd, replace(limits, slots=slots)))
    result = _best(results, wishes) or results[0]
    if isinstance(result, Candidate) or result.feasible:
        return result
    for setting, others in _other_settings(budget, crowd):
        if isinstance(assess(name, task, *others, confidence), Candidate):
            return replace(result, feasible=setting)
    return result


def _best(results: list[Candidate | Refusal], wishes: Wishes) -> Candidate | None:
    """The candidate with the least error among those that fulfill all wishes. If none does, the
    result is the candidate that exceeds its limits by the smallest factor.
    """
    candidates = [result for result in results if isinstance(result, Candidate)]

    def rank(candidate: Candidate) -> tuple[float, float]:
        beyond = max((miss.times for miss in wishes.misses(candidate)), default=0.0)
        return beyond, candidate.expected_error

    return min(candidates, key=rank, default=None)


def _other_settings(
    budget: Budget, crowd: Crowd
) -> Iterator[tuple[dict[str, float], tuple[Budget, Crowd]]]:
    """Settings that may be feasible. First, ε, δ or the crowd changes alone, then all of them."""
    others = [
        *({"epsilon": epsilon} for epsilon in (0.01, 0.1, 1.0) if epsilon > budget.epsilon),
        *({"epsilon": epsilon} for epsilon in (8.0, 2.0) if 4 * epsilon < budget.epsilon),
        *({"delta": delta} for delta in (1e-9, 1e-6) if delta > budget.delta),
    ]
    for changed in others:
        yield changed, (replace(budget, **changed), crowd)
    users = max(100 * crowd.users, 100_000)
    larger = Crowd(users, max(1, users * crowd.honest // crowd.users))
    yield {"users": users}, (budget, larger)
    usual = Budget(1.0, max(budget.delta, 1e-6))
    yield {**asdict(usual), "users": users}, (usual, larger)
