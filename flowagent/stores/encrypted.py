"""Encryption at rest: a store around any other, so that whoever reads the disk learns nothing of what runs hold."""

from __future__ import annotations

import base64
import binascii
import contextlib
import functools
import hmac
import os
from collections.abc import Callable, Sequence
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from flowagent.core.records import Past, Record, RunInfo, Snapshot, Status
from flowagent.errors import DecryptionError, RunConflict, StoreError
from flowagent.stores.base import Lease, Store

_MARK: Final = b"\xfa\x01"
"""How everything written here begins: a byte that no JSON and no UTF-8 has, and the version of the form."""

_ID: Final = 8
_NONCE: Final = 12
_HEAD: Final = len(_MARK) + _ID + _NONCE
_KEY: Final = 32
_REMEDY: Final = "make one with `new_key()`, keep it where secrets are kept, and give it as it is"


def new_key() -> str:
    """A fresh random key, as text: 256 bits in URL-safe base64.

    Example:
        >>> len(new_key())
        44
    """
    return base64.urlsafe_b64encode(os.urandom(_KEY)).decode()


class EncryptedStore:
    """Encrypts what another store keeps: inputs, values, items, answers, questions, errors, memos and snapshots.

    Each record is encrypted by itself with AES-256-GCM, under a key of its run's own that is derived from yours, and
    bound to its place: its run, its number and its kind. One that was altered, or moved to another place, is refused.
    In clear stay what a store must know to do its work, and what could be counted anyway: run ids, names of graphs,
    statuses, times, owners, how many records there are, of which kinds and how long.

    Nothing tells that the newest records of a run, or a whole run, are gone or were put back as they once were.

    Args:
        store: keeps the encrypted runs, and nothing else: records that are not encrypted are refused.
        keys: 256 bits each, as bytes or in base64 (see `new_key`). The first one encrypts, all of them decrypt: to
            change keys, put the new one first, and drop the old one when no run of its time is left.

    Example:
        >>> import asyncio
        >>> from flowagent.stores import MemoryStore
        >>> async def main() -> tuple[list[Record], bool]:
        ...     disk = MemoryStore()
        ...     store = EncryptedStore(disk, keys=[new_key()])
        ...     await store.create("r-1", "triage", [Record(0, "started", b'{"text":"hello"}')])
        ...     return await store.read("r-1"), b"hello" in (await disk.read("r-1"))[0].data
        >>> asyncio.run(main())
        ([Record(seq=0, kind='started', data=b'{"text":"hello"}')], False)
    """

    keeps_secrets = True

    def __init__(self, store: Store, keys: Sequence[bytes | str]) -> None:
        if isinstance(keys, (str, bytes)):
            raise StoreError(f"keys= takes a list of keys, of which the first one encrypts; {_REMEDY}")
        found = [_key(key, place) for place, key in enumerate(keys)]
        if not found:
            raise StoreError(f"keys= is empty, and an encrypted store needs one at least: {_REMEDY}")
        self._store = store
        self._first = _id_of(found[0])
        self._cipher = _ciphers({_id_of(key): key for key in found})

    def __repr__(self) -> str:
        return f"EncryptedStore({self._store!r})"

    @property
    def name(self) -> str:
        """What to call this store in messages: as its own errors call the one that is encrypted."""
        return self._store.name

    async def create(
        self,
        run_id: str,
        graph: str,
        records: Sequence[Record],
        *,
        blocking: bool = False,
        durable: bool = True,
        parent: str | None = None,
        parent_seq: int = -1,
    ) -> Lease:
        """Insert a new run with its first records and hold it; see `Store.create`."""
        return await self._store.create(
            run_id,
            graph,
            self._closed_all(run_id, records),
            blocking=blocking,
            durable=durable,
            parent=parent,
            parent_seq=parent_seq,
        )

    async def claim(self, run_id: str, *, blocking: bool = False) -> Lease:
        """Take hold of a stored run; see `Store.claim`."""
        return await self._store.claim(run_id, blocking=blocking)

    async def resume(self, run_id: str, *, blocking: bool = False) -> tuple[Lease | None, Past]:
        """Take hold of a stored run and read it; see `Store.resume`.

        Raises:
            DecryptionError: as in `read`; the run stands as it did and is not held, but its epoch went up.
        """
        lease, past = await self._store.resume(run_id, blocking=blocking)
        try:
            return lease, await self._opened_past(past)
        except BaseException:
            if lease is not None:
                with contextlib.suppress(RunConflict, StoreError):  # the error that is raised is the one to tell
                    await self._put_back(lease, past.info.status)
            raise

    async def append(
        self,
        lease: Lease,
        records: Sequence[Record],
        *,
        status: Status | None = None,
        snapshot: Snapshot | None = None,
        durable: bool = True,
    ) -> None:
        """Append records, all or none; see `Store.append`."""
        run_id = lease.run_id
        if snapshot is not None:
            snapshot = Snapshot(snapshot.seq, self._closed(run_id, "snapshot", *snapshot))
        closed = self._closed_all(run_id, records)
        await self._store.append(lease, closed, status=status, snapshot=snapshot, durable=durable)

    async def release(self, lease: Lease) -> None:
        """Let go of a run; see `Store.release`."""
        await self._store.release(lease)

    async def info(self, run_id: str) -> RunInfo:
        """What is known of one run; see `Store.info`."""
        return await self._store.info(run_id)

    async def past(self, run_id: str) -> Past:
        """What is needed to know where a run stands; see `Store.past`.

        Raises:
            DecryptionError: as in `read`.
        """
        return await self._opened_past(await self._store.past(run_id))

    async def read(self, run_id: str, *, after: int = -1, upto: int | None = None) -> list[Record]:
        """The records of a run, those shared with a parent included; see `Store.read`.

        Raises:
            DecryptionError: a record is encrypted with a key that was not given, was altered, or is not encrypted.
        """
        records = await self._store.read(run_id, after=after, upto=upto)
        return await self._opened_all(await self._store.info(run_id), records) if records else []

    async def snapshot(self, run_id: str) -> Snapshot | None:
        """The newest snapshot of a run, or None; one that was altered is passed over, as losing one is harmless."""
        snapshot = await self._store.snapshot(run_id)
        return None if snapshot is None else self._opened_snapshot(run_id, snapshot)

    async def runs(
        self, *, graph: str | None = None, statuses: Sequence[Status] = (), limit: int | None = None
    ) -> list[RunInfo]:
        """The runs of this store, the newest first; see `Store.runs`."""
        return await self._store.runs(graph=graph, statuses=statuses, limit=limit)

    async def request_cancel(self, run_id: str) -> bool:
        """Ask the owner of a run to cancel it; see `Store.request_cancel`."""
        return await self._store.request_cancel(run_id)

    async def delete(self, run_id: str) -> None:
        """Remove a run; see `Store.delete`."""
        await self._store.delete(run_id)

    async def close(self) -> None:
        """Close the store that is encrypted; see `Store.close`."""
        await self._store.close()

    # -- records -----------------------------------------------------------------------------------------------------

    def _closed_all(self, run_id: str, records: Sequence[Record]) -> list[Record]:
        return [Record(seq, kind, self._closed(run_id, kind, seq, data)) for seq, kind, data in records]

    async def _opened_past(self, past: Past) -> Past:
        info, first, snapshot, records = past
        opened = None if snapshot is None else self._opened_snapshot(info.run_id, snapshot)
        if snapshot is not None and opened is None:
            records = []  # What comes after the snapshot tells nothing without it; the whole is there to be read.
        first, *rest = await self._opened_all(info, [first, *records])
        return Past(info, first, opened, rest)

    async def _put_back(self, lease: Lease, status: Status) -> None:
        """Leave a run as it stood before it was claimed."""
        try:
            if status != "interrupted":
                await self._store.append(lease, [], status=status)
        finally:
            await self._store.release(lease)

    async def _opened_all(self, info: RunInfo, records: Sequence[Record]) -> list[Record]:
        """Records decrypted, each as one of the run that wrote it: the first ones may be shared with a parent."""
        opened: list[Record] = []
        # From the last one back, as a parent's come before its child's, and those of its own parent before them.
        for seq, kind, data in reversed(records):
            while info.parent is not None and seq <= info.parent_seq:
                info = await self._store.info(info.parent)
            opened.append(Record(seq, kind, self._opened(info.run_id, kind, seq, data)))
        return opened[::-1]

    def _opened_snapshot(self, run_id: str, snapshot: Snapshot) -> Snapshot | None:
        try:
            return Snapshot(snapshot.seq, self._opened(run_id, "snapshot", *snapshot))
        except DecryptionError:
            return None

    def _closed(self, run_id: str, kind: str, seq: int, data: bytes) -> bytes:
        nonce = os.urandom(_NONCE)
        cipher = self._cipher(self._first, run_id)
        assert cipher is not None, "the first key is known; this is a bug in flowagent"
        return b"".join((_MARK, self._first, nonce, cipher.encrypt(nonce, data, _place(run_id, kind, seq))))

    def _opened(self, run_id: str, kind: str, seq: int, data: bytes) -> bytes:
        if not data.startswith(_MARK) or len(data) < _HEAD:
            raise self._refused(
                run_id,
                seq,
                "is not encrypted, so anybody may have written it: read such runs through the store without encryption",
            )
        key_id, nonce = data[len(_MARK) : len(_MARK) + _ID], data[len(_MARK) + _ID : _HEAD]
        cipher = self._cipher(key_id, run_id)
        if cipher is None:
            raise self._refused(
                run_id,
                seq,
                f"is encrypted with the key of the id {key_id.hex()}, which is none of the keys that were given: add "
                "that key to keys=, after the first one; the run is unharmed",
            )
        try:
            return cipher.decrypt(nonce, data[_HEAD:], _place(run_id, kind, seq))
        except InvalidTag:
            raise self._refused(
                run_id,
                seq,
                "was altered after it was encrypted, or belongs to another place; restore the store from a backup",
            ) from None

    def _refused(self, run_id: str, seq: int, why: str) -> DecryptionError:
        return DecryptionError(f"record {seq} of run `{run_id}` in {self.name} {why}")


def key_id(key: bytes | str) -> str:
    """The id of a key, as errors and encrypted records name it; it says nothing about the key.

    Example:
        >>> key_id(bytes(32))
        '0c2eef63ec27d932'
    """
    return _id_of(_key(key, 0)).hex()


def _key(key: bytes | str, place: int) -> bytes:
    """A key as bytes. No message of this tells anything of what was given, as it may be most of a key."""
    if isinstance(key, str):
        try:
            key = base64.b64decode(key.strip().encode().translate(_STANDARD), validate=True)
        except (binascii.Error, ValueError):
            raise StoreError(f"keys[{place}] is no key, as it is not base64; {_REMEDY}") from None
    if len(key) != _KEY:
        raise StoreError(f"keys[{place}] has {len(key) * 8} bits and needs {_KEY * 8}; {_REMEDY}")
    return bytes(key)


_STANDARD: Final = bytes.maketrans(b"-_", b"+/")


def _id_of(key: bytes) -> bytes:
    return hmac.digest(key, b"flowagent key id", "sha256")[:_ID]


def _ciphers(keys: dict[bytes, bytes]) -> Callable[[bytes, str], AESGCM | None]:
    """Makes and remembers the ciphers of runs. A random nonce for each record is safe for 2**32 of one run and key."""

    @functools.lru_cache(maxsize=256)
    def cipher(key_id: bytes, run_id: str) -> AESGCM | None:
        key = keys.get(key_id)
        return None if key is None else AESGCM(hmac.digest(key, b"flowagent run key " + _text(run_id), "sha256"))

    return cipher


def _place(run_id: str, kind: str, seq: int) -> bytes:
    """What a record is bound to. Kinds have no spaces, so no two places give the same bytes."""
    return b"%d %b %b" % (seq, kind.encode(), _text(run_id))


def _text(run_id: str) -> bytes:
    return run_id.encode("utf-8", "surrogatepass")  # ids that are no text are for the store to refuse
