"""The state of an agent's graph: what it was asked, what was said, which calls are under way, and how it ended."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, create_model

from flowagent.agents.output import Attempt, OutputMode
from flowagent.core.reducers import append
from flowagent.core.state import State
from flowagent.models.messages import AssistantMessage, Message, ToolCall, UserMessage
from flowagent.tools.outcome import ToolOutcome

StopReason = Literal[
    "answer", "final_tool", "limit", "tool_errors", "empty", "cut_off", "refused", "filtered", "blocked", "output"
]
"""Why an agent ended: with an answer (`answer`, or `final_tool`: a tool's result is the answer); at one of its limits;
after too many failed calls in a row; after empty or cut replies only; refused by the model; cut by the provider for
its content; blocked by a guardrail; without an answer of the asked shape."""

WITH_OUTPUT: frozenset[StopReason] = frozenset({"answer", "final_tool"})


class Ending(BaseModel):
    """How an agent ended.

    Args:
        reason: why.
        because: the same in words, with figures.
        diagnosis: what its last steps show, a line each.
        text: the last text that it wrote.
        repairs: what had to be done to read its answer, a line each.
        mode: how the answer was asked for.
        is_limited: whether it answered only because a limit made it.
        artifact: the file that the answer was saved to, or "".
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    reason: StopReason
    because: str = ""
    diagnosis: tuple[str, ...] = ()
    text: str = ""
    repairs: tuple[str, ...] = ()
    mode: OutputMode = "text"
    is_limited: bool = False
    artifact: str = ""


class AgentState(State):
    """What an agent's graph works on.

    Args:
        task: what it was asked.
        history: what was said before, by others or in earlier runs.
        messages: what was said in this run, after the task.
        calls: the calls that are being run.
        waiting: calls of the same reply that must wait for those, in batches.
        outcomes: what came of the calls of the last reply.
        empty: how many replies in a row said nothing.
        cut: how many replies in a row were cut off.
        attempts: answers that did not have the asked shape.
        is_last: whether a limit was reached, so that the next reply has to be the answer.
        because: which limit that was.
        mode: how the answer is asked for.
        ending: how it ended.
        output: the answer.
    """

    task: UserMessage
    history: list[Message] = []
    messages: Annotated[list[Message], append] = []
    calls: list[ToolCall] = []
    waiting: list[list[ToolCall]] = []
    outcomes: Annotated[list[ToolOutcome], append] = []
    empty: int = 0
    cut: int = 0
    attempts: Annotated[list[Attempt], append] = []
    is_last: bool = False
    because: str = ""
    mode: OutputMode = "text"
    ending: Ending | None = None
    output: Any = None

    @property
    def conversation(self) -> tuple[Message, ...]:
        """All that was said, in order."""
        return (*self.history, self.task, *self.messages)

    @property
    def last_reply(self) -> AssistantMessage | None:
        """The model's last reply in this run."""
        return next((one for one in reversed(self.messages) if isinstance(one, AssistantMessage)), None)


def state_for(name: str, output: Any) -> type[AgentState]:
    """The state of an agent whose answer has a given type."""
    wanted: Any = output
    return create_model(
        f"{name}State", __base__=AgentState, output=(wanted | None if wanted is not None else Any, None)
    )
