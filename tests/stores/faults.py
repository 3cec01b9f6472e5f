"""A SQLite file layer that counts, holds up, or fails what reaches the disk."""

# ruff: noqa: N802 - the methods are called what SQLite calls them
from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import apsw

from tests.patience import PATIENCE

_names = itertools.count()


class Disk(apsw.VFS):
    """The system's file layer, seen through. Give its `name` as a store's `vfs`.

    Attributes:
        syncs: how often the write-ahead log was flushed.
        touches: how many writes, flushes and cuts there were, of any file.
        fault: called before each of them with its number and what it is; raises what the disk is to raise.
        open_gate: cleared, it makes the next flush of the log wait.
    """

    def __init__(self) -> None:
        self.name = f"disk-{next(_names)}"
        self.syncs = 0
        self.touches = 0
        self.fault: Callable[[int, str], None] = lambda number, what: None
        self.open_gate = threading.Event()
        self.open_gate.set()
        self.at_gate = threading.Event()
        super().__init__(self.name, "")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return _File(self, name, flags)

    def touch(self, what: str) -> None:
        self.touches += 1
        self.fault(self.touches, what)


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        self._is_log = bool(flags[0] & apsw.SQLITE_OPEN_WAL)
        super().__init__("", name, flags)

    def xWrite(self, data: Any, offset: int) -> None:
        self._disk.touch("write")
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:
        self._disk.touch("truncate")
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:
        self._disk.touch("sync")
        if self._is_log:
            self._disk.syncs += 1
            self._disk.at_gate.set()
            assert self._disk.open_gate.wait(PATIENCE), "nobody opened the gate"
        super().xSync(flags)
