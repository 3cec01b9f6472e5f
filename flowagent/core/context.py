"""`Context`: what a node can ask of the run that it is part of.

What is done through it is recorded: a `step` is not done again when the node is, an answer is asked for once, a
sleep goes on where it was. The recording itself is the engine's; here it is a port with four methods.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic, ParamSpec, Protocol, cast, overload

from pydantic import ConfigDict
from pydantic_core import to_json
from typing_extensions import TypeVar

from flowagent.core.facts import Failure
from flowagent.core.fields import codec_of
from flowagent.core.secret import unsealed
from flowagent.core.signatures import hints_of
from flowagent.errors import FlowAgentError, UnstorableError

DepsT_co = TypeVar("DepsT_co", covariant=True, default=object)
StateT_co = TypeVar("StateT_co", covariant=True, default=object)
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Paused(BaseException):
    """Ends an attempt that has asked something. No `except Exception` of a node can swallow it."""


class Port(Protocol):
    """What a context needs of the engine, for one attempt of one task."""

    @property
    def in_thread(self) -> bool:
        """Whether the attempt runs outside the event loop, so that the sync methods are the right ones."""
        ...

    def recorded(self, name: str) -> Any:
        """What was remembered under a name in an earlier attempt, or None."""
        ...

    def hold_secret(self, what: str) -> None:
        """Refuse to have something secret stored where it could be read."""
        ...

    async def remember(self, name: str, data: dict[str, Any]) -> None:
        """Store something under a name before going on."""
        ...

    async def ask(self, name: str, question: str, schema: Any) -> bytes | None:
        """The JSON of the answer; None when it is not there yet, and the question is now recorded."""
        ...

    async def sleep(self, name: str, seconds: float) -> None:
        """Wait until a wake time that is recorded."""
        ...

    def emit(self, name: str, data: Any) -> None:
        """Tell whoever watches the run."""
        ...

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run one of the above to its end from a sync node."""
        ...


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

    __slots__ = ("_port", "_sleeps", "attempt", "deps", "error", "key", "run_id", "state", "task_id")

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
        self._sleeps = 0
        self.deps = deps
        self.state = state
        self.run_id = run_id
        self.task_id = task_id
        self.key = f"{run_id}/{task_id}"
        self.attempt = attempt
        self.error = error

    # -- async nodes -----------------------------------------------------------------------------------------------

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

    async def ask(self, name: str, question: str, schema: Any = str) -> Any:
        """Ask a person or a program; the run waits until `resume(answers={id: value})`.

        The node is run again from its first line when the answer is there; what was done through `step` before is
        replayed. A `gate` asks without running any code twice.

        Args:
            name: unique within the node.
            question: what to show.
            schema: the type of the answer: any type that pydantic knows, such as `bool` or `Literal["yes", "no"]`.

        Returns:
            The answer, validated by the schema.
        """
        self._refuse_in_thread("ask")
        return await self._ask(name, question, schema)

    async def sleep(self, seconds: float) -> None:
        """Wait; the wake time is recorded, so a resumed run waits only for what is left."""
        self._refuse_in_thread("sleep")
        await self._sleep(seconds)

    # -- sync nodes --------------------------------------------------------------------------------------------------

    def step_sync(self, name: str, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """`step` for sync nodes."""
        self._refuse_on_loop("step_sync")
        return cast("R", self._port.wait(self._step(name, fn, args, kwargs)))

    def ask_sync(self, name: str, question: str, schema: Any = str) -> Any:
        """`ask` for sync nodes."""
        self._refuse_on_loop("ask_sync")
        return self._port.wait(self._ask(name, question, schema))

    def sleep_sync(self, seconds: float) -> None:
        """`sleep` for sync nodes."""
        self._refuse_on_loop("sleep_sync")
        self._port.wait(self._sleep(seconds))

    # -- both ----------------------------------------------------------------------------------------------------------

    def emit(self, name: str, data: Any = None) -> None:
        """Tell whoever watches the run something of your own; it comes as an event `Emitted`. Nothing is stored."""
        self._port.emit(name, data)

    def log(self, text: str) -> None:
        """Tell whoever watches the run a line of text: `emit("log", text)`."""
        self._port.emit("log", text)

    async def _step(self, name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        codec = codec_of(hints_of(fn).get("return", Any), ConfigDict())
        if codec.secret:
            self._port.hold_secret(f"the result of step `{name}`")
        called_with = _print_of(args, kwargs)
        known = self._port.recorded(f"step:{name}")
        if known is not None:
            if known["args"] != called_with:
                raise FlowAgentError(
                    f"task `{self.task_id}` used the step `{name}` before with other arguments: give each step of a "
                    "node its own name, or drop what was recorded with resume(retry={task: 'fresh'})"
                )
            return codec.decode(known["value"])
        result = fn(*args, **kwargs)
        if inspect.isawaitable(result):
            result = await result
        try:
            value, data = codec.through(result)
        except UnstorableError as error:
            raise UnstorableError(f"the result of step `{name}` {error}") from error
        await self._port.remember(f"step:{name}", {"args": called_with, "value": data.decode()})
        return value

    async def _ask(self, name: str, question: str, schema: Any) -> Any:
        data = await self._port.ask(name, question, schema)
        if data is None:
            raise Paused(name)
        return codec_of(schema, ConfigDict()).decode(unsealed(data))

    async def _sleep(self, seconds: float) -> None:
        self._sleeps += 1
        await self._port.sleep(f"sleep:{self._sleeps}", seconds)

    def _refuse_in_thread(self, method: str) -> None:
        if self._port.in_thread:
            raise FlowAgentError(f"a sync node called ctx.{method}; write ctx.{method}_sync, or make the node async")

    def _refuse_on_loop(self, method: str) -> None:
        if not self._port.in_thread:
            raise FlowAgentError(f"an async node called ctx.{method}; write await ctx.{method.removesuffix('_sync')}")


def _print_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """A fingerprint of arguments that is the same in every process."""
    data = to_json([args, kwargs], fallback=lambda value: f"<{type(value).__qualname__}>")
    return hashlib.blake2b(data, digest_size=12).hexdigest()
