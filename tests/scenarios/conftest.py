"""Where and how scenarios are run: in each store, and from async and sync code."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from flowagent.stores import MemoryStore, SQLiteStore, Store
from tests.scenarios import Caller


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """A store of each kind, empty."""
    store = MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "runs.db")
    yield store
    await store.close()


@pytest.fixture(params=["async", "sync"])
def caller(request: pytest.FixtureRequest) -> Caller:
    """Calls a graph one way or the other."""
    return Caller(is_async=request.param == "async")
