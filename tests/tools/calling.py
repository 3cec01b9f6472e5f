"""Makes calls of tools where they are made in life: in a node of a run, journaled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flowagent import END, START, Context, Graph, Run, State, Update
from flowagent.core.events import Event, ToolEnded, ToolStarted
from flowagent.models.messages import ToolCall
from flowagent.stores import MemoryStore
from flowagent.stores.base import Store
from flowagent.tools.outcome import ToolOutcome
from flowagent.tools.running import Running
from flowagent.tools.toolbox import Toolbox, ToolSource


class Calls(State):
    """What came of some calls."""

    outcomes: list[ToolOutcome] = []


def call(name: str, arguments: str = "", call_id: str = "c1") -> ToolCall:
    """A call as a model writes it."""
    return ToolCall(id=call_id, name=name, arguments=arguments)


@dataclass
class Caller:
    """A graph of one node that makes calls, one after the other."""

    sources: Sequence[ToolSource]
    calls: Sequence[ToolCall]
    running: Running | None = None
    deps: Any = None
    store: Store = field(default_factory=MemoryStore)
    told: list[Event] = field(default_factory=list[Event])

    def graph(self) -> Graph[Any, Any]:
        """The graph."""
        graph: Graph[Any, Any] = Graph("caller", Calls)

        @graph.node
        async def node(state: Calls, ctx: Context[Any, Any]) -> Update:
            loaded = await Toolbox(self.sources, running=self.running).load()
            return {"outcomes": [await loaded.run(one, ctx) for one in self.calls]}

        graph.chain(START, node, END)
        return graph

    async def run(self) -> Run[Any]:
        """Run it, listening."""
        async with self.graph().stream(Calls(), store=self.store, run_id="r", deps=self.deps) as events:
            async for event in events:
                self.told.append(event)
            return events.run

    async def resume(self, answers: Mapping[str, Any]) -> Run[Any]:
        """Go on with answers by the ids of calls."""
        asked = {f"node?{name}": answer for name, answer in answers.items()}
        return await self.graph().resume("r", store=self.store, answers=asked, deps=self.deps)

    def facts(self) -> list[tuple[Any, ...]]:
        """What watchers were told of calls."""
        found: list[tuple[Any, ...]] = []
        for event in self.told:
            match event:
                case ToolStarted():
                    found.append(("started", event.tool, event.call_id, event.arguments))
                case ToolEnded():
                    found.append(("ended", event.tool, event.call_id, event.is_error, event.text))
                case _:
                    pass
        return found


async def outcome(source: ToolSource, arguments: str = "", *, name: str | None = None, **rest: Any) -> ToolOutcome:
    """What comes of one call of one tool, as the journal gives it back."""
    called = name or Toolbox([source]).tools[0].name
    run = await Caller([source], [call(called, arguments)], **rest).run()
    return run.state.outcomes[0]


async def text(source: ToolSource, arguments: str = "", **rest: Any) -> str:
    """What a model is told of one call."""
    return (await outcome(source, arguments, **rest)).result.text


def recorder(log: list[Any]) -> Callable[..., None]:
    """A function that writes down what it is called with."""

    def record(*args: Any) -> None:
        log.append(args)

    return record
