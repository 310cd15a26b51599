"""The least noise that is private: search, and look again at what was found."""

from collections.abc import Callable


def least_private(
    delta_at: Callable[[int], float], delta: float, *, start: int, stop: int, steps: int = 10
) -> int | None:
    """The least amount of noise in [start, stop], in whole units, with delta_at(noise) ≤ delta.

    δ falls with more noise, but not without waves, and may rise again at the end of the range: so
    first walk up from `start` to the first amount that is private, by one part in `steps` at a
    time, then bisect the last step. None if no step is private. The answer was evaluated, and is on
    the private side.
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
