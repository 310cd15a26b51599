"""Sealing: a device encrypts each message separately for the analyzer, with HPKE (RFC 9180).

The suite is DHKEM(X25519, HKDF-SHA256), HKDF-SHA256 and AES-128-GCM, in base mode. The `info` of
HPKE is a fixed text followed by the digest of the survey's document. So a message that was sealed
for one survey does not open in another.

A release is one run of a protocol, which answers one or more questions of the survey. A dummy is a
message without a payload. It only hides how many messages the device has to send. The content that
is encrypted has the same size in all messages of a survey:

    byte 0        version, 1
    byte 1        mark: 1 for a message, 0 for a dummy
    bytes 2–3     number of the release, big-endian
    bytes 4–19    the first 16 bytes of the document's digest
    then          the message as `Messages.to_bytes` writes it, and zeros

AES-GCM does not commit to its key: somebody who knows two keys can make a ciphertext that opens
under both. So the content also holds the digest, which is checked after opening.
"""

from dataclasses import dataclass
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from headcount.core.errors import InvalidValue
from headcount.core.sealing import HEADER, OVERHEAD
from headcount.core.table import counted

VERSION = 1
INFO = b"headcount survey 1\x00"  # the digest follows
_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)
_DUMMY, _MESSAGE = 0, 1


class Content(NamedTuple):
    """What a sealed message holds. The `payload` of a dummy is None."""

    release: int
    payload: bytes | None


@dataclass(frozen=True)
class Envelope:
    """The form of all sealed messages of one survey. `digest` is the digest of the document, which
    has 32 bytes. `content` is the size of the content of a message, in bytes.
    """

    digest: bytes
    content: int

    @property
    def size(self) -> int:
        """The number of bytes of every sealed message."""
        return self.content + OVERHEAD

    @property
    def info(self) -> bytes:
        return INFO + self.digest

    def packed(self, release: int, payload: bytes | None) -> bytes:
        """The content of a message. A payload of None makes a dummy."""
        mark = _DUMMY if payload is None else _MESSAGE
        head = bytes([VERSION, mark]) + release.to_bytes(2, "big") + self.digest[:16]
        filled = head + (payload or b"")
        if len(filled) > self.content:
            raise InvalidValue(
                f"a message must have at most {counted(self.content - HEADER, 'byte')}, "
                f"got {len(payload or b'')}"
            )
        return filled.ljust(self.content, b"\0")

    def seal(self, key: X25519PublicKey, release: int, payload: bytes | None) -> bytes:
        """One sealed message. Sealing the same message again gives different bytes."""
        return _SUITE.encrypt(self.packed(release, payload), key, self.info)

    def open(self, key: X25519PrivateKey, sealed: bytes, sizes: tuple[int, ...]) -> Content:
        """The content of a sealed message. `sizes[i]` is the number of bytes of a message of
        release i. A message is refused if it does not open, or if its content does not have the
        form at the top of this file. Whether the payload is a possible message is checked later.
        """
        try:
            content = _SUITE.decrypt(sealed, key, self.info)
        except (InvalidTag, ValueError):
            raise InvalidValue("a sealed message must open with the survey's key") from None
        return self.unpacked(content, sizes)

    def unpacked(self, content: bytes, sizes: tuple[int, ...]) -> Content:
        """The inverse of `packed`."""
        if len(content) != self.content or content[0] != VERSION:
            raise InvalidValue(f"a message must have version {VERSION} and the survey's size")
        if content[4:HEADER] != self.digest[:16]:
            raise InvalidValue("a message must hold the digest of the survey")
        release = int.from_bytes(content[2:4], "big")
        if release >= len(sizes) or content[1] not in (_DUMMY, _MESSAGE):
            raise InvalidValue("a message must belong to a release of the survey")
        end = HEADER + (sizes[release] if content[1] == _MESSAGE else 0)
        if any(content[end:]):
            raise InvalidValue("a message must be followed by zeros")
        return Content(release, content[HEADER:end] if content[1] == _MESSAGE else None)
