"""What was traced, as trees that a test can compare."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from flowagent.tracing import Tracing

Label = Callable[[ReadableSpan], str]


class Collected:
    """A tracer and a meter that keep what they are told."""

    def __init__(self) -> None:
        self._spans = InMemorySpanExporter()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self._metrics = InMemoryMetricReader()
        self.meters = MeterProvider([self._metrics], shutdown_on_exit=False)

    def close(self) -> None:
        self.tracers.shutdown()
        self.meters.shutdown()

    def tracing(self, **options: Any) -> Tracing:
        return Tracing(tracer_provider=self.tracers, meter_provider=self.meters, **options)

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        """The spans that have ended, in the order in which they began."""
        return tuple(sorted(self._spans.get_finished_spans(), key=lambda span: span.start_time or 0))

    def named(self, name: str) -> ReadableSpan:
        """The only span of that name."""
        (found,) = [span for span in self.spans if span.name == name]
        return found

    def trees(self, label: Label = lambda span: span.name) -> list[str]:
        """All spans, each indented below its parent, those of one parent in the order of their labels."""
        known = {span.context.span_id: span for span in self.spans if span.context}
        orphans = [span.name for span in self.spans if span.parent and span.parent.span_id not in known]
        assert orphans == [], "every span's parent has ended and is known"
        return list(_lines(None, self.spans, label, 0))

    def points(self, metric: str) -> list[tuple[dict[str, Any], float]]:
        """The attributes and the sum of each series of a histogram."""
        data = self._metrics.get_metrics_data()
        found = [
            point
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for one in scope.metrics
            if one.name == metric
            for point in one.data.data_points
            if isinstance(point, HistogramDataPoint)
        ]
        return [(dict(point.attributes or {}), point.sum) for point in found]


def _lines(parent: ReadableSpan | None, spans: Sequence[ReadableSpan], label: Label, depth: int) -> Any:
    wanted = None if parent is None or parent.context is None else parent.context.span_id
    children = [span for span in spans if (span.parent.span_id if span.parent else None) == wanted]
    for span in sorted(children, key=label) if parent else children:
        yield f"{'  ' * depth}{label(span)}"
        yield from _lines(span, spans, label, depth + 1)


def visit(span: ReadableSpan) -> str:
    """A span's name with which visit and which item of its node it is."""
    known = span.attributes or {}
    number = f" @{known['flowagent.visit']}" if known.get("flowagent.visit", "1") != "1" else ""
    item = f" [{known['flowagent.item']}]" if "flowagent.item" in known else ""
    return f"{span.name}{number}{item}"


def told(span: ReadableSpan, *names: str) -> dict[str, Any]:
    """Some attributes of a span, by the last word of their names."""
    known = span.attributes or {}
    return {name: known.get(name) for name in names}
