"""A search for the smallest amount of noise that is private."""

from collections.abc import Callable


def least_private(
    delta_at: Callable[[int], float], delta: float, *, start: int, stop: int, steps: int = 10
) -> int | None:
    """The smallest integer amount of noise in [start, stop] with delta_at(noise) ≤ delta.

    δ falls with more noise, but not monotonically, and it may rise again at the end of the range.
    So the search first walks up from `start`, by one part in `steps` at a time, to the first amount
    that is private. Then it bisects the last step. The result has been verified to be private. It
    is None if the walk meets no private amount.
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
