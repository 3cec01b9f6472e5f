"""What a program knows and a model does not: the keys and tokens that an OpenAPI document asks for."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (A document may hold anything: it is looked at here.)
from __future__ import annotations

import base64
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeAlias
from urllib.parse import quote

from pydantic import SecretStr

from flowagent.tools.document import Document, Fault, pointer
from flowagent.tools.wire import Written

Secret: TypeAlias = str | SecretStr | tuple[str, str]
"""A key or a token, or user and password."""

Credential: TypeAlias = Secret | Callable[[], Secret | Awaitable[Secret]]
"""A secret, or a function that gives one before each request, for tokens that are renewed."""


class Credentials:
    """What is known of a document's security schemes; shown nowhere.

    Args:
        document: whose schemes.
        known: by the names of schemes.
        faults: what is wrong is added to it.
    """

    def __init__(self, document: Document, known: Mapping[str, Credential], faults: list[str]) -> None:
        self._known = dict(known)
        self._schemes: dict[str, Mapping[str, Any]] = {}
        components = document.data.get("components")
        declared = components.get("securitySchemes") if isinstance(components, Mapping) else None
        schemes = declared if isinstance(declared, Mapping) else {}
        for name in known:
            if name not in schemes:
                there = ", ".join(f"`{one}`" for one in schemes) or "none"
                faults.append(f"auth= names the security scheme `{name}`, and the document has {there}")
                continue
            try:
                where = pointer("components", "securitySchemes", name)
                self._schemes[name], where = document.followed(schemes[name], where)
                _check(self._schemes[name], where)
            except Fault as fault:
                faults.append(str(fault))

    def __repr__(self) -> str:
        return f"Credentials({', '.join(self._known)})"

    def choose(self, security: Iterable[frozenset[str]]) -> frozenset[str] | None:
        """The first set of schemes that is known in full; None if something must be known and is not.

        What may go without a key goes with one where one is known, as that may do more.
        """
        ways = list(security)
        if not ways:
            return frozenset()
        for way in sorted(ways, key=lambda one: not one):
            if way <= set(self._known):
                return way
        return None

    def places(self, way: frozenset[str]) -> set[tuple[str, str]]:
        """Where keys go: parameters of the same places are not the model's."""
        schemes = [self._schemes[name] for name in way if name in self._schemes]
        return {(one["in"], one["name"]) for one in schemes if one.get("type") == "apiKey"}

    async def add(self, made: Written, way: frozenset[str]) -> None:
        """Write the keys of a set of schemes into a request."""
        for name in sorted(way):
            _add(made, self._schemes[name], await _given(self._known[name]))


def _check(scheme: Mapping[str, Any], where: str) -> None:
    match scheme.get("type"):
        case "apiKey":
            if scheme.get("in") not in {"header", "query", "cookie"} or not isinstance(scheme.get("name"), str):
                raise Fault(f"{where}: an apiKey has a `name`, and `in` is header, query or cookie")
        case "http":
            if str(scheme.get("scheme", "")).lower() not in {"basic", "bearer"}:
                raise Fault(f"{where}: of HTTP schemes only basic and bearer are known, not {scheme.get('scheme')!r}")
        case "oauth2" | "openIdConnect":
            pass  # a token that the program has
        case other:
            raise Fault(f"{where}: security schemes of the type {other!r} are not known")


async def _given(credential: Credential) -> Secret:
    found = credential() if callable(credential) else credential
    return await found if inspect.isawaitable(found) else found


def _add(made: Written, scheme: Mapping[str, Any], secret: Secret) -> None:
    text = ":".join(secret) if isinstance(secret, tuple) else _plain(secret)
    match scheme.get("type"), scheme.get("in"):
        case "apiKey", "header":
            made.headers[scheme["name"]] = text
        case "apiKey", "query":
            made.query.append(f"{quote(scheme['name'], safe='')}={quote(text, safe='')}")
        case "apiKey", _:
            made.cookies.append(f"{quote(scheme['name'], safe='')}={quote(text, safe='')}")
        case "http", _ if str(scheme["scheme"]).lower() == "basic":
            made.headers["authorization"] = f"Basic {base64.b64encode(text.encode()).decode()}"
        case _:
            made.headers["authorization"] = f"Bearer {text}"


def _plain(secret: str | SecretStr) -> str:
    return secret.get_secret_value() if isinstance(secret, SecretStr) else secret
