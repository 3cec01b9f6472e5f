"""What a record of each kind must hold, whoever wrote it: readers may rely on it, and on the types of it.

More may be there (a later version may add something), and values of the state are not looked into: their types are
the graph's to tell.
"""

from __future__ import annotations

import functools
from typing import Annotated, Any, Final, Literal, NotRequired

from pydantic import Field, StrictBool, StrictFloat, StrictInt, TypeAdapter
from pydantic_core import from_json
from typing_extensions import TypedDict

from flowagent.core.records import RecordKind

_Writes = dict[str, tuple[Literal["set", "delta", "replace"], list[Any]]]
# In this order, and not by trying both: that makes reading a record twice as fast.
_Way = Annotated[str | tuple[str, list[Any]], Field(union_mode="left_to_right")]


class _Anything(TypedDict):
    at: NotRequired[StrictFloat]


class _OfTask(_Anything):
    task: str


class _NodeShape(TypedDict):
    kind: str
    child: NotRequired[_Shape]


class _Shape(TypedDict):
    fields: dict[str, str]
    nodes: dict[str, _NodeShape]
    edges: list[tuple[str, str, Literal["fixed", "choice", "error"]]]


class _Started(_Anything):
    graph: str
    fingerprint: str
    shape: _Shape
    input: dict[str, Any]


class _Opened(_OfTask):
    node: str
    input: dict[str, Any]


class _Done(_OfTask):
    node: str
    parents: list[str]
    attempt: StrictInt
    writes: _Writes
    to: list[_Way]
    s: StrictFloat


class _Item(_OfTask):
    node: str
    attempt: StrictInt
    value: Any
    s: StrictFloat


class _Error(TypedDict):
    graph: str
    node: str
    task: str
    attempt: StrictInt
    kind: str
    message: str
    merge: StrictBool


class _Failed(_OfTask):
    node: str
    attempt: StrictInt
    final: StrictBool
    errors: list[_Error]
    s: StrictFloat


class _Asked(_OfTask):
    id: str
    node: str
    name: str
    text: str
    schema: dict[str, Any] | None
    purpose: Literal["ask", "once"]


class _Answered(_OfTask):
    id: str
    value: Any


class _Memo(_OfTask):
    name: str
    data: Any


class _Resolved(_OfTask):
    node: str
    writes: _Writes


class _Retried(_Anything):
    fresh: NotRequired[list[str]]
    inside: NotRequired[list[str]]


class _Ended(_Anything):
    status: Literal["waiting", "failed", "cancelled", "limit", "interrupted", "completed"]
    reason: str


_FORMS: Final[dict[RecordKind, Any]] = {
    "started": _Started,
    "opened": _Opened,
    "done": _Done,
    "item": _Item,
    "failed": _Failed,
    "asked": _Asked,
    "answered": _Answered,
    "memo": _Memo,
    "attempted": _OfTask,
    "resolved": _Resolved,
    "retried": _Retried,
    "ended": _Ended,
}


@functools.cache
def _adapter(kind: RecordKind) -> TypeAdapter[dict[str, Any]]:
    return TypeAdapter(_FORMS[kind])


def read(kind: RecordKind, data: bytes) -> dict[str, Any]:
    """The JSON of a record as plain data.

    Raises:
        ValueError: it is no JSON, or not what a record of that kind holds.
    """
    if kind not in _FORMS:
        raise ValueError(f"unknown kind {kind!r}")
    # What is judged is what was read: the adapter's own result lacks what it does not know, and is left aside.
    content = from_json(data, cache_strings="keys")
    _adapter(kind).validator.validate_python(content)
    return content
