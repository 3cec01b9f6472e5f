"""Kills a process at each write, flush and cut that it makes while a store file is made, and prints what then fails.

Run it by `python -m tests.kill.making`: it forks, and so must be the only thread of its process.
"""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

import apsw

from flowagent.core.loops import run_blocking
from flowagent.core.records import Record
from flowagent.errors import RunNotFound
from flowagent.stores import SQLiteStore

FIRST = [Record(0, "started", b"{}")]


class Deadly(apsw.VFS):
    """A file layer that ends the process at its n-th operation that changes something."""

    def __init__(self, left: int) -> None:
        self.left = left
        super().__init__("deadly", "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> Deadly.File:  # noqa: N802 - SQLite's name
        return Deadly.File(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        self.count()
        super().xDelete(filename, syncdir)

    def count(self) -> None:
        self.left -= 1
        if self.left < 0:
            os._exit(9)

    class File(apsw.VFSFile):
        def __init__(self, vfs: Deadly, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
            self._vfs = vfs
            super().__init__("", name, flags)

        def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
            self._vfs.count()
            super().xWrite(data, offset)

        def xSync(self, flags: int) -> None:  # noqa: N802
            self._vfs.count()
            super().xSync(flags)

        def xTruncate(self, newsize: int) -> None:  # noqa: N802
            self._vfs.count()
            super().xTruncate(newsize)


def in_child(work: Callable[[], object]) -> int:
    """The exit code of a child that does something."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc(file=sys.stdout)
            sys.stdout.flush()
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def make(path: Path, dies_at: int) -> None:
    """Make a store, or die while making it."""
    layer = Deadly(dies_at)
    run_blocking(SQLiteStore(path, vfs="deadly").create("r-1", "g", FIRST, blocking=True))
    assert layer.left >= 0


def use(path: Path) -> None:
    """Look into a store that somebody died over, then use it."""
    store = SQLiteStore(path)
    try:
        run_blocking(store.info("r-1"))
    except RunNotFound:
        run_blocking(store.create("r-1", "g", FIRST, blocking=True))
    run_blocking(store.create("r-2", "g", FIRST, blocking=True))
    assert run_blocking(store.read("r-2")) == FIRST
    connection = apsw.Connection(str(path))
    assert connection.pragma("integrity_check") == "ok"


def main() -> int:
    """Try each operation in turn, until one is never reached; 1 if anything failed."""
    failed = 0
    for dies_at in range(1000):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "runs.db"
            code = in_child(lambda path=path, dies_at=dies_at: make(path, dies_at))
            if in_child(lambda path=path: use(path)) != 0:
                failed += 1
                print(f"killed at operation {dies_at}, the store was of no use", flush=True)
        if code == 0:
            print(f"{dies_at} operations, {failed} failed")
            return 1 if failed or dies_at < 20 else 0
        assert code == 9, code
    return 1


if __name__ == "__main__":
    sys.exit(main())
