"""What all models behind a provider's package have in common: one request at a time is made, timed, counted, retried.

A provider's own file says how a request is written (`_written`), how it is sent (`_opened`) and how what comes back is
read (`_reader`); everything else about a request stands here.
"""

from __future__ import annotations

import asyncio
import importlib
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from time import perf_counter
from types import ModuleType, TracebackType
from typing import Any, Final, Literal, Protocol, Self, TypedDict
from urllib.parse import urlsplit

from pydantic import SecretStr

from flowagent.core.secret import scrubbed
from flowagent.core.usage import NO_USAGE, Usage
from flowagent.errors import ModelError
from flowagent.models.accepted import accepted
from flowagent.models.base import ModelRequest, Profile, Reply, StreamPart, drained
from flowagent.models.clients import Clients
from flowagent.models.failures import Asked, Failed, fault_of, kind_of, told
from flowagent.models.halves import Halves, whole
from flowagent.models.messages import AssistantMessage
from flowagent.models.metering import LOST, REFUSED
from flowagent.models.permission import check_allowed
from flowagent.models.retrying import Retrying, Sleep, retried

_SHORTEST_SECRET: Final = 8
"""Shorter keys are placeholders such as `none`, and masking them would garble errors."""


class Reader(Protocol):
    """Reads the events of one reply."""

    @property
    def partial(self) -> str:
        """The text that has come so far."""
        ...

    @property
    def usage(self) -> Usage | None:
        """What is known so far of the request's cost, or None."""
        ...

    def read(self, event: Any) -> list[StreamPart]:
        """What an event tells.

        Raises:
            Failed: the event says that the reply failed.
        """
        ...

    def finished(self) -> tuple[AssistantMessage, Any] | None:
        """The message and the provider's own object, or None if the reply is not complete."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request as the provider's package takes it.

    Args:
        fields: the arguments of the package's method.
        settings: the provider's field for each setting that is sent.
    """

    fields: dict[str, Any]
    settings: Mapping[str, str]


class Common(TypedDict, total=False):
    """What every remote model can be told when it is made.

    Keys:
        api_key: the key; without one it is taken from the environment when the first request is made.
        profile: what the model accepts, for whoever knows it better than the table.
        retrying: when a failed request is made again.
        drop_unsupported: whether settings that the model does not take are left out with a warning, instead of an
            error.
        sleep: waits between attempts; tests inject their own.
    """

    api_key: str | None
    profile: Profile | None
    retrying: Retrying
    drop_unsupported: bool
    sleep: Sleep


class Options(Common, total=False):
    """What a model of a provider with an address of its own can be told.

    Keys:
        base_url: where the provider is; without one its own address, or what its environment variable says.
    """

    base_url: str | None


class RemoteModel(ABC):
    """A model behind a provider's package.

    It may be used from several tasks, event loops and threads at once. Its connections are closed when the loop ends
    that they were made in, or by `close()`, or at the end of `async with model:`.
    """

    package: Literal["anthropic", "openai"]

    def __init__(self, provider: str, model: str, profile: Profile, options: Options) -> None:
        self.provider = provider
        self.model = model
        key = options.get("api_key")
        self._profile = options.get("profile") or profile
        self._key = None if key is None else SecretStr(key)
        self._base_url = options.get("base_url")
        self._retrying = options.get("retrying", Retrying())
        self._drop = options.get("drop_unsupported", False)
        self._sleep = options.get("sleep", asyncio.sleep)
        self._clients: Clients[Any] = Clients(self._client)

    @property
    def name(self) -> str:
        """Who it is, as `provider:model`."""
        return f"{self.provider}:{self.model}"

    @property
    def profile(self) -> Profile:
        """What it accepts."""
        return self._profile

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def written(self, request: ModelRequest) -> dict[str, Any]:
        """A request as the provider's package is called with it; nothing is sent.

        Raises:
            ModelError: the model does not accept something about it (`unsupported`).
        """
        return self._written(accepted(request, self.profile, self.name, drop=self._drop)).fields

    async def request(self, request: ModelRequest) -> Reply:
        """Answer, after retries if need be.

        Raises:
            ModelError: it could not; `kind` says why.
        """
        return await drained(self._retried(request, heard=False))

    def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart]:
        """Answer, telling parts as they come; the last one is the `Reply`.

        Raises:
            ModelError: as `request`; once a part was told there is no retry, unless
                `Retrying(after_first=True)` allows it.
        """
        return self._retried(request, heard=True)

    async def close(self) -> None:
        """Close the connections of the running event loop; the next request opens new ones."""
        await self._clients.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- of each provider --------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def _address(self) -> str:
        """Where requests go, as far as that is known without the package."""

    @abstractmethod
    def _client(self) -> Any:
        """A client of the package, without retries."""

    @abstractmethod
    def _written(self, request: ModelRequest) -> Call:
        """A request whose every part the model accepts, as the package takes it."""

    @abstractmethod
    def _opened(self, client: Any, fields: Mapping[str, Any]) -> Any:
        """Send a request: an awaitable of the package's stream of events."""

    @abstractmethod
    def _reader(self) -> Reader:
        """A reader for one reply."""

    # -- one request -------------------------------------------------------------------------------------------------

    async def _retried(self, request: ModelRequest, *, heard: bool) -> AsyncGenerator[StreamPart]:
        fit = accepted(request, self.profile, self.name, drop=self._drop)
        check_allowed(self.name, self._address)
        call = self._written(fit)
        timeout = fit.settings.get("timeout")
        secrets = _secrets(fit.settings.get("headers", {}))
        attempts = retried(
            lambda: self._attempt(call, timeout, secrets),
            self._retrying,
            heard=heard,
            sleep=self._sleep,
        )
        async with aclosing(attempts) as parts:
            async for part in parts:
                yield part

    async def _attempt(self, call: Call, timeout: float | None, secrets: list[str]) -> AsyncGenerator[StreamPart]:
        begun = perf_counter()
        first: float | None = None
        reader, halves = self._reader(), Halves()
        async with aclosing(self._told(call, timeout, secrets, reader)) as parts:
            async for part in parts:
                first = perf_counter() - begun if first is None else first
                yield halves.more(part)
        finished = reader.finished()
        if finished is None:
            raise self._cut_off(reader)
        message, raw = finished
        yield Reply(message=whole(message), raw=raw, seconds=perf_counter() - begun, first_token=first)

    async def _told(
        self, call: Call, timeout: float | None, secrets: list[str], reader: Reader
    ) -> AsyncGenerator[StreamPart]:
        """What the events of one request tell; whatever goes wrong becomes a `ModelError`."""
        failure: tuple[ModelError, Exception | None]
        opened = False
        try:
            deadline = None if timeout is None else asyncio.get_running_loop().time() + timeout
            client = await self._clients.get()
            async with asyncio.timeout_at(deadline):
                stream = await self._opened(client, call.fields)
            opened = True
            async with _closing(stream), aclosing(_until(stream, deadline)) as events:
                async for event in events:
                    for part in reader.read(event):
                        yield part
                return
        except ModelError:
            raise
        except self._errors() as error:
            failure = self._failure(error, call, secrets, reader, opened=opened)
        # Raised out here, so that an error that repeats the key is not even the context of the one that is raised.
        raise failure[0] from failure[1]

    def _failure(
        self, error: Exception, call: Call, secrets: list[str], reader: Reader, *, opened: bool
    ) -> tuple[ModelError, Exception | None]:
        asked = Asked(model=self.name, settings=call.settings, scrub=lambda text: self._scrub(text, secrets))
        package, http = self._modules()
        fault = fault_of(
            error,
            timeouts=(TimeoutError, package.APITimeoutError, http.TimeoutException),
            connections=(package.APIConnectionError, http.TransportError),
        )
        usage = reader.usage or (REFUSED if kind_of(fault) not in _UNKNOWN_COST and not opened else LOST)
        raised = told(fault, asked, begun=opened, partial=reader.partial, usage=usage)
        shown = f"{error!r} {error} {getattr(error, 'body', '')}"
        return raised, error if self._scrub(shown, secrets) == shown else None

    def _cut_off(self, reader: Reader) -> ModelError:
        return ModelError(
            f"{self.name}: the stream ended before the reply was complete",
            kind="cut_off",
            retryable=True,
            model=self.name,
            status=200,
            partial=reader.partial,
            usage=reader.usage or LOST,
        )

    # -- the package -------------------------------------------------------------------------------------------------

    def _modules(self) -> tuple[ModuleType, ModuleType]:
        """The provider's package and its HTTP client, imported when the first request is made."""
        try:
            return importlib.import_module(self.package), importlib.import_module("httpx2")
        except ImportError as error:
            raise ModelError(
                f"{self.name} was not asked, as the package `{self.package}` cannot be imported ({error}): install it "
                f"with `pip install {self.package}`",
                kind="unsupported",
                model=self.name,
            ) from error

    def _errors(self) -> tuple[type[Exception], ...]:
        """What the package may raise: its own errors, those of its HTTP client, and those of JSON and UTF-8."""
        package, http = self._modules()
        own: type[Exception] = package.OpenAIError if self.package == "openai" else package.AnthropicError
        return own, http.HTTPError, TimeoutError, ValueError, Failed

    # -- secrets -----------------------------------------------------------------------------------------------------

    def _missing_key(self) -> ModelError:
        variable = f"{self.package.upper()}_API_KEY"
        return ModelError(
            f"{self.name} was not asked, as there is no API key: set {variable} or pass api_key=",
            kind="auth",
            model=self.name,
            usage=NO_USAGE,
        )

    @abstractmethod
    def _key_in_use(self) -> str:
        """The key that requests are made with, or ""."""

    def _scrub(self, text: str, secrets: list[str]) -> str:
        """A text without the key, in clear and in base64, and without other secrets."""
        secret = self._key_in_use()
        password = urlsplit(self._base_url or "").password or ""
        return scrubbed(text, {secret, password, *secrets}, shortest=_SHORTEST_SECRET)


_UNKNOWN_COST: Final = frozenset({"timeout", "connection", "cut_off"})
_TELLING: Final = ("auth", "key", "token", "secret", "cookie")


def _secrets(headers: Mapping[str, str]) -> list[str]:
    """The values of headers whose names say that they are secret."""
    return [value for name, value in headers.items() if any(word in name.lower() for word in _TELLING)]


async def _until(stream: AsyncIterator[Any], deadline: float | None) -> AsyncGenerator[Any]:
    """The stream's events; each must come before the deadline, in the event loop's time."""
    iterator = aiter(stream)
    while True:
        # Around each step and never around a `yield`: the time of whoever listens is not the provider's.
        async with asyncio.timeout_at(deadline):
            try:
                event = await anext(iterator)
            except StopAsyncIteration:
                return
        yield event


class _closing(AbstractAsyncContextManager[None]):  # noqa: N801 (named as in `contextlib`)
    """Closes a package's stream, whose method for it is `close`."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stream.close()
