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
from tests.kill.points import EXIT_CODE, Files

FIRST = [Record(0, "started", b"{}")]


class Countdown:
    """Ends the process at its n-th operation that changes a file."""

    def __init__(self, left: int) -> None:
        self.left = left

    def reach(self, _: str) -> None:
        """One of them is about to be done."""
        self.left -= 1
        if self.left < 0:
            os._exit(EXIT_CODE)


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
    countdown = Countdown(dies_at)
    layer = Files("deadly", countdown.reach)
    run_blocking(SQLiteStore(path, vfs="deadly").create("r-1", "g", FIRST, blocking=True))
    assert countdown.left >= 0
    del layer


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
        assert code == EXIT_CODE, code
    return 1


if __name__ == "__main__":
    sys.exit(main())
