"""Sources are read in any thread."""

from __future__ import annotations

import gc
import inspect
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from flowagent.core.literals import returned_keys
from flowagent.tools.builtin.calculator import calculate


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads take turns at every moment, and the collector runs Python code, as some libraries have it do."""

    def noted(phase: str, info: dict[str, int]) -> None:
        for _ in range(50):
            pass

    threshold, interval = gc.get_threshold(), sys.getswitchinterval()
    gc.callbacks.append(noted)
    gc.set_threshold(50)
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)
    gc.set_threshold(*threshold)
    gc.callbacks.remove(noted)


@pytest.mark.usefixtures("restless")
def test_threads_may_read_sources_at_the_same_time() -> None:
    """Each gets its keys and its sums, though CPython 3.11 cannot make two syntax trees at once."""
    read = returned_keys.__wrapped__  # each call anew
    expression = "+".join(["(1+2*(3-4))"] * 40)

    def work(number: int) -> tuple[int, str]:
        return len(read(inspect.getsourcelines)), str(calculate(expression))

    with ThreadPoolExecutor(4) as pool:
        assert {*pool.map(work, range(64))} == {(0, "-40")}
