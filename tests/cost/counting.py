"""Counters of what a piece of work does: calls, SQL statements, flushes, bytes. None depends on how fast it goes."""

# pyright: reportUnknownMemberType=false
# (apsw's stubs name `collections.abc.Buffer`, which Python 3.11 does not have.)
from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final, TypeVar

import apsw

import flowagent
from tests.chaos.layer import Layer, Operation

T = TypeVar("T")

PACKAGE: Final = f"{Path(flowagent.__file__).parent}/"


class Calls:
    """Calls of functions, by the thread that counts and by those that it starts meanwhile.

    Attributes:
        own: functions of flowagent; a generator or coroutine counts each time it goes on.
        python: functions written in Python, whoever wrote them, flowagent's included.
        native: functions written in C that Python code called.
    """

    def __init__(self) -> None:
        self.own = 0
        self.python = 0
        self.native = 0

    def note(self, frame: FrameType, event: str, argument: Any) -> None:
        """What the interpreter tells of each call."""
        if event == "call":
            self.python += 1
            if frame.f_code.co_filename.startswith(PACKAGE):
                self.own += 1
        elif event == "c_call":
            self.native += 1


@contextmanager
def calls_counted() -> Generator[Calls]:
    """Count calls. The collector rests: when it runs, and whose finalizers it calls, is no property of the work."""
    calls = Calls()
    gc.collect()
    gc.disable()
    threading.setprofile(calls.note)
    sys.setprofile(calls.note)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        gc.enable()


@contextmanager
def statements_traced() -> Generator[list[str]]:
    """Collect the SQL statements of all connections that are opened meanwhile, in the order in which they began."""
    seen = list[str]()

    def note(event: Any) -> None:
        seen.append(event["sql"])

    def listen(connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_STMT, note)

    apsw.connection_hooks.append(listen)
    try:
        yield seen
    finally:
        apsw.connection_hooks.remove(listen)


class Ledger(Layer):
    """A file layer that counts what goes to the disk.

    Attributes:
        syncs: flushes (fdatasync) of the database and of its log.
        written: bytes of all writes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.syncs = 0
        self.written = 0

    def do(self, operation: Operation, go: Callable[..., T]) -> T:
        self.syncs += operation.kind == "sync"
        if operation.kind == "write":
            self.written += len(operation.data)
        return go()
