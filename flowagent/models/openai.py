"""OpenAI's models, through the `openai` package and its Responses API."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final, Literal, Unpack

from flowagent.models.base import ModelRequest
from flowagent.models.openai_reply import ResponsesReader
from flowagent.models.openai_request import PROVIDER, written
from flowagent.models.profiles import profile_of
from flowagent.models.remote import Call, Options, Reader, RemoteModel

_ADDRESS: Final = "https://api.openai.com/v1"


class OpenAIService(RemoteModel):
    """What the models behind OpenAI's interfaces have in common: the client and its key."""

    package: Literal["anthropic", "openai"] = "openai"

    @property
    def _address(self) -> str:
        return self._base_url or os.environ.get("OPENAI_BASE_URL") or _ADDRESS

    def _client(self) -> Any:
        key = self._key_in_use()
        if not key:
            raise self._missing_key()
        package, _ = self._modules()
        return package.AsyncOpenAI(api_key=key, base_url=self._base_url, max_retries=0)

    def _key_in_use(self) -> str:
        return os.environ.get("OPENAI_API_KEY", "") if self._key is None else self._key.get_secret_value()


class OpenAIModel(OpenAIService):
    """A model behind OpenAI's Responses API, of which nothing is kept at OpenAI.

    The key comes from `OPENAI_API_KEY` if none is given.

    Args:
        model: its name, such as `gpt-5.5`.
        options: see `Options`.

    Example:
        >>> OpenAIModel("gpt-5.5", api_key="sk-secret")
        OpenAIModel('openai:gpt-5.5')
    """

    def __init__(self, model: str, **options: Unpack[Options]) -> None:
        super().__init__(PROVIDER, model, profile_of("openai", model), options)

    def _written(self, request: ModelRequest) -> Call:
        return written(request, self.model, self.profile)

    def _opened(self, client: Any, fields: Mapping[str, Any]) -> Any:
        return client.responses.create(**fields)

    def _reader(self) -> Reader:
        return ResponsesReader()
