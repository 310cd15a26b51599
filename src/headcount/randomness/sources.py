"""The two sources of random bits: keystreams of AES-256 in counter mode.

`SecureSource` takes its keys from the operating system. Each thread has its own key, and gets a new
key after every gibibyte and after every fork. So no two processes or threads ever share a
keystream. `SeededSource` uses the same cipher with a key that everyone can know. This makes a run
repeatable, but not private. So `SeededSource` is used only if a caller asks for it.
"""

import hashlib
import os
import threading
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.source import Source

_CHUNK: Final = 1 << 18  # the number of bytes encrypted at a time; they fit into the CPU cache
_ZEROS: Final = memoryview(bytes(_CHUNK))
_REKEY_AFTER: Final = 1 << 30  # the number of bytes that are drawn with one key

# The list has one entry for every fork between the first process and this one.
_forks: list[None] = []
if hasattr(os, "register_at_fork"):  # there is no fork on Windows
    os.register_at_fork(after_in_child=lambda: _forks.append(None))


def this_process() -> tuple[int, int]:
    """An identifier that no two processes share.

    It has two parts. The process id differs even after forks that Python does not see. The number
    of forks differs even if the system reuses a process id.
    """
    return os.getpid(), len(_forks)


def _keystream(key: bytes, nonce: bytes) -> CipherContext:
    return Cipher(algorithms.AES(key), modes.CTR(nonce)).encryptor()


class _Keystream(Source):
    """A source whose bits are a keystream. Encrypting zeros gives the keystream."""

    def fill(self, buffer: NDArray[np.uint8]) -> None:
        for start in range(0, len(buffer), _CHUNK):
            piece = buffer[start : start + _CHUNK].data
            self._stream(len(piece)).update_into(_ZEROS[: len(piece)], piece)

    @abstractmethod
    def _stream(self, size: int) -> CipherContext:
        """The keystream for the next `size` bytes."""


@dataclass(slots=True)
class _Keyed:
    """A keystream, the process that may use it, and how many more bytes it may give."""

    stream: CipherContext
    process: tuple[int, int]
    bytes_left: int


class SecureSource(_Keystream):
    """Cryptographically secure bits. The source can be shared between threads and across forks."""

    secure = True

    def __init__(self) -> None:
        self._of_thread = threading.local()

    def part(self, number: int) -> "SecureSource":
        return SecureSource()

    def _stream(self, size: int) -> CipherContext:
        process = this_process()
        keyed: _Keyed | None = getattr(self._of_thread, "keyed", None)
        if keyed is None or keyed.process != process or keyed.bytes_left < size:
            stream = _keystream(os.urandom(32), os.urandom(16))
            keyed = self._of_thread.keyed = _Keyed(stream, process, _REKEY_AFTER)
        keyed.bytes_left -= size
        return keyed.stream


class Owing(Source):
    """Passes on the bits of another source, and adds up the total variation of all draws.

    `owed` is the sum of the total variations between the draws so far and their ideal laws.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self.secure = source.secure
        self.owed = 0.0

    def fill(self, buffer: NDArray[np.uint8]) -> None:
        self._source.fill(buffer)

    def owe(self, variation: float) -> None:
        self.owed += variation


@dataclass(frozen=True)
class _Shared:
    """A keystream that the threads of one process share."""

    stream: CipherContext
    lock: threading.Lock = field(default_factory=threading.Lock)


class SeededSource(_Keystream):
    """Repeatable bits, for tests and simulations. They are NOT private: the seed reveals all bits.

    A forked child continues the stream where its parent was. But if another thread of the parent
    was drawing at the moment of the fork, the stream's lock stays locked in the child. Then the
    child starts the stream again from the beginning.
    """

    def __init__(self, seed: int) -> None:
        number = checks.whole("seed", seed, low=0, high=2**64 - 1)
        self._set(
            hashlib.sha256(b"headcount seeded source" + number.to_bytes(8, "little")).digest()
        )

    def _set(self, key: bytes) -> None:
        self._key = key
        self._of_process = {this_process(): _Shared(_keystream(key, bytes(16)))}

    def part(self, number: int) -> "SeededSource":
        return _keyed(hashlib.sha256(b"part" + self._key + number.to_bytes(8, "little")).digest())

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy for another process. The copy restarts the stream, so use only its `part(i)`."""
        return _keyed, (self._key,)

    def fill(self, buffer: NDArray[np.uint8]) -> None:
        with self._shared.lock:
            super().fill(buffer)

    def _stream(self, size: int) -> CipherContext:
        return self._shared.stream

    @property
    def _shared(self) -> _Shared:
        process = this_process()
        if process not in self._of_process:
            *_, parents = self._of_process.values()
            begun = _keystream(self._key, bytes(16)) if parents.lock.locked() else parents.stream
            # If several threads get here, the first one sets the stream.
            self._of_process.setdefault(process, _Shared(begun))
        return self._of_process[process]


def _keyed(key: bytes) -> SeededSource:
    source = SeededSource.__new__(SeededSource)
    source._set(key)
    return source
