"""OpenTelemetry, loaded when the first trace is wanted: what of it is used, in a few words of our own.

Without an SDK that is set up by the program, OpenTelemetry's API makes spans that go nowhere; nothing is ever sent by
itself.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from flowagent.core.version import VERSION
from flowagent.tracing import attributes as names

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider

_NAME: Final = "flowagent"

Attributes = Mapping[str, str | bool | int | float | Sequence[str]]


class Otel:
    """A tracer and the two instruments of the conventions.

    Args:
        tracer_provider: who makes spans; by default the one that the program has set up for all.
        meter_provider: who takes figures; likewise.

    Raises:
        ModuleNotFoundError: the extra `otel` is not installed; the text says how to.
    """

    def __init__(self, tracer_provider: TracerProvider | None, meter_provider: MeterProvider | None) -> None:
        self._trace = _module("trace")
        self._context = _module("context")
        self._propagator = _module("trace.propagation.tracecontext").TraceContextTextMapPropagator()
        self._tracer = self._trace.get_tracer(_NAME, VERSION, tracer_provider)
        meter = _module("metrics").get_meter(_NAME, VERSION, meter_provider)
        self._tokens = meter.create_histogram(
            names.TOKENS,
            unit="{token}",
            description="Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=names.TOKEN_BOUNDARIES,
        )
        self._duration = meter.create_histogram(
            names.DURATION,
            unit="s",
            description="GenAI operation duration.",
            explicit_bucket_boundaries_advisory=names.DURATION_BOUNDARIES,
        )

    # -- spans -------------------------------------------------------------------------------------------------------

    def start(
        self,
        name: str,
        attributes: Attributes,
        *,
        below: Span | None = None,
        kind: Literal["internal", "client"] = "internal",
    ) -> Span:
        """Start a span.

        Args:
            name: its name.
            attributes: what is known at its start.
            below: its parent; by default the current span.
            kind: whether it is a call of something outside.
        """
        around = None if below is None else self._trace.set_span_in_context(below)
        kinds = self._trace.SpanKind
        return self._tracer.start_span(
            name, around, kind=kinds.CLIENT if kind == "client" else kinds.INTERNAL, attributes=attributes
        )

    def fail(self, span: Span, kind: str, text: str | None) -> None:
        """Mark a span as failed.

        Args:
            span: the span.
            kind: the class of the error, or another word for it out of a small set.
            text: what it says; None where that is not shown.
        """
        span.set_attribute(names.ERROR_TYPE, kind)
        span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, text))

    def enter(self, span: Span) -> Context:
        """Make a span the current one in the context variables of the caller.

        Returns:
            What was current before, for `leave`.
        """
        before = self._context.get_current()
        self._context.attach(self._trace.set_span_in_context(span, before))
        return before

    def leave(self, span: Span, before: Context) -> None:
        """Make what was current before a span the current again, where the span still is."""
        if self._trace.get_current_span() is span:
            # Not by the token of `attach`, which only its own context takes: a thread may have told of the end.
            self._context.attach(before)

    # -- from process to process -------------------------------------------------------------------------------------

    def carried(self, span: Span) -> dict[str, str]:
        """Where a span is, for another process; empty if it goes nowhere."""
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier, self._trace.set_span_in_context(span, self._context.Context()))
        return carrier

    def link(self, span: Span, carrier: Mapping[str, str]) -> None:
        """Link a span to one of another process, if it is told where that is."""
        around = self._propagator.extract(dict(carrier), self._context.Context())
        there = self._trace.get_current_span(around).get_span_context()
        if there.is_valid:
            span.add_link(there, {})

    # -- metrics -----------------------------------------------------------------------------------------------------

    def measure(self, seconds: float, tokens: Mapping[str, int | None], attributes: Mapping[str, Any]) -> None:
        """Note one operation of a model.

        Args:
            seconds: how long it took.
            tokens: how many of each type, `input` and `output`; None where that is not known.
            attributes: what it was.
        """
        self._duration.record(seconds, attributes)
        for kind, count in tokens.items():
            if count is not None:
                self._tokens.record(count, {**attributes, names.TOKEN_TYPE: kind})


def _module(name: str) -> Any:
    try:
        return importlib.import_module(f"opentelemetry.{name}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "opentelemetry":
            raise
        raise ModuleNotFoundError(
            "tracing needs the package `opentelemetry-api`, which is an extra: pip install 'flowagent[otel]'",
            name=error.name,
        ) from error
