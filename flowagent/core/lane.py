"""The fast lane: functions of the state alone, called one after another while nothing could go on beside them.

Machine, journal and settling are the same as for every task. What falls away is what such a task cannot need: a
thread, a task of the event loop, a `Context`, an item, a timeout.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Callable
from typing import Final, Protocol

from flowagent.core.attempts import Outcome, call_inline
from flowagent.core.foreground import Waiting
from flowagent.core.loops import Inline, variables_beside
from flowagent.core.machine import Machine
from flowagent.core.recorder import Recorder
from flowagent.core.scope import Task
from flowagent.core.settler import Settler
from flowagent.core.teller import Teller
from flowagent.core.topology import Place

LONGEST_TURN: Final = 0.005
"""How long calls that wait for nothing may hold the loop before others of it have their turn, in seconds."""


class Port(Protocol):
    """What the lane needs of the engine."""

    teller: Teller
    inline: Inline
    is_interrupted: Callable[[], bool]
    has_executed: bool

    def may_start(self, task: Task) -> bool:
        """Whether a task may start now."""
        ...

    def after(self, task: Task, delay: float) -> None:
        """A task was settled; `delay` is the wait before its next attempt."""
        ...

    async def wait_here(self, waiting: Waiting, context: contextvars.Context, outcome: Outcome) -> bool:
        """Await the rest of a call that goes on alone; whether it ended, and was not called off and put back."""
        ...


class Lane:
    """Calls what needs neither a thread nor a task of its own.

    Args:
        port: the engine.
        machine: the run's position.
        settler: takes what the functions give or raise.
        recorder: stores what was noted of a function before the next one is called.
        own_loop: whether the loop is ours, so that sync functions may hold it.
    """

    def __init__(self, port: Port, machine: Machine, settler: Settler, recorder: Recorder, *, own_loop: bool) -> None:
        self._port = port
        self._machine = machine
        self._settler = settler
        self._recorder = recorder
        self._own_loop = own_loop

    def takes(self, place: Place) -> bool:
        """Whether a node's function may be called here."""
        return place.plain is not None and (place.is_async or self._own_loop)

    async def run(self, task: Task) -> None:
        """Run the only ready task, and what it leads to as long as that is the only one, too, and may be called here.

        A router is asked at once, so that one transaction stores its answer together with the node's update.
        """
        port, machine, settler, recorder = self._port, self._machine, self._settler, self._recorder
        teller, clock, is_interrupted, takes_sync = port.teller, time.perf_counter, port.is_interrupted, self._own_loop
        is_heard, here, place, variables = teller.is_heard, port.inline, task.place, variables_beside()
        port.has_executed = True
        turn = clock()
        while (call := place.plain) is not None and (takes_sync or place.is_async):
            machine.take(task)
            context = teller.started(task, variables) if is_heard else variables.copy()
            view = task.scope.handed(task.values)
            started = clock()
            returned, error = call_inline(here, is_interrupted, context, call, view)
            if type(returned) is Waiting:
                outcome = Outcome(task, 0.0, view=view)
                if not await port.wait_here(returned, context, outcome):
                    return
                returned, error = outcome.returned, outcome.error
            now = clock()
            seconds = now - started
            delay = settler.take(task, returned, view, seconds) if error is None else settler.fail(task, error, seconds)
            if task.status != "ready":  # else the machine has made it into the next one, which is alone as it was
                following = self._following(task, delay)
                if following is None:
                    return
                task = following
            place = task.place
            if place.is_router:
                continue
            if recorder.is_ahead:
                await recorder.flush()
            if now - turn > LONGEST_TURN:
                await asyncio.sleep(0)
                turn = clock()
            if not port.may_start(task):
                return

    def _following(self, task: Task, delay: float | None) -> Task | None:
        """The only task that may start after one that did not become the next by itself, if there is just one."""
        machine = self._machine
        if delay is not None:
            self._port.after(task, delay)
            return None
        if len(machine.ready) != 1 or machine.failing or machine.ready[0].status != "ready":
            return None
        return machine.ready[0]
