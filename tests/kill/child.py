"""The processes that are killed, and how what they leave behind is read.

One warm process forks a child for each job, so that a kill costs no import. `Nursery` is its parent's end: jobs and
replies are lines of JSON. The forking process keeps to one thread and opens no store, as neither would survive a fork.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import gc
import importlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self

import apsw
from pydantic import BaseModel

from flowagent import Run
from flowagent.core.loops import run_blocking
from flowagent.errors import RunNotFound
from flowagent.stores import SQLiteStore, Store
from tests.kill.effects import LONGEST_PAUSE, Effects, Subject
from tests.kill.graphs import SUBJECTS
from tests.kill.points import EXIT_CODE, Cut, Points
from tests.kill.sealing import sealed

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
"""After so many seconds a job is said to hang. Much, as the machine may be busy with other things."""

How = Literal["run_sync", "run", "stream", "resume_sync", "resume", "stream_resume"]


class Advance(BaseModel):
    """Start or resume a run, answer what it asks, and go on until it is over or this process is killed.

    Args:
        subject: the graph, by its name in `SUBJECTS`.
        store: the database file.
        run_id: the run.
        how: the verb.
        effects: the file that the nodes write to.
        seed: decides how long the nodes pause.
        durability: what is stored when.
        kill_after: seconds until the process is killed, if it is to be killed from outside.
        cut: where it ends itself, if it is to do that.
        keys: what the store is encrypted with, the newest first; none if it is not.
    """

    subject: str
    store: Path
    run_id: str
    how: How
    effects: Path
    seed: str
    durability: Literal["step", "fast", "exit"] = "step"
    kill_after: float | None = None
    cut: Cut | None = None
    keys: list[str] = []


class Advanced(BaseModel):
    """How an `Advance` ended that was not killed; `passed` are the points that it came by, if they were counted."""

    status: str
    replayed: bool
    passed: list[str] = []


class Seen(BaseModel):
    """What was found of a run in a store.

    Args:
        integrity: what SQLite says of the file.
        status: the run's status in the store; None when there is no such run.
        records: number, kind and JSON of each record.
        state: the state as JSON.
        history: the run's history, but for numbers and times.
        dot: its picture without times.
        snapshot: the number of the newest snapshot.
        epochs: of each record, the epoch of its writer.
    """

    integrity: str = ""
    status: str | None = None
    records: list[tuple[int, str, str]] = []
    state: str = ""
    history: list[dict[str, Any]] = []
    dot: str = ""
    snapshot: int | None = None
    epochs: list[int] = []


class Reply(BaseModel):
    """What became of a job: `text` is its result as JSON, or the traceback of a child that crashed."""

    ended: Literal["done", "killed", "crashed", "hung"]
    seconds: float
    text: str


class Nursery:
    """A warm process that forks children; one job at a time."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.kill.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(PATIENCE)
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()

    def advance(self, job: Advance) -> Reply:
        """Have a child advance a run."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(job.model_dump_json() + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the process that forks children has ended; its errors are above"
        return Reply.model_validate_json(line)


# -- in the process that forks -----------------------------------------------------------------------------------------


def serve() -> None:
    """Read jobs, fork a child for each, and tell what became of it."""
    for late in ("core.runs", "core.check", "core.sketch", "render", "render.dot", "stores.sqlite", "stores.encrypted"):
        importlib.import_module(f"flowagent.{late}")
    importlib.import_module("jsonschema")
    for subject in SUBJECTS.values():
        subject.graph.check()
    gc.collect()
    gc.freeze()  # or the first collection of each child would copy every page of its parent
    assert threading.active_count() == 1, "a process with threads must not fork"
    for line in sys.stdin:
        job = Advance.model_validate_json(line)
        print(forked(job).model_dump_json(), flush=True)


def forked(job: Advance) -> Reply:
    """Do a job in a child, and kill that when its time has come."""
    read_end, write_end = os.pipe()
    began = time.monotonic()
    pid = os.fork()
    if pid == 0:
        _live(job, write_end)
    os.close(write_end)
    kill_after = job.kill_after
    text, ended_itself = _heard(read_end, began + (PATIENCE if kill_after is None else kill_after))
    if not ended_itself:
        os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    text += _heard(read_end, time.monotonic() + PATIENCE)[0]  # it may have ended just before it was killed
    os.close(read_end)
    ended: Literal["done", "killed", "crashed", "hung"] = "crashed" if code else "done"
    if code == -signal.SIGKILL and not ended_itself:
        ended = "hung" if kill_after is None else "killed"
    elif job.cut is not None and code == (-signal.SIGKILL if job.cut.by == "kill" else EXIT_CODE):
        ended = "killed"
    return Reply(ended=ended, seconds=time.monotonic() - began, text=text.decode(errors="replace"))


def _heard(read_end: int, until: float) -> tuple[bytes, bool]:
    """What a child says, and whether it closed its end (as it does by ending) before a moment."""
    text = b""
    while True:
        ready, _, _ = select.select([read_end], [], [], max(until - time.monotonic(), 0.0))
        if not ready:
            return text, False
        part = os.read(read_end, 65536)
        if not part:
            return text, True
        text += part


def _live(job: Advance, write_end: int) -> None:
    """All of a child's life; it never returns into the code of its parent."""
    code = 1
    try:
        with Path(os.devnull).open("r+b") as nothing:
            os.dup2(nothing.fileno(), 0)
            os.dup2(nothing.fileno(), 1)
        faulthandler.dump_traceback_later(PATIENCE - 5.0)
        with open(write_end, "wb") as out:
            try:
                out.write(advanced(job).model_dump_json().encode())
                code = 0
            except BaseException:
                out.write(traceback.format_exc().encode())
    finally:
        os._exit(code)


# -- in the children ---------------------------------------------------------------------------------------------------


def advanced(job: Advance) -> Advanced:
    """Go on with a run until it is over, or until this process is cut off."""
    if job.cut is None:
        store = sealed(SQLiteStore(job.store), job.keys) if job.keys else str(job.store)
        return _advanced(job, store, Effects(job.effects, job.seed))
    points = Points(job.cut)
    longest = LONGEST_PAUSE if job.cut.among == "commits" else 0.0
    with points.installed():
        store = sealed(points.store(str(job.store)), job.keys)
        result = _advanced(job, store, Effects(job.effects, job.seed, longest, points.reach))
    return result.model_copy(update={"passed": points.passed})


def _advanced(job: Advance, store: Store | str, effects: Effects) -> Advanced:
    options = {"store": store, "deps": effects, "durability": job.durability}
    subject = SUBJECTS[job.subject]
    if job.how.endswith("_sync"):
        run = _going_on(job, subject, effects, options)
    else:
        run = asyncio.run(_going_on_beside(job, subject, effects, options))
    return Advanced(status=run.status, replayed=run.replayed)


def _going_on(job: Advance, subject: Subject, effects: Effects, options: Any) -> Run[Any]:
    graph = subject.graph
    if job.how == "run_sync":
        run = graph.run_sync(subject.input, run_id=job.run_id, **options)
    else:
        run = graph.resume_sync(job.run_id, **options)
    while run.status == "waiting":
        run = graph.resume_sync(run, answers=subject.answers_to(run, effects), **options)
    return run


async def _going_on_beside(job: Advance, subject: Subject, effects: Effects, options: Any) -> Run[Any]:
    graph = subject.graph
    match job.how:
        case "run":
            run = await graph.run(subject.input, run_id=job.run_id, **options)
        case "stream":
            run = await _watched(graph.stream(subject.input, run_id=job.run_id, **options))
        case "stream_resume":
            run = await _watched(graph.stream_resume(job.run_id, **options))
        case _:
            run = await graph.resume(job.run_id, **options)
    while run.status == "waiting":
        answers = subject.answers_to(run, effects)
        if job.how.startswith("stream"):
            run = await _watched(graph.stream_resume(run, answers=answers, **options))
        else:
            run = await graph.resume(run, answers=answers, **options)
    return run


async def _watched(stream: contextlib.AbstractAsyncContextManager[Any]) -> Run[Any]:
    async with stream as events:
        async for _ in events:
            pass
        return events.run


# -- in the process that judges ----------------------------------------------------------------------------------------


def seen(subject: str, path: Path, run_id: str, keys: Sequence[str] = ()) -> Seen:
    """Read a run in a file, as far as there is one; nothing is changed."""
    store = SQLiteStore(path)
    try:
        found = seen_in(sealed(store, keys), subject, run_id)
    except RunNotFound:
        found = Seen()
    # Last, or it would mend what flowagent itself must cope with.
    run_blocking(store.close())
    return found.model_copy(update={"integrity": integrity_of(path), "epochs": epochs_at(path, run_id)})


def seen_in(store: Store, subject: str, run_id: str) -> Seen:
    """What a store holds of a run.

    Raises:
        RunNotFound: nothing.
    """
    status = run_blocking(store.info(run_id)).status
    run = SUBJECTS[subject].graph.load_sync(run_id, store=store)
    assert run.status == status, f"the run says {run.status}, its store {status}"
    snapshot = run_blocking(store.snapshot(run_id))
    return Seen(
        integrity="ok",
        status=status,
        records=[(record.seq, record.kind, record.data.decode()) for record in run.records],
        state=run.state.model_dump_json(),
        history=[
            {name: getattr(step, name) for name in step.__slots__ if name not in {"seq", "at", "seconds", "usage"}}
            | {"usage": step.usage.plain()}
            for step in run.history
        ],
        dot=run.draw(times=False).dot(),
        snapshot=None if snapshot is None else snapshot.seq,
    )


def integrity_of(path: Path) -> str:
    """What SQLite says of a file; one that is not there has nothing wrong with it."""
    if not path.exists():
        return "ok"
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        return str(connection.pragma("integrity_check"))


def epochs_at(path: Path, run_id: str) -> list[int]:
    """The epoch of each record of a run, in order."""
    if not path.exists():
        return []
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        if not connection.table_exists("main", "records"):
            return []
        question = "SELECT r.epoch FROM records r JOIN runs ON run = key WHERE run_id = ? ORDER BY seq"
        return [epoch for (epoch,) in connection.execute(question, (run_id,))]


if __name__ == "__main__":
    serve()
