"""A real HTTP server on this machine that answers as it was told, for the providers' real packages.

Each piece of a stream goes out as an HTTP chunk of its own, so a test decides where the network cuts.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the server sends.

    Args:
        pieces: the body, in the pieces in which it goes out.
        status: the HTTP status.
        headers: further headers.
        end: whether the body is ended, or the connection is dropped after its last piece, or held open until the
            server ends.
    """

    pieces: tuple[bytes, ...] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    end: Literal["ended", "dropped", "held"] = "ended"


@dataclass(frozen=True, slots=True)
class Asked:
    """What came in."""

    path: str
    headers: Mapping[str, str]
    body: Any
    time: float


def stream(events: Iterable[bytes], *, end: Literal["ended", "dropped", "held"] = "ended") -> Answer:
    """An event stream with a piece for each event."""
    return Answer(pieces=tuple(events), headers={"content-type": "text/event-stream"}, end=end)


def refusal(status: int, body: Any, **headers: str) -> Answer:
    """An HTTP error with a body of JSON; `_` in names of headers stands for `-`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(
        pieces=(json.dumps(body).encode(),), status=status, headers={"content-type": "application/json", **named}
    )


class Server:
    """The server, with what it was asked; it answers with what it was told, the last answer again and again."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self._answers: list[Answer] = []
        self._lock = threading.Lock()
        self.over = threading.Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def answers(self, *answers: Answer) -> None:
        with self._lock:
            self._answers = list(answers)

    def take(self, asked: Asked) -> Answer:
        with self._lock:
            self.asked.append(asked)
            return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    @contextmanager
    def running(self) -> Generator[Server]:
        thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield self
        finally:
            self.over.set()
            self._http.shutdown()
            self._http.server_close()
            thread.join()


def _handler(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = server.take(Asked(self.path, headers, json.loads(body), time.monotonic()))
            try:
                self._send(answer)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True  # the client has left

        def _send(self, answer: Answer) -> None:
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for piece in answer.pieces:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            if answer.end == "ended":
                self.wfile.write(b"0\r\n\r\n")
                return
            self.close_connection = True
            if answer.end == "held":
                server.over.wait(30)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler
