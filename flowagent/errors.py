"""Every error that flowagent raises on purpose.

    FlowAgentError
    |-- GraphError            the definition is wrong; lists every fault that was found
    |-- StateError            an update, an input or a stored state does not fit its model
    |   |-- ConflictError     two branches wrote one field and nothing says how to merge them
    |   `-- UnstorableError   a value that would not come back from the store as it went in
    |-- RoutingError          a router or jump chose a target that is not declared
    |-- AnswerError           an answer that fits no open question, or not its schema
    |-- NodeError             one task failed: graph, node, task, attempt; the original is `__cause__`
    |-- RunFailed             a run ended as failed; carries the `Run` and each `NodeError`
    |-- RunConflict           another process is advancing this run
    |-- RunExists             the run id belongs to another graph or another input
    |-- RunNotFound           no such run in the store that was searched
    |-- GraphChanged          the stored run is no possible history of today's graph
    |-- StoreError            the store could not save or load
    |   `-- DecryptionError   a record is encrypted with another key, was altered, or is not encrypted
    |-- DrawError             a picture could not be made
    |-- ToolDefinitionError   a tool, or a set of tools, is declared wrongly; lists every fault that was found
    |-- ModelError            a model did not answer; `kind` says why, `retryable` whether another try may help
    |-- AgentStopped          an agent ended without an answer; tells why, and what it had until then
    |   `-- OutputError       its answers did not get the asked shape; carries every attempt
    `-- ToolError             for tools to raise: the model is told
        |-- ToolRetry         the model is told how to call it better
        `-- ToolFatal         the run must not go on

One class for each thing a caller would want to catch apart. The facts are attributes; the text says what
happened, where, and what to do about it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from flowagent.core.run import Run
    from flowagent.core.usage import Usage

ModelErrorKind = Literal[
    "rate_limit",
    "quota",
    "overloaded",
    "timeout",
    "connection",
    "cut_off",
    "auth",
    "not_found",
    "bad_request",
    "context_exceeded",
    "refused",
    "unsupported",
    "forbidden",
    "server",
]
"""Why a model did not answer. `cut_off`: the connection ended before the reply did. `unsupported`: it was not asked, as
its profile says that it cannot do what is wanted. `forbidden`: real requests are switched off."""


def _listed(what: str, faults: Sequence[str]) -> str:
    """All faults of something, a line each."""
    count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
    return "\n".join([f"{count} in {what}:", *(f"  - {fault}" for fault in faults)])


class FlowAgentError(Exception):
    """Base of all errors that flowagent raises on purpose."""


class GraphError(FlowAgentError):
    """Raised when a definition is wrong; `faults` lists everything that was found, not only the first."""

    def __init__(self, graph: str, faults: Sequence[str]) -> None:
        self.graph = graph
        self.faults = tuple(faults)
        super().__init__(_listed(f"graph `{graph}`", faults))


class StateError(FlowAgentError):
    """Raised when data does not fit the state model.

    Attributes:
        raw: the plain data that did not fit, when it came from a store.
        problems: one line for each thing that is wrong.
    """

    def __init__(self, message: str, *, raw: Mapping[str, Any] | None = None, problems: Sequence[str] = ()) -> None:
        self.raw = raw
        self.problems = tuple(problems)
        super().__init__(message)


class ConflictError(StateError):
    """Raised when branches that meet wrote one field and no reducer says how to merge it.

    Attributes:
        field: the state field.
        tasks: the ids of the tasks whose writes collide.
    """

    def __init__(self, message: str, *, field: str, tasks: Sequence[str]) -> None:
        self.field = field
        self.tasks = tuple(tasks)
        super().__init__(message)


class UnstorableError(StateError):
    """Raised when a value would not come back from a store as it went in."""


class RoutingError(FlowAgentError):
    """Raised when a router or a `Goto` names a target that it did not declare."""


class AnswerError(FlowAgentError):
    """Raised when an answer fits no open question of the run, or does not fit the question's schema."""


class NodeError(FlowAgentError):
    """One failed task; the exception that the node raised is `__cause__` when it happened in this process.

    Attributes:
        graph: the name of the graph.
        node: the name of the node.
        task: the id of the task, as in the run's history.
        attempt: which attempt failed, from 1.
        kind: the class name of the original exception.
        message: its text.
    """

    def __init__(self, *, graph: str, node: str, task: str, attempt: int, kind: str, message: str) -> None:
        self.graph = graph
        self.node = node
        self.task = task
        self.attempt = attempt
        self.kind = kind
        self.message = message
        tries = "" if attempt == 1 else f", attempt {attempt}"
        super().__init__(f"node `{node}` of graph `{graph}` failed (task `{task}`{tries}): {kind}: {message}")


class RunFailed(FlowAgentError):
    """Raised when a run ends as failed.

    Attributes:
        run: the stored run; `run.state` is as far as it came.
        errors: one `NodeError` for each failed task, in the order of task ids.
    """

    def __init__(self, run: Run[Any], errors: Sequence[NodeError]) -> None:
        self.run = run
        self.errors = tuple(errors)
        count = "1 task" if len(errors) == 1 else f"{len(errors)} tasks"
        lines = [f"run `{run.run_id}` of graph `{run.graph_name}` failed in {count}:"]
        lines += [f"  - {error}" for error in errors]
        lines.append(f"mend the cause, then go on from here with resume({run.run_id!r})")
        super().__init__("\n".join(lines))


class RunConflict(FlowAgentError):
    """Raised when another process (or another call) is advancing this run; the stored run is unharmed."""


class RunExists(FlowAgentError):
    """Raised when a run id is taken by a run of another graph or with another input."""


class RunNotFound(FlowAgentError):
    """Raised when a store has no run of that id; the text names the store that was searched."""


class GraphChanged(FlowAgentError):
    """Raised when a stored run is no possible history of today's definition.

    Attributes:
        differences: one line for each thing that does not match.
    """

    def __init__(self, run_id: str, graph: str, differences: Sequence[str]) -> None:
        self.run_id = run_id
        self.differences = tuple(differences)
        lines = [f"graph `{graph}` has changed in parts that run `{run_id}` has already been through or waits at:"]
        lines += [f"  - {line}" for line in differences]
        lines.append("bring those parts back, or pass accept_changes=True to go on all the same")
        super().__init__("\n".join(lines))


class StoreError(FlowAgentError):
    """Raised when a store cannot save or load: damaged, foreign, full, read-only, locked or of a newer format."""


class DecryptionError(StoreError):
    """Raised when a record cannot be decrypted: its key is missing, or it was altered; the stored run is unharmed."""


class DrawError(FlowAgentError):
    """Raised when a picture cannot be made; the run or the graph that it shows is unharmed."""


class ModelError(FlowAgentError):
    """Raised when a model did not answer.

    Attributes:
        kind: why, in one closed set of words for all providers.
        retryable: whether the same request may succeed later.
        model: who was asked, as `provider:model`.
        status: the HTTP status, or None; an error inside a stream comes with status 200.
        retry_after: seconds that the provider asked to wait, or None.
        request_id: the provider's id of the request, for its support.
        partial: the text that had come when a stream broke off.
        usage: what the failed request is known to have cost, or None.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: ModelErrorKind,
        retryable: bool = False,
        model: str = "",
        status: int | None = None,
        retry_after: float | None = None,
        request_id: str = "",
        partial: str = "",
        usage: Usage | None = None,
    ) -> None:
        self.kind: ModelErrorKind = kind
        self.retryable = retryable
        self.model = model
        self.status = status
        self.retry_after = retry_after
        self.request_id = request_id
        self.partial = partial
        self.usage = usage
        super().__init__(message)


class AgentStopped(FlowAgentError):
    """Raised when an agent ended without an answer.

    Attributes:
        agent: the agent's name.
        reason: why, such as `limit`, `refused` or `cut_off`.
        diagnosis: what its last steps show, a line each.
        text: the last text that it wrote, which may be part of an answer.
        usage: what it cost.
    """

    def __init__(
        self,
        agent: str,
        reason: str,
        *,
        because: str = "",
        diagnosis: Sequence[str] = (),
        text: str = "",
        usage: Usage | None = None,
    ) -> None:
        self.agent = agent
        self.reason = reason
        self.diagnosis = tuple(diagnosis)
        self.text = text
        self.usage = usage
        lines = [f"agent `{agent}` ended without an answer ({reason}){f': {because}' if because else ''}"]
        super().__init__("\n".join([*lines, *(f"  - {line}" for line in diagnosis)]))


class OutputError(AgentStopped):
    """Raised when no answer of a model had the asked shape.

    Attributes:
        attempts: each text that was given as an answer, with what was wrong with it.
    """

    def __init__(
        self, agent: str, attempts: Sequence[tuple[str, Sequence[str]]], *, usage: Usage | None = None
    ) -> None:
        self.attempts = tuple((text, tuple(problems)) for text, problems in attempts)
        last = self.attempts[-1] if self.attempts else ("", ())
        super().__init__(
            agent,
            "output",
            because=f"none of its {len(self.attempts)} answers had the shape that was asked for; the last one:",
            diagnosis=last[1],
            text=last[0],
            usage=usage,
        )


class ToolDefinitionError(FlowAgentError):
    """Raised when a tool or a set of tools is declared wrongly; `faults` lists everything that was found."""

    def __init__(self, what: str, faults: Sequence[str]) -> None:
        self.what = what
        self.faults = tuple(faults)
        super().__init__(_listed(what, faults))


class ToolError(FlowAgentError):
    """Raised by a tool to tell the model that the call failed; the run goes on."""


class ToolRetry(ToolError):
    """Raised by a tool to tell the model how to call it better; counted as a failed call."""


class ToolFatal(ToolError):
    """Raised by a tool when the run must not go on; the model is not told."""
