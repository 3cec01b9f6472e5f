"""What a picture shows, as plain data; `flowagent.render` turns it into DOT, SVG and PNG.

A picture of a definition has `marks=None` everywhere. A picture of a run has marks on what ran: it is the
same picture with the run laid over it, so that the two can be held side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from flowagent.core.usage import NO_USAGE, Usage

BoxKind = Literal[
    "start", "end", "node", "router", "map", "gate", "graph", "items", "agent", "model", "tools", "output"
]
ArrowKind = Literal["fixed", "choice", "error"]
MarkStatus = Literal["idle", "done", "running", "failed", "waiting"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """What happened at one box in one run.

    Args:
        status: the most telling thing: failed before waiting before running before done; `idle` never ran.
        visits: how many tasks of this node were recorded as done.
        order: the places of its visits in the order in which the run recorded them, from 1.
        seconds: the time spent inside it over all visits, in seconds; None when nothing was measured.
        failures: how many attempts failed.
        retries: how many attempts were made beyond the first of their task.
        items: for maps, (items done, items in all) over all visits.
        waiting: the open questions or the wake time, as text for people.
        error: the last error's text, if the box stands failed.
        usage: what was spent at it and inside it, failed attempts included.
    """

    status: MarkStatus = "idle"
    visits: int = 0
    order: tuple[int, ...] = ()
    seconds: float | None = None
    failures: int = 0
    retries: int = 0
    items: tuple[int, int] | None = None
    waiting: tuple[str, ...] = ()
    error: str | None = None
    usage: Usage = NO_USAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """One node. `path` is unique in the picture: the node's name below the names of the graphs around it."""

    path: tuple[str, ...]
    label: str
    kind: BoxKind
    doc: str = ""
    tags: tuple[str, ...] = ()
    join: Literal["all", "each"] | None = None
    mapped: bool = False
    marks: Marks | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """One edge between two boxes of one graph; `taken` counts how often a run went along it."""

    tail: tuple[str, ...]
    head: tuple[str, ...]
    kind: ArrowKind
    label: str = ""
    taken: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One graph: its boxes and arrows. `frames` are the nested graphs, keyed by the box that holds them.

    A nested graph's frame has START and END boxes of its own; arrows of the outer graph end at the holder's
    path, which a renderer may draw as the cluster itself.
    """

    path: tuple[str, ...]
    title: str
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    frames: tuple[Frame, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A whole drawing: the outermost frame, and for a run its id, status, total time in seconds and usage."""

    frame: Frame
    run_id: str | None = None
    status: str | None = None
    seconds: float | None = None
    usage: Usage = NO_USAGE

    @property
    def is_run(self) -> bool:
        """Whether a run is laid over the definition."""
        return self.run_id is not None
