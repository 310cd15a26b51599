"""A chain of hashes that reveals damaged rows. Each hash covers a row and the previous hash.

The chain does not protect against people. Anyone who may write to a ledger can change a row and
compute the hashes again. An older copy of a ledger also has correct hashes.
"""

import hashlib
import json
from collections.abc import Sequence


def link(before: str, row: Sequence[object]) -> str:
    """The SHA-256 hash of the previous hash and a row. A row has strings, integers and None."""
    return hashlib.sha256(json.dumps([before, *row]).encode()).hexdigest()
