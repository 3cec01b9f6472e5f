"""A real HTTP server on loopback, in a thread of its own, which keeps what it was asked."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Asked:
    """One request as it came in."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Answered:
    """One response as it goes out."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    chunks: Iterator[bytes] | None = None


Handler = Callable[[Asked], Answered]


@dataclass
class Served:
    """A running server."""

    port: int
    asked: list[Asked]
    scheme: str = "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"


@contextmanager
def serving(handler: Handler, *, context: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> Generator[Served]:
    """Serve until the block ends; every request is kept before it is answered."""
    asked: list[Asked] = []

    class Handling(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            one = Asked(self.command, self.path, {key.lower(): value for key, value in self.headers.items()}, body)
            asked.append(one)
            answer = handler(one)
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if answer.chunks is None:
                self.send_header("content-length", str(len(answer.body)))
            self.end_headers()
            self.close_connection = True
            try:
                for chunk in answer.chunks or [answer.body]:
                    self.wfile.write(chunk)
            except OSError:
                pass  # the caller has had enough

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = _answer  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer((host, 0), Handling)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield Served(server.server_address[1], asked, "http" if context is None else "https")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
