"""The analyzer's interface over HTTP. Batches are opened in the background, one after another."""

import asyncio
import hmac
import re

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headcount.collect.analyzer import Analyzer
from headcount.collect.batch import SealedBatch
from headcount.collect.http import Attempts, application, body_of, check_token, log
from headcount.collect.refusals import Malformed
from headcount.collect.settings import AnalyzerSettings

_BATCH_SECONDS = 600.0  # the deadline for a batch to arrive
_AGAIN = 5.0  # seconds before the next attempt, if counting fails


def analyzer_app(analyzer: Analyzer, settings: AnalyzerSettings) -> Starlette:
    """The application of an analyzer."""
    arrived, attempts = asyncio.Event(), Attempts()

    async def receive(request: Request) -> Response:
        check_token(request, settings.token)
        name = request.path_params["batch"]
        if not re.fullmatch("[0-9a-f]{32}", name):
            raise Malformed("the id of a batch must be 32 hexadecimal digits")
        # This refuses an unknown survey before the body is read.
        await asyncio.to_thread(analyzer.document, request.path_params["digest"])
        body = await body_of(request, seconds=_BATCH_SECONDS, most=settings.largest_batch)
        batch = await asyncio.to_thread(SealedBatch.from_bytes, body)
        stated = request.headers.get("headcount-sha256", "")
        if not hmac.compare_digest(stated.encode(), batch.digest.encode()):
            raise Malformed("a batch must have the SHA-256 that Headcount-SHA256 states")
        new = await asyncio.to_thread(analyzer.receive, request.path_params["digest"], name, batch)
        arrived.set()
        return JSONResponse({"receipt": "stored" if new else "seen before"}, 201 if new else 200)

    async def results(request: Request) -> Response:
        if not settings.publish:
            check_token(request, settings.results_token)
        digest = request.path_params["digest"]
        return JSONResponse(await asyncio.to_thread(analyzer.results, digest))

    def metrics() -> str:
        pending = len(analyzer.pending())
        waiting = f"# TYPE headcount_batches_pending gauge\nheadcount_batches_pending {pending}\n"
        return waiting + attempts.metric

    async def count() -> None:
        while True:
            arrived.clear()
            if await asyncio.to_thread(finished):
                await arrived.wait()
            else:
                await asyncio.sleep(_AGAIN)

    def finished() -> bool:
        done = attempts.for_each("not counted", analyzer.pending, counted)
        return attempts.scrub(analyzer) and done

    def counted(digest: str) -> None:
        analyzer.count(digest)
        log("counted", survey=digest)

    return application(
        [
            Route("/surveys/{digest}/batches/{batch}", receive, methods=["PUT"]),
            Route("/surveys/{digest}/results", results),
        ],
        document=analyzer.document,
        ready=analyzer.surveys,
        metrics=metrics,
        work=count,
    )
