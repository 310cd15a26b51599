"""The size of a message after it is sealed (encrypted) for the analyzer.

Each message is sealed separately, with HPKE (RFC 9180): X25519, HKDF-SHA256 and AES-128-GCM. A
sealed message consists of a fresh public key, the encrypted content, and an authentication tag. The
content has the same size for all messages of a protocol. This size is a multiple of 64 bytes.
Besides the message, the content holds a version, the number of the question, a mark that tells
messages from dummies, and a digest of the survey.
"""

from headcount.core.messages import Alphabet

_KEY, _TAG = 32, 16
HEADER = 4 + 16  # 4 bytes for the version, the question and the mark, and 16 for the digest
_BLOCK = 64
OVERHEAD = _KEY + _TAG  # what sealing adds to the size of the content
LEAST_SIZE = OVERHEAD + _BLOCK  # the size of a sealed message with short content


def sealed_size(alphabet: Alphabet) -> int:
    """The number of bytes of one sealed message."""
    blocks = -(-(HEADER + alphabet.bytes_per_message) // _BLOCK)
    return OVERHEAD + blocks * _BLOCK
