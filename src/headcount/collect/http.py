"""What both services share: bodies with a deadline, tokens, one shape of errors, logs without
addresses.
"""

import asyncio
import hmac
import ipaddress
import json
import logging
import secrets
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeAlias

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headcount.collect.refusals import (
    LengthRequired,
    Malformed,
    Refused,
    TooLarge,
    TooMany,
    TooSlow,
    Unauthorized,
    WrongSize,
)
from headcount.collect.shuffler import Clock
from headcount.core.errors import HeadcountError

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]
logger = logging.getLogger("headcount.collect")


def application(routes: list[Route], **settings: Any) -> Starlette:
    """An application whose errors all have one shape."""
    return Starlette(
        routes=routes,
        exception_handlers={
            HeadcountError: _refused,
            HTTPException: _not_routed,
            Exception: _failed,
        },
        **settings,
    )


async def _refused(request: Request, error: Exception) -> Response:
    if not isinstance(error, Refused):
        error = Malformed(str(error))
    headers = {"Retry-After": "30"} if error.http_status in (429, 503, 507) else {}
    if error.http_status == 401:
        headers["WWW-Authenticate"] = "Code" if request.method == "POST" else "Bearer"
    if error.http_status in (408, 413):
        headers["Connection"] = "close"  # the rest of the body is not read
    return JSONResponse(error.to_dict(), error.http_status, headers)


async def _not_routed(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    codes = {404: "not-found", 405: "method-not-allowed"}
    body = {"code": codes.get(status, "refused"), "message": str(getattr(error, "detail", ""))}
    headers = getattr(error, "headers", None)
    return JSONResponse({"error": {**body, "hint": ""}}, status, headers)


async def _failed(request: Request, error: Exception) -> Response:
    log("failed", error=type(error).__name__)
    body = {"code": "bug", "message": "the service failed", "hint": "this is a bug in Headcount"}
    return JSONResponse({"error": body}, 500)


async def body_of(request: Request, *, seconds: float, exact: int = 0, most: int = 0) -> bytes:
    """The body of a request, which must be complete within a number of seconds. Its length must be
    stated. It must be `exact`, or at most `most` if `exact` is 0.
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
    """Refuse a request that does not carry the token."""
    given = request.headers.get("authorization", "")
    if not token or not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
        raise Unauthorized("this request needs the token of the operator")


def code_of(request: Request) -> str | None:
    """The invitation code of a request: `Authorization: Code …`."""
    given: str = request.headers.get("authorization", "")
    kind, _, code = given.partition(" ")
    return code if kind.lower() == "code" and code else None


class RateLimit:
    """A limit on requests from one part of the network: a /24 of IPv4, or a /56 of IPv6.

    The limit lives in memory only. Addresses are replaced by salted hashes, and the salt is
    forgotten when the process ends.
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
        if len(self._left) > 100_000:  # parts whose limit has recovered need no memory
            self._left = {
                one: (rest, at)
                for one, (rest, at) in self._left.items()
                if rest + (now - at) * self._each < self._burst
            }
        self._left[part] = (left - 1, now)

    def _part(self, address: str) -> bytes:
        try:
            parsed = ipaddress.ip_address(address)
            kept = 24 if parsed.version == 4 else 56
            network = ipaddress.ip_network(f"{address}/{kept}", strict=False).network_address.packed
        except ValueError:
            network = b""
        return hmac.digest(self._salt, network, "sha256")[:8]


def log(event: str, **facts: Any) -> None:
    """Write one line of JSON about the operation of the service. Nothing about a single response
    is ever logged.
    """
    logger.info(json.dumps({"event": event, **facts}))


def for_each(event: str, surveys: Callable[[], list[str]], step: Callable[[str], None]) -> bool:
    """Take a step for each of the surveys, and return whether everything succeeded. Failures are
    logged under the name `event`. A survey that fails holds up no other survey.
    """
    found: list[str] = []
    done = [_attempted(event, lambda: found.extend(surveys()))]
    done += [_attempted(event, partial(step, digest)) for digest in found]
    return all(done)


def _attempted(event: str, step: Callable[[], None]) -> bool:
    """Whether a step succeeded. A failure is logged: it must not end the service."""
    try:
        step()
    except HeadcountError as error:
        log(event, code=error.code, message=error.message)
    except Exception as error:
        log(event, code="bug", message=type(error).__name__)
    else:
        return True
    return False


def log_to_standard_error() -> None:
    """Send the log to standard error, without times: the system adds its own if it keeps logs."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger.handlers = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False
