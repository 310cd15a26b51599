"""A batch as Parquet files, for batches that are too large for one request or one machine.

A folder holds Parquet files with one column, `sealed`. Each row has one sealed message. The rows
are in the random order of the batch. The file `batch.json` is written last. It has the id of the
batch, the number of people, and the SHA-256 of each file and of the whole batch. A folder without
`batch.json` is not complete.

The folder may lie anywhere, so the shuffler also writes an authentication code to `batch.json`. The
code is the HMAC-SHA256 of everything else in this file. Its key is the token that the shuffler and
the analyzer share. Whoever does not have the token cannot make a batch. The Parquet files need no
codes of their own, because `batch.json` has their digests.
"""

import hashlib
import hmac
import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

from headcount.collect.batch import SealedBatch, first_copies, head
from headcount.collect.opening import Opened, Opener, kept_parts, open_parts
from headcount.collect.refusals import Unauthorized
from headcount.core import checks
from headcount.core.errors import (
    HeadcountError,
    InvalidParameter,
    MissingPackage,
    UnreadableData,
)
from headcount.core.writing import json_text, write_file

MANIFEST, COLUMN = "batch.json", "sealed"
_VERSION = 2
_FILE, _FILE_BYTES = 2**19, 2**27  # the most messages in a file, and the most bytes of its messages
_NAME = re.compile(r"part-\d{5,9}\.parquet")


@dataclass(frozen=True)
class BatchFile:
    """One file of a batch."""

    name: str
    messages: int
    sha256: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise UnreadableData(f"a file of a batch must be named part-00000.parquet, and so on, "
                                 f"got {checks.shown(self.name)}")  # fmt: skip
        checks.whole("messages", self.messages, low=1, high=2**50)
        _check_digest(self.sha256)

    def sealed(self, data: bytes, size: int) -> bytes:
        """The messages in this file, one after another. `data` has the bytes of the file. They are
        refused if their digest is not the one that `batch.json` states. `size` is the number of
        bytes of a message.
        """
        if _digest(data) != self.sha256:
            raise UnreadableData(f"{self.name} must have the SHA-256 that {MANIFEST} states")
        messages = _sealed(data, size)
        if len(messages) != self.messages * size:
            raise UnreadableData(f"{self.name} must have {self.messages:,} messages")
        return messages


@dataclass(frozen=True)
class BatchFiles:
    """A batch in a folder. `batch` is the id of the batch, and `sha256` is the digest that the same
    batch has as a `SealedBatch`. `code` is the authentication code, which is checked when the batch
    is read.
    """

    folder: str  # a path, or any address that Spark can read
    survey: str
    batch: str
    people: int
    message_bytes: int
    sha256: str
    files: tuple[BatchFile, ...]
    code: str = ""

    def __post_init__(self) -> None:
        checks.whole("people", self.people, low=1, high=2**50)
        checks.whole("message_bytes", self.message_bytes, low=1, high=2**20)
        for digest in (self.survey, self.sha256):
            _check_digest(digest)
        if not isinstance(self.batch, str) or not re.fullmatch("[0-9a-f]{32}", self.batch):
            raise UnreadableData("the id of a batch must be 32 hexadecimal digits")
        if len({one.name for one in self.files}) != len(self.files):
            raise UnreadableData(f"{MANIFEST} must name every file once")

    @property
    def messages(self) -> int:
        """The number of messages in all files."""
        return sum(one.messages for one in self.files)

    @classmethod
    def write(
        cls, folder: Path, survey: str, name: str, batch: SealedBatch, token: str
    ) -> "BatchFiles":
        """Write a batch with the id `name`. Writing the same batch again gives the same files."""
        check_secret(token)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        step, files = max(1, min(_FILE, _FILE_BYTES // batch.size)) * batch.size, []
        for number, start in enumerate(range(0, len(batch.messages), step)):
            part = batch.messages[start : start + step]
            data = _parquet(part, batch.size)
            one = BatchFile(f"part-{number:05}.parquet", len(part) // batch.size, _digest(data))
            write_file(folder / one.name, data)
            files.append(one)
        made = cls(str(folder), survey, name, batch.people, batch.size, batch.digest, tuple(files))
        made = replace(made, code=made._code(token))
        write_file(folder / MANIFEST, json_text(made.to_dict()) + "\n")
        return made

    def to_dict(self) -> dict[str, Any]:
        """The contents of `batch.json`."""
        facts = {name: value for name, value in asdict(self).items() if name != "folder"}
        return {"version": _VERSION, **facts, "messages": self.messages}

    def _code(self, token: str) -> str:
        """The authentication code of everything in `batch.json` except the code itself."""
        facts = {name: value for name, value in self.to_dict().items() if name != "code"}
        text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
        return hmac.digest(token.encode(), f"{MANIFEST} {text}".encode(), "sha256").hex()

    @classmethod
    def load(cls, folder: Path, token: str) -> "BatchFiles":
        """The batch in a folder. Its files are checked when they are read."""
        try:
            return cls.from_text((folder / MANIFEST).read_text(), str(folder), token)
        except (OSError, UnicodeDecodeError) as error:
            raise UnreadableData(
                f"{str(folder)!r} must be the folder of a batch, got: "
                f"{getattr(error, 'strerror', 'no text')}",
                hint="headcount shuffler export writes one",
            ) from None

    @classmethod
    def from_text(cls, text: str, folder: str, token: str) -> "BatchFiles":
        """The batch that `batch.json` describes. It is refused if it does not come from a shuffler
        with this token.
        """
        check_secret(token)
        try:
            found = json.loads(text)
            made = cls(
                folder, found["survey"], found["batch"], found["people"], found["message_bytes"],
                found["sha256"], tuple(BatchFile(**one) for one in found["files"]), found["code"],
            )  # fmt: skip
            same = json.loads(json_text(made.to_dict())) == found
            genuine = hmac.compare_digest(made.code.encode(), made._code(token).encode())
        except HeadcountError as error:
            raise UnreadableData(f"{MANIFEST} must describe a batch: {error}") from None
        except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
            raise UnreadableData(
                f"{MANIFEST} must describe a batch, got {type(error).__name__}"
            ) from None
        if not same:
            raise UnreadableData(f"{MANIFEST} must describe a batch of version {_VERSION}")
        if not genuine:
            raise Unauthorized(
                f"{MANIFEST} must come from a shuffler that has the analyzer's token, and must not "
                "be changed"
            )
        return made

    def chunks(self) -> Iterator[bytes]:
        """The messages of each file. Every file is checked against its digest."""
        for one in self.files:
            try:
                data = (Path(self.folder) / one.name).read_bytes()
            except OSError as error:
                raise UnreadableData(
                    f"the batch must have the file {one.name}, got: {error.strerror}"
                ) from None
            yield one.sealed(data, self.message_bytes)

    def _checked_chunks(self) -> Iterator[bytes]:
        """The messages of each file. At the end, the digest of the whole batch is checked."""
        whole = hashlib.sha256(head(self.people, self.message_bytes))
        for chunk in self.chunks():
            whole.update(chunk)
            yield chunk
        if whole.hexdigest() != self.sha256:
            raise UnreadableData(f"the whole batch must have the SHA-256 that {MANIFEST} states")

    def opened(self, opener: Opener, processes: int) -> Opened:
        """Open and count all messages on this machine. Only a few files are in memory at a time. In
        addition, a fingerprint of 16 bytes is kept in memory for each message.
        """
        first = first_copies(self._checked_chunks(), self.message_bytes)
        parts = kept_parts(self.chunks(), self.message_bytes, first)
        return open_parts(parts, opener, self.messages, processes)


def check_secret(token: str) -> None:
    """Refuse an empty token, because the token authenticates the files of a batch."""
    if not token:
        raise InvalidParameter(
            "a token must authenticate the files of a batch, got none", hint="give --token-file"
        )


def _check_digest(digest: object) -> None:
    if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
        raise UnreadableData("a digest must be 64 hexadecimal digits")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise MissingPackage(
            "batches in Parquet files need pyarrow", hint="pip install 'headcount[data]'"
        ) from None
    return pyarrow, parquet


def column_of(messages: bytes, size: int) -> Any:
    """An Arrow column with one message of `size` bytes in each row."""
    pyarrow, _ = _pyarrow()
    buffers = [None, pyarrow.py_buffer(messages)]
    return pyarrow.Array.from_buffers(pyarrow.binary(size), len(messages) // size, buffers)


def _parquet(messages: bytes, size: int) -> bytes:
    """The bytes of a Parquet file with these messages, and without statistics about them."""
    pyarrow, parquet = _pyarrow()
    table = pyarrow.Table.from_arrays([column_of(messages, size)], [COLUMN])
    out = BytesIO()
    parquet.write_table(
        table, out, compression="none", use_dictionary=False, write_statistics=False,
        store_schema=False,
    )  # fmt: skip
    return out.getvalue()


def _sealed(data: bytes, size: int) -> bytes:
    pyarrow, parquet = _pyarrow()
    try:
        table = parquet.read_table(BytesIO(data), columns=[COLUMN])
        column = table.column(COLUMN).cast(pyarrow.binary(size)).combine_chunks()
        if column.null_count:
            raise UnreadableData(f"the column {COLUMN} must have no missing messages")
        start = column.offset * size
        return bytes(column.buffers()[1])[start : start + len(column) * size]
    except pyarrow.ArrowException as error:
        raise UnreadableData(
            f"a file of a batch must have one column {COLUMN}: {checks.shown(str(error))}"
        ) from None
