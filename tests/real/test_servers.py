"""The servers of these tests speak to the vendors' own clients: what our models read of them is no private dialect."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import anthropic
import httpx2
import openai
import pytest

from examples.local_model.served import NotServed, Served, served
from examples.local_model.server import NAME
from tests.real.mock import MockServer
from tests.real.relay import relay

GREETING = "Grüß Gott, 世界! 👋🏽"

Asked: TypeAlias = Callable[[str, str], Awaitable[str]]


async def by_chat(url: str, question: str) -> str:
    """Asks through OpenAI's Chat Completions."""
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        stream = await client.chat.completions.create(
            model=NAME, messages=[{"role": "user", "content": question}], stream=True, max_tokens=12
        )
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])


async def by_responses(url: str, question: str) -> str:
    """Asks through OpenAI's Responses."""
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        stream = await client.responses.create(model=NAME, input=question, stream=True, max_output_tokens=12)
        return "".join([event.delta async for event in stream if event.type == "response.output_text.delta"])


async def by_messages(url: str, question: str) -> str:
    """Asks through Anthropic's Messages."""
    async with (
        anthropic.AsyncAnthropic(base_url=url, api_key="none", max_retries=0) as client,
        client.messages.stream(model=NAME, messages=[{"role": "user", "content": question}], max_tokens=12) as stream,
    ):
        return "".join([text async for text in stream.text_stream])


by_each_client = pytest.mark.parametrize("ask", [by_chat, by_responses, by_messages])


@by_each_client
async def test_the_mock_server_speaks_to_the_vendors_clients(mock: MockServer, ask: Asked) -> None:
    """What the mock server is told to play comes out of the vendor's client, whichever interface is used."""
    mock.plays({"content": GREETING}, match={"userMessage": "hello"})
    assert await ask(mock.url, "Say hello.") == GREETING
    assert [request["body"]["model"] for request in mock.requests()] == [NAME]


@by_each_client
async def test_the_relay_changes_no_byte(mock: MockServer, ask: Asked) -> None:
    """A stream that comes in packets of one byte, characters cut apart, says the same."""
    mock.plays({"content": GREETING})
    async with relay(mock.url, piece=1) as wire:
        assert await ask(wire.url, "Say hello.") == GREETING


@by_each_client
async def test_the_relay_cuts_a_stream(mock: MockServer, ask: Asked) -> None:
    """A connection that ends in the middle of a reply is an error of the vendor's client."""
    mock.plays({"content": GREETING * 100}, chunkSize=3)
    async with relay(mock.url, cut_after=2000) as wire:
        with pytest.raises((httpx2.HTTPError, openai.OpenAIError, anthropic.AnthropicError)):
            await ask(wire.url, "Say hello.")


@by_each_client
async def test_the_mock_server_limits_the_rate(mock: MockServer, ask: Asked) -> None:
    """A rate limit comes with the header that says how long to wait."""
    mock.plays({"error": {"message": "slow down", "type": "rate_limit_error"}, "status": 429, "retryAfter": 7})
    with pytest.raises((openai.RateLimitError, anthropic.RateLimitError)) as caught:
        await ask(mock.url, "Say hello.")
    assert caught.value.response.headers["retry-after"] == "7"


@by_each_client
async def test_the_real_model_speaks_to_the_vendors_clients(model_server: Served, ask: Asked) -> None:
    """A real model answers through each client, with the same words, for it always takes the likeliest."""
    answer = await ask(model_server.url, "Say hello.")
    assert len(answer.split()) > 3
    assert answer == await ask(model_server.url, "Say hello.")


async def test_the_real_model_is_held_to_a_schema(model_server: Served) -> None:
    """Asked for a shape through Chat Completions, the model cannot write anything else."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"name": {"type": "string", "enum": ["cat", "dog"]}, "legs": {"type": "integer"}},
        "required": ["name", "legs"],
        "additionalProperties": False,
    }
    async with openai.AsyncOpenAI(base_url=f"{model_server.url}/v1", api_key="none", max_retries=0) as client:
        reply = await client.chat.completions.create(
            model=NAME,
            messages=[{"role": "user", "content": "Write a long poem about the sea."}],
            max_tokens=60,
            response_format={"type": "json_schema", "json_schema": {"name": "pet", "schema": schema, "strict": True}},
        )
    pet = json.loads(reply.choices[0].message.content or "")
    assert (pet["name"] in ("cat", "dog"), type(pet["legs"]), sorted(pet)) == (True, int, ["legs", "name"])


async def test_the_real_model_refuses_what_is_longer_than_its_window(model_server: Served) -> None:
    """A prompt that does not fit is refused, not shortened."""
    with pytest.raises(openai.BadRequestError, match="exceeds the available context size"):
        await by_chat(model_server.url, "word " * 20_000)


# -- how servers are started and stopped -------------------------------------------------------------------------------

ANSWERS = """
import http.server, sys, threading
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
sys.stdin.read()
"""


def test_a_server_runs_as_long_as_its_block(tmp_path: Path) -> None:
    """It answers inside the `with` block, and its process is gone after it."""
    with served([sys.executable, "-c", ANSWERS], log=tmp_path / "log", cwd=tmp_path, health="/") as server:
        assert httpx2.get(server.url).status_code == 200
        os.kill(server.pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(server.pid, 0)


def test_a_server_that_does_not_mind_its_input_is_stopped_by_force(tmp_path: Path) -> None:
    """One that neither ends with its standard input nor when it is asked to is killed."""
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)" + ANSWERS + "threading.Event().wait()"
    with served(
        [sys.executable, "-c", stubborn], log=tmp_path / "log", cwd=tmp_path, health="/", patience=0.2
    ) as server:
        os.kill(server.pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(server.pid, 0)


def test_a_server_that_ends_at_once_is_told_with_its_log(tmp_path: Path) -> None:
    """What it wrote before it ended is in the error."""
    command = [sys.executable, "-c", "import sys; sys.exit('no model here')"]
    with (
        pytest.raises(NotServed, match="exit code 1; its log ends so:\nno model here"),
        served(command, log=tmp_path / "log"),
    ):
        pytest.fail("it never served")


def test_a_server_that_never_answers_is_stopped(tmp_path: Path) -> None:
    """Its time runs out, and it is not left behind."""
    command = [sys.executable, "-c", "import os, sys; print(os.getpid(), flush=True); sys.stdin.read()"]
    with pytest.raises(NotServed, match="did not answer in time"), served(command, log=tmp_path / "log", seconds=0.5):
        pytest.fail("it never served")
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "log").read_text("utf-8")), 0)
