"""Makes one call of a tool, from what the model wrote to what it is told. Whatever goes wrong is told, not raised.

What is raised nevertheless: `ToolFatal`, cancellation, and what ends an attempt from outside (a question, a limit).
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (It handles what users' functions return.)
from __future__ import annotations

import asyncio
import hashlib
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias, assert_never

from pydantic_core import to_json

from flowagent.core.context import Context, Paused
from flowagent.core.events import ToolEnded, ToolStarted, Warned
from flowagent.core.secret import MASK, scrubbed
from flowagent.core.threads import in_thread
from flowagent.core.usage import Usage
from flowagent.errors import FlowAgentError, ToolError, ToolFatal
from flowagent.models.estimating import tokens_about
from flowagent.models.messages import Text, ToolCall, ToolResult
from flowagent.tools import telling
from flowagent.tools.arguments import written
from flowagent.tools.body import ArgumentsError, Body
from flowagent.tools.context import ToolContext
from flowagent.tools.decisions import Abort, Answer, Approve, Decision, Deny, verdict
from flowagent.tools.hiding import masked_error, secrets_of
from flowagent.tools.names import wire_name
from flowagent.tools.outcome import ToolOutcome, ToolStatus
from flowagent.tools.results import Plain, Refused, drained, drained_async, plain_of, told
from flowagent.tools.tool import Tool
from flowagent.tools.trimming import NARROWER, trimmed

Validation: TypeAlias = Callable[[ToolCall], Awaitable[Mapping[str, Any]]]
"""What gives the validated arguments of a call, by the names that the model knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """How calls are made.

    Args:
        max_result_tokens: a cap on results of tools that set none of their own; None for no cap.
        count: counts the tokens of a text.
        rest: how a model gets what a cut result leaves out; `{id}` in it becomes the id of the call.
        sleep: waits between attempts, in seconds.
        clock: seconds, for how long calls take.
        around: stands around the validation of arguments: gets the call, the context, and what gives the validated
            arguments; may give others, which are validated in turn.
        refusal: says of a call with valid arguments why it must not be made, or "".
    """

    max_result_tokens: int | None = None
    count: Callable[[str], int] = tokens_about
    rest: str = NARROWER
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic
    around: Callable[[ToolCall, Context[Any, Any], Validation], Awaitable[Mapping[str, Any]]] | None = None
    refusal: Callable[[ToolCall, Context[Any, Any]], Awaitable[str]] | None = None


async def run(tool: Tool[..., Any], call: ToolCall, ctx: Context[Any, Any], how: Running) -> ToolOutcome:
    """Make a call.

    Args:
        tool: what is called.
        call: as the model wrote it.
        ctx: of the node that makes the call.
        how: see `Running`.

    Raises:
        ToolFatal: the tool says that the run must not go on, or who was asked for approval does.
    """
    called = wire_name(tool.name)
    repairs = () if call.name in (called, tool.name) else (f"took `{call.name}` for `{called}`",)
    with _counted(ctx):
        return await _Call(tool, call, ctx, how, how.clock(), repairs).outcome()


def uncalled(call: ToolCall, ctx: Context[Any, Any], text: str) -> ToolOutcome:
    """A call of a tool that does not exist: it counts, as a model that invents names must come to an end, too."""
    with _counted(ctx):
        facts = {"tool": call.name, "call_id": call.id}
        ctx.tell(ToolStarted, **facts, arguments=call.arguments)
        ctx.tell(ToolEnded, **facts, is_error=True, text=text, seconds=0.0)
        return problem(call, "unknown", text)


@contextmanager
def _counted(ctx: Context[Any, Any]) -> Generator[None]:
    """Counts one call, unless it only asks something: then it is counted when it goes on."""
    ctx.reserve(tool_calls=1)
    paused = False
    try:
        yield
    except Paused:
        paused = True
        raise
    finally:
        if not paused:
            ctx.spend(Usage(tool_calls=1))


@dataclass(slots=True)
class _Call:
    """One call on its way."""

    tool: Tool[..., Any]
    call: ToolCall
    ctx: Context[Any, Any]
    how: Running
    began: float
    repairs: tuple[str, ...] = ()
    is_told: bool = False
    secrets: frozenset[str] = field(default_factory=frozenset[str])
    attempts: int = 0

    async def outcome(self) -> ToolOutcome:
        """What comes of it. Watchers are told of every call, whether its tool was run or not."""
        outcome = await self._outcome()
        if not self.is_told:
            self._tell_start(self.call.arguments if not self.tool.body.secrets else MASK)
        text, is_error = outcome.result.text, outcome.result.is_error
        seconds = self.how.clock() - self.began
        self.ctx.tell(
            ToolEnded, tool=self.tool.name, call_id=self.call.id, is_error=is_error, text=text, seconds=seconds
        )
        return outcome.model_copy(update={"seconds": seconds, "repairs": self.repairs, "attempts": self.attempts})

    def _tell_start(self, arguments: str) -> None:
        self.is_told = True
        self.ctx.tell(ToolStarted, tool=self.tool.name, call_id=self.call.id, arguments=arguments)

    async def _outcome(self) -> ToolOutcome:
        tool, name = self.tool, self.call.name
        if tool.allowed is not None and not tool.allowed(self.ctx):
            return self._told("forbidden", telling.forbidden(name))
        try:
            values = await self._valid()
        except ArgumentsError as error:
            return self._told("invalid", telling.invalid(name, error, tool.parameters))
        except Exception as error:  # noqa: BLE001  # a validator is user code and may raise anything
            return self._told("failed", telling.failed(name, error, self.secrets))
        if self.how.refusal is not None and (why := await self.how.refusal(self.call, self.ctx)):
            return self._told("denied", telling.denied(name, why))
        decided = await self._decided(values)
        if isinstance(decided, ToolOutcome):
            return decided
        return await self._made(decided)

    async def _valid(self) -> dict[str, Any]:
        """The validated arguments, with whatever stands around their validation."""
        values: dict[str, Any] = {}

        async def read(call: ToolCall) -> Mapping[str, Any]:
            nonlocal values
            found = written(call.arguments, self.tool.parameters)
            self.repairs += found.repairs
            values = self._validated(found.data)
            return self.tool.body.told(values)

        if self.how.around is None:
            await read(self.call)
            return values
        given = await self.how.around(self.call, self.ctx, read)
        return values if given == self.tool.body.told(values) else self._validated(to_json(given))

    def _validated(self, data: bytes) -> dict[str, Any]:
        body = self.tool.body
        values = body.validated(data)
        arguments = body.told(values)
        self.secrets |= secrets_of(arguments, body.secrets & arguments.keys())
        return values

    # -- approval ------------------------------------------------------------------------------------------------------

    async def _decided(self, values: dict[str, Any]) -> dict[str, Any] | ToolOutcome:
        """The arguments that are approved, if somebody has to approve; or what else was decided."""
        if self.tool.approval is False:
            return values
        arguments = self.tool.body.told(values)
        shown = telling.shown(arguments, self.tool.body.secrets)
        judged = await self._judged(arguments, shown)
        is_stale = judged["arguments"] != _digest(shown)
        if judged["reason"] is False:
            return self._told("denied", telling.denied(self.call.name, _STALE)) if is_stale else values
        reason = judged["reason"] if isinstance(judged["reason"], str) else ""
        text = telling.question(self.tool.name, shown, self.ctx.task_id, reason)
        return self._by_decision(
            verdict(await self.ctx.ask(self.call.id, text, Decision, about=self._about(shown))),
            values,
            is_stale=is_stale,
        )

    async def _judged(self, arguments: dict[str, Any], shown: dict[str, Any]) -> dict[str, Any]:
        """Whether somebody has to approve of these arguments: False, True or the reason.

        It is on record before anybody is asked. So the answer holds even where the function that judges would say
        something else by now, and only for the arguments that were shown.
        """

        def judge() -> dict[str, Any]:
            wanted = self.tool.approval
            reason = wanted(self.ctx, arguments) if callable(wanted) else wanted
            return {"reason": reason or False, "arguments": _digest(shown)}

        return await self.ctx.step(f"approval {self.call.id}", judge)

    def _by_decision(
        self, decision: Approve | Deny | Answer | Abort, values: dict[str, Any], *, is_stale: bool
    ) -> dict[str, Any] | ToolOutcome:
        match decision:
            case Approve(arguments=None):
                return self._told("denied", telling.denied(self.call.name, _STALE)) if is_stale else values
            case Approve(arguments=changed):
                return self._changed(to_json(changed))
            case Deny(reason=why):
                return self._told("denied", telling.denied(self.call.name, why))
            case Answer(result=result):
                return self._finished("answered", plain_of(result))
            case Abort(reason=why):
                because = f": {why}" if why else ""
                raise ToolFatal(f"the call `{self.call.id}` of `{self.tool.name}` was aborted{because}")
            case _:
                assert_never(decision)

    def _changed(self, data: bytes) -> dict[str, Any] | ToolOutcome:
        """The arguments that a person put in place of the model's, which are held to the schema just the same."""
        try:
            return self._validated(data)
        except ArgumentsError as error:
            text = telling.invalid(self.call.name, error, self.tool.parameters)
            return self._told("invalid", f"The person in charge has changed the arguments. {text}")

    # -- the call ------------------------------------------------------------------------------------------------------

    async def _made(self, values: dict[str, Any]) -> ToolOutcome:
        body = self.tool.body
        ctx = ToolContext.of_call(self.ctx, call_id=self.call.id, tool=self.tool.name, arguments=body.told(values))
        shown = telling.shown(ctx.arguments, body.secrets)
        as_text = to_json(shown).decode()
        self._tell_start(as_text)
        if self.tool.external:
            text = f"`{self.tool.name}` was called with {as_text} in `{ctx.task_id}`: answer with its result."
            return self._finished(
                "done", plain_of(await self.ctx.ask(self.call.id, text, Any, about=self._about(shown)))
            )
        return await self._ended(values, ctx)

    async def _ended(self, values: dict[str, Any], ctx: ToolContext[Any, Any]) -> ToolOutcome:
        try:
            plain = await self._result(values, ctx)
            if isinstance(plain, Refused):
                return self._told("failed", plain.text)
            return self._finished("done", plain)
        except ToolFatal as error:
            if (masked := masked_error(error, self.secrets)) is error:
                raise
            raise masked from None
        except Exception as error:  # noqa: BLE001  # whatever a tool raises, the model is told of it
            if isinstance(error, ExceptionGroup) and error.subgroup(ToolFatal) is not None:
                raise ToolFatal(telling.failed(self.call.name, error, self.secrets)) from None
            return self._told("failed", telling.failed(self.call.name, error, self.secrets))

    async def _result(self, values: dict[str, Any], ctx: ToolContext[Any, Any]) -> Any:
        """What the tool returned, as plain data."""
        return await self._once(values, ctx) if self.tool.once else plain_of(await self._tried(values, ctx))

    def _about(self, arguments: Any) -> dict[str, Any]:
        """What a question about the call is about, for programs that show it."""
        return {"tool": self.tool.name, "call_id": self.call.id, "arguments": plain_of(arguments)}

    async def _once(self, values: dict[str, Any], ctx: ToolContext[Any, Any]) -> Any:
        """A call that is never made twice. One that ended in an unknown way leads to a question."""

        async def made() -> Plain:
            try:
                return plain_of(await self._tried(values, ctx))
            except ToolFatal:
                raise
            except ToolError as error:  # it knows that it failed: nothing is left to ask
                return Refused(text=telling.failed(self.call.name, error, self.secrets))
            except FlowAgentError as error:  # not to be taken for one of `once` itself
                raise RuntimeError(scrubbed(f"{type(error).__name__}: {error}", self.secrets)) from error
            except Exception as error:  # its text will stand in the question
                if (masked := masked_error(error, self.secrets)) is error:
                    raise
                raise masked from None

        try:
            return await self._recorded(made)
        except ToolFatal:
            raise
        except Exception:  # noqa: BLE001  # what it came to nobody knows, and that is on record by now
            return await self._recorded(made)  # so this asks, and does not call

    async def _recorded(self, made: Callable[[], Awaitable[Any]]) -> Any:
        """What a call came to, which is made and recorded once."""
        try:
            return await self.ctx.once(f"call {self.call.id}", made)
        except ToolFatal:
            raise
        except FlowAgentError as error:
            # The model must not be told of it and try again: the answer was to abort, or nobody can be asked.
            raise ToolFatal(str(error)) from error

    async def _tried(self, values: dict[str, Any], ctx: ToolContext[Any, Any]) -> Any:
        """What the tool returned, after as many attempts as its `retry` allows."""
        retry = self.tool.retry
        while True:
            self.attempts += 1
            try:
                return await self._attempt(values, ctx)
            except Exception as error:
                if retry is None or isinstance(error, ToolError) or not retry.allows(self.attempts, error):
                    raise
                delay = retry.delay(self.attempts)
            await self.how.sleep(delay)

    async def _attempt(self, values: dict[str, Any], ctx: ToolContext[Any, Any]) -> Any:
        body = self.tool.body
        limit = asyncio.timeout(self.tool.timeout)
        try:
            async with limit:
                return await _called(body, values, ctx)
        except TimeoutError as error:
            if not limit.expired():
                raise
            if not body.on_loop:
                self.ctx.tell(Warned, text=f"a thread of tool `{self.tool.name}` outlives its timeout")
            raise TimeoutError(f"it took longer than {self.tool.timeout:g} seconds") from error

    # -- what the model is told ----------------------------------------------------------------------------------------

    def _finished(self, status: ToolStatus, plain: Any) -> ToolOutcome:
        most = self.tool.max_result_tokens or self.how.max_result_tokens
        made = told(plain)
        content = made.content
        if most is not None and made.plain is not None:
            rest = self.how.rest.replace("{id}", self.call.id)
            content = (Text(text=trimmed(made.plain, most, rest, self.how.count)),)
        result = ToolResult(id=self.call.id, name=self.call.name, content=content)
        return ToolOutcome(
            result=result,
            status=status,
            final=self.tool.final,
            value=made.value,
        )

    def _told(self, status: ToolStatus, text: str) -> ToolOutcome:
        return problem(self.call, status, text)


_STALE = "its arguments are others now than those that were approved; call it again if they are right"


def problem(call: ToolCall, status: ToolStatus, text: str) -> ToolOutcome:
    """The outcome of a call that came to nothing."""
    return ToolOutcome(
        result=ToolResult(id=call.id, name=call.name, content=(Text(text=text),), is_error=True), status=status
    )


def _digest(shown: Mapping[str, Any]) -> str:
    """A fingerprint of the arguments that somebody is shown."""
    return hashlib.blake2b(to_json(shown), digest_size=12).hexdigest()


async def _called(body: Body, values: dict[str, Any], ctx: ToolContext[Any, Any]) -> Any:
    """Call on the loop or in a thread, and read whatever comes piece by piece to its end."""
    if body.on_loop:
        result = body.call(values, ctx)
    else:
        aside = ctx.in_thread()
        worked, result = await in_thread(lambda: _in_full(body.call(values, aside)))
        if not worked:
            raise result
    if inspect.isawaitable(result):
        result = await result
    if isinstance(result, AsyncIterator):
        return await drained_async(result)
    return _in_full(result)


def _in_full(result: Any) -> Any:
    return drained(result) if isinstance(result, Iterator) else result
