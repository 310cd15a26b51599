"""The analyzer's key pair. Its public half is in every survey document.

A folder holds the public half and the state of the key in `key.json`, and the private half in
`private.pem`. The private half is encrypted with a passphrase, unless the operator explicitly wants
none. A key is *pending* until the first survey uses it, and then *active*. After the last survey,
it is *destroyed*. Then nobody can open sealed messages that somebody has kept.
"""

import hashlib
import json
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from headcount.core.errors import InvalidParameter, UnreadableData
from headcount.core.writing import json_text, write_file

State: TypeAlias = Literal["pending", "active", "destroyed"]
PUBLIC, PRIVATE = "key.json", "private.pem"
TOKEN, RESULTS_TOKEN = "token", "results-token"


@dataclass(frozen=True)
class PublicKey:
    """The public half of the analyzer's key. `raw` has 32 bytes."""

    raw: bytes

    def __post_init__(self) -> None:
        if len(self.raw) != 32:
            raise InvalidParameter(f"a public key must have 32 bytes, got {len(self.raw)}")

    @property
    def id(self) -> str:
        """A short name of the key: the first 16 hexadecimal digits of its SHA-256."""
        return hashlib.sha256(self.raw).hexdigest()[:16]

    @property
    def key(self) -> X25519PublicKey:
        return X25519PublicKey.from_public_bytes(self.raw)

    def to_dict(self) -> dict[str, Any]:
        return {"id": self.id, "public": self.raw.hex()}

    @classmethod
    def from_dict(cls, document: Any) -> "PublicKey":
        """The key that `to_dict` wrote. The id must match the key."""
        try:
            made = cls(bytes.fromhex(document["public"]))
            same = document["id"] == made.id
        except (LookupError, TypeError, ValueError):
            raise UnreadableData("a key must have an id and 64 hexadecimal digits") from None
        if not same:
            raise UnreadableData(f"the id of this key must be {made.id}, got {document['id']!r}")
        return made

    @classmethod
    def load(cls, path: Path) -> "PublicKey":
        """The public key in `key.json`. `path` is this file or its folder."""
        return cls.from_dict(_contents(path / PUBLIC if path.is_dir() else path))


def create_tokens(folder: Path) -> None:
    """Write two files with new tokens: the token that the shuffler and the analyzer share, and the
    token with which results are read. Only their owner can read these files.
    """
    for name in (TOKEN, RESULTS_TOKEN):
        made = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(made, "w") as file:
            file.write(secrets.token_urlsafe(32) + "\n")


def create(folder: Path, passphrase: bytes | None) -> PublicKey:
    """Make a key pair in a folder. An existing key is never replaced."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if (folder / PUBLIC).exists() or (folder / PRIVATE).exists():
        raise InvalidParameter(
            f"the folder must not have a key yet, got {str(folder)!r}",
            hint="choose another folder: surveys that use the old key would be lost",
        )
    private = X25519PrivateKey.generate()
    locked = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked)
    kept = os.open(folder / PRIVATE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(kept, "wb") as file:
        file.write(pem)
        file.flush()
        os.fsync(file.fileno())
    public = PublicKey(private.public_key().public_bytes_raw())
    _write(folder, public, "pending")
    return public


def private_key(folder: Path, passphrase: bytes | None) -> X25519PrivateKey:
    """The private key in a folder."""
    if state(folder) == "destroyed":
        raise UnreadableData(f"the key in {str(folder)!r} was destroyed")
    try:
        loaded = load_pem_private_key((folder / PRIVATE).read_bytes(), passphrase or None)
    except OSError as error:
        raise UnreadableData(
            f"{str(folder / PRIVATE)!r} must be a private key, got: {error.strerror}"
        ) from None
    except TypeError:
        wrong = "no passphrase" if not passphrase else "a passphrase for a key that has none"
        raise InvalidParameter(
            f"the passphrase must be the one of the key, got {wrong}",
            hint="set HEADCOUNT_PASSPHRASE or give --passphrase-file",
        ) from None
    except ValueError:
        raise InvalidParameter("the passphrase must be the one of the key") from None
    if not isinstance(loaded, X25519PrivateKey):
        raise UnreadableData(f"{str(folder / PRIVATE)!r} must be an X25519 key")
    return loaded


def state(folder: Path) -> State:
    """Whether the key is pending, active or destroyed."""
    found = _contents(folder / PUBLIC).get("state")
    if found not in ("pending", "active", "destroyed"):
        raise UnreadableData(f"a key must be pending, active or destroyed, got {found!r}")
    return found  # type: ignore[no-any-return]


def activate(folder: Path) -> None:
    """Record that a survey uses the key."""
    if state(folder) == "pending":
        _write(folder, PublicKey.load(folder), "active")


def destroy(folder: Path) -> None:
    """Overwrite and remove the private key. Messages that are still sealed can never be opened."""
    path = folder / PRIVATE
    with suppress(FileNotFoundError):
        size = path.stat().st_size
        with path.open("r+b") as file:
            file.write(os.urandom(size))
            file.flush()
            os.fsync(file.fileno())
        path.unlink()
    _write(folder, PublicKey.load(folder), "destroyed")


def _write(folder: Path, public: PublicKey, state: State) -> None:
    write_file(folder / PUBLIC, json_text({**public.to_dict(), "state": state}) + "\n")


def _contents(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except OSError as error:
        raise UnreadableData(
            f"{str(path)!r} must be a public key, got: {error.strerror}",
            hint="make one with headcount analyzer init",
        ) from None
    except ValueError:
        raise UnreadableData(f"{str(path)!r} must be a public key in JSON") from None
    if not isinstance(found, dict):
        raise UnreadableData(f"{str(path)!r} must be a public key in JSON")
    return found
