"""Models: what agents ask. Vendors' packages are imported when the first request is made."""

from flowagent.models.base import Model, ModelRequest, Profile, Reply, Settings
from flowagent.models.cached import Cached
from flowagent.models.fallback import Fallback
from flowagent.models.limited import Limited
from flowagent.models.messages import Media, Message, Text, user
from flowagent.models.openai_chat import OpenAICompatible
from flowagent.models.opening import open_model
from flowagent.models.recorded import Recorder
from flowagent.models.replay import Replay
from flowagent.models.scripted import FunctionModel, Scripted
from flowagent.models.steps import after, call, calls, fail, say, think
from flowagent.models.trial import TestModel

__all__ = [
    "Cached",
    "Fallback",
    "FunctionModel",
    "Limited",
    "Media",
    "Message",
    "Model",
    "ModelRequest",
    "OpenAICompatible",
    "Profile",
    "Recorder",
    "Replay",
    "Reply",
    "Scripted",
    "Settings",
    "TestModel",
    "Text",
    "after",
    "call",
    "calls",
    "fail",
    "open_model",
    "say",
    "think",
    "user",
]
