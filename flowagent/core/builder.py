"""The declaring half of `Graph`: decorators and methods that say which nodes and edges there are."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping
from typing import Any, Generic, Literal, NamedTuple, cast, overload

from pydantic import BaseModel
from typing_extensions import TypeVar, Unpack

from flowagent.core import bodies, signatures
from flowagent.core.bodies import MapBody, NodeBody, RouterBody
from flowagent.core.context import Context
from flowagent.core.decorators import C, NodeDecorator, NodeOptions, R, RouterDecorator
from flowagent.core.definition import Definition, Ref, Targets, default_name, is_lambda
from flowagent.core.nodes import (
    FunctionNode,
    GateNode,
    GraphNode,
    ItemNode,
    MapNode,
    Options,
    RouterNode,
)
from flowagent.core.policies import OnItemError
from flowagent.errors import GraphError

StateT = TypeVar("StateT", bound=BaseModel)
DepsT = TypeVar("DepsT", default=object)

F = TypeVar("F", bound=Callable[..., Any])
BodyT = TypeVar("BodyT", bound=NodeBody)
MapBodyT = TypeVar("MapBodyT", bound=MapBody)
RouterT = TypeVar("RouterT", bound=RouterBody)


class _Mapped(NamedTuple):
    """What a map does for each item, and what it is called if nobody names it."""

    name: str
    body: Any
    options: Options
    input: Any
    output: Any


class Builder(Definition, Generic[StateT, DepsT]):
    """Declares the nodes and edges of a graph over one state model."""

    def __init__(self, name: str, state: type[StateT]) -> None:
        super().__init__(name)
        if not isinstance(state, type) or not issubclass(state, BaseModel):  # pyright: ignore[reportUnnecessaryIsInstance]  # users pass anything
            raise GraphError(name, [f"the state must be a pydantic model class, not {state!r}"])
        self.state: type[StateT] = state  # pyright: ignore[reportIncompatibleVariableOverride]  # set here, once

    # -- nodes -----------------------------------------------------------------------------------------------------

    @overload
    def node(self, fn: Callable[[StateT], R], /) -> Callable[[StateT], R]: ...
    @overload
    def node(
        self, fn: Callable[[StateT, Context[DepsT, StateT]], R], /
    ) -> Callable[[StateT, Context[DepsT, StateT]], R]: ...
    @overload
    def node(
        self,
        fn: Definition,
        /,
        *,
        name: str | None = None,
        input: Mapping[str, str] | Callable[[StateT], BaseModel | Mapping[str, object]] | None = None,
        output: Mapping[str, str] | Callable[[Any], Mapping[str, object] | None] | None = None,
        **options: Unpack[NodeOptions],
    ) -> Definition: ...
    @overload
    def node(self, fn: BodyT, /, *, name: str | None = None, **given: Any) -> BodyT: ...
    @overload
    def node(
        self,
        fn: F,
        /,
        *,
        name: str | None = None,
        to: Targets = None,
        item: bool = False,
        **options: Unpack[NodeOptions],
    ) -> F: ...
    @overload
    def node(
        self,
        /,
        *,
        name: str | None = None,
        to: Targets = None,
        item: Literal[False] = False,
        **options: Unpack[NodeOptions],
    ) -> NodeDecorator[StateT, DepsT]: ...
    @overload
    def node(
        self, /, *, name: str | None = None, item: Literal[True], **options: Unpack[NodeOptions]
    ) -> Callable[[F], F]: ...
    def node(self, fn: Any = None, /, *, name: str | None = None, **given: Any) -> Any:
        """Declare a node: a function of the state, another graph, or an agent.

        Args:
            fn: a function `(state)` or `(state, ctx)`, sync or async, that returns an update; or a graph; or something
                that says itself what it is as a node, such as an agent.
            name: the node's name, by default the function's, the graph's or the agent's.
            to: the targets of its `Goto`, where the annotation does not say them.
            item: the node is the target of `Send`s; its first parameter is the item.
            input: for graphs, `{child_field: field}` or a function of the state that gives the child's input; by
                default fields of the same name.
            output: for graphs, `{field: child_field}` or a function of the child's state that gives an update.
            given: see `NodeOptions`; an agent has options of its own, such as `prompt=`.

        Returns:
            What was given, unchanged.
        """
        if fn is None:
            return functools.partial(self.node, name=name, **given)
        self.refuse_if_frozen(f"node `{name or default_name(fn)}`")
        if isinstance(fn, Definition):
            self._add_graph(fn, name or fn.name, given)
        elif bodies.is_node_body(fn):
            self._add_body(fn, name, given)
        else:
            self._add_function(fn, self._named(fn, name), given)
        return fn

    def _add_graph(self, child: Definition, name: str, given: dict[str, Any]) -> None:
        options = self.options(None, {k: v for k, v in given.items() if k not in ("input", "output")})
        node = GraphNode(
            name=name, options=options, child=cast("Any", child), input=given.get("input"), output=given.get("output")
        )
        self.add(node, child)

    def _add_body(self, body: NodeBody, name: str | None, given: dict[str, Any]) -> None:
        """Something that says itself what it is, and takes its own options out of those that were given."""
        left = dict(given)
        try:
            made = body.as_node(self, left)
        except GraphError as error:
            self._faults.extend(error.faults)
            return
        options = self.options(None, {"shape": made.shape, **left})
        own_name = made.name if name is None else name
        self.add(
            GraphNode(
                name=own_name,
                options=options,
                child=made.child,
                input=cast("Any", made.input),
                output=cast("Any", made.output),
            ),
            body,
        )

    def _add_function(self, fn: Callable[..., Any], name: str, given: dict[str, Any]) -> None:
        to, item = given.pop("to", None), given.pop("item", False)
        options = self.options(fn, given)
        try:
            function = signatures.function_of(self.name, name, fn, takes="an item" if item else "the state")
        except GraphError as error:
            self._faults.extend(error.faults)
            return
        if item:
            item_type = signatures.hint_at(fn, 0, Any)
            self.add(ItemNode(name=name, options=options, function=function, item_type=item_type), fn)
            return
        targets = None
        if to is not None or self.jumps(fn):
            targets, _ = self.declared_targets(name, fn, to, jumps=True)
        self.add(FunctionNode(name=name, options=options, function=function, targets=targets), fn)

    @overload
    def router(
        self,
        fn: RouterT,
        /,
        *,
        name: str | None = None,
        to: Targets = None,
        empty: Ref | None = None,
        **options: Unpack[NodeOptions],
    ) -> RouterT: ...
    @overload
    def router(self, fn: Callable[[StateT], C], /) -> Callable[[StateT], C]: ...
    @overload
    def router(
        self, fn: Callable[[StateT, Context[DepsT, StateT]], C], /
    ) -> Callable[[StateT, Context[DepsT, StateT]], C]: ...
    @overload
    def router(
        self,
        fn: F,
        /,
        *,
        name: str | None = None,
        to: Targets = None,
        empty: Ref | None = None,
        **options: Unpack[NodeOptions],
    ) -> F: ...
    @overload
    def router(
        self,
        /,
        *,
        name: str | None = None,
        to: Targets = None,
        empty: Ref | None = None,
        **options: Unpack[NodeOptions],
    ) -> RouterDecorator[StateT, DepsT]: ...
    def router(
        self, fn: Any = None, /, *, name: str | None = None, to: Targets = None, empty: Ref | None = None, **given: Any
    ) -> Any:
        """Declare a router: a function of the state that decides what is next and writes nothing.

        It returns a name, several names (a fork), `END`, or `Send`s.

        Args:
            fn: a function `(state)` or `(state, ctx)`, sync or async.
            name: the router's name, by default the function's.
            to: its targets, or `{what it returns: target}`; by default those that it brings as `targets`, or the
                `Literal` of its return annotation.
            empty: where the run goes when it returns no target and no `Send`; by default that is an error.
            given: see `NodeOptions`.

        Returns:
            What was given, unchanged.
        """
        if fn is None:
            return functools.partial(self.router, name=name, to=to, empty=empty, **given)
        self.refuse_if_frozen(f"router `{name or default_name(fn)}`")
        own_name = self._named(fn, name)
        try:
            function = signatures.function_of(self.name, own_name, fn)
        except GraphError as error:
            self._faults.extend(error.faults)
            return fn
        targets, labels = self.declared_targets(own_name, fn, to, jumps=False)
        self._faults.extend(bodies.faults_told_by(fn, self.state))
        node = RouterNode(
            name=own_name,
            options=self.options(fn, given),
            function=function,
            targets=targets,
            labels=labels,
            empty=None if empty is None else self.ref_name(empty),
        )
        self.add(node, fn)
        return fn

    @overload
    def map(
        self,
        body: Definition,
        /,
        *,
        over: str,
        into: str,
        name: str | None = None,
        input: Mapping[str, str] | str | Callable[..., Any] | None = None,
        output: str | Callable[[Any], Any] | None = None,
        at_most: int | None = None,
        on_item_error: OnItemError = "fail",
        **options: Unpack[NodeOptions],
    ) -> Definition: ...
    @overload
    def map(
        self,
        body: MapBodyT,
        /,
        *,
        over: str,
        into: str,
        name: str | None = None,
        at_most: int | None = None,
        on_item_error: OnItemError = "fail",
        **given: Any,
    ) -> MapBodyT: ...
    @overload
    def map(
        self,
        body: F,
        /,
        *,
        over: str,
        into: str,
        name: str | None = None,
        at_most: int | None = None,
        on_item_error: OnItemError = "fail",
        **options: Unpack[NodeOptions],
    ) -> F: ...
    @overload
    def map(
        self,
        /,
        *,
        over: str,
        into: str,
        name: str | None = None,
        at_most: int | None = None,
        on_item_error: OnItemError = "fail",
        **options: Unpack[NodeOptions],
    ) -> Callable[[F], F]: ...
    def map(
        self,
        body: Any = None,
        /,
        *,
        over: str,
        into: str,
        name: str | None = None,
        input: Any = None,
        output: Any = None,
        at_most: int | None = None,
        on_item_error: OnItemError = "fail",
        **given: Any,
    ) -> Any:
        """Declare a map: one function or graph over all items of a field, side by side.

        What follows it runs once, after all items. The results go into a field in the order of the items.

        Args:
            body: a function `(item)` or `(item, ctx)` that returns a result; or a graph; or something that says itself
                what it is when it is mapped, such as an agent.
            over: the field with the items.
            into: the field for the results.
            name: the node's name, by default the function's or the graph's.
            input: for graphs, the child field that gets the item; or `{child_field: field}`, where the field
                `"item"` stands for the item; or a function of the item (or of item and state) that gives the
                child's input. By default the item itself is that input.
            output: for graphs, the child field that is the result, or a function of the child's state; by default
                its whole state.
            at_most: how many items run at a time. One that failed, or can only wait for an answer, makes room for
                the next; when the answer is there it goes on as soon as there is room.
            on_item_error: `"fail"`: the map fails, after all other items have finished; `"skip"`: the item has no
                result; `"collect"`: an `ItemError` stands in its place.
            given: see `NodeOptions`.

        Returns:
            What was given, unchanged.
        """
        if body is None:
            return functools.partial(
                self.map, over=over, into=into, name=name, at_most=at_most, on_item_error=on_item_error, **given
            )
        self.refuse_if_frozen(f"map `{name or default_name(body)}`")
        own_name = self._named(body, name)
        asked = {name: value for name, value in (("input", input), ("output", output)) if value is not None}
        try:
            made = self._mapped(body, own_name, over, into, {**given, **asked})
        except GraphError as error:
            self._faults.extend(error.faults)
            return body
        node = MapNode(
            name=made.name if name is None else name,
            options=made.options,
            over=over,
            into=into,
            body=made.body,
            input=made.input,
            output=made.output,
            at_most=at_most,
            on_item_error=on_item_error,
        )
        self.add(node, body)
        return body

    def _mapped(self, body: Any, name: str, over: str, into: str, given: dict[str, Any]) -> _Mapped:
        """What is done for each item.

        Raises:
            GraphError: it is nothing that can be.
        """
        if bodies.is_map_body(body) and not isinstance(body, Definition):
            made = body.as_map(self, over, into, given)
            options = self.options(None, {"shape": made.shape, **given})
            return _Mapped(made.name, made.child, options, cast("Any", made.input), cast("Any", made.output))
        item, output = given.pop("input", None), given.pop("output", None)
        fed = {item: "item"} if isinstance(item, str) else item
        inner = body if isinstance(body, Definition) else signatures.function_of(self.name, name, body, takes="an item")
        return _Mapped(name, cast("Any", inner), self.options(body, given), fed, output)

    def gate(
        self,
        name: str,
        *,
        question: str,
        into: str | None = None,
        schema: Any = str,
        to: Mapping[Any, Ref] | None = None,
        **options: Unpack[NodeOptions],
    ) -> str:
        """Declare a gate: it asks a person or a program, and the run waits for the answer. No code runs twice.

        Args:
            name: the gate's name.
            question: what to show; `{field}` stands for a field of the state.
            into: the field that the answer goes into, or None.
            schema: the type of the answer, such as `bool` or `Literal["approve", "deny"]`.
            to: `{answer: node}`, in place of an edge.
            options: see `NodeOptions`.

        Returns:
            The name, for use in edges.
        """
        labels = None if to is None else {answer: self.ref_name(ref) for answer, ref in to.items()}
        given = self.options(None, cast("dict[str, Any]", options))
        self.add(GateNode(name=name, options=given, question=question, into=into, schema=schema, to=labels), name)
        return name

    # -- edges -----------------------------------------------------------------------------------------------------

    def edge(self, tail: Ref, head: Ref, /) -> None:
        """Declare a fixed edge. Several out of one node fork: all targets run; their order is the merge order."""
        self.connect(tail, head)

    def chain(self, first: Ref, second: Ref, /, *more: Ref) -> None:
        """Declare fixed edges from each to the next: `g.chain(START, read, write, END)`. A router ends a chain."""
        for tail, head in itertools.pairwise([first, second, *more]):
            self.connect(tail, head)

    def before(self, first: Ref, second: Ref, /) -> None:
        """Declare which of two joins fires first where each could wait for the other; `check` says when to."""
        self.order(first, second)

    def _named(self, fn: object, name: str | None) -> str:
        if name is None and is_lambda(fn):
            self.fault("a lambda has no name: pass name=")
        return name if name is not None else default_name(fn)
