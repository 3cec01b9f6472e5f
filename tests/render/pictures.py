"""Small and rich pictures for the drawing tests, and short ways to make them."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from typing import Any

from flowagent.core.picture import Arrow, ArrowKind, Box, BoxKind, Frame, Marks, Picture
from flowagent.core.usage import Usage

Path = tuple[str, ...]


def box(name: str, kind: BoxKind = "node", under: Path = (), **more: Any) -> Box:
    """A box named and labelled alike."""
    return replace(Box(path=(*under, name), label=name, kind=kind), **more)


def arrow(tail: str, head: str, kind: ArrowKind = "fixed", label: str = "", under: Path = ()) -> Arrow:
    """An arrow between two boxes of one frame."""
    return Arrow(tail=(*under, tail), head=(*under, head), kind=kind, label=label)


def picture(*middle: Box, arrows: tuple[Arrow, ...] | None = None, title: str = "g") -> Picture:
    """START, the boxes in a row, END."""
    boxes = (box("START", "start"), *middle, box("END", "end"))
    row = tuple(Arrow(tail=one.path, head=two.path, kind="fixed") for one, two in pairwise(boxes))
    return Picture(frame=Frame(path=(), title=title, boxes=boxes, arrows=row if arrows is None else arrows))


def rich() -> Picture:
    """A router, a fork, a map, a gate, an error handler, nested graphs in a nested graph, a loop."""
    top = (
        box("START", "start"),
        box("classify", doc="Reads the ticket.\n\nSays which desk it belongs to."),
        box("by_queue", "router"),
        box("billing"),
        box("fetch pages", "map", tags=("network",)),
        box("research", "graph", doc="Looks things up."),
        box("apologise"),
        box("merge", join="each"),
        box("writer", "agent"),
        box("approve", "gate"),
        box("END", "end"),
    )
    arrows = (
        arrow("START", "classify"),
        arrow("classify", "by_queue"),
        arrow("by_queue", "billing", "choice", "invoice"),
        arrow("by_queue", "fetch pages", "choice", "web"),
        arrow("by_queue", "research", "choice", "web"),
        arrow("fetch pages", "apologise", "error"),
        arrow("billing", "merge"),
        arrow("fetch pages", "merge"),
        arrow("research", "merge"),
        arrow("merge", "writer"),
        arrow("writer", "approve"),
        arrow("approve", "END", "choice", "yes"),
        arrow("approve", "writer", "choice", "no, again"),
        arrow("apologise", "END"),
    )
    return Picture(frame=Frame(path=(), title="triage", boxes=top, arrows=arrows, frames=(_research(),)))


def _research() -> Frame:
    here = ("research",)
    boxes = (box("START", "start", here), box("plan", under=here), box("web", "graph", here), box("END", "end", here))
    arrows = (
        arrow("START", "plan", under=here),
        arrow("plan", "web", under=here),
        arrow("web", "END", under=here),
    )
    return Frame(path=here, title="research", boxes=boxes, arrows=arrows, frames=(_web((*here, "web")),))


def _web(here: Path) -> Frame:
    boxes = (
        box("START", "start", here),
        box("model", "model", here),
        box("tools", "tools", here, mapped=True),
        box("END", "end", here),
    )
    arrows = (
        arrow("START", "model", under=here),
        arrow("model", "tools", "choice", "calls", under=here),
        arrow("tools", "model", under=here),
        arrow("model", "END", "choice", "done", under=here),
    )
    return Frame(path=here, title="web", boxes=boxes, arrows=arrows)


_SPENT = Usage(requests=4, input=41_200, output=2_310, cost=Decimal("0.182"))

_WHAT_HAPPENED: dict[Path, Marks] = {
    ("START",): Marks(status="done", visits=1),
    ("classify",): Marks(status="done", visits=1, order=(1,), seconds=0.412),
    ("by_queue",): Marks(status="done", visits=1, order=(2,), seconds=0.0004),
    ("fetch pages",): Marks(
        status="failed", failures=3, retries=2, items=(7, 9), seconds=12.3, order=(5,),
        error="HTTPStatusError: server error '503 Service Unavailable' for url 'https://example.org/page/17'",
    ),
    ("research",): Marks(status="running", seconds=71.0),
    ("research", "START"): Marks(status="done", visits=1),
    ("research", "plan"): Marks(status="done", visits=1, order=(3,), seconds=1.25),
    ("research", "web"): Marks(status="running", order=(), usage=_SPENT),
    ("research", "web", "START"): Marks(status="done", visits=1),
    ("research", "web", "model"): Marks(
        status="running", visits=4, order=(4, 6, 8, 10), seconds=31.2, usage=_SPENT
    ),
    ("research", "web", "tools"): Marks(
        status="done", visits=4, order=(7, 9, 11, 12), seconds=3.2, items=(9, 9), failures=1, retries=1
    ),
    ("merge",): Marks(status="done", visits=1, order=(13,), seconds=0.01),
    ("writer",): Marks(status="done", visits=2, order=(14, 15), seconds=64.0),
    ("approve",): Marks(status="waiting", order=(), waiting=("Send this answer to the customer as it stands?",)),
}  # fmt: skip

_TAKEN: dict[tuple[Path, Path], int] = {
    (("START",), ("classify",)): 1,
    (("classify",), ("by_queue",)): 1,
    (("by_queue",), ("fetch pages",)): 1,
    (("by_queue",), ("research",)): 1,
    (("research", "START"), ("research", "plan")): 1,
    (("research", "plan"), ("research", "web")): 1,
    (("research", "web", "START"), ("research", "web", "model")): 1,
    (("research", "web", "model"), ("research", "web", "tools")): 4,
    (("research", "web", "tools"), ("research", "web", "model")): 4,
    (("merge",), ("writer",)): 1,
    (("writer",), ("approve",)): 2,
    (("approve",), ("writer",)): 1,
}


def rich_run() -> Picture:
    """The same in the middle of a run: a failure, a question, work in flight, things that never ran."""
    return Picture(frame=_laid_over(rich().frame), run_id="t-1", status="waiting", seconds=84.25)


def _laid_over(frame: Frame) -> Frame:
    return replace(
        frame,
        boxes=tuple(replace(one, marks=_WHAT_HAPPENED.get(one.path, Marks())) for one in frame.boxes),
        arrows=tuple(replace(one, taken=_TAKEN.get((one.tail, one.head), 0)) for one in frame.arrows),
        frames=tuple(_laid_over(inner) for inner in frame.frames),
    )
