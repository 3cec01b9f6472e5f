"""`shown`: a request as text for people."""

from __future__ import annotations

from flowagent.models.base import ModelRequest, Only, OutputSpec, Section, ToolSpec
from flowagent.models.messages import (
    AssistantMessage,
    Media,
    Opaque,
    Text,
    Thinking,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from flowagent.models.shown import shown


def test_all_that_a_model_is_told_is_shown():
    """B16: each part of a request has its line, long texts are cut and what is left out is counted."""
    picture, link = Media(data=b"abc", media_type="image/png"), Media(url="https://x/y", media_type="audio/wav")
    request = ModelRequest(
        system=(Section(name="role", text="x" * 30),),
        messages=(
            UserMessage(parts=(Text(text="look"), picture, link)),
            AssistantMessage(parts=(Thinking(text="hm", provider="p"), Opaque(provider="p", data="12345"))),
            ToolMessage(results=(ToolResult(id="c", name="f", content=(Text(text="1"), picture)),)),
        ),
        tools=(ToolSpec(name="f", parameters={}), ToolSpec(name="g", parameters={})),
        tool_choice=Only(tool="g"),
        output=OutputSpec(name="o", schema_={"type": "null"}),
    )
    assert shown(request, most=43).splitlines() == [
        f"system (role): {'x' * 28}... (2 more characters)",
        "user: look",
        "user: [image/png, 3 bytes]",
        "user: [audio/wav, https://x/y]",
        "assistant: (thinks) hm",
        "assistant: [5 characters that only p reads]",
        "tool: f (c) -> 1 [image/png, 3 bytes]",
        "tools: f, g (must call g)",
        'output: o {"type": "null"}',
    ]
