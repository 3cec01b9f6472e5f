"""The files that the tests of the command line are run on, as people write them."""

TRIAGE = """
from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Annotated, Literal

from flowagent import END, START, Graph, State, Update, append


class Ticket(State):
    text: str
    queue: Literal["billing", "technical"] = "technical"
    notes: Annotated[list[str], append] = []
    verdict: Literal["approve", "deny"] | None = None
    scan: bytes = b""


g = Graph("triage", Ticket)


@g.node
def classify(t: Ticket) -> Update:
    if "loud" in t.text:
        print("printed by a node")
        subprocess.run([sys.executable, "-c", "print('printed by its child')"], check=True)
    return {"queue": "billing" if "invoice" in t.text else "technical"}


@g.router
def by_queue(t: Ticket) -> Literal["approve", "technical"]:
    return "approve" if t.queue == "billing" else "technical"


g.gate("approve", question="Refund {text}?", into="verdict", schema=Literal["approve", "deny"])


@g.node
async def billing(t: Ticket) -> Update:
    return {"notes": [f"billing \\u5317 {t.verdict}"]}


@g.node
def technical(t: Ticket) -> Update:
    if "boom" in t.text and not os.environ.get("MENDED"):
        raise ValueError("it went off")
    if "slow" in t.text and not os.environ.get("MENDED"):
        time.sleep(60)
    return {"notes": ["technical"]}


g.chain(START, classify, by_queue)
g.chain("approve", billing, END)
g.chain(technical, END)
"""

SPEND = """
from decimal import Decimal

from flowagent import END, START, Context, Graph, State, Update
from flowagent.core.usage import Usage


class Count(State):
    number: int = 0


g = Graph("spend", Count)


@g.node
async def call(state: Count, ctx: Context[object, Count]) -> Update:
    ctx.reserve(requests=1, tool_calls=1)
    ctx.spend(Usage(requests=1, tool_calls=1, input=200, cost=Decimal("0.40")))
    return {"number": state.number + 1}


g.router(lambda state: "call" if state.number < 2 else END, name="again", to=["call", "END"])
g.chain(START, call, "again")
"""

SMALL = '''
from flowagent import END, START, Graph, State, Update


class Count(State):
    number: int = 1


g = Graph("double", Count)


@g.node
def double(state: Count) -> Update:
    """Twice as much."""
    return {"number": state.number * 2}


g.chain(START, double, END)
'''

FAULTY = """
from flowagent import START, Graph, State, Update


class Count(State):
    number: int = 1


g = Graph("faulty", Count)


@g.node
def double(state: Count) -> Update:
    return {"number": state.number * 2}


g.chain(START, double, "nowhere")
"""

CONFLICT = """
from flowagent import END, START, Graph, State, Update


class Count(State):
    number: int = 1


g = Graph("conflict", Count)


@g.node
def left(state: Count) -> Update:
    return {"number": 2}


@g.node
def right(state: Count) -> Update:
    return {"number": 3}


@g.node
def both(state: Count) -> Update:
    return None


g.chain(START, left, both)
g.chain(START, right, both)
g.chain(both, END)
"""

DEPS = '''
from flowagent import END, START, Context, Graph, State, Update


class Shop:
    """Deps that can be made without arguments."""

    name = "a shop"


class Far:
    """Deps that cannot."""

    def __init__(self, name: str) -> None:
        self.name = name


near = Far("made before")


def make() -> Far:
    return Far("made by a function")


async def slowly() -> Far:
    return Far("never")


def broken() -> Far:
    raise LookupError("no shop here")


class Sale(State):
    seen: str = ""


g = Graph("sale", Sale, deps=Shop, store="own.db")


@g.node
def sell(state: Sale, ctx: Context[Shop, Sale]) -> Update:
    return {"seen": getattr(ctx.deps, "name", "nobody")}


g.chain(START, sell, END)
'''

HANDLED = """
from flowagent import END, START, Context, Graph, ItemError, State, Update


class Page(State):
    numbers: list[int]


class Book(State):
    numbers: list[int] = [0, 1]
    pages: list[int | ItemError] = []
    said: str = ""


inner = Graph("inner", Page)


@inner.node
def turn(page: Page) -> Update:
    raise RuntimeError("torn")


inner.chain(START, turn, END)

g = Graph("book", Book)


@g.map(over="numbers", into="pages", on_item_error="collect")
def read(number: int) -> int:
    if number:
        raise ValueError("unreadable")
    return number


@g.node(on_error="mend")
def bind(book: Book) -> Update:
    raise OSError("no glue")


@g.node
def mend(book: Book, ctx: Context[None, Book]) -> Update:
    return {"said": ctx.error[0].message}


g.node(inner, name="chapter", input={"numbers": "numbers"}, output={})
g.chain(START, read, bind, "chapter", END)
g.chain(mend, "chapter")
"""

ASKING = """
from flowagent import END, START, Context, Graph, State, Update


class Order(State):
    size: int = 0
    paid: bool = False


g = Graph("order", Order)


@g.node
async def measure(order: Order, ctx: Context[None, Order]) -> Update:
    return {"size": await ctx.ask("size", "How many?", schema=int)}


@g.node(once=True)
def pay(order: Order) -> Update:
    raise ConnectionError("no reply")


g.chain(START, measure, END)
g.chain(START, pay, END)
"""

ODD = """
import apsw

from flowagent import END, START, Graph, State, Update


class Count(State):
    number: int = 1


g = Graph("odd", Count)


@g.node
def rob(state: Count) -> Update:
    apsw.Connection(".flowagent/runs.db").execute("UPDATE runs SET epoch = epoch + 1")
    return {"number": 2}


g.chain(START, rob, END)
"""
