"""Vectors for other clients: contents and sealed messages, good and bad ones.

`python tests/test_collection_vectors.py` writes `vectors/sealing-1.json`. HPKE is written here a
second time, from RFC 9180, with an ephemeral key that is given. So the vectors also judge the
library that seals.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hmac import HMAC

import headcount as hc
from headcount.collect.sealing import Envelope

FILE = Path(__file__).parents[1] / "vectors" / "sealing-1.json"
KEM_SUITE = b"KEM" + (0x20).to_bytes(2, "big")
SUITE = b"HPKE" + b"".join(number.to_bytes(2, "big") for number in (0x20, 1, 1))


def extract(salt: bytes, suite: bytes, label: bytes, key: bytes) -> bytes:
    made = HMAC(salt or bytes(32), hashes.SHA256())
    made.update(b"HPKE-v1" + suite + label + key)
    return made.finalize()


def expand(secret: bytes, suite: bytes, label: bytes, info: bytes, size: int) -> bytes:
    made = HMAC(secret, hashes.SHA256())
    made.update(size.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info + b"\x01")
    return made.finalize()[:size]  # at most 32 bytes are needed


def seal(ephemeral: bytes, public: bytes, info: bytes, content: bytes) -> bytes:
    """RFC 9180, base mode, one message, no additional data."""
    private = X25519PrivateKey.from_private_bytes(ephemeral)
    encapsulated = private.public_key().public_bytes_raw()
    shared = private.exchange(X25519PublicKey.from_public_bytes(public))
    prk = extract(b"", KEM_SUITE, b"eae_prk", shared)
    secret = expand(prk, KEM_SUITE, b"shared_secret", encapsulated + public, 32)
    context = (
        b"\x00" + extract(b"", SUITE, b"psk_id_hash", b"") + extract(b"", SUITE, b"info_hash", info)
    )
    secret = extract(secret, SUITE, b"secret", b"")
    key, nonce = (expand(secret, SUITE, label, context, size)
                  for label, size in ((b"key", 16), (b"base_nonce", 12)))  # fmt: skip
    return encapsulated + AESGCM(key).encrypt(nonce, content, b"")


def vectors() -> dict[str, Any]:
    """Everything in the file. It follows from fixed bytes."""
    private, digest = bytes(range(1, 33)), bytes(range(64, 96))
    public = X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()
    envelope, sizes = Envelope(digest, 64), (1, 4)
    good: list[dict[str, Any]] = []
    for number, (release, payload) in enumerate([(0, b"\x01"), (1, b"\x02\x00\xff\x7f"), (0, None),
                                                 (1, None), (1, bytes(4))]):  # fmt: skip
        ephemeral = bytes([number + 1] * 32)
        content = envelope.packed(release, payload)
        good.append(
            {
                "release": release,
                "payload": None if payload is None else payload.hex(),
                "ephemeral": ephemeral.hex(),
                "content": content.hex(),
                "sealed": seal(ephemeral, public, envelope.info, content).hex(),
            }
        )
    first = bytes.fromhex(good[0]["content"])
    sealed = bytes.fromhex(good[0]["sealed"])

    def resealed(content: bytes, info: bytes = envelope.info) -> bytes:
        return seal(bytes([99] * 32), public, info, content)

    bad = {
        "flipped bit": sealed[:-1] + bytes([sealed[-1] ^ 1]),
        "truncated": sealed[:-1],
        "empty": b"",
        "longer": sealed + b"\0",
        "info of another survey": resealed(first, Envelope(bytes(32), 64).info),
        "digest of another survey": resealed(first[:4] + bytes(16) + first[20:]),
        "other version": resealed(b"\x02" + first[1:]),
        "unknown mark": resealed(first[:1] + b"\x02" + first[2:]),
        "unknown release": resealed(first[:2] + b"\x00\x02" + first[4:]),
        "no zeros at the end": resealed(first[:-1] + b"\x01"),
        "dummy with a payload": resealed(first[:1] + b"\x00" + first[2:]),
        "short content": resealed(first[:-1]),
    }
    return {
        "version": 1,
        "private": private.hex(),
        "public": public.hex(),
        "digest": digest.hex(),
        "info": envelope.info.hex(),
        "content_bytes": 64,
        "payload_bytes": list(sizes),
        "good": good,
        "bad": [{"why": why, "sealed": data.hex()} for why, data in bad.items()],
    }


def test_the_file_is_current() -> None:
    assert json.loads(FILE.read_text()) == vectors()


def test_good_messages_open_and_bad_ones_do_not() -> None:
    found = json.loads(FILE.read_text())
    key = X25519PrivateKey.from_private_bytes(bytes.fromhex(found["private"]))
    envelope = Envelope(bytes.fromhex(found["digest"]), found["content_bytes"])
    sizes = tuple(found["payload_bytes"])
    for one in found["good"]:
        release, payload = envelope.open(key, bytes.fromhex(one["sealed"]), sizes)
        assert release == one["release"]
        assert (None if payload is None else payload.hex()) == one["payload"]
        assert envelope.packed(release, payload).hex() == one["content"]
    for one in found["bad"]:
        with pytest.raises(hc.InvalidValue):
            envelope.open(key, bytes.fromhex(one["sealed"]), sizes)


if __name__ == "__main__":
    FILE.write_text(json.dumps(vectors(), indent=1) + "\n")
