"""`Tracing`: a trace for each call that runs a graph, by OpenTelemetry's conventions for generative AI.

A call is a span, each attempt at a task is one below it (or below the graph that the task belongs to), each request to
a model and each call of a tool one below the attempt that makes it. Spans of your own, and those of libraries that your
nodes and tools use, stand below the attempt, model or tool that they are made in: on the event loop and in threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, assert_never

from flowagent.core.events import (
    Asked,
    Emitted,
    Event,
    ModelAsked,
    ModelCalled,
    ModelFailed,
    ModelWaits,
    RunEnded,
    RunStarted,
    TaskDone,
    TaskFailed,
    TaskStarted,
    TextDelta,
    ToolEnded,
    ToolStarted,
    Warned,
)
from flowagent.core.listening import Call
from flowagent.errors import RunFailed
from flowagent.models.redaction import Redact, redacted
from flowagent.tracing import attributes as names
from flowagent.tracing import described
from flowagent.tracing.masking import Masking
from flowagent.tracing.otel import Otel
from flowagent.tracing.tasks import lineage

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider

OfTask: TypeAlias = TaskStarted | TaskDone | TaskFailed | Asked
_Key: TypeAlias = tuple[str, object]
"""Who is asked or called, and which request or call it is."""
OfWork: TypeAlias = ModelAsked | ModelCalled | ModelFailed | ModelWaits | ToolStarted | ToolEnded


class Tracing:
    """Traces runs: an observer, for `listening` and for `listeners=`.

    Args:
        tracer_provider: who makes spans; by default the one that the program has set up for all.
        meter_provider: who takes figures; likewise.
        content: whether what is said to models and tools, and what they and errors say, stands in spans.
        redact: takes secrets out of that; None shows everything as it is, secret arguments of tools included.

    Raises:
        ModuleNotFoundError: the extra `otel` is not installed.

    Example:
        ::

            with listening(Tracing()):
                agent.run_sync("What is 19 + 23?")
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        content: bool = False,
        redact: Redact | None = redacted,
    ) -> None:
        self._otel = Otel(tracer_provider, meter_provider)
        self._content = content
        self._redact = redact

    def begin(self, call: Call) -> CallTrace:
        """See `Observer.begin`."""
        return CallTrace(self._otel, call, Masking(self._redact) if self._content else None)


@dataclass(slots=True)
class _Work:
    """A request to a model or a call of a tool that is under way."""

    span: Span
    before: Context


@dataclass(slots=True)
class _Visit:
    """An attempt, or a graph or map that is open, with what is under way in it; or the call itself.

    Attributes:
        span: its span.
        inside: the visits in a graph, and the items of a map, by task id.
        works: what the attempt does with models and tools; several under one key where one request is made of one
            model several times at once.
    """

    span: Span
    inside: dict[str, _Visit] = field(default_factory=dict[str, "_Visit"])
    works: dict[_Key, list[_Work]] = field(default_factory=dict[_Key, list[_Work]])


class CallTrace:
    """The spans of one call; see `Observation`.

    Args:
        otel: makes the spans.
        call: the call.
        masking: takes secrets out of content; None where no content is shown.
    """

    def __init__(self, otel: Otel, call: Call, masking: Masking | None) -> None:
        self._otel = otel
        self._call = call
        self._masking = masking
        self._root = _Visit(otel.start(*described.call(call)))
        self._span = self._root.span
        self._before = otel.enter(self._span)
        self._open: dict[str, tuple[_Visit, _Visit]] = {}  # each with what it stands in

    @property
    def carried(self) -> Mapping[str, str]:
        """See `Observation.carried`: where the call's span is."""
        return self._otel.carried(self._span)

    def tell(self, event: Event) -> None:
        """See `Observation.tell`."""
        match event:
            case RunStarted():
                self._span.set_attribute(names.RESUMED, event.resumed)
                self._otel.link(self._span, event.carried)
            case TaskStarted() | TaskDone() | TaskFailed() | Asked():
                self._tell_of_task(event)
            case ModelAsked() | ModelCalled() | ModelFailed() | ModelWaits() | ToolStarted() | ToolEnded():
                self._tell_of_work(event)
            case RunEnded():
                self._span.set_attribute(names.STATUS, event.status)
                if event.status == "failed":
                    self._otel.fail(self._span, RunFailed.__name__, None)
            case Emitted() | Warned() | TextDelta():
                pass  # what nodes say is theirs, and text is whole in the reply
            case _:
                assert_never(event)

    def end(self, error: BaseException | None) -> None:
        """See `Observation.end`. What is still open was cut short: it is ended from the inside out."""
        for task in list(self._root.inside):
            self._close(task, "stopped")
        if error is not None:
            self._otel.fail(self._span, type(error).__name__, self._shown(str(error)))
        self._otel.leave(self._span, self._before)
        self._span.end()

    # -- tasks -------------------------------------------------------------------------------------------------------

    def _tell_of_task(self, event: OfTask) -> None:
        visit = self._visit(event)
        match event:
            case TaskStarted(opens=None):
                self._otel.enter(visit.span)  # in the context variables of the attempt, which end with it
            case TaskStarted():
                pass
            case TaskDone():
                self._close(event.task_id, "done")
            case TaskFailed(failures=failures, retry_in=retry_in):
                if retry_in is not None:
                    visit.span.set_attribute(names.RETRY_IN, retry_in)
                self._otel.fail(visit.span, failures[0].kind, self._shown("\n".join(one.message for one in failures)))
                self._close(event.task_id, "failed")
            case Asked():
                visit.span.set_attribute(names.QUESTION, event.question.id)
                self._close(event.task_id, "asked")
            case _:
                assert_never(event)

    def _visit(self, event: OfTask) -> _Visit:
        """The span of a task, which is started below those around it if it is not there yet.

        Those around it are there, but for maps, which begin with their first item.
        """
        above = self._root
        for place in lineage(event):
            if place.task not in self._open:
                told = described.task(self._call.run_id, place, event if place.task == event.task_id else None)
                visit = _Visit(self._otel.start(*told, below=above.span))
                self._open[place.task] = visit, above
                above.inside[place.task] = visit
            above, _ = self._open[place.task]
        return above

    def _close(self, task: str, ending: str) -> None:
        """End the span of a task, and before it whatever is still open inside it."""
        visit, above = self._open.pop(task)
        del above.inside[task]
        for inner in list(visit.inside):
            self._close(inner, "stopped")
        for work in [one for several in visit.works.values() for one in several]:
            work.span.set_attribute(names.ENDING, "stopped")
            self._otel.leave(work.span, work.before)
            work.span.end()
        visit.span.set_attribute(names.ENDING, ending)
        visit.span.end()

    # -- models and tools --------------------------------------------------------------------------------------------

    def _tell_of_work(self, event: OfWork) -> None:
        if event.task_id not in self._open:
            return  # its attempt has asked something, or is over
        visit, _ = self._open[event.task_id]
        match event:
            case ModelAsked():
                self._begin(visit, _key(event), described.asked(event, self._masking), kind="client")
            case ModelCalled():
                self._finish(visit, _key(event), described.answered(event, self._masking))
                self._otel.measure(event.seconds, *described.measured(event))
            case ModelFailed():
                self._finish(visit, _key(event), described.failed(event), event.kind, event.message)
                self._otel.measure(event.seconds, *described.measured(event))
            case ModelWaits():
                self._note_wait(visit, event)
            case ToolStarted():
                self._begin(visit, (event.tool, event.call_id), described.tool_started(event, self._masking))
            case ToolEnded():
                text = event.text if event.is_error else None
                known = described.tool_ended(event, self._masking)
                self._finish(visit, (event.tool, event.call_id), known, "tool_error" if event.is_error else None, text)
            case _:
                assert_never(event)

    def _begin(self, visit: _Visit, key: _Key, told: described.Told, *, kind: Any = "internal") -> None:
        span = self._otel.start(told.name, told.attributes, kind=kind)
        visit.works.setdefault(key, []).append(_Work(span, self._otel.enter(span)))

    def _finish(
        self, visit: _Visit, key: _Key, known: Mapping[str, Any], error: str | None = None, text: str | None = None
    ) -> None:
        several = visit.works.get(key)
        if not several:
            return  # its beginning was not told
        work = several.pop()
        work.span.set_attributes(known)
        if error is not None:
            self._otel.fail(work.span, error, self._shown(text or ""))
        self._otel.leave(work.span, work.before)
        work.span.end()

    def _note_wait(self, visit: _Visit, event: ModelWaits) -> None:
        """Tell of a wait where it is: in the request to that model, the newest if there are several."""
        waiting = [several[-1] for key, several in visit.works.items() if several and key[0] == event.model]
        for work in waiting[-1:]:
            work.span.add_event(names.WAIT, {names.ERROR_TYPE: event.kind, names.WAIT_SECONDS: event.seconds})

    def _shown(self, text: str) -> str | None:
        """What an error says, where content is shown: it may quote anything."""
        return None if self._masking is None else self._masking.text(text)


def _key(event: ModelAsked | ModelCalled | ModelFailed) -> _Key:
    return event.model, id(event.asked)
