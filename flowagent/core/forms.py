"""What a record of each kind must hold, whoever wrote it: readers may rely on it, and on the types of it.

More may be there (a later version may add something), and values of the state are not looked into: their types are
the graph's to tell.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from pydantic_core import CoreSchema, SchemaValidator, core_schema, from_json

from flowagent.core.records import RecordKind

# As pydantic's core has them, and not as the types that it makes them of: a resumed run reads two kinds of records
# first of all, and to make their validators of types would take longer than all the rest.
_ANY: Final = core_schema.any_schema()
_TEXT: Final = core_schema.str_schema()
_INT: Final = core_schema.int_schema(strict=True)
_FLOAT: Final = core_schema.float_schema(strict=True)
_BOOL: Final = core_schema.bool_schema(strict=True)
_TEXTS: Final = core_schema.list_schema(_TEXT)


def _named(values: CoreSchema) -> CoreSchema:
    return core_schema.dict_schema(_TEXT, values)


def _one_of(*words: str) -> CoreSchema:
    return core_schema.literal_schema(list(words))


def _holding(
    required: dict[str, CoreSchema], optional: dict[str, CoreSchema] | None = None, ref: str | None = None
) -> CoreSchema:
    fields = {name: core_schema.typed_dict_field(schema) for name, schema in required.items()}
    for name, schema in (optional or {}).items():
        fields[name] = core_schema.typed_dict_field(schema, required=False)
    return core_schema.typed_dict_schema(fields, ref=ref)


def _usage() -> CoreSchema:
    count = core_schema.int_schema(strict=True, ge=0)
    known = ("requests", "failed", "tool_calls", "unmeasured", "unpriced")
    perhaps = ("input", "output", "cache_read", "cache_write", "reasoning")
    counts = dict.fromkeys((*known, *perhaps), count)
    usage = _holding({}, {**counts, "cost": core_schema.decimal_schema(allow_inf_nan=False)})
    return _holding({}, {"usage": usage})


def _record(optional: dict[str, CoreSchema] | None = None, /, **required: CoreSchema) -> CoreSchema:
    return _holding(required, {"at": _FLOAT, **(optional or {})})


def _writes() -> CoreSchema:
    kind = _one_of("set", "delta", "replace")
    return _named(core_schema.tuple_schema([kind, core_schema.list_schema(_ANY)]))


def _started() -> CoreSchema:
    shape = core_schema.definition_reference_schema("shape")
    kind = _one_of("fixed", "choice", "error")
    parts = {
        "fields": _named(_TEXT),
        "nodes": _named(_holding({"kind": _TEXT}, {"child": shape})),
        "edges": core_schema.list_schema(core_schema.tuple_schema([_TEXT, _TEXT, kind])),
    }
    record = _record({"carried": _named(_TEXT)}, graph=_TEXT, fingerprint=_TEXT, shape=shape, input=_named(_ANY))
    return core_schema.definitions_schema(record, [_holding(parts, ref="shape")])


def _done() -> CoreSchema:
    sent = core_schema.tuple_schema([_TEXT, core_schema.list_schema(_ANY)])
    # In this order, and not by trying both: that makes reading a record twice as fast.
    way = core_schema.union_schema([_TEXT, sent], mode="left_to_right")
    to = core_schema.list_schema(way)
    return _record({"parents": _TEXTS, "attempt": _INT, "writes": _writes()}, task=_TEXT, to=to, s=_FLOAT)


def _failed() -> CoreSchema:
    texts = dict.fromkeys(("graph", "node", "task", "kind", "message"), _TEXT)
    error = _holding({**texts, "attempt": _INT, "merge": _BOOL})
    errors = core_schema.list_schema(error)
    return _record(task=_TEXT, node=_TEXT, attempt=_INT, final=_BOOL, errors=errors, s=_FLOAT)


def _asked() -> CoreSchema:
    texts = dict.fromkeys(("id", "task", "node", "name", "text"), _TEXT)
    schema = core_schema.nullable_schema(_named(_ANY))
    return _record({"about": _ANY}, **texts, schema=schema, purpose=_one_of("ask", "once"))


def _ended() -> CoreSchema:
    status = _one_of("waiting", "failed", "cancelled", "limit", "interrupted", "completed")
    return _record(status=status, reason=_TEXT)


_FORMS: Final[dict[RecordKind, Callable[[], CoreSchema]]] = {
    "started": _started,
    "opened": lambda: _record(task=_TEXT, node=_TEXT, input=_named(_ANY)),
    "done": _done,
    "item": lambda: _record({"attempt": _INT}, task=_TEXT, value=_ANY, s=_FLOAT),
    "failed": _failed,
    "asked": _asked,
    "answered": lambda: _record(task=_TEXT, id=_TEXT, value=_ANY),
    "memo": lambda: _record(task=_TEXT, name=_TEXT, data=_ANY),
    "attempted": lambda: _record(task=_TEXT),
    "resolved": lambda: _record(task=_TEXT, node=_TEXT, writes=_writes()),
    "retried": lambda: _record({"fresh": _TEXTS, "inside": _TEXTS}),
    "ended": _ended,
}


@functools.cache
def _validator(kind: RecordKind) -> SchemaValidator:
    return SchemaValidator(_FORMS[kind]())


@functools.cache
def _usage_validator() -> SchemaValidator:
    """What a record of any kind holds that tells of something spent. Few do, so that it is made apart."""
    return SchemaValidator(_usage())


def read(kind: RecordKind, data: bytes) -> dict[str, Any]:
    """The JSON of a record as plain data.

    Raises:
        ValueError: it is no JSON, or not what a record of that kind holds.
    """
    if kind not in _FORMS:
        raise ValueError(f"unknown kind {kind!r}")
    # What is judged is what was read: the validator's own result lacks what it does not know, and is left aside.
    content = from_json(data, cache_strings="keys")
    _validator(kind).validate_python(content)
    if "usage" in content:
        _usage_validator().validate_python(content)
    return content
