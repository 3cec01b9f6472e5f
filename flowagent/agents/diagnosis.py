"""What the last steps of an agent show about why it did not come to an end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from flowagent.agents.state import AgentState
from flowagent.models.messages import AssistantMessage, ToolCall, ToolMessage, ToolResult

_LOOKED_AT = 6
_LONGEST = 80


def diagnose(state: AgentState) -> tuple[str, ...]:
    """Why an agent goes on and on, as far as its last steps tell.

    Args:
        state: where it stands.

    Returns:
        First what is the matter (`same tool failing`, `same call repeated`, `empty replies`, `cut replies` or `still
        asking for new tools`), then its last calls with what came of them.
    """
    pairs = called(state)[-_LOOKED_AT:]
    return (_kind(state, pairs), *(_told(call, result) for call, result in pairs))


def called(state: AgentState) -> list[tuple[ToolCall, ToolResult | None]]:
    """Each call of a run with its result, in order; None where there is none."""
    said = state.messages
    results = {result.id: result for one in said if isinstance(one, ToolMessage) for result in one.results}
    results |= {outcome.result.id: outcome.result for outcome in state.outcomes}
    return [(call, results.get(call.id)) for one in said if isinstance(one, AssistantMessage) for call in one.calls]


def failed_in_a_row(state: AgentState) -> int:
    """How many calls in a row have failed, up to now."""
    results = [result.is_error for _, result in called(state) if result is not None]
    return next((count for count, is_error in enumerate(reversed(results)) if not is_error), len(results))


def _kind(state: AgentState, pairs: Sequence[tuple[ToolCall, ToolResult | None]]) -> str:
    if state.empty:
        return f"empty replies: the last {state.empty} said nothing and called nothing"
    if state.cut:
        return "cut replies: ask for a shorter answer, or let replies be longer with settings={'max_tokens': ...}"
    failing = Counter(call.name for call, result in pairs if result is not None and result.is_error)
    for name, count in failing.most_common(1):
        if count >= 2:
            return (
                f"same tool failing: `{name}` failed in {count} of the last {len(pairs)} calls; see its results below"
            )
    repeated = Counter((call.name, call.arguments) for call, _ in pairs)
    for (name, arguments), count in repeated.most_common(1):
        if count >= 2:
            return f"same call repeated: `{name}({_cut(arguments)})` {count} times in the last {len(pairs)} calls"
    if pairs:
        return f"still asking for new tools: its last {len(pairs)} calls differ and none of them failed twice"
    return "it has called nothing"


def _told(call: ToolCall, result: ToolResult | None) -> str:
    came = "no result" if result is None else f"{'error: ' if result.is_error else ''}{_cut(result.text)}"
    return f"{call.name}({_cut(call.arguments)}) -> {came}"


def _cut(text: str) -> str:
    """JSON or a result as it stands, on one line, cut off where it gets long."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."
