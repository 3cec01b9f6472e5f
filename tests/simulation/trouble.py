"""What happens to a simulated process while it advances a run."""

from __future__ import annotations

import asyncio
import random
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass
from typing import Any, Literal

from tests.simulation.loop import Crash, SimulatedLoop

Kind = Literal["none", "cancel", "cancel twice", "cancel anywhere", "crash", "ask to cancel", "rival", "limit", "leave"]


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that happens.

    Args:
        kind: `cancel` and `cancel twice` cancel the call at one of its awaits, `cancel anywhere` at some callback of
            the loop; `crash` ends the process there; `ask to cancel` does so from another task; a `rival` advances the
            same run; `limit` gives it little time; `leave` leaves a stream early.
        at: at which await, callback or event, from 0.
        again: `cancel twice`: so many awaits later.
        after: `ask to cancel` and `rival`: in so many seconds.
    """

    kind: Kind = "none"
    at: int = 0
    again: int = 0
    after: float = 0.0


NOTHING = Trouble()


def drawn(chance: random.Random) -> Trouble:
    """Something that happens."""
    kinds: list[Kind] = ["none", "cancel", "cancel", "cancel twice", "cancel anywhere", "crash", "crash"]
    kinds += ("ask to cancel", "rival", "limit", "leave")
    kind = chance.choice(kinds)
    most = 400 if kind in ("crash", "cancel anywhere") else 60
    return Trouble(kind, chance.randrange(most), chance.randrange(8), chance.random() * 0.2)


def strike(trouble: Trouble, loop: SimulatedLoop, call: asyncio.Task[Any]) -> None:
    """Prepare for what happens at some callback of the loop."""

    def before_step(step: int) -> None:
        if step == trouble.at and trouble.kind == "crash":
            raise Crash
        if step == trouble.at and trouble.kind == "cancel anywhere":
            call.cancel()

    loop.before_step = before_step


def cancelled_at(trouble: Trouble, work: Coroutine[Any, Any, Any], log: list[int]) -> Awaitable[Any]:
    """Some work whose task is cancelled at an await of its own, if that is the trouble; `log` gets their number."""
    wanted = {trouble.at} if trouble.kind.startswith("cancel") and trouble.kind != "cancel anywhere" else set[int]()
    if trouble.kind == "cancel twice":
        wanted.add(trouble.at + 1 + trouble.again)

    def suspended() -> None:
        if len(log) in wanted:
            task = asyncio.current_task()
            assert task is not None, "only tasks await"
            task.cancel()
        log.append(1)

    return _counted(work, suspended)


@types.coroutine
def _counted(work: Coroutine[Any, Any, Any], suspended: Callable[[], None]) -> Generator[Any, Any, Any]:
    error: BaseException | None = None
    value: Any = None
    while True:
        try:
            awaited = work.send(value) if error is None else work.throw(error)
        except StopIteration as stop:
            return stop.value
        suspended()
        error = value = None
        try:
            value = yield awaited
        except GeneratorExit:
            work.close()
            raise
        except BaseException as raised:
            error = raised
