"""A real model on this machine, through our models, prompted tools, agents and graphs, by either vendor's package."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeAlias

import httpx2
import pytest
from pydantic import BaseModel

from examples.local_model import shop
from examples.local_model.served import Served
from examples.local_model.server import NAME
from flowagent.agents import Agent
from flowagent.core.events import TextDelta as Written
from flowagent.errors import ModelError
from flowagent.models.base import Model, ModelRequest, OutputSpec, Reply, Section, StreamPart, TextDelta, ToolSpec
from flowagent.models.messages import Text, ToolMessage, ToolResult, user
from flowagent.models.openai import OpenAIModel
from flowagent.models.openai_chat import OpenAICompatible
from flowagent.models.prompted import PromptedTools

ROOT = Path(__file__).parents[2]

Make: TypeAlias = Callable[[str], Model]

HELLO = ModelRequest(
    system=(Section(name="role", text="You are a helpful assistant."),),
    messages=(user("Say hello."),),
    settings={"max_tokens": 24},
)
ADD = ToolSpec(
    name="add",
    description="Adds two whole numbers.",
    parameters={
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    },
)


def chat(url: str) -> Model:
    """By the `openai` package, as Chat Completions."""
    return shop.model_at(url, "openai")


def responses(url: str) -> Model:
    """By the `openai` package, as Responses."""
    return OpenAIModel(NAME, base_url=f"{url}/v1", api_key="none")


def messages(url: str) -> Model:
    """By the `anthropic` package."""
    return shop.model_at(url, "anthropic")


by_each_interface = pytest.mark.parametrize("make", [chat, responses, messages])
by_each_package = pytest.mark.parametrize("make", [chat, messages])


@by_each_interface
async def test_it_chats(model_server: Served, make: Make) -> None:
    """A real answer, with what it cost."""
    reply = await make(model_server.url).request(HELLO)
    usage = reply.usage
    assert len(reply.message.text.split()) > 3
    assert (reply.message.model, usage.requests, usage.failed, usage.unmeasured) == (NAME, 1, 0, 0)
    assert usage.input is not None
    assert usage.input > 10
    assert usage.output is not None
    assert 3 < usage.output <= 24


@by_each_interface
async def test_it_streams(model_server: Served, make: Make) -> None:
    """The words come one after another, and make up the reply that comes last."""
    parts: list[StreamPart] = [part async for part in make(model_server.url).stream(HELLO)]
    pieces = [part.text for part in parts if isinstance(part, TextDelta)]
    assert isinstance(parts[-1], Reply)
    assert len(pieces) > 3
    assert "".join(pieces) == parts[-1].message.text
    assert parts[-1].first_token is not None
    assert parts[-1].first_token < parts[-1].seconds


@by_each_package
async def test_it_says_that_it_was_cut(model_server: Served, make: Make) -> None:
    """A reply that reached the limit of output says so."""
    reply = await make(model_server.url).request(HELLO.model_copy(update={"settings": {"max_tokens": 2}}))
    assert (reply.message.finish, reply.usage.output) == ("length", 2)


@by_each_interface
async def test_it_refuses_what_is_longer_than_its_window(model_server: Served, make: Make) -> None:
    """The server's own word for a prompt that is too long becomes ours."""
    with pytest.raises(ModelError) as caught:
        await make(model_server.url).request(HELLO.model_copy(update={"messages": (user("word " * 20_000),)}))
    assert (caught.value.kind, caught.value.retryable, caught.value.status) == ("context_exceeded", False, 400)


async def test_it_answers_two_at_once(model_server: Served) -> None:
    """Two conversations by two packages at the same time do not mix."""
    asked = [HELLO, HELLO.model_copy(update={"settings": {"max_tokens": 3}})]
    long, short = await asyncio.gather(
        chat(model_server.url).request(asked[0]), messages(model_server.url).request(asked[1])
    )
    assert long.message.text.startswith(short.message.text[:5])
    assert (short.usage.output, len(long.message.text) > len(short.message.text)) == (3, True)


@by_each_package
async def test_a_stream_may_be_left(model_server: Served, make: Make) -> None:
    """Whoever has heard enough leaves; the server goes on to serve others."""
    model = make(model_server.url)
    stream = model.stream(HELLO.model_copy(update={"settings": {"max_tokens": 500}}))
    async for part in stream:
        if isinstance(part, TextDelta):
            break
    await stream.aclose()
    reply = await model.request(HELLO)
    assert reply.message.text


# -- shapes ------------------------------------------------------------------------------------------------------------


class Pet(BaseModel):
    """A pet."""

    animal: Literal["cat", "dog", "bird"]
    number: int


async def test_it_is_held_to_a_schema(model_server: Served) -> None:
    """What is sent as the shape of the output reaches the model as a grammar that leaves it no choice."""
    spec = OutputSpec(name="pet", schema_=Pet.model_json_schema())
    question = (user("Write a long poem about the sea, and nothing else."),)
    reply = await chat(model_server.url).request(
        ModelRequest(messages=question, output=spec, settings={"max_tokens": 60})
    )
    assert Pet.model_validate_json(reply.message.text).animal in ("cat", "dog", "bird")


@pytest.mark.parametrize(("make", "mode"), [(chat, "native"), (chat, "prompted"), (messages, "prompted")])
async def test_an_agent_gets_the_type_that_it_wants(
    model_server: Served, make: Make, mode: Literal["native", "prompted"]
) -> None:
    """A typed answer of a real model: by its server's grammar, or by asking for JSON and reading what comes."""
    agent = Agent(make(model_server.url), name="reader", output=Pet, output_mode=mode, settings={"max_tokens": 60})
    result = await agent.run("We have 7 birds.", history=shop.EARLIER_LETTERS)
    assert (result.output, result.output_mode) == (Pet(animal="bird", number=7), mode)


# -- tools -------------------------------------------------------------------------------------------------------------


@by_each_package
async def test_it_calls_a_tool_in_words(model_server: Served, make: Make) -> None:
    """A model without tool calls writes one as JSON, which comes back as a call, and it reads the result."""
    model = PromptedTools(make(model_server.url))
    request = ModelRequest(
        messages=(*shop.EARLIER_SUMS, user("What is 19 + 23?")), tools=(ADD,), settings={"max_tokens": 60}
    )
    asked = (await model.request(request)).message
    assert [(call.name, call.arguments) for call in asked.calls] == [("add", '{"a": 19, "b": 23}')]
    assert asked.finish == "tool_calls"
    results = ToolMessage(results=(ToolResult(id=asked.calls[0].id, name="add", content=(Text(text="42"),)),))
    answer = await model.request(request.model_copy(update={"messages": (*request.messages, asked, results)}))
    assert (answer.message.text, answer.message.finish) == ("42", "stop")


@by_each_package
async def test_an_agent_runs_the_tool_that_it_calls(model_server: Served, make: Make) -> None:
    """The call of a real model runs real code, and the model's answer is that code's result."""
    called: list[tuple[int, int]] = []

    def add(a: int, b: int) -> int:
        """Adds two whole numbers."""
        called.append((a, b))
        return a + b

    agent = Agent(make(model_server.url), name="counter", tools=[add], settings={"max_tokens": 60})
    result = await agent.run("What is 19 + 23?", history=shop.EARLIER_SUMS)
    assert (result.output, called, result.usage.requests, result.usage.tool_calls) == ("42", [(19, 23)], 2, 1)


# -- graphs ------------------------------------------------------------------------------------------------------------


@by_each_package
async def test_a_graph_of_agents_runs(model_server: Served, make: Make, tmp_path: Path) -> None:
    """Two agents side by side and a third after them: read, counted and answered, stored, and drawn."""
    graph = shop.shop(make(model_server.url))
    letter = shop.Letter(text="Dear shop, I bought 3 cats.")
    async with graph.stream(letter, store=str(tmp_path / "runs.db"), run_id="letter-1") as watch:
        events = [event async for event in watch]
    written = [event.text for event in events if isinstance(event, Written) and event.path[:1] == ("writer",)]
    state = watch.run.state
    assert (state.bought, state.cans) == (shop.Purchase(animal="cat", number=3), "42")
    assert state.answer
    assert "".join(written).strip() == state.answer
    assert (watch.run.usage.requests, watch.run.usage.tool_calls, watch.run.usage.unmeasured) == (4, 1, 0)
    picture = watch.run.draw().svg()
    assert all(f">{name}<" in picture for name in ("reader", "counter", "writer"))
    assert "tokens" in picture


@by_each_package
async def test_a_finished_run_asks_the_model_nothing_again(model_server: Served, make: Make, tmp_path: Path) -> None:
    """What is read from the store is what the model said; no request is made for it."""
    graph = shop.shop(make(model_server.url))
    store = str(tmp_path / "runs.db")
    run = await graph.run(shop.Letter(text="We have 7 birds."), store=store, run_id="letter-2")
    again = await shop.shop(make("http://127.0.0.1:9")).run(
        shop.Letter(text="We have 7 birds."), store=store, run_id="letter-2"
    )
    assert (again.state, again.status) == (run.state, "completed")
    assert run.state.bought == shop.Purchase(animal="bird", number=7)


def test_the_demo_runs_and_ends(model_server: Served, tmp_path: Path) -> None:
    """`make demo-model` starts a server of its own, tells what happens, leaves a picture, and nothing else."""
    command = [sys.executable, "-m", "examples.local_model", "--out", str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    for told in ("counter calls add(", "add returns 42", "3 x cat", "42 cans (really 42)", "The server is stopped."):
        assert told in ended.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["local-model.svg"]
    served = re.search(r"http://127\.0\.0\.1:\d+", ended.stdout)
    assert served is not None
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(served[0])


# -- servers of other kinds --------------------------------------------------------------------------------------------


async def test_a_server_may_be_named_by_what_it_is(model_server: Served) -> None:
    """`llamacpp:` is a provider; the server stands where it is told to."""
    model = OpenAICompatible(NAME, base_url=f"{model_server.url}/v1", provider="llamacpp")
    reply = await model.request(HELLO)
    assert (model.name, reply.message.provider) == (f"llamacpp:{NAME}", "llamacpp")
