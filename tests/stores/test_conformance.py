"""Every store keeps every promise of the contract."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from flowagent.core.records import Record
from flowagent.stores import EncryptedStore, MemoryStore, SQLiteStore, Store, new_key
from flowagent.testing import CHECKS, Check, check_store


@pytest.fixture(params=["memory", "sqlite", "memory encrypted", "sqlite encrypted"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    kind, _, how = str(request.param).partition(" ")
    made: Store = MemoryStore() if kind == "memory" else SQLiteStore(tmp_path / "new" / "runs.db")
    if how == "encrypted":
        made = EncryptedStore(made, [new_key()])
    yield made
    await made.close()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_store(check: Check, store: Store) -> None:
    """The promise in the check's docstring holds."""
    await check(store)


class Forgetful(MemoryStore):
    """A store that acknowledges records and drops each third."""

    async def read(self, run_id: str, *, after: int = -1, upto: int | None = None) -> list[Record]:
        return [record for record in await super().read(run_id, after=after, upto=upto) if record.seq % 3 != 2]


async def test_the_suite_finds_a_store_that_loses_records() -> None:
    """A bad store fails, and the error names the checks that it failed."""
    with pytest.raises(ExceptionGroup) as caught:
        await check_store(Forgetful)
    notes = [note for error in caught.value.exceptions for note in error.__notes__]
    assert any("records_come_back_as_they_went_in" in note for note in notes)
    assert len(notes) < len(CHECKS)


async def test_the_suite_takes_an_async_factory(tmp_path: Path) -> None:
    """`check_store` makes each store anew, awaiting the factory if it is async."""
    made = 0

    async def make() -> Store:
        nonlocal made
        made += 1
        await asyncio.sleep(0)
        return MemoryStore()

    await check_store(make)
    assert made == len(CHECKS)
    gc.collect()
