"""Agents: immutable definitions that build graphs, run by themselves or as nodes of others."""

from flowagent.agents.agent import Agent
from flowagent.agents.asking import using
from flowagent.agents.choose import choose
from flowagent.agents.delegate import AgentTool
from flowagent.agents.guards import Guard
from flowagent.agents.hooks import Hooks
from flowagent.agents.prompt import Example
from flowagent.agents.result import AgentResult, Pending, pending_in
from flowagent.agents.saving import SaveTo
from flowagent.agents.state import Ending

__all__ = [
    "Agent",
    "AgentResult",
    "AgentTool",
    "Ending",
    "Example",
    "Guard",
    "Hooks",
    "Pending",
    "SaveTo",
    "choose",
    "pending_in",
    "using",
]
