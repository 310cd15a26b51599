"""A crowd of respondents on a few connections, for benchmarks. It sends raw HTTP/1.1."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit


class _Connection(asyncio.Protocol):
    """Sends one request after another, and waits for each answer."""

    def __init__(self, requests: Sequence[bytes], done: "asyncio.Future[None]") -> None:
        self._requests, self._done = iter(requests), done
        self._buffer = b""
        self.stored = 0

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._send()

    def _send(self) -> None:
        request = next(self._requests, None)
        if request is None:
            self._transport.close()
        else:
            self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, ended, body = self._buffer.partition(b"\r\n\r\n")
        if not ended:
            return
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        if len(body) < length:
            return
        self.stored += head.startswith(b"HTTP/1.1 201")
        self._buffer = b""
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._done.done():
            self._done.set_result(None)


async def _sent(url: str, bodies: Sequence[bytes], connections: int) -> tuple[int, float]:
    parts = urlsplit(url)
    heads = (
        f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
        "Content-Type: application/octet-stream\r\nContent-Length: "
    )
    requests = [f"{heads}{len(body)}\r\n\r\n".encode() + body for body in bodies]
    loop = asyncio.get_running_loop()
    ends: list[asyncio.Future[None]] = [loop.create_future() for _ in range(connections)]
    start = time.perf_counter()
    made = [
        await loop.create_connection(
            lambda at=at: _Connection(requests[at::connections], ends[at]),  # type: ignore[misc]
            parts.hostname or "", parts.port or 80,
        )
        for at in range(connections)
    ]  # fmt: skip
    await asyncio.gather(*ends)
    return sum(one.stored for _, one in made), time.perf_counter() - start


def send_all(url: str, bodies: Sequence[bytes], connections: int = 256) -> float:
    """The seconds until every response was answered with 201."""
    import uvloop

    stored, seconds = uvloop.run(_sent(url, bodies, connections))
    if stored != len(bodies):
        raise RuntimeError(f"{len(bodies):,} responses must be stored, got {stored:,}")
    return seconds
