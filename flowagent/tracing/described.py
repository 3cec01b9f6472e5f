"""What each span says: its name and attributes, as far as they come from events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from flowagent.core.events import ModelAsked, ModelCalled, ModelFailed, TaskStarted, ToolEnded, ToolStarted
from flowagent.core.listening import Call
from flowagent.core.usage import Usage
from flowagent.models.base import ModelRequest, Reply
from flowagent.tracing import attributes as names
from flowagent.tracing import content
from flowagent.tracing.masking import Masking
from flowagent.tracing.tasks import Place


class Told(NamedTuple):
    """What is known when a span starts."""

    name: str
    attributes: dict[str, Any]


def call(of: Call) -> Told:
    """A call: a run of a workflow, or of an agent by itself."""
    known: dict[str, Any] = {names.RUN: of.run_id, names.CONVERSATION: of.run_id}
    return _agent(of.graph, known) if of.is_agent else _workflow(of.graph, known)


def _workflow(graph: str, known: dict[str, Any]) -> Told:
    return Told(f"invoke_workflow {graph}", {names.OPERATION: "invoke_workflow", names.WORKFLOW: graph, **known})


def _agent(graph: str, known: dict[str, Any]) -> Told:
    return Told(f"invoke_agent {graph}", {names.OPERATION: "invoke_agent", names.AGENT: graph, **known})


def task(run_id: str, place: Place, started: object) -> Told:
    """An attempt at a task, or what a task opens: an agent, a graph or a map.

    Args:
        run_id: the run.
        place: the task.
        started: the event that tells of its start; anything else if there was none.
    """
    known: dict[str, Any] = {
        names.RUN: run_id,
        names.TASK: place.task,
        names.NODE: place.node,
        names.PATH: place.path,
        names.VISIT: place.visit,
        **({} if place.item is None else {names.ITEM: place.item}),
    }
    if not isinstance(started, TaskStarted):
        return Told(f"node {place.node}", known)
    known[names.ATTEMPT] = started.attempt
    if started.opens is not None and started.is_agent:
        return _agent(started.opens, {**known, names.CONVERSATION: run_id})
    return Told(f"node {place.node}", known if started.opens is None else {**known, names.GRAPH: started.opens})


# -- models ------------------------------------------------------------------------------------------------------------


def asked(event: ModelAsked, masking: Masking | None) -> Told:
    """A request to a model."""
    provider, model = _named(event.model)
    known: dict[str, Any] = {
        names.OPERATION: "chat",
        names.PROVIDER: provider,
        names.REQUEST_MODEL: model,
        names.CONVERSATION: event.run_id,
    }
    request = event.asked
    if isinstance(request, ModelRequest):
        settings: Mapping[str, Any] = request.settings
        known |= {name: settings[key] for key, name in names.REQUEST_SETTINGS.items() if key in settings}
        known[names.OUTPUT_TYPE] = "text" if request.output is None else "json"
        if masking is not None:
            known |= _said(masking.request(request))
    return Told(f"chat {model}", known)


def _said(request: Mapping[str, Any]) -> dict[str, str]:
    return {
        names.SYSTEM_INSTRUCTIONS: content.system_instructions(request),
        names.INPUT_MESSAGES: content.input_messages(request),
        names.TOOL_DEFINITIONS: content.tool_definitions(request),
    }


def answered(event: ModelCalled, masking: Masking | None) -> dict[str, Any]:
    """What is known of a request to a model when it was answered."""
    known = _spent(event.usage)
    known[names.FINISH_REASONS] = (event.finish,)
    if event.first_token is not None:
        known[names.FIRST_CHUNK] = event.first_token
    reply = event.reply
    if isinstance(reply, Reply):
        message = reply.message
        known |= {names.RESPONSE_MODEL: message.model} if message.model else {}
        known |= {names.RESPONSE_ID: message.reply_id} if message.reply_id else {}
        known |= {names.FROM_CACHE: True} if reply.from_cache else {}
        if masking is not None and isinstance(event.asked, ModelRequest):
            known[names.OUTPUT_MESSAGES] = content.output_messages(masking.reply(event.asked, message))
    return known


def failed(event: ModelFailed) -> dict[str, Any]:
    """What is known of a request to a model when it failed."""
    return _spent(event.usage)


def _spent(usage: Usage) -> dict[str, Any]:
    """What was spent, as far as it is known: an attribute that is not there is not 0."""
    figures = {name: getattr(usage, figure) for figure, name in names.USAGE.items()}
    known: dict[str, Any] = {name: count for name, count in figures.items() if count is not None}
    return known if usage.cost is None else {**known, names.COST: float(usage.cost)}


def measured(event: ModelCalled | ModelFailed) -> tuple[dict[str, int | None], dict[str, Any]]:
    """The tokens of a request to a model, and what it is measured as."""
    provider, model = _named(event.model)
    known: dict[str, Any] = {names.OPERATION: "chat", names.PROVIDER: provider, names.REQUEST_MODEL: model}
    if isinstance(event, ModelFailed):
        known[names.ERROR_TYPE] = event.kind
    elif isinstance(event.reply, Reply) and event.reply.message.model:
        known[names.RESPONSE_MODEL] = event.reply.message.model
    return {"input": event.usage.input, "output": event.usage.output}, known


def _named(model: str) -> tuple[str, str]:
    """The provider and the model, of `provider:model`."""
    provider, _, name = model.partition(":")
    return provider, name or provider


# -- tools -------------------------------------------------------------------------------------------------------------


def tool_started(event: ToolStarted, masking: Masking | None) -> Told:
    """A call of a tool. Its secret arguments are masked in the event already."""
    known: dict[str, Any] = {
        names.OPERATION: "execute_tool",
        names.TOOL: event.tool,
        names.TOOL_TYPE: "function",
        names.TOOL_CALL: event.call_id,
    }
    if masking is not None:
        known[names.TOOL_ARGUMENTS] = masking.text(event.arguments)
    return Told(f"execute_tool {event.tool}", known)


def tool_ended(event: ToolEnded, masking: Masking | None) -> dict[str, Any]:
    """What is known of a call of a tool when it is over."""
    return {} if masking is None else {names.TOOL_RESULT: masking.text(event.text)}
