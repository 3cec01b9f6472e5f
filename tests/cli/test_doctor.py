"""`flowagent doctor` tells which link to a model breaks, and what to do about it."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import CommandLine

MODELS = '''
import asyncio
from flowagent.errors import ModelError
from flowagent.models.scripted import FunctionModel, Scripted
from flowagent.models.steps import call, say

ASKED = []
READY = "ready"
STUB = [call("stub"), say("It returned 1.")]
PRODUCT = [call("multiply", a=1234, b=5678), say("1234 times 5678 is 7,006,652.")]


def good(): return Scripted(READY, *STUB, *PRODUCT, name="scripted:good")
def silent(): return Scripted("", name="scripted:silent")
def limited(): return Scripted(ModelError("slow down", kind="rate_limit", retryable=True), name="scripted:limited")
def talker(): return Scripted(READY, "I believe that it is 1.")
def deaf(): return Scripted(READY, call("stub"), say("It returned 7."))
def inventor(): return Scripted(READY, *[call("oracle")] * 9)
def sloppy(): return Scripted(READY, *STUB, *[call("multiply", a="many")] * 9)
def clumsy(): return Scripted(READY, *STUB, *[call("stock", item="cans")] * 9)
def clerk(): return Scripted(READY, *STUB, call("count", item="cans"), say("42 cans"))
def wordy(): return Scripted(
    READY, '{"action": "tool", "tool_name": "stub", "arguments": {}}', "1",
    '{"action": "tool", "tool_name": "multiply", "arguments": {"a": 1234, "b": 5678}}', "7006652",
)
def broken(): raise RuntimeError("no model today")
async def slow_answer(request):
    await asyncio.Event().wait()
def slow(): return FunctionModel(slow_answer)
def odd(): return FunctionModel(lambda request: 1 / 0)
number = 42


def stock(item: str) -> int:
    """Looks up how many there are."""
    raise LookupError("the stock list is gone")


def count(item: str) -> int:
    """Counts."""
    return 42
'''


@pytest.fixture
def models(folder: Path) -> Path:
    """A module of models beside us."""
    path = folder / "desk.py"
    path.write_text(MODELS, encoding="utf-8")
    return path


def steps(document: Any) -> list[tuple[str, bool | None, str | None]]:
    """Each step with whether it went well and what broke."""
    return [(step["step"], step["ok"], step["link"]) for step in document["steps"]]


def test_every_link_of_a_good_model_holds(models: Path, cli: CommandLine) -> None:
    """B17: a plain request, a stub tool and a real tool, one after the other, and all that was said."""
    ended = cli("doctor", "--model", "desk.py:good")
    lines = [line.split() for line in ended.out.splitlines()]
    assert (ended.code, ended.err) == (0, "")
    assert lines[0] == ["scripted:good"]
    assert [(line[1], line[3]) for line in lines[1:4]] == [("plain", "ok"), ("stub", "ok"), ("real", "ok")]
    assert lines[4] == ["every", "link", "holds"]


def test_the_findings_are_one_document(models: Path, cli: CommandLine) -> None:
    """With --json all of it is data, seconds and usage included."""
    ended = cli("doctor", "--model", "desk.py:good", "--json")
    document = ended.document
    assert (ended.code, document["model"], document["ok"]) == (0, "scripted:good", True)
    assert steps(document) == [("plain request", True, None), ("stub tool", True, None), ("real tool", True, None)]
    assert [step["what"] for step in document["steps"]] == [
        "ready",
        "It returned 1.",
        "1234 times 5678 is 7,006,652.",
    ]
    assert [step["usage"].get("tool_calls", 0) for step in document["steps"]] == [0, 1, 1]


BREAKS = {
    "silent": (0, "reply", "said nothing", "max_tokens"),
    "limited": (0, "provider", "slow down", "try again later"),
    "odd": (0, "model", "ZeroDivisionError", "mend the model"),
    "talker": (1, "call", "called no tool", "--prompted"),
    "inventor": (1, "call", "oracle", "ask another"),
    "deaf": (1, "answer", "returned 1", "does not read results"),
    "sloppy": (2, "arguments", "many", "describe the parameters"),
}


@pytest.mark.parametrize("model", BREAKS)
def test_the_link_that_breaks_is_named(models: Path, cli: CommandLine, model: str) -> None:
    """The first step that fails names the link, what was seen and the remedy; later steps are not tried."""
    at, link, what, remedy = BREAKS[model]
    ended = cli("doctor", "--model", f"desk.py:{model}", "--json")
    document = ended.document
    names = ["plain request", "stub tool", "real tool"]
    wanted = [
        (name, True if i < at else False if i == at else None, link if i == at else None)
        for i, name in enumerate(names)
    ]
    assert (ended.code, document["ok"], steps(document)) == (1, False, wanted)
    assert what in document["steps"][at]["what"]
    assert remedy in document["steps"][at]["remedy"]


def test_a_broken_link_is_told_to_people(models: Path, cli: CommandLine) -> None:
    """Without --json the link, what was seen, and what to do stand below the step."""
    ended = cli("doctor", "--model", "desk.py:talker")
    assert ended.code == 1
    assert "link: call" in ended.out
    assert 'it said "I believe that it is 1."' in ended.out
    assert "-> ask a model that calls tools" in ended.out
    assert "3 real tool      not tried" in ended.out


def test_a_tool_that_raises_is_not_the_models_fault(models: Path, cli: CommandLine) -> None:
    """A real tool of the user's own: what it raises is told as the tool's, with the arguments to try it with."""
    ended = cli("doctor", "--model", "desk.py:clumsy", "--tool", "desk.py:stock", "--ask", "How many cans?", "--json")
    last = ended.document["steps"][2]
    assert (ended.code, last["ok"], last["link"]) == (1, False, "tool")
    assert 'stock({"item":"cans"})' in last["what"]
    assert "the stock list is gone" in last["what"]


def test_a_tool_of_ones_own_is_tried(models: Path, cli: CommandLine) -> None:
    """What the model makes of its result is shown."""
    ended = cli("doctor", "--model", "desk.py:clerk", "--tool", "desk.py:count", "--ask", "How many cans?", "--json")
    assert (ended.code, ended.document["steps"][2]["what"]) == (0, "42 cans")


def test_tools_may_be_written_into_the_prompt(models: Path, cli: CommandLine) -> None:
    """A model that writes calls as text passes with --prompted, and not without."""
    assert cli("doctor", "--model", "desk.py:wordy", "--prompted").code == 0
    assert cli("doctor", "--model", "desk.py:wordy").code == 1


def test_a_model_that_never_answers_is_given_up(models: Path, cli: CommandLine) -> None:
    """Each step has its time."""
    ended = cli("doctor", "--model", "desk.py:slow", "--seconds", "0.05", "--json")
    first = ended.document["steps"][0]
    assert (ended.code, first["link"], first["what"]) == (1, "connection", "no answer within 0.05 seconds")


def test_a_missing_key_is_named(folder: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider without a key is not asked; the variable to set stands in the finding."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    first = cli("doctor", "--model", "openai:gpt-5.5", "--json").document["steps"][0]
    assert first["link"] == "key"
    assert "OPENAI_API_KEY" in first["what"]


def test_forbidden_requests_are_told_as_such(folder: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the environment forbids requests, that is the link."""
    monkeypatch.setenv("FLOWAGENT_NO_REQUESTS", "1")
    first = cli("doctor", "--model", "llamacpp:any", "--json").document["steps"][0]
    assert (first["link"], first["remedy"]) == ("permission", "unset FLOWAGENT_NO_REQUESTS")


def test_a_server_that_is_not_there_is_a_connection(folder: Path, cli: CommandLine) -> None:
    """A port of this machine at which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
        first = cli("doctor", "--model", "llamacpp:any", "--base-url", url, "--json").document["steps"][0]
    assert (first["ok"], first["link"]) == (False, "connection")


REFUSED = {
    "no provider": (("--model", "opnai:gpt-5.5"), "did you mean `openai:gpt-5.5`?"),
    "no model": (("--model", "desk.py:number"), "it is a `int` and no model"),
    "no name": (("--model", "desk.py"), "which object of it?"),
    "made already": (("--model", "desk.py:good", "--base-url", "http://127.0.0.1:1"), "a model made already"),
    "raises": (("--model", "desk.py:broken"), "RuntimeError: no model today"),
    "tool alone": (("--model", "desk.py:good", "--tool", "desk.py:stock"), "--tool and --ask belong together"),
    "no tool": (("--model", "desk.py:good", "--tool", "desk.py:stok", "--ask", "?"), "stok"),
    "not a tool": (("--model", "desk.py:good", "--tool", "desk.py:number", "--ask", "?"), "desk.py:number"),
}


@pytest.mark.parametrize("which", REFUSED)
def test_what_makes_no_sense_is_refused(models: Path, cli: CommandLine, which: str) -> None:
    """Exit code 2, one message, and nothing is asked."""
    words, message = REFUSED[which]
    ended = cli("doctor", *words)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err


def test_no_other_command_loads_agents() -> None:
    """The doctor brings all of agents, models and tools; a command line without it starts without them."""
    code = "import sys, flowagent.cli.app; sys.exit(any(name.startswith('flowagent.agents') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
