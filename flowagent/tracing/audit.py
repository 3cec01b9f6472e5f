"""`Audit`: a file in which every request to a model and every call of a tool stands, with what came of it."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias, assert_never

from flowagent.core.events import (
    Event,
    ModelAsked,
    ModelCalled,
    ModelFailed,
    ModelWaits,
    ToolEnded,
    ToolStarted,
)
from flowagent.core.listening import NOTHING_CARRIED, Call
from flowagent.models.base import ModelRequest, Reply
from flowagent.models.recordings import RecordingFile
from flowagent.models.redaction import Redact, redacted
from flowagent.tracing.masking import Masking

_Audited: TypeAlias = ModelAsked | ModelCalled | ModelFailed | ModelWaits | ToolStarted | ToolEnded


class Audit:
    """Writes down what is said to models and tools: an observer, for `listening` and for `listeners=`.

    The file is only ever appended to, a line of JSON at a time, each in one write: several threads and processes may
    share it. A request stands there before its reply does, so of a process that dies it is known what it had asked. A
    file that only its owner can read is made if there is none.

    Args:
        path: the file.
        redact: takes secrets out of each text before it is written; None writes everything as it is, secret arguments
            of tools included.
        content: whether what was said is written; else only who, when, how long and what it cost.

    Example:
        ::

            with listening(Audit("audit.jsonl")):
                agent.run_sync("What is 19 + 23?")

    See also `read_audit`, which reads the file.
    """

    def __init__(self, path: str | os.PathLike[str], *, redact: Redact | None = redacted, content: bool = True) -> None:
        self._file = RecordingFile(path)
        self._redact = redact
        self._content = content

    def begin(self, call: Call) -> AuditedCall:  # noqa: ARG002  # all calls are written down alike
        """See `Observer.begin`."""
        return AuditedCall(self._file, Masking(self._redact) if self._content else None)


class AuditedCall:
    """Writes down what one call does; see `Observation`.

    Args:
        file: where to.
        masking: takes secrets out of content; None where no content is written.
    """

    carried: Mapping[str, str] = NOTHING_CARRIED

    def __init__(self, file: RecordingFile, masking: Masking | None) -> None:
        self._file = file
        self._masking = masking
        self._exchanges: dict[tuple[str, str, int], list[str]] = {}

    def tell(self, event: Event) -> None:
        """See `Observation.tell`.

        Raises:
            StoreError: the file could not be written; that is logged, and the run goes on.
        """
        if isinstance(event, _Audited):
            line = {
                "at": datetime.fromtimestamp(event.time, UTC).isoformat(),
                "run_id": event.run_id,
                "task_id": event.task_id,
                "path": event.path,
                "node": event.node,
                "attempt": event.attempt,
                **self._facts(event),
            }
            self._file.append(json.dumps(line, ensure_ascii=False))

    def end(self, error: BaseException | None) -> None:
        """See `Observation.end`."""

    def _facts(self, event: _Audited) -> dict[str, Any]:
        match event:
            case ModelAsked():
                return self._asked(event)
            case ModelCalled():
                return self._replied(event)
            case ModelFailed():
                return self._failed(event)
            case ModelWaits(model=model, kind=kind, seconds=seconds):
                facts = {"kind": "model_waited", "model": model, "error": kind, "seconds": seconds}
                return {**facts, "message": self._shown(event.message)}
            case ToolStarted(tool=tool, call_id=call_id):
                facts = {"kind": "tool_called", "tool": tool, "call_id": call_id}
                return {**facts, "arguments": self._shown(event.arguments)}
            case ToolEnded(tool=tool, call_id=call_id, is_error=is_error, seconds=seconds):
                facts = {"kind": "tool_returned", "tool": tool, "call_id": call_id}
                return {**facts, "is_error": is_error, "result": self._shown(event.text), "seconds": seconds}
            case _:
                assert_never(event)

    def _asked(self, event: ModelAsked) -> dict[str, Any]:
        exchange = uuid.uuid4().hex
        self._exchanges.setdefault(_key(event), []).append(exchange)
        has_content = self._masking is not None and isinstance(event.asked, ModelRequest)
        return {
            "kind": "model_requested",
            "exchange": exchange,
            "model": event.model,
            "request": self._masking.request(event.asked) if self._masking and has_content else None,
        }

    def _replied(self, event: ModelCalled) -> dict[str, Any]:
        request, reply = event.asked, event.reply
        is_known = isinstance(request, ModelRequest) and isinstance(reply, Reply)
        return {
            "kind": "model_replied",
            "exchange": self._exchange(event),
            "model": event.model,
            "reply": self._masking.reply(request, reply.message) if self._masking and is_known else None,
            "finish": event.finish,
            "usage": event.usage.plain(),
            "seconds": event.seconds,
            "first_token": event.first_token,
        }

    def _failed(self, event: ModelFailed) -> dict[str, Any]:
        return {
            "kind": "model_failed",
            "exchange": self._exchange(event),
            "model": event.model,
            "error": event.kind,
            "message": self._shown(event.message),
            "usage": event.usage.plain(),
            "seconds": event.seconds,
        }

    def _exchange(self, event: ModelCalled | ModelFailed) -> str:
        """The id of the exchange that an event ends; a new one where its beginning was not told."""
        open_ones = self._exchanges.get(_key(event))
        return open_ones.pop() if open_ones else uuid.uuid4().hex

    def _shown(self, text: str) -> str | None:
        return None if self._masking is None else self._masking.text(text)


def _key(event: ModelAsked | ModelCalled | ModelFailed) -> tuple[str, str, int]:
    return event.task_id, event.model, id(event.asked)
