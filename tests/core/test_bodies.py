"""Nodes made of things from above: they say themselves what they are, and the core need not know them."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from flowagent import END, START, Context, Graph, State, Update, append
from flowagent.core.bodies import ChildGraph, MapBody, NodeBody
from flowagent.core.definition import Definition
from flowagent.core.picture import Box, Frame
from flowagent.core.sketch import of_graph
from flowagent.core.usage import Usage
from flowagent.errors import GraphError
from flowagent.stores import MemoryStore


class Doc(State):
    """The state of the graphs around."""

    topic: str = "tea"
    topics: list[str] = ["tea", "rain"]
    draft: str = ""
    drafts: Annotated[list[str], append] = []


class Talk(State):
    """The state of an agent's own graph."""

    prompt: str
    answer: str = ""


@dataclass(frozen=True)
class Echo:
    """An agent that answers what it is asked."""

    name: str = "echo"

    def graph(self) -> Graph[Talk]:
        graph = Graph(self.name, Talk)

        @graph.node(shape="model")
        async def model(talk: Talk, ctx: Context[object, Talk]) -> Update:
            ctx.spend(Usage(requests=1, input=len(talk.prompt), output=1, cost=Decimal("0.01")))
            return {"answer": talk.prompt.upper()}

        @graph.node(shape="tools")
        def tools(talk: Talk) -> Update:
            return {}

        @graph.node(shape="output")
        def output(talk: Talk) -> Update:
            return {}

        graph.chain(START, model, tools, output, END)
        return graph

    def as_node(self, graph: Definition, given: dict[str, Any]) -> ChildGraph:
        prompt, into = given.pop("prompt"), given.pop("into")
        state = graph.state
        asked = [name for _, name, _, _ in string.Formatter().parse(prompt) if name]
        faults = [
            f"agent `{self.name}`: `{name}` is no field of `{state.__name__}`"
            for name in [*asked, into]
            if name not in state.model_fields
        ]
        if faults:
            raise GraphError(graph.name, faults)
        return ChildGraph(
            child=self.graph(),
            name=self.name,
            input=lambda doc: {"prompt": prompt.format_map(dict(doc))},
            output={into: "answer"},
            shape="agent",
        )

    def as_map(self, graph: Definition, over: str, into: str, given: dict[str, Any]) -> ChildGraph:
        prompt = given.pop("prompt")
        return ChildGraph(
            child=self.graph(),
            name=self.name,
            input=lambda item: {"prompt": prompt.format(item=item)},
            output="answer",
            shape="agent",
        )


@dataclass(frozen=True)
class Choose:
    """A router that brings its targets, and looks at a field."""

    targets: Mapping[str, str] | Sequence[str]
    field: str = "topic"
    name: str = "choose"

    async def __call__(self, doc: Any, ctx: Context[Any, Any]) -> str:
        return getattr(doc, self.field)

    def faults_for(self, state: type[BaseModel]) -> list[str]:
        return [] if self.field in state.model_fields else [f"router `{self.name}` reads `{self.field}`, no field"]


async def test_a_body_becomes_a_node_with_options_of_its_own() -> None:
    """It feeds and reads its graph; the usual options are those of every node."""
    g, echo = Graph("g", Doc), Echo()
    returned: Echo = g.node(echo, prompt="Write about {topic}.", into="draft", tags=["a"])
    g.chain(START, echo, END)
    run = await g.run()
    assert (returned is echo, isinstance(echo, NodeBody), isinstance(echo, MapBody)) == (True, True, True)
    assert (run.state.draft, g.nodes["echo"].options.tags) == ("WRITE ABOUT TEA.", ("a",))
    assert {path: usage.requests for path, usage in run.usage_by_node().items()} == {("echo", "model"): 1}


async def test_a_body_is_mapped() -> None:
    """One of it for each item, the results in the order of the items."""
    g, echo = Graph("g", Doc), Echo()
    g.map(echo, over="topics", into="drafts", prompt="On {item}", at_most=1)
    g.chain(START, echo, END)
    run = await g.run()
    assert (run.state.drafts, run.usage.requests) == (["ON TEA", "ON RAIN"], 2)


async def test_two_bodies_have_names() -> None:
    """The same one twice is named by string, like a function."""
    g, echo = Graph("g", Doc), Echo()
    g.node(echo, name="first", prompt="{topic}", into="draft")
    g.node(echo, name="second", prompt="{draft} {draft}", into="draft")
    g.chain(START, "first", "second", END)
    assert (await g.run()).state.draft == "TEA TEA"


def test_what_does_not_fit_is_told_at_check_with_all_other_faults() -> None:
    """Faults of a body, or of a router, are faults of the graph."""
    g, echo = Graph("g", Doc), Echo()
    g.node(echo, prompt="{topci} {when}", into="darft")
    g.router(Choose(["echo", "END"], field="mood"))
    g.chain(START, "choose")
    with pytest.raises(GraphError) as caught:
        g.check()
    assert list(caught.value.faults[:4]) == [
        "agent `echo`: `topci` is no field of `Doc`",
        "agent `echo`: `when` is no field of `Doc`",
        "agent `echo`: `darft` is no field of `Doc`",
        "router `choose` reads `mood`, no field",
    ]


def test_an_option_that_nobody_knows_is_refused_with_a_hint() -> None:
    """What the body leaves is an option of every node, or a mistake."""
    g, echo = Graph("g", Doc), Echo()
    with pytest.raises(TypeError, match="`tag` is no option of a node; did you mean `tags`"):
        g.node(echo, prompt="", into="draft", tag=["a"])
    with pytest.raises(TypeError, match="`at_mots` is no option of a node"):
        g.map(echo, over="topics", into="drafts", prompt="", at_mots=1)


@pytest.mark.parametrize("targets", [{"tea": "a", "rain": "b"}, ["tea", "b"]], ids=["labels", "names"])
async def test_a_router_brings_its_targets(targets: Any) -> None:
    """They are declared, checked and drawn like those of `to=`."""
    first = "a" if isinstance(targets, dict) else "tea"
    g, choose = Graph("g", Doc), Choose(targets)
    returned: Choose = g.router(choose)
    for name in (first, "b"):
        g.node(lambda _, name=name: {"draft": name}, name=name)  # type: ignore[misc]
        g.chain(name, END)
    g.chain(START, choose)
    run = await g.run()
    assert (returned is choose, run.state.draft) == (True, first)
    assert [(edge.tail, edge.head, edge.label) for edge in g.topology.edges if edge.kind == "choice"] == [
        ("choose", first, "tea" if first == "a" else ""),
        ("choose", "b", "rain" if first == "a" else ""),
    ]


async def test_targets_that_are_given_replace_those_that_are_brought() -> None:
    """`to=` has the last word."""
    g = Graph("g", Doc)
    g.node(lambda _: {"draft": "x"}, name="x")  # pyright: ignore[reportUnknownLambdaType]
    g.router(Choose(["nowhere"]), name="pick", to={"tea": "x"})
    g.chain(START, "pick")
    g.chain("x", END)
    assert (await g.run()).state.draft == "x"


def kinds(frame: Frame) -> dict[str, str]:
    """The kind of each box, by its name."""
    boxes: list[Box] = [*frame.boxes, *(box for inner in frame.frames for box in inner.boxes)]
    return {box.label: box.kind for box in boxes if box.kind not in ("start", "end")}


async def test_pictures_show_agents_and_what_they_spent() -> None:
    """A cluster of its own kind with its parts in theirs; tokens and cost stand at the node and at the cluster."""
    g, echo = Graph("g", Doc), Echo()
    g.node(echo, prompt="{topic}", into="draft")
    g.map(echo, over="topics", into="drafts", prompt="{item}", name="each")
    g.chain(START, "echo", "each", END)
    run = await g.run(store=MemoryStore())
    parts = {"model": "model", "tools": "tools", "output": "output"}
    assert kinds(of_graph(g.topology).frame) == {"echo": "agent", "each": "agent", **parts}
    dot, mermaid = run.draw(times=False).dot(), run.draw(times=False).mermaid()
    # At the agent and at its model: 4 tokens; at the mapped one and at its model: 4 and 5; and all in the caption.
    assert [dot.count(text) for text in ("4 tokens · $0.010", "9 tokens · $0.020", "13 tokens · $0.030")] == [2, 2, 1]
    assert [mermaid.count(text) for text in ("4 tokens", "9 tokens", "13 tokens")] == [2, 2, 1]
    assert (" shape=cylinder " in dot, " shape=hexagon " in dot, " shape=note " in dot) == (True, True, True)
