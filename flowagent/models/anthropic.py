"""Anthropic's models, through the `anthropic` package."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final, Literal, Unpack

from flowagent.models.anthropic_reply import AnthropicReader
from flowagent.models.anthropic_request import PROVIDER, written
from flowagent.models.base import ModelRequest
from flowagent.models.profiles import profile_of
from flowagent.models.remote import Call, Options, Reader, RemoteModel

_ADDRESS: Final = "https://api.anthropic.com"


class AnthropicModel(RemoteModel):
    """A model behind Anthropic's Messages API.

    The key comes from `ANTHROPIC_API_KEY`, or from wherever else the `anthropic` package finds one.

    Args:
        model: its name, such as `claude-haiku-4-5`.
        options: see `Options`.

    Example:
        >>> AnthropicModel("claude-haiku-4-5").name
        'anthropic:claude-haiku-4-5'
    """

    package: Literal["anthropic", "openai"] = "anthropic"

    def __init__(self, model: str, **options: Unpack[Options]) -> None:
        super().__init__(PROVIDER, model, profile_of("anthropic", model), options)

    @property
    def _address(self) -> str:
        return self._base_url or os.environ.get("ANTHROPIC_BASE_URL") or _ADDRESS

    def _client(self) -> Any:
        package, _ = self._modules()
        key = None if self._key is None else self._key.get_secret_value()
        client = package.AsyncAnthropic(api_key=key, base_url=self._base_url, max_retries=0)
        if not (client.api_key or client.auth_token or client.credentials):
            raise self._missing_key()
        return client

    def _key_in_use(self) -> str:
        if self._key is not None:
            return self._key.get_secret_value()
        return os.environ.get("ANTHROPIC_API_KEY") or os.environ.get("ANTHROPIC_AUTH_TOKEN") or ""

    def _written(self, request: ModelRequest) -> Call:
        return written(request, self.model, self.profile)

    def _opened(self, client: Any, fields: Mapping[str, Any]) -> Any:
        return client.messages.create(**fields)

    def _reader(self) -> Reader:
        return AnthropicReader(self._modules()[0])
