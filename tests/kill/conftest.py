"""The campaign that the tests share: its warm processes and its undisturbed runs are made once."""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.kill.campaign import Campaign

MEMORY = Path("/dev/shm")
"""A place in memory, where there is one. A killed process loses nothing there either, and nobody waits for disks."""


@pytest.fixture(scope="session")
def campaign() -> Generator[Campaign]:
    place = MEMORY if MEMORY.is_dir() else None
    with (
        tempfile.TemporaryDirectory(prefix="flowagent-kill-", dir=place) as folder,
        Campaign(Path(folder), jobs=2) as campaign,
    ):
        yield campaign
