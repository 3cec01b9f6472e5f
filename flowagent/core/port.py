"""What a `Context` needs of the engine, and how an attempt ends in its middle."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from flowagent.core.accounts import Amounts
from flowagent.core.usage import Usage

if TYPE_CHECKING:
    from flowagent.core.events import Event

T = TypeVar("T")


class Paused(BaseException):
    """Ends an attempt that has asked something. No `except Exception` of a node can swallow it."""


class OutOfBounds(BaseException):
    """Ends an attempt for which the limits leave no room. No `except Exception` of a node can swallow it."""


class Port(Protocol):
    """What a context needs of the engine, for one attempt of one task."""

    @property
    def is_watched(self) -> bool:
        """Whether anybody watches the run."""
        ...

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

    async def begin_once(self, name: str, data: dict[str, Any]) -> None:
        """Have it stored, at every durability, that something is begun that must not be done twice."""
        ...

    async def ask(self, name: str, question: str, schema: Any, about: Any) -> bytes | None:
        """The JSON of the answer; None when it is not there yet, and the question is now recorded."""
        ...

    async def ask_what_became(self, name: str, what: str, schema: Any) -> None:
        """Record the question about something that was begun and must not be done twice."""
        ...

    def answer(self, name: str) -> bytes | None:
        """The JSON of the answer to a question by its name, if there is one."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait until a wake time that is recorded."""
        ...

    def emit(self, name: str, data: Any) -> None:
        """Tell whoever watches the run."""
        ...

    def tell(self, kind: Callable[..., Event], facts: dict[str, Any]) -> None:
        """Tell whoever watches the run an event of this task."""
        ...

    def spend(self, usage: Usage) -> None:
        """Note what the attempt has spent."""
        ...

    def spent(self) -> Usage:
        """What the task's graph has spent so far."""
        ...

    def reserve(self, asked: Amounts) -> None:
        """Set something aside, or end the attempt with `OutOfBounds`."""
        ...

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run one of the async ones to its end from a sync node."""
        ...

    def from_thread(self) -> Port:
        """The same port for a thread that an async node has started."""
        ...


class FromThread(Port):
    """The port of an async node's attempt, for a thread that the node has started: all is the attempt's own.

    Args:
        port: the attempt's.
        wait: runs one of its async methods to its end from a thread.
    """

    def __init__(self, port: Port, wait: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self.recorded = port.recorded
        self.hold_secret = port.hold_secret
        self.remember = port.remember
        self.begin_once = port.begin_once
        self.ask = port.ask
        self.ask_what_became = port.ask_what_became
        self.answer = port.answer
        self.sleep = port.sleep
        self.emit = port.emit
        self.tell = port.tell
        self.spend = port.spend
        self.spent = port.spent
        self.reserve = port.reserve
        self._is_watched = port.is_watched
        self._wait = wait

    @property
    def is_watched(self) -> bool:
        """See `Port.is_watched`."""
        return self._is_watched

    @property
    def in_thread(self) -> bool:
        """It is what it is for."""
        return True

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """See `Port.wait`."""
        return self._wait(work)

    def from_thread(self) -> Port:
        """Itself: it is for threads already."""
        return self
