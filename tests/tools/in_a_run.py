"""Calls of tools as an agent makes them: in a node of a real run, with the run's own context."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flowagent import END, START, Context, Graph, State
from flowagent.core.events import Emitted
from flowagent.models.messages import ToolCall
from flowagent.tools.outcome import ToolOutcome
from flowagent.tools.toolbox import Toolbox, ToolSource


@dataclass
class Called:
    """What came of calls.

    Args:
        outcomes: in the order of the calls.
        emitted: what the tools told whoever watches.
    """

    outcomes: list[ToolOutcome]
    emitted: list[Any]

    @property
    def texts(self) -> list[str]:
        """What the model is told, with a mark where that is an error."""
        return [f"{'ERROR ' if one.result.is_error else ''}{one.result.text}" for one in self.outcomes]


async def called(sources: Sequence[ToolSource], *calls: tuple[str, dict[str, Any]]) -> Called:
    """Load the tools, make the calls one after another, and close nothing."""
    found = Called([], [])

    class Nothing(State):
        done: bool = False

    g = Graph("calling", Nothing)

    @g.node
    async def call(state: Nothing, ctx: Context[Any, Nothing]) -> None:
        loaded = await Toolbox(sources).load()
        for number, (name, arguments) in enumerate(calls):
            asked = ToolCall(id=f"c{number}", name=name, arguments=json.dumps(arguments))
            found.outcomes.append(await loaded.run(asked, ctx))

    g.chain(START, call, END)
    async with g.stream(Nothing()) as events:
        async for event in events:
            if isinstance(event, Emitted):
                found.emitted.append(event.data)
    return found
