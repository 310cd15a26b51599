"""The size of a message after it is sealed for the analyzer.

A message is sealed by itself, with HPKE (RFC 9180): X25519, HKDF-SHA256 and AES-128-GCM. The sealed
message has a fresh public key, the encrypted content, and an authentication tag. All contents of a
protocol have the same size, a multiple of 64 bytes. Beside the message, a content holds a version,
the number of the question, whether the message is a dummy, and a digest of the survey.
"""

from headcount.core.messages import Alphabet

_KEY, _TAG = 32, 16
_HEADER = 4 + 16  # version, question and kind, and the digest
_BLOCK = 64
LEAST_SIZE = _KEY + _BLOCK + _TAG  # the size of a sealed message with a short content


def sealed_size(alphabet: Alphabet) -> int:
    """The number of bytes of one sealed message."""
    blocks = -(-(_HEADER + alphabet.bytes_per_message) // _BLOCK)
    return _KEY + blocks * _BLOCK + _TAG
