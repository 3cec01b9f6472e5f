"""Tools: what a model may ask to be called, and the running of such calls. Knows models' plain data, and no agents."""

from flowagent.errors import ToolError, ToolFatal, ToolRetry
from flowagent.tools.context import ToolContext
from flowagent.tools.decisions import Abort, Answer, Approve, Deny
from flowagent.tools.mcp import MCPTools
from flowagent.tools.openapi import OpenAPITools
from flowagent.tools.registry import Registry
from flowagent.tools.tool import Tool, tool
from flowagent.tools.toolset import Toolset, approved, filtered, prefixed, renamed

__all__ = [
    "Abort",
    "Answer",
    "Approve",
    "Deny",
    "MCPTools",
    "OpenAPITools",
    "Registry",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolFatal",
    "ToolRetry",
    "Toolset",
    "approved",
    "filtered",
    "prefixed",
    "renamed",
    "tool",
]
