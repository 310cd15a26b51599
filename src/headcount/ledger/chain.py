"""A chain of hashes that shows damage. Each hash is computed from a row and the hash before it.

It protects against damage, not against people. Anyone who may write to a ledger can compute the
hashes anew. An older copy of a ledger also has correct hashes.
"""

import hashlib
import json
from collections.abc import Sequence


def link(before: str, row: Sequence[object]) -> str:
    """The SHA-256 of the previous hash and a row. A row holds texts, whole numbers and Nones."""
    return hashlib.sha256(json.dumps([before, *row]).encode()).hexdigest()
