"""What each known model accepts, as data: families by the beginning of their name, the longest beginning first.

A model that no row knows gets its provider's cautious profile, which claims nothing that could be refused. Whoever
knows better gives `profile=` to the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Literal

from flowagent.models.base import Effort, Profile

Provider = Literal["anthropic", "openai", "openai-chat", "compatible"]
"""Whose interface a model is behind; `compatible` stands for all servers that speak OpenAI's Chat Completions."""

ALWAYS: Final = frozenset({"timeout", "headers", "extra"})
"""Settings that concern the request and not the model, so every model takes them."""

_SAMPLING: Final = frozenset({"temperature", "top_p"})
_TEXT: Final = ("text/*",)
_IMAGES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
_PAPERS: Final = (*_IMAGES, "application/pdf", *_TEXT)


# -- Anthropic -------------------------------------------------------------------------------------------------------

_CLAUDE_SETTINGS: Final = ALWAYS | {
    "max_tokens",
    "stop",
    "thinking",
    "parallel_tool_calls",
    "service_tier",
    "metadata",
    "cache",
}
_UP_TO_HIGH: Final[tuple[Effort, ...]] = ("low", "medium", "high")
_UP_TO_MAX: Final[tuple[Effort, ...]] = (*_UP_TO_HIGH, "max")
_WITH_XHIGH: Final[tuple[Effort, ...]] = (*_UP_TO_HIGH, "xhigh", "max")

_CLAUDE_4_5: Final = Profile(
    window=200_000,
    max_output=64_000,
    strict_tools=True,
    output=True,
    output_with_tools=True,
    media=_PAPERS,
    settings=_CLAUDE_SETTINGS | _SAMPLING | {"top_k"},
    thinking="budget",
)
_CLAUDE_4_6: Final = replace(
    _CLAUDE_4_5,
    window=1_000_000,
    max_output=128_000,
    settings=_CLAUDE_4_5.settings | {"effort"},
    efforts=_UP_TO_MAX,
    thinking="adaptive",
)
_CLAUDE_5: Final = replace(_CLAUDE_4_6, settings=_CLAUDE_SETTINGS | {"effort"}, efforts=_WITH_XHIGH)
_CLAUDE_ALWAYS: Final = replace(_CLAUDE_5, thinking="always")
_CLAUDE_UNFORCED: Final = replace(_CLAUDE_ALWAYS, forced_tools=False)
_CLAUDE_UNKNOWN: Final = Profile(
    media=(*_IMAGES, "application/pdf", *_TEXT),
    settings=ALWAYS | {"max_tokens", "stop", "parallel_tool_calls", "service_tier", "metadata", "cache"},
)

_CLAUDE: Final[Mapping[str, Profile]] = {
    "claude-haiku-4-5": _CLAUDE_4_5,
    "claude-sonnet-4-5": _CLAUDE_4_5,
    "claude-opus-4-5": replace(_CLAUDE_4_5, settings=_CLAUDE_4_5.settings | {"effort"}, efforts=_UP_TO_HIGH),
    "claude-sonnet-4-6": _CLAUDE_4_6,
    "claude-opus-4-6": _CLAUDE_4_6,
    "claude-opus-4-7": _CLAUDE_5,
    "claude-opus-4-8": _CLAUDE_5,
    "claude-opus-5": _CLAUDE_5,
    "claude-sonnet-5": _CLAUDE_5,
    "claude-haiku-5": _CLAUDE_5,
    "claude-opus-5-5": _CLAUDE_UNFORCED,
    "claude-fable-5": _CLAUDE_ALWAYS,
    "claude-fable-5-": _CLAUDE_UNFORCED,
    "claude-mythos-5": _CLAUDE_ALWAYS,
    "claude-mythos-5-": _CLAUDE_UNFORCED,
    "claude-mythos-preview": _CLAUDE_UNFORCED,
}


# -- OpenAI ----------------------------------------------------------------------------------------------------------

_RESPONSES: Final = ALWAYS | {"max_tokens", "parallel_tool_calls", "service_tier", "metadata", "cache"}
_CHAT: Final = ALWAYS | {"max_tokens", "stop", "seed", "parallel_tool_calls", "service_tier", "cache"}

_PLAIN: Final = Profile(
    window=128_000,
    max_output=16_384,
    strict_tools=True,
    output=True,
    output_with_tools=True,
    media=_PAPERS,
    settings=_SAMPLING,
)
_GPT_4_1: Final = replace(_PLAIN, window=1_047_576, max_output=32_768)
_THINKS: Final = replace(
    _PLAIN,
    window=400_000,
    max_output=128_000,
    settings=frozenset({"effort", "thinking", "verbosity"}),
    efforts=_UP_TO_HIGH,
    thinking="always",
)
_O_SERIES: Final = replace(
    _THINKS, window=200_000, max_output=100_000, settings=frozenset({"effort", "thinking"}), parallel_tools=False
)
_GPT_5: Final = replace(_THINKS, efforts=("minimal", *_UP_TO_HIGH))
# From 5.1 on thinking can be switched off. Up to 5.4 it is off unless asked for, and then sampling is taken.
_GPT_5_1: Final = replace(
    _THINKS, settings=_THINKS.settings | _SAMPLING, efforts=("none", *_UP_TO_HIGH), thinking="adaptive"
)
_GPT_5_2: Final = replace(_GPT_5_1, efforts=("none", *_UP_TO_HIGH, "xhigh"))
_GPT_5_5: Final = replace(_THINKS, window=1_050_000, efforts=("none", *_UP_TO_HIGH, "xhigh"), thinking="adaptive")
_GPT_5_6: Final = replace(_GPT_5_5, efforts=("none", *_UP_TO_HIGH, "xhigh", "max"))
_GPT_6: Final = replace(_GPT_5_5, efforts=_WITH_XHIGH, thinking="always")
_FIXED: Final = replace(_THINKS, settings=frozenset({"verbosity"}), efforts=())
_PRO: Final = replace(_THINKS, efforts=("medium", "high", "xhigh"))
_GPT_UNKNOWN: Final = Profile(media=(*_IMAGES, *_TEXT))

_GPT: Final[Mapping[str, Profile]] = {
    "gpt-4o": _PLAIN,
    "gpt-4.1": _GPT_4_1,
    "o1": _O_SERIES,
    "o3": _O_SERIES,
    "o4-mini": _O_SERIES,
    "gpt-5": _GPT_5,
    "gpt-5-chat": replace(_PLAIN, tools=False),
    "gpt-5-pro": replace(_THINKS, efforts=("high",)),
    "gpt-5.1": _GPT_5_1,
    "gpt-5.1-chat": _FIXED,
    "gpt-5.1-codex": _THINKS,
    "gpt-5.1-codex-max": replace(_THINKS, efforts=(*_UP_TO_HIGH, "xhigh")),
    "gpt-5.2": _GPT_5_2,
    "gpt-5.2-chat": _FIXED,
    "gpt-5.2-pro": _PRO,
    "gpt-5.3": _GPT_5_2,
    "gpt-5.3-chat": _FIXED,
    "gpt-5.4": _GPT_5_2,
    "gpt-5.4-pro": _PRO,
    "gpt-5.5": _GPT_5_5,
    "gpt-5.5-pro": _PRO,
    "gpt-5.6": _GPT_5_6,
    "gpt-6": _GPT_6,
    "gpt-6-sol": _GPT_5_6,
}

_AUDIO: Final = replace(_PLAIN, output=False, output_with_tools=False, media=("audio/wav", "audio/mpeg", *_TEXT))
_CHAT_ONLY: Final[Mapping[str, Profile]] = {"gpt-audio": _AUDIO, "gpt-4o-audio": _AUDIO, "gpt-4o-mini-audio": _AUDIO}

# A server of unknown make takes the classic fields of Chat Completions, and most ignore those that they do not know.
_COMPATIBLE: Final = Profile(
    forced_tools=True,
    output=True,
    media=(*_IMAGES, *_TEXT),
    settings=ALWAYS | _SAMPLING | {"max_tokens", "stop", "seed", "top_k", "effort", "parallel_tool_calls", "cache"},
    efforts=("none", "minimal", "low", "medium", "high"),
)


def profile_of(provider: Provider, model: str) -> Profile:
    """What a model accepts, as far as it is known here.

    Args:
        provider: whose interface it is behind.
        model: its name there.

    Returns:
        The profile of its family, or the provider's cautious one.

    Example:
        >>> profile_of("anthropic", "claude-haiku-4-5-20251001").thinking
        'budget'
        >>> profile_of("openai", "gpt-99").settings >= {"temperature"}
        False
    """
    match provider:
        case "anthropic":
            return _family(_CLAUDE, model) or _CLAUDE_UNKNOWN
        case "openai":
            return _with(_family(_GPT, model) or _GPT_UNKNOWN, _RESPONSES)
        case "openai-chat":
            return _with(_family(_CHAT_ONLY, model) or _family(_GPT, model) or _GPT_UNKNOWN, _CHAT)
        case "compatible":
            return _COMPATIBLE


def is_known(provider: Provider, model: str) -> bool:
    """Whether a model's family has a row here."""
    table = {"anthropic": _CLAUDE, "openai": _GPT, "openai-chat": {**_GPT, **_CHAT_ONLY}, "compatible": {}}[provider]
    return _family(table, model) is not None


def _family(table: Mapping[str, Profile], model: str) -> Profile | None:
    beginnings = [known for known in table if model.startswith(known)]
    return table[max(beginnings, key=len)] if beginnings else None


def _with(profile: Profile, settings: frozenset[str]) -> Profile:
    return replace(profile, settings=profile.settings | settings)
