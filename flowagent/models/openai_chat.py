"""Models behind Chat Completions, through the `openai` package: OpenAI's own, and those of servers that speak it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, Unpack

from flowagent.models.base import ModelRequest
from flowagent.models.chat_reply import ChatReader
from flowagent.models.chat_request import Speech, written
from flowagent.models.openai import OpenAIService
from flowagent.models.profiles import profile_of
from flowagent.models.remote import Call, Common, Options, Reader


class ChatService(OpenAIService):
    """What all models behind Chat Completions have in common: how requests are written and replies are read."""

    _speech = Speech()

    def _written(self, request: ModelRequest) -> Call:
        return written(request, self.model, self.provider, self.profile, self._speech)

    def _opened(self, client: Any, fields: Mapping[str, Any]) -> Any:
        return client.chat.completions.create(**fields)

    def _reader(self) -> Reader:
        return ChatReader(self._modules()[0], self.provider)


class OpenAIChatModel(ChatService):
    """A model behind OpenAI's Chat Completions; `OpenAIModel` is the better choice where nothing speaks for this one.

    The key comes from `OPENAI_API_KEY` if none is given.

    Args:
        model: its name, such as `gpt-4.1`.
        options: see `Options`.

    Example:
        >>> OpenAIChatModel("gpt-4.1").name
        'openai-chat:gpt-4.1'
    """

    _speech = Speech(limit="max_completion_tokens", strict=True)

    def __init__(self, model: str, **options: Unpack[Options]) -> None:
        super().__init__("openai-chat", model, profile_of("openai-chat", model), options)


class OpenAICompatible(ChatService):
    """A model of any server that speaks OpenAI's Chat Completions, such as one on this machine.

    OpenAI's key, organisation and project are never sent to it.

    Args:
        model: its name at the server.
        base_url: where the server is, such as `http://localhost:11434/v1`.
        provider: what the server is called in names, errors and messages.
        tool_calls: `native`, or `prompted` for models that call no tools by themselves, so that agents write the
            tools into the prompt.
        options: see `Common`; many servers need no `api_key`.

    Example:
        >>> OpenAICompatible("qwen3", base_url="http://localhost:8000/v1").name
        'compatible:qwen3'
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str,
        provider: str = "compatible",
        tool_calls: Literal["native", "prompted"] = "native",
        **options: Unpack[Common],
    ) -> None:
        super().__init__(provider, model, profile_of("compatible", model), {**options, "base_url": base_url})
        if tool_calls == "prompted":
            self._profile = replace(self._profile, tools=False)

    def _client(self) -> Any:
        package, _ = self._modules()
        key = self._key_in_use() or "none"  # the package wants one, the server does not
        return package.AsyncOpenAI(api_key=key, base_url=self._base_url, organization="", project="", max_retries=0)

    def _key_in_use(self) -> str:
        return "" if self._key is None else self._key.get_secret_value()
