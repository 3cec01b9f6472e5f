"""What all tests share. Tiny graphs belong into the test that reads them."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# No deadline: the time of one example says more about the machine's other work than about us. The rest is
# hypothesis' own choice, which on CI means the same examples every time.
settings.register_profile("flowagent", settings.default, deadline=None)
settings.load_profile("flowagent")

_MEMORY = Path("/dev/shm")


@pytest.fixture
def quick_path(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory where the system has one: for tests that flush a thousand times."""
    if not _MEMORY.is_dir():
        yield tmp_path
        return
    path = Path(tempfile.mkdtemp(dir=_MEMORY))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def open_path() -> Iterator[Path]:
    """A directory that every user may use: root may write anywhere, so some tests become another user."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o777)
    yield path
    path.chmod(0o777)
    shutil.rmtree(path)
