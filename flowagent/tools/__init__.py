<<<<<<< HEAD
"""Tools: what a model may ask to be called, and the running of such calls.

A tool is made of a function by `tool`. A `Toolbox` holds those of an agent, from wherever they come, and runs what a
model asks for. Servers, documents and ready-made tools are modules beside this one.
"""
=======
"""Tools: what a model may ask to be called, and the running of such calls. Knows models' plain data, and no agents."""
>>>>>>> h-agents

from flowagent.tools.context import ToolContext
from flowagent.tools.decisions import Abort, Answer, Approve, Decision, Deny
from flowagent.tools.outcome import ToolOutcome
from flowagent.tools.registry import Registry
<<<<<<< HEAD
from flowagent.tools.running import Running
from flowagent.tools.strict import Report
from flowagent.tools.tool import Tool, ToolOptions, tool
from flowagent.tools.toolbox import Loaded, Toolbox
from flowagent.tools.toolset import Fixed, Toolset, approved, filtered, prefixed, renamed
from flowagent.tools.untrusted import untrusted_note
=======
from flowagent.tools.tool import Tool, tool
from flowagent.tools.toolbox import Toolbox, ToolSource
from flowagent.tools.toolset import Toolset, approved, filtered, prefixed, renamed
>>>>>>> h-agents

__all__ = [
    "Abort",
    "Answer",
    "Approve",
    "Decision",
    "Deny",
<<<<<<< HEAD
    "Fixed",
    "Loaded",
    "Registry",
    "Report",
    "Running",
    "Tool",
    "ToolContext",
    "ToolOptions",
    "ToolOutcome",
=======
    "Registry",
    "Tool",
    "ToolContext",
    "ToolOutcome",
    "ToolSource",
>>>>>>> h-agents
    "Toolbox",
    "Toolset",
    "approved",
    "filtered",
    "prefixed",
    "renamed",
    "tool",
<<<<<<< HEAD
    "untrusted_note",
=======
>>>>>>> h-agents
]
