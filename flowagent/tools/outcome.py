"""`ToolOutcome`: what came of one call, as it is stored."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from flowagent.models.messages import ToolResult

ToolStatus: TypeAlias = Literal["done", "failed", "invalid", "unknown", "denied", "answered", "forbidden"]
"""What came of a call: `done`, `failed` (the tool raised, took too long, or its result cannot be told), `invalid` (its
arguments do not fit), `unknown` (there is no such tool), `denied` or `answered` (by whom approval was asked), or
`forbidden` (the tool is not allowed in this run). The tool was run for `done` and, unless it was stopped, `failed`."""


class ToolOutcome(BaseModel):
    """What came of one call.

    Args:
        result: what the model is told.
        status: what came of it.
        final: whether its result is the agent's answer.
        value: the whole result as JSON text, though the model may be told less; "null" where there is none.
        repairs: what was mended in the arguments, one line each; empty where they were intact.
        seconds: how long the call took, attempts and waits between them included.
        attempts: how many calls of the tool were made.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    result: ToolResult
    status: ToolStatus
    final: bool = False
    value: str = "null"
    repairs: tuple[str, ...] = ()
    seconds: float = 0.0
    attempts: int = 0

    @property
    def ok(self) -> bool:
        """Whether the model has what it asked for."""
        return self.status in ("done", "answered")
