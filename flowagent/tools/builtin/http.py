"""One request over HTTP to addresses that were looked at before; importing this module imports httpx2.

The name of a host is resolved once. What it leads to is checked, and the connection is made to just that, so that a
name server which answers differently the second time changes nothing. Certificates are checked against the name all the
same. Every redirect goes the same way. No proxy is asked, as that would resolve names by itself, and no cookie is kept.
"""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import socket
import ssl
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias
from urllib.parse import SplitResult, urljoin

import httpx2

from flowagent.errors import ToolError
from flowagent.tools.builtin.addresses import Address, Reach, checked, origin_of

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Finds the addresses of a host, as texts."""

_REDIRECTS: Final = {301, 302, 303, 307, 308}
_OURS: Final = {"accept", "accept-encoding", "user-agent"}
"""The headers that go to any host: there is nothing of the program's in them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A request.

    Args:
        headers: what is sent to this origin, and to no other that it redirects to.
        reach: what may be reached.
        max_bytes: the most bytes that are taken of the answer.
        timeout: seconds for all of it, redirects included.
        max_redirects: how many redirects are followed.
        same_origin: whether a redirect to another origin is refused.
        resolve: finds the addresses of hosts; by default the system.
        context: how certificates are checked; by default as the system does.
    """

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    content: bytes = field(default=b"", repr=False)
    reach: Reach = field(default_factory=Reach)
    max_bytes: int = 1_000_000
    timeout: float = 30.0
    max_redirects: int = 5
    same_origin: bool = False
    resolve: Resolve | None = None
    context: ssl.SSLContext | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back.

    Args:
        url: who answered in the end.
        media_type: such as `text/html`, in small letters; "" if it is not said.
        charset: how its text is encoded, as far as that is said.
        cut: whether there was more than `max_bytes`.
    """

    url: str
    status: int
    media_type: str
    charset: str
    body: bytes
    cut: bool

    @property
    def text(self) -> str:
        """The body as text; what is not in its encoding becomes the mark for what is unreadable."""
        try:
            return self.body.decode(self.charset or "utf-8", errors="replace")
        except LookupError:
            return self.body.decode(errors="replace")


async def send(ask: Ask) -> Answer:
    """Make a request, and those that it is redirected to.

    Raises:
        ToolError: something on the way may not be reached, is not there, or takes too long.
    """
    try:
        async with asyncio.timeout(ask.timeout):
            return await _followed(ask)
    except TimeoutError as error:
        raise ToolError(f"no complete answer came within {ask.timeout:g} seconds") from error


async def _followed(ask: Ask) -> Answer:
    for _ in range(ask.max_redirects + 1):
        parts = checked(ask.url)
        came = await _asked(ask, parts)
        if isinstance(came, Answer):
            return came
        ask = _redirected(ask, parts, came)
    raise ToolError(f"more than {ask.max_redirects} redirects followed one another")


@dataclass(frozen=True, slots=True)
class _Redirect:
    status: int
    location: str


def _redirected(ask: Ask, parts: SplitResult, to: _Redirect) -> Ask:
    try:
        url = urljoin(ask.url, to.location)
        foreign = origin_of(checked(url)) != origin_of(parts)
    except (ValueError, ToolError) as error:
        raise ToolError(f"`{parts.hostname}` redirects to what may not be asked for: {error}") from error
    if foreign and ask.same_origin:
        raise ToolError(f"`{parts.hostname}` redirects to another origin, which is not followed")
    if foreign:  # nothing that the program trusted one host with goes to another
        kept = {name: value for name, value in ask.headers.items() if name.lower() in _OURS}
        ask = replace(ask, headers=kept)
    if to.status in {307, 308} or ask.method in {"GET", "HEAD"}:
        if foreign and ask.content:
            raise ToolError(f"`{parts.hostname}` redirects what was sent to another origin, which is not followed")
        return replace(ask, url=url)
    kept = {name: value for name, value in ask.headers.items() if not name.lower().startswith("content-")}
    return replace(ask, url=url, method="GET", content=b"", headers=kept)


# -- one connection --------------------------------------------------------------------------------------------------


async def _asked(ask: Ask, parts: SplitResult) -> Answer | _Redirect:
    host = _host(ask, parts)
    addresses = await _resolved(ask, host, parts.port or (443 if parts.scheme == "https" else 80))
    ask.reach.check(host, addresses)
    failed: httpx2.HTTPError | None = None
    for address in addresses:
        try:
            return await _exchanged(ask, host, address)
        except httpx2.ConnectError as error:
            failed = error  # the next address of the same host may be there
        except httpx2.HTTPError as error:
            raise ToolError(f"`{host}` did not answer: {_said(error)}") from error
        except (httpx2.InvalidURL, UnicodeError) as error:
            raise ToolError(f"the URL cannot be asked for: {_said(error)}") from error
    raise ToolError(f"`{host}` cannot be connected to: {_said(failed)}") from failed


def _host(ask: Ask, parts: SplitResult) -> str:
    """The host in ASCII, as the request will name it."""
    try:
        host = httpx2.URL(ask.url).raw_host.decode("ascii")
    except (httpx2.InvalidURL, UnicodeError) as error:
        raise ToolError(f"the URL cannot be asked for: {_said(error)}") from error
    named = parts.hostname or ""
    if named.isascii() and ":" not in named and named != host.lower():  # or headers would go where they do not belong
        raise ToolError("the URL can be read in two ways: write the host plainly")
    return host


def _said(error: Exception | None) -> str:
    return str(error) or type(error).__name__


async def _resolved(ask: Ask, host: str, port: int) -> list[Address]:
    try:
        return [ipaddress.ip_address(host)]
    except ValueError:
        pass  # a name, or a number that only the system takes for an address
    try:
        found = await (ask.resolve or _by_system)(host, port)
    except (OSError, UnicodeError) as error:
        raise ToolError(f"there is no host `{host}`: {_said(error)}") from error
    addresses = [ipaddress.ip_address(text) for text in dict.fromkeys(found)]
    if not addresses:
        raise ToolError(f"there is no host `{host}`: it has no address")
    return addresses


async def _by_system(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(one[4][0]) for one in found]


@functools.cache
def _context() -> ssl.SSLContext:
    return httpx2.create_ssl_context(trust_env=False)


async def _exchanged(ask: Ask, host: str, address: Address) -> Answer | _Redirect:
    named = httpx2.Request(ask.method, ask.url, headers=_headers(ask), content=ask.content or None)
    request = httpx2.Request(
        ask.method,
        named.url.copy_with(host=str(address)),
        headers=named.headers,  # with the host's name
        content=ask.content or None,
        extensions={"sni_hostname": host, "timeout": httpx2.Timeout(ask.timeout).as_dict()},
    )
    alone = httpx2.Limits(max_connections=1, max_keepalive_connections=0)
    async with httpx2.AsyncHTTPTransport(verify=ask.context or _context(), trust_env=False, limits=alone) as transport:
        response = await transport.handle_async_request(request)
        try:
            return await _read(ask, response)
        finally:
            await response.aclose()


def _headers(ask: Ask) -> dict[str, str]:
    ours = {"accept": "*/*", "accept-encoding": "gzip, deflate", "user-agent": "flowagent"}
    return ours | {name.lower(): value for name, value in ask.headers.items()}


async def _read(ask: Ask, response: httpx2.Response) -> Answer | _Redirect:
    location = response.headers.get("location")
    if response.status_code in _REDIRECTS and location:
        return _Redirect(response.status_code, location)
    body, cut = await _body(response, ask.max_bytes)
    media_type, _, _ = response.headers.get("content-type", "").partition(";")
    return Answer(
        url=ask.url,
        status=response.status_code,
        media_type=media_type.strip().lower(),
        charset=response.charset_encoding or "",
        body=body,
        cut=cut,
    )


async def _body(response: httpx2.Response, limit: int) -> tuple[bytes, bool]:
    """The beginning of a body; what is packed is unpacked no further than it is wanted, however small it came."""
    unpack = _unpacking(response.headers.get("content-encoding", ""))
    body = bytearray()
    async with aclosing(response.aiter_raw()) as chunks:
        async for chunk in chunks:
            body += unpack(chunk, limit + 1 - len(body))
            if len(body) > limit:
                return bytes(body[:limit]), True
    return bytes(body), False


def _unpacking(encoding: str) -> Callable[[bytes, int], bytes]:
    match encoding.strip().lower():
        case "" | "identity":
            return lambda chunk, limit: chunk[:limit]
        case "gzip" | "x-gzip" | "deflate":
            unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
            return lambda chunk, limit: _unpacked(unpacker.decompress, chunk, limit)
        case other:
            raise ToolError(f"the answer is packed as `{other[:40]}`, which was not asked for")


def _unpacked(decompress: Callable[[bytes, int], bytes], chunk: bytes, limit: int) -> bytes:
    try:
        return decompress(chunk, limit)
    except zlib.error as error:
        raise ToolError(f"the answer is packed wrongly: {error}") from error
