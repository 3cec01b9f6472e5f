"""The lines of an audit log: what was asked, answered, called and returned, and where in which run."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from flowagent.core.usage import Usage
from flowagent.errors import StoreError
from flowagent.models.base import ModelRequest
from flowagent.models.messages import AssistantMessage

BEGINNING: Final = '{"at"'
"""How each line begins."""


class _Entry(BaseModel):
    """What every line says.

    Args:
        at: when.
        run_id: the run, as it is called in its store.
        task_id: the task, as it is called in the run's journal.
        path: the names of the nodes that hold the task's graph, outermost first.
        node: the name of the task's node.
        attempt: which attempt at the task, from 1.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    at: datetime
    run_id: str
    task_id: str
    path: tuple[str, ...]
    node: str
    attempt: int


class ModelRequested(_Entry):
    """A model is asked.

    Args:
        exchange: an id of its own, which stands in the line that tells how it ended, too.
        model: who, as `provider:model`.
        request: what it is told, without secrets; None in a log without content.
    """

    kind: Literal["model_requested"] = "model_requested"
    exchange: str
    model: str
    request: ModelRequest | None = None


class ModelReplied(_Entry):
    """A model has answered.

    Args:
        exchange: that of its request.
        model: who, as `provider:model`.
        reply: what it answered, without secrets; None in a log without content.
        finish: why the reply ended.
        usage: what it cost, retries included.
        seconds: from the request to the end of the reply.
        first_token: seconds from the request to the first part of the reply; None if nothing was streamed.
    """

    kind: Literal["model_replied"] = "model_replied"
    exchange: str
    model: str
    reply: AssistantMessage | None = None
    finish: str
    usage: Usage
    seconds: float
    first_token: float | None = None


class ModelFailed(_Entry):
    """A model did not answer, for all its retries.

    Args:
        exchange: that of its request.
        model: who, as `provider:model`.
        error: what kind of failure it was, such as `rate_limit`.
        message: what the provider said, without secrets; None in a log without content.
        usage: what it cost all the same.
        seconds: from the request to the failure.
    """

    kind: Literal["model_failed"] = "model_failed"
    exchange: str
    model: str
    error: str
    message: str | None = None
    usage: Usage
    seconds: float


class ModelWaited(_Entry):
    """A request failed in a way that may pass, and is made again after a wait.

    Args:
        model: who, as `provider:model`.
        error: what kind of failure it was.
        message: what the provider said, without secrets; None in a log without content.
        seconds: how long the wait is.
    """

    kind: Literal["model_waited"] = "model_waited"
    model: str
    error: str
    message: str | None = None
    seconds: float


class ToolCalled(_Entry):
    """A tool is called.

    Args:
        call_id: the id that the model gave the call.
        tool: its name.
        arguments: JSON, without secrets; None in a log without content.
    """

    kind: Literal["tool_called"] = "tool_called"
    call_id: str
    tool: str
    arguments: str | None = None


class ToolReturned(_Entry):
    """A call of a tool is over.

    Args:
        call_id: the id that the model gave the call.
        tool: its name.
        is_error: whether the model is told an error.
        result: what the model is told, without secrets; None in a log without content.
        seconds: how long the call took.
    """

    kind: Literal["tool_returned"] = "tool_returned"
    call_id: str
    tool: str
    is_error: bool
    result: str | None = None
    seconds: float


AuditEntry: TypeAlias = Annotated[
    ModelRequested | ModelReplied | ModelFailed | ModelWaited | ToolCalled | ToolReturned, Field(discriminator="kind")
]
"""A line of an audit log. `match` on it and end in `assert_never`."""

_ENTRY: Final[TypeAdapter[AuditEntry]] = TypeAdapter(AuditEntry)


def read_audit(path: str | os.PathLike[str]) -> list[AuditEntry]:
    """The lines of an audit log, in the order in which they were written.

    A line that a dying process has left unfinished is left out.

    Raises:
        StoreError: the file cannot be read, or a line is none of an audit log.

    Example:
        ::

            for entry in read_audit("audit.jsonl"):
                if isinstance(entry, ToolCalled):
                    print(entry.at, entry.run_id, entry.tool, entry.arguments)
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"the audit log `{os.fspath(path)}` cannot be read: {error}") from error
    numbered = enumerate(text.split("\n"), start=1)
    return [entry for number, line in numbered if line and (entry := _read(line, f"line {number} of `{path}`"))]


def _read(line: str, where: str) -> AuditEntry | None:
    """The entry in a line, or None if the line is the beginning of one."""
    try:
        return _ENTRY.validate_json(line)
    except ValidationError as error:
        if error.errors()[0]["type"] == "json_invalid" and line.startswith(BEGINNING):
            return None
        raise StoreError(f"{where} is no line of an audit log: {error}") from error
