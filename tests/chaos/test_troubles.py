"""What can be wrong with a file: a `StoreError` with the remedy, nothing changed, and the run goes on afterwards."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import apsw
import pytest

from flowagent import Graph, Run, State, Update
from flowagent.core.loops import run_blocking
from flowagent.errors import StoreError
from flowagent.stores import SQLiteStore, sqlite_file
from tests.chaos.processes import Worker

NOBODY = 65534


class Order(State):
    total: int = 0
    approved: bool = False


def ordering() -> Graph[Order, Any]:
    """A sum is made, and somebody is asked."""
    g = Graph("ordering", Order)

    @g.node
    def price(order: Order) -> Update:
        return {"total": order.total + 7}

    approve = g.gate("approve", question="Pay {total}?", into="approved", schema=bool)
    g.chain("START", price, approve, "END")
    return g


def answered(path: Path) -> Run[Order]:
    """Answer the waiting run, with a store of its own."""
    store = SQLiteStore(path, busy_timeout=0.1)
    try:
        return ordering().resume_sync("r", answers={"approve": True}, store=store)
    finally:
        run_blocking(store.close())


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Another program keeps a transaction open."""
    connection = apsw.Connection(str(path))
    connection.execute("BEGIN IMMEDIATE")
    yield
    connection.execute("ROLLBACK")
    connection.close()


@contextmanager
def corrupt(path: Path) -> Generator[None]:
    """Pages are overwritten, until the file is restored from a copy."""
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + os.urandom(len(whole) - 100))
    yield
    path.write_bytes(whole)


@contextmanager
def newer(path: Path) -> Generator[None]:
    """A newer version has written the file, and is used again."""
    connection = apsw.Connection(str(path))
    known = connection.pragma("user_version")
    connection.pragma("user_version", 99)
    yield
    connection.pragma("user_version", known)
    connection.close()


@contextmanager
def remote(path: Path) -> Generator[None]:
    """The file is on a network file system, until it is moved to a local disk."""
    mounts = path.parent / "mounts"
    mounts.write_text("1 0 0:1 / / rw - ext4 /dev/sda rw\n" + f"2 1 0:2 / {path.parent} rw - nfs4 server:/ rw\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite_file, "_MOUNTS", mounts)
        yield


TROUBLES: list[tuple[Callable[[Path], AbstractContextManager[None]], str]] = [
    (locked, r"stayed locked by another process for 0\.1 s; find what keeps a transaction open"),
    (corrupt, r"is damaged; restore it from a backup"),
    (newer, r"was written by a newer flowagent \(format 99, .*\); upgrade flowagent"),
    (remote, r"is on a network file system \(nfs4\), .* use a local disk"),
]


@pytest.mark.parametrize(("trouble", "told"), TROUBLES, ids=lambda given: getattr(given, "__name__", ""))
def test_when_the_trouble_is_over_the_run_goes_on(
    tmp_path: Path, trouble: Callable[[Path], AbstractContextManager[None]], told: str
) -> None:
    """The error says what to do; when that is done, the same call finishes the run."""
    path = tmp_path / "runs.db"
    store = SQLiteStore(path, busy_timeout=0.1)
    assert ordering().run_sync(Order(), run_id="r", store=store).status == "waiting"
    run_blocking(store.close())
    with trouble(path), pytest.raises(StoreError, match=told):
        answered(path)
    run = answered(path)
    assert (run.status, run.state) == ("completed", Order(total=7, approved=True))


def answered_by_nobody(pipe: Connection, path: Path) -> str:
    """Become a user who may change nothing, and answer."""
    if os.geteuid() == 0:
        os.setuid(NOBODY)
    return answered(path).status


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are others there")
def test_when_it_may_be_written_again_the_run_goes_on(open_path: Path) -> None:
    """A file and directory that are read-only are told as that; made writable, they serve."""
    path = open_path / "runs.db"
    store = SQLiteStore(path, busy_timeout=0.1)
    assert ordering().run_sync(Order(), run_id="r", store=store).status == "waiting"
    run_blocking(store.close())
    path.chmod(0o444)
    open_path.chmod(0o555)
    with Worker(answered_by_nobody, path) as reader:
        kind, text = reader.hear()
    assert kind == "StoreError"
    assert "writable" in text
    open_path.chmod(0o777)
    path.chmod(0o600)
    assert answered(path).status == "completed"
