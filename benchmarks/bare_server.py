"""A bare peer of the shuffler: Starlette on the same server, and the same rows in SQLite.

It commits in groups, as the shuffler does. It does nothing else: no checks, no limits, no search
for copies, and no count of responses.

python -m benchmarks.bare_server PORT DATABASE RESPONSE_BYTES ROW_BYTES
"""

import asyncio
import secrets
import sys
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headcount.collect.server import serve
from headcount.collect.settings import ShufflerSettings
from headcount.collect.sqlite import SqliteStore

_MOST_TOGETHER = 512


def bare_app(store: SqliteStore, response_bytes: int, row_bytes: int) -> Starlette:
    """An application that stores every body."""
    waiting: list[tuple[bytes, asyncio.Future[None]]] = []
    running: list[asyncio.Task[None]] = []

    def write(bodies: list[bytes]) -> None:
        with store.writing() as run:
            run.many(
                "INSERT INTO inbox VALUES (?, 1, ?)",
                [
                    (secrets.randbits(63), body[at : at + row_bytes])
                    for body in bodies
                    for at in range(0, response_bytes, row_bytes)
                ],
            )

    async def drain() -> None:
        while waiting:
            group = waiting[:_MOST_TOGETHER]
            del waiting[:_MOST_TOGETHER]
            await asyncio.to_thread(write, [body for body, _ in group])
            for _, future in group:
                future.set_result(None)

    async def respond(request: Request) -> Response:
        body = await request.body()
        future = asyncio.get_running_loop().create_future()
        waiting.append((body, future))
        if not running or running[0].done():
            running[:] = [asyncio.create_task(drain())]
        await future
        return JSONResponse({"receipt": "stored"}, 201)

    async def healthy(request: Request) -> Response:
        return JSONResponse({"healthy": True})

    return Starlette(
        routes=[
            Route("/surveys/{digest}/responses", respond, methods=["POST"]),
            Route("/healthz", healthy),
        ]
    )


def main(port: int, database: Path, response_bytes: int, row_bytes: int) -> None:
    """Serve until the process is ended."""
    store = SqliteStore(database)
    with store.writing() as run:
        run(
            "CREATE TABLE inbox (place INTEGER PRIMARY KEY, number INTEGER NOT NULL, "
            "body BLOB NOT NULL)"
        )
    serve(bare_app(store, response_bytes, row_bytes), ShufflerSettings(port=port))


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
