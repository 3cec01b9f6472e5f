"""What an agent does next. Pure: a state and a reply go in, an update and the next node come out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Final, Literal

from flowagent.agents.diagnosis import diagnose, failed_in_a_row
from flowagent.agents.output import OutputPlan, answer_call
from flowagent.agents.state import AgentState, Ending, StopReason
from flowagent.core.nodes import END
from flowagent.core.policies import Limits
from flowagent.core.reducers import Replace
from flowagent.core.usage import Usage
from flowagent.models.messages import (
    AssistantMessage,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
    user,
)
from flowagent.tools import telling

AtLimit = Literal["answer", "stop", "raise"]

MODEL: Final = "model"
TOOLS: Final = "tools"
OUTPUT: Final = "output"

CUT: Final = (
    "Your last reply was cut off because it became too long, so none of it was used and no tool was run. "
    "Make it shorter: shorter arguments, fewer calls at once, or a shorter text."
)
EMPTY: Final = "Your last reply was empty. Give your answer, or call a tool."
NOT_RUN: Final = "This was not run, as the same reply gave the final answer."
TAKEN: Final = "The answer was taken."


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How far an agent may go.

    Args:
        limits: what it may spend, the agents that it calls included.
        at_limit: what happens then: one last request without tools for an answer from what there is, an end without
            an answer, or an error.
        share: how much of the limits is kept for that last request.
        tool_errors: how many calls in a row may fail.
        has_tools: whether there is anything that it may call.
        empty: how many replies in a row may say nothing.
        cut: how many replies in a row may be cut off.
    """

    limits: Limits = field(default_factory=lambda: Limits(requests=25))
    at_limit: AtLimit = "raise"
    share: Decimal = Decimal("0.1")
    tool_errors: int = 6
    has_tools: bool = True
    empty: int = 2
    cut: int = 2


@dataclass(frozen=True, slots=True)
class Move:
    """Go on at a node, with an update."""

    to: str
    update: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the model; `is_last` if the reply has to be the answer, because of what `because` says."""

    is_last: bool = False
    because: str = ""


def before(rules: Rules, state: AgentState, spent: Usage) -> Move | Ask:
    """What to do at the `model` node before the model is asked.

    Args:
        rules: how far the agent may go.
        state: where it stands.
        spent: what its graph has spent so far.
    """
    if state.waiting:
        return Move(TOOLS, {"calls": state.waiting[0], "waiting": state.waiting[1:]})
    if any(outcome.final for outcome in state.outcomes):
        return Move(OUTPUT, {})
    if state.is_last:
        return _once_more(rules, state, spent)
    if (failed := failed_in_a_row(state)) >= rules.tool_errors:
        return _at_limit(rules, state, "tool_errors", f"the last {failed} calls of tools failed")
    reached = limit_reached(rules.limits, spent, rules.share if rules.at_limit == "answer" else Decimal(0))
    return _at_limit(rules, state, "limit", reached) if reached else Ask()


def limit_reached(limits: Limits, spent: Usage, share: Decimal) -> str:
    """Which limit leaves no room for a further request, or "".

    Args:
        limits: what may be spent.
        spent: what was.
        share: the part of each limit that is kept back; of requests one is.
    """
    kept = 1 if share else 0
    if limits.requests is not None and spent.requests >= limits.requests - kept:
        return f"it made {spent.requests} of at most {limits.requests} requests"
    if limits.tool_calls is not None and spent.tool_calls >= limits.tool_calls:
        return f"it made {spent.tool_calls} of at most {limits.tool_calls} tool calls"
    if limits.tokens is not None and (spent.tokens or 0) >= limits.tokens * (1 - share):
        return f"it used {spent.tokens} of at most {limits.tokens} tokens"
    if limits.cost is not None and (spent.cost or 0) >= Decimal(limits.cost) * (1 - share):
        return f"it cost {spent.cost} of at most {limits.cost} dollars"
    return ""


def after(rules: Rules, state: AgentState, message: AssistantMessage, plan: OutputPlan, ask: Ask, spent: Usage) -> Move:
    """What to do with a complete reply.

    Args:
        rules: how far the agent may go.
        state: where it stood when it asked.
        message: the reply.
        plan: how the answer was asked for.
        ask: what was asked.
        spent: what its graph has spent so far, the reply included.
    """
    said = [*results_so_far(state), message]
    kept = {"messages": said, "outcomes": Replace([]), "mode": plan.mode}
    if ask.is_last:
        kept |= {"is_last": True, "because": ask.because}
    match message.finish:
        case "refused" | "filtered":
            return end(state, message.finish, text=message.text, update=kept)
        case "paused":
            return Move(MODEL, kept)
        case "length" | "context":
            return _cut(rules, state, message, {**kept, "messages": [*said[:-1], *_cut_messages(message)]})
        case "stop" | "tool_calls":
            pass
    kept = {**kept, "cut": 0}
    if answer_call(plan, message) is not None:
        return Move(OUTPUT, {**kept, "empty": 0})
    if message.calls and not ask.is_last and not rules.has_tools:
        return _no_tools(message, plan, {**kept, "empty": 0})
    if message.calls and not ask.is_last:
        return _call(rules, state, message, {**kept, "empty": 0}, spent)
    if message.text.strip():
        return Move(OUTPUT, {**kept, "empty": 0})
    return _empty(rules, state, message, kept, ask)


def results_so_far(state: AgentState) -> list[Message]:
    """The message with the results of the last reply's calls, if there are any that are not in the conversation yet."""
    if not state.outcomes:
        return []
    by_id = {outcome.result.id: outcome.result for outcome in state.outcomes}
    calls = () if state.last_reply is None else state.last_reply.calls
    return [ToolMessage(results=tuple(by_id[call.id] for call in calls if call.id in by_id))]


def closing(message: AssistantMessage, plan: OutputPlan, text: str, *, is_error: bool) -> list[Message]:
    """What follows a reply whose answer was read: its calls need results, its text needs a reply only if it failed."""
    if message.calls:
        answer = answer_call(plan, message)
        return [
            ToolMessage(
                results=tuple(
                    _result(call, text if call is answer else NOT_RUN, is_error=is_error or call is not answer)
                    for call in message.calls
                )
            )
        ]
    return [user(text)] if is_error else []


def end(
    state: AgentState,
    reason: StopReason,
    *,
    because: str = "",
    text: str = "",
    update: dict[str, Any] | None = None,
    diagnosis: Sequence[str] = (),
) -> Move:
    """The agent ends without an answer."""
    last = "" if state.last_reply is None else state.last_reply.text
    ending = Ending(reason=reason, because=because, diagnosis=tuple(diagnosis), text=text or last, mode=state.mode)
    return Move(END, {**(update or {"messages": results_so_far(state)}), "ending": ending})


def _once_more(rules: Rules, state: AgentState, spent: Usage) -> Move | Ask:
    """Ask for the last answer, again if the one before was none, as long as what was kept back for it lasts."""
    kept = replace(rules.limits, tool_calls=None)  # none is made for it
    if reached := limit_reached(kept, spent, Decimal(0)):
        return end(state, "limit", because=reached, diagnosis=diagnose(state))
    return Ask(is_last=True, because=state.because)


def _at_limit(rules: Rules, state: AgentState, reason: StopReason, because: str) -> Move | Ask:
    if rules.at_limit == "answer":
        return Ask(is_last=True, because=because)
    return end(state, reason, because=because, diagnosis=diagnose(state))


def _call(rules: Rules, state: AgentState, message: AssistantMessage, update: dict[str, Any], spent: Usage) -> Move:
    """Run the calls of a reply, if there is room for all of them."""
    most, wanted = rules.limits.tool_calls, len(message.calls)
    if most is None or spent.tool_calls + wanted <= most:
        return Move(TOOLS, update)
    because = f"it asked for {wanted} more tool calls after {spent.tool_calls} of at most {most}"
    not_run = tuple(_result(call, f"This was not run: {because}.", is_error=True) for call in message.calls)
    update = {**update, "messages": [*update["messages"], ToolMessage(results=not_run)]}
    if rules.at_limit == "answer":
        return Move(MODEL, {**update, "is_last": True, "because": because})
    return end(state, "limit", because=because, text=message.text, update=update, diagnosis=diagnose(state))


def _no_tools(message: AssistantMessage, plan: OutputPlan, update: dict[str, Any]) -> Move:
    """What calls something though there is nothing to call is told so; such calls count as failed."""
    known = [] if plan.tool is None else [plan.tool.name]
    told = tuple(_result(call, telling.unknown(call.name, known), is_error=True) for call in message.calls)
    return Move(MODEL, {**update, "messages": [*update["messages"], ToolMessage(results=told)]})


def _cut(rules: Rules, state: AgentState, message: AssistantMessage, update: dict[str, Any]) -> Move:
    count = state.cut + 1
    if count > rules.cut:
        because = f"its last {count} replies were cut off at the limit of length"
        return end(state, "cut_off", because=because, text=message.text, update=update, diagnosis=diagnose(state))
    return Move(MODEL, {**update, "cut": count})


def _cut_messages(message: AssistantMessage) -> list[Message]:
    """A reply that was cut, without the calls that were never run and the thoughts that belong to them."""
    parts = tuple(part for part in message.parts if not isinstance(part, (ToolCall, Thinking)))
    said: list[Message] = [message.model_copy(update={"parts": parts})] if _says_something(parts) else []
    return [*said, user(CUT)]


def _says_something(parts: Sequence[Any]) -> bool:
    return any(not isinstance(part, Text) or part.text.strip() for part in parts)


def _empty(rules: Rules, state: AgentState, message: AssistantMessage, update: dict[str, Any], ask: Ask) -> Move:
    count = state.empty + 1
    calls = [_result(call, "No tool can be called any more.", is_error=True) for call in message.calls]
    told: UserMessage | ToolMessage = ToolMessage(results=tuple(calls)) if calls else user(EMPTY)
    update = {**update, "messages": [*update["messages"], told]}
    if count > rules.empty:
        reason: StopReason = "limit" if ask.is_last else "empty"
        stuck = state.model_copy(update={"empty": count, "messages": [*state.messages, *update["messages"]]})
        because = ask.because or f"its last {count} replies were empty"
        return end(state, reason, because=because, update=update, diagnosis=diagnose(stuck))
    return Move(MODEL, {**update, "empty": count})


def _result(call: ToolCall, text: str, *, is_error: bool) -> ToolResult:
    return ToolResult(id=call.id, name=call.name, content=(Text(text=text),), is_error=is_error)
