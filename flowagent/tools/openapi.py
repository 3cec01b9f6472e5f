"""`OpenAPITools`: a document that describes a web service becomes tools, one for each of its operations."""

from __future__ import annotations

import functools
import importlib
import json
import os
import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import SplitResult, urljoin

from typing_extensions import Unpack

from flowagent.errors import ToolDefinitionError, ToolError
from flowagent.models.messages import Media
from flowagent.tools.builtin.addresses import Reach, checked
from flowagent.tools.context import ToolContext
from flowagent.tools.credentials import Credential, Credentials
from flowagent.tools.document import Document, at, parsed
from flowagent.tools.names import nearest_first
from flowagent.tools.operations import Found, Operation, found_in, read
from flowagent.tools.tool import RemoteOptions, Tool
from flowagent.tools.wire import Written, write

if TYPE_CHECKING:
    from flowagent.tools.builtin.http import Answer, Resolve

_DOCUMENT: Final = 20_000_000
"""The most bytes of a document that is fetched."""

_TOLD: Final = 2_000
"""How many characters of an error's body are told."""


class OpenAPITools:
    """A toolset of the operations that an OpenAPI document (3.0 or 3.1, JSON or YAML) describes.

    The document is read when the tools are first loaded; what is wrong with it is told all at once, each with a JSON
    pointer. Keys and tokens are the program's: the model is not told of them, and they go to the service's own origin
    and to no other, as no redirect to another one is followed.

    Args:
        document: a path, a URL, or the document itself as plain data.
        base_url: where the service is; by default what the document says. What the program gives here may be anywhere;
            what only the document says must be public, or allowed.
        auth: by the name of a security scheme of the document: a key or token, user and password, or a function that
            gives one before each request.
        keep: which operations: those of these names, or those that a function takes. Only they are checked.
        prefix: put before the name of each tool.
        name: what the service is called in messages; by default the document's title.
        headers: further headers of each request.
        allow: hosts and networks that may be reached although they are not public; see `Reach`.
        timeout: seconds that one call may take.
        max_bytes: the most bytes of an answer.
        resolve: finds the addresses of hosts; by default the system.
        context: how certificates are checked; by default as the system does.
        options: of all its tools; see `ToolOptions`. A tool has the tags `openapi`, those of its operation, and
            `read-only` where its method promises to change nothing.

    Example:
        ::

            OpenAPITools("https://api.example.com/openapi.json", auth={"key": os.environ["KEY"]}, keep=["listOrders"])
    """

    def __init__(
        self,
        document: str | os.PathLike[str] | Mapping[str, Any],
        *,
        base_url: str = "",
        auth: Mapping[str, Credential] | None = None,
        keep: Iterable[str] | Callable[[Found], bool] | None = None,
        prefix: str = "",
        name: str = "",
        headers: Mapping[str, str] | None = None,
        allow: Sequence[str] = (),
        timeout: float = 30.0,
        max_bytes: int = 1_000_000,
        resolve: Resolve | None = None,
        context: ssl.SSLContext | None = None,
        **options: Unpack[RemoteOptions],
    ) -> None:
        self._source = document
        self._base_url = base_url
        self._auth = dict(auth or {})
        self._names = None if keep is None or callable(keep) else tuple(keep)
        self._wanted = keep if callable(keep) else None
        self._prefix = prefix
        self._name = name
        self._headers = dict(headers or {})
        self._allow = tuple(Reach(allow).allow)
        self._sending: dict[str, Any] = {
            "timeout": timeout,
            "max_bytes": max_bytes,
            "resolve": resolve,
            "context": context,
        }
        self._options = options
        self._tools: tuple[Tool[..., Any], ...] | None = None

    def __repr__(self) -> str:
        return f"OpenAPITools({self.name!r})"

    @property
    def name(self) -> str:
        """What the service is called in messages; its title, once the document was read."""
        source = _place_of(self._source)
        if self._name or not source:
            return self._name or _title(cast("Mapping[str, Any]", self._source))
        return source.partition("?")[0] if _is_url(source) else os.path.basename(source)  # noqa: PTH119  # it is no path yet

    async def load(self) -> Sequence[Tool[..., Any]]:
        """A tool for each operation that is kept, in the document's order.

        Raises:
            ToolDefinitionError: something is wrong with the document or the options; all of it is listed.
            ToolError: the document cannot be fetched.
            OSError: the document cannot be read.
        """
        if self._tools is None:
            document = await self._read()
            self._tools = self._made(document)
        return self._tools

    async def close(self) -> None:
        """Nothing stays open: each call makes its own connection."""

    # -- the document ------------------------------------------------------------------------------------------------

    async def _read(self) -> Document:
        data: Any = self._source
        if source := _place_of(self._source):
            data = parsed(await self._fetched(source) if _is_url(source) else at(source), self.name)
        faults = [*_faults_of(data)]
        if faults:
            raise ToolDefinitionError(f"OpenAPI document `{self.name}`", faults)
        self._name = self._name or _title(data)
        return Document(data)

    async def _fetched(self, url: str) -> str:
        http = importlib.import_module("flowagent.tools.builtin.http")
        reach = Reach(allow=(*self._allow, _host(checked(url))))  # the program names it
        sending = self._sending | {"max_bytes": _DOCUMENT}
        answer: Answer = await http.send(http.Ask(url=url, reach=reach, same_origin=True, **sending))
        if answer.status != 200 or answer.cut:
            reason = f"it has more than {_DOCUMENT} bytes" if answer.cut else f"status {answer.status}"
            raise ToolError(f"OpenAPI document `{self.name}` cannot be fetched: {reason}")
        return answer.text

    def _made(self, document: Document) -> tuple[Tool[..., Any], ...]:
        faults: list[str] = []
        credentials = Credentials(document, self._auth, faults)
        operations = self._kept(document, faults)
        service = self._service(document, credentials, faults)
        tools = [service.tool(one, faults) for one in operations]
        if faults or service.base is None:
            raise ToolDefinitionError(f"OpenAPI document `{self.name}`", faults)
        return tuple(tool for tool in tools if tool is not None)

    def _kept(self, document: Document, faults: list[str]) -> list[Operation]:
        found = list(found_in(document, faults))
        seen: dict[str, str] = {}
        for one in found:
            other = seen.setdefault(one.name, one.where)
            if other != one.where:
                faults += [f"{one.where}: the operationId `{one.name}` is that of {other} already"]
        names = tuple(seen) if self._names is None else self._names
        for name in sorted({*names} - {*seen}):
            near = ", ".join(f"`{one}`" for one in nearest_first(name, seen)[:5]) or "none"
            faults += [f"keep= names `{name}`, and there is no such operation; there are {near}"]
        if not seen and not faults:
            faults.append("#/paths: there are no operations in it")
        kept = [one for one in found if one.name in names and (self._wanted is None or self._wanted(one))]
        operations = [read(document, one, faults) for one in kept]
        return [one for one in operations if one is not None]

    def _service(self, document: Document, credentials: Credentials, faults: list[str]) -> _Service:
        base = self._base_url
        reach = Reach(self._allow)
        try:
            if base:
                reach = Reach((*self._allow, _host(checked(base))))
            else:
                base = _server(document, self._source)
            parts = checked(base)
            reach = replace(reach, only=(_host(parts),))
        except (ToolError, ValueError) as error:
            faults.append(f"where the service is: {error}; give base_url=")
            base = ""
        options = cast("dict[str, Any]", dict(self._options))
        sending = self._sending | {"reach": reach, "same_origin": True}
        label = f"OpenAPI document `{self.name}`"
        return _Service(base.rstrip("/") or None, credentials, self._headers, sending, self._prefix, label, options)


@dataclass(frozen=True, slots=True)
class _Service:
    """Where calls go, and what goes with each."""

    base: str | None
    credentials: Credentials
    headers: Mapping[str, str]
    sending: Mapping[str, Any]
    prefix: str
    label: str
    options: Mapping[str, Any]

    def tool(self, operation: Operation, faults: list[str]) -> Tool[..., Any] | None:
        way = self.credentials.choose(operation.security)
        if way is None:
            wanted = " or ".join(" with ".join(f"`{name}`" for name in sorted(one)) for one in operation.security)
            faults.append(f"{operation.where}: `{operation.name}` needs {wanted}: give it in auth=")
            return None
        kept = _without(operation, self.credentials.places(way))
        tags = ("openapi", *operation.tags, *(("read-only",) if operation.is_reading else ()))
        options = dict(self.options) | {"tags": (*self.options.get("tags", ()), *tags)}
        try:
            return Tool.from_schema(
                name=f"{self.prefix}{kept.name}",
                description=kept.description,
                parameters=kept.schema,
                returns=kept.returns,
                call=functools.partial(self._call, kept, way),
                origin=f"{self.label} at {kept.where}",
                **cast("RemoteOptions", options),
            )
        except ToolDefinitionError as error:
            faults += [f"{operation.where}: {fault}" for fault in error.faults]
            return None

    async def _call(
        self, operation: Operation, way: frozenset[str], arguments: dict[str, Any], _ctx: ToolContext[Any, Any]
    ) -> Any:
        made = write(operation.path, operation.parameters, operation.body, arguments)
        await self.credentials.add(made, way)
        http = importlib.import_module("flowagent.tools.builtin.http")
        ask = http.Ask(
            url=f"{self.base}{made.path}{'?' if made.query else ''}{'&'.join(made.query)}",
            method=operation.method.upper(),
            headers={"accept": "application/json, */*;q=0.5", **self.headers, **_headers(made)},
            content=made.content,
            **self.sending,
        )
        return _returned(await http.send(ask))


def _headers(made: Written) -> dict[str, str]:
    return made.headers | ({"cookie": "; ".join(made.cookies)} if made.cookies else {})


def _without(operation: Operation, places: set[tuple[str, str]]) -> Operation:
    """An operation without the parameters that are keys, which the program gives."""

    def is_key(where: str, key: str) -> bool:
        return any(where == place and key.lower() == name.lower() for place, name in places)

    hidden = {one.argument for one in operation.parameters if is_key(one.where, one.key)}
    if not hidden:
        return operation
    schema = dict(operation.schema)
    schema["properties"] = {name: one for name, one in schema["properties"].items() if name not in hidden}
    schema["required"] = [name for name in schema.get("required", ()) if name not in hidden]
    left = tuple(one for one in operation.parameters if one.argument not in hidden)
    return replace(operation, schema=schema, parameters=left)


# -- what comes back -------------------------------------------------------------------------------------------------


def _returned(answer: Answer) -> Any:
    kind = answer.media_type
    is_json = kind == "application/json" or kind.endswith("+json")
    is_text = is_json or kind.startswith("text/") or kind.endswith(("/xml", "+xml"))
    if answer.status >= 300:
        told = f": {answer.text[:_TOLD]}" if is_text and answer.body else ""
        raise ToolError(f"the service answered with status {answer.status}{told}")
    if answer.cut:
        raise ToolError(f"the answer has more than {len(answer.body)} bytes, the most that is taken: ask for less")
    if not answer.body:
        return None
    if is_json:
        try:
            return json.loads(answer.body)
        except ValueError as error:
            raise ToolError(f"the service says that it answers in JSON, and it does not: {error}") from error
    if is_text or not kind:
        return answer.text
    return Media(data=answer.body, media_type=kind)


# -- small readings --------------------------------------------------------------------------------------------------


def _is_url(source: str) -> bool:
    return source.lower().startswith(("http://", "https://"))


def _place_of(source: object) -> str:
    """Where a document is to be read from; "" of one that is given as it is."""
    return os.fspath(cast("str", source)) if isinstance(source, (str, os.PathLike)) else ""


def _host(parts: SplitResult) -> str:
    return (parts.hostname or "").rstrip(".")


def _title(data: Mapping[str, Any]) -> str:
    info: Any = data.get("info")
    title: Any = cast("Mapping[str, Any]", info).get("title") if isinstance(info, Mapping) else None
    return title if isinstance(title, str) and title else "untitled"


def _faults_of(data: Any) -> list[str]:
    if not isinstance(data, Mapping):
        return ["#: a document is an object"]
    found = cast("Mapping[str, Any]", data)
    if "swagger" in found:
        return [f"#/swagger: version {found['swagger']} is not read: convert the document to OpenAPI 3"]
    version = str(found.get("openapi", ""))
    if not version.startswith(("3.0", "3.1")):
        return [f"#/openapi: the version is {version or 'not said'}, and 3.0 and 3.1 are read"]
    return [] if isinstance(found.get("paths"), Mapping) else ["#/paths: there are none"]


def _server(document: Document, source: object) -> str:
    """The URL of the document's first server, its variables as they are by default."""
    servers: Any = document.data.get("servers") or [{"url": "/"}]
    first: Any = cast("list[Any]", servers)[0] if isinstance(servers, list) else None
    if not isinstance(first, Mapping):
        raise ToolError("#/servers: it is no list of objects")
    server = cast("Mapping[str, Any]", first)
    url = str(server.get("url", ""))
    variables: Any = server.get("variables") or {}
    for name, one in cast("Mapping[str, Any]", variables).items():
        url = url.replace(f"{{{name}}}", str(one.get("default", "")))
    fetched = _place_of(source)
    return urljoin(fetched, url) if _is_url(fetched) else url
