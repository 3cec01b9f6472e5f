"""An agent as a node of a graph: what of the state it is asked with, and where its answer goes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict, cast, get_args

from pydantic import BaseModel

from flowagent.agents.loop import stopped
from flowagent.agents.state import WITH_OUTPUT, AgentState
from flowagent.agents.template import Template
from flowagent.core.bodies import ChildGraph
from flowagent.errors import GraphError
from flowagent.models.messages import user

if TYPE_CHECKING:
    from flowagent.agents.agent import Agent
    from flowagent.core.builder import Builder
    from flowagent.core.definition import Definition

Asks = str | Callable[..., Any]


class Embedding(TypedDict, total=False):
    """How an agent stands in a graph.

    Keys:
        prompt: what it is asked: a text with `{field}`s of the state (`{field.part}` reaches into models; in a map
            `{item}` is the item), or a function of the state (in a map: of the item and the state) that gives text,
            parts or a message.
        into: the field that its answer goes into.
        report: the field that gets its `Ending`. With it the node does not fail where the agent ends without an
            answer (at a limit, refused, blocked): `into` stays as it is, and a router can look at the report.
        messages: the field with the conversation so far, a list of `Message` with the reducer `append`; what is said
            is added to it.
    """

    prompt: Asks
    into: str
    report: str
    messages: str


def as_node(agent: Agent[Any, Any], graph: Definition, given: dict[str, Any]) -> ChildGraph:
    """What stands for an agent in a graph.

    Args:
        agent: the agent.
        graph: the graph that it becomes a node of.
        given: the options of the node; those of `Embedding` are taken out.

    Raises:
        GraphError: placeholders or fields that the state does not have; all that is wrong.
    """
    state = _state_of(graph)
    prompt, into = given.pop("prompt", None), given.pop("into", None)
    report, messages = given.pop("report", None), given.pop("messages", None)
    faults = _prompt_faults(prompt, state, {})
    faults += _field_faults(state, {"into": into, "report": report, "messages": messages})
    if into is None and report is None and messages is None:
        faults.append("its answer goes nowhere: give into=, report= or messages=")
    if faults:
        raise GraphError(graph.name, [f"agent `{agent.name}`: {fault}" for fault in faults])

    def asked(values: BaseModel) -> Mapping[str, Any]:
        before = [] if messages is None else list(getattr(values, messages))
        return {"task": user(_filled(prompt, values)), "history": before}

    def answered(final: AgentState) -> Mapping[str, Any]:
        update: dict[str, Any] = {} if report is None else {report: final.ending}
        if messages is not None:
            update[messages] = [final.task, *final.messages]
        has_output = final.ending is not None and final.ending.reason in WITH_OUTPUT
        if not has_output and report is None:
            assert final.ending is not None, "an agent that is over has an ending; this is a bug in flowagent"
            raise stopped(agent.name, final.ending, None)
        if has_output and into is not None:
            update[into] = final.output
        return update

    return ChildGraph(child=agent.graph, input=asked, output=answered, name=agent.name)


def as_map(agent: Agent[Any, Any], graph: Definition, over: str, into: str, given: dict[str, Any]) -> ChildGraph:
    """What stands for an agent that is asked about each item of a field; see `as_node`."""
    del into  # the map checks it itself
    prompt: Any = given.pop("prompt", "{item}")
    state = _state_of(graph)
    faults = _prompt_faults(prompt, state, {"item": _item_of(state, over)})
    if faults:
        raise GraphError(graph.name, [f"agent `{agent.name}`: {fault}" for fault in faults])

    def asked(item: Any, values: BaseModel) -> Mapping[str, Any]:
        if callable(prompt):
            return {"task": user(cast("Any", prompt)(item, values))}
        known = {name: getattr(values, name) for name in type(values).model_fields}
        return {"task": user(Template(prompt).filled({**known, "item": item}))}

    def answered(final: AgentState) -> Any:
        assert final.ending is not None, "an agent that is over has an ending; this is a bug in flowagent"
        if final.ending.reason not in WITH_OUTPUT:
            raise stopped(agent.name, final.ending, None)
        return final.output

    return ChildGraph(child=agent.graph, input=asked, output=answered, name=agent.name)


def _item_of(state: type[BaseModel], over: str) -> Any:
    """The type of the items of a field, as far as it says; whether there are any the map checks itself."""
    info = state.model_fields.get(over)
    inner = () if info is None else get_args(info.annotation)
    return inner[0] if inner else Any


def _state_of(graph: Definition) -> type[BaseModel]:
    return cast("Builder[Any, Any]", graph).state


def _filled(prompt: Any, values: BaseModel) -> Any:
    return prompt(values) if callable(prompt) else Template(prompt).filled(values)


def _prompt_faults(prompt: Any, state: type[BaseModel], also: Mapping[str, Any]) -> list[str]:
    if prompt is None:
        return ["it is asked nothing: give prompt='... {field} ...', or a function of the state"]
    return [] if callable(prompt) else Template(prompt).faults(state, also=also)


def _field_faults(state: type[BaseModel], names: Mapping[str, str | None]) -> list[str]:
    known = ", ".join(state.model_fields)
    return [
        f"{option}={name!r}: `{state.__name__}` has no such field (it has {known})"
        for option, name in names.items()
        if name is not None and name not in state.model_fields
    ]
