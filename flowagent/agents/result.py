"""What came of running an agent by itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, cast

from typing_extensions import TypeVar

from flowagent.agents.loop import stopped
from flowagent.agents.output import OutputMode
from flowagent.agents.state import WITH_OUTPUT, AgentState, Ending, StopReason
from flowagent.core.events import Event
from flowagent.core.facts import Question
from flowagent.core.fields import cut
from flowagent.core.run import Run
from flowagent.core.usage import Usage
from flowagent.core.watch import Watch
from flowagent.errors import AgentStopped, AnswerError, FlowAgentError, ModelError, RunFailed
from flowagent.models.messages import AssistantMessage, Message, ToolMessage, UserMessage

if TYPE_CHECKING:
    from flowagent.agents.agent import Agent
    from flowagent.core.records import Status
    from flowagent.render import Diagram

OutputT = TypeVar("OutputT", default=Any)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A call that waits for a decision.

    Args:
        call_id: what to decide it by.
        tool: the tool that would run.
        arguments: what it would be called with.
        path: the agents and nodes that lead to it, outermost first.
        question_id: the run's question behind it.
        text: the question in words.
    """

    call_id: str
    tool: str
    arguments: Any
    path: tuple[str, ...]
    question_id: str
    text: str


class AgentResult(Generic[OutputT]):
    """What came of a run of an agent: its answer, the conversation, what it cost, and what it waits for.

    Attributes:
        run: the run underneath, with its history and picture.
    """

    def __init__(self, agent: Agent[OutputT, Any], run: Run[Any]) -> None:
        self._agent = agent
        self.run = run

    def __repr__(self) -> str:
        reason = "" if self.ending is None else f", {self.ending.reason}"
        return f"AgentResult({self._agent.name!r}, {self.run.run_id!r}, {self.status}{reason})"

    @property
    def output(self) -> OutputT:
        """The answer.

        Raises:
            AgentStopped: it ended without one; `stop_reason` says why.
            FlowAgentError: it has not ended: it waits for decisions, or stands at a limit of the run.
        """
        ending = self.ending
        if ending is None:
            waits = "".join(f"\n  - {one.call_id}: {one.text}" for one in self.pending)
            raise FlowAgentError(
                f"run `{self.run.run_id}` of agent `{self._agent.name}` has no answer yet: it is {self.run.status}"
                f"{f' ({self.run.reason})' if self.run.reason else ''}{waits}"
            )
        if ending.reason not in WITH_OUTPUT:
            raise stopped(self._agent.name, ending, self.usage)
        return cast("OutputT", self._state.output)

    @property
    def status(self) -> Status:
        """Where the run stands."""
        return self.run.status

    @property
    def ending(self) -> Ending | None:
        """How it ended; None while it has not."""
        return self._state.ending

    @property
    def stop_reason(self) -> StopReason | None:
        """Why it ended; None while it has not."""
        return None if self.ending is None else self.ending.reason

    @property
    def output_mode(self) -> OutputMode | None:
        """How the answer was asked for."""
        return None if self.ending is None else self.ending.mode

    @property
    def repairs(self) -> tuple[str, ...]:
        """What had to be done to read the answer, a line each."""
        return () if self.ending is None else self.ending.repairs

    @property
    def messages(self) -> tuple[Message, ...]:
        """The whole conversation, to go on from with `history=`."""
        return self._state.conversation

    @property
    def usage(self) -> Usage:
        """What it cost, the agents that it called included."""
        return self.run.usage

    @property
    def pending(self) -> tuple[Pending, ...]:
        """The calls that wait for a decision."""
        return pending_in(self.run)

    def explain(self) -> str:
        """The conversation, a line for each part: who, what kind, and how it begins."""
        return "\n".join(line for message in self.messages for line in _lines(message))

    def draw(self, *, times: bool = True) -> Diagram:
        """A picture of what happened."""
        return self.run.draw(times=times)

    @property
    def _state(self) -> AgentState:
        return cast("AgentState", self.run.state)


class AgentWatch(Generic[OutputT]):
    """The events of an agent that is under way, for `async for`; `result` is the result, once they are over."""

    def __init__(self, agent: Agent[OutputT, Any], watch: Watch) -> None:
        self._agent = agent
        self._watch = watch

    def __aiter__(self) -> AsyncIterator[Event]:
        return aiter(self._watch)

    @property
    def result(self) -> AgentResult[OutputT]:
        """The result.

        Raises:
            FlowAgentError: it is still going, or was left early.
        """
        return AgentResult(self._agent, self._watch.run)


def pending_in(run: Run[Any]) -> tuple[Pending, ...]:
    """The calls of tools that wait for a decision, in a run of any graph."""
    return tuple(
        Pending(
            call_id=question.name,
            tool=about["tool"],
            arguments=about["arguments"],
            path=tuple(part.partition("@")[0] for part in question.task.split("/")),
            question_id=question.id,
            text=question.text,
        )
        for question in run.questions
        if "tool" in (about := _about(question))
    )


def by_question(run: Run[Any], decisions: Mapping[str, Any]) -> dict[str, Any]:
    """Decisions by the ids of questions, where they are given by those of calls.

    Raises:
        AnswerError: several open calls have one id, as those of agents that work side by side may.
    """
    open_calls = pending_in(run)
    faults = [
        f"`{name}` is the id of {len(several)} open calls: decide by question_id, which is "
        + " or ".join(f"`{one}`" for one in several)
        for name in decisions
        if len(several := [one.question_id for one in open_calls if one.call_id == name]) > 1
    ]
    if faults:
        raise AnswerError(f"run `{run.run_id}`: " + "; ".join(faults))
    by_call = {one.call_id: one.question_id for one in open_calls}
    return {by_call.get(name, name): decision for name, decision in decisions.items()}


def _about(question: Question) -> Mapping[str, Any]:
    about: Any = question.about
    return cast("Mapping[str, Any]", about) if isinstance(about, Mapping) else {}


def raise_cause(failed: RunFailed) -> None:
    """Raise what one task of an agent failed with, where that says it all; the run stays resumable."""
    causes = [error.__cause__ for error in failed.errors]
    if len(causes) == 1 and isinstance(causes[0], (AgentStopped, ModelError)):
        causes[0].add_note(f"in run `{failed.run.run_id}` of graph `{failed.run.graph_name}`, which can be resumed")
        raise causes[0]


def _lines(message: Message) -> list[str]:
    match message:
        case UserMessage(parts=parts):
            return [f"user: {part.kind}: {_head(getattr(part, 'text', ''))}" for part in parts]
        case AssistantMessage(parts=parts):
            return [f"assistant: {_told(part)}" for part in parts]
        case ToolMessage(results=results):
            return [f"tool: {'error' if one.is_error else 'result'} {one.name}: {_head(one.text)}" for one in results]


def _told(part: Any) -> str:
    if part.kind == "tool_call":
        return f"tool_call: {part.name}({_head(part.arguments)})"
    return f"{part.kind}: {_head(getattr(part, 'text', ''))}"


def _head(text: str) -> str:
    return cut(" ".join(text.split()), 80)
