"""Reading pages of the web: what a model may ask for is looked at first, and comes back as text."""

from __future__ import annotations

import asyncio
import importlib
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from flowagent.errors import ToolError
from flowagent.models.messages import Media
from flowagent.tools.builtin.addresses import Reach, checked, origin_of
from flowagent.tools.tool import Tool, tool

if TYPE_CHECKING:
    from flowagent.tools.builtin.http import Answer, Resolve

_HTML: Final = {"text/html", "application/xhtml+xml"}
_TEXT: Final = ("text/*", "application/json", "application/*+json", "application/xml", "application/*+xml")
_MORE_TEXT: Final = ("application/javascript", "application/yaml", "application/x-ndjson", "application/toml")
_TOLD: Final = 500
"""How many characters of an error's page are told."""


@dataclass(frozen=True, slots=True)
class Page:
    """What was found at a URL.

    Args:
        url: where it was found in the end.
        media_type: what it was, such as `text/html`.
        text: what it says; of HTML as Markdown.
        cut: whether there is more than was read.
    """

    url: str
    media_type: str
    text: str
    cut: bool = False


class Fetch:
    """A toolkit of one tool, which reads a page of the web.

    Addresses that are not public (this machine, its networks, the metadata of clouds) are out of reach unless they are
    allowed. Redirects are looked at one by one, each host is resolved once, and the connection is made to what was
    looked at. Proxies of the environment are not used. No cookie is kept.

    Args:
        allow: hosts and networks that may be reached although they are not public; see `Reach`.
        only: if given, nothing else may be reached.
        headers: further headers by origin, such as `{"https://api.example.com": {"Authorization": "Bearer ..."}}`.
            They go to that origin and to no other; they are shown nowhere.
        media: media types beside text that come back as they are, such as `image/*`; others are refused.
        html: `markdown`, or `source` for pages as they are written.
        max_bytes: the most bytes that are read of a page; what is beyond is left out, and that is said.
        timeout: seconds for all of it.
        max_redirects: how many redirects are followed.
        resolve: finds the addresses of hosts; by default the system.
        context: how certificates are checked; by default as the system does.

    Raises:
        ValueError: an option is none.
    """

    def __init__(
        self,
        *,
        allow: Sequence[str] = (),
        only: Sequence[str] | None = None,
        headers: Mapping[str, Mapping[str, str]] | None = None,
        media: Sequence[str] = (),
        html: str = "markdown",
        max_bytes: int = 1_000_000,
        timeout: float = 30.0,
        max_redirects: int = 5,
        resolve: Resolve | None = None,
        context: ssl.SSLContext | None = None,
    ) -> None:
        if html not in {"markdown", "source"}:
            raise ValueError(f"html={html!r}: it is 'markdown' or 'source'")
        self._reach = Reach(allow, only)
        self._headers = _by_origin(headers or {})
        self._media = tuple(media)
        self._html = html
        self._options: dict[str, Any] = {
            "max_bytes": max_bytes,
            "timeout": timeout,
            "max_redirects": max_redirects,
            "resolve": resolve,
            "context": context,
        }

    def __repr__(self) -> str:
        return f"Fetch(allow={self._reach.allow!r}, only={self._reach.only!r})"

    async def fetch(self, url: str) -> Page | Media:
        """Read a page of the web.

        Args:
            url: what to read, beginning with https:// or http://.

        Raises:
            ToolError: it may not be reached, is not there, or is no text.
        """
        http = importlib.import_module("flowagent.tools.builtin.http")
        headers = self._headers.get(origin_of(checked(url)), {})
        answer = await http.send(http.Ask(url=url.strip(), headers=headers, reach=self._reach, **self._options))
        if answer.status >= 400:
            text = (await self._text(answer))[:_TOLD] if _is_text(answer) else ""
            raise ToolError(f"`{answer.url}` answered with status {answer.status}{f': {text}' if text else ''}")
        if any(fnmatchcase(answer.media_type, pattern) for pattern in self._media):
            if answer.cut:
                raise ToolError(
                    f"`{answer.url}` has more than {self._options['max_bytes']} bytes, the most that is read"
                )
            return Media(data=answer.body, media_type=answer.media_type, name=answer.url)
        if not _is_text(answer):
            raise ToolError(f"`{answer.url}` is `{answer.media_type or 'of no known type'}`, which is no text")
        return Page(answer.url, answer.media_type, await self._text(answer), answer.cut)

    def tools(self) -> tuple[Tool[..., Any], ...]:
        """What a model may call."""
        return (tool(self.fetch),)

    async def _text(self, answer: Answer) -> str:
        if answer.media_type in _HTML and self._html == "markdown":
            # Large pages take a second, in which other work goes on.
            return await asyncio.to_thread(_markdown, answer.body, answer.charset or None)
        return answer.text


def _markdown(body: bytes, charset: str | None) -> str:
    page = importlib.import_module("justhtml").JustHTML(body, encoding=charset)
    return page.to_markdown().strip()


def _is_text(answer: Answer) -> bool:
    if not answer.media_type:
        return b"\x00" not in answer.body
    return any(fnmatchcase(answer.media_type, pattern) for pattern in (*_TEXT, *_MORE_TEXT))


def _by_origin(headers: Mapping[str, Mapping[str, str]]) -> dict[str, Mapping[str, str]]:
    found: dict[str, Mapping[str, str]] = {}
    for origin, sent in headers.items():
        try:
            parts = checked(origin)
        except ToolError as error:
            raise ValueError(f"headers= are given by origin, such as `https://api.example.com`: {error}") from error
        if parts.path.strip("/") or parts.query:
            raise ValueError(f"headers= are given by origin, without a path: `{parts.scheme}://{parts.netloc}`")
        found[origin_of(parts)] = dict(sent)
    return found
