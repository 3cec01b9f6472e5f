"""The operations of an OpenAPI document: of each, what a model is told, and how a call of it is written."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (A document may hold anything: it is looked at here.)
from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from flowagent.tools.document import Document, Fault, Schemas, pointer, variables
from flowagent.tools.wire import STYLES, Body, Parameter, Where

_METHODS: Final = ("get", "put", "post", "delete", "patch", "head", "options")
_READING: Final = frozenset({"get", "head", "options"})
_OURS: Final = frozenset({"accept", "content-type", "authorization"})
"""Headers that the specification gives to the client."""

_FORM: Final = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation.

    Args:
        name: its `operationId`, or made of method and path.
        method: in small letters.
        path: with the names of parameters in braces.
        description: what the model is told.
        parameters: where arguments go.
        body: which argument is the body, if there is one.
        schema: the JSON schema of the arguments.
        returns: the JSON schema of what a success answers, if it is known.
        security: what must be known to call it: any one of these sets of schemes; none if nothing must be.
        tags: its own.
        is_reading: whether its method promises to change nothing.
        where: where it stands, as a JSON pointer.
    """

    name: str
    method: str
    path: str
    description: str
    parameters: tuple[Parameter, ...]
    body: Body | None
    schema: dict[str, Any]
    returns: dict[str, Any] | None
    security: tuple[frozenset[str], ...]
    tags: tuple[str, ...]
    is_reading: bool
    where: str


@dataclass(frozen=True, slots=True)
class Found:
    """An operation that was found, and not yet read.

    Args:
        name: its `operationId`, or made of method and path.
        method: in small letters.
        path: with the names of parameters in braces.
        item: the path's object, with what all its operations share.
        raw: its own object.
        where: where it stands.
        inherited: where the path's object stands.
    """

    name: str
    method: str
    path: str
    item: Mapping[str, Any]
    raw: Mapping[str, Any]
    where: str
    inherited: str

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags that the document gives it."""
        return tuple(str(tag) for tag in self.raw.get("tags") or ())

    @property
    def is_reading(self) -> bool:
        """Whether its method promises to change nothing."""
        return self.method in _READING


def found_in(document: Document, faults: list[str]) -> Iterator[Found]:
    """All operations of a document; what is wrong with its paths is added to the faults."""
    paths = document.data.get("paths", {})
    for path, raw in paths.items() if isinstance(paths, Mapping) else ():
        try:
            item, inherited = document.followed(raw, pointer("paths", path))
        except Fault as fault:
            faults.append(str(fault))
            continue
        for method in _METHODS:
            operation = item.get(method)
            if isinstance(operation, Mapping):
                name = operation.get("operationId") or _made_name(method, path)
                where = pointer("paths", path, method)
                yield Found(str(name), method, str(path), item, operation, where, inherited)
            elif operation is not None:
                faults.append(f"{pointer('paths', path, method)}: an operation is an object")


def _made_name(method: str, path: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", f"{method}_{path}").strip("_")


def read(document: Document, found: Found, faults: list[str]) -> Operation | None:
    """An operation as a tool needs it, or None if something is wrong with it; all of that is added to the faults."""
    reading = _Reading(document, found)
    operation = reading.operation()
    faults += reading.faults
    return None if reading.faults else operation


@dataclass(frozen=True, slots=True)
class _Argument:
    """What the model is asked for, before it has a name that is its own."""

    key: str
    place: str
    schema: Any
    required: bool
    made: Parameter | Body


class _Reading:
    """The reading of one operation."""

    def __init__(self, document: Document, found: Found) -> None:
        self.faults: list[str] = []
        self._document = document
        self._found = found
        self._schemas = Schemas(document, "request")

    def operation(self) -> Operation:
        found = self._found
        arguments = [*self._parameters(), *self._body()]
        named = _named(arguments)
        self._check_path(arguments)
        properties = {name: argument.schema for name, argument in named.items()}
        schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
        if required := [name for name, argument in named.items() if argument.required]:
            schema["required"] = required
        made = [_with_name(argument.made, name) for name, argument in named.items()]
        return Operation(
            name=found.name,
            method=found.method,
            path=found.path,
            description=_description(found),
            parameters=tuple(one for one in made if isinstance(one, Parameter)),
            body=next((one for one in made if isinstance(one, Body)), None),
            schema=self._schemas.with_definitions(schema),
            returns=self._returns(),
            security=self._security(),
            tags=found.tags,
            is_reading=found.is_reading,
            where=found.where,
        )

    # -- arguments ---------------------------------------------------------------------------------------------------

    def _parameters(self) -> list[_Argument]:
        """Those of the path, and in their place or beside them those of the operation."""
        found: dict[tuple[str, str], _Argument] = {}
        for holder, where in ((self._found.item, self._found.inherited), (self._found.raw, self._found.where)):
            for number, raw in enumerate(holder.get("parameters") or ()):
                try:
                    argument = self._parameter(raw, f"{where}/parameters/{number}")
                except Fault as fault:
                    self.faults.append(str(fault))
                    continue
                if argument.place != "header" or argument.key.lower() not in _OURS:
                    found[argument.place, argument.key] = argument
        return list(found.values())

    def _parameter(self, raw: Any, where: str) -> _Argument:
        one, where = self._document.followed(raw, where)
        key, place = one.get("name"), one.get("in")
        if not isinstance(key, str) or not key or not isinstance(place, str) or place not in STYLES:
            raise Fault(f"{where}: a parameter has a `name`, and `in` is one of {', '.join(STYLES)}, not {place!r}")
        style = one.get("style", STYLES[place][0])
        if style not in STYLES[place]:
            raise Fault(f"{where}: the style `{style}` is none for {place}; it is one of {', '.join(STYLES[place])}")
        if (content := one.get("content")) is not None:
            media, inner = self._json_of(content, f"{where}/content")
            schema = self._schemas.read(media.get("schema", True), inner)
        else:
            schema = self._schemas.read(one.get("schema", True), f"{where}/schema")
        parameter = Parameter(
            argument=key,
            key=key,
            where=cast("Where", place),
            style=style,
            explode=bool(one.get("explode", style == "form")),
            as_json=content is not None,
            reserved=one.get("allowReserved") is True,
        )
        return _Argument(key, place, _described(schema, one), place == "path" or one.get("required") is True, parameter)

    def _json_of(self, content: Any, where: str) -> tuple[Mapping[str, Any], str]:
        found, where = self._document.followed(content, where)
        for media_type, media in found.items():
            if _is_json(media_type):
                return self._document.followed(media, f"{where}{pointer(media_type)[1:]}")
        raise Fault(f"{where}: a parameter with `content` has JSON in it, not {', '.join(found) or 'nothing'}")

    def _body(self) -> list[_Argument]:
        raw = self._found.raw.get("requestBody")
        if raw is None:
            return []
        try:
            one, where = self._document.followed(raw, f"{self._found.where}/requestBody")
            content, where = self._document.followed(one.get("content", {}), f"{where}/content")
            media_type, body = _writable(content, where)
            media, where = self._document.followed(content[media_type], f"{where}{pointer(media_type)[1:]}")
            schema = self._schemas.read(media.get("schema", True), f"{where}/schema")
        except Fault as fault:
            self.faults.append(str(fault))
            return []
        return [_Argument("body", "request", _described(schema, one), one.get("required") is True, body)]

    def _check_path(self, arguments: list[_Argument]) -> None:
        """Each name in braces is a parameter, and each parameter of the path stands there."""
        wanted = set(variables(self._found.path))
        given = {one.key for one in arguments if one.place == "path"}
        if self.faults:
            return  # a parameter that could not be read is told already
        for name in sorted(wanted ^ given):
            missing = "is no parameter of it" if name in wanted else "is a parameter and not in the path"
            self.faults.append(f"{self._found.where}: `{name}` of the path `{self._found.path}` {missing}")

    # -- the rest ----------------------------------------------------------------------------------------------------

    def _returns(self) -> dict[str, Any] | None:
        """The schema of the first success that answers in JSON. A fault in it takes nothing from the tool."""
        responses = self._found.raw.get("responses")
        for status, raw in sorted(responses.items()) if isinstance(responses, Mapping) else ():
            if not str(status).startswith("2"):
                continue
            try:
                one, where = self._document.followed(raw, f"{self._found.where}/responses/{status}")
                media, where = self._json_of(one.get("content", {}), f"{where}/content")
                schemas = Schemas(self._document, "response")
                schema = schemas.read(media["schema"], f"{where}/schema")
            except (Fault, KeyError):
                continue
            return schemas.with_definitions(schema) if isinstance(schema, dict) else None
        return None

    def _security(self) -> tuple[frozenset[str], ...]:
        raw = self._found.raw.get("security", self._document.data.get("security"))
        return tuple(frozenset(map(str, one)) for one in raw or () if isinstance(one, Mapping))


def _is_json(media_type: str) -> bool:
    kind = media_type.partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")


def _writable(content: Mapping[str, Any], where: str) -> tuple[str, Body]:
    """The first of the ways to write a body that we know, JSON before others."""
    for media_type in content:
        if _is_json(media_type):
            return media_type, Body(argument="body", media_type=media_type, kind="json")
    for media_type in content:
        kind = media_type.partition(";")[0].strip().lower()
        if kind == _FORM:
            return media_type, Body(argument="body", media_type=_FORM, kind="form")
        if kind.startswith("text/"):
            return media_type, Body(argument="body", media_type=f"{kind}; charset=utf-8", kind="text")
    known = f"JSON, `{_FORM}` and text"
    raise Fault(f"{where}: bodies are written as {known}, not as {', '.join(content) or 'nothing'}")


def _described(schema: Any, one: Mapping[str, Any]) -> Any:
    """A schema with what is said of the parameter, which is nearer to the call than what is said of its type."""
    text = one.get("description")
    if not isinstance(text, str) or not text:
        return schema
    return {"description": text} if schema is True else {**schema, "description": text}


def _named(arguments: list[_Argument]) -> dict[str, _Argument]:
    """Arguments by names that are their own: where two places have the same, each says which place it is of."""
    several = Counter(argument.key for argument in arguments)
    named: dict[str, _Argument] = {}
    for argument in arguments:
        name = argument.key if several[argument.key] == 1 else f"{argument.place}_{argument.key}"
        while name in named or (name != argument.key and name in several):
            name += "_"
        named[name] = argument
    return named


def _with_name(made: Parameter | Body, name: str) -> Parameter | Body:
    if isinstance(made, Body):
        return Body(argument=name, media_type=made.media_type, kind=made.kind)
    return Parameter(
        argument=name,
        key=made.key,
        where=made.where,
        style=made.style,
        explode=made.explode,
        as_json=made.as_json,
        reserved=made.reserved,
    )


def _description(found: Found) -> str:
    parts = [found.raw.get("summary"), found.raw.get("description")]
    texts = list(dict.fromkeys(part.strip() for part in parts if isinstance(part, str) and part.strip()))
    if found.raw.get("deprecated") is True:
        texts.append("Deprecated: use something else if there is anything.")
    return "\n\n".join(texts) or f"{found.method.upper()} {found.path}"
