"""Hashes that hang together, so that damage is seen: each is of a row and of the hash before it.

Whoever may write to a ledger can compute them anew, and an older copy of a ledger has hashes that
are right: they guard against damage, not against people.
"""

import hashlib
import json
from collections.abc import Sequence


def link(before: str, row: Sequence[object]) -> str:
    """SHA-256 of the hash before and a row of texts, whole numbers and Nones."""
    return hashlib.sha256(json.dumps([before, *row]).encode()).hexdigest()
