"""Moments at which a process can be made to end: each operation of its store, its files, its nodes and its engine.

They are counted as they are reached; at the one that was asked for the process ends itself, by SIGKILL or by
`os._exit`, so that nothing of it is run any more.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Generator, Sequence
from types import ModuleType
from typing import Any, Final, Literal

import apsw
from pydantic import BaseModel

from flowagent.core import journal, recorder
from flowagent.core.records import Past, Record, RunInfo, Snapshot, Status
from flowagent.stores import SQLiteStore, Store
from flowagent.stores.base import Lease

EXIT_CODE: Final = 9
LAYER: Final = "points"
"""The name of the SQLite file layer whose operations are points."""

_WRITES: Final = frozenset({"BEGIN", "INSERT", "UPDATE", "DELETE", "REPLACE", "WITH", "CREATE", "COMMIT"})
_ENCODERS: Final = ("started", "done_json", "item", "opened", "failed", "asked", "answered", "resolved", "plain")


class Cut(BaseModel):
    """Where a process ends itself.

    Args:
        at: the number of the point, from 0; one below 0 is never reached, and the points are only counted.
        among: `commits` are the moments right before and right after each commit of SQLite's; `all` are those of the
            store, its statements and its file, of nodes, and of what is encoded.
        by: how it ends.
    """

    at: int
    among: Literal["commits", "all"]
    by: Literal["kill", "exit"] = "exit"


class Points:
    """Counts what is reached, and ends the process there.

    Args:
        cut: where.

    Attributes:
        passed: the names of the points that were reached.
    """

    def __init__(self, cut: Cut) -> None:
        self._cut = cut
        self._lock = threading.Lock()
        self.passed: list[str] = []

    def reach(self, name: str) -> None:
        """Something is about to happen, or has just happened."""
        with self._lock:
            if len(self.passed) == self._cut.at:
                self._end()
            self.passed.append(name)

    def _end(self) -> None:
        if self._cut.by == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
            signal.pause()
        os._exit(EXIT_CODE)

    @contextlib.contextmanager
    def installed(self) -> Generator[None]:
        """Have the process's SQLite connections (and with `all` its encoding) counted."""
        traced = _Traced(self.reach, commits_only=self._cut.among == "commits")
        apsw.connection_hooks.append(traced.watch)
        try:
            if self._cut.among == "commits":
                yield
                return
            layer = Files(LAYER, self.reach)
            with contextlib.ExitStack() as stack:
                for name in _ENCODERS:
                    stack.enter_context(_reached(journal, name, f"encode {name}", self.reach))
                stack.enter_context(_reached(recorder, "export", "encode snapshot", self.reach))
                yield
            del layer
        finally:
            apsw.connection_hooks.remove(traced.watch)

    def store(self, path: str) -> Store:
        """The store to use."""
        if self._cut.among == "commits":
            return SQLiteStore(path)
        return Reached(SQLiteStore(path, vfs=LAYER), self.reach)


@contextlib.contextmanager
def _reached(module: ModuleType, name: str, point: str, reach: Callable[[str], None]) -> Generator[None]:
    """A function of a module that is a point before it does its work."""
    function = getattr(module, name)

    def pointed(*arguments: Any, **options: Any) -> Any:
        reach(point)
        return function(*arguments, **options)

    setattr(module, name, pointed)
    try:
        yield
    finally:
        setattr(module, name, function)


class _Traced:
    """The statements of SQLite connections that write."""

    def __init__(self, reach: Callable[[str], None], *, commits_only: bool) -> None:
        self._reach = reach
        self._commits_only = commits_only

    def watch(self, connection: apsw.Connection) -> None:
        def trace(event: dict[str, Any]) -> None:
            word = event["sql"].split(maxsplit=1)[0].upper()
            alone = word not in ("BEGIN", "COMMIT") and not connection.in_transaction
            if word not in _WRITES or (self._commits_only and not (word == "COMMIT" or alone)):
                return
            self._reach(f"{'before' if event['code'] == apsw.SQLITE_TRACE_STMT else 'after'} {word}")

        connection.trace_v2(apsw.SQLITE_TRACE_STMT | apsw.SQLITE_TRACE_PROFILE, trace)


class Files(apsw.VFS):
    """A file layer of SQLite whose operations that change something are points.

    Args:
        name: what it is registered as.
        reach: is told before each operation.
    """

    def __init__(self, name: str, reach: Callable[[str], None]) -> None:
        self.reach = reach
        super().__init__(name, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> Files.File:  # noqa: N802 - SQLite's name
        return Files.File(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        self.reach("file delete")
        super().xDelete(filename, syncdir)

    class File(apsw.VFSFile):
        def __init__(self, vfs: Files, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
            self._vfs = vfs
            super().__init__("", name, flags)

        def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
            self._vfs.reach("file write")
            super().xWrite(data, offset)

        def xSync(self, flags: int) -> None:  # noqa: N802
            self._vfs.reach("file sync")
            super().xSync(flags)

        def xTruncate(self, newsize: int) -> None:  # noqa: N802
            self._vfs.reach("file truncate")
            super().xTruncate(newsize)


class Reached(Store):
    """A store whose operations are points, before and after.

    Args:
        inner: the store that does the work.
        reach: is told.
    """

    def __init__(self, inner: Store, reach: Callable[[str], None]) -> None:
        self._inner = inner
        self._reach = reach

    @property
    def name(self) -> str:
        return self._inner.name

    async def create(self, run_id: str, graph: str, records: Sequence[Record], **options: Any) -> Lease:
        self._reach("before create")
        lease = await self._inner.create(run_id, graph, records, **options)
        self._reach("after create")
        return lease

    async def claim(self, run_id: str, *, blocking: bool = False) -> Lease:
        self._reach("before claim")
        lease = await self._inner.claim(run_id, blocking=blocking)
        self._reach("after claim")
        return lease

    async def resume(self, run_id: str, *, blocking: bool = False) -> tuple[Lease | None, Past]:
        self._reach("before resume")
        resumed = await self._inner.resume(run_id, blocking=blocking)
        self._reach("after resume")
        return resumed

    async def append(
        self,
        lease: Lease,
        records: Sequence[Record],
        *,
        status: Status | None = None,
        snapshot: Snapshot | None = None,
        durable: bool = True,
    ) -> None:
        self._reach("before append")
        await self._inner.append(lease, records, status=status, snapshot=snapshot, durable=durable)
        self._reach("after append")

    async def release(self, lease: Lease) -> None:
        self._reach("before release")
        await self._inner.release(lease)
        self._reach("after release")

    async def info(self, run_id: str) -> RunInfo:
        return await self._inner.info(run_id)

    async def past(self, run_id: str) -> Past:
        self._reach("before past")
        return await self._inner.past(run_id)

    async def read(self, run_id: str, *, after: int = -1, upto: int | None = None) -> list[Record]:
        self._reach("before read")
        return await self._inner.read(run_id, after=after, upto=upto)

    async def snapshot(self, run_id: str) -> Snapshot | None:
        return await self._inner.snapshot(run_id)

    async def runs(
        self, *, graph: str | None = None, statuses: Sequence[Status] = (), limit: int | None = None
    ) -> list[RunInfo]:
        return await self._inner.runs(graph=graph, statuses=statuses, limit=limit)

    async def request_cancel(self, run_id: str) -> bool:
        return await self._inner.request_cancel(run_id)

    async def delete(self, run_id: str) -> None:
        await self._inner.delete(run_id)

    async def close(self) -> None:
        await self._inner.close()
