"""A respondent: a program that answers a survey for one person.

A device randomizes once, seals once, and stores the sealed bytes before it sends them. If sending
fails, the same bytes are sent again. Randomizing again would reveal more about the answer than the
survey promises.

In local trust, a device may answer only some of the questions. It draws them at random, once,
before the person answers, and stores which questions it has drawn.
"""

import json
import os
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from headcount.collect.batch import SealedBatch
from headcount.collect.document import MOST_BYTES, Document
from headcount.collect.refusals import Refused, Unavailable
from headcount.core import checks
from headcount.core.budget import Trust
from headcount.core.errors import InvalidParameter, MissingPackage, UnreadableData
from headcount.core.source import Source
from headcount.core.writing import json_text, write_file
from headcount.randomness.sources import SecureSource
from headcount.survey.response import Response, Selection

Receipt: TypeAlias = Literal["stored", "seen before"]
# HTTP statuses of failures after which a service may still accept the same bytes later.
_AGAIN = (408, 429, 500, 502, 503, 504, 507)
TIMEOUT = 30.0
_MOST_RESULTS = 2**28  # results of more bytes than this are not read


class Respondent:
    """Answers a survey for one person.

    The `folder` keeps the sealed response, and whether the shuffler accepted it. It does not hold
    the answers. A person who has answered cannot answer again from the same folder. The times of
    the files and of the folder are set to 1970, so that they do not show when the person answered.
    But a file system may keep further times that no program can set.
    """

    def __init__(self, document: Document | Path | str, folder: Path | str) -> None:
        self.document = document if isinstance(document, Document) else opened(document)
        self._path = Path(folder) / f"{self.document.digest}.json"
        self._drawn = self._path.with_suffix(".drawn")

    @property
    def answered(self) -> bool:
        """Whether this device has sealed answers."""
        return self._path.exists()

    @property
    def accepted(self) -> bool:
        """Whether the shuffler has confirmed that it stored the response."""
        return self.answered and bool(self._state()["accepted"])

    @property
    def sealed(self) -> bytes:
        """The bytes that leave this device."""
        return bytes.fromhex(self._state()["sealed"])

    def questions(self) -> tuple[str, ...]:
        """The ids of the questions that this device answers. If they have to be drawn, the first
        call draws them.
        """
        return self._selected(SecureSource()).questions(self.document.design)

    def answer(self, answers: Mapping[str, Any], source: Source | None = None) -> None:
        """Randomize and seal the answers, once, and store the sealed bytes. Nothing is sent yet.

        `answers` has an answer for each id in `questions`. Answers to other questions are not used.
        """
        source = SecureSource() if source is None else source
        sealed = response(self.document, answers, source, self._selected(source))
        first = self._keep_first(self._path, _stored(sealed, accepted=False))
        self._drawn.unlink(missing_ok=True)
        self._forget_times()
        if not first:
            raise _second_answer()

    def _selected(self, source: Source) -> Selection:
        """The selection of questions that this device answers. In local trust, the first selection
        that the device draws is stored, and every later call returns it.
        """
        if self.answered:
            raise _second_answer()
        drawn = Selection.drawn(self.document.design, source)
        if self.document.trust is not Trust.LOCAL:
            return drawn
        self._keep_first(self._drawn, json_text(asdict(drawn)) + "\n")
        try:
            found = json.loads(self._drawn.read_text())
            return Selection(tuple(found["releases"]), tuple(found["firsts"]))
        except FileNotFoundError:  # another process has sealed answers in the meantime
            raise _second_answer() from None
        except (OSError, ValueError, LookupError, TypeError):
            raise UnreadableData(
                f"{str(self._drawn)!r} must be what this device has drawn",
                hint="delete the file if you have not answered yet",
            ) from None

    def _keep_first(self, path: Path, text: str) -> bool:
        """Store a text in a new file, and return True. If the file exists already, leave it as it
        is, and return False. If several processes store at once, only one of them succeeds.
        """
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = path.with_suffix(f".{secrets.token_hex(8)}")
        write_file(draft, text)
        try:
            os.link(draft, path)
        except FileExistsError:
            return False
        finally:
            draft.unlink()
            self._forget_times()
        return True

    def send(
        self,
        code: str | None = None,
        *,
        tries: int = 5,
        sleep: Callable[[float], None] = time.sleep,
    ) -> Receipt:
        """Send the sealed response until the shuffler confirms it. Every try sends the same bytes.

        `code` is the invitation code, if the survey asks for one.
        """
        if not self.answered:
            raise InvalidParameter("there must be answers to send, got none", hint="answer first")
        checks.whole("tries", tries, low=1, high=10**6)
        sealed = self.sealed
        url = f"{self.document.addresses.shuffler}/surveys/{self.document.digest}/responses"
        failure: Refused = Unavailable("the shuffler was not asked")
        for attempt in range(tries):
            if attempt:
                sleep(min(60.0, 0.5 * 2**attempt))
            try:
                receipt = _post(url, sealed, code)
            except Unavailable as refused:
                failure = refused
                continue
            write_file(self._path, _stored(sealed, accepted=True))
            self._forget_times()
            return receipt
        raise failure

    def _forget_times(self) -> None:
        """Set the times of the files and of their folder to a constant, where this is possible."""
        for path in (self._path, self._drawn, self._path.parent):
            with suppress(OSError):
                os.utime(path, (0, 0))

    def _state(self) -> dict[str, Any]:
        try:
            state = json.loads(self._path.read_text())
            return {"sealed": state["sealed"], "accepted": state["accepted"]}
        except OSError as error:
            raise UnreadableData(
                f"{str(self._path)!r} must be a sealed response, got: {error.strerror}"
            ) from None
        except (ValueError, LookupError, TypeError):
            raise UnreadableData(f"{str(self._path)!r} must be a sealed response") from None


def _stored(sealed: bytes, *, accepted: bool) -> str:
    return json_text({"sealed": sealed.hex(), "accepted": accepted}) + "\n"


def _second_answer() -> InvalidParameter:
    return InvalidParameter(
        "a person must answer once, but this folder already has a sealed response",
        hint="send it again: it is safe to repeat the same bytes, but not to draw new noise",
    )


def response(
    document: Document,
    answers: Mapping[str, Any],
    source: Source,
    selection: Selection | None = None,
) -> bytes:
    """One person's sealed response. Its messages are in random order. Everybody sends the same
    number of messages.
    """
    envelope, key, design = document.envelope, document.key.key, document.design
    chosen = Selection.drawn(design, source) if selection is None else selection
    encoded = document.encoded(answers, chosen.questions(design))
    made = Response.of(design, encoded, source, chosen)
    return b"".join(envelope.seal(key, one.release, one.payload) for one in made.messages)


def opened(place: Path | str) -> Document:
    """The document in a file, or at an address https://…/surveys/{digest}. A document from the
    network must have the digest that is in its address.
    """
    text = str(place)
    if not text.startswith(("http://", "https://")):
        return Document.load(Path(place))
    document = Document.from_bytes(_request("GET", text, b"", {}, "service", most=MOST_BYTES).body)
    if document.digest != text.rstrip("/").rpartition("/")[2]:
        raise UnreadableData("the document must have the digest of its address")
    return document


def _post(url: str, body: bytes, code: str | None) -> Receipt:
    headers = {} if code is None else {"Authorization": f"Code {code}"}
    reply = _request("POST", url, body, headers, "shuffler")
    return "stored" if reply.status == 201 else "seen before"


def put_batch(document: Document, name: str, batch: SealedBatch, token: str) -> None:
    """Hand a batch over to the analyzer. The function returns when the analyzer has stored it."""
    url = f"{document.addresses.analyzer}/surveys/{document.digest}/batches/{name}"
    headers = {"Authorization": f"Bearer {token}", "Headcount-SHA256": batch.digest}
    _request("PUT", url, batch.data, headers, "analyzer")


def results_at(url: str, token: str) -> dict[str, Any]:
    """The JSON document at an address of a service, such as the results of a survey. If `token` is
    not empty, the request carries it.
    """
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    reply = _request("GET", url, b"", headers, "service", most=_MOST_RESULTS)
    try:
        found: dict[str, Any] = json.loads(reply.body)
    except ValueError:
        raise Unavailable("the service must answer in JSON, got something else") from None
    return found


class _Reply(NamedTuple):
    status: int
    body: bytes


def _request(
    method: str, url: str, body: bytes, headers: dict[str, str], asked: str, *, most: int = 2**16
) -> _Reply:
    """Send a request, and return the reply. If the request fails, its refusal is raised. `asked`
    names the service in errors. A reply of more than `most` bytes is not read to its end, and
    counts as a failure.
    """
    client = _client()
    if body:
        headers = {"Content-Type": "application/octet-stream", **headers}
    try:
        with client.stream(method, url, content=body, headers=headers) as reply:
            found = bytearray()
            for part in reply.iter_raw():
                found += part
                if len(found) > most:
                    raise Unavailable(f"the {asked} must answer with at most {most:,} bytes")
    except _network_errors() as error:
        raise Unavailable(f"the {asked} must be reachable, got {type(error).__name__}") from None
    if reply.status_code not in (200, 201):
        raise _refusal(reply.status_code, bytes(found))
    return _Reply(reply.status_code, bytes(found))


def _refusal(status: int, body: bytes) -> Refused:
    """The refusal that a reply states. It is `Unavailable` if a later request may succeed."""
    try:
        error = json.loads(body)["error"]
        code, message, hint = (str(error[name]) for name in ("code", "message", "hint"))
    except (ValueError, LookupError, TypeError):
        code, message, hint = "", f"the service answered with status {status}", ""
    if status in _AGAIN:
        return Unavailable(message, hint=hint)
    for kind in Refused.__subclasses__():
        if kind.code == code:
            return kind(message, hint=hint)
    return Refused(message, hint=hint)


def _network_errors() -> tuple[type[Exception], ...]:
    import httpx

    return (httpx.HTTPError,)


@cache
def _client() -> Any:
    """One client for all requests of this process. It loads certificates once."""
    try:
        import httpx
    except ImportError:
        raise MissingPackage(
            "a respondent needs httpx", hint="pip install 'headcount[service]'"
        ) from None
    client = httpx.Client(timeout=TIMEOUT, headers={"Accept-Encoding": "identity"})
    del client.headers["User-Agent"]  # it would say which program sends the request
    return client
