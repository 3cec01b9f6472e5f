"""One attempt of one task: calls the user's function where it belongs, within its timeout, and says how it ended."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict

from flowagent.core import questions
from flowagent.core.accounts import Amounts
from flowagent.core.context import Context
from flowagent.core.events import Event, TaskStarted, Warned
from flowagent.core.facts import Question
from flowagent.core.fields import codec_of
from flowagent.core.loops import Inline
from flowagent.core.nodes import Function
from flowagent.core.port import FromThread, OutOfBounds, Port
from flowagent.core.scope import Task
from flowagent.core.secret import ENCRYPT
from flowagent.core.threads import in_thread
from flowagent.core.usage import Usage
from flowagent.errors import FlowAgentError, UnstorableError

if TYPE_CHECKING:
    from flowagent.core.engine import Engine

T = TypeVar("T")


@dataclass(slots=True)
class Outcome:
    """How an attempt ended.

    Attributes:
        task: whose attempt it was.
        seconds: how long it took.
        returned: what the function returned, if it did.
        error: what it raised, if it did.
        paused: whether it has asked something, so that whatever else it did does not count.
        stopped: the limit that did not let it go on, so that whatever else it did does not count; else "".
        view: the state that it was handed.
        again: whether it was no call but the wait before the next attempt of what the engine does itself.
    """

    task: Task
    seconds: float
    returned: Any = None
    error: BaseException | None = None
    paused: bool = False
    stopped: str = ""
    view: BaseModel | None = None
    again: bool = False


class NodeTimeoutError(FlowAgentError, TimeoutError):
    """Raised in place of a node that took longer than its `timeout=`."""


class Attempt:
    """The port through which one attempt's `Context` reaches the engine."""

    __slots__ = (
        "_engine",
        "_loop",
        "_sleeps",
        "_thread",
        "asked",
        "in_thread",
        "is_inline",
        "is_over",
        "stopped",
        "task",
    )

    def __init__(self, engine: Engine, task: Task, *, is_inline: bool, in_thread: bool) -> None:
        self._engine = engine
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._sleeps = 0
        self.task = task
        self.is_inline = is_inline
        self.in_thread = in_thread
        self.asked = False
        self.stopped = ""
        self.is_over = False

    def close(self, outcome: Outcome) -> None:
        """The call is over. Whatever it did with them, a question that it asked and a limit that it met count."""
        self.is_over = True
        outcome.paused, outcome.stopped = self.asked, self.stopped

    def _refuse_when_over(self) -> None:
        """A thread that outlived its timeout, or whatever else kept the context, has no part in what comes after."""
        if self.is_over:
            raise FlowAgentError(
                "this Context belongs to an attempt that is over, so nothing can be recorded or told through it any "
                "more: do not keep it beyond the call of the node"
            )

    def recorded(self, name: str) -> Any:
        """See `Port.recorded`."""
        self._refuse_when_over()
        return (self.task.memos or {}).get(name)

    @property
    def is_watched(self) -> bool:
        """See `Port.is_watched`."""
        return self._engine.teller.is_heard

    def hold_secret(self, what: str) -> None:
        """See `Port.hold_secret`."""
        if not self._engine.keeps_secrets:
            raise UnstorableError(f"{what} is secret, and the store of this run is not encrypted: {ENCRYPT}")

    async def remember(self, name: str, data: dict[str, Any]) -> None:
        """See `Port.remember`."""
        self._refuse_when_over()
        await self._engine.remember(self.task, name, data)

    async def begin_once(self, name: str, data: dict[str, Any]) -> None:
        """See `Port.begin_once`."""
        self._refuse_when_over()
        await self._engine.begin_once(self.task, name, data)

    async def ask(self, name: str, question: str, schema: Any, about: Any) -> bytes | None:
        """See `Port.ask`."""
        self._refuse_when_over()
        if (known := self.answer(name)) is not None:
            return known
        codec = codec_of(schema, ConfigDict())
        if codec.secret:
            self.hold_secret(f"the answer to `{name}`")
        await self._ask(
            Question(
                id=f"{self.task.id}?{name}",
                task=self.task.id,
                node=self.task.place.name,
                name=name,
                text=question,
                schema=codec.adapter.json_schema(),
                about=about,
            )
        )
        return None

    async def ask_what_became(self, name: str, what: str, schema: Any) -> None:
        """See `Port.ask_what_became`."""
        self._refuse_when_over()
        await self._ask(questions.once_question(self.task, what, step=name, schema=schema))

    def answer(self, name: str) -> bytes | None:
        """See `Port.answer`."""
        known = (self.task.answers or {}).get(name)
        return known.encode() if isinstance(known, str) else known

    async def _ask(self, question: Question) -> None:
        """From here on the attempt is waiting, whatever the node does."""
        if not self._engine.keeps_questions:
            raise FlowAgentError(
                f"the question `{question.name}` could never be answered, as no store was given that the run could be "
                "resumed from: pass store='runs.db', or an explicit MemoryStore()"
            )
        self.asked = True
        if question.id not in self._engine.machine.questions:
            await self._engine.ask(self.task, question)

    async def sleep(self, seconds: float) -> None:
        """See `Port.sleep`."""
        self._sleeps += 1
        name = f"sleep:{self._sleeps}"
        known = self.recorded(name)
        if known is None:
            known = {"until": self._engine.clock() + seconds}
            await self.remember(name, known)
        # Never longer than asked for, though the clock that the wake time was read from may have been days ahead.
        left = min(known["until"] - self._engine.clock(), seconds)
        if left <= 0:
            return
        if self.is_inline:
            time.sleep(left)  # noqa: ASYNC251  # on our own loop, where nothing else runs
        else:
            await asyncio.sleep(left)

    def emit(self, name: str, data: Any) -> None:
        """See `Port.emit`."""
        self._refuse_when_over()
        self._on_loop(lambda: self._engine.teller.emitted(self.task, name, data))

    def tell(self, kind: Callable[..., Event], facts: dict[str, Any]) -> None:
        """See `Port.tell`."""
        self._refuse_when_over()
        self._on_loop(lambda: self._engine.teller.of(kind, self.task, **facts))

    def _on_loop(self, work: Callable[[], None]) -> None:
        """Do something on the loop's thread: at once if this is it."""
        if threading.get_ident() == self._thread:
            work()
        else:
            self._loop.call_soon_threadsafe(work)

    def spend(self, usage: Usage) -> None:
        """See `Port.spend`."""
        self._refuse_when_over()
        if self._engine.purse.spend(self.task, usage):
            self.tell(
                Warned,
                {
                    "text": f"the limit of cost, ${self._engine.limits.cost}, is a lower bound from here on: "
                    "something was spent whose price nobody knows"
                },
            )

    def spent(self) -> Usage:
        """See `Port.spent`."""
        return self._engine.purse.spent_around(self.task)

    def reserve(self, asked: Amounts) -> None:
        """See `Port.reserve`."""
        self._refuse_when_over()
        refusal = self._engine.purse.reserve(self.task, asked)
        if refusal is not None:
            self.stopped = refusal
            raise OutOfBounds(refusal)

    def from_thread(self) -> Port:
        """See `Port.from_thread`."""
        return self if self.in_thread else FromThread(self, self.wait_from_thread)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """See `Port.wait`."""
        if self.is_over:
            work.close()
            self._refuse_when_over()
        if not self.is_inline:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result()
        # On the loop's own thread nothing can be waited for; but there the store commits without waiting.
        try:
            work.send(None)
        except StopIteration as stop:
            return stop.value
        work.close()
        raise FlowAgentError(
            f"node `{self.task.place.name}` is sync and called something async through its Context; make the node async"
        )

    def wait_from_thread(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something of the attempt of an async node to its end, from a thread that the node has started."""
        if self.is_over or threading.get_ident() == self._thread:
            work.close()
            self._refuse_when_over()
            raise FlowAgentError(
                "a Context made by in_thread() was used outside a thread: use the one it was made from"
            )
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


def function_of(task: Task) -> Function:
    """The user's function behind a task."""
    function = task.place.function
    assert function is not None, f"`{task.id}` has no function; this is a bug in flowagent"
    return function


def prepared(
    engine: Engine, task: Task, function: Function, item: Any, *, is_inline: bool
) -> tuple[tuple[Any, ...], BaseModel | None, Attempt | None]:
    """What to call the function with, the state that it is handed, and its port if it takes a context."""
    of_item = task.index is not None
    view: BaseModel | None = None
    if not of_item or function.takes_context:
        view = task.scope.handed(task.values)
    first = item if of_item else view
    if not function.takes_context:
        return (first,), (None if of_item else view), None
    attempt = Attempt(engine, task, is_inline=is_inline, in_thread=not function.is_async)
    context: Context[Any, Any] = Context(
        attempt,
        deps=engine.deps,
        state=view,
        run_id=engine.run_id,
        task_id=task.id,
        attempt=task.attempt,
        error=task.caught,
    )
    return (first, context), (None if of_item else view), attempt


def run_inline(engine: Engine, task: Task, item: Any) -> Outcome:
    """Call a sync function on the loop's own thread; only when nothing else could run there."""
    function = function_of(task)
    arguments, view, attempt = prepared(engine, task, function, item, is_inline=True)
    context = engine.teller.started(task, contextvars.copy_context())
    started = time.perf_counter()
    returned, error = call_inline(
        engine.inline, engine.is_interrupted, context, lambda given: function.call(*given), arguments
    )
    outcome = Outcome(task, time.perf_counter() - started, returned, error, view=view)
    if attempt is not None:
        attempt.close(outcome)
    return outcome


def call_inline(
    here: Inline,
    is_interrupted: Callable[[], bool],
    context: contextvars.Context,
    call: Callable[[Any], Any],
    given: Any,
) -> tuple[Any, BaseException | None]:
    """What a function gives or raises when it is called on the loop's own thread, in its own context."""
    before, here.running = here.running, True
    try:
        return context.run(call, given), None
    except KeyboardInterrupt as error:
        if is_interrupted():
            raise
        return None, error
    except BaseException as error:  # noqa: BLE001  # a node may raise anything; it becomes the task's failure
        return None, error
    finally:
        here.running = before


async def wait_again(task: Task, delay: float) -> Outcome:
    """Wait for the next attempt of a gate, or of what a graph is given or gives back."""
    await asyncio.sleep(delay)
    return Outcome(task, 0.0, again=True)


class _NoTimer:
    """Stands for a timer where there is no limit: asyncio's own costs as much as the rest of starting a call."""

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, *_: object) -> None:
        return None

    def expired(self) -> bool:
        return False


_NO_TIMER: Final = _NoTimer()


async def run_beside(engine: Engine, task: Task, item: Any, delay: float) -> Outcome:
    """Call a function as one of several things that go on: async ones on the loop, sync ones in a thread."""
    if delay > 0:
        await asyncio.sleep(delay)
    engine.teller.of(TaskStarted, task)  # in this attempt's own context variables
    function = function_of(task)
    arguments, view, attempt = prepared(engine, task, function, item, is_inline=False)
    started = time.perf_counter()
    node = task.place.node
    limit = None if node is None else node.options.timeout
    outcome = Outcome(task, 0.0, view=view)
    timer = _NO_TIMER if limit is None else asyncio.timeout(limit)
    try:
        async with timer:
            outcome.returned = await (function.call if function.is_async else _threaded(function.call))(*arguments)
    except TimeoutError as error:
        outcome.error = error
        if timer.expired():
            outcome.error = NodeTimeoutError(f"took longer than its timeout of {limit:g} s")
            outcome.error.__cause__ = error
            if not function.is_async:
                engine.teller.warning(
                    task, "outlived its timeout; its thread goes on, and what it returns is discarded"
                )
    except asyncio.CancelledError as error:
        if engine.is_calling_off(task):
            raise
        outcome.error = error  # the node raised it itself, which is a failure like any other
    except BaseException as error:  # noqa: BLE001  # a node may raise anything; it becomes the task's failure
        outcome.error = error
    finally:
        if attempt is not None:
            attempt.close(outcome)
    outcome.seconds = time.perf_counter() - started
    return outcome


def _threaded(call: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
    """A sync function as an async one, which runs in a thread."""

    async def threaded(*arguments: Any) -> Any:
        worked, value = await in_thread(lambda: call(*arguments))
        if not worked:
            raise value
        return value

    return threaded
