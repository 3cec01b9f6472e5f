"""`Cached`: a model that is not asked twice for the same thing."""

from __future__ import annotations

import asyncio
import importlib
import os
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future
from contextlib import aclosing
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Protocol

from pydantic import ValidationError

from flowagent.core.usage import Usage
from flowagent.errors import StoreError
from flowagent.models.around import Around
from flowagent.models.base import Model, ModelRequest, Reply, StreamPart
from flowagent.models.deltas import Chunk, checked_chunk, deltas
from flowagent.models.fingerprint import fingerprint, told
from flowagent.models.messages import AssistantMessage

NOTHING_SPENT: Final = Usage(input=0, output=0, cost=Decimal(0))
"""The usage of an answer from the cache: no request was made, so no tokens and no money went anywhere."""

DEFAULT_CHUNK: Final = 64


class Replies(Protocol):
    """Where answers are kept."""

    async def find(self, key: str, *, since: float) -> str | None:
        """The answer of that key that was kept at `since` or later."""
        ...

    async def keep(self, key: str, reply: str, *, at: float, since: float) -> None:
        """Keeps an answer; those from before `since` may be dropped."""
        ...


class Cached(Around):
    """A model whose complete answers are kept and given again to equal requests.

    Requests are equal if the model's name, its settings and all that it is told are. An answer from the cache is marked
    by `Reply.from_cache`, and its usage says that nothing was spent: no request, no tokens, no cost. Errors and replies
    that were cut, refused or filtered are not kept, and, unless asked for, neither are those that call tools. Equal
    requests that are made at the same time wait for one answer. A cache that is a file holds what models have answered
    in plain text, and can be used by several processes.

    Args:
        model: who is asked for what is not known.
        store: a path, which means a SQLite file that is made if there is none; None keeps the last `most` answers in
            memory, for as long as this object is there.
        ttl: seconds for which an answer is good; None for ever.
        tool_calls: whether replies that call tools are kept too. Then what those tools do is done again each time.
        most: how many answers are kept in memory.
        chunk: how many characters a piece has when an answer from the cache is streamed.
        clock: seconds since 1970.

    Raises:
        ValueError: `ttl` is not above 0, or `most` or `chunk` is below 1.

    Example:
        >>> import asyncio
        >>> from flowagent.models.messages import user
        >>> from flowagent.models.scripted import Scripted
        >>> model = Cached(Scripted("only once"))
        >>> question = ModelRequest(messages=(user("hello"),))
        >>> [asyncio.run(model.request(question)).from_cache for _ in range(2)]
        [False, True]
    """

    def __init__(
        self,
        model: Model,
        *,
        store: str | os.PathLike[str] | None = None,
        ttl: float | None = None,
        tool_calls: bool = False,
        most: int = 1_000,
        chunk: Chunk = DEFAULT_CHUNK,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if ttl is not None and not ttl > 0:
            raise ValueError(f"Cached(ttl={ttl}) would keep nothing; give seconds above 0, or None for ever")
        if most < 1:
            raise ValueError(f"Cached(most={most}) would keep nothing; give 1 or more")
        super().__init__(model)
        self._replies: Replies = _Memory(most) if store is None else _file(store)
        self._ttl = ttl
        self._finishes = {"stop", "tool_calls"} if tool_calls else {"stop"}
        self._chunk = checked_chunk(chunk)
        self._clock = clock
        self._lock = threading.Lock()
        self._asking: dict[str, Future[AssistantMessage | None]] = {}

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart]:
        """Answer, from the cache if the answer is known, telling parts; the last one is the `Reply`.

        Raises:
            ModelError: the model was asked and could not.
            StoreError: the cache could not be read or written.
        """
        key = fingerprint(self._model.name, told(request))
        promise, mine = self._first(key)
        if not mine:
            # Another asks just now. If that comes to nothing that is kept, everyone who waited asks for himself.
            known = await asyncio.shield(asyncio.wrap_future(promise))
            if known is not None:
                for part in self._from_cache(known):
                    yield part
                return
        async with aclosing(self._ask(key, request, promise if mine else None)) as parts:
            async for part in parts:
                yield part

    async def _ask(
        self, key: str, request: ModelRequest, promise: Future[AssistantMessage | None] | None
    ) -> AsyncGenerator[StreamPart]:
        known: AssistantMessage | None = None
        try:
            known = await self._known(key)
            if known is not None:
                self._fulfil(key, promise, known)
                for part in self._from_cache(known):
                    yield part
                return
            async with aclosing(self._model.stream(request)) as parts:
                async for part in parts:
                    if isinstance(part, Reply):
                        known = await self._keep(key, part)
                        self._fulfil(key, promise, known)
                    yield part
        finally:
            self._fulfil(key, promise, known)

    def _first(self, key: str) -> tuple[Future[AssistantMessage | None], bool]:
        """The promise of the answer that is being asked for, and whether it is for us to keep."""
        with self._lock:
            promise = self._asking.get(key)
            if promise is not None:
                return promise, False
            promise = self._asking[key] = Future()
            return promise, True

    def _fulfil(self, key: str, promise: Future[AssistantMessage | None] | None, kept: AssistantMessage | None) -> None:
        if promise is None or promise.done():
            return
        with self._lock:
            del self._asking[key]
        promise.set_result(kept)

    def _from_cache(self, message: AssistantMessage) -> list[StreamPart]:
        reply = Reply(message=message.model_copy(update={"usage": NOTHING_SPENT}), first_token=0.0, from_cache=True)
        return [*deltas(reply.message, self._chunk), reply]

    async def _known(self, key: str) -> AssistantMessage | None:
        text = await self._replies.find(key, since=self._since())
        if text is None:
            return None
        try:
            return AssistantMessage.model_validate_json(text)
        except ValidationError as error:
            raise StoreError(
                f"an answer of `{self.name}` in the cache cannot be read: {error}; delete the cache, it is made anew"
            ) from error

    async def _keep(self, key: str, reply: Reply) -> AssistantMessage | None:
        """The message as it is kept, or None if it is not one to be kept."""
        message = reply.message
        if message.finish not in self._finishes or (message.calls and "tool_calls" not in self._finishes):
            return None
        kept = message.model_copy(update={"id": ""})
        await self._replies.keep(key, kept.model_dump_json(), at=self._clock(), since=self._since())
        return kept

    def _since(self) -> float:
        """The time from before which answers are no good."""
        return float("-inf") if self._ttl is None else self._clock() - self._ttl


@dataclass(frozen=True, slots=True)
class _Kept:
    reply: str
    at: float


class _Memory:
    """The last answers, in memory; those that were used last stay longest."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    async def find(self, key: str, *, since: float) -> str | None:
        with self._lock:
            kept = self._kept.get(key)
            if kept is None or kept.at < since:
                return None
            self._kept.move_to_end(key)
            return kept.reply

    async def keep(self, key: str, reply: str, *, at: float, since: float) -> None:
        with self._lock:
            for old in [one for one, kept in self._kept.items() if kept.at < since]:
                del self._kept[old]
            self._kept[key] = _Kept(reply, at)
            self._kept.move_to_end(key)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)


def _file(path: str | os.PathLike[str]) -> Replies:
    # apsw is loaded when it is first needed (P14).
    replies: Replies = importlib.import_module("flowagent.models.cache_file").ReplyFile(os.fspath(path))
    return replies
