"""Stores as released versions wrote them, and what must come of each run in them.

    python -m tests.fuzz.golden          makes the stores of the present format, if they are not there
    python -m tests.fuzz.golden again    makes them anew: only while no version with that format is released

`golden/<format>/` holds a store (`runs.db.gz`) and what was read from it when it was made (`expected.json`). The graphs
are in `graphs.py`. When the format of stores changes, what is there stays, and must go on to be read.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, cast

import apsw

from flowagent import Run
from flowagent.core.loops import run_blocking
from flowagent.stores import SQLiteStore, sqlite_schema, sqlite_snapshots
from tests.fuzz.facts import Facts, facts_of, history_of, plain
from tests.fuzz.graphs import GRAPHS, PADDING, RUNS, World, finish
from tests.fuzz.making import made

FOLDER: Final = Path(__file__).parent / "golden"
_STORE: Final = "runs.db.gz"
_EXPECTED: Final = "expected.json"


def formats() -> list[Path]:
    """The folders of all formats, the oldest first."""
    return sorted((one for one in FOLDER.iterdir() if one.is_dir()), key=lambda one: int(one.name))


def unpacked(folder: Path, target: Path) -> Path:
    """A copy of a format's store."""
    target.write_bytes(gzip.decompress((folder / _STORE).read_bytes()))
    return target


def expected(folder: Path) -> dict[str, Facts]:
    """What must come of each run of a format's store."""
    text = (folder / _EXPECTED).read_text(encoding="utf-8").replace("(padding)", PADDING)
    return cast("dict[str, Facts]", json.loads(text))


def read(path: Path, name: str) -> Facts:
    """What comes of a run: as it stands, and when it was brought to its end."""
    store, world = SQLiteStore(path), World()
    before = _told(GRAPHS[RUNS[name].graph].load_sync(name, store=store))
    run = finish(name, store, world)
    run_blocking(store.close())
    return {"before": before, "calls": sorted(world.calls), "after": _told(run)}


def shape(path: Path) -> Facts:
    """How a store is written: its tables and indexes, and by kind the names in the JSON of its records."""
    names: dict[str, set[str]] = {}
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        tables = [str(sql) for (sql,) in connection.execute("SELECT sql FROM sqlite_schema WHERE sql <> '' ORDER BY 1")]
        question = "SELECT kind, data FROM records UNION ALL SELECT 'snapshot', data FROM snapshots"
        for kind, data in connection.execute(question):
            names.setdefault(str(kind), set()).update(json.loads(sqlite_snapshots.unpacked(cast("bytes", data))))
    return {"tables": tables, "records": {kind: sorted(known) for kind, known in names.items()}}


def _told(run: Run[Any]) -> Facts:
    """State, history and picture: what it shows, not how it looks."""
    picture = _lean(plain(asdict(run.draw(times=False)._picture)))
    return facts_of(run) | history_of(run) | {"picture": picture}


def _lean(facts: Any) -> Any:
    """Without what is empty, so that what a later version adds does not count where it does not happen."""
    if isinstance(facts, dict):
        return {name: _lean(value) for name, value in facts.items() if value not in (None, "", [], {}, False)}
    return [_lean(one) for one in facts] if isinstance(facts, list) else facts


def make(folder: Path) -> None:
    """Make the store of the present format, and note what comes of it."""
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "runs.db"
        made(path)
        (folder / _STORE).write_bytes(gzip.compress(path.read_bytes(), mtime=0))
        told = {name: read(path, name) for name in RUNS}
    lines = [f"{json.dumps(name)}: {json.dumps(facts, ensure_ascii=False)}" for name, facts in told.items()]
    text = "{\n" + ",\n".join(lines).replace(PADDING, "(padding)") + "\n}\n"
    (folder / _EXPECTED).write_text(text, encoding="utf-8")


def main(*words: str) -> None:
    """Make what is not there."""
    folder = FOLDER / str(sqlite_schema.newest())
    if "again" in words:
        shutil.rmtree(folder, ignore_errors=True)
    make(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
