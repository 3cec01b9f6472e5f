"""What may be said about tools that come from elsewhere, in one go for all of a toolset."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypedDict

from flowagent.core.context import Context
from flowagent.core.policies import Retry
from flowagent.tools.tool import Approval


class RemoteOptions(TypedDict, total=False):
    """The options of each tool of a toolset, but for its name and its timeout; see `ToolOptions`."""

    retry: Retry | None
    once: bool
    final: bool
    sequential: bool
    approval: Approval
    max_result_tokens: int | None
    allowed: Callable[[Context[Any, Any]], bool] | None
    strict: bool | Literal["auto"]
    untrusted: bool
    tags: tuple[str, ...]
