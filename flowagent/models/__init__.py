"""Models: what agents ask, and what can be put around one. Vendors' packages are imported at the first request."""

from flowagent.models.anthropic import AnthropicModel
from flowagent.models.base import Model, ModelRequest, Profile, Reply, Section, Settings, ToolSpec
from flowagent.models.cached import Cached
from flowagent.models.fallback import Fallback
from flowagent.models.limited import Limited
from flowagent.models.messages import (
    AssistantMessage,
    Media,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
    turns,
    user,
)
from flowagent.models.openai import OpenAIModel
from flowagent.models.openai_chat import OpenAIChatModel, OpenAICompatible
from flowagent.models.opening import open_model
from flowagent.models.prices import Price, Priced, Prices
from flowagent.models.prompted import PromptedTools
from flowagent.models.recorded import Recorder
from flowagent.models.replay import Replay
from flowagent.models.retrying import Retrying

__all__ = [
    "AnthropicModel",
    "AssistantMessage",
    "Cached",
    "Fallback",
    "Limited",
    "Media",
    "Message",
    "Model",
    "ModelRequest",
    "OpenAIChatModel",
    "OpenAICompatible",
    "OpenAIModel",
    "Price",
    "Priced",
    "Prices",
    "Profile",
    "PromptedTools",
    "Recorder",
    "Replay",
    "Reply",
    "Retrying",
    "Section",
    "Settings",
    "Text",
    "Thinking",
    "ToolCall",
    "ToolMessage",
    "ToolResult",
    "ToolSpec",
    "UserMessage",
    "open_model",
    "turns",
    "user",
]
