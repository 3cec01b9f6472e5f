"""`ToolContext`: the context of the run, as one call of a tool sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flowagent.core.context import Context, DepsT_co, StateT_co


class ToolContext(Context[DepsT_co, StateT_co]):
    """What a tool can ask of the run that it is called in. A parameter of this type is filled in, not by the model.

    Attributes:
        call_id: the id of the call.
        tool: the name of the tool.
        arguments: what it was called with, as validated, by the names that the model knows.
        key: the idempotency key, unique to the call and the same for each attempt of it.

    Example:
        ::

            @tool
            async def refund(order: str, ctx: ToolContext[Shop]) -> str:
                return await ctx.step("pay back", ctx.deps.pay_back, order, ctx.key)
    """

    __slots__ = ("arguments", "call_id", "tool")

    call_id: str
    tool: str
    arguments: Mapping[str, Any]

    @classmethod
    def of_call(
        cls, ctx: Context[DepsT_co, StateT_co], *, call_id: str, tool: str, arguments: Mapping[str, Any]
    ) -> ToolContext[DepsT_co, StateT_co]:
        """The context of a node as that of one call."""
        made = cls.sharing(ctx)
        made.key = f"{ctx.key}/{call_id}"
        made.call_id = call_id
        made.tool = tool
        made.arguments = arguments
        return made
