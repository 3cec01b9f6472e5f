"""Our models of each provider, pointed at a server on this machine."""

from __future__ import annotations

from typing import Any, Final, Protocol

import pytest

from flowagent.models.anthropic import AnthropicModel
from flowagent.models.base import Model
from flowagent.models.openai import OpenAIModel
from flowagent.models.openai_chat import OpenAIChatModel, OpenAICompatible

KEY: Final = "sk-flowagent-canary-4711"


class Make(Protocol):
    """Makes a model that asks a server."""

    def __call__(self, url: str, /, **options: Any) -> Model: ...


def anthropic(url: str, /, **options: Any) -> Model:
    """Anthropic's Messages."""
    return AnthropicModel("claude-haiku-4-5", base_url=url, api_key=KEY, **options)


def openai(url: str, /, **options: Any) -> Model:
    """OpenAI's Responses."""
    return OpenAIModel("gpt-5.5", base_url=f"{url}/v1", api_key=KEY, **options)


def openai_chat(url: str, /, **options: Any) -> Model:
    """OpenAI's Chat Completions."""
    return OpenAIChatModel("gpt-4.1", base_url=f"{url}/v1", api_key=KEY, **options)


def compatible(url: str, /, **options: Any) -> Model:
    """Chat Completions as other servers speak them."""
    return OpenAICompatible("any", base_url=f"{url}/v1", api_key=KEY, **options)


each_provider = pytest.mark.parametrize("make", [anthropic, openai, openai_chat, compatible])
