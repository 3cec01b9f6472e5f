"""`check`: every fault that it refuses, every warning that it gives, all of them at once."""

# pyright: reportUnknownLambdaType=false
# (Nodes of one line are lambdas, and what they are handed is the graph's state.)
from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict

from flowagent import END, START, Goto, Graph, ItemError, Retry, Send, State, Update, add, append, merge, reducer, union
from flowagent.errors import GraphError


class S(State):
    """A state with a field of each kind that nodes are checked against."""

    text: str = ""
    number: int = 0
    items: list[int] = []
    results: list[int] = []
    notes: Annotated[list[str], append] = []


def nothing(state: Any) -> None:
    """A node that writes nothing."""


def graph(*chains: str, state: type[BaseModel] = S, name: str = "g") -> Graph[Any, Any]:
    """A graph of chains such as "START a b END"; nodes that are not declared yet write nothing."""
    g: Graph[Any, Any] = Graph(name, state)
    for chain in chains:
        follow(g, chain)
    return g


def follow(g: Graph[Any, Any], chain: str) -> None:
    names = [name.removeprefix("?") for name in chain.split()]
    for name in chain.split():
        if name not in ("START", "END", *g.nodes) and not name.startswith("?"):
            g.node(nothing, name=name)
    for tail, head in itertools.pairwise(names):
        g.edge(tail, head)


def faults(g: Graph[Any, Any]) -> list[str]:
    with pytest.raises(GraphError) as caught:
        g.check()
    assert caught.value.graph == g.name
    assert all(fault in str(caught.value) for fault in caught.value.faults)
    return list(caught.value.faults)


def choose(state: Any) -> Any:
    return "a"


# -- names and edges -----------------------------------------------------------------------------------------------


def test_an_unknown_end_is_told_with_a_hint() -> None:
    """Edges, choices and handlers that lead to nothing name the nearest node."""
    g = graph("START refund END")
    g.edge("refund", "?")
    g.edge("refnd", END)
    g.router(choose, name="pick", to=["refunds"])
    g.edge(START, "pick")
    g.node(nothing, name="risky", on_error="refnud")
    assert faults(g)[:4] == [
        "edge `refund` -> `?`: there is no node `?`",
        "edge `refnd` -> `END`: there is no node `refnd`; did you mean `refund`?",
        "`pick` may choose `refunds`: there is no node `refunds`; did you mean `refund`?",
        "`risky` has on_error=`refnud`: there is no node `refnud`; did you mean `refund`?",
    ]


@pytest.mark.parametrize(
    ("chains", "expected"),
    [
        ([], ["there is no edge from START: say where a run begins with chain(START, ...)"]),
        (["a END"], ["there is no edge from START: say where a run begins with chain(START, ...)"]),
        (["START a END", "b END"], ["node `b` cannot be reached from START: add an edge to it or remove it"]),
        (
            ["START a b"],
            ["node `b` leads nowhere: add an edge to another node or to END", "node `a` has no way to END"],
        ),
        (["START a b a"], ["nothing leaves the cycle of `a`, `b`: give one of them a way towards END"]),
        (["START a a"], ["nothing leaves the cycle of `a`: give one of them a way towards END"]),
        (["START a END", "a START"], ["an edge leads to START; loop back to the first node instead"]),
        (["START a END", "?END a"], ["an edge leads out of END"]),
        (["START a END", "START a"], ["the edge `START` -> `a` is declared twice"]),
        (
            ["START a END", "b c b"],
            [
                "node `b` cannot be reached from START: add an edge to it or remove it",
                "node `c` cannot be reached from START: add an edge to it or remove it",
            ],
        ),
        (
            ["START a END", "START b c b"],
            ["nothing leaves the cycle of `b`, `c`: give one of them a way towards END"],
        ),
    ],
)
def test_shapes(chains: list[str], expected: list[str]) -> None:
    """What cannot be reached, leads nowhere, or never ends."""
    assert faults(graph(*chains)) == expected


def test_names_of_nodes() -> None:
    """Reserved, double and empty names are refused; a function registered twice is named by its string."""
    g = graph("START a END")
    g.node(nothing, name="a")
    g.node(nothing, name="END")
    g.node(nothing, name="  ")
    g.node(lambda state: None)
    g.edge(nothing, END)
    assert faults(g) == [
        "there are two nodes named `a`; give one of them another name=",
        "`END` is reserved and cannot be the name of a node",
        "a node needs a name that is not empty",
        "a lambda has no name: pass name=",
        "`nothing` was registered 4 times (a, a, END,   ); name the node by its string",
        "the edge `a` -> `END` is declared twice",
        "node `<lambda>` cannot be reached from START: add an edge to it or remove it",
    ]


def test_names_that_no_store_can_write() -> None:
    """A lone surrogate, or what is no text, cannot be a name."""
    g = graph("START a END")
    g.node(nothing, name="\ud800")
    g.node(nothing, name=5)  # type: ignore[call-overload]
    assert faults(g) == [
        "'\\ud800' cannot be the name of a node: it has a lone surrogate, which no store can write",
        "5 cannot be the name of a node: it is no text",
    ]
    with pytest.raises(GraphError, match="may hold no lone surrogate"):
        Graph("\ud800", S)


def test_a_function_that_is_no_node() -> None:
    """An edge to a function that was never registered names it."""
    g = graph("START a END")
    g.edge("a", choose)
    assert faults(g) == ["edge `a` -> `choose`: there is no node `choose`"]


@pytest.mark.parametrize("name", ["", "  ", None, 5])
def test_a_graph_needs_a_name(name: Any) -> None:
    """An empty name, or none at all, is refused where the graph is made."""
    with pytest.raises(GraphError, match="a graph needs a name that is not empty"):
        Graph(name, S)


@pytest.mark.parametrize("state", [dict, None, S(), "S", int])
def test_a_graph_needs_a_model(state: Any) -> None:
    """The state is a pydantic model class, and nothing else."""
    with pytest.raises(GraphError, match="the state must be a pydantic model class"):
        Graph("g", state)


def test_all_faults_are_told_at_once() -> None:
    """Of edges, nodes, fields and nested graphs, in one error that counts them."""

    class Bad(State):
        total: Annotated[int, operator.add] = 0
        text: str = ""

    child: Graph[Bad, object] = Graph("child", Bad)
    child.chain(START, "ghost", END)
    g: Graph[Bad, object] = Graph("outer", Bad)
    g.node(child)
    g.node(nothing, name="lost")
    g.node(nothing, name="slow", timeout=0)
    g.chain(START, "child", "slow", END)
    with pytest.raises(GraphError) as caught:
        g.check()
    fault = "field `total` is annotated with the plain function `add`, which nothing would call: "
    fault += "write Annotated[..., reducer(add)]"
    assert str(caught.value).splitlines() == [
        "6 faults in graph `outer`:",
        "  - timeout=0 must be more than 0 seconds",
        f"  - {fault}",
        f"  - in node `child`, graph `child`: {fault}",
        "  - in node `child`, graph `child`: edge `START` -> `ghost`: there is no node `ghost`",
        "  - in node `child`, graph `child`: edge `ghost` -> `END`: there is no node `ghost`",
        "  - node `lost` cannot be reached from START: add an edge to it or remove it",
    ]
    assert not g.frozen


def test_a_graph_can_be_mended_after_a_check() -> None:
    """A refused definition stays open; once it has passed, it is frozen, and says so."""
    g = graph("START a b")
    assert len(faults(g)) == 2
    g.edge("b", END)
    assert g.check() == ()
    for late in (lambda: g.edge("a", END), lambda: g.node(nothing, name="c"), lambda: g.before("a", "b")):
        with pytest.raises(GraphError, match="came too late: the graph was frozen when it was first checked"):
            late()
    assert g.check() == ()


# -- routers and jumps ---------------------------------------------------------------------------------------------


def test_routers_declare_their_targets() -> None:
    """By `Literal`, `to=` or a mapping; without any of them, or with annotations that do not resolve, it is a fault."""
    g = graph("START a END")

    @g.router
    def silent(state: S) -> str:
        return "a"

    @g.router
    def unresolved(state: S) -> Nowhere:  # type: ignore[name-defined]  # noqa: F821
        return "a"

    g.edge("a", silent)
    g.edge("a", unresolved)
    text = "does not declare its targets: annotate its return type with Literal[...] of node names, or pass to=[...]"
    assert [fault for fault in faults(g) if "declare" in fault] == [
        f"router `silent` {text}",
        f"router `unresolved` {text}",
    ]


def test_one_unresolved_name_does_not_spoil_the_rest() -> None:
    """A parameter's type that exists only for type checkers leaves the targets readable."""
    g: Graph[S, object] = Graph("g", S)

    @g.router
    def pick(state: OnlyForCheckers) -> Literal["a", "END"]:  # type: ignore[name-defined]  # noqa: F821
        return "a"

    g.node(nothing, name="a")
    g.edge("a", END)
    g.edge(START, pick)
    assert g.check() == ()


def test_a_table_that_lacks_what_the_router_may_return() -> None:
    """A router that says what it returns, and a `to=` that does not list all of it, do not fit."""
    g: Graph[S, object] = Graph("g", S)
    g.node(nothing, name="w")

    @g.router(to={"a": "w"})
    def table(state: S) -> Literal["a", "END"]:
        return "a"

    @g.router(to=["w"])
    def names(state: S) -> Literal["w", "END"]:
        return "w"

    g.chain(START, table)
    g.edge("w", names)
    g.edge("w", END)
    assert [fault for fault in faults(g) if "may return" in fault] == [
        "`table` may return 'END', which its to= does not list",
        "`names` may return 'END', which its to= does not list",
    ]


def test_a_node_has_one_rule_for_what_is_next() -> None:
    """A fixed edge beside a `Goto`, a router's choice or a gate's `to=` is refused."""
    g: Graph[S, object] = Graph("g", S)

    @g.node
    def jump(state: S) -> Goto[Literal["c", "END"]]:
        return Goto("c")

    @g.router
    def pick(state: S) -> Literal["c"]:
        return "c"

    g.gate("ask", question="?", schema=bool, to={True: "c", False: END})
    g.node(nothing, name="c")
    g.chain(START, jump, pick, "ask", "c", END)
    text = "a node has one rule for what is next: drop the edge, or declare the target"
    assert faults(g) == [
        f"node `jump` chooses its targets itself and also has a fixed edge to `pick`; {text}",
        f"node `pick` chooses its targets itself and also has a fixed edge to `ask`; {text}",
        f"node `ask` chooses its targets itself and also has a fixed edge to `c`; {text}",
    ]


def test_a_goto_without_targets() -> None:
    """A node that may jump says where to."""
    g: Graph[S, object] = Graph("g", S)

    @g.node
    def jump(state: S) -> Goto:
        return Goto("END")

    g.chain(START, jump)
    text = "node `jump` returns a Goto without declared targets: write Goto[Literal[...]] or pass to=[...]"
    assert text in faults(g)


def test_a_cycle_of_routers_only() -> None:
    """Routers write nothing, so a circle of them would go round for ever."""
    g: Graph[S, object] = Graph("g", S)

    @g.router
    def one(state: S) -> Literal["two", "END"]:
        return "two"

    @g.router
    def two(state: S) -> Literal["one"]:
        return "one"

    g.edge(START, one)
    assert faults(g) == ["the cycle of `one`, `two` has only routers, which write nothing: it would go round for ever"]


@pytest.mark.parametrize(
    "function",
    [lambda: None, lambda a, b, c: None, lambda *, key: None, lambda state, *, key: None],
    ids=["none", "three", "keyword", "needed keyword"],
)
def test_functions_of_the_wrong_shape(function: Callable[..., Any]) -> None:
    """A node takes the state and, if it wants, a Context."""
    g = graph("START a END")
    g.node(function, name="odd")
    g.router(function, name="odd router", to=["a"])
    g.map(function, name="odd map", over="items", into="results")
    found = faults(g)
    assert [fault.split(" takes ")[0] for fault in found] == ["node `odd`", "node `odd router`", "node `odd map`"]
    assert all("it is called with" in fault and "if wanted, a Context" in fault for fault in found)


@pytest.mark.parametrize("thing", [5, "a", [nothing]])
def test_what_is_no_function(thing: Any) -> None:
    """A node is made of something that can be called, or of a graph."""
    g = graph("START a END")
    g.node(thing, name="odd")
    assert any(f"node `odd` is no function but {thing!r}" in fault for fault in faults(g))


# -- fields --------------------------------------------------------------------------------------------------------


class Plain:
    """A class that pydantic knows nothing of."""


def a_marker(state: Any) -> Any:
    return state


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        (Annotated[int, operator.add], "is annotated with the plain function `add`, which nothing would call"),
        (Annotated[list[int], a_marker], "is annotated with the plain function `a_marker`"),
        (Annotated[list[int], append, union], "declares 2 reducers; keep one"),
        (Annotated[int, append], "uses `append`, which needs a list, tuple or Sequence"),
        (Annotated[str, append], "uses `append`, which needs a list, tuple or Sequence"),
        (Annotated[list[int], merge], "uses `merge`, which needs a dict"),
        (Annotated[list[int], union], "uses `union`, which needs a set"),
        (Annotated[list[int] | int, append], "uses `append`, which needs a list, tuple or Sequence"),
        (Annotated[tuple[int, str], append], "uses `append` on a tuple of fixed length; write tuple[X, ...]"),
        (Annotated[tuple[int, ...] | None, append], "uses `append` and may be None"),
        (list[Annotated[int, add]], "hides its reducer inside the type"),
        (Callable[[], int], "cannot be stored: a function is not data"),
        (type[int], "cannot be stored: a class is not data"),
        (list[type[BaseModel]], "cannot be stored: a class is not data"),
        (Plain, "cannot be stored: instances of `Plain` have no JSON form"),
        (dict[str, Plain], "cannot be stored: instances of `Plain` have no JSON form"),
        (Plain | None, "cannot be stored: instances of `Plain` have no JSON form"),
    ],
    ids=itertools.count(),
)
def test_fields_that_cannot_work(kind: Any, fault: str) -> None:
    """A reducer that nothing calls or that does not fit, and what can never make the way to a store and back."""
    bad = type(
        "Bad",
        (BaseModel,),
        {"__annotations__": {"x": kind}, "x": None, "model_config": ConfigDict(arbitrary_types_allowed=True)},
    )
    found = faults(graph("START a END", state=bad))
    assert len(found) == 1
    assert found[0].startswith("field `x` ")
    assert fault in found[0]


@pytest.mark.parametrize(
    "kind",
    [
        Annotated[list[int] | None, append],
        Annotated[tuple[int, ...], append],
        Annotated[Sequence[int], append],
        Annotated[Mapping[str, int], merge],
        Annotated[frozenset[int], union],
        Annotated[Any, append],
        Annotated[int, reducer(max)],
        Annotated[int, "a note", add],
        "list[S]",
    ],
    ids=itertools.count(),
)
def test_fields_that_are_fine(kind: Any) -> None:
    """Reducers on what they fit, other people's markers, and forward references."""
    good = type("Good", (BaseModel,), {"__annotations__": {"x": kind}, "x": None, "__module__": __name__})
    assert graph("START a END", state=good).check() == ()


def test_a_state_that_takes_anything() -> None:
    """A state with extra fields, or none at all, is refused."""

    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")
        x: int = 0

    class Empty(State):
        pass

    assert faults(graph("START a END", state=Open)) == [
        "state `Open` allows extra fields; declare every field that nodes write"
    ]
    assert faults(graph("START a END", state=Empty)) == ["state `Empty` has no fields"]


# -- options -------------------------------------------------------------------------------------------------------


def test_options_that_contradict_each_other() -> None:
    """`once` with a blanket retry, unknown `writes`, `each` on an item node, a timeout of nothing."""
    g = graph("START a END")
    g.node(nothing, name="pay", once=True, retry=Retry())
    g.node(nothing, name="tell", writes=["text", "txet"])
    g.node(lambda item: None, name="one", item=True, join="each")
    g.node(nothing, name="quick", timeout=-1)
    g.chain("a", "pay", "tell", "quick", END)
    g.router(choose, name="send", to=["one"])
    g.edge("a", "send")
    g.edge("one", END)
    assert faults(g) == [
        "timeout=-1 must be more than 0 seconds",
        "node `pay` is once=True and retries on any exception; say which exceptions are safe to repeat: Retry(on=...)",
        "node `tell` declares writes= `txet`, which is no field of `S`; did you mean `text`?",
        "node `one` takes items; join='each' does not go with it",
    ]
    fine = graph("START a END")
    fine.node(nothing, name="pay", once=True, retry=Retry(on=ConnectionError))
    fine.chain("a", "pay", END)
    assert fine.check() == ()


@pytest.mark.parametrize("option", [{"retyr": 1}, {"tag": []}, {"cache": True}])
def test_unknown_options_are_refused_where_they_stand(option: dict[str, Any]) -> None:
    """A misspelt option is an error at once, in the line that has it."""
    g: Graph[Any, Any] = Graph("g", S)
    for declare in (
        lambda: g.node(nothing, name="a", **option),
        lambda: g.router(choose, to=["a"], **option),
        lambda: g.gate("q", question="?", **option),
        lambda: g.map(nothing, over="items", into="results", **option),
    ):
        with pytest.raises(TypeError, match=next(iter(option))):
            declare()


def test_handlers_are_nobody_elses_target() -> None:
    """What handles errors has no other way in, and is a node."""
    g = graph("START a b END")
    g.node(nothing, name="risky", on_error="b")
    g.node(nothing, name="bold", on_error="pick")
    g.router(choose, name="pick", to=["a"])
    g.chain("a", "risky", "bold", END)
    assert faults(g) == [
        "`b` handles errors, so no other edge may lead to it (edge `a` -> `b`)",
        "`pick` handles errors, so it must be a node, not a router or an item node",
    ]


def test_item_nodes_are_sent_to() -> None:
    """A fixed edge or a Goto cannot carry an item."""
    g = graph("START a END")
    g.node(lambda item: None, name="one", item=True)
    g.chain("a", "one", END)
    assert faults(g) == ["node `one` takes items, so only routers may lead to it, by Send (edge `a` -> `one`)"]


# -- maps, gates, nested graphs ------------------------------------------------------------------------------------


def test_maps_name_fields_that_exist_and_fit() -> None:
    """`over`, `into`, `input`, `output` and `at_most`."""
    g = graph("START a END")
    g.map(nothing, name="m1", over="item", into="result")
    g.map(nothing, name="m2", over="number", into="results", at_most=0)
    g.map(nothing, name="m3", over="items", into="results", input={"x": "item"})  # type: ignore[call-overload]
    child = graph("START a END", name="child")
    g.map(child, name="m4", over="items", into="results", input={"nubmer": "item", "text": "txt"}, output="numbr")
    g.chain("a", "m1", "m2", "m3", "m4", END)
    assert faults(g) == [
        "map `m1` goes over `item`, which is no field of `S`; did you mean `items`?",
        "map `m1` writes into `result`, which is no field of `S`; did you mean `results`?",
        "map `m2` goes over `number`, which is no collection but <class 'int'>",
        "map `m2`: at_most=0 must be at least 1",
        "map `m3` is of a function; input= and output= are for mapped graphs",
        "map `m4` takes its results from `numbr`, which is no field of `S`; did you mean `number`?",
        "map `m4` gives its graph `nubmer`, which is no field of `S`; did you mean `number`?",
        "map `m4` takes `txt`, which is no field of `S`; did you mean `text`?",
    ]


def test_a_map_collects_into_what_takes_errors() -> None:
    """`on_item_error="collect"` needs a field whose elements may be an `ItemError`."""

    class Collected(State):
        items: list[int] = []
        plain: list[int] = []
        mixed: list[int | ItemError] = []
        text: str = ""

    g = graph("START a END", state=Collected)
    g.map(nothing, name="bad", over="items", into="plain", on_item_error="collect")
    g.map(nothing, name="good", over="items", into="mixed", on_item_error="collect")
    g.map(nothing, name="flat", over="items", into="text")
    g.chain("a", "bad", "good", "flat", END)
    assert faults(g) == [
        "map `bad` collects errors into `plain`, whose elements cannot be an ItemError: declare list[... | ItemError]",
        "map `flat` writes its results into `text`, which is no list but <class 'str'>",
    ]


def test_gates_ask_with_fields_and_route_every_answer() -> None:
    """A question's placeholders, the field for the answer, and `to=` for all that the schema allows."""
    g = graph("START a END")
    g.gate("g1", question="Refund {amount} for {text.upper}?", into="answer", schema=str)
    g.gate("g2", question="{{no field}} {number:>3}", schema=Literal["yes", "no"], to={"yes": "a", "nope": END})
    g.gate("g3", question="?", schema=bool, to={True: END})
    g.chain("a", "g1", "g2")
    g.edge("g1", "g3")
    assert faults(g) == [
        "gate `g1` writes into `answer`, which is no field of `S`",
        "gate `g1` asks with `amount`, which is no field of `S`",
        "gate `g2` routes the answer 'nope', which its schema does not allow",
        "gate `g2` does not say where the answer 'no' leads",
        "gate `g3` does not say where the answer False leads",
    ]


@pytest.mark.parametrize("question", ["unfinished {", "lonely }", "{!z}", "{0}", "{}"])
def test_a_question_that_is_no_template(question: str) -> None:
    """Braces that do not fit are told when the graph is checked, not when a person should be asked."""
    g = graph("START a END")
    g.gate("ask", question=question)
    g.chain("a", "ask", END)
    assert all(fault.startswith("gate `ask`") for fault in faults(g))


def test_a_gate_with_a_schema_that_is_none() -> None:
    """What pydantic cannot make a schema of is a fault."""
    g = graph("START a END")
    g.gate("ask", question="?", schema=Plain)
    g.chain("a", "ask", END)
    assert faults(g) == [
        "gate `ask` can have no answer of its schema: instances of `Plain` have no JSON form that pydantic knows"
    ]


def test_nested_graphs_share_fields_or_say_how() -> None:
    """Inputs and outputs name fields on both sides; what the child needs and nobody gives is told."""

    class Child(State):
        needed: str
        other: int = 0

    class Apart(State):
        alone: int = 0

    child = graph("START a END", state=Child, name="child")
    apart = graph("START a END", state=Apart, name="apart")
    g = graph("START a END")
    g.node(child, name="c1")
    g.node(child, name="c2", input={"neded": "text", "needed": "txet"}, output={"nubmer": "othr"})
    g.node(apart, name="c3")
    g.chain("a", "c1", "c2", "c3", END)
    assert faults(g) == [
        "node `c1`: its graph needs `needed`, which `S` does not have: pass input={'needed': ...}",
        "node `c1` and its graph share no field: pass input= and output=",
        "node `c2` gives its graph `neded`, which is no field of `Child`; did you mean `needed`?",
        "node `c2` hands in `txet`, which is no field of `S`; did you mean `text`?",
        "node `c2` writes `nubmer`, which is no field of `S`; did you mean `number`?",
        "node `c2` takes from its graph `othr`, which is no field of `Child`; did you mean `other`?",
        "node `c3` and its graph share no field: pass input= and output=",
    ]


def test_a_graph_within_itself() -> None:
    """Directly or through another one, it is refused."""
    g = graph("START a END", name="outer")
    inner = graph("START b END", name="inner")
    inner.node(g)
    inner.chain("b", "outer", END)
    g.node(inner)
    g.node(g, name="self")
    g.chain("a", "inner", "self", END)
    assert faults(g) == [
        "in node `inner`, graph `inner`: node `outer` holds the graph `outer`, which it is itself a part of",
        "node `self` holds the graph `outer`, which it is itself a part of",
    ]


# -- literal keys --------------------------------------------------------------------------------------------------


def test_keys_in_the_source() -> None:
    """Keys of the dicts that a node returns are read from its source, with their lines; no source, no opinion."""
    g: Graph[S, object] = Graph("g", S)

    @g.node
    def plain(state: S) -> Update:
        if state.number:
            return {"txt": 1, "text": ""}
        return {"notes": [], **state.model_dump()} if state.text else {"nubmer": 2}

    @g.node
    def jump(state: S) -> Goto[Literal["END"]]:
        return Goto("END", {"ntes": ["x"]})

    @g.node
    def fine(state: S) -> Update:
        def inner() -> dict[str, int]:
            return {"whatever": 1}

        key = "dynamic"
        return {key: inner(), "number": 1}

    exec_made: dict[str, Any] = {}
    exec("def made(state):\n    return {'unknown': 1}", exec_made)  # noqa: S102  # a function without source
    g.node(exec_made["made"])
    g.chain(START, plain, fine, "made", jump)
    first, other = plain.__code__.co_firstlineno, jump.__code__.co_firstlineno
    assert faults(g) == [
        f"node `{name}` (line {line}) returns `{key}`, which is no field of `S`; did you mean `{near}`?"
        for name, line, key, near in [
            ("plain", first + 3, "txt", "text"),
            ("plain", first + 4, "nubmer", "number"),
            ("jump", other + 2, "ntes", "notes"),
        ]
    ]


def test_keys_are_not_looked_at_where_extras_are_ignored() -> None:
    """A state that says it drops what it does not know is taken at its word."""

    class Loose(BaseModel):
        model_config = ConfigDict(extra="ignore")
        x: int = 0

    g: Graph[Loose, object] = Graph("g", Loose)

    @g.node
    def a(state: Loose) -> Update:
        return {"x": 1, "y": 2}

    g.chain(START, a, END)
    assert g.run_sync().state == Loose(x=1)


# -- ties ----------------------------------------------------------------------------------------------------------


def tied() -> Graph[Any, Any]:
    """Two joins that can each reach the other without passing the fork above both."""
    g = graph("START fork j1", "fork j2")
    g.router(choose, name="r1", to=["j2", "END"])
    g.router(choose, name="r2", to=["j1", "END"])
    g.edge("j1", "r1")
    g.edge("j2", "r2")
    return g


def test_joins_that_wait_for_each_other_need_an_order() -> None:
    """They are named; with `before` they pass; an order of what is no join, or in a circle, is refused."""
    text = "the joins `j1`, `j2` can wait for each other: declare which goes first with before(first, second), "
    text += "for each pair"
    assert faults(tied()) == [text]
    for first, second in (("j1", "j2"), ("j2", "j1")):
        g = tied()
        g.before(first, second)
        g.check()
        assert g.topology.has_ties
    circle = tied()
    circle.before("j1", "j2")
    circle.before("j2", "j1")
    assert faults(circle) == [text]
    odd = tied()
    odd.before("j1", "j2")
    odd.before("fork", "j2")
    odd.before("j1", "ghost")
    assert faults(odd) == ["before(`fork`, `j2`): `fork` is no join", "before(`j1`, `ghost`): `ghost` is no join"]


# -- warnings ------------------------------------------------------------------------------------------------------


def test_parallel_writers_are_warned_of() -> None:
    """By `writes=`, by the source, by a map's or gate's field; a reducer, one writer or a sequence is fine."""
    g = graph("START fork")
    g.node(lambda state: {}, name="a", writes=["text", "notes"])

    @g.node
    def b(state: S) -> Update:
        return {"text": "b", "notes": ["b"], "number": 1}

    g.map(nothing, name="m", over="items", into="results")
    g.gate("q", question="?", into="text")
    g.node(lambda state: {}, name="c", writes=["results", "number"])
    for name in ("a", "b", "m", "q", "c"):
        g.chain("fork", name, END)
    assert g.check() == tuple(
        f"`{one}` and `{other}` may run beside one another and both write `{field}`, which has no reducer: differing "
        "values will be a conflict where they meet"
        for one, other, field in [("a", "b", "text"), ("b", "c", "number"), ("m", "c", "results")]
    )
    line = graph("START x END")
    line.node(lambda state: {}, name="y", writes=["text"])
    line.node(lambda state: {}, name="z", writes=["text"])
    line.chain("x", "y", "z", END)
    assert line.check() == ()


def test_branches_that_each_leave_or_repeat_a_loop_are_warned_of() -> None:
    """`writer -> c1, c2`, each `-> writer | done`: they should meet before deciding."""
    g = graph("START writer", "done END")
    for name in ("c1", "c2"):
        g.router(choose, name=name, to=["writer", "done"])
        g.edge("writer", name)
    assert g.check() == (
        "branches out of `writer` may each leave or repeat their loop (`c1`, `c2`): let them meet before they decide",
    )


def test_warnings_of_nested_graphs_are_told_with_their_place() -> None:
    """They name the node that holds the graph; a run carries all warnings."""
    child: Graph[S, object] = Graph("child", S)
    child.node(lambda state: {"text": "x"}, name="a", writes=["text"])
    child.node(lambda state: {"text": "x"}, name="b", writes=["text"])
    for name in ("a", "b"):
        child.chain(START, name, END)
    g: Graph[S, object] = Graph("g", S)
    g.node(child)
    g.chain(START, child, END)
    warning = (
        "in node `child`: `a` and `b` may run beside one another and both write `text`, which has no reducer: "
        "differing values will be a conflict where they meet"
    )
    assert g.check() == (warning,)
    assert g.run_sync().warnings == (warning,)


# -- what a checked graph is ---------------------------------------------------------------------------------------


def test_to_networkx() -> None:
    """The checked definition as a networkx graph, with kinds and labels."""
    g = graph("START a", "b END")
    g.router(choose, name="pick", to={"go": "b", "stop": END})
    g.edge("a", "pick")
    network = g.to_networkx()
    assert {name: data.get("kind") for name, data in network.nodes(data=True)} == {
        "START": None,
        "END": None,
        "a": "node",
        "b": "node",
        "pick": "router",
    }
    assert {(tail, head): (data["kind"], data["label"]) for tail, head, data in network.edges(data=True)} == {
        ("START", "a"): ("fixed", ""),
        ("a", "pick"): ("fixed", ""),
        ("b", "END"): ("fixed", ""),
        ("pick", "b"): ("choice", "go"),
        ("pick", "END"): ("choice", "stop"),
    }


def test_sends_go_to_item_nodes() -> None:
    """A router of `Send`s declares its targets like any other."""
    g: Graph[S, object] = Graph("g", S)

    @g.node(item=True)
    def one(item: int) -> Update:
        return {"notes": [str(item)]}

    @g.router(to=[one])
    def spread(state: S) -> list[Send]:
        return [Send("one", item) for item in state.items]

    g.edge(START, spread)
    g.edge(one, END)
    assert g.check() == ()
    assert g.run_sync({"items": [1, 2]}).state.notes == ["1", "2"]
