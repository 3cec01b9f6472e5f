"""How an agent has its tools run: with its hooks around the validation, and its guardrails before the call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flowagent.agents.guards import Guards, guard_all
from flowagent.agents.hooks import Hooks, around, is_hooked
from flowagent.core.context import Context
from flowagent.models.messages import ToolCall
from flowagent.tools.running import Running, Validation


def running_for(hooks: Sequence[Hooks], guards: Guards, max_result_tokens: int | None) -> Running:
    """How calls are made for an agent.

    Args:
        hooks: the agent's hooks.
        guards: the agent's guardrails.
        max_result_tokens: how long a result may be, where its tool says nothing.
    """

    async def validation(call: ToolCall, ctx: Context[Any, Any], valid: Validation) -> Mapping[str, Any]:
        given: Mapping[str, Any] = await around(hooks, "validation", ctx, valid)(call)
        return given

    async def refusal(call: ToolCall, ctx: Context[Any, Any]) -> str:
        blocked = await guard_all(guards.tool, ctx, call)
        return "" if blocked is None else f"{blocked.guard}: {blocked.reason}"

    return Running(
        max_result_tokens=max_result_tokens,
        around=validation if is_hooked(hooks, "validation") else None,
        refusal=refusal if guards.tool else None,
    )
