"""Makes a store with all of `graphs.RUNS` in it: `python -m tests.fuzz.making FILE [RUN ...]`.

Each run is made in a process of its own, for some of these are killed in the middle.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import apsw

from flowagent.core.loops import run_blocking
from flowagent.stores import SQLiteStore
from tests.fuzz.graphs import RUNS, make


def made(path: Path, names: Sequence[str] = ()) -> None:
    """Make a store in one file, with nothing beside it.

    Raises:
        RuntimeError: a process ended in another way than it should have.
    """
    # Those that nobody kills share a process.
    killed = [name for name in names or RUNS if RUNS[name].deadly]
    calm = [name for name in names or RUNS if not RUNS[name].deadly]
    for group in (calm, *([name] for name in killed)):
        if not group:
            continue
        command = [sys.executable, "-m", __spec__.name if __name__ == "__main__" else __name__, str(path), *group]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
        if done.returncode != (0 if group is calm else -signal.SIGKILL):
            raise RuntimeError(f"making {group} ended with {done.returncode}: {done.stderr}")
    _settle(path)


def _settle(path: Path) -> None:
    """Move the log into the file."""
    connection = apsw.Connection(str(path))
    connection.pragma("user_version")  # It knows of a log when it has read something.
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    connection.close()


def main(path: str, *names: str) -> None:
    """Make these runs in this process."""
    store = SQLiteStore(path)
    for name in names:
        make(name, store)
    run_blocking(store.close())


if __name__ == "__main__":
    main(*sys.argv[1:])
