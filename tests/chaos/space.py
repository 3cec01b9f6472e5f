"""Disks that are really full: a limit on the size of files, and a small file system with something big on it.

A case is `NUMBER GRAPH WHERE`, and the room that is left is drawn, from less than an empty store takes to nearly
enough. `limit`: the process may not make files larger than that, which the system tells as another error than a full
disk. `disk`: a file system in memory of which a large file has left so much; it needs the right to mount. In both the
run must end by a `StoreError` that says what to do, or be done; when there is room again, the same process resumes it.
Where nothing may be mounted, the cases are limits alone.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import random
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Final

from tests.chaos.audit import Audit
from tests.chaos.campaign import Tally
from tests.chaos.processes import Worker
from tests.chaos.workers import Outcome, fill_disk, fill_limit
from tests.kill.graphs import SUBJECTS

SIZE: Final = 2 * 1024 * 1024


class NotHere(Exception):
    """Raised when no file system can be mounted; says why."""


REMEDIES: Final = ("free some space", "check the disk and its free space", "must be writable")


class Play:
    """Plays cases of this campaign."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def cases(self, rounds: int) -> Iterable[str]:
        """Limits and disks with each graph by turns."""
        ways = itertools.cycle(itertools.product(SUBJECTS, ("limit",) if why_not_mounted() else ("limit", "disk")))
        numbered = zip(range(rounds), ways, strict=False)
        return (f"{number} {subject} {where}" for number, (subject, where) in numbered)

    def play(self, case: str, folder: Path) -> Tally:
        """Run out of space, and go on when there is some."""
        _, subject, where = case.split()
        chance = random.Random(f"{self._seed} {case}")
        tally = Tally()
        with _place(folder, where) as place:
            room = int(4096 * chance.uniform(1, 60))
            work = fill_limit if where == "limit" else fill_disk
            with Worker(work, subject, place, folder / "effects", room) as worker:
                first: Outcome = worker.hear()
                # A copy is looked at: where there is no room, SQLite cannot even make the memory it shares.
                audit = Audit(subject, _copied(place, folder), folder / "effects", tally)
                status = audit.look("when there was no room").seen.status or "not stored"
                audit.path = place / "runs.db"
                worker.tell("there is room")
                second: Outcome = worker.hear()
            audit.look_at_end("at the end")
        tally.figures.update({"runs": 1, f"on a full {where}": first[0] == "StoreError", status: 1})
        if first[0] not in ("StoreError", "completed"):
            tally.faults.append(f"with {room} bytes left: {first}")
        if first[0] == "StoreError" and not any(remedy in first[1] for remedy in REMEDIES):
            tally.faults.append(f"the error does not say what to do: {first[1]}")
        if second[0] != "completed":
            tally.faults.append(f"with room again: {second}")
        return tally


@functools.cache
def why_not_mounted() -> str:
    """Why this process can make no file system in memory; empty when it can."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            with mounted(Path(folder)):
                return ""
        except NotHere as error:
            return str(error)


def _copied(place: Path, folder: Path) -> Path:
    copy = folder / "copy"
    copy.mkdir()
    for file in place.glob("runs.db*"):
        if not file.name.endswith("-shm"):
            shutil.copy(file, copy)
    return copy / "runs.db"


@contextlib.contextmanager
def mounted(at: Path) -> Generator[None]:
    """A small file system in memory.

    Raises:
        NotHere: it may not be mounted here.
    """
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(at)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise NotHere(f"there is no `mount`: {error}") from error
    if done.returncode:
        raise NotHere(f"nothing can be mounted: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", str(at)], check=True)


@contextlib.contextmanager
def _place(folder: Path, where: str) -> Generator[Path]:
    place = folder / "place"
    place.mkdir()
    with mounted(place) if where == "disk" else contextlib.nullcontext():
        yield place
