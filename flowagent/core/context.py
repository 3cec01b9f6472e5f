"""`Context`: what a node can ask of the run that it is part of.

What is done through it is recorded: a `step` is not done again when the node is, an answer is asked for once, a
sleep goes on where it was. The recording itself is the engine's, behind a port.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, cast, overload

from pydantic import ConfigDict
from pydantic_core import from_json, to_json
from typing_extensions import TypeVar

from flowagent.core.accounts import amounts_asked
from flowagent.core.facts import Failure
from flowagent.core.fields import Codec, codec_of, text_of
from flowagent.core.memos import about_step, step_begun, step_done
from flowagent.core.port import Paused, Port
from flowagent.core.secret import opened, unsealed
from flowagent.core.signatures import hints_of
from flowagent.core.usage import Usage
from flowagent.errors import FlowAgentError, UnstorableError

if TYPE_CHECKING:
    from flowagent.core.events import Event

DepsT_co = TypeVar("DepsT_co", covariant=True, default=object)
StateT_co = TypeVar("StateT_co", covariant=True, default=object)
P = ParamSpec("P")
R = TypeVar("R")


class Context(Generic[DepsT_co, StateT_co]):
    """The second parameter of a node that wants one.

    Attributes:
        deps: what was passed as `deps=` to the run.
        run_id: the run.
        task_id: this visit of this node; made from causality, the same after a crash.
        key: the idempotency key, unique to the run and the task and the same for each attempt of it.
        attempt: which attempt this is, from 1.
        state: the state that the node was given.
        error: in a node that handles errors, the failures that it handles, in the order of task ids; else empty.

    Example:
        A payment that is not made twice, whatever stops the process::

            @g.node
            async def pay(order: Order, ctx: Context[Shop, Order]) -> Update:
                receipt = await ctx.step("charge", ctx.deps.charge, order.amount, ctx.key)
                return {"receipt": receipt}
    """

    __slots__ = ("_port", "attempt", "deps", "error", "key", "run_id", "state", "task_id")

    def __init__(
        self,
        port: Port,
        *,
        deps: DepsT_co,
        state: StateT_co,
        run_id: str,
        task_id: str,
        attempt: int,
        error: tuple[Failure, ...],
    ) -> None:
        self._port = port
        self.deps = deps
        self.state = state
        self.run_id = run_id
        self.task_id = task_id
        self.key = f"{run_id}/{task_id}"
        self.attempt = attempt
        self.error = error

    @classmethod
    def sharing(cls, other: Context[Any, Any]) -> Self:
        """A context of this class for the same attempt: subclasses make theirs so, and then set their own fields."""
        made = cls.__new__(cls)
        for name in Context.__slots__:
            setattr(made, name, getattr(other, name))
        return made

    def in_thread(self) -> Self:
        """An equal context for a thread that an async node starts: there its `_sync` methods are the right ones."""
        made = copy.copy(self)
        made._port = self._port.from_thread()  # noqa: SLF001  # its own class's
        return made

    # -- async nodes -------------------------------------------------------------------------------------------------

    @overload
    async def step(self, name: str, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    async def step(self, name: str, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    async def step(self, name: str, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Do something once: what it returns is recorded, and replayed when the node is run again.

        Args:
            name: unique within the node.
            fn: what to do, sync or async.
            args: passed to it; the same name with other arguments is an error.
            kwargs: likewise.

        Returns:
            What it returned, as the store gives it back.

        Raises:
            FlowAgentError: the name was used with other arguments, or from a sync node.
            UnstorableError: what it returned would not come back from a store as it is.
        """
        self._refuse_in_thread("step")
        return await self._step(name, fn, args, kwargs)

    @overload
    async def once(self, name: str, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    async def once(self, name: str, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    async def once(self, name: str, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Do something that must never be done twice without asking: a `step` whose beginning is recorded, too.

        It is stored before the call that it begins, at every durability. If the call ends in an exception or a
        timeout, is cancelled or dies with its process, nobody knows what came of it: then the next attempt does not
        call again but asks, and goes on by the answer: `"retry"`, `{"result": ...}` or `"abort"`.

        Args:
            name: unique within the node.
            fn: what to do, sync or async.
            args: passed to it; the same name with other arguments is an error.
            kwargs: likewise.

        Returns:
            What it returned or the answer gives, as the store gives it back.

        Raises:
            FlowAgentError: the answer was `"abort"`; the name was used with other arguments, or from a sync node.
            UnstorableError: what it returned would not come back from a store as it is.
        """
        self._refuse_in_thread("once")
        return await self._once(name, fn, args, kwargs)

    async def ask(self, name: str, question: str, schema: Any = str, *, about: Any = None) -> Any:
        """Ask a person or a program; the run waits until `resume(answers={id: value})`.

        The node is run again from its first line when the answer is there; what was done through `step` before is
        replayed. A `gate` asks without running any code twice.

        Args:
            name: unique within the node.
            question: what to show.
            schema: the type of the answer: any type that pydantic knows, such as `bool` or `Literal["yes", "no"]`.
            about: what it is about, as JSON data for programs that show it.

        Returns:
            The answer, validated by the schema.
        """
        self._refuse_in_thread("ask")
        return await self._ask(name, question, schema, about)

    async def sleep(self, seconds: float) -> None:
        """Wait; the wake time is recorded, so a resumed run waits only for what is left."""
        self._refuse_in_thread("sleep")
        await self._port.sleep(seconds)

    # -- sync nodes --------------------------------------------------------------------------------------------------

    def step_sync(self, name: str, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """`step` for sync nodes."""
        self._refuse_on_loop("step_sync")
        return cast("R", self._port.wait(self._step(name, fn, args, kwargs)))

    def once_sync(self, name: str, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """`once` for sync nodes."""
        self._refuse_on_loop("once_sync")
        return cast("R", self._port.wait(self._once(name, fn, args, kwargs)))

    def ask_sync(self, name: str, question: str, schema: Any = str, *, about: Any = None) -> Any:
        """`ask` for sync nodes."""
        self._refuse_on_loop("ask_sync")
        return self._port.wait(self._ask(name, question, schema, about))

    def sleep_sync(self, seconds: float) -> None:
        """`sleep` for sync nodes."""
        self._refuse_on_loop("sleep_sync")
        self._port.wait(self._port.sleep(seconds))

    # -- both --------------------------------------------------------------------------------------------------------

    @property
    def is_watched(self) -> bool:
        """Whether anybody watches the run, so that it is worth telling what happens as it does."""
        return self._port.is_watched

    def emit(self, name: str, data: Any = None) -> None:
        """Tell whoever watches the run something of your own; it comes as an event `Emitted`. Nothing is stored."""
        self._port.emit(name, data)

    def log(self, text: str) -> None:
        """Tell whoever watches the run a line of text: `emit("log", text)`."""
        self._port.emit("log", text)

    def tell(self, kind: Callable[..., Event], /, **facts: Any) -> None:
        """Tell whoever watches the run an event of this task, such as `TextDelta`. Nothing is stored.

        Args:
            kind: a class of `flowagent.core.events`.
            facts: its fields, without those that every event of a task has.
        """
        self._port.tell(kind, facts)

    def hold_secret(self, what: str) -> None:
        """Refuse to go on with something secret where the run's store could show it to others.

        Args:
            what: what is secret, for the message.

        Raises:
            UnstorableError: the store is not encrypted.
        """
        self._port.hold_secret(what)

    # -- what is spent -----------------------------------------------------------------------------------------------

    def spend(self, usage: Usage) -> None:
        """Note what was spent; it stands in the task's next record, and counts even if the attempt fails.

        Args:
            usage: what was spent since the last call.
        """
        self._port.spend(usage)

    @property
    def spent(self) -> Usage:
        """What the graph that the node stands in has spent so far, with all graphs inside it and this attempt."""
        return self._port.spent()

    def reserve(
        self, *, requests: int = 0, tool_calls: int = 0, tokens: int = 0, cost: Decimal | float | str = 0
    ) -> None:
        """Set something aside before it is spent, so that nothing beside this can spend it.

        If the run's limits leave no room for it, the attempt ends here, the run stops with status `limit`, and
        `resume` with higher limits runs the node again. What is spent uses up what was set aside; what is left of it
        is free again when the attempt is over.

        Args:
            requests: how many requests to models.
            tool_calls: how many calls of tools.
            tokens: how many tokens, as far as that is known before.
            cost: how many US dollars, likewise.

        Raises:
            ValueError: a figure below 0.
        """
        self._port.reserve(amounts_asked(requests, tool_calls, tokens, cost))

    # -- how ---------------------------------------------------------------------------------------------------------

    async def _step(self, name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        codec, called_with = self._codec_of(name, fn), _print_of(args, kwargs)
        known = self._known(step_done(name), name, called_with)
        if known is not None:
            return codec.decode(known["value"])
        return await self._remember(step_done(name), name, called_with, codec, await _called(fn, args, kwargs))

    async def _once(self, name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        codec, called_with = self._codec_of(name, fn), _print_of(args, kwargs)
        known = self._known(step_done(name), name, called_with)
        if known is not None:
            return codec.decode(known["value"])
        begun = self._known(step_begun(name), name, called_with)
        if begun is not None:
            given = codec.validate(await self._answer_about(name, begun["what"], codec))
            return await self._remember(step_done(name), name, called_with, codec, given)
        facts = {"args": called_with, "what": "was interrupted"}
        await self._port.begin_once(step_begun(name), facts)
        try:
            result = await _called(fn, args, kwargs)
        except Exception as error:
            failed = {**facts, "what": f"failed ({type(error).__name__}: {text_of(error)})"}
            await self._port.remember(step_begun(name), failed)
            raise
        return await self._remember(step_done(name), name, called_with, codec, result)

    async def _answer_about(self, name: str, what: str, codec: Codec) -> Any:
        """What somebody says that a call came to of which nobody else knows."""
        data = self._port.answer(about_step(name))
        if data is None:
            await self._port.ask_what_became(name, what, codec.adapter.json_schema())
            raise Paused(name)
        answer = from_json(unsealed(data))
        if answer == "abort":
            raise FlowAgentError(f"`{name}` was aborted by the answer to what became of it")
        return opened(answer["result"])

    def _codec_of(self, name: str, fn: Callable[..., Any]) -> Codec:
        """How the result of a step is stored."""
        codec = codec_of(hints_of(fn).get("return", Any), ConfigDict())
        if codec.secret:
            self._port.hold_secret(f"the result of step `{name}`")
        return codec

    def _known(self, key: str, name: str, called_with: str) -> Any:
        """What was recorded of a step before, if it was called with the same arguments."""
        known = self._port.recorded(key)
        if known is not None and known["args"] != called_with:
            raise FlowAgentError(
                f"task `{self.task_id}` used the step `{name}` before with other arguments: give each step of a "
                "node its own name, or drop what was recorded with resume(retry={task: 'fresh'})"
            )
        return known

    async def _remember(self, key: str, name: str, called_with: str, codec: Codec, result: Any) -> Any:
        """Record what a step came to; the value as the store gives it back."""
        try:
            value, data = codec.through(result)
        except UnstorableError as error:
            raise UnstorableError(f"the result of step `{name}` {error}") from error
        await self._port.remember(key, {"args": called_with, "value": data.decode()})
        return value

    async def _ask(self, name: str, question: str, schema: Any, about: Any) -> Any:
        data = await self._port.ask(name, question, schema, about)
        if data is None:
            raise Paused(name)
        return codec_of(schema, ConfigDict()).decode(unsealed(data))

    def _refuse_in_thread(self, method: str) -> None:
        if self._port.in_thread:
            raise FlowAgentError(f"a sync node called ctx.{method}; write ctx.{method}_sync, or make the node async")

    def _refuse_on_loop(self, method: str) -> None:
        if not self._port.in_thread:
            raise FlowAgentError(f"an async node called ctx.{method}; write await ctx.{method.removesuffix('_sync')}")


async def _called(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    result = fn(*args, **kwargs)
    return await result if inspect.isawaitable(result) else result


def _print_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """A fingerprint of arguments that is the same in every process."""
    data = to_json([args, kwargs], fallback=lambda value: f"<{type(value).__qualname__}>")
    return hashlib.blake2b(data, digest_size=12).hexdigest()
