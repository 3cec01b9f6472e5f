"""Tools: what a model may ask to be called, and the running of such calls.

A tool is made of a function by `tool`. A `Toolbox` holds those of an agent, from wherever they come, and runs what a
model asks for. Servers, documents and ready-made tools are modules beside this one.
"""

from flowagent.models.strict import Report
from flowagent.tools.context import ToolContext
from flowagent.tools.decisions import Abort, Answer, Approve, Decision, Deny
from flowagent.tools.outcome import ToolOutcome
from flowagent.tools.registry import Registry
from flowagent.tools.running import Running
from flowagent.tools.tool import Tool, ToolOptions, tool
from flowagent.tools.toolbox import Loaded, Toolbox, ToolSource
from flowagent.tools.toolset import Fixed, Toolset, approved, filtered, prefixed, renamed
from flowagent.tools.untrusted import untrusted_note

__all__ = [
    "Abort",
    "Answer",
    "Approve",
    "Decision",
    "Deny",
    "Fixed",
    "Loaded",
    "Registry",
    "Report",
    "Running",
    "Tool",
    "ToolContext",
    "ToolOptions",
    "ToolOutcome",
    "ToolSource",
    "Toolbox",
    "Toolset",
    "approved",
    "filtered",
    "prefixed",
    "renamed",
    "tool",
    "untrusted_note",
]
