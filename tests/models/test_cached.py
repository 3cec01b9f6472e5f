"""`Cached`: what was answered once is not asked again."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowagent.core.usage import Usage
from flowagent.errors import ModelError, StoreError
from flowagent.models.base import CallDelta, ModelRequest, OutputSpec, Section, Settings, TextDelta, ToolSpec
from flowagent.models.cached import Cached
from flowagent.models.fingerprint import fingerprint, told
from flowagent.models.messages import AssistantMessage, Text, ToolMessage, ToolResult, user
from flowagent.models.scripted import FunctionModel, Scripted
from flowagent.models.steps import Step, call, fail, say
from tests.models.asking import asked, ended, said, streamed

FREE = Usage(input=0, output=0, cost=Decimal(0))

TOOL = ToolSpec(name="f", parameters={"type": "object"})


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path / "answers.db" if request.param == "file" else None


# ------------------------------------------------------------------------------------------------------------- hits


async def test_an_answer_is_given_again_and_marked(store: Path | None):
    """The second equal request gets the first one's answer, marked, at no cost, and the model is not asked."""
    inner = Scripted("hello there")
    model = Cached(inner, store=store)
    first, second = await model.request(asked()), await model.request(asked())
    assert (first.from_cache, second.from_cache, len(inner.requests)) == (False, True, 1)
    assert second.message == first.message.model_copy(update={"usage": FREE})
    assert second.usage == FREE
    assert (first.usage + second.usage).requests == 1


async def test_an_answer_from_the_cache_is_streamed(store: Path | None):
    """A streamed hit tells its text in pieces and ends in the reply."""
    model = Cached(Scripted("hello"), store=store, chunk=3)
    await model.request(asked())
    parts = await streamed(model, asked())
    assert parts[:-1] == [TextDelta("hel"), TextDelta("lo")]
    assert ended(parts).from_cache


async def test_what_is_streamed_is_kept():
    """An answer that was streamed to its end is known; one whose stream was left alone is not."""
    model = Cached(Scripted("left alone", "to its end"))
    stream = model.stream(asked())
    await anext(stream)
    await stream.aclose()
    await streamed(model, asked())
    assert (await said(model)).text == "to its end"


async def test_the_last_answers_stay_in_memory():
    """In memory, the answers that were used last stay."""
    model = Cached(FunctionModel(lambda request: f"answer {len(request.messages)}"), most=2)
    for text in ("a", "b", "a", "c"):
        await model.request(asked(text))
    assert [(await model.request(asked(text))).from_cache for text in ("a", "c", "b")] == [True, True, False]


async def test_answers_grow_old(store: Path | None):
    """An answer that is older than `ttl` seconds is asked for anew."""
    now = 1000.0
    inner = Scripted("one", "two", "other")
    model = Cached(inner, store=store, ttl=60, clock=lambda: now)
    assert (await said(model)).text == "one"
    now += 60
    assert (await said(model)).text == "one"
    now += 0.5
    assert (await said(model)).text == "two"
    now += 100
    await model.request(asked("something else, which drops what is old"))
    inner.assert_used_up()


# ---------------------------------------------------------------------------------------------------- what is not kept


@pytest.mark.parametrize(
    "step",
    [say("cut", finish="length"), say("no", finish="refused"), say("x", finish="filtered"), say("x", finish="context"),
     say("x", finish="paused"), call("f"), (call("f"), say("cut", finish="length"))],
)  # fmt: skip
async def test_incomplete_replies_and_calls_are_not_kept(step: Step, store: Path | None):
    """FA-063: a reply that was cut, refused, filtered, paused, or that calls a tool, is not given again."""
    model = Cached(Scripted(step, "fine"), store=store)
    first = await model.request(asked())
    second = await model.request(asked())
    assert (first.from_cache, second.from_cache, second.message.text) == (False, False, "fine")


async def test_errors_are_not_kept(store: Path | None):
    """A failed request is made again."""
    model = Cached(Scripted(fail("server"), "fine"), store=store)
    with pytest.raises(ModelError):
        await model.request(asked())
    assert (await said(model)).text == "fine"


async def test_calls_of_tools_can_be_kept():
    """With `tool_calls=True` a reply with calls is kept, unless it was cut."""
    model = Cached(Scripted(call("f", a=1), (call("g"), say("", finish="length")), "end"), tool_calls=True, chunk=100)
    await model.request(asked())
    parts = await streamed(model, asked())
    assert parts[0] == CallDelta(0, "call-1", "f", '{"a":1}')
    assert ended(parts).from_cache
    assert [(await said(model, "cut")).text for _ in range(2)] == ["", "end"]


# ------------------------------------------------------------------------------------------------- at the same time


async def test_equal_requests_at_the_same_time_make_one(store: Path | None):
    """Of many equal requests at once one is made, and all get its answer."""

    async def answer(request: ModelRequest) -> Step:
        await asyncio.sleep(0.01)
        return "once"

    inner = FunctionModel(answer)
    model = Cached(inner, store=store)
    replies = await asyncio.gather(*(model.request(asked()) for _ in range(10)))
    assert len(inner.requests) == 1
    assert [reply.message.text for reply in replies] == ["once"] * 10
    assert [reply.from_cache for reply in replies].count(False) == 1
    assert sum((reply.usage for reply in replies), start=Usage()).requests == 1


async def test_many_threads_make_one_request(store: Path | None):
    """Equal requests from event loops of several threads make one."""

    async def answer(request: ModelRequest) -> Step:
        await asyncio.sleep(0.05)
        return "once"

    inner = FunctionModel(answer)
    model = Cached(inner, store=store)
    replies = await asyncio.gather(*(asyncio.to_thread(asyncio.run, said(model)) for _ in range(4)))
    assert ([reply.text for reply in replies], len(inner.requests)) == (["once"] * 4, 1)


@pytest.mark.parametrize("trouble", ["cancelled", "failed", "calls a tool"])
async def test_who_waited_for_nothing_asks_for_himself(trouble: str):
    """If the first of equal requests is cancelled, fails, or gets what is not kept, the others ask at once."""
    gate = asyncio.Event()
    running = most = 0

    async def answer(request: ModelRequest) -> Step:
        nonlocal running, most
        if len(inner.requests) == 1:
            await gate.wait()
            return fail("server") if trouble == "failed" else call("f")
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return "own"

    inner = FunctionModel(answer)
    model = Cached(inner)
    first, *others = [asyncio.ensure_future(said(model)) for _ in range(4)]
    await asyncio.sleep(0.01)
    assert len(inner.requests) == 1
    if trouble == "cancelled":
        first.cancel()
    gate.set()
    assert [(await other).text for other in others] == ["own"] * 3
    assert most == 3
    await asyncio.wait([first])
    assert first.cancelled() or trouble == "calls a tool" or isinstance(first.exception(), ModelError)


async def test_who_waits_can_be_cancelled_alone():
    """A request that waits for another's answer can be cancelled without harm to the other."""
    gate = asyncio.Event()

    async def answer(request: ModelRequest) -> Step:
        await gate.wait()
        return "fine"

    model = Cached(FunctionModel(answer))
    first, second, third = [asyncio.ensure_future(said(model)) for _ in range(3)]
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait([second])
    gate.set()
    assert [(await task).text for task in (first, third)] == ["fine", "fine"]


# ------------------------------------------------------------------------------------------------- equal requests

BASE = ModelRequest(
    system=(Section(name="instructions", text="Be brief."),),
    messages=(
        user("hi"),
        AssistantMessage(parts=(Text(text="hello"),)),
        ToolMessage(results=(ToolResult(id="c", name="f", content=(Text(text="1"),)),)),
    ),
    tools=(TOOL,),
    settings={"temperature": 0.5, "extra": {"b": 1, "a": [1, 2]}},
)

OTHERS: list[dict[str, Any]] = [
    {"system": (Section(name="instructions", text="Be long."),)},
    {"messages": BASE.messages[:2]},
    {"messages": (user("hi!"), *BASE.messages[1:])},
    {"messages": tuple(reversed(BASE.messages))},
    {"tools": ()},
    {"tools": (TOOL.model_copy(update={"description": "more"}),)},
    {"tool_choice": "required"},
    {"output": OutputSpec(name="o", schema_={"type": "object"})},
    {"settings": {"temperature": 0.6}},
    {"settings": {}},
]


@pytest.mark.parametrize("change", OTHERS)
async def test_a_difference_that_the_model_is_told_makes_another_request(change: dict[str, Any]):
    """Prompt, messages, their order, tools, choice, output and settings all count."""
    model = Cached(Scripted("one", "two"))
    await model.request(BASE)
    assert not (await model.request(BASE.model_copy(update=change))).from_cache


async def test_the_models_name_counts(tmp_path: Path):
    """Two models that share a file do not share answers."""
    one, two = (Cached(Scripted(name, name=f"p:{name}"), store=tmp_path / "a.db") for name in ("one", "two"))
    assert [(await said(model)).text for model in (one, two, one)] == ["one", "two", "one"]


async def test_what_only_the_program_knows_does_not_count():
    """Ids and usage of messages, the order of keys, and the timeout make no other request."""
    first, answer, results = BASE.messages
    same = BASE.model_copy(
        update={
            "messages": (
                first.model_copy(update={"id": "m-1"}),
                answer.model_copy(update={"id": "m-2", "usage": Usage(requests=1), "reply_id": "r", "model": "x"}),
                results,
            ),
            "settings": Settings(extra={"a": [1, 2], "b": 1}, temperature=0.5, timeout=9.0),
        }
    )
    model = Cached(Scripted("once"))
    await model.request(BASE)
    assert (await model.request(same)).from_cache


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(one=json_values, other=json_values)
def test_fingerprints_are_equal_just_when_the_data_are(one: Any, other: Any):
    """The hash of JSON data is a function of the data, and no two data share one."""
    assert fingerprint(one) == fingerprint(_reordered(one))
    assert (fingerprint(one) == fingerprint(other)) == (_typed(one) == _typed(other))


@given(texts=st.lists(st.text(max_size=3), min_size=1, max_size=12), most=st.integers(1, 4))
def test_a_cache_never_changes_what_is_answered(texts: list[str], most: int):
    """Whatever is asked in whatever order, the answers are those of the model, and no known one is asked for."""

    async def ask() -> None:
        inner = FunctionModel(lambda request: repr(told(request)["messages"]))
        model, plain = Cached(inner, most=most), FunctionModel(lambda request: repr(told(request)["messages"]))
        recent: list[str] = []
        for text in texts:
            reply = await model.request(asked(text))
            assert reply.message.text == (await said(plain, text)).text
            assert reply.from_cache == (text in recent[-most:])
            recent = [one for one in recent if one != text] + [text]

    asyncio.run(ask())


def _reordered(data: Any) -> Any:
    match data:
        case dict():
            return {name: _reordered(value) for name, value in reversed(list(data.items()))}
        case list():
            return [_reordered(value) for value in data]
        case _:
            return data


def _typed(data: Any) -> Any:
    """The data with its types, as `True == 1` in Python and not in JSON."""
    match data:
        case dict():
            return {name: _typed(value) for name, value in data.items()}
        case list():
            return [_typed(value) for value in data]
        case _:
            return (type(data).__name__, data)


# ------------------------------------------------------------------------------------------------------------- files


async def test_a_file_outlives_its_process_and_only_its_owner_reads_it(tmp_path: Path):
    """Answers that another process has kept are known here."""
    path = tmp_path / "answers.db"
    program = (
        "import asyncio, sys\n"
        "from flowagent.models.cached import Cached\n"
        "from flowagent.models.scripted import Scripted\n"
        "from tests.models.asking import said\n"
        "asyncio.run(said(Cached(Scripted('from the other process'), store=sys.argv[1])))\n"
    )
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", program, str(path)], check=True)
    assert (await said(Cached(Scripted(), store=str(path)))).text == "from the other process"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_two_caches_write_one_file_at_once(tmp_path: Path):
    """Several caches on one file, made and used at the same time, all keep their answers."""
    path = tmp_path / "answers.db"

    async def ask(name: str) -> None:
        model = Cached(FunctionModel(lambda request: name, name=f"p:{name}"), store=path)
        await asyncio.gather(*(said(model, f"{number}") for number in range(10)))

    await asyncio.gather(*(asyncio.to_thread(asyncio.run, ask(f"{number}")) for number in range(4)))
    for number in range(4):
        model = Cached(Scripted(name=f"p:{number}"), store=path)
        assert [(await said(model, f"{n}")).text for n in range(10)] == [f"{number}"] * 10


def test_importing_it_loads_no_database():
    """apsw is loaded by the first cache that is a file."""
    program = (
        "import sys\nfrom flowagent.models.cached import Cached\nfrom flowagent.models.scripted import Scripted\n"
        "Cached(Scripted())\nassert 'apsw' not in sys.modules\nCached(Scripted(), store='x.db')\n"
        "assert 'apsw' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


async def test_another_programs_database_is_not_touched(tmp_path: Path):
    """A file that is no cache of ours is refused, whole as it was."""
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE mine(x)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="is another program's database"):
        await Cached(Scripted("a"), store=path).request(asked())
    assert path.read_bytes() == before


@pytest.mark.parametrize("damage", ["no database", "a directory", "an answer"])
async def test_a_cache_that_cannot_be_read_says_so(tmp_path: Path, damage: str):
    """Damage is an error that names the file or the model and says what to do, and no request hangs after it."""
    path = tmp_path / "answers.db"
    match damage:
        case "no database":
            path.write_bytes(b"x" * 5000)
        case "a directory":
            path.mkdir()
        case _:
            await Cached(Scripted("a"), store=path).request(asked())
            with sqlite3.connect(path) as connection:
                connection.execute("UPDATE reply SET reply = '{}'")
            connection.close()
    model = Cached(Scripted(), store=path)
    for _ in range(2):
        with pytest.raises(StoreError, match=r"it can be deleted|delete the cache"):
            await model.request(asked())


@pytest.mark.parametrize(
    ("options", "error"), [({"ttl": 0}, "seconds above 0"), ({"ttl": float("nan")}, "seconds above 0"),
                           ({"most": 0}, "give 1 or more"), ({"chunk": 0}, "1 or more")],
)  # fmt: skip
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], error: str):
    """A cache that could keep nothing is refused."""
    with pytest.raises(ValueError, match=error):
        Cached(Scripted(), **options)


def test_it_is_the_model_that_it_caches():
    """Name and profile are those of the model."""
    inner = Scripted(name="a:b")
    assert (Cached(inner).name, Cached(inner).profile) == ("a:b", inner.profile)
