"""Part 2, one lie in a crowd: randomized response, and how exact its estimate is."""

from typing import Any


def numbers() -> dict[str, Any]:
    return {}
