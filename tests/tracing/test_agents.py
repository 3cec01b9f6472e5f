"""Traces of agents: what is asked and called, by the names of the conventions."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator
from decimal import Decimal
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, SecretStr

from flowagent import END, START, Context, Graph, Retry, RunOptions, State, secret
from flowagent.agents import Agent, choose
from flowagent.agents.asking import ask
from flowagent.core.events import ModelAsked, ModelCalled, ToolEnded
from flowagent.core.usage import Usage
from flowagent.errors import ModelError, RunFailed
from flowagent.models.base import Model, ModelRequest, StreamPart, TextDelta, Waiting
from flowagent.models.messages import AssistantMessage, Media, Opaque, Text, UserMessage
from flowagent.models.scripted import Scripted
from flowagent.models.steps import after, call, calls, fail, say, think
from flowagent.stores import MemoryStore
from flowagent.tracing import listening
from flowagent.tracing.content import input_messages
from tests.patience import PATIENCE
from tests.tracing.collected import Collected, told, visit

SPENT = Usage(requests=1, input=30, output=12, cache_read=20, cache_write=5, reasoning=4, cost=Decimal("0.25"))


class Doc(State):
    topic: str = "tides"
    draft: str = ""


def writing(writer: Model, *, tools: Any = (), router: Model | None = None) -> Graph[Doc, Any]:
    """A router by model, and an agent as a node."""
    g: Graph[Doc, Any] = Graph("desk", Doc)
    g.node(Agent(writer, name="writer", tools=tools), prompt="Write about {topic}.", into="draft")
    if router is None:
        g.chain(START, "writer", END)
    else:
        g.router(choose(router, prompt="Which? {topic}", choices={"writer": "", "END": ""}))
        g.chain(START, "choose")
        g.chain("writer", END)
    return g


async def test_agents_models_and_parallel_sync_tools_stand_in_one_tree(collected: Collected) -> None:
    """FA-118: three sync tools at once in threads, an agent below an agent; once resumed, and no span is an orphan."""
    together = threading.Barrier(3)

    def look(word: str) -> str:
        """Look a word up."""
        together.wait(PATIENCE)
        with collected.tracers.get_tracer("mine").start_as_current_span(f"look {word}"):
            return word.upper()

    def check(fact: str) -> str:
        """Check a fact."""
        return "true"

    expert = Agent(Scripted(call("check", fact="x"), say("yes")), name="expert", tools=[check], description="Knows.")
    asked = calls(*[call("look", word=word) for word in "abc"], call("expert", task="Is x true?"))
    writer = Scripted(asked, fail("bad_request", "no"), say("done"))
    g = writing(writer, tools=[look, expert], router=Scripted(say({"answer": "writer"})))
    how: RunOptions = {"store": MemoryStore(), "listeners": [collected.tracing()]}
    with pytest.raises(RunFailed):
        await g.run({}, run_id="r", **how)
    run = await g.resume("r", **how)
    assert run.state.draft == "done"
    looked = [
        [
            f"      node tools [{item}]",
            "        node dispatch",
            "          execute_tool look",
            f"            look {word}",
        ]
        for item, word in enumerate("abc")
    ]
    assert collected.trees(visit) == [
        "invoke_workflow desk",
        "  invoke_agent writer",
        "    node model",
        "      chat model",
        "    node model @2",
        "      chat model",
        "    node tools",
        *[line for lines in looked for line in lines],
        "      node tools [3]",
        "        invoke_agent expert",
        "          node model",
        "            chat model",
        "          node model @2",
        "            chat model",
        "          node output @2",
        "          node tools",
        "            node tools [0]",
        "              execute_tool check",
        "        node dispatch",
        "          execute_tool expert",
        "  node choose",
        "    chat model",
        "invoke_workflow desk",
        "  invoke_agent writer",
        "    node model @2",
        "      chat model",
        "    node output @2",
    ]
    assert len({span.context.trace_id for span in collected.spans if span.context}) == 2
    begun, resumed = [span for span in collected.spans if span.parent is None]
    assert begun.context is not None
    assert [link.context.span_id for link in resumed.links] == [begun.context.span_id]


async def test_a_request_says_what_the_conventions_want(collected: Collected) -> None:
    """Names as the conventions have them; nothing of what was said."""
    agent = Agent(
        Scripted(say("42", usage=SPENT), name="acme:large"),
        name="sums",
        settings={"max_tokens": 100, "temperature": 0.5, "stop": ["END"]},
    )
    result = await agent.run("What is 19 + 23?", run_id="r", listeners=[collected.tracing()])
    span = collected.named("chat large")
    known = dict(span.attributes or {})
    assert isinstance(known.pop("gen_ai.response.time_to_first_chunk"), float)
    assert known == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "acme",
        "gen_ai.request.model": "large",
        "gen_ai.conversation.id": "r",
        "gen_ai.request.max_tokens": 100,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.stop_sequences": ("END",),
        "gen_ai.output.type": "text",
        "gen_ai.response.model": "large",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 30,
        "gen_ai.usage.output_tokens": 12,
        "gen_ai.usage.cache_read.input_tokens": 20,
        "gen_ai.usage.cache_creation.input_tokens": 5,
        "gen_ai.usage.reasoning.output_tokens": 4,
        "flowagent.cost": 0.25,
    }
    assert (span.kind.name, span.status.status_code.name, result.output) == ("CLIENT", "UNSET", "42")
    assert dict(collected.named("invoke_agent sums").attributes or {}) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "sums",
        "gen_ai.conversation.id": "r",
        "flowagent.run.id": "r",
        "flowagent.run.resumed": False,
        "flowagent.run.status": "completed",
    }


async def test_usage_stands_on_requests_only_and_adds_up_to_the_run_s(collected: Collected) -> None:
    """46, FA-117: on parents it would count twice; streamed or not, failed requests count, and unknown is not 0."""
    failed = Usage(requests=1, failed=1, input=7, unpriced=1)
    unknown = Usage(requests=1, unmeasured=1, unpriced=1)
    totals: list[tuple[int, int]] = []
    for is_streamed in (False, True):
        writer = Scripted(fail("overloaded", usage=failed), say("a", usage=SPENT), name="acme:large")
        router = Scripted(say({"answer": "writer"}, usage=unknown), name="acme:small")
        g: Graph[Doc, Any] = Graph("desk", Doc)
        g.node(Agent(writer, name="writer", retry=Retry(attempts=2, backoff=0)), prompt="{topic}", into="draft")
        g.router(choose(router, prompt="Which? {topic}", choices={"writer": "", "END": ""}))
        g.chain(START, "choose")
        g.chain("writer", END)
        tracing = collected.tracing()
        if is_streamed:
            async with g.stream({}, listeners=[tracing]) as events:
                _ = [event async for event in events]
            run = events.run
        else:
            run = await g.run({}, listeners=[tracing])
        totals.append((run.usage.input or 0, run.usage.output or 0))
    spans = [span for span in collected.spans if any("usage" in name for name in span.attributes or {})]
    assert [(span.name, (span.attributes or {}).get("gen_ai.usage.input_tokens")) for span in spans] == [
        ("chat large", 7),
        ("chat large", 30),
    ] * 2
    assert totals == [(37, 12)] * 2
    assert told(spans[0], "error.type", "gen_ai.usage.output_tokens") == {
        "error.type": "overloaded",
        "gen_ai.usage.output_tokens": None,
    }


async def test_requests_are_measured(collected: Collected) -> None:
    """Tokens by type and durations, with what was asked; a failure says what kind it was."""
    agent = Agent(
        Scripted(fail("overloaded", usage=Usage(requests=1, failed=1)), say("a", usage=SPENT), name="acme:large"),
        name="sums",
        retry=Retry(attempts=2, backoff=0),
    )
    await agent.run("?", listeners=[collected.tracing()])
    asked = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "acme",
        "gen_ai.request.model": "large",
    }
    answered = {**asked, "gen_ai.response.model": "large"}
    assert collected.points("gen_ai.client.token.usage") == [
        ({**answered, "gen_ai.token.type": "input"}, 30),
        ({**answered, "gen_ai.token.type": "output"}, 12),
    ]
    durations = collected.points("gen_ai.client.operation.duration")
    assert [known for known, _ in durations] == [{**asked, "error.type": "overloaded"}, answered]


async def test_content_is_shown_when_it_is_asked_for(collected: Collected) -> None:
    """In the conventions' form: instructions, messages of both sides, tools, arguments and results."""

    def look(word: str) -> str:
        """Look a word up."""
        return f"{word}!"

    picture = Media(data=b"\x89PNG", media_type="image/png")
    model = Scripted((think("hm"), call("look", word="tide")), say("Done."))
    agent = Agent(model, name="looker", tools=[look], instructions="Be brief.")
    await agent.run(["What is this?", picture], listeners=[collected.tracing(content=True)])
    first, second = [span for span in collected.spans if span.name == "chat model"]
    said = {
        name.removeprefix("gen_ai."): json.loads(str(value))
        for name, value in (first.attributes or {}).items()
        if str(value).startswith("[")
    }
    system = said.pop("system_instructions")
    assert {one["type"] for one in system} == {"text"}
    assert "Be brief." in [one["content"] for one in system]
    assert said == {
        "input.messages": [
            {
                "role": "user",
                "parts": [
                    {"type": "text", "content": "What is this?"},
                    {
                        "type": "blob",
                        "content": "",
                        "base64_characters": 8,
                        "mime_type": "image/png",
                        "modality": "image",
                    },
                ],
            }
        ],
        "output.messages": [
            {
                "role": "assistant",
                "parts": [
                    {"type": "reasoning", "content": "hm"},
                    {"type": "tool_call", "id": "call-1", "name": "look", "arguments": {"word": "tide"}},
                ],
                "finish_reason": "tool_calls",
            }
        ],
        "tool.definitions": [
            {
                "type": "function",
                "name": "look",
                "description": "Look a word up.",
                "parameters": {
                    "properties": {"word": {"type": "string"}},
                    "additionalProperties": False,
                    "required": ["word"],
                    "type": "object",
                },
            }
        ],
    }
    assert json.loads(str((second.attributes or {})["gen_ai.input.messages"]))[-1] == {
        "role": "tool",
        "parts": [{"type": "tool_call_response", "id": "call-1", "response": "tide!"}],
    }
    assert dict(collected.named("execute_tool look").attributes or {}) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "call-1",
        "gen_ai.tool.call.arguments": '{"word":"tide"}',
        "gen_ai.tool.call.result": "tide!",
    }


async def test_nothing_that_was_said_is_shown_unless_it_is_asked_for(collected: Collected) -> None:
    """Neither questions, answers, arguments, results nor the texts of errors."""

    def look(word: str) -> str:
        """Look a word up."""
        raise ValueError(f"canary-result {word}")

    model = Scripted(call("look", word="canary-argument"), fail("bad_request", "canary-error"))
    agent = Agent(model, name="looker", tools=[look], instructions="canary-instructions")
    with pytest.raises(ModelError), listening(collected.tracing()):
        await agent.run("canary-question")
    assert "canary" not in "\n".join(span.to_json() for span in collected.spans)
    failed = collected.named("execute_tool look")
    assert (failed.status.status_code.name, (failed.attributes or {})["error.type"]) == ("ERROR", "tool_error")
    chat = [span for span in collected.spans if span.name == "chat model"][-1]
    assert (chat.status.status_code.name, (chat.attributes or {})["error.type"]) == ("ERROR", "bad_request")


class Login(BaseModel):
    user: str
    password: SecretStr


async def test_no_secret_is_shown_with_the_content(collected: Collected) -> None:
    """FA-114: keys by their form, secret arguments by their declaration, wherever they are."""

    def login(login: Login, pin: Annotated[str, secret]) -> str:
        """Log in."""
        return f"{login.user} is in with {login.password.get_secret_value()} and {pin}"

    model = Scripted(
        call("login", login={"user": "ada", "password": 'open "sesame"'}, pin="pin-4711"),
        fail("bad_request", 'no: key sk-test-123456 sent open "sesame" and pin-4711'),
    )
    agent = Agent(model, name="porter", tools=[login])
    with pytest.raises(ModelError), listening(collected.tracing(content=True)):
        await agent.run("My key is sk-test-123456.")
    shown = "\n".join(span.to_json() for span in collected.spans)
    assert [canary for canary in ("sk-test-123456", "sesame", "pin-4711") if canary in shown] == []
    assert "My key is [redacted]." in shown


async def test_a_redaction_of_one_s_own_is_used_and_may_be_none(collected: Collected) -> None:
    """`redact=None` shows everything as it is."""

    def own(text: str) -> str:
        return text.replace("sk-test", "key")

    for redact in (own, None):
        agent = Agent(Scripted(say("fine")), name="a")
        await agent.run("sk-test-123456", listeners=[collected.tracing(content=True, redact=redact)])
    said = [
        json.loads(str((span.attributes or {})["gen_ai.input.messages"]))[0]["parts"][0]["content"]
        for span in collected.spans
        if span.name == "chat model"
    ]
    assert said == ["key-123456", "sk-test-123456"]


async def test_waits_within_a_request_are_events_of_its_span(collected: Collected) -> None:
    """A model retries by itself; the span is of the whole request, and tells of each failure."""
    waiting = Waiting(1.5, fail("overloaded", "busy"), restarted=True)
    agent = Agent(Scripted(after(TextDelta("Hel"), waiting, then=say("Hello"))), name="a")
    await agent.run("?", listeners=[collected.tracing()])
    (event,) = collected.named("chat model").events
    assert (event.name, dict(event.attributes or {})) == (
        "flowagent.wait",
        {"error.type": "overloaded", "flowagent.wait.seconds": 1.5},
    )


async def test_a_request_that_is_cut_short_ends_with_its_attempt(collected: Collected) -> None:
    """What is no `ModelError` (here: a script that is used up) ends the spans that are open all the same."""
    agent = Agent(Scripted(), name="a")
    with pytest.raises(RunFailed):
        await agent.run("?", listeners=[collected.tracing()])
    assert collected.trees() == ["invoke_agent a", "  node model", "    chat model"]
    assert told(collected.named("chat model"), "flowagent.task.ending") == {"flowagent.task.ending": "stopped"}
    assert told(collected.named("node model"), "error.type") == {"error.type": "UnexpectedRequest"}


async def test_spans_made_within_a_request_stand_below_it(collected: Collected) -> None:
    """Such as those of an HTTP client that is traced by itself; afterwards the attempt is current again."""
    tracer = collected.tracers.get_tracer("http")

    class Traced(Scripted):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart]:
            with tracer.start_as_current_span("POST"):
                pass
            async for part in super().stream(request):
                yield part

    def check(value: str, ctx: Any) -> None:
        with tracer.start_as_current_span("check"):
            pass

    agent = Agent(Traced(say("a")), name="a", checks=[check])
    await agent.run("?", listeners=[collected.tracing()])
    assert collected.trees() == [
        "invoke_agent a",
        "  node model",
        "    chat model",
        "      POST",
        "  node output",
        "    check",
    ]


def test_media_by_its_address_is_shown_as_such() -> None:
    """And what only its provider reads as nothing but its kind."""
    linked = Media(url="https://example.org/a.pdf", media_type="application/pdf")
    said = AssistantMessage(parts=(Opaque(provider="acme", data="{}"), Text(text="hm")))
    request = ModelRequest(messages=(UserMessage(parts=(linked,)), said))
    assert json.loads(input_messages(request.model_dump(mode="json"))) == [
        {
            "role": "user",
            "parts": [
                {
                    "type": "uri",
                    "uri": "https://example.org/a.pdf",
                    "mime_type": "application/pdf",
                    "modality": "document",
                }
            ],
        },
        {"role": "assistant", "parts": [{"type": "opaque"}, {"type": "text", "content": "hm"}]},
    ]


async def test_one_request_may_be_made_of_several_models_at_once(collected: Collected) -> None:
    """Each has a span of its own with its own usage, though they share the request and the node."""
    request = ModelRequest(messages=(UserMessage(parts=(Text(text="?"),)),))
    counts = {"acme:a": 1, "acme:b": 2}
    models = [Scripted(say("a", usage=Usage(requests=1, input=n)), name=name) for name, n in counts.items()]
    g: Graph[Doc, Any] = Graph("g", Doc)

    @g.node
    async def compare(doc: Doc, ctx: Context[Any, Doc]) -> None:
        await asyncio.gather(*[ask(model, request, ctx) for model in [*models, Scripted(say("c"), name="acme:b")]])

    g.chain(START, compare, END)
    await g.run({}, listeners=[collected.tracing()])
    assert collected.trees() == ["invoke_workflow g", "  node compare", "    chat a", "    chat b", "    chat b"]
    chats = [span for span in collected.spans if span.name.startswith("chat")]
    assert sorted(told(span, "gen_ai.usage.input_tokens").popitem()[1] for span in chats)[:2] == [1, 2]


async def test_models_of_one_s_own_are_traced_by_the_events_that_a_node_tells(collected: Collected) -> None:
    """Without a `ModelRequest`, as far as they say; an end without a beginning is nothing."""
    g: Graph[Doc, Any] = Graph("g", Doc)
    ended: dict[str, Any] = {"request": 1, "usage": SPENT, "seconds": 1.0, "first_token": None, "finish": "stop"}

    @g.node
    def own(doc: Doc, ctx: Context[Any, Doc]) -> None:
        ctx.tell(ModelAsked, model="mine", asked=None)
        ctx.tell(ModelCalled, model="mine", **ended)
        ctx.tell(ModelCalled, model="other", **ended)
        ctx.tell(ToolEnded, tool="t", call_id="1", is_error=False, text="", seconds=1.0)

    g.chain(START, own, END)
    await g.run({}, listeners=[collected.tracing(content=True)])
    assert collected.trees() == ["invoke_workflow g", "  node own", "    chat mine"]
    known = told(collected.named("chat mine"), "gen_ai.provider.name", "gen_ai.usage.input_tokens")
    assert known == {"gen_ai.provider.name": "mine", "gen_ai.usage.input_tokens": 30}


async def test_what_a_node_does_after_its_question_is_not_traced(collected: Collected) -> None:
    """Its attempt is over by then, whatever it catches."""
    g: Graph[Doc, Any] = Graph("g", Doc)

    @g.node
    async def own(doc: Doc, ctx: Context[Any, Doc]) -> None:
        try:
            await ctx.ask("ok", "Shall it?")
        finally:
            ctx.tell(ModelAsked, model="mine", asked=None)

    g.chain(START, own, END)
    run = await g.run({}, run_id="r", store=MemoryStore(), listeners=[collected.tracing()])
    assert (run.status, collected.trees()) == ("waiting", ["invoke_workflow g", "  node own"])


async def test_arguments_that_are_no_json_are_shown_as_they_are(collected: Collected) -> None:
    """The model wrote them; nobody repairs what is shown."""

    def add(a: int) -> int:
        """Add."""
        return a

    agent = Agent(Scripted(call("add", '{"a": 1'), say("sorry")), name="a", tools=[add])
    await agent.run("?", listeners=[collected.tracing(content=True)])
    first = next(span for span in collected.spans if span.name == "chat model")
    (said,) = json.loads(str((first.attributes or {})["gen_ai.output.messages"]))
    assert said["parts"] == [{"type": "tool_call", "id": "call-1", "name": "add", "arguments": '{"a": 1'}]
