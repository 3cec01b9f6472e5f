"""The fast lane: plain sync functions of the state, called one after another while nothing could go on beside them.

Machine, journal and settling are the same as for every task. What falls away is what such a task cannot need: a
future, a thread, a `Context`, an item, a timeout.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import copy_context
from typing import Protocol

from flowagent.core.attempts import call_inline
from flowagent.core.machine import Machine
from flowagent.core.recorder import Recorder
from flowagent.core.scope import Task
from flowagent.core.settler import Settler
from flowagent.core.teller import Teller


class Port(Protocol):
    """What the lane needs of the engine."""

    teller: Teller
    is_interrupted: Callable[[], bool]
    has_executed: bool

    def may_start(self, task: Task) -> bool:
        """Whether a task may start now."""
        ...

    def fly(self, task: Task, delay: float) -> None:
        """Attempt a task (again) beside the loop, after a wait in seconds."""
        ...


class Lane:
    """Runs what needs no waiting for.

    Args:
        port: the engine.
        machine: the run's position.
        settler: takes what the functions give or raise.
        recorder: stores what was noted of a function before the next one is called.
    """

    def __init__(self, port: Port, machine: Machine, settler: Settler, recorder: Recorder) -> None:
        self._port = port
        self._machine = machine
        self._settler = settler
        self._recorder = recorder

    async def run(self, task: Task) -> None:
        """Run the only ready task, and what it leads to as long as that is the only one, too, and need not wait.

        A router is asked at once, so that one transaction stores its answer together with the node's update.
        """
        port, machine, settler, recorder = self._port, self._machine, self._settler, self._recorder
        ready, teller, clock, is_interrupted = machine.ready, port.teller, time.perf_counter, port.is_interrupted
        is_heard = teller.is_heard
        port.has_executed = True
        call = task.place.plain
        while call is not None:
            machine.take(task)
            context = teller.started(task) if is_heard else copy_context()
            view = task.scope.handed(task.values)
            started = clock()
            returned, error = call_inline(is_interrupted, context, call, view)
            seconds = clock() - started
            delay = settler.take(task, returned, view, seconds) if error is None else settler.fail(task, error, seconds)
            if task.status != "ready":  # else the machine has made it into the next one, which is alone as it was
                if delay is not None:
                    port.fly(task, delay)
                if len(ready) != 1 or machine.failing or ready[0].status != "ready":
                    return
                task = ready[0]
            place = task.place
            if not place.is_router:
                if recorder.is_ahead:
                    await recorder.flush()
                if not port.may_start(task):
                    return
            call = place.plain
