"""Models by their names: `open_model("anthropic:claude-haiku-4-5")`."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Final, Unpack, cast

from flowagent.errors import ModelError
from flowagent.models.anthropic import AnthropicModel
from flowagent.models.base import Model
from flowagent.models.openai import OpenAIModel
from flowagent.models.openai_chat import OpenAIChatModel, OpenAICompatible
from flowagent.models.remote import Common, Options

LOCAL: Final[Mapping[str, str]] = {
    "ollama": "http://localhost:11434/v1",
    "lmstudio": "http://localhost:1234/v1",
    "vllm": "http://localhost:8000/v1",
    "llamacpp": "http://localhost:8080/v1",
}
"""Servers that speak Chat Completions, and where they listen unless they were told otherwise."""

_HOSTED: Final[Mapping[str, type[AnthropicModel | OpenAIModel | OpenAIChatModel]]] = {
    "anthropic": AnthropicModel,
    "openai": OpenAIModel,
    "openai-chat": OpenAIChatModel,
}
_BEGINNINGS: Final[Mapping[str, str]] = {"claude": "anthropic", "gpt": "openai", "o1": "openai", "o3": "openai"}


def open_model(model: str | Model, **options: Unpack[Options]) -> Model:
    """A model by its name; a model itself passes through.

    Args:
        model: `provider:name`, such as `anthropic:claude-haiku-4-5`, `openai:gpt-5.5` (the Responses API),
            `openai-chat:gpt-4.1` (Chat Completions), `ollama:qwen3`, `lmstudio:...`, `vllm:...` or `llamacpp:...`.
        options: see `Options`; only for a model that is made here.

    Raises:
        ModelError: the name names no provider that is known here (`not_found`).
        ValueError: options for a model that is made already.

    Example:
        >>> open_model("ollama:qwen3:8b")
        OpenAICompatible('ollama:qwen3:8b')
    """
    if not isinstance(model, str):
        if options:
            raise ValueError(f"{model.name} is made already, so {', '.join(sorted(options))} would do nothing")
        return model
    provider, _, name = model.partition(":")
    if provider in _HOSTED and name:
        return _HOSTED[provider](name, **options)
    if provider in LOCAL and name:
        base_url = options.get("base_url") or LOCAL[provider]
        common = cast("Common", {key: value for key, value in options.items() if key != "base_url"})
        return OpenAICompatible(name, base_url=base_url, provider=provider, **common)
    raise ModelError(_unknown(model, provider, name), kind="not_found", model=model)


def _unknown(model: str, provider: str, name: str) -> str:
    known = [*_HOSTED, *LOCAL]
    if provider in known:
        return f"{model!r} names no model: write `{provider}:` and the model's name after it"
    close = difflib.get_close_matches(provider.lower(), known, n=1) if name else []
    guess = [f"{close[0]}:{name}"] if close else []
    if not name:
        guess = [f"{owner}:{model}" for beginning, owner in _BEGINNINGS.items() if model.lower().startswith(beginning)]
    meant = f"; did you mean `{guess[0]}`?" if guess else ""
    listed = ", ".join(f"`{one}:`" for one in known)
    return (
        f"{model!r} names no known provider{meant}\n"
        f"Names are written `provider:model`; known providers are {listed}. "
        "Any other server that speaks Chat Completions is `OpenAICompatible(model, base_url=...)`."
    )
