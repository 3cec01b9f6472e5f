"""Graphs whose stored runs are damaged, and kept for later versions; with runs of them that stand in every way.

They do the same whenever they run: what a damaged store gives can be held against what an intact one gives. A change
here changes what golden stores belong to: make new graphs in place of changing these.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BaseModel

from flowagent import Context, Graph, Limits, Run, Send, State, Update, add, append, merge, union
from flowagent.errors import RunFailed
from flowagent.stores import Store

PADDING = "." * 3000
"""Makes the journal of a loop heavy enough for snapshots."""


@dataclass(slots=True)
class World:
    """What nodes find outside: it counts what is called, and decides what goes wrong.

    Attributes:
        calls: the id of each task that was called.
        broken: nodes that fail.
        deadly: the task at which the process dies.
    """

    calls: list[str] = field(default_factory=list[str])
    broken: frozenset[str] = frozenset()
    deadly: str = ""

    def visit(self, ctx: Context[World, Any]) -> None:
        """Be called."""
        self.calls.append(ctx.task_id)
        if ctx.task_id == self.deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        if ctx.task_id in self.broken:
            raise OSError(f"{ctx.task_id} is broken")


# -- loop: a router leads back until it is enough; heavy, with values of many types ---------------------------------


class Page(BaseModel):
    number: int
    text: str
    price: Decimal
    printed: datetime


class Book(State):
    title: str
    laps: int = 0
    cover: bytes = b""
    size: tuple[int, float] = (0, 0.0)
    pages: Annotated[list[Page], append] = []
    words: Annotated[set[str], union] = set()


def loop() -> Graph[Book, World]:
    g = Graph("loop", Book, deps=World)

    @g.node
    def write(b: Book, ctx: Context[World, Book]) -> Update:
        ctx.deps.visit(ctx)
        page = Page(
            number=b.laps,
            text=f"{b.laps}{PADDING}",
            price=Decimal(b.laps) / 4,
            printed=datetime(2026, 1, 1 + b.laps, tzinfo=UTC),
        )
        return {"pages": [page], "laps": b.laps + 1, "cover": bytes([b.laps, 0, 255]), "size": (b.laps, b.laps / 4)}

    @g.node
    async def read(b: Book, ctx: Context[World, Book]) -> Update:
        ctx.deps.visit(ctx)
        return {"words": {f"word {b.laps % 3}"}}

    @g.router
    def enough(b: Book, ctx: Context[World, Book]) -> Literal["write", "bind"]:
        ctx.deps.visit(ctx)
        return "bind" if b.laps >= 9 else "write"

    @g.node
    def bind(b: Book, ctx: Context[World, Book]) -> Update:
        ctx.deps.visit(ctx)
        return {"title": f"{b.title}, {len(b.pages)} pages"}

    g.chain("START", write, read, enough)
    g.chain(bind, "END")
    return g


# -- trip: branches that meet, with steps recorded inside a node -----------------------------------------------------


class Trip(State):
    goal: str
    hotel: str = ""
    notes: Annotated[list[str], append] = []
    prices: Annotated[dict[str, int], merge] = {}
    cost: Annotated[int, add] = 0


def trip() -> Graph[Trip, World]:
    g = Graph("trip", Trip, deps=World)

    @g.node
    def plan(t: Trip, ctx: Context[World, Trip]) -> Update:
        ctx.deps.visit(ctx)
        return {"notes": [f"to {t.goal}"]}

    @g.node
    async def beds(t: Trip, ctx: Context[World, Trip]) -> Update:
        price = await ctx.step("ask", len, t.goal)
        ctx.deps.visit(ctx)
        return {"hotel": "Ritz", "prices": {"hotel": price}, "cost": price}

    @g.node
    def trains(t: Trip, ctx: Context[World, Trip]) -> Update:
        ctx.deps.visit(ctx)
        return {"prices": {"train": 30}, "cost": 30}

    @g.node
    def seats(t: Trip, ctx: Context[World, Trip]) -> Update:
        ctx.deps.visit(ctx)
        return {"notes": [f"seat at {t.prices['train']}"]}

    @g.node
    def book(t: Trip, ctx: Context[World, Trip]) -> Update:
        ctx.deps.visit(ctx)
        return {"notes": [f"{t.hotel} for {t.cost}"]}

    g.chain("START", plan, beds, book)
    g.chain(plan, trains, seats, book, "END")
    return g


# -- mail: a map, then Sends -----------------------------------------------------------------------------------------


class Mail(State):
    letters: list[str]
    sizes: list[int] = []
    sent: Annotated[dict[str, int], merge] = {}


def mail() -> Graph[Mail, World]:
    g = Graph("mail", Mail, deps=World)

    @g.map(over="letters", into="sizes")
    def measure(letter: str, ctx: Context[World, Mail]) -> int:
        ctx.deps.visit(ctx)
        return len(letter)

    @g.router(to=["post"])
    def sort(m: Mail, ctx: Context[World, Mail]) -> list[Send]:
        ctx.deps.visit(ctx)
        return [Send("post", letter) for letter in m.letters]

    @g.node(item=True)
    def post(letter: str, ctx: Context[World, Mail]) -> Update:
        ctx.deps.visit(ctx)
        return {"sent": {letter: len(letter)}}

    @g.node
    def close(m: Mail, ctx: Context[World, Mail]) -> Update:
        ctx.deps.visit(ctx)
        return {"letters": [*m.sent, f"{m.sizes}"]}

    g.chain("START", measure, sort)
    g.chain(post, close, "END")
    return g


# -- case: a graph in a graph, with a gate in its loop, and one after it ---------------------------------------------


class Inquiry(State):
    topic: str
    tries: int = 0
    verdict: str = ""
    found: Annotated[list[str], append] = []


class Case(State):
    topic: str
    signed: bool = False
    found: Annotated[list[str], append] = []


def case() -> Graph[Case, World]:
    inner = Graph("inquiry", Inquiry, deps=World)

    @inner.node
    def look(i: Inquiry, ctx: Context[World, Inquiry]) -> Update:
        ctx.deps.visit(ctx)
        return {"tries": i.tries + 1, "found": [f"{i.topic} {i.tries + 1}"]}

    approve = inner.gate(
        "approve",
        question="Is {tries} enough?",
        into="verdict",
        schema=Literal["yes", "no"],
        to={"yes": "END", "no": look},
    )
    inner.chain("START", look, approve)

    g = Graph("case", Case, deps=World)
    g.node(inner, name="search")

    @g.node
    def audit(c: Case, ctx: Context[World, Case]) -> Update:
        ctx.deps.visit(ctx)
        return {"found": ["audited"]}

    sign = g.gate("sign", question="Sign {topic}?", into="signed", schema=bool)
    g.chain("START", "search", sign, "END")
    g.chain("START", audit, sign)
    return g


# -- quarrel: a merge that fails until somebody settles it -----------------------------------------------------------


class Offer(State):
    price: int = 0
    notes: Annotated[list[str], append] = []


def quarrel() -> Graph[Offer, World]:
    g = Graph("quarrel", Offer, deps=World)

    @g.node
    def ten(o: Offer, ctx: Context[World, Offer]) -> Update:
        ctx.deps.visit(ctx)
        return {"price": 10, "notes": ["ten"]}

    @g.node
    def twelve(o: Offer, ctx: Context[World, Offer]) -> Update:
        ctx.deps.visit(ctx)
        return {"price": 12, "notes": ["twelve"]}

    @g.node
    def settle(o: Offer, ctx: Context[World, Offer]) -> Update:
        ctx.deps.visit(ctx)
        return {"notes": [f"settled at {o.price}"]}

    g.chain("START", ten, settle, "END")
    g.chain("START", twelve, settle)
    return g


GRAPHS: Mapping[str, Graph[Any, World]] = {g.name: g for g in (loop(), trip(), mail(), case(), quarrel())}

# -- runs that stand in every way ------------------------------------------------------------------------------------

NO, YES = "search/approve@1", "search/approve@2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A run, how it came to stand where it does, and how it is brought to its end.

    Args:
        graph: the name of its graph.
        input: what it is started with.
        broken: nodes that fail at first.
        deadly: the task at which its process dies.
        steps: the limit that it comes to.
        first: answers that it is given by whoever makes it.
        cancelled: whether somebody cancels it then.
        then: what brings it to its end: the arguments of one `resume` after another.
    """

    graph: str
    input: Mapping[str, Any]
    broken: frozenset[str] = frozenset()
    deadly: str = ""
    steps: int | None = 1000
    first: tuple[Mapping[str, Any], ...] = ()
    cancelled: bool = False
    then: tuple[Mapping[str, Any], ...] = ({},)


BOOK = {"title": "Été: a \"book\" <of> 'rain' 雨"}
TRIP = {"goal": "Rome"}
MAIL = {"letters": ["a", "letter", "to 🤖", ""]}
CASE = {"topic": "kills"}

RUNS: Mapping[str, Stored] = {
    "loop-done": Stored(graph="loop", input=BOOK),
    "loop-killed": Stored(graph="loop", input=BOOK, deadly="read@8"),
    "loop-light": Stored(graph="loop", input=BOOK, deadly="read@2"),
    "loop-limit": Stored(graph="loop", input=BOOK, steps=13),
    "trip-done": Stored(graph="trip", input=TRIP),
    "trip-failed": Stored(graph="trip", input=TRIP, broken=frozenset({"beds"})),
    "trip-killed": Stored(graph="trip", input=TRIP, deadly="book"),
    "mail-done": Stored(graph="mail", input=MAIL),
    "mail-failed": Stored(graph="mail", input=MAIL, broken=frozenset({"measure[1]", "measure[3]"})),
    "mail-killed": Stored(graph="mail", input=MAIL, deadly="post[2]"),
    "case-done": Stored(
        graph="case",
        input=CASE,
        first=({"answers": {NO: "no"}}, {"answers": {YES: "yes"}}, {"answers": {"sign": True}}),
    ),
    "case-waiting": Stored(
        graph="case",
        input=CASE,
        then=({"answers": {NO: "no"}}, {"answers": {YES: "yes"}}, {"answers": {"sign": True}}),
    ),
    "case-later": Stored(
        graph="case",
        input=CASE,
        first=({"answers": {NO: "no"}}, {"answers": {YES: "yes"}}),
        then=({"answers": {"sign": False}},),
    ),
    "case-cancelled": Stored(
        graph="case", input=CASE, cancelled=True, then=({}, {"answers": {NO: "yes"}}, {"answers": {"sign": True}})
    ),
    "quarrel-failed": Stored(graph="quarrel", input={}, then=({"resolve": {"price": 11}},)),
}


def make(name: str, store: Store) -> None:
    """Bring a run to where it is to stand. The process dies, if it is one that was killed."""
    stored = RUNS[name]
    graph = GRAPHS[stored.graph]
    options: Mapping[str, Any] = {
        "store": store,
        "deps": World(broken=stored.broken, deadly=stored.deadly),
        "limits": Limits(steps=stored.steps),
    }
    _calmly(lambda: graph.run_sync(dict(stored.input), run_id=name, **options))
    for arguments in stored.first:
        graph.resume_sync(name, **arguments, **options)
    if stored.cancelled:
        graph.cancel_sync(name, store=store)


def finish(name: str, store: Store, world: World) -> Run[Any]:
    """Bring a run to its end."""
    stored = RUNS[name]
    graph = GRAPHS[stored.graph]
    run: Run[Any] | None = None
    for arguments in stored.then:
        run = graph.resume_sync(name, store=store, deps=world, limits=Limits(steps=100), **arguments)
    assert run is not None
    return run


def _calmly(call: Callable[[], Run[Any]]) -> None:
    try:
        call()
    except RunFailed:
        return
