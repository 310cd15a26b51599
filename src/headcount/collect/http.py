"""What the shuffler's and the analyzer's HTTP services share.

The body of a request must arrive before a deadline. Requests of operators must carry a token. All
errors have one JSON shape, and logs hold no addresses.
"""

import asyncio
import gzip
import hmac
import ipaddress
import json
import logging
import secrets
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from functools import lru_cache, partial
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from headcount.collect.document import Document
from headcount.collect.refusals import (
    LengthRequired,
    Malformed,
    Refused,
    TooLarge,
    TooMany,
    TooSlow,
    Unauthorized,
    WrongSize,
    error_shape,
)
from headcount.collect.shuffler import Clock
from headcount.core.errors import HeadcountError

logger = logging.getLogger("headcount.collect")


def application(
    routes: list[Route],
    *,
    document: Callable[[str], Document],
    ready: Callable[[], object],
    metrics: Callable[[], str],
    work: Callable[[], Coroutine[Any, Any, None]],
) -> Starlette:
    """An application whose errors all have one shape.

    It serves `routes`, the documents of surveys, the state of the service and its metrics.
    `document` finds the document with a digest. The service is ready if `ready` returns without an
    error. `work` runs in the background until the service stops.
    """

    async def shown_document(request: Request) -> Response:
        found = await asyncio.to_thread(document, request.path_params["digest"])
        return packed_response(request, found.data, "application/json")

    async def shown_health(request: Request) -> Response:
        return JSONResponse({"healthy": True})

    async def shown_readiness(request: Request) -> Response:
        await asyncio.to_thread(ready)
        return JSONResponse({"ready": True})

    async def shown_metrics(request: Request) -> Response:
        return PlainTextResponse(await asyncio.to_thread(metrics))

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        working = asyncio.create_task(work())
        yield
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working

    return Starlette(
        routes=[
            Route("/surveys/{digest}", shown_document),
            *routes,
            Route("/healthz", shown_health),
            Route("/readyz", shown_readiness),
            Route("/metrics", shown_metrics),
        ],
        lifespan=lifespan,
        exception_handlers={
            HeadcountError: _refused,
            HTTPException: _not_routed,
            Exception: _failed,
        },
    )


async def _refused(request: Request, error: Exception) -> Response:
    if not isinstance(error, Refused):
        return await _failed(request, error)
    headers = {"Retry-After": "30"} if error.http_status in (429, 503, 507) else {}
    if error.http_status == 401:
        headers["WWW-Authenticate"] = "Code" if request.method == "POST" else "Bearer"
    if error.http_status in (408, 413):
        headers["Connection"] = "close"  # the rest of the body is not read
    return JSONResponse(error.to_dict(), error.http_status, headers)


async def _not_routed(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    known = {
        404: ("not-found", "there is nothing at this address"),
        405: ("method-not-allowed", "this address does not take this method"),
    }
    shape = error_shape(*known.get(status, (Refused.code, Refused.text)))
    return JSONResponse(shape, status, getattr(error, "headers", None))


async def _failed(request: Request, error: Exception) -> Response:
    log("failed", error=type(error).__name__)
    return JSONResponse(error_shape("bug", "the service failed", "tell whoever runs it"), 500)


def packed_response(
    request: Request,
    data: bytes,
    kind: str,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A reply that is compressed if the client accepts gzip."""
    told = {**(headers or {}), "Vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(_packed(data), status, {**told, "Content-Encoding": "gzip"}, kind)
    return Response(data, status, told, kind)


@lru_cache(maxsize=64)
def _packed(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


async def body_of(request: Request, *, seconds: float, exact: int = 0, most: int = 0) -> bytes:
    """The body of a request. It must arrive within `seconds` seconds, and the request must state
    its length. The length must be `exact`, or at most `most` if `exact` is 0.
    """
    length = request.headers.get("content-length")
    if length is None or not length.isdecimal():
        raise LengthRequired("a request must state the length of its body in Content-Length")
    stated = int(length)
    if stated > (exact or most):
        raise TooLarge(f"a body must have at most {exact or most:,} bytes, got {stated:,}")
    if exact and stated != exact:
        raise WrongSize(f"a response must have exactly {exact:,} bytes, got {stated:,}")
    try:
        async with asyncio.timeout(seconds):
            body: bytes = await request.body()
    except TimeoutError:
        raise TooSlow(f"a body must arrive within {seconds:g} s") from None
    except ClientDisconnect:
        raise Malformed("the connection ended before the body did") from None
    if len(body) != stated:
        raise Malformed(f"a body must have the stated length of {stated:,} bytes")
    return body


def check_token(request: Request, token: str) -> None:
    """Refuse a request that does not carry this token. An empty token refuses every request."""
    given = request.headers.get("authorization", "")
    if not token or not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
        raise Unauthorized("this request needs the token of the operator")


def code_of(request: Request) -> str | None:
    """The invitation code in the header `Authorization: Code …`, or None if there is none."""
    given: str = request.headers.get("authorization", "")
    kind, _, code = given.partition(" ")
    return code if kind.lower() == "code" and code else None


class RateLimit:
    """A limit on requests from one part of the network: a /24 of IPv4, or a /56 of IPv6.

    `rate` requests per minute are allowed on average, and `burst` requests at once. The counts are
    kept in memory only. Addresses are replaced by salted hashes, and the salt is lost when the
    process ends.
    """

    def __init__(self, rate: float, burst: int, clock: Clock) -> None:
        self._each, self._burst, self._clock = rate / 60, burst, clock
        self._salt = secrets.token_bytes(16)
        self._left: dict[bytes, tuple[float, float]] = {}

    def check(self, address: str) -> None:
        """Refuse a request if too many came from its part of the network."""
        part, now = self._part(address), self._clock()
        left, since = self._left.get(part, (float(self._burst), now))
        left = min(self._burst, left + (now - since) * self._each)
        if left < 1:
            raise TooMany("too many responses came from your part of the network")
        if len(self._left) > 100_000:  # forget the parts that may send a whole burst again
            self._left = {
                one: (rest, at)
                for one, (rest, at) in self._left.items()
                if rest + (now - at) * self._each < self._burst
            }
        self._left[part] = (left - 1, now)

    def _part(self, address: str) -> bytes:
        try:
            packed = ipaddress.ip_address(address).packed
            network = packed[: 3 if len(packed) == 4 else 7]
        except ValueError:
            network = b""
        return hmac.digest(self._salt, network, "sha256")[:8]


def log(event: str, **facts: Any) -> None:
    """Log one line of JSON about the operation of the service. Callers never log anything about a
    single response.
    """
    logger.info(json.dumps({"event": event, **facts}))


class WithTraces(Protocol):
    """A shuffler or an analyzer. `has_traces` says whether its store may hold traces of deleted
    rows, which `scrub` removes.
    """

    has_traces: bool

    def scrub(self) -> None: ...


class Attempts:
    """Runs steps of a service for each of its surveys. A step that fails for one survey does not
    hold up the other surveys. Failures are logged and counted, and do not end the service.
    """

    def __init__(self) -> None:
        self._failures: Counter[str] = Counter()

    def for_each(
        self, event: str, surveys: Callable[[], list[str]], step: Callable[[str], None]
    ) -> bool:
        """Run a step for each survey that `surveys` lists, and return whether everything succeeded.
        Failures are logged under the name `event`.
        """
        found: list[str] = []
        done = [self.succeeds(event, lambda: found.extend(surveys()))]
        done += [self.succeeds(event, partial(step, digest), digest) for digest in found]
        return all(done)

    def succeeds(self, event: str, step: Callable[[], None], survey: str = "") -> bool:
        """Run one step, and return whether it succeeded."""
        try:
            step()
        except HeadcountError as error:
            log(event, survey=survey, code=error.code, message=error.message)
        except Exception as error:
            log(event, survey=survey, code="bug", message=type(error).__name__)
        else:
            return True
        self._failures[survey] += 1
        return False

    def scrub(self, role: WithTraces) -> bool:
        """Remove the traces of deleted rows from the store, and return whether none are left."""
        return not role.has_traces or self.succeeds("not scrubbed", role.scrub)

    @property
    def metric(self) -> str:
        """The metric that counts the failures of each survey since the service started."""
        return metric("headcount_failures_total", "counter", self._failures)


def metric(name: str, kind: str, values: Mapping[str, int]) -> str:
    """A metric in the text format of Prometheus, with a value for each survey."""
    lines = [f'{name}{{survey="{survey}"}} {int(value)}\n' for survey, value in values.items()]
    return f"# TYPE {name} {kind}\n{''.join(lines)}"


def log_to_standard_error() -> None:
    """Send the log to standard error, without times. Systems that keep logs add times."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger.handlers = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False
