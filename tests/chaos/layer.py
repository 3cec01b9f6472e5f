"""A SQLite file layer that lets every operation on a file be looked at, changed or refused."""

# ruff: noqa: N802 - the methods are called what SQLite calls them
from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import apsw

T = TypeVar("T")

Kind = Literal["open", "delete", "read", "write", "truncate", "sync", "lock", "size"]

_numbers = itertools.count()


class Operation(NamedTuple):
    """One operation: `at` is the offset of a write or read, the size of a cut, the level of a lock."""

    kind: Kind
    path: str
    at: int = 0
    data: bytes = b""

    @property
    def file(self) -> str:
        """What SQLite keeps in that file."""
        suffix = Path(self.path).name.rpartition("-")[2]
        return suffix if suffix in ("wal", "journal", "shm") else "database"


class Layer(apsw.VFS):
    """The system's file layer, seen through. Give its `name` as a store's `vfs`; override `do`.

    What SQLite does in shared memory (locks and the index of the log) does not come by here.
    """

    def __init__(self) -> None:
        self.name = f"layer-{next(_numbers)}"
        super().__init__(self.name, "")

    def do(self, operation: Operation, go: Callable[..., T]) -> T:
        """Have an operation done by calling `go`; that of a write takes other bytes. Called on any thread."""
        return go()

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        return self.do(Operation("open", path), lambda: _File(self, path, name, flags))

    def xDelete(self, filename: str, syncdir: bool) -> None:
        go = super().xDelete
        self.do(Operation("delete", filename, int(syncdir)), lambda: go(filename, syncdir))

    def excepthook(self, etype: Any, evalue: Any, etraceback: Any) -> bool:
        return _unless_injected(etype, evalue, etraceback)


def _unless_injected(kind: Any, error: Any, trace: Any) -> bool:
    """Called for errors that SQLite has no use for, as it was cleaning up: those of ours are no surprise."""
    if not isinstance(error, apsw.Error):
        sys.excepthook(kind, error, trace)
    return True


class _File(apsw.VFSFile):
    def __init__(self, layer: Layer, path: str, name: Any, flags: list[int]) -> None:
        self._layer = layer
        self._path = path
        super().__init__("", name, flags)

    def excepthook(self, etype: Any, evalue: Any, etraceback: Any) -> bool:
        return _unless_injected(etype, evalue, etraceback)

    def xRead(self, amount: int, offset: int) -> bytes:
        go = super().xRead
        return self._layer.do(Operation("read", self._path, offset), lambda: go(amount, offset))

    def xWrite(self, data: Any, offset: int) -> None:
        go = super().xWrite
        given = bytes(data)

        def write(part: bytes = given) -> None:
            go(part, offset)

        self._layer.do(Operation("write", self._path, offset, given), write)

    def xTruncate(self, newsize: int) -> None:
        go = super().xTruncate
        self._layer.do(Operation("truncate", self._path, newsize), lambda: go(newsize))

    def xSync(self, flags: int) -> None:
        go = super().xSync
        self._layer.do(Operation("sync", self._path), lambda: go(flags))

    def xLock(self, level: int) -> None:
        go = super().xLock
        self._layer.do(Operation("lock", self._path, level), lambda: go(level))

    def xFileSize(self) -> int:
        go = super().xFileSize
        return self._layer.do(Operation("size", self._path), go)
