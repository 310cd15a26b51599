"""Running a service: one process, which answers requests until it is told to stop.

The server is uvicorn. It runs in the process that starts it. So one process holds the connection to
the store, the responses that wait for their commit, and the rate limits. When this process ends,
nothing of the service is left. Another server, Granian, needs just as much processor time for a
response, but it runs a supervisor and workers. If its supervisor is killed, the workers live on and
go on writing.
"""

import asyncio
import json
import os
import resource
import signal
import socket
from collections.abc import Callable
from http import HTTPStatus
from threading import Thread
from typing import Any

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from headcount.collect.http import log, log_to_standard_error
from headcount.collect.refusals import Malformed, Refused, TooSlow
from headcount.collect.settings import PARENT, Settings
from headcount.core.errors import InvalidParameter

_LONGEST_HEAD = 2**15  # bytes
_OTHER_FILES = 256  # files and sockets that a service opens besides connections


class _Bounded(HttpToolsProtocol):
    """A connection that bounds the headers of each request. They must arrive within `seconds`
    seconds, and must have at most `_LONGEST_HEAD` bytes. Without these bounds, anybody could keep
    connections open forever.
    """

    seconds = 0.0
    _late: asyncio.TimerHandle | None = None  # runs until the headers are complete
    _head = 0  # the number of bytes of headers that are not complete yet

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._arrived()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._head = 0 if self._late is None else self._head + len(data)
        if self._head > _LONGEST_HEAD:
            self._refuse(
                Malformed(f"the headers of a request must have at most {_LONGEST_HEAD} bytes")
            )

    def on_message_begin(self) -> None:
        self._wait()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._arrived()
        super().on_headers_complete()

    def _wait(self) -> None:
        self._arrived()
        self._late = self.loop.call_later(self.seconds, self._end)

    def _arrived(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _end(self) -> None:
        self._refuse(TooSlow(f"a request's headers must arrive within {self.seconds:g} s"))

    def _refuse(self, refused: Refused) -> None:
        """Send this refusal without asking the application, and close the connection."""
        body = json.dumps(refused.to_dict()).encode()
        head = (
            f"HTTP/1.1 {refused.http_status} {HTTPStatus(refused.http_status).phrase}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
            "connection: close\r\n\r\n"
        )
        if not self.transport.is_closing():
            self.transport.write(head.encode() + body)
            self.transport.close()


def serve(
    app: Starlette, settings: Settings, listening: Callable[[int], None] = lambda port: None
) -> None:
    """Serve until a signal tells the process to stop. `listening` is called with the port as soon
    as the service listens on it.
    """
    log_to_standard_error()
    _stop_with_parent()
    _allow_connections(settings.connections)
    taken = _listening(settings)
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            http=type("Bounded", (_Bounded,), {"seconds": settings.body_seconds}),
            access_log=False,  # it would list addresses and times
            log_config=None,
            server_header=False,
            date_header=False,
            proxy_headers=bool(settings.proxies),
            forwarded_allow_ips=settings.proxies or None,
            limit_concurrency=settings.connections,
            backlog=4096,
            timeout_keep_alive=15,
            timeout_graceful_shutdown=30,
            lifespan="on",
        )
    )
    log("serving", host=settings.host, port=taken.getsockname()[1])
    listening(taken.getsockname()[1])
    server.run(sockets=[taken])


def _stop_with_parent() -> None:
    """Stop this process when the process that started it has ended, even if that process was
    killed.

    Only the process that started this one has the writing end of a pipe. When that process ends,
    the system closes the pipe, and reading from it returns.
    """
    number = os.environ.pop(PARENT, "")
    if not number:
        return

    def wait() -> None:
        os.read(int(number), 1)
        os.kill(os.getpid(), signal.SIGTERM)

    Thread(target=wait, daemon=True).start()


def _allow_connections(connections: int) -> None:
    """Raise the limit on open files to the number that this process needs, or as far as the system
    allows.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + _OTHER_FILES
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _listening(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    made = socket.socket(family)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((settings.host, settings.port))
        made.listen(4096)
    except OSError as error:
        made.close()
        raise InvalidParameter(
            f"the service must be able to listen on {settings.host}:{settings.port}, got: "
            f"{error.strerror}"
        ) from None
    return made
