"""An agent as a tool of another: its graph stands inside the `tools` of the one that calls it.

So its steps are journaled, drawn and limited with the rest, an approval inside it shows the call that will really run,
and what it spends counts for both.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ConfigDict
from pydantic_core import to_json

from flowagent.agents.state import WITH_OUTPUT, AgentState
from flowagent.agents.template import Template
from flowagent.core.context import Context
from flowagent.core.graph import Graph
from flowagent.core.nodes import END, START, Goto
from flowagent.core.state import State
from flowagent.errors import GraphError
from flowagent.models.messages import Text, ToolCall, ToolResult, user
from flowagent.tools.names import likeness
from flowagent.tools.outcome import ToolOutcome
from flowagent.tools.tool import Tool

if TYPE_CHECKING:
    from flowagent.agents.agent import Agent

DISPATCH: Final = "dispatch"


class Task(BaseModel):
    """What an agent is asked when it is called as a tool and says nothing else of its input."""

    task: str
    """What to do, with all that has to be known for it: the other agent sees nothing of this conversation."""


class Answer(BaseModel):
    """What an agent that was called has answered.

    Args:
        text: what the calling model is told.
        value: the answer as JSON text.
        is_error: whether it ended without one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str
    value: str
    is_error: bool


class CallState(State):
    """One call of a tool, where some of the tools are agents.

    Args:
        call: what the model asks for.
        checked: what came of it; for an agent's call its validated arguments.
        answer: what the agent answered.
    """

    call: ToolCall
    checked: ToolOutcome | None = None
    answer: Answer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTool:
    """An agent that another may call.

    Args:
        agent: who is called.
        name: what the tool is called; by default the agent's name.
        description: when to call it; by default the agent's description.
        input: a model whose fields are the tool's arguments.
        prompt: what the agent is asked, with `{field}`s of the input.
        approval: whether a person must approve each call; see `tool`.
    """

    agent: Agent[Any, Any]
    name: str = ""
    description: str = ""
    input: type[BaseModel] = Task
    prompt: str = "{task}"
    approval: Any = False

    @property
    def title(self) -> str:
        """What the tool is called."""
        return self.name or self.agent.name

    @property
    def node(self) -> str:
        """What its node is called in the graph of a call."""
        return f"agent {self.title}" if self.title in (START, END, DISPATCH) else self.title

    @property
    def tool(self) -> Tool[Any, Any]:
        """The tool that a model is told of. Running it gives back its validated arguments, which the agent is asked."""

        async def arguments(given: dict[str, Any], _: Any) -> Any:
            return given

        return Tool.from_schema(
            name=self.title,
            description=self.description or self.agent.description or f"Ask the agent `{self.agent.name}`.",
            parameters=self.input.model_json_schema(),
            call=arguments,
            approval=self.approval,
        )

    def faults(self) -> list[str]:
        """What is wrong with its prompt."""
        return [f"tool `{self.title}`: {fault}" for fault in Template(self.prompt).faults(self.input)]


@dataclass(frozen=True, slots=True)
class Delegates:
    """The agents among an agent's tools, by the name of the tool."""

    agents: Mapping[str, AgentTool] = field(default_factory=dict[str, AgentTool])

    def find(self, name: str) -> AgentTool | None:
        """The agent that a model means by a name, by the same rule as for all tools."""
        return next((one for title, one in self.agents.items() if likeness(title) == likeness(name)), None)


def call_graph(
    agent: str, delegates: Delegates, call: Callable[[ToolCall, Context[Any, Any]], Awaitable[ToolOutcome]]
) -> Graph[CallState, Any]:
    """The graph that runs one call: by a function, or by the graph of the agent that is called.

    Args:
        agent: the name of the agent whose tools these are.
        delegates: the agents among them.
        call: runs any call; of an agent's it checks and approves the arguments, and gives them back.
    """
    graph: Graph[CallState, Any] = Graph(f"{agent}.call", CallState)

    async def dispatch(state: CallState, ctx: Context[Any, CallState]) -> Goto:
        outcome = await call(state.call, ctx)
        wanted = delegates.find(state.call.name) if outcome.status == "done" else None
        return Goto(END if wanted is None else wanted.node, {"checked": outcome})

    names = [one.node for one in delegates.agents.values()]
    graph.node(dispatch, name=DISPATCH, to=[*names, END], doc="Checks a call, and runs it unless an agent does.")
    graph.edge(START, DISPATCH)
    for one in delegates.agents.values():
        graph.node(_telling(one.agent).graph, name=one.node, input=_asked(one), output=_answered(one))
        graph.edge(one.node, END)
    return graph


def _telling(agent: Agent[Any, Any]) -> Agent[Any, Any]:
    """An agent that at its limits ends and does not fail: whoever called it is told, and may do without."""
    return agent.replace(at_limit="stop") if agent.at_limit == "raise" else agent


def _asked(one: AgentTool) -> Callable[[Any], Any]:
    template = Template(one.prompt)

    def asked(state: CallState) -> Mapping[str, Any]:
        assert state.checked is not None, "a call was checked before it reaches its agent; this is a bug in flowagent"
        given = one.input.model_validate_json(state.checked.value)
        return {"task": user(template.filled(given))}

    return asked


def _answered(one: AgentTool) -> Callable[[Any], Any]:
    def answered(state: AgentState) -> Mapping[str, Any]:
        ending = state.ending
        assert ending is not None, "an agent that is over has an ending; this is a bug in flowagent"
        worked = ending.reason in WITH_OUTPUT
        value = to_json(state.output)
        text = state.output if isinstance(state.output, str) else value.decode()
        because = f": {ending.because}" if ending.because else ""
        why = f"agent `{one.agent.name}` ended without an answer ({ending.reason}{because}). {ending.text}".strip()
        return {"answer": Answer(text=text if worked else why, value=value.decode(), is_error=not worked)}

    return answered


def outcome_of(state: CallState) -> ToolOutcome:
    """What came of a call, whoever ran it."""
    assert state.checked is not None, "a call that is over was run; this is a bug in flowagent"
    answer = state.answer
    if answer is None:
        return state.checked
    told = (Text(text=answer.text),)
    result = ToolResult(id=state.call.id, name=state.call.name, content=told, is_error=answer.is_error)
    status = "failed" if answer.is_error else "done"
    return state.checked.model_copy(update={"result": result, "status": status, "value": answer.value})


def delegates_in(agent: str, tools: Any) -> Delegates:
    """The agents among an agent's tools.

    Raises:
        GraphError: two have one name, or a prompt does not fit its input; all that is wrong.
    """
    found: dict[str, AgentTool] = {}
    faults: list[str] = []
    for one in tools:
        if isinstance(one, AgentTool):
            faults += one.faults()
            if one.title in found:
                faults.append(f"two agents are tools named `{one.title}`; give one of them another name=")
            found[one.title] = one
    if faults:
        raise GraphError(agent, faults)
    return Delegates(found)
