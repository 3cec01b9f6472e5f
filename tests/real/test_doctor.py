"""`flowagent doctor`, as a person types it, against servers that others wrote.

What goes well is typed in a process of its own. What goes wrong is typed in this one: there each process would load
the vendors' packages anew, which takes far longer than the question.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from examples.local_model.served import Served
from examples.local_model.server import NAME
from tests.cli.conftest import CommandLine
from tests.real.mock import MockServer

ROOT = Path(__file__).parents[2]
CALLS_STUB = {"toolCalls": [{"name": "stub", "arguments": {}}]}
CALLS_REAL = {"toolCalls": [{"name": "multiply", "arguments": {"a": 1234, "b": 5678}}]}

by_each_name = pytest.mark.parametrize(
    ("model", "path"), [("anthropic:claude-haiku-4-5", ""), ("openai:gpt-5.5", "/v1"), ("llamacpp:any", "/v1")]
)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    """The key in the environment, for either vendor."""
    key = "sk-none-of-yours"
    monkeypatch.setenv("ANTHROPIC_API_KEY", key)
    monkeypatch.setenv("OPENAI_API_KEY", key)
    return key


def in_a_process(*words: str) -> tuple[int, Any]:
    """The exit code of the command and its document."""
    command = [sys.executable, "-m", "flowagent.cli", "doctor", "--json", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, env=environment, capture_output=True, timeout=300, check=False)
    return ended.returncode, json.loads(ended.stdout)


def doctor(*words: str) -> tuple[int, Any]:
    """The same, in this process."""
    ended = CommandLine()("doctor", "--json", *words)
    return ended.code, ended.document


def found(document: Any) -> list[tuple[bool | None, str | None]]:
    """Of each step whether it went well, and what broke."""
    return [(step["ok"], step["link"]) for step in document["steps"]]


@by_each_name
def test_every_link_holds(mock: MockServer, model: str, path: str) -> None:
    """Three questions over HTTP, two of them with a tool whose result goes back."""
    mock.plays({"content": "ready"}, match={"userMessage": "ready"})
    mock.plays(CALLS_STUB, match={"toolName": "stub", "hasToolResult": False})
    mock.plays({"content": "It returned 1."}, match={"toolName": "stub", "toolResultContains": "1"})
    mock.plays(CALLS_REAL, match={"toolName": "multiply", "hasToolResult": False})
    mock.plays({"content": "7006652"}, match={"toolName": "multiply", "toolResultContains": "7006652"})
    code, document = in_a_process("--model", model, "--base-url", mock.url + path)
    assert (code, document["model"], found(document)) == (0, model, [(True, None)] * 3)
    assert len(mock.requests()) == 5


@by_each_name
def test_a_wrong_key_is_told(mock: MockServer, model: str, path: str, key: str) -> None:
    """The server refuses the key: that is the link, and the key itself is not shown."""
    mock.plays(
        {"error": {"message": "bad key", "type": "authentication_error", "code": "invalid_api_key"}, "status": 401}
    )
    code, document = doctor("--model", model, "--base-url", mock.url + path)
    assert (code, found(document)) == (1, [(False, "key"), (None, None), (None, None)])
    assert key not in json.dumps(document)


def test_a_limit_is_told_and_not_waited_out(mock: MockServer) -> None:
    """The doctor makes one attempt: what is wrong now is what is wanted."""
    mock.plays({"error": {"message": "slow down", "type": "rate_limit_error"}, "status": 429, "retryAfter": 60})
    code, document = doctor("--model", "openai:gpt-5.5", "--base-url", f"{mock.url}/v1")
    assert (code, found(document)[0], len(mock.requests())) == (1, (False, "provider"), 1)


def test_a_real_model_without_tools_is_found_out(model_server: Served) -> None:
    """The local model answers, but calls no tool: the way to it holds, and the link that breaks is its calling."""
    code, document = doctor("--model", f"llamacpp:{NAME}", "--base-url", f"{model_server.url}/v1")
    assert (code, found(document)) == (1, [(True, None), (False, "call"), (None, None)])
    assert "--prompted" in document["steps"][1]["remedy"]
