"""The audit log: what was asked, answered, called and returned, linked to the journal, without secrets."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, assert_never

import pytest
from pydantic import BaseModel, SecretStr

from flowagent import END, START, Context, Graph, Retry, RunOptions, State, secret
from flowagent.agents import Agent
from flowagent.agents.asking import ask
from flowagent.core.usage import Usage
from flowagent.errors import ModelError, RunFailed, StoreError
from flowagent.models.base import ModelRequest, TextDelta, Waiting
from flowagent.models.messages import Message, ToolMessage, user
from flowagent.models.scripted import FunctionModel, Scripted
from flowagent.models.steps import after, call, calls, fail, say
from flowagent.stores import MemoryStore
from flowagent.tracing import (
    Audit,
    AuditEntry,
    ModelFailed,
    ModelReplied,
    ModelRequested,
    ModelWaited,
    ToolCalled,
    ToolReturned,
    listening,
    read_audit,
)


class Doc(State):
    topic: str = "tides"
    draft: str = ""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the log is."""
    return tmp_path / "audit.jsonl"


def look(word: str) -> str:
    """Look a word up."""
    return f"{word}!"


def line_of(entry: AuditEntry) -> str:
    """An entry in a line."""
    match entry:
        case ModelRequested():
            said = "-" if entry.request is None else _text(entry.request.messages[-1])
            return f"{entry.task_id} asks {entry.model}: {said}"
        case ModelReplied():
            said = "-" if entry.reply is None else entry.reply.text or [one.name for one in entry.reply.calls]
            return f"{entry.task_id} has {entry.finish} for {entry.usage.tokens}: {said}"
        case ModelFailed():
            return f"{entry.task_id} failed with {entry.error} for {entry.usage.tokens}: {entry.message}"
        case ModelWaited():
            return f"{entry.task_id} waits {entry.seconds} s for {entry.error}: {entry.message}"
        case ToolCalled():
            return f"{entry.task_id} calls {entry.tool} ({entry.call_id}): {entry.arguments}"
        case ToolReturned():
            return f"{entry.task_id} returned {entry.tool} ({entry.call_id}) {entry.is_error}: {entry.result}"
        case _:
            assert_never(entry)


def _text(message: Message) -> str:
    return message.results[0].text if isinstance(message, ToolMessage) else message.text


async def test_all_that_is_said_to_models_and_tools_stands_in_the_log(path: Path) -> None:
    """G4: requests and replies, calls and results, with ids of the journal and of the calls."""
    some = Usage(requests=1, input=4, output=2)
    model = Scripted(calls(call("look", word="tide"), usage=some), say("Done.", usage=some))
    g: Graph[Doc, Any] = Graph("desk", Doc)
    g.node(Agent(model, name="writer", tools=[look]), prompt="Write about {topic}.", into="draft")
    g.chain(START, "writer", END)
    run = await g.run({}, run_id="r", store=MemoryStore(), listeners=[Audit(path)])
    log = read_audit(path)
    assert [line_of(entry) for entry in log] == [
        "writer/model@1 asks scripted:model: Write about tides.",
        "writer/model@1 has tool_calls for 6: ['look']",
        'writer/tools@1[0] calls look (call-1): {"word":"tide"}',
        "writer/tools@1[0] returned look (call-1) False: tide!",
        "writer/model@2 asks scripted:model: tide!",
        "writer/model@2 has stop for 6: Done.",
    ]
    assert {entry.task_id for entry in log} <= {step.task for step in run.history}
    assert {(entry.run_id, entry.path, entry.attempt) for entry in log} == {("r", ("writer",), 1)}
    assert [entry.at for entry in log] == sorted(entry.at for entry in log)
    asked = [entry.exchange for entry in log if isinstance(entry, ModelRequested)]
    assert [entry.exchange for entry in log if isinstance(entry, ModelReplied)] == asked
    first = log[0]
    assert isinstance(first, ModelRequested)
    assert first.request == model.requests[0]


async def test_failures_and_waits_stand_in_the_log(path: Path) -> None:
    """With what they cost all the same, and which attempt it was."""
    waiting = Waiting(1.5, fail("rate_limit", "slow down"))
    spent = Usage(requests=1, failed=1, input=5)
    model = Scripted(fail("overloaded", "busy", usage=spent), after(TextDelta("H"), waiting, then=say("Hello")))
    agent = Agent(model, name="a", retry=Retry(attempts=2, backoff=0))
    await agent.run("Hi", listeners=[Audit(path)])
    log = read_audit(path)
    assert [line_of(entry) for entry in log][:-1] == [
        "model@1 asks scripted:model: Hi",
        "model@1 failed with overloaded for 5: busy",
        "model@1 asks scripted:model: Hi",
        "model@1 waits 1.5 s for rate_limit: slow down",
    ]
    assert [entry.attempt for entry in log] == [1, 1, 2, 2, 2]


def test_a_log_without_content_tells_who_when_and_how_much(path: Path) -> None:
    """Not a word of what was said is in the file."""
    model = Scripted(call("look", word="canary"), fail("bad_request", "canary"))
    agent = Agent(model, name="a", tools=[look], instructions="canary")
    with pytest.raises(ModelError):
        agent.run_sync("canary", listeners=[Audit(path, content=False)])
    assert [line_of(entry).partition(": ")[2] for entry in read_audit(path)] == ["-", "-", "None", "None", "-", "None"]
    assert "canary" not in path.read_text()


class Login(BaseModel):
    user: str
    password: SecretStr


def test_no_secret_stands_in_the_log(path: Path) -> None:
    """FA-114: keys by their form, secret arguments by their declaration, wherever they are."""

    def login(login: Login, pin: Annotated[str, secret]) -> str:
        """Log in."""
        return f"{login.user} is in with {login.password.get_secret_value()} and {pin}"

    def model() -> Scripted:
        return Scripted(
            call("login", login={"user": "ada", "password": 'open "sesame"'}, pin="pin-4711"),
            fail("bad_request", 'no: key sk-test-123456 was sent with open "sesame" and pin-4711'),
        )

    secrets = ("sk-test-123456", "sesame", "pin-4711")
    for redact, found in ((None, secrets), (..., ())):
        how: dict[str, Any] = {} if redact is ... else {"redact": redact}
        agent = Agent(model(), name="porter", tools=[login])
        with pytest.raises(ModelError), listening(Audit(path, **how)):
            agent.run_sync("My key is sk-test-123456.")
        text = path.read_text()
        assert tuple(one for one in secrets if one in text) == found
        path.unlink()


def test_arguments_that_cannot_be_read_are_masked_where_a_tool_has_secrets(path: Path) -> None:
    """The secret may stand anywhere in them; and short ones are not hunted for in all texts."""

    def enter(pin: Annotated[str, secret]) -> str:
        """Enter."""
        return "in"

    model = Scripted(call("enter", '{"pin": "4711-x'), call("enter", pin="in"), say("I am in."))
    Agent(model, name="porter", tools=[enter]).run_sync("Go.", listeners=[Audit(path)])
    assert "4711" not in path.read_text()
    replies = [entry.reply for entry in read_audit(path) if isinstance(entry, ModelReplied)]
    assert [[one.arguments for one in reply.calls] or reply.text for reply in replies if reply] == [
        ["**********"],
        ['{"pin": "**********"}'],
        "I am in.",
    ]


async def test_a_resumed_run_goes_on_in_the_same_log(path: Path) -> None:
    """What was done is not there twice, as it is not done twice."""
    model = Scripted(call("look", word="tide"), fail("bad_request", "no"), say("Done."))
    agent = Agent(model, name="a", tools=[look])
    how: RunOptions = {"store": MemoryStore(), "listeners": [Audit(path)]}
    with pytest.raises(ModelError):
        await agent.run("Hi", run_id="r", **how)
    await agent.resume("r", **how)
    assert [f"{entry.kind} {entry.task_id}" for entry in read_audit(path)] == [
        "model_requested model@1",
        "model_replied model@1",
        "tool_called tools@1[0]",
        "tool_returned tools@1[0]",
        "model_requested model@2",
        "model_failed model@2",
        "model_requested model@2",
        "model_replied model@2",
    ]


WRITER = """
import sys
from flowagent.agents import Agent
from flowagent.models.scripted import FunctionModel
from flowagent.models.steps import say
from flowagent.tracing import Audit
name, path = sys.argv[1:]
audit = Audit(path)
for number in range(20):
    agent = Agent(FunctionModel(lambda request: say("x" * 9000)), name=name)
    agent.run_sync("y" * 9000, run_id=f"{name}-{number}", listeners=[audit])
"""


async def test_several_processes_and_threads_write_one_log(path: Path) -> None:
    """Each line is whole, and none is lost."""
    audit = Audit(path)

    def work(name: str) -> None:
        for number in range(20):
            Agent(Scripted(say("z" * 9000)), name=name).run_sync("?", run_id=f"{name}-{number}", listeners=[audit])

    threads = [threading.Thread(target=work, args=(name,)) for name in ("t", "u")]
    for thread in threads:
        thread.start()
    scripts = [[sys.executable, "-c", WRITER, name, str(path)] for name in ("p", "q")]
    done = await asyncio.gather(*[asyncio.to_thread(subprocess.run, one, check=True) for one in scripts])
    for thread in threads:
        await asyncio.to_thread(thread.join)
    log = read_audit(path)
    runs = {f"{name}-{number}" for name in "tupq" for number in range(20)}
    assert ([one.returncode for one in done], len(log)) == ([0, 0], 160)
    assert {entry.run_id for entry in log if isinstance(entry, ModelRequested)} == runs
    assert {entry.run_id for entry in log if isinstance(entry, ModelReplied)} == runs


KILLED = """
import os, sys
from flowagent.agents import Agent
from flowagent.models.scripted import FunctionModel
from flowagent.tracing import Audit
Agent(FunctionModel(lambda request: os.kill(os.getpid(), 9)), name="a").run_sync("Hi", listeners=[Audit(sys.argv[1])])
"""


def test_what_a_process_had_asked_when_it_was_killed_is_known(path: Path) -> None:
    """Its request is there, and no reply; a line that was left unfinished is left out, and the next one is whole."""
    subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert [line_of(entry) for entry in read_audit(path)] == ["model@1 asks function:<lambda>: Hi"]
    with path.open("a") as file:
        file.write('{"at": "2026-11-30T15:00:00+00:00", "run_')
    Agent(Scripted(say("Hello")), name="a").run_sync("Hi again", listeners=[Audit(path)])
    assert [line_of(entry).partition(": ")[2] for entry in read_audit(path)] == ["Hi", "Hi again", "Hello"]


def test_only_its_owner_reads_the_file(path: Path) -> None:
    """It holds what people said."""
    Agent(Scripted(say("Hello")), name="a").run_sync("Hi", listeners=[Audit(path)])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_log_that_cannot_be_written_is_told_and_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The run goes on; the log of the program says why the audit log is not there."""
    missing = tmp_path / "no" / "audit.jsonl"
    result = Agent(Scripted(say("Hello")), name="a").run_sync("Hi", listeners=[Audit(missing)])
    (told,) = [record.exc_info[1] for record in caplog.records if record.exc_info]
    assert result.output == "Hello"
    assert isinstance(told, StoreError)
    assert os.fspath(missing) in str(told)


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ('{"at": 1, "kind": "other"}', "line 1 of .* is no line of an audit log"),
        ("nonsense", "line 1 of .* is no line of an audit log"),
    ],
)
def test_a_file_that_is_no_audit_log_is_refused(path: Path, line: str, match: str) -> None:
    """With the line at fault."""
    path.write_text(f"{line}\n")
    with pytest.raises(StoreError, match=match):
        read_audit(path)


def test_a_file_that_is_not_there_is_told(path: Path) -> None:
    """With its path."""
    with pytest.raises(StoreError, match=r"the audit log `.*audit\.jsonl` cannot be read"):
        read_audit(path)


async def test_two_requests_of_one_task_at_a_time_are_told_apart(path: Path) -> None:
    """Each reply has the exchange of its own request, whichever comes first."""
    g: Graph[Doc, Any] = Graph("both", Doc)
    models: dict[str, Callable[[], Any]] = {"slow": lambda: asyncio.sleep(0.01), "fast": lambda: asyncio.sleep(0)}

    @g.node
    async def both(state: Doc, ctx: Context[Any, Doc]) -> None:
        async def one(name: str) -> None:
            async def wait(request: Any) -> Any:
                await models[name]()
                return say(name)

            await ask(FunctionModel(wait), ModelRequest(messages=(user(name),)), ctx)

        await asyncio.gather(one("slow"), one("fast"))

    g.chain(START, both, END)
    await g.run({}, listeners=[Audit(path)])
    asked = {entry.exchange: entry.request for entry in read_audit(path) if isinstance(entry, ModelRequested)}
    replies = [entry for entry in read_audit(path) if isinstance(entry, ModelReplied)]
    told = [
        (_text(request.messages[0]), entry.reply.text)
        for entry in replies
        if (request := asked[entry.exchange]) and entry.reply
    ]
    assert told == [("fast", "fast"), ("slow", "slow")]


def test_each_line_is_json_that_begins_with_the_time(path: Path) -> None:
    """So that other programs read it, and sort it as text."""
    Agent(Scripted(say("Grüße")), name="a").run_sync("Hi", listeners=[Audit(path)])
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["model_requested", "model_replied"]
    assert all(line.startswith('{"at": "') for line in lines)
    assert "Grüße" in lines[1]


async def test_a_run_that_fails_otherwise_leaves_its_request_open(path: Path) -> None:
    """What is no `ModelError` has no line of its own; the journal tells of it."""
    with pytest.raises(RunFailed):
        await Agent(Scripted(), name="a").run("Hi", listeners=[Audit(path)])
    assert [entry.kind for entry in read_audit(path)] == ["model_requested"]


async def test_a_name_that_the_model_writes_in_its_own_way_hides_the_same(path: Path) -> None:
    """A call of `log-in` is one of `log_in`, and its secret argument is masked as well."""

    def log_in(pin: Annotated[str, secret]) -> str:
        """Log in."""
        return f"in with {pin}"

    model = Scripted(call("log-in", pin="canary-4711"), say("I used canary-4711."))
    await Agent(model, name="porter", tools=[log_in]).run("Go.", listeners=[Audit(path)])
    assert [line_of(entry).partition(": ")[2] for entry in read_audit(path)][-4:] == [
        '{"pin":"**********"}',
        "in with **********",
        "in with **********",
        "I used **********.",
    ]


async def test_all_that_a_secret_argument_holds_is_hidden(path: Path) -> None:
    """The texts in a list or an object of it; what is none or a switch hides nothing."""

    def enter(pins: Annotated[list[str], secret], also: Annotated[bool | None, secret] = None) -> str:
        """Enter."""
        return f"in with {pins[0]} and {pins[1]}: True None"

    model = Scripted(call("enter", pins=["canary-1", "canary-2"], also=True), say("Yes."))
    await Agent(model, name="porter", tools=[enter]).run("Go.", listeners=[Audit(path)])
    results = [entry.result for entry in read_audit(path) if isinstance(entry, ToolReturned)]
    assert results == ["in with ********** and **********: True None"]
