"""A chain of hashes that shows damage: each is of a row and of the hash before it.

It guards against damage, not against people. Whoever may write to a ledger can compute the hashes
anew, and an older copy of a ledger has the right hashes, too.
"""

import hashlib
import json
from collections.abc import Sequence


def link(before: str, row: Sequence[object]) -> str:
    """SHA-256 of the hash before and a row of texts, whole numbers and Nones."""
    return hashlib.sha256(json.dumps([before, *row]).encode()).hexdigest()
