"""What makes two requests the same: all that a model is told, and nothing that only its program knows."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from flowagent.models.base import ModelRequest

NOT_TOLD = frozenset({"id", "usage", "reply_id", "model", "provider", "finish"})
"""Fields of messages that are for the program: two conversations that differ in them alone read the same."""


def told(request: ModelRequest) -> dict[str, Any]:
    """A request as JSON data, without what the model is not told.

    Left out are ids, usage and origin of messages, and how long an answer is waited for. Tool calls keep their ids, as
    they are sent.

    Example:
        >>> from flowagent.models.messages import user
        >>> told(ModelRequest(messages=(user("hi"),)))["messages"]
        [{'role': 'user', 'parts': [{'kind': 'text', 'text': 'hi'}]}]
    """
    data = request.model_dump(mode="json")
    data["messages"] = [
        {name: value for name, value in one.items() if name not in NOT_TOLD} for one in data["messages"]
    ]
    data["settings"].pop("timeout", None)
    return data


def fingerprint(*data: object) -> str:
    """A hash of JSON data that is the same in every process, whatever the order of keys."""
    text = json.dumps(data, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
