"""An encrypted store: what it keeps can be read with its keys alone, and by nobody else, and nowhere else."""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from flowagent import END, START, Graph, RunOptions, State, Update
from flowagent.core.loops import run_blocking
from flowagent.core.records import Record, Snapshot
from flowagent.errors import DecryptionError, RunFailed, StoreError
from flowagent.stores import EncryptedStore, MemoryStore, SQLiteStore, Store, key_id, new_key

OLD, NEW, OTHER = (bytes([number]) * 32 for number in range(3))
SECRET = b'{"text":"attack at dawn"}'


class Tampered(MemoryStore):
    """A store whose disk somebody writes to."""

    def __init__(self) -> None:
        super().__init__()
        self.changed: dict[tuple[str, int], Record] = {}
        self.last: Snapshot | None = None

    async def read(self, run_id: str, *, after: int = -1, upto: int | None = None) -> list[Record]:
        records = await super().read(run_id, after=after, upto=upto)
        return [self.changed.get((run_id, record.seq), record) for record in records]

    async def snapshot(self, run_id: str) -> Snapshot | None:
        return self.last or await super().snapshot(run_id)


async def _kept(disk: MemoryStore, run_id: str, count: int = 2, *, keys: Sequence[bytes] = (OLD,)) -> EncryptedStore:
    store = EncryptedStore(disk, keys)
    records = [Record(0, "started", SECRET), *(Record(seq, "done", SECRET) for seq in range(1, count))]
    await store.release(await store.create(run_id, "g", records))
    return store


def _bytes_in(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())


# -- what is on the disk -----------------------------------------------------------------------------------------------


async def test_nothing_of_a_record_or_snapshot_is_in_the_file(tmp_path: Path) -> None:
    """Neither the database nor its log holds anything of what was written."""
    store = EncryptedStore(SQLiteStore(tmp_path / "runs.db"), [OLD])
    lease = await store.create("r", "g", [Record(0, "started", SECRET)])
    await store.append(lease, [Record(1, "done", SECRET)], snapshot=Snapshot(1, SECRET))
    on_disk = _bytes_in(tmp_path)
    await store.release(lease)
    await store.close()
    on_disk += _bytes_in(tmp_path)
    assert b"started" in on_disk  # kinds stay in clear, so this is where a record is
    assert b"attack" not in on_disk
    assert (await store.read("r"), await store.snapshot("r")) == (
        [Record(0, "started", SECRET), Record(1, "done", SECRET)],
        Snapshot(1, SECRET),
    )


async def test_the_same_record_is_never_encrypted_to_the_same_bytes() -> None:
    """Equal values cannot be told from each other."""
    disk = MemoryStore()
    store = EncryptedStore(disk, [OLD])
    for run_id in ("a", "b"):
        await store.create(run_id, "g", [Record(0, "started", SECRET), Record(1, "started", SECRET)])
    datas = {record.data for run_id in ("a", "b") for record in await disk.read(run_id)}
    assert len(datas) == 4


# -- keys --------------------------------------------------------------------------------------------------------------


async def test_the_first_key_writes_and_all_keys_read() -> None:
    """After a rotation old runs are read and gone on with; what is new needs the new key alone."""
    disk = MemoryStore()
    await _kept(disk, "old")
    rotated = EncryptedStore(disk, [NEW, OLD])
    lease = await rotated.claim("old")
    await rotated.append(lease, [Record(2, "done", b"{}")])
    await rotated.create("new", "g", [Record(0, "started", SECRET)])
    assert [record.data for record in await rotated.read("old")] == [SECRET, SECRET, b"{}"]
    only_new = EncryptedStore(disk, [NEW])
    assert await only_new.read("new") == [Record(0, "started", SECRET)]
    assert await only_new.read("old", after=1) == [Record(2, "done", b"{}")]


async def test_a_missing_key_is_named_and_harms_nothing() -> None:
    """The error names run, record, the key's id and the remedy; with the key the run is as it was."""
    disk = MemoryStore()
    store = await _kept(disk, "r")
    with pytest.raises(DecryptionError) as caught:
        await EncryptedStore(disk, [OTHER]).read("r")
    assert str(caught.value) == (
        f"record 1 of run `r` in the memory store is encrypted with the key of the id {key_id(OLD)}, which is none of "
        "the keys that were given: add that key to keys=, after the first one; the run is unharmed"
    )
    assert [record.data for record in await store.read("r")] == [SECRET, SECRET]


def test_keys_are_bytes_or_base64() -> None:
    """One key in all its spellings; what `new_key` makes is another each time."""
    standard, safe = base64.b64encode(b"\xff" * 32).decode(), base64.urlsafe_b64encode(b"\xff" * 32).decode()
    assert {key_id(key) for key in (b"\xff" * 32, standard, safe, f" {safe}\n")} == {key_id(b"\xff" * 32)}
    assert standard != safe
    assert key_id(new_key()) != key_id(new_key())


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ([], "keys= is empty, and an encrypted store needs one at least"),
        (["correct horse battery staple"], "keys[0] is no key, as it is not base64"),
        ([OLD, b"horse"], "keys[1] has 40 bits and needs 256"),
        ("A" * 43 + "=", "keys= takes a list of keys, of which the first one encrypts"),
    ],
)
def test_what_is_no_key_is_refused_and_not_repeated(keys: Sequence[bytes | str], told: str) -> None:
    """The error says which one is wrong and how to make a key, and shows nothing of it."""
    with pytest.raises(StoreError) as caught:
        EncryptedStore(MemoryStore(), keys)
    assert str(caught.value) == (
        f"{told}{';' if 'keys[' in told or 'takes' in told else ':'} "
        "make one with `new_key()`, keep it where secrets are kept, and give it as it is"
    )
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


# -- somebody else writes to the disk ----------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [0, 1, 2, 9, 10, 21, 22, 30, -1])
async def test_a_changed_byte_is_refused(at: int) -> None:
    """Whichever byte was changed, of the head, the text or the tag: no other text comes of it."""
    disk = Tampered()
    store = await _kept(disk, "r")
    data = bytearray((await disk.read("r"))[1].data)
    data[at] ^= 1
    disk.changed["r", 1] = Record(1, "done", bytes(data))
    with pytest.raises(DecryptionError, match="record 1 of run `r`"):
        await store.read("r")


async def test_a_record_in_another_place_is_refused() -> None:
    """A record of another run, number or kind is none of this place's, though its key is right."""
    disk = Tampered()
    store = await _kept(disk, "r", 3)
    await _kept(disk, "other", 3)
    stored = await disk.read("r")
    foreign = (await disk.read("other"))[1].data
    for moved in (Record(1, "done", foreign), Record(1, "done", stored[2].data), Record(1, "memo", stored[1].data)):
        disk.changed = {("r", 1): moved}
        with pytest.raises(DecryptionError, match="was altered after it was encrypted, or belongs to another place"):
            await store.read("r")
    disk.changed = {}
    assert len(await store.read("r")) == 3


@pytest.mark.parametrize("data", [SECRET, b"", b"\xfa\x01short"])
async def test_a_record_that_is_not_encrypted_is_refused(data: bytes) -> None:
    """Nobody without the key can slip a record in, and a plain store is told from an encrypted one."""
    disk = MemoryStore()
    await disk.create("r", "g", [Record(0, "started", data)])
    with pytest.raises(DecryptionError, match="is not encrypted, so anybody may have written it"):
        await EncryptedStore(disk, [OLD]).read("r")


async def test_a_snapshot_that_was_altered_is_passed_over() -> None:
    """A snapshot is a cache: without it the records tell the same."""
    disk = Tampered()
    store = await _kept(disk, "r")
    disk.last = Snapshot(1, SECRET)
    assert await store.snapshot("r") is None


async def test_without_its_snapshot_a_run_is_resumed_from_its_records(tmp_path: Path) -> None:
    """A snapshot by another key is passed over, with the records after it; all of them are there to be read."""
    broken, disk = [True], SQLiteStore(tmp_path / "runs.db")
    store, graph = EncryptedStore(disk, [OLD]), _failing_once(broken)
    with pytest.raises(RunFailed):
        await graph.run(store=store, run_id="r")
    lease = await disk.claim("r")
    await EncryptedStore(disk, [OTHER]).append(lease, [], snapshot=Snapshot(1, SECRET), status="failed")
    await disk.release(lease)
    past = await store.past("r")
    assert (past.snapshot, past.records, past.first) == (None, [], (await store.read("r"))[0])
    broken.clear()
    run = await graph.resume("r", store=store)
    assert (run.status, run.state) == ("completed", Count(n=11))


async def test_a_fork_is_read_with_what_it_shares() -> None:
    """Records stay those of the run that wrote them, however often they are shared, whichever key they have."""
    disk = MemoryStore()
    await _kept(disk, "p", 4)
    store = EncryptedStore(disk, [NEW, OLD])
    await store.create("c", "g", [Record(2, "done", b"c2"), Record(3, "done", b"c3")], parent="p", parent_seq=1)
    await store.create("gc", "g", [Record(1, "done", b"gc1")], parent="c", parent_seq=0)
    assert [record.data for record in await store.read("c")] == [SECRET, SECRET, b"c2", b"c3"]
    assert [record.data for record in await store.read("c", after=0, upto=2)] == [SECRET, b"c2"]
    assert [record.data for record in await store.read("gc")] == [SECRET, b"gc1"]
    past = await store.past("gc")
    assert (past.first.data, [record.data for record in past.records]) == (SECRET, [b"gc1"])


# -- runs --------------------------------------------------------------------------------------------------------------


class Count(State):
    n: int = 0


def _failing_once(broken: list[bool]) -> Graph[Count]:
    graph = Graph("count", Count)

    @graph.node
    def first(count: Count) -> Update:
        return {"n": count.n + 1}

    @graph.node
    def second(count: Count) -> Update:
        if broken:
            raise OSError("out of luck")
        return {"n": count.n + 10}

    graph.chain(START, first, second, END)
    return graph


def test_a_run_refused_for_its_key_is_resumed_with_it(tmp_path: Path) -> None:
    """A wrong key changes nothing: neither the status nor what was recorded; the right one goes on from there."""
    broken, disk = [True], SQLiteStore(tmp_path / "runs.db")
    graph = _failing_once(broken)
    with pytest.raises(RunFailed):
        graph.run_sync(store=EncryptedStore(disk, [OLD]), run_id="r")
    wrong: RunOptions = {"store": EncryptedStore(disk, [OTHER])}
    for refused in (graph.resume_sync, graph.load_sync):
        with pytest.raises(DecryptionError, match=key_id(OLD)):
            refused("r", store=wrong["store"])
    with pytest.raises(DecryptionError, match=key_id(OLD)):
        graph.run_sync(run_id="r", **wrong)
    info = run_blocking(disk.info("r"))
    assert (info.status, info.owner) == ("failed", None)
    broken.clear()
    run = graph.resume_sync("r", store=EncryptedStore(disk, [NEW, OLD]))
    assert (run.status, run.state) == ("completed", Count(n=11))
    assert [step.node for step in run.history if step.kind == "done"].count("first") == 1


def test_cryptography_is_loaded_by_the_first_encrypted_store() -> None:
    """Neither flowagent nor its other stores load it; without the package the error names the extra."""
    probe = (
        "import sys, flowagent, flowagent.stores, flowagent.stores.sqlite\n"
        "assert 'cryptography' not in sys.modules\n"
        "sys.modules['cryptography'] = None\n"
        "try: flowagent.stores.EncryptedStore\n"
        "except ModuleNotFoundError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout == (
        "EncryptedStore needs the package `cryptography`, which is an extra: pip install 'flowagent[encrypted]'\n"
    )


def test_an_encrypted_store_shows_no_keys() -> None:
    """Its repr names what it encrypts."""
    store: Store = EncryptedStore(MemoryStore(), [OLD])
    assert repr(store) == "EncryptedStore(MemoryStore(0 runs))"
