"""The campaigns themselves: each is shown what it must never see elsewhere, and sees it."""

from __future__ import annotations

import fcntl
import itertools
import random
from multiprocessing.connection import Connection
from pathlib import Path

import apsw
import pytest

from flowagent.core.loops import run_blocking
from flowagent.core.records import Record
from flowagent.errors import StoreError
from flowagent.stores import SQLiteStore
from tests.chaos import crowd, memory, power, remove, soak, upgrade
from tests.chaos.campaign import Tally, main
from tests.chaos.faults import FAULTS, Disk, Nth
from tests.chaos.power import Image
from tests.chaos.processes import Worker
from tests.chaos.workers import Guarded
from tests.kill.inline import go_on

START = [Record(0, "started", b"{}")]


def test_a_power_cut_that_loses_steps_is_seen(quick_path: Path) -> None:
    """With durability "fast" a power cut costs acknowledged steps, and what must never be told of "step" is told."""
    play = power.Play(7, keeps=frozenset({"step", "fast"}))
    total = Tally()
    for number in range(12):
        folder = quick_path / str(number)
        folder.mkdir()
        total += play.play(f"{number} router fast", folder)
    assert total.figures["lost"] > 0
    assert any("was started before" in fault for fault in total.faults)


def test_what_is_found_after_a_cut_is_made_of_sectors() -> None:
    """What was flushed is whole, of what was written since each sector is old or new, and lengths are as kept."""
    chance = random.Random(3)
    image = Image(bytearray(b"k" * 1000))
    image.since.append((300, b"w" * 1500))
    found = {image.after_cut(chance) for _ in range(50)}
    assert {one[:300] for one in found} == {b"k" * 300}
    assert {one[300:512] for one in found} == {b"k" * 212, b"w" * 212}
    assert {one[512:1000] for one in found} == {b"k" * 488, b"w" * 488}
    assert {one[1024:1536] for one in found} == {b"", bytes(512), b"w" * 512}
    assert {len(one) for one in found} == {1000, 1024, 1536, 1800}
    image.flush()
    assert image.after_cut(chance) == b"k" * 300 + b"w" * 1500


def test_two_processes_at_work_are_seen(tmp_path: Path) -> None:
    """A call that begins while another process is in one leaves a note."""
    first, second = Guarded(tmp_path, "a", 0.0), Guarded(tmp_path, "b", 0.0)
    go_on("router", SQLiteStore(tmp_path / "first.db"), first)
    assert not (tmp_path / "overlaps").exists()
    fcntl.flock(first._handle, fcntl.LOCK_EX)  # It is in a call.
    go_on("router", SQLiteStore(tmp_path / "second.db"), second)
    assert (tmp_path / "overlaps").exists()


def test_an_unknown_case_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """A name that is no case is a fault, not a campaign of nothing."""
    assert main(["faults", "--case", "nonsense", "--seed", "1"]) == 1
    assert "no such case: 'nonsense'" in capsys.readouterr().out


@pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if fault.kind in ("read", "size", "open")])
def test_an_error_of_reading_is_the_one_that_is_told(quick_path: Path, name: str) -> None:
    """Whichever operation of a read fails, the error says so, and not what failed because of it."""
    path = quick_path / "runs.db"
    store = SQLiteStore(path)
    run_blocking(store.create("r", "g", START, blocking=True))
    run_blocking(store.close())
    told: list[str] = []
    for number in itertools.count(1):
        disk = Disk(Nth(name, number, on=True))
        reading = SQLiteStore(path, vfs=disk.name)
        try:
            assert run_blocking(reading.read("r")) == START
            break
        except StoreError as error:
            told.append(str(error))
        finally:
            run_blocking(reading.close())
    assert told
    assert [text for text in told if not any(remedy in text for remedy in FAULTS[name].told)] == []


@pytest.mark.skipif(not memory.AVAILABLE, reason="Linux only")
def test_shared_memory_that_fails_is_told(quick_path: Path) -> None:
    """An index of the log that cannot be mapped is an error of the disk; when it can, the store works."""
    store = SQLiteStore(quick_path / "runs.db")
    with (
        memory.failing(quick_path / "runs.db", lambda call: memory.BROKEN if call == "mmap" else 0),
        pytest.raises(StoreError, match="check the disk and its free space"),
    ):
        run_blocking(store.create("r", "g", START, blocking=True))
    run_blocking(store.create("r", "g", START, blocking=True))
    run_blocking(store.close())
    connection = apsw.Connection(str(quick_path / "runs.db"))
    assert connection.pragma("integrity_check") == "ok"


def test_a_step_that_a_crowd_lost_or_did_again_is_told(quick_path: Path) -> None:
    """One that is not recorded, one that was never called, one that was recorded and called once more."""
    played = crowd.Play(1).play("0 3 calm", quick_path)
    assert played.faults == []
    ledger = quick_path / "ledger"
    ledger.write_text(ledger.read_text().replace("r0/first\n", "r1/first\n"))
    told = list(crowd.wrong_with(quick_path, 4, {"r1/first"}))
    assert told == [
        "3 steps are not recorded, 0 should not be",
        "4 steps were never called, 0 should not have been",
        "1 steps were recorded and called again, such as r1/first",
    ]


def test_what_grows_is_told() -> None:
    """Each of the figures by itself; what goes up and down does not count."""
    flat = soak.Look(memory=50_000, files=20, threads=9, log=4000, file=2000)
    assert list(soak.grown([flat] * 60)) == []
    for name, more in zip(soak.Look._fields, soak.MAY_GROW, strict=True):
        rising = [flat._replace(**{name: getattr(flat, name) + more * step // 10}) for step in range(60)]
        assert [text.partition("`")[2].partition("`")[0] for text in soak.grown(rising)] == [name]
        wave = [flat._replace(**{name: getattr(flat, name) + more * 3 * (step % 2)}) for step in range(60)]
        assert list(soak.grown(wave)) == []


def test_an_upgrade_that_is_half_done_is_seen(quick_path: Path) -> None:
    """A file of the older format with a part of the newer one in it, or one that lacks a record."""
    old = upgrade.Old(quick_path, random.Random(1))
    with upgrade.newer():
        assert (old.look("before"), old.tally.faults) == (True, [])
        connection = apsw.Connection(str(old.path))
        connection.execute("ALTER TABLE runs ADD COLUMN label TEXT; CREATE INDEX runs_by_label ON runs(label)")
        connection.execute("DELETE FROM records WHERE id = (SELECT max(id) FROM records)")
        connection.close()
        assert old.look("now") is True
    assert [fault.partition(" has ")[0] for fault in old.tally.faults] == ["now format 1", "now records are others"]


def test_a_run_that_is_half_deleted_is_seen(quick_path: Path) -> None:
    """A record of it that is gone, one of another run, and records of no run at all."""
    full = remove.Full(quick_path, random.Random(1))
    assert (full.look("before"), full.tally.faults) == (True, [])
    connection = apsw.Connection(str(full.path))
    connection.pragma("foreign_keys", False)
    connection.execute(
        "DELETE FROM records WHERE run = (SELECT key FROM runs WHERE run_id = ?) AND seq = 1", (full.run_id,)
    )
    connection.execute("DELETE FROM runs WHERE run_id = 'trip-done'")
    connection.close()
    assert full.look("now") is True
    told = [fault.partition(", and there")[0] for fault in full.tally.faults]
    assert told == ["now the runs ['trip-done'] are others", f"now a part of run `{full.run_id}` is gone"]


def speaks_and_fails(pipe: Connection) -> None:
    """Say something, then fail."""
    pipe.send("here")
    raise ValueError("no such thing")


def test_what_a_process_says_before_it_is_killed_is_heard() -> None:
    """Its error too, though nobody waited for it."""
    with Worker(speaks_and_fails) as worker:
        words = worker.heard()
        while len(words) < 2:
            words += worker.heard()
    assert (words[0], words[1][0], "no such thing" in words[1][1]) == ("here", "bug", True)
