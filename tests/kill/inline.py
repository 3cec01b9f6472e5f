"""Runs of the graphs of the kill test inside this process: undisturbed ones, and such as something is done to."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from flowagent import Run
from flowagent.core.loops import run_blocking
from flowagent.core.nodes import RouterNode
from flowagent.errors import RunNotFound
from flowagent.stores import MemoryStore, Store
from tests.kill.campaign import RUN, lines_of
from tests.kill.checks import Reference, journal_of
from tests.kill.child import seen_in
from tests.kill.graphs import SUBJECTS, Effects


def go_on(subject: str, store: Store, effects: Effects, **options: Any) -> Run[Any]:
    """Start or resume a run, and answer until it is over."""
    graph, given, answers = SUBJECTS[subject].graph, SUBJECTS[subject].input, SUBJECTS[subject].answers
    run = graph.run_sync(given, run_id=RUN, store=store, deps=effects, **options)
    while run.status == "waiting":
        told = {question.id: answers[question.task] for question in run.questions}
        run = graph.resume_sync(run, answers=told, deps=effects, **options)
    return run


def go_on_beside(subject: str, store: Store, effects: Effects, **options: Any) -> Run[Any]:
    """`go_on` on an event loop that commits must not block, so that they are made on the store's own thread."""

    async def steps() -> Run[Any]:
        graph, given, answers = SUBJECTS[subject].graph, SUBJECTS[subject].input, SUBJECTS[subject].answers
        run = await graph.run(given, run_id=RUN, store=store, deps=effects, **options)
        while run.status == "waiting":
            told = {question.id: answers[question.task] for question in run.questions}
            run = await graph.resume(run, answers=told, deps=effects, **options)
        return run

    return asyncio.run(steps())


def resumed(subject: str, store: Store, effects: Effects, **options: Any) -> Run[Any]:
    """Go on with a run by `resume`, or start it if it was never stored, until it is over."""
    graph, answers = SUBJECTS[subject].graph, SUBJECTS[subject].answers
    try:
        run = graph.resume_sync(RUN, store=store, deps=effects, **options)
    except RunNotFound:
        return go_on(subject, store, effects, **options)
    while run.status == "waiting":
        told = {question.id: answers[question.task] for question in run.questions}
        run = graph.resume_sync(run, answers=told, deps=effects, **options)
    return run


def undisturbed(subject: str, folder: Path) -> Reference:
    """A run in memory that nobody disturbs; `folder` is for the file its nodes write to."""
    store = MemoryStore()
    go_on(subject, store, Effects(folder / "undisturbed", "", longest=0.0))
    journal = journal_of(seen_in(store, subject, RUN))
    nodes = SUBJECTS[subject].graph.nodes
    run_blocking(store.close())
    return Reference(
        store=folder,
        neighbour=journal,
        journal=journal,
        calls=lines_of(folder / "undisturbed"),
        seconds=0.0,
        routers=frozenset(name for name, node in nodes.items() if isinstance(node, RouterNode)),
    )
