"""The name of a process, and what it proves."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from flowagent.stores import owner
from flowagent.stores.owner import Owner
from flowagent.stores.sqlite_runs import Row

linux = pytest.mark.skipif(sys.platform != "linux", reason="the start time of a process is read from /proc")


def me() -> Owner:
    parsed = Owner.parse(owner.this_process())
    assert parsed is not None
    return parsed


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def named(pid: int) -> Owner:
    stat = owner._stat(pid)
    assert stat is not None
    return me()._replace(pid=pid, started=stat[1])


def test_a_process_has_one_name_and_lives() -> None:
    """The running process is alive by its own judgement, under a name that can be read back."""
    assert owner.this_process() == owner.this_process()
    assert me().pid == os.getpid()
    assert str(me()) == owner.this_process()
    assert not owner.is_dead(owner.this_process())
    assert owner.same_clock(owner.this_process()) == (sys.platform == "linux")


@linux
def test_death_is_proved_on_the_same_boot(sleeper: subprocess.Popen[bytes]) -> None:
    """A process that ended is dead, at once, even while it waits for its parent; a living one is not."""
    name = str(named(sleeper.pid))
    assert not owner.is_dead(name)
    assert owner.describe(name) == f"process {sleeper.pid}"
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert owner.is_dead(name)
    sleeper.wait()
    assert owner.is_dead(name)


@linux
def test_another_users_process_is_looked_at(sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that we may not signal is alive if it started when it should have, and else a stranger."""

    def kill(pid: int, number: int) -> None:
        raise PermissionError

    name = named(sleeper.pid)
    monkeypatch.setattr(os, "kill", kill)
    assert not owner.is_dead(str(name))
    assert owner.is_dead(str(name._replace(started="1")))
    monkeypatch.undo()


@linux
def test_an_equal_pid_is_not_an_equal_process(sleeper: subprocess.Popen[bytes]) -> None:
    """A process with another start time under the same pid proves that the owner is gone; so does our own pid."""
    assert owner.is_dead(str(named(sleeper.pid)._replace(started="1")))
    assert owner.is_dead(str(me()._replace(started="1")))


def test_nothing_is_proved_from_afar() -> None:
    """Of processes of other boots, other containers and names that are not ours nothing is known."""
    gone = me()._replace(pid=2**22 + 1)
    for name in (
        str(gone._replace(boot="another")),
        str(gone._replace(namespace="another")),
        "worker-7",
        "a/b/c/d",
    ):
        assert not owner.is_dead(name)
    assert owner.describe(str(gone._replace(boot="another"))) == f"process {gone.pid} of another machine or container"
    assert owner.describe("worker-7") == "`worker-7`"
    assert not owner.same_clock("worker-7")
    assert not owner.same_clock(str(me()._replace(boot="another")))


def test_a_pid_that_nobody_can_have_is_dead() -> None:
    """A pid above the system's largest, or any number at all, is no process."""
    assert owner.is_dead(str(me()._replace(pid=10**30)))
    assert owner.is_dead(str(me()._replace(pid=2**22 + 1)))


def test_without_proc_less_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where the system tells no boot id and no start times, names hold the host, and only a missing pid is proof."""

    class Nowhere(type(tmp_path)):
        def read_text(self, *args: object, **options: object) -> str:
            raise FileNotFoundError(str(self))

        def read_bytes(self) -> bytes:
            raise FileNotFoundError(str(self))

        def readlink(self) -> Path:
            raise FileNotFoundError(str(self))

    monkeypatch.setattr(owner, "Path", Nowhere)
    for cached in (owner._boot, owner._namespace, owner._name):
        cached.cache_clear()
    try:
        assert me().boot.startswith("host:")
        assert (me().namespace, me().started) == ("-", "-")
        assert not owner.same_clock(owner.this_process())
        assert not owner.is_dead(str(me()._replace(pid=os.getppid())))
        assert owner.is_dead(str(me()._replace(pid=2**22 + 1)))
        monkeypatch.setattr(sys, "platform", "win32")
        assert not owner.is_dead(str(me()._replace(pid=2**22 + 1)))
    finally:
        for cached in (owner._boot, owner._namespace, owner._name):
            cached.cache_clear()


def row(name: str | None, until: float, ticks: float) -> Row:
    return Row(1, "r", "g", "running", 1, name, 0, 0.0, 0.0, None, None, -1, 1, 0, until, ticks)


@linux
def test_a_changed_clock_steals_no_lease(sleeper: subprocess.Popen[bytes]) -> None:
    """Of a living process of this boot the monotonic clock decides, of any other the wall clock."""
    here = str(named(sleeper.pid))
    wall, ticks = time.time(), time.monotonic()
    assert row(here, wall - 86400, ticks + 30).is_held()
    assert not row(here, wall + 86400, ticks - 1).is_held()
    afar = str(me()._replace(boot="another"))
    assert row(afar, wall + 30, 0.0).is_held()
    assert not row(afar, wall - 1, ticks + 30).is_held()
    assert not row(None, wall + 30, ticks + 30).is_held()
