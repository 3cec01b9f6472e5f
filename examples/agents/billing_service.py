"""A small web service over the invoices and customers of the triage example, with an OpenAPI document of its own.

`with_openapi` starts it on a port of this machine; `python -m examples.agents.billing_service` serves it until Ctrl-C.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Generator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from examples.triage import checks
from examples.triage.desk import HERE, Desk

KEY: Final = "key-of-the-example"

_INVOICE: Final = {
    "type": "object",
    "properties": {
        "number": {"type": "integer"},
        "lines": {"type": "array", "items": {"type": "object"}},
        "total": {"type": "string"},
    },
}
DOCUMENT: Final[dict[str, Any]] = {
    "openapi": "3.1.0",
    "info": {"title": "billing", "version": "1"},
    "security": [{"key": []}],
    "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Api-Key"}}},
    "paths": {
        "/invoices/{number}": {
            "get": {
                "operationId": "getInvoice",
                "summary": "Get an invoice with its lines and its total.",
                "parameters": [
                    {"name": "number", "in": "path", "required": True, "schema": {"type": "integer", "minimum": 1}}
                ],
                "responses": {"200": {"content": {"application/json": {"schema": _INVOICE}}}},
            },
            "delete": {
                "operationId": "deleteInvoice",
                "parameters": [{"name": "number", "in": "path", "required": True, "schema": {"type": "integer"}}],
                "responses": {"204": {}},
            },
        },
        "/customers": {
            "get": {
                "operationId": "findCustomer",
                "summary": "Find a customer by e-mail address.",
                "parameters": [{"name": "email", "in": "query", "required": True, "schema": {"type": "string"}}],
                "responses": {"200": {"content": {"application/json": {"schema": {"type": "object"}}}}},
            }
        },
    },
}


class _Requests(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """Answer a request."""
        where = urlsplit(self.path)
        if where.path == "/openapi.json":
            self._say(200, DOCUMENT)
        elif self.headers["X-Api-Key"] != KEY:
            self._say(401, {"error": "the header X-Api-Key is missing or wrong"})
        else:
            self._say(*_found(where.path.strip("/").split("/"), parse_qs(where.query)))

    def _say(self, status: int, data: Any) -> None:
        body = json.dumps(data, default=str).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing on the console."""


def _found(parts: list[str], query: dict[str, list[str]]) -> tuple[int, Any]:
    match parts:
        case ["invoices", number] if number.isdecimal():
            file = HERE / "attachments" / f"invoice-{int(number)}.csv"
            if not file.exists():
                return 404, {"error": f"there is no invoice {number}"}
            *lines, total = csv.DictReader(file.read_text(encoding="utf-8").splitlines())
            return 200, {"number": int(number), "lines": lines, "total": total["amount"]}
        case ["customers"]:
            desk = Desk()
            address = query.get("email", [""])[0]
            return 200, checks.entitlement_of(address, desk.customer_list, desk.today).model_dump()
        case _:
            return 404, {"error": "there is nothing here"}


@contextmanager
def serving() -> Generator[str]:
    """Serve on a free port of this machine while this is open; gives the URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Requests)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


if __name__ == "__main__":
    with serving() as here:
        print(f"{here}/openapi.json")
        with suppress(KeyboardInterrupt):
            Event().wait()
