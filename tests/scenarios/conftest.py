"""Where and how scenarios are run: in each store, and from async and sync code."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from flowagent.stores import MemoryStore, SQLiteStore, Store
from tests.scenarios import Caller


@pytest.fixture(params=["async memory", "async sqlite", "sync sqlite"])
def way(request: pytest.FixtureRequest) -> str:
    """How a test is run. Between them: each store, and each way to call and to commit."""
    return request.param


@pytest.fixture
async def store(way: str, tmp_path: Path) -> AsyncIterator[Store]:
    """An empty store."""
    store = MemoryStore() if way.endswith("memory") else SQLiteStore(tmp_path / "runs.db")
    yield store
    await store.close()


@pytest.fixture
def caller(way: str) -> Caller:
    """Calls a graph from async or from sync code."""
    return Caller(is_async=way.startswith("async"))
