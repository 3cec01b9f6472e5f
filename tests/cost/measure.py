"""What one more step of a case costs: the counts of twice as many steps less those of as many, for each step."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final
from unittest import mock

from flowagent.core import lane
from flowagent.stores import SQLiteStore
from tests.cost.cases import Case
from tests.cost.counting import Ledger, calls_counted, statements_traced


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Counts for one step (of a loop, a line; an item of a map; a branch of a fork).

    A lap of a loop is a node and a router, so a step of it is both.

    Attributes:
        own: calls of flowagent's functions.
        python: calls of functions written in Python: flowagent's, the node's, asyncio's.
        native: calls of functions written in C.
        statements: SQL statements, `BEGIN` and `COMMIT` included.
        syncs: flushes of the disk.
        stored: bytes by which the closed file is larger.
        written: bytes that went to the disk, most of them pages of the log.
    """

    own: float
    python: float
    native: float
    statements: float = 0.0
    syncs: float = 0.0
    stored: float = 0.0
    written: float = 0.0


COUNTS: Final = tuple(field.name for field in fields(Cost))


def cost_of(case: Case, folder: Path) -> Cost:
    """The cost of one step; `folder` is empty."""
    _with_store(case, folder / "warm", 10)  # what is loaded, compiled and cached at first use is no cost of a step
    with mock.patch.object(lane, "LONGEST_TURN", math.inf):  # turns of others depend on the clock
        few, many = (_counts(case, folder, n) for n in (case.n, 2 * case.n))
    return Cost(**{name: (many[name] - few[name]) / case.n for name in few})


def _counts(case: Case, folder: Path, n: int) -> dict[str, float]:
    """Counted in passes: what counts one thing must not be counted as another."""
    if not case.stored:
        case.work(n, None)  # its graph, if it has one of its own, is made now
        with calls_counted() as calls:
            case.work(n, None)
        return {"own": calls.own, "python": calls.python, "native": calls.native}
    ledger = Ledger()
    path = _with_store(case, folder / f"{n}-disk", n, vfs=ledger.name)
    with statements_traced() as statements:
        _with_store(case, folder / f"{n}-statements", n)
    with calls_counted() as calls:
        _with_store(case, folder / f"{n}-calls", n)
    return {
        "own": calls.own,
        "python": calls.python,
        "native": calls.native,
        "statements": len(statements),
        "syncs": ledger.syncs,
        "stored": path.stat().st_size,
        "written": ledger.written,
    }


def _with_store(case: Case, folder: Path, n: int, vfs: str | None = None) -> Path:
    folder.mkdir(parents=True)
    path = folder / "runs.db"
    if not case.stored:
        case.work(n, None)
        return path
    store = SQLiteStore(path, vfs=vfs)
    case.work(n, store)
    asyncio.run(store.close())
    return path
