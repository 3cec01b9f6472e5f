"""What the machine is told and what it tells: plain data without behaviour."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Literal, NamedTuple

from flowagent.core.commits import Sent

TaskStatus = Literal["ready", "queued", "running", "inside", "failed", "asking", "over"]
"""Where a task stands: `inside` means that the tasks of its map or nested graph are what is being run; `queued`
that it could go on, but the item that it is or is inside of waits for its turn (`at_most`); `over` that it is done,
handed over or dropped."""


class Way(NamedTuple):
    """A way on: the number of a node, and the items that are sent to it, if any."""

    head: int
    items: tuple[Sent, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failed attempt, as far as it is stored.

    Args:
        graph: the name of the graph.
        node: the name of the node.
        task: the task's id.
        attempt: which attempt, from 1.
        kind: the class name of the exception.
        message: its text.
        merge: whether it was no call that failed but branches that could not be merged.
        cause: the exception itself, while its process lives.
    """

    graph: str
    node: str
    task: str
    attempt: int
    kind: str
    message: str
    merge: bool = False
    cause: BaseException | None = field(default=None, compare=False, repr=False)

    def plain(self) -> dict[str, Any]:
        """What can be stored of it; the exception itself stays in its process."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name != "cause"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Something that a run waits to be told.

    Args:
        id: what to answer it by.
        task: the task that asks.
        node: the name of its node.
        name: what the task calls it; "" for gates.
        text: what to show to a person.
        schema: the JSON schema of the answer, or None for anything.
        purpose: `ask` for gates and `ctx.ask`; `once` asks what became of a side effect that must not repeat.
        about: what it is about, as JSON data for programs that show it; None if the text says it all.
    """

    id: str
    task: str
    node: str
    name: str
    text: str
    schema: Any = None
    purpose: Literal["ask", "once"] = "ask"
    about: Any = None

    def plain(self) -> dict[str, Any]:
        """It as JSON data; what it is about only where it is about something."""
        told = {one.name: getattr(self, one.name) for one in fields(self)}
        if self.about is None:
            del told["about"]
        return told
