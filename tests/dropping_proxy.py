"""A proxy that passes requests on and drops some of the replies."""

import random
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress


@contextmanager
def dropping_proxy(
    target: str, *, share: float, seed: int
) -> Iterator[tuple[str, Callable[[], int]]]:
    """The proxy's address, and how many replies it has dropped. Each connection has one request."""
    host, port = target.removeprefix("http://").split(":")
    chosen, dropped = random.Random(seed), [0]

    def pass_on(client: socket.socket) -> None:
        with closing(client), suppress(OSError):
            client.settimeout(20)
            request = _request(client)
            with socket.create_connection((host, int(port)), timeout=20) as behind:
                behind.sendall(request)
                reply = _reply(behind)
            if chosen.random() < share:
                dropped[0] += 1
            else:
                client.sendall(reply)

    def serve() -> None:
        while True:
            try:
                client, _ = listening.accept()
            except OSError:  # the socket is closed
                return
            threading.Thread(target=pass_on, args=(client,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}", lambda: dropped[0]
        finally:
            listening.shutdown(socket.SHUT_RDWR)


def _request(client: socket.socket) -> bytes:
    """A whole request. It asks for a connection that ends with the reply."""
    found = b""
    while b"\r\n\r\n" not in found:
        found += _some(client)
    head, _, body = found.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
    while len(body) < length:
        body += _some(client)
    return head + b"\r\nConnection: close\r\n\r\n" + body


def _some(client: socket.socket) -> bytes:
    found = client.recv(65536)
    if not found:
        raise ConnectionError("the request ended too early")
    return found


def _reply(behind: socket.socket) -> bytes:
    found = b""
    while some := behind.recv(65536):
        found += some
    if not found:
        raise ConnectionError("there is no reply")
    return found
