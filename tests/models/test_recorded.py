"""`Recorder`, `read_recordings` and `Replay`: exchanges with models, written down and played again."""

from __future__ import annotations

import asyncio
import base64
import json
import stat
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from flowagent.core.usage import Usage
from flowagent.errors import ModelError, StoreError
from flowagent.models.base import ModelRequest, Profile, TextDelta, ToolSpec
from flowagent.models.messages import (
    AssistantMessage,
    Media,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
    user,
)
from flowagent.models.recorded import Recorder
from flowagent.models.recordings import RecordedError, Recording, read_recordings
from flowagent.models.redaction import redacted, redacted_data
from flowagent.models.replay import Replay
from flowagent.models.scripted import FunctionModel, Scripted, UnexpectedRequest
from flowagent.models.steps import after, call, fail, say, think
from tests.models.asking import asked, ended, said, streamed, told_before

AT = datetime(2026, 5, 4, 12, 30, tzinfo=UTC)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "exchanges.jsonl"


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def bytes_of(path: Path) -> bytes:
    return path.read_bytes()


def write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def without_bob(text: str) -> str:
    return text.replace("Bob", "X")


class Ticking:
    """A clock that goes on by half a second each time it is read."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        self.time += 0.5
        return self.time


def recorder(model: Any, path: Path, **options: Any) -> Recorder:
    return Recorder(model, path, now=lambda: AT, clock=Ticking(), **options)


EVERYTHING = ModelRequest(
    messages=(
        UserMessage(id="m", parts=(Text(text="hä?\n"), Media(data=b"\0\xff", media_type="image/png"))),
        AssistantMessage(
            parts=(Thinking(provider="p", data='{"s":1}'), Opaque(provider="p", data="[]"), ToolCall(id="c", name="f")),
            usage=Usage(requests=1, cost=Decimal("0.10")),
            finish="tool_calls",
        ),
        ToolMessage(results=(ToolResult(id="c", name="f", content=(Text(text="1"),), is_error=True),)),
    ),
    tools=(ToolSpec(name="f", parameters={"type": "object", "default": None}),),
    settings={"extra": {"x": None}},
)


# --------------------------------------------------------------------------------------------------------- recorder


async def test_an_exchange_is_written_and_read_as_it_was(path: Path):
    """Request, reply, usage and times come back equal, whatever parts they have."""
    usage = Usage(requests=1, input=3, output=4, cost=Decimal("0.001"))
    model = recorder(Scripted((think("hm"), call("f", a=1), say("hi", usage=usage)), name="p:m"), path)
    reply = await model.request(EVERYTHING)
    assert read_recordings(path) == [
        Recording(
            at=AT, model="p:m", request=EVERYTHING, reply=reply.message, usage=usage, seconds=0.5, first_token=0.0
        )
    ]
    assert mode_of(path) == 0o600


async def test_a_stream_is_passed_through_and_its_reply_written(path: Path):
    """Parts come as the model tells them, and what is written is what `request` would have written."""
    parts = await streamed(recorder(Scripted("hello", chunk=3), path), asked())
    assert parts[:-1] == [TextDelta("hel"), TextDelta("lo")]
    await recorder(Scripted("hello"), path).request(asked())
    first, second = read_recordings(path)
    assert first == second
    assert first.reply == ended(parts).message


async def test_a_failure_is_written_too(path: Path):
    """A `ModelError` is written with all its facts, anything else by its class, and both are raised as they are."""
    usage = Usage(requests=2, failed=2)
    error = fail("rate_limit", "slow down", status=429, retry_after=2.5, usage=usage)
    model = recorder(Scripted(after(TextDelta("Hel"), then=error), ValueError("a fault")), path)
    assert await told_before(model, asked(), ModelError) == ([TextDelta("Hel")], error)
    with pytest.raises(ValueError, match="a fault"):
        await model.request(asked())
    limited, fault = read_recordings(path)
    assert (limited.error, limited.usage) == (
        RecordedError(
            type="ModelError",
            message="slow down",
            kind="rate_limit",
            retryable=True,
            status=429,
            retry_after=2.5,
            partial="Hel",
        ),
        usage,
    )
    assert (fault.error, fault.usage) == (RecordedError(type="ValueError", message="a fault"), None)


async def test_a_stream_that_was_left_alone_is_written(path: Path):
    """FA-117: an exchange whose stream was not read to its end was made, and is not forgotten."""
    stream = recorder(Scripted("hello", chunk=1), path).stream(asked())
    await anext(stream)
    await stream.aclose()
    (left,) = read_recordings(path)
    assert left.error == RecordedError(type="GeneratorExit", message="")


async def test_processes_and_threads_append_whole_lines(path: Path):
    """Lines of several processes and threads that record into one file do not mix."""
    program = (
        "import asyncio, sys\n"
        "from flowagent.models.recorded import Recorder\n"
        "from flowagent.models.scripted import FunctionModel\n"
        "from tests.models.asking import said\n"
        "model = Recorder(FunctionModel(lambda request: 'x' * 20_000), sys.argv[1])\n"
        "async def ask(): await asyncio.gather(*(said(model) for _ in range(20)))\n"
        "asyncio.run(ask())\n"
    )
    run = [sys.executable, "-c", program, str(path)]
    model = Recorder(FunctionModel(lambda request: "y" * 20_000), path)
    threads = [asyncio.to_thread(asyncio.run, said(model)) for _ in range(10)]
    await asyncio.gather(*(asyncio.to_thread(subprocess.run, run, check=True) for _ in range(2)), *threads)
    assert sorted(one.reply.text[0] for one in read_recordings(path) if one.reply) == ["x"] * 40 + ["y"] * 10


async def test_a_line_that_a_dying_process_left_is_no_harm(path: Path):
    """An unfinished line is left out, and the next one begins on a line of its own."""
    await recorder(Scripted("one ü"), path).request(asked())
    whole = bytes_of(path)
    cut_in_a_letter = whole.index("ü".encode()) + 1
    for length in (1, 5, cut_in_a_letter, len(whole) - 2):
        write(path, whole + whole[:length])
        await recorder(Scripted("two"), path).request(asked())
        texts = [one.reply.text for one in read_recordings(path) if one.reply]
        assert texts == ["one ü", "two"]


@pytest.mark.parametrize("line", ["{}", '{"at": 5}', "hello"])
def test_what_is_no_recording_is_told_with_its_line(path: Path, line: str):
    """A foreign line is an error that names file and line."""
    path.write_text(f"\n{line}\n", encoding="utf-8")
    with pytest.raises(StoreError, match=rf"line 2 of `{path}` is no recording of a model"):
        read_recordings(path)


async def test_files_that_cannot_be_used_are_told(tmp_path: Path):
    """A file that is not there, and one that cannot be written, are errors that name it."""
    with pytest.raises(StoreError, match=r"none\.jsonl` cannot be read"):
        read_recordings(tmp_path / "none.jsonl")
    with pytest.raises(StoreError, match="could not be written"):
        await Recorder(Scripted("a"), tmp_path).request(asked())


# -------------------------------------------------------------------------------------------------------- redaction


async def test_no_secret_stands_in_a_recording(path: Path, monkeypatch: pytest.MonkeyPatch):
    """FA-114: keys by form, by name and from the environment, also in base64, are in no line of the file."""
    key, password, own = "sk-test-123456", "hunter2!", "my-very-own-key"
    monkeypatch.setenv("SOME_API_KEY", own)
    coded = base64.b64encode(own.encode()).decode()
    text = f"use {key}, {own} and {coded}"
    request = ModelRequest(
        messages=(
            user(text),
            AssistantMessage(parts=(ToolCall(id="c", name="f", arguments=f'{{"password": "{password}"}}'),)),
        ),
        settings={"headers": {"X-Who": "abc-secret"}, "extra": {"api_key": "plain-secret", "max_token": 5}},
    )
    model = recorder(Scripted(say(text), fail("auth", f"{key} is wrong")), path)
    await model.request(request)
    with pytest.raises(ModelError):
        await model.request(request)
    written = bytes_of(path).decode()
    for secret in (key, password, own, coded.rstrip("="), "abc-secret", "plain-secret"):
        assert secret not in written
    first, second = read_recordings(path)
    assert first.request.settings == {
        "headers": {"X-Who": "[redacted]"},
        "extra": {"api_key": "[redacted]", "max_token": 5},
    }
    assert first.reply is not None
    assert first.reply.text.startswith("use [redacted], [redacted] and [redacted]")
    assert second.error is not None
    assert second.error.message == "[redacted] is wrong"


async def test_redaction_can_be_changed_or_left_out(path: Path):
    """`redact` may be a function of one's own, or None for everything as it is."""
    await recorder(Scripted("a"), path, redact=without_bob).request(asked("Bob sk-test-123456"))
    await recorder(Scripted("a"), path, redact=None).request(asked("Bob sk-test-123456"))
    messages = [one.request.messages[0] for one in read_recordings(path)]
    assert [one.text for one in messages if isinstance(one, UserMessage)] == ["X sk-test-123456", "Bob sk-test-123456"]


@pytest.mark.parametrize(
    "secret",
    [
        "sk-ant-api03-abcdef1234567890", "sk-proj-abc123def456", "sk_live_abcdefgh1234", "AKIAIOSFODNN7EXAMPLE",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789", "glpat-abcdefghijklmnopqrst", "xoxb-1234567890-abc",
        "hf_abcdefghijklmnopqrstuvwx", "AIzaSyA-1234567890abcdefghijklmnopqrstu",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-def",
        "-----BEGIN RSA PRIVATE KEY-----\nabc\ndef\n-----END RSA PRIVATE KEY-----",
    ],
    ids=range(11),
)  # fmt: skip
def test_keys_are_known_by_their_form(secret: str):
    """Keys and tokens of known kinds are taken out of the middle of a text."""
    assert redacted(f"before {secret} after") == "before [redacted] after"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("Authorization: Bearer abc.def-123", "Authorization: Bearer [redacted]"),
        ("postgres://me:pw@host/db", "postgres://[redacted]@host/db"),
        ('{"db_password": "a\\"b", "n": 1}', '{"db_password": "[redacted]", "n": 1}'),
        ('{"tokens": "12", "author": "me"}', '{"tokens": "12", "author": "me"}'),
        ("a task-force-123456 for sk-learn-docs", "a task-force-123456 for sk-learn-docs"),
        ("https://example.com/a:b@c", "https://example.com/a:b@c"),
        ("plain text", "plain text"),
    ],
)
def test_secrets_are_known_by_where_they_stand(text: str, clean: str):
    """Values behind telling words are taken out, and what only looks a little like one is not."""
    assert redacted(text) == clean


def test_bytes_are_not_searched():
    """A form that stands by chance in the base64 of a picture stays."""
    data = {"kind": "media", "data": "-sk-12345678", "name": "sk-12345678"}
    assert redacted_data(data, redacted) == {"kind": "media", "data": "-sk-12345678", "name": "[redacted]"}


# ----------------------------------------------------------------------------------------------------------- replay


async def test_what_was_recorded_is_answered_again(path: Path):
    """B15: a recording is a model: replies, ids, usage and failures come again, in any order of different requests."""
    inner = Scripted(call("f"), fail("overloaded", usage=Usage(requests=1, failed=1)), "b", "a again", name="p:m")
    model = recorder(inner, path)
    first = await model.request(asked("a"))
    with pytest.raises(ModelError):
        await model.request(asked("b"))
    second, third = await model.request(asked("b")), await model.request(asked("a"))
    again = Replay(path)
    assert again.name == "p:m"
    with pytest.raises(ModelError) as raised:
        await again.request(asked("b"))
    assert (raised.value.kind, raised.value.model, raised.value.usage) == (
        "overloaded",
        "p:m",
        Usage(requests=1, failed=1),
    )
    replies = [await again.request(asked(text)) for text in ("a", "b", "a")]
    assert [reply.message for reply in replies] == [first.message, second.message, third.message]
    assert replies[0].seconds == 0.5
    again.assert_used_up()


async def test_a_replay_streams(path: Path):
    """A recorded reply is streamed in pieces."""
    await recorder(Scripted("hello"), path).request(asked())
    assert (await streamed(Replay(path, chunk=3), asked()))[:-1] == [TextDelta("hel"), TextDelta("lo")]


async def test_secrets_do_not_stand_in_the_way_of_a_replay(path: Path):
    """A request with a secret is found although it was recorded without it; ids of messages do not count either."""
    await recorder(Scripted("fine"), path).request(asked("my key is sk-test-123456"))
    same = ModelRequest(
        messages=(UserMessage(id="new", parts=(Text(text="my key is sk-test-123456"),)),), settings={"timeout": 3.0}
    )
    assert (await said(Replay(path), same)).text == "fine"


async def test_an_unknown_request_tells_the_nearest_and_the_difference(path: Path):
    """A request that was not recorded is an error with the first difference to the nearest that was."""
    model = recorder(Scripted("1", "2", name="p:m"), path)
    await model.request(asked("What is the weather?", system="You joke."))
    await model.request(asked("What is the time?", system="You help."))
    again = Replay(path)
    with pytest.raises(UnexpectedRequest) as raised:
        await again.request(asked("What is the date?", system="You help."))
    assert str(raised.value) == (
        "`p:m` was not recorded with this request. The nearest is exchange 2 of 2; the first difference is at "
        '`messages[0].parts[0].text`: recorded "What is the time?", asked "What is the date?"; the request was:\n'
        "system (instructions): You help.\nuser: What is the date?"
    )


async def test_a_request_is_answered_as_often_as_it_was_recorded(path: Path):
    """One more of an equal request than was recorded is an error that says how often it was."""
    await recorder(Scripted("1"), path).request(asked())
    again = Replay(path)
    await again.request(asked())
    with pytest.raises(UnexpectedRequest, match="was recorded with this request once, and it is asked for once more"):
        await again.request(asked())
    with pytest.raises(UnexpectedRequest, match="nothing was recorded that `replay:recorded` could answer with"):
        await Replay([]).request(asked())


async def test_what_was_not_asked_for_is_listed(path: Path):
    """`assert_used_up` lists recorded exchanges that nobody asked for."""
    model = recorder(Scripted("1", "2"), path)
    await model.request(asked("one"))
    await model.request(asked("two"))
    again = Replay(read_recordings(path), name="r:r")
    await again.request(asked("two"))
    with pytest.raises(AssertionError) as raised:
        again.assert_used_up()
    assert str(raised.value) == (
        '1 recorded exchange was not asked for:\n  - 1: scripted:model, 2026-05-04 12:30:00, ending in "one"'
    )


async def test_exchanges_that_ended_by_a_fault_are_not_replayed(path: Path):
    """A cancelled exchange and one that ended by a fault in the program are passed over."""
    model = recorder(Scripted(ValueError("x"), "fine"), path)
    with pytest.raises(ValueError, match="x"):
        await model.request(asked())
    await model.request(asked())
    assert (await said(Replay(path))).text == "fine"


def test_a_recording_is_plain_json(path: Path):
    """Rows can be read by any program: one JSON object a line."""
    asyncio.run(said(recorder(Scripted("hello"), path)))
    (line,) = path.read_text(encoding="utf-8").splitlines()
    row = json.loads(line)
    assert (row["model"], row["reply"]["parts"]) == ("scripted:model", [{"kind": "text", "text": "hello"}])


def test_they_are_the_model_that_they_stand_for(path: Path):
    """A recorder's name and profile are the model's; a replay accepts what it is told to."""
    inner = Scripted(name="a:b", profile=Profile(window=5))
    assert (Recorder(inner, path).name, Recorder(inner, path).profile) == ("a:b", Profile(window=5))
    assert (Replay([], name="r:r").name, Replay([], profile=Profile(window=7)).profile) == ("r:r", Profile(window=7))
