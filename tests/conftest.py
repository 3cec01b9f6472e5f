"""What all tests share. Tiny graphs belong into the test that reads them."""

import gc
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.cores import cores

# No deadline: the time of one example says more about the machine's other work than about us. The rest is
# hypothesis' own choice, which on CI means the same examples every time.
settings.register_profile("flowagent", settings.default, deadline=None)
settings.load_profile("flowagent")

_MEMORY = Path("/dev/shm")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """What `-n auto` is, which `make test` says: a process for each core if all tests are to be played.

    A part of them is played in this process, where prints and debuggers work and nothing has to be started.
    """
    is_part = config.args_source is not config.ArgsSource.TESTPATHS or config.getoption("keyword")
    is_looked_at = config.getoption("capture") == "no" or config.getoption("collectonly")
    if is_part or is_looked_at or config.getoption("lf", default=False) or cores() == 1:
        return 0
    return cores()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Play the tests of real servers first.

    Each process begins with a part of the tests in a row, and takes some off the end of another's when it has none
    left. So these stay in the first process, which is the only one that starts the servers.
    """
    items.sort(key=lambda item: "tests/real/" not in item.nodeid)


def pytest_collection_finish() -> None:
    """Let no collection of garbage walk what stays for good: tests that look for what is left behind make hundreds."""
    gc.collect()
    gc.freeze()


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
