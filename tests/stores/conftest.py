"""What the store tests share."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def open_path() -> Iterator[Path]:
    """A directory that every user may use: root may write anywhere, so some tests become another user."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o777)
    yield path
    path.chmod(0o777)
    shutil.rmtree(path)
