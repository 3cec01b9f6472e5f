from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, SecretStr, field_validator

from flowagent import Context, Limits, Retry, secret
from flowagent.core.events import Warned
from flowagent.errors import ModelError, RunFailed, ToolError, ToolFatal, ToolRetry
from flowagent.models.messages import Text, ToolResult
from flowagent.stores import MemoryStore
from flowagent.tools.context import ToolContext
from flowagent.tools.outcome import ToolOutcome
from flowagent.tools.results import Plain
from flowagent.tools.running import Running
from flowagent.tools.tool import Tool, tool
from tests.patience import PATIENCE
from tests.tools.calling import Caller, Calls, call, outcome, text

word = contextvars.ContextVar("word", default="none")


def read_file(path: str) -> str:
    return f"contents of {path}"


def run_code(code: str) -> str:
    return f"ran {code}"


# -- unknown names ----------------------------------------------------------------------------------------------------


async def test_fa_061_a_name_that_does_not_exist_is_told_with_the_known_ones_nearest_first() -> None:
    """FA-061: an error result for that call id; the good call beside it runs."""
    caller = Caller(
        [read_file, tool(run_code, name="run code")],
        [call("exec_code", "{}", "c1"), call("read_file", '{"path": "a"}', "c2")],
    )
    run = await caller.run()
    unknown, good = run.state.outcomes
    assert unknown == ToolOutcome(
        result=ToolResult(
            id="c1",
            name="exec_code",
            content=(
                Text(
                    text="There is no tool `exec_code`. There are, the nearest first: `run_code`, `read_file`. "
                    "Call one of them, or answer without."
                ),
            ),
            is_error=True,
        ),
        status="unknown",
    )
    assert (good.result.text, good.result.id) == ("contents of a", "c2")


async def test_fa_061_calls_of_invented_names_count_so_that_a_limit_ends_them() -> None:
    """FA-061: repetition ends at the limit, with a count."""
    caller = Caller([read_file], [call("nope", call_id=f"c{number}") for number in range(50)])
    run = await caller.graph().run(limits=Limits(tool_calls=20), store=MemoryStore(), run_id="r")
    assert (run.status, run.usage.tool_calls) == ("limit", 20)


async def test_without_any_tool_a_call_is_answered_all_the_same() -> None:
    run = await Caller([], [call("nope")]).run()
    assert run.state.outcomes[0].result.text == "There is no tool `nope`, and no other either: answer without tools."


async def test_a_name_with_dashes_in_place_of_underscores_is_understood_and_noted() -> None:
    result = await outcome(read_file, '{"path": "a"}', name="read-file")
    assert (result.result.name, result.repairs) == ("read-file", ("took `read-file` for `read_file`",))


# -- where tools run ---------------------------------------------------------------------------------------------------


async def test_a_sync_tool_runs_in_a_thread_with_the_context_variables_of_the_loop() -> None:
    word.set("known")

    def where() -> str:
        return f"{word.get()} {threading.current_thread().name}"

    async def where_async() -> str:
        return f"{word.get()} {threading.current_thread().name}"

    assert (await text(where)) == "known flowagent-node"
    assert (await text(where_async)).startswith("known MainThread")


async def test_a_sync_tool_asks_the_run_through_the_sync_methods() -> None:
    made: list[str] = []

    def charge(ctx: ToolContext) -> str:
        return ctx.step_sync("charge", lambda: made.append("charged") or "receipt")

    assert (await text(charge), made) == ("receipt", ["charged"])


async def test_the_key_of_a_call_is_unique_to_it() -> None:
    def key(ctx: ToolContext) -> str:
        return ctx.key

    run = await Caller([key], [call("key", call_id="a"), call("key", call_id="b")]).run()
    assert [one.result.text for one in run.state.outcomes] == ["r/node/a", "r/node/b"]


async def test_a_tool_that_returns_something_to_await_is_awaited_on_the_loop() -> None:
    async def late() -> str:
        return threading.current_thread().name

    def early() -> Awaitable[str]:
        return late()

    assert await text(early) == "MainThread"


# -- errors ------------------------------------------------------------------------------------------------------------


class Missing(Exception):
    pass


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ToolError("the shop is closed"), "the shop is closed"),
        (ToolError(), "`fail` failed."),
        (ToolRetry("give a date after today"), "`fail` must be called in another way: give a date after today"),
        (TypeError("must be str, not int"), "`fail` failed: TypeError: must be str, not int"),
        (Missing(), "`fail` failed: Missing"),
        (KeyError("x"), "`fail` failed: KeyError: 'x'"),
        (TimeoutError("of my own"), "`fail` failed: TimeoutError: of my own"),
        (StopIteration(), "`fail` failed: RuntimeError: coroutine raised StopIteration"),
    ],
    ids=repr,
)
async def test_what_a_tool_raises_is_told_to_the_model_without_a_traceback(error: Exception, told: str) -> None:
    """C8: a TypeError inside of a tool is no error of its arguments."""

    def fail() -> str:
        raise error

    result = await outcome(fail)
    assert (result.status, result.result.is_error, result.result.text, result.attempts) == ("failed", True, told, 1)


async def test_an_error_that_cannot_be_put_into_words_is_told_all_the_same() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError

    def fail() -> str:
        raise Mute

    assert await text(fail) == "`fail` failed: Mute: (its text cannot be made: ValueError)"


async def test_a_validator_that_raises_something_odd_fails_that_call() -> None:
    class Odd(BaseModel):
        value: int

        @field_validator("value")
        @classmethod
        def check(cls, value: int) -> int:
            raise KeyError(value)

    def function(odd: Odd) -> None: ...

    function.__annotations__["odd"] = Odd
    result = await outcome(function, '{"odd": {"value": 3}}')
    assert (result.status, result.attempts, result.result.text) == ("failed", 0, "`function` failed: KeyError: 3")


async def test_a_fatal_error_fails_the_run_and_still_counts() -> None:
    def stop() -> str:
        raise ToolFatal("the disk is full")

    caller = Caller([stop], [call("stop")])
    with pytest.raises(RunFailed, match="the disk is full") as caught:
        await caller.run()
    assert caught.value.run.usage.tool_calls == 1


def raises(error: Exception) -> Any:
    """A function that does that."""

    def function() -> None:
        raise error

    return function


async def several(*functions: Any) -> None:
    """Do several things at once, as a tool may."""
    async with asyncio.TaskGroup() as group:
        for function in functions:
            group.create_task(asyncio.to_thread(function))


async def test_of_several_things_that_go_wrong_at_once_each_is_told() -> None:
    async def both() -> None:
        raise ExceptionGroup("several", [ToolError("the shop is closed"), OSError("no disk")])

    assert await text(both) == "the shop is closed\n`both` failed: OSError: no disk"


async def test_a_fatal_error_among_several_fails_the_run() -> None:
    async def both() -> None:
        await several(raises(ToolFatal("the disk is full")))

    with pytest.raises(RunFailed, match="the disk is full"):
        await Caller([both], [call("both")]).run()


async def test_one_failing_call_leaves_the_others_alone() -> None:
    def fail() -> str:
        raise ValueError("no")

    run = await Caller([fail, read_file], [call("fail"), call("read_file", '{"path": "a"}', "c2")]).run()
    assert [one.status for one in run.state.outcomes] == ["failed", "done"]


# -- timeouts and retries ----------------------------------------------------------------------------------------------


class Waits:
    """Stands for sleeping: it notes how long one would have slept."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


async def test_an_async_tool_that_takes_too_long_is_cancelled_and_told() -> None:
    ended: list[str] = []

    @tool(timeout=0.01)
    async def slow() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")
        return "never"

    assert await text(slow) == "`slow` failed: TimeoutError: it took longer than 0.01 seconds"
    assert ended == ["cancelled"]


async def test_a_sync_tool_that_takes_too_long_is_left_behind_with_a_warning() -> None:
    release = threading.Event()

    @tool(timeout=0.01)
    def slow() -> str:
        release.wait(PATIENCE)
        return "late"

    caller = Caller([slow], [call("slow")])
    run = await caller.run()
    release.set()
    assert run.state.outcomes[0].result.text == "`slow` failed: TimeoutError: it took longer than 0.01 seconds"
    assert [event.text for event in caller.told if isinstance(event, Warned)] == [
        "a thread of tool `slow` outlives its timeout"
    ]


async def test_a_call_is_made_again_as_often_as_its_retry_says() -> None:
    tries: list[int] = []
    waits = Waits()

    @tool(retry=Retry(attempts=3, on=ConnectionError, backoff=1, jitter=0))
    def flaky() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError("reset")
        return "there"

    result = await outcome(flaky, running=Running(sleep=waits))
    assert (result.result.text, result.attempts, waits.seconds) == ("there", 3, [1.0, 2.0])


@pytest.mark.parametrize(
    ("error", "attempts"),
    [(ConnectionError("x"), 3), (ValueError("x"), 1), (ToolError("x"), 1), (ToolRetry("x"), 1)],
    ids=repr,
)
async def test_only_declared_errors_are_tried_again_and_never_what_the_tool_means_for_the_model(
    error: Exception, attempts: int
) -> None:
    @tool(retry=Retry(attempts=3, on=(ConnectionError, ToolError)))
    def fail() -> str:
        raise error

    result = await outcome(fail, running=Running(sleep=Waits()))
    assert (result.status, result.attempts) == ("failed", attempts)


async def test_each_attempt_has_the_whole_timeout() -> None:
    tries: list[int] = []

    @tool(timeout=0.05, retry=Retry(attempts=2, on=TimeoutError))
    async def slow() -> str:
        tries.append(1)
        if len(tries) == 1:
            await asyncio.Event().wait()
        return "at last"

    assert await text(slow, running=Running(sleep=Waits())) == "at last"


# -- who may -----------------------------------------------------------------------------------------------------------


def is_admin(ctx: Context[Any, Any]) -> bool:
    return ctx.deps == "admin"


@pytest.mark.parametrize(
    ("deps", "status", "told"),
    [
        ("admin", "done", "contents of a"),
        ("guest", "forbidden", "`read_file` is not allowed here, and was not called. Go on without it."),
    ],
)
async def test_a_tool_that_is_not_allowed_is_refused_if_it_is_called_anyway(deps: str, status: str, told: str) -> None:
    """C13: a denied tool is refused, and watchers are told."""
    caller = Caller([tool(read_file, allowed=is_admin)], [call("read_file", '{"path": "a"}')], deps=deps)
    result = (await caller.run()).state.outcomes[0]
    assert (result.status, result.result.text) == (status, told)
    assert caller.facts() == [
        ("started", "read_file", "c1", '{"path":"a"}' if deps == "admin" else '{"path": "a"}'),
        ("ended", "read_file", "c1", deps != "admin", told),
    ]


# -- what watchers are told --------------------------------------------------------------------------------------------


async def test_watchers_are_told_of_every_call_whatever_came_of_it() -> None:
    caller = Caller([read_file], [call("read_file", "{oops", "a"), call("nope", "x", "b")])
    run = await caller.run()
    invalid, unknown = run.state.outcomes
    assert caller.facts() == [
        ("started", "read_file", "a", "{oops"),
        ("ended", "read_file", "a", True, invalid.result.text),
        ("started", "nope", "b", "x"),
        ("ended", "nope", "b", True, unknown.result.text),
    ]
    assert run.usage.tool_calls == 2


async def test_how_long_a_call_took_is_measured() -> None:
    ticks = iter(range(0, 1000, 5))
    result = await outcome(read_file, '{"path": "a"}', running=Running(clock=lambda: next(ticks)))
    assert result.seconds == 5


async def test_a_final_tool_says_so() -> None:
    assert (await outcome(tool(read_file, final=True), '{"path": "a"}')).final
    assert not (await outcome(tool(read_file, final=True), "{}")).final


# -- once --------------------------------------------------------------------------------------------------------------


async def test_a_call_that_must_be_made_once_is_replayed_and_not_repeated() -> None:
    made: list[str] = []

    @tool(once=True)
    def pay(cents: int) -> dict[str, int]:
        made.append("paid")
        return {"paid": cents}

    @tool(approval=True)
    def confirm() -> str:
        return "confirmed"

    caller = Caller([pay, confirm], [call("pay", '{"cents": 5}', "c1"), call("confirm", "", "c2")])
    assert (await caller.run()).status == "waiting"
    run = await caller.resume({"c2": True})
    assert [one.result.text for one in run.state.outcomes] == ['{"paid":5}', "confirmed"]
    assert made == ["paid"]


@pytest.mark.parametrize(
    ("answer", "status", "told", "made"),
    [
        ("retry", "done", "paid", 2),
        ({"result": "paid by hand"}, "done", "paid by hand", 1),
    ],
)
async def test_a_call_that_must_be_made_once_and_broke_off_leads_to_a_question(
    answer: Any, status: str, told: str, made: int
) -> None:
    """The model is not told of the error, as it would only call again."""
    calls: list[str] = []

    @tool(once=True)
    def pay() -> str:
        calls.append("paid")
        if len(calls) == 1:
            raise ConnectionError("the line went dead")
        return "paid"

    caller = Caller([pay], [call("pay")])
    run = await caller.run()
    assert run.status == "waiting"
    assert "the line went dead" in run.questions[0].text
    run = await caller.graph().resume("r", store=caller.store, answers={run.questions[0].id: answer})
    result = run.state.outcomes[0]
    assert (result.status, result.result.text, len(calls)) == (status, told, made)


async def test_a_call_that_must_be_made_once_can_be_aborted() -> None:
    @tool(once=True)
    def pay() -> str:
        raise ConnectionError

    caller = Caller([pay], [call("pay")])
    run = await caller.run()
    with pytest.raises(RunFailed, match="aborted"):
        await caller.graph().resume("r", store=caller.store, answers={run.questions[0].id: "abort"})


async def test_a_tool_that_knows_that_it_failed_leaves_nothing_to_ask() -> None:
    @tool(once=True)
    def pay() -> str:
        raise ToolError("the card is refused")

    result = await outcome(pay)
    assert (result.status, result.result.text) == ("failed", "the card is refused")


async def test_a_safe_error_is_tried_again_within_a_call_that_must_be_made_once() -> None:
    tries: list[int] = []

    @tool(once=True, retry=Retry(on=ConnectionRefusedError))
    def pay() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionRefusedError
        return "paid"

    assert await text(pay, running=Running(sleep=Waits())) == "paid"


@pytest.mark.parametrize("error", [ModelError("the line went dead", kind="connection"), OSError("dead")], ids=repr)
async def test_whatever_else_a_call_that_must_be_made_once_raises_leads_to_a_question(error: Exception) -> None:
    @tool(once=True)
    def pay() -> str:
        raise error

    run = await Caller([pay], [call("pay")]).run()
    assert (run.status, len(run.questions)) == ("waiting", 1)


async def test_a_call_that_must_be_made_once_fails_the_run_where_nobody_could_be_asked() -> None:
    """The model is not told: it would call again."""
    tries: list[int] = []

    @tool(once=True)
    def pay() -> str:
        tries.append(1)
        raise ConnectionError("the line went dead")

    with pytest.raises(RunFailed, match="no store was given"):
        await Caller([pay], [call("pay")]).graph().run(Calls(), run_id="r")
    assert tries == [1]


async def test_a_fatal_error_in_a_call_that_must_be_made_once_fails_the_run_and_asks_when_it_is_resumed() -> None:
    @tool(once=True)
    def pay() -> str:
        raise ToolFatal("stop everything")

    caller = Caller([pay], [call("pay")])
    with pytest.raises(RunFailed, match="stop everything"):
        await caller.run()
    assert (await caller.resume({})).status == "waiting"


# -- secrets -----------------------------------------------------------------------------------------------------------


class Login(BaseModel):
    user: str
    password: Annotated[str, secret]


def log_in(login: Login, token: SecretStr, pin: Annotated[str, secret]) -> str:
    """Log in."""
    raise ValueError(
        f"GET /?p={login.password}&t={token.get_secret_value()} of {login.user}: {pin} c2stdGVzdC0xMjM0NTY="
    )


SECRETS = '{"login": {"user": "ada", "password": "hunter2222"}, "token": "sk-test-123456", "pin": "pin-of-ada"}'


async def test_fa_114_secrets_are_masked_in_what_the_model_and_watchers_are_told() -> None:
    """FA-114: neither the error that echoes them nor any event shows them, in clear or in base64."""
    caller = Caller([log_in], [call("log_in", SECRETS)])
    run = await caller.run()
    mask = "**********"
    assert run.state.outcomes[0].result.text == (
        f"`log_in` failed: ValueError: GET /?p={mask}&t={mask} of ada: {mask} {mask}"
    )
    assert caller.facts()[0][3] == f'{{"login":"{mask}","token":"{mask}","pin":"{mask}"}}'
    shown = repr(caller.told) + run.state.outcomes[0].model_dump_json()
    assert [one for one in ("hunter2222", "sk-test-123456", "pin-of-ada", "c2stdGVzdC0xMjM0NTY") if one in shown] == []


async def test_fa_114_secrets_are_masked_where_a_run_fails_or_asks() -> None:
    """FA-114: nor does what is stored of a fatal error, or asked about a call that must be made once."""

    @tool
    def stop(token: SecretStr) -> str:
        raise ToolFatal(f"bad token {token.get_secret_value()}")

    @tool(once=True)
    def pay(token: SecretStr) -> str:
        raise ConnectionError(f"bad token {token.get_secret_value()}")

    with pytest.raises(RunFailed) as caught:
        await Caller([stop], [call("stop", '{"token": "sk-test-123456"}')]).run()
    run = await Caller([pay], [call("pay", '{"token": "sk-test-123456"}')]).run()
    told = str(caught.value), repr(caught.value.run.errors), run.questions[0].text
    assert [("bad token **********" in one, "sk-test" in one) for one in told] == [(True, False)] * 3


async def test_fa_114_secrets_that_do_not_fit_are_not_quoted() -> None:
    """FA-114: nor does a message about wrong arguments."""
    caller = Caller(
        [log_in],
        [call("log_in", '{"login": {"user": 1, "password": 7777777701}, "token": 8888888802, "pin": 9999999903}')],
    )
    run = await caller.run()
    result = run.state.outcomes[0]
    assert (result.status, caller.facts()[0][3]) == ("invalid", "**********")
    assert [
        one for one in ("7777777701", "8888888802", "9999999903") if one in repr(caller.told) + result.result.text
    ] == []


async def test_fa_114_what_a_schema_says_is_only_written_is_not_shown() -> None:
    """FA-114: the same for tools that are made of a schema."""

    async def fail(arguments: dict[str, Any], ctx: Any) -> Any:
        raise ValueError(arguments["key"])

    parameters = {"properties": {"key": {"type": "string", "writeOnly": True, "maxLength": 20}}}
    made = Tool.from_schema(name="fail", parameters=parameters, call=fail)
    assert await text(made, '{"key": "sk-test-123456"}') == "`fail` failed: ValueError: **********"
    assert "`key`: ********** does not fit (its `maxLength`)" in await text(made, '{"key": "sk-test-1234567890123"}')


# -- cancellation -----------------------------------------------------------------------------------------------------


async def test_cancelling_the_run_reaches_the_tool() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "never"

    task = asyncio.ensure_future(Caller([slow], [call("slow")]).run())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


def test_a_stored_result_is_of_a_type_that_a_store_gives_back() -> None:
    """What `once` records comes back as it was, media included."""
    from pydantic import TypeAdapter

    from flowagent.models.messages import Media

    adapter: TypeAdapter[Any] = TypeAdapter(Plain)
    for value in (
        {"a": [1, None]},
        "text",
        [Media(url="u", media_type="image/png"), "x"],
        Media(data=b"\xff", media_type="x/y"),
    ):
        assert adapter.validate_json(adapter.dump_json(value)) == value
