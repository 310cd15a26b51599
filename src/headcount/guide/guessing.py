"""Part 3, what does it hide: how often an attacker guesses right, and what ε permits."""

from typing import Any


def numbers() -> dict[str, Any]:
    return {}
