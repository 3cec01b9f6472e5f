"""The one door between sync callers and the async engine: scripts, threads, and notebooks with a running loop."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import signal
import socket
import threading
from collections.abc import Callable, Coroutine, Generator
from types import FrameType
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Flag(Protocol):
    """Something that is set once: a `threading.Event`, or an `asyncio.Event` where one loop is enough."""

    def is_set(self) -> bool:
        """Whether it has been set."""
        ...


own_loop: contextvars.ContextVar[bool] = contextvars.ContextVar("flowagent_own_loop", default=False)
"""Whether the running loop is ours and runs nothing else, so that blocking it blocks nobody."""

interrupted: contextvars.ContextVar[Flag | None] = contextvars.ContextVar("flowagent_interrupted", default=None)
"""Set when Ctrl-C stopped the call, to tell that from a cancellation."""


def variables_beside() -> contextvars.Context:
    """A copy of the context variables, for a call that shares the loop with whatever else goes on there."""
    variables = contextvars.copy_context()
    variables.run(own_loop.set, False)  # so a graph that the call runs must not block it
    return variables


def run_blocking(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end from sync code.

    In a thread without a running loop it gets a loop of its own; where a loop is running already (a notebook, a
    server), it runs on a thread of ours, and this one waits.

    Raises:
        KeyboardInterrupt: Ctrl-C, after the coroutine has cleaned up.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _on_own_loop(work)
    context = contextvars.copy_context()
    outcome: list[tuple[bool, Any]] = []

    def body() -> None:
        try:
            outcome.append((True, context.run(_on_own_loop, work)))
        except BaseException as error:  # noqa: BLE001  # raised again where it belongs
            outcome.append((False, error))

    thread = threading.Thread(target=body, name="flowagent-loop", daemon=True)
    thread.start()
    thread.join()
    worked, value = outcome[0]
    if not worked:
        raise value
    return value


def _on_own_loop(work: Coroutine[Any, Any, T]) -> T:
    context = contextvars.copy_context()
    stop = threading.Event()
    context.run(own_loop.set, True)
    context.run(interrupted.set, stop)
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        task = loop.create_task(work, context=context)
        with _ctrl_c(lambda: (stop.set(), loop.call_soon_threadsafe(task.cancel))), woken_by_ctrl_c(loop):
            try:
                # Not Runner.run: its handler for Ctrl-C cannot be told from somebody's cancel().
                value = loop.run_until_complete(task)
            except asyncio.CancelledError:
                if stop.is_set():
                    raise KeyboardInterrupt from None
                raise
            if stop.is_set():  # and it came to its end all the same, before anything could see that
                raise KeyboardInterrupt
            return value


@contextlib.contextmanager
def woken_by_ctrl_c(loop: asyncio.AbstractEventLoop) -> Generator[None]:
    """Let Ctrl-C wake a waiting loop of the main thread; what it does stays with the handler that is set.

    A handler of Python's runs when the interpreter does. One whose signal comes in the moment before the loop begins
    to wait is not run until something else wakes the loop, which may be never; so the signal itself writes to a pair
    of sockets that the loop waits for. (`loop.add_signal_handler` does as much, and takes ten times as long.)
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # which gets no signals
        return
    woken, waking = socket.socketpair()
    with woken, waking:
        woken.setblocking(False)
        waking.setblocking(False)
        try:
            loop.add_reader(woken, woken.recv, 4096)
        except NotImplementedError:
            yield  # a loop of Windows, which has such a pair of its own
            return
        before = signal.set_wakeup_fd(waking.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            loop.remove_reader(woken)


class _ctrl_c:  # noqa: N801  # reads as a statement
    """Calls `on_signal` at the first Ctrl-C; the second is left to Python. Only the main thread has signals."""

    def __init__(self, on_signal: Callable[[], object]) -> None:
        self._on_signal = on_signal
        self._active = (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        )

    def __enter__(self) -> None:
        if self._active:
            signal.signal(signal.SIGINT, self._handle)

    def __exit__(self, *exc: object) -> None:
        if self._active:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self._on_signal()
        if inline.running:
            # A sync node holds the loop: nothing would see the cancellation before it returns by itself.
            raise KeyboardInterrupt


class Inline:
    """Whether a function runs on the loop's own thread just now."""

    __slots__ = ("running",)

    def __init__(self) -> None:
        self.running = False


inline = Inline()
"""Of the main thread, which alone has signals."""


def inline_here() -> Inline:
    """That of this thread: a node may run a graph on another one, which must not say that it is over itself."""
    return inline if threading.current_thread() is threading.main_thread() else Inline()
