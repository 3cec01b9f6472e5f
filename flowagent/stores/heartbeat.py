"""The one thread of a process that keeps its leases alive, whatever its event loops are busy with."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from typing import Final, Protocol

_LOG: Final = logging.getLogger(__name__)


class Beating(Protocol):
    """What has leases to keep alive."""

    def beat(self) -> float | None:
        """Renew them. In how many seconds to ask again; None when there is nothing left to renew."""
        ...


class Heartbeat:
    """Calls `beat` on what it watches, in time; its thread is a daemon, started by the first thing to watch."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: dict[Beating, float] = {}
        self._thread: threading.Thread | None = None
        self._wakes_at = -math.inf

    def watch(self, beating: Beating, seconds: float) -> None:
        """Call `beating.beat()` in so many seconds, unless it is watched already."""
        with self._changed:
            if beating in self._due:
                return
            due = self._due[beating] = time.monotonic() + seconds
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="flowagent-heartbeat", daemon=True)
                self._thread.start()
            if due < self._wakes_at:  # To wake it for nothing would have it contend with whoever takes hold of a run.
                self._changed.notify()

    def _serve(self) -> None:
        while True:
            beating = self._next()
            seconds = _beat(beating)
            if seconds is not None:
                self.watch(beating, seconds)
            del beating  # While it waits, the thread keeps nothing alive that has no leases.

    def _next(self) -> Beating:
        """Wait until something is due. It is watched no more, so that a new lease can have it watched again."""
        with self._changed:
            while True:
                beating = min(self._due, key=self._due.__getitem__, default=None)
                due = math.inf if beating is None else self._due[beating]
                seconds = due - time.monotonic()
                if beating is not None and seconds <= 0:
                    del self._due[beating]
                    return beating
                self._wakes_at = due
                self._changed.wait(None if beating is None else seconds)
                self._wakes_at = -math.inf


def _beat(beating: Beating) -> float | None:
    try:
        return beating.beat()
    except Exception:  # noqa: BLE001 - logged, and asked again
        # The thread serves others too; it goes on, and says what it went through.
        _LOG.exception("a heartbeat failed")
        return 1.0


class _Process:
    """The heartbeat of this process: a child made by fork has no thread of its parent's, and starts its own."""

    def __init__(self) -> None:
        self.heartbeat = Heartbeat()

    def renew(self) -> None:
        self.heartbeat = Heartbeat()


_PROCESS: Final = _Process()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_PROCESS.renew)


def watch(beating: Beating, seconds: float) -> None:
    """Have this process's heartbeat call `beating.beat()` in so many seconds."""
    _PROCESS.heartbeat.watch(beating, seconds)
