"""Runs of the graphs of the kill test inside this process: undisturbed ones, and such as something is done to."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from flowagent import Run
from flowagent.core.loops import run_blocking
from flowagent.errors import RunNotFound
from flowagent.stores import MemoryStore, Store
from tests.kill.checks import Reference, journal_of
from tests.kill.child import seen_in
from tests.kill.effects import Effects, lines_of, routers_of
from tests.kill.graphs import SUBJECTS
from tests.kill.play import RUN


def go_on(subject: str, store: Store, effects: Effects, **options: Any) -> Run[Any]:
    """Start or resume a run, and answer until it is over."""
    graph, given = SUBJECTS[subject].graph, SUBJECTS[subject].input
    run = graph.run_sync(given, run_id=RUN, store=store, deps=effects, **options)
    while run.status == "waiting":
        run = graph.resume_sync(run, answers=SUBJECTS[subject].answers_to(run, effects), deps=effects, **options)
    return run


def go_on_beside(subject: str, store: Store, effects: Effects, **options: Any) -> Run[Any]:
    """`go_on` on an event loop that commits must not block, so that they are made on the store's own thread."""

    async def steps() -> Run[Any]:
        graph, given = SUBJECTS[subject].graph, SUBJECTS[subject].input
        run = await graph.run(given, run_id=RUN, store=store, deps=effects, **options)
        while run.status == "waiting":
            run = await graph.resume(run, answers=SUBJECTS[subject].answers_to(run, effects), deps=effects, **options)
        return run

    return asyncio.run(steps())


def resumed(subject: str, store: Store, effects: Effects, **options: Any) -> Run[Any]:
    """Go on with a run by `resume`, or start it if it was never stored, until it is over."""
    graph = SUBJECTS[subject].graph
    try:
        run = graph.resume_sync(RUN, store=store, deps=effects, **options)
    except RunNotFound:
        return go_on(subject, store, effects, **options)
    while run.status == "waiting":
        run = graph.resume_sync(run, answers=SUBJECTS[subject].answers_to(run, effects), deps=effects, **options)
    return run


def undisturbed(subject: str, folder: Path) -> Reference:
    """A run in memory that nobody disturbs; `folder` is for the file its nodes write to."""
    store = MemoryStore()
    go_on(subject, store, Effects(folder / "undisturbed", "", longest=0.0))
    journal = journal_of(seen_in(store, subject, RUN))
    run_blocking(store.close())
    return Reference(
        store=folder,
        neighbour=journal,
        journal=journal,
        calls=lines_of(folder / "undisturbed"),
        seconds=0.0,
        routers=routers_of(SUBJECTS[subject].graph),
        once=frozenset(SUBJECTS[subject].results),
    )
