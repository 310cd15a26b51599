"""Running a service: one process, which answers requests until it is told to stop.

The server is uvicorn. It runs in the process that starts it. So one process holds the connection to
the store, the responses that wait for their commit and the limits of requests, and all of it ends
together. Granian would answer more requests per second, but it runs a supervisor and workers. A
supervisor that is killed leaves workers behind, which go on writing.
"""

import socket

import uvicorn
from starlette.applications import Starlette

from headcount.collect.http import log, log_to_standard_error
from headcount.collect.settings import Settings
from headcount.core.errors import InvalidParameter


def serve(app: Starlette, settings: Settings) -> None:
    """Serve until a signal to stop."""
    log_to_standard_error()
    taken = _listening(settings)
    server = uvicorn.Server(
        uvicorn.Config(
            app,
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
    server.run(sockets=[taken])


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
