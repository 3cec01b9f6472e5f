"""Our models of each provider, pointed at a server on this machine."""

from __future__ import annotations

from typing import Any, Final, Protocol

import pytest

from flowagent.models.anthropic import AnthropicModel
from flowagent.models.base import Model

KEY: Final = "sk-flowagent-canary-4711"


class Make(Protocol):
    """Makes a model that asks a server."""

    def __call__(self, url: str, **options: Any) -> Model: ...


def anthropic(url: str, **options: Any) -> Model:
    """Anthropic's Messages."""
    return AnthropicModel("claude-haiku-4-5", base_url=url, api_key=KEY, **options)


each_provider = pytest.mark.parametrize("make", [anthropic])
