"""The shuffler's interface over HTTP.

Responses that arrive at the same time are committed together. A background task closes surveys that
are due. It sends each batch to the analyzer until the analyzer has acknowledged it.
"""

import asyncio
from contextlib import suppress

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headcount.collect.batch import SealedBatch
from headcount.collect.client import put_batch
from headcount.collect.document import Document
from headcount.collect.http import Attempts, RateLimit, application, body_of, code_of, log, metric
from headcount.collect.refusals import Refused, TooFewPeople, Unavailable
from headcount.collect.respondent_page import allow_sites, page_routes
from headcount.collect.settings import ShufflerSettings
from headcount.collect.shuffler import Clock, Outcome, Sent, Shuffler, Status
from headcount.core.errors import HeadcountError

_MOST_TOGETHER = 512  # the most responses that one transaction stores
_LONGEST = 15.0  # the most seconds between two checks, after repeated failures


class Writer:
    """Commits responses in groups. While one group is being written, the next group gathers."""

    def __init__(self, shuffler: Shuffler) -> None:
        self._shuffler = shuffler
        self._waiting: list[tuple[Sent, asyncio.Future[Outcome]]] = []
        self._running: asyncio.Task[None] | None = None

    async def write(self, sent: Sent) -> Outcome:
        """Store a response, and return its outcome when the response is on the disk."""
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting.append((sent, future))
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run())
        return await future

    async def _run(self) -> None:
        while self._waiting:
            group, self._waiting = (
                self._waiting[:_MOST_TOGETHER],
                self._waiting[_MOST_TOGETHER:],
            )
            try:
                outcomes = await asyncio.to_thread(
                    self._shuffler.accept, [sent for sent, _ in group]
                )
            except Refused as refused:
                outcomes = [refused] * len(group)
            except Exception as error:
                log("failed", error=type(error).__name__)
                outcomes = [Unavailable("the shuffler could not store the response")] * len(group)
            for (_, future), outcome in zip(group, outcomes, strict=True):
                if not future.done():
                    future.set_result(outcome)


class Keeper:
    """Closes surveys that are due, and forwards the batches of closed surveys. It checks for both
    every `seconds` seconds, and less often after failures.
    """

    def __init__(self, shuffler: Shuffler, token: str, seconds: float = 1.0) -> None:
        self._shuffler, self._token, self._seconds = shuffler, token, seconds
        self._stuck: set[str] = set()
        self._failures = 0
        self.attempts = Attempts()

    async def run(self) -> None:
        while True:
            await asyncio.to_thread(self.tick)
            await asyncio.sleep(min(_LONGEST, self._seconds * 2**self._failures))

    def tick(self) -> None:
        """Close, forward and scrub whatever is due now. A step that fails is repeated at the next
        call.
        """
        closed = self.attempts.for_each("not closed", self._shuffler.due, self._close)
        sent = self.attempts.for_each("not forwarded", self._shuffler.waiting, self._forward)
        scrubbed = self.attempts.scrub(self._shuffler)
        self._failures = 0 if closed and sent and scrubbed else min(self._failures + 1, 10)

    def _close(self, digest: str) -> None:
        try:
            self._shuffler.close(digest)
            log("closed", survey=digest)
            self._stuck.discard(digest)
        except TooFewPeople as few:
            if digest not in self._stuck:
                log("too few people", survey=digest, message=few.message, hint=few.hint)
            self._stuck.add(digest)

    def _forward(self, digest: str) -> None:
        self._shuffler.forward(digest, self._send)
        log("forwarded", survey=digest)

    def _send(self, document: Document, name: str, batch: SealedBatch) -> None:
        put_batch(document, name, batch, self._token)


def shuffler_app(
    shuffler: Shuffler, settings: ShufflerSettings, *, clock: Clock, seconds: float = 1.0
) -> Starlette:
    """The application of a shuffler. Every `seconds` seconds, it checks which surveys are due."""
    writer, keeper = Writer(shuffler), Keeper(shuffler, settings.token, seconds)
    limit = RateLimit(settings.rate, settings.burst, clock)

    async def respond(request: Request) -> Response:
        document = await _document(request)
        limit.check(request.client.host if request.client else "")
        body = await body_of(request, seconds=settings.body_seconds, exact=document.response_bytes)
        outcome = await writer.write(Sent(document.digest, body, code_of(request)))
        if isinstance(outcome, Refused):
            raise outcome
        return JSONResponse({"receipt": outcome}, 201 if outcome == "stored" else 200)

    async def status(request: Request) -> Response:
        found = await asyncio.to_thread(shuffler.status, request.path_params["digest"])
        return JSONResponse({**found.to_dict(), "responses": found.coarse})

    async def _document(request: Request) -> Document:
        digest = request.path_params["digest"]
        if shuffler.knows(digest):
            return shuffler.document(digest)
        return await asyncio.to_thread(shuffler.document, digest)

    app = application(
        [
            Route("/surveys/{digest}/responses", respond, methods=["POST"]),
            Route("/surveys/{digest}/status", status),
            *page_routes(shuffler),
        ],
        document=shuffler.document,
        ready=shuffler.surveys,
        metrics=lambda: _metrics(shuffler, keeper.attempts),
        work=keeper.run,
    )
    if settings.sites:
        allow_sites(app, settings.sites.split())
    return app


def _metrics(shuffler: Shuffler, attempts: Attempts) -> str:
    found: dict[str, Status] = {}
    for digest in shuffler.surveys():
        with suppress(HeadcountError):  # one bad survey must not hide the others
            found[digest] = shuffler.status(digest)
    return "".join(
        (
            metric("headcount_responses", "gauge", {at: one.coarse for at, one in found.items()}),
            metric("headcount_overdue", "gauge", {at: one.overdue for at, one in found.items()}),
            metric("headcount_not_forwarded", "gauge",
                   {at: one.state == "closed" for at, one in found.items()}),
            attempts.metric,
        )
    )  # fmt: skip
