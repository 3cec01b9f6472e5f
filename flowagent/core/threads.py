"""Sync user code beside an event loop: daemon threads, reused while there is work.

`asyncio.to_thread` would keep a process alive until a hanging call returns; a daemon thread does not.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

_IDLE_SECONDS = 10.0


class _Workers:
    """Threads that wait a while for more work and then end."""

    def __init__(self) -> None:
        self._jobs: deque[Callable[[], None]] = deque()
        self._wake = threading.Condition()
        self._idle = 0

    def submit(self, job: Callable[[], None]) -> None:
        with self._wake:
            self._jobs.append(job)
            if self._idle >= len(self._jobs):
                self._wake.notify()
                return
        threading.Thread(target=self._work, name="flowagent-node", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._wake:
                while not self._jobs:
                    self._idle += 1
                    woken = self._wake.wait(_IDLE_SECONDS)
                    self._idle -= 1
                    if not woken and not self._jobs:
                        return
                job = self._jobs.popleft()
            job()


_workers = _Workers()


def _after_fork() -> None:  # pragma: no cover  # runs in the child of a fork, where nothing measures
    global _workers  # noqa: PLW0603  # threads do not survive a fork, so the child starts with none
    _workers = _Workers()


if hasattr(os, "register_at_fork"):  # pragma: no branch  # Windows has none
    os.register_at_fork(after_in_child=_after_fork)


def in_thread(call: Callable[[], Any]) -> asyncio.Future[tuple[bool, Any]]:
    """Run a call in a thread, with the caller's context variables.

    Returns:
        A future of (True, what it returned) or (False, the exception that it raised). A call that has not begun when
        the future is cancelled is not made; one that has is not stopped, and what it returns goes nowhere.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[tuple[bool, Any]] = loop.create_future()
    context = contextvars.copy_context()

    def deliver(outcome: tuple[bool, Any]) -> None:
        if not future.done():
            future.set_result(outcome)

    def job() -> None:
        if future.cancelled():
            return
        try:
            outcome = (True, context.run(call))
        except BaseException as error:  # noqa: BLE001  # whatever it is, it belongs to the caller
            outcome = (False, error)
        try:
            loop.call_soon_threadsafe(deliver, outcome)
        except RuntimeError:
            pass  # the loop is closed: nobody waits any more

    _workers.submit(job)
    return future
