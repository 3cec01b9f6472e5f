"""Tools: what a model may ask to be called, and the running of such calls. Knows models' plain data, and no agents."""

from flowagent.tools.context import ToolContext
from flowagent.tools.decisions import Abort, Answer, Approve, Decision, Deny
from flowagent.tools.outcome import ToolOutcome
from flowagent.tools.registry import Registry
from flowagent.tools.tool import Tool, tool
from flowagent.tools.toolbox import Toolbox, ToolSource
from flowagent.tools.toolset import Toolset, approved, filtered, prefixed, renamed

__all__ = [
    "Abort",
    "Answer",
    "Approve",
    "Decision",
    "Deny",
    "Registry",
    "Tool",
    "ToolContext",
    "ToolOutcome",
    "ToolSource",
    "Toolbox",
    "Toolset",
    "approved",
    "filtered",
    "prefixed",
    "renamed",
    "tool",
]
