"""Spans and figures are kept in memory by the SDK of OpenTelemetry, as an exporter would get them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tracing.collected import Collected


@pytest.fixture
def collected() -> Iterator[Collected]:
    """What one tracer and meter have told."""
    made = Collected()
    yield made
    made.close()
