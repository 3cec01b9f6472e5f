"""flowagent: workflows of agents as explicit graphs with typed state, checkpoints after every step, and pictures."""

from flowagent.core.context import Context
from flowagent.core.graph import Graph, RunOptions
from flowagent.core.nodes import END, START, Goto, ItemError, Send, Update
from flowagent.core.policies import Limits, Retry
from flowagent.core.reducers import (
    Remove,
    Replace,
    add,
    append,
    last,
    maximum,
    merge,
    messages,
    minimum,
    reducer,
    union,
)
from flowagent.core.run import Run
from flowagent.core.secret import secret
from flowagent.core.state import State, replace
from flowagent.core.usage import Usage
from flowagent.core.version import VERSION as __version__  # noqa: N811  # the name that tools look for

__all__ = [
    "END",
    "START",
    "Context",
    "Goto",
    "Graph",
    "ItemError",
    "Limits",
    "Remove",
    "Replace",
    "Retry",
    "Run",
    "RunOptions",
    "Send",
    "State",
    "Update",
    "Usage",
    "__version__",
    "add",
    "append",
    "last",
    "maximum",
    "merge",
    "messages",
    "minimum",
    "reducer",
    "replace",
    "secret",
    "union",
]
