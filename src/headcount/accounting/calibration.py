"""A search for the smallest amount of noise that makes δ small enough."""

from collections.abc import Callable


def least_private(
    delta_at: Callable[[int], float], delta: float, *, start: int, stop: int, steps: int = 10
) -> int | None:
    """The smallest integer amount of noise in [start, stop] with delta_at(noise) ≤ delta.

    δ usually falls as the noise grows, but it is not monotone, and it may rise again at the end of
    the range. So the search first walks up from `start`. Each step adds a fraction 1/steps of the
    noise, but at least 1. When δ is small enough, the search bisects the last step. The result has
    been verified. It is None if δ is never small enough on the walk.
    """
    insufficient, noise = start - 1, start
    while delta_at(noise) > delta:
        if noise >= stop:
            return None
        insufficient, noise = noise, min(stop, noise + max(1, noise // steps))
    private = noise
    while private - insufficient > 1:
        middle = (insufficient + private) // 2
        if delta_at(middle) <= delta:
            private = middle
        else:
            insufficient = middle
    return private
