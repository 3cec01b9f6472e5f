"""Situations that any graph engine should get right, each a test; `tests/SCENARIOS.md` lists them.

Here is the little that these tests share: a state that notes who was there, graphs that are written as chains, and
one way to make a call async or sync.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel

from flowagent import Graph, Run, State, Update, append
from flowagent.errors import RunFailed

S = TypeVar("S", bound=BaseModel)


class Trail(State):
    """Who was there, in merge order."""

    seen: Annotated[list[str], append] = []


class Walk:
    """A graph of chains such as "START a b END", whose nodes note their names in the state.

    Names with a question mark, as in "a ?pick", are only linked: the test declares them itself.

    Attributes:
        graph: the graph.
        calls: the names of its nodes, in the order in which they were called.
        broken: nodes that raise while they are in here.
    """

    def __init__(self, *chains: str, name: str = "walk") -> None:
        self.graph = Graph(name, Trail)
        self.calls: list[str] = []
        self.broken: set[str] = set()
        for chain in chains:
            self.follow(chain.split())

    def follow(self, names: list[str]) -> None:
        """Declare the nodes of a chain that are new, and link it."""
        for name in names:
            if name not in ("START", "END", *self.graph.nodes) and not name.startswith("?"):
                self.node(name)
        first, second, *more = [name.removeprefix("?") for name in names]
        self.graph.chain(first, second, *more)

    def node(self, name: str, **options: Any) -> None:
        """Declare a node that notes its name, and fails while it is broken."""

        def note(state: Trail) -> Update:
            self.visit(name)
            return {"seen": [name]}

        self.graph.node(note, name=name, **options)

    def visit(self, name: str) -> None:
        """Count a call, and raise if the node is broken."""
        self.calls.append(name)
        if name in self.broken:
            raise ValueError(f"{name} is broken")


@dataclass(frozen=True)
class Caller:
    """Calls a graph the async or the sync way; a sync call gets a thread, as a script would have its own."""

    is_async: bool

    async def run(self, graph: Graph[S, Any], state: S | None = None, **options: Any) -> Run[S]:
        """`graph.run` or `graph.run_sync`."""
        if self.is_async:
            return await graph.run(state, **options)
        return await asyncio.to_thread(lambda: graph.run_sync(state, **options))

    async def resume(self, graph: Graph[S, Any], run: str | Run[S], **options: Any) -> Run[S]:
        """`graph.resume` or `graph.resume_sync`."""
        if self.is_async:
            return await graph.resume(run, **options)
        return await asyncio.to_thread(lambda: graph.resume_sync(run, **options))

    async def fails(self, graph: Graph[S, Any], state: S | None = None, **options: Any) -> Run[S]:
        """The run of a call that has to end in `RunFailed`."""
        return (await self.failure(graph, state, **options)).run

    async def failure(self, graph: Graph[Any, Any], state: BaseModel | None = None, **options: Any) -> RunFailed:
        """The `RunFailed` that a call has to end in."""
        try:
            run = await self.run(graph, state, **options)
        except RunFailed as error:
            return error
        raise AssertionError(f"the run has not failed: {run}")


BY_AWAIT = Caller(is_async=True)


def tasks(run: Run[Any]) -> list[str]:
    """The ids of the tasks that are done, in the order in which they were recorded."""
    return [step.task for step in run.history if step.kind in ("done", "item")]


def problems(run: Run[Any]) -> dict[str, str]:
    """The errors of a run by task, as `Class: message`."""
    return {error.task: f"{error.kind}: {error.message}" for error in run.errors}
