"""What may be said about any node, and the types of the decorators that take functions as they are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeAlias, TypedDict, overload

from pydantic import BaseModel
from typing_extensions import TypeVar

from flowagent.core.context import Context
from flowagent.core.definition import Ref
from flowagent.core.nodes import Goto, Send, Shape
from flowagent.core.policies import Join, Retry

Result: TypeAlias = "Mapping[str, object] | BaseModel | Goto[str] | None"
R = TypeVar("R", bound="Result | Awaitable[Result]")
Choice: TypeAlias = "str | Send | Sequence[str | Send] | bool | int | None"
C = TypeVar("C", bound="Choice | Awaitable[Choice]")
NodeStateT = TypeVar("NodeStateT")
NodeDepsT = TypeVar("NodeDepsT")


class NodeOptions(TypedDict, total=False):
    """What may be said about any node.

    Keys:
        retry: how often a failed attempt is repeated.
        timeout: seconds for one attempt.
        on_error: the node that takes over when this one fails for good.
        once: never repeat a call whose outcome is not known; ask instead.
        join: what several incoming edges mean: `"all"` meet, `"each"` runs once for each arrival.
        writes: the fields that it may write, for `check`.
        tags: free words, kept in the definition.
        doc: a line for people; the docstring's first paragraph by default.
        shape: how pictures draw it, where it is a part of an agent.
    """

    retry: Retry
    timeout: float
    on_error: Ref
    once: bool
    join: Join
    writes: Sequence[str]
    tags: Sequence[str]
    doc: str
    shape: Shape


class NodeDecorator(Protocol[NodeStateT, NodeDepsT]):
    """`@g.node(...)`: takes a function of the state, or of the state and a `Context`, and returns it unchanged."""

    @overload
    def __call__(self, fn: Callable[[NodeStateT], R], /) -> Callable[[NodeStateT], R]: ...
    @overload
    def __call__(
        self, fn: Callable[[NodeStateT, Context[NodeDepsT, NodeStateT]], R], /
    ) -> Callable[[NodeStateT, Context[NodeDepsT, NodeStateT]], R]: ...


class RouterDecorator(Protocol[NodeStateT, NodeDepsT]):
    """`@g.router(...)`: takes a function that returns what is next, and returns it unchanged."""

    @overload
    def __call__(self, fn: Callable[[NodeStateT], C], /) -> Callable[[NodeStateT], C]: ...
    @overload
    def __call__(
        self, fn: Callable[[NodeStateT, Context[NodeDepsT, NodeStateT]], C], /
    ) -> Callable[[NodeStateT, Context[NodeDepsT, NodeStateT]], C]: ...
