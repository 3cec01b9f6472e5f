"""The table of snapshots: one for each run, packed where that saves something.

Nothing here opens, commits or waits; nothing here changes a Python object.
"""

# pyright: reportUnknownMemberType=false
# (apsw's stubs name `collections.abc.Buffer`, which Python 3.11 does not have.)
from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator
from typing import Final, cast

import apsw

from flowagent.core.records import Snapshot
from flowagent.stores import sqlite_runs
from flowagent.stores.sqlite_runs import NUMBERS, Grip, Row, is_whole, record_sum, run_sum

_SHORT: Final = 2048
"""Below so many bytes a snapshot shares a page with others as it is."""

_PACKED: Final = b"x"
"""How zlib's streams begin, and no JSON, and nothing that is encrypted."""

_FASTEST: Final = 1
"""Of zlib's levels: text shrinks to a third by it, and to little less by those that take ten times as long."""

_OTHERS: Final = "DELETE FROM snapshots WHERE id BETWEEN ?1 AND ?1 + 0xffffffff"
_INSERT: Final = "INSERT INTO snapshots(id, data, sum) SELECT ?1, ?2, ?3 FROM runs WHERE key = ?4 AND epoch = ?5"
_NEWEST: Final = (
    "SELECT id & 0xffffffff, data, sum FROM snapshots WHERE id BETWEEN ?1 + ?2 AND ?1 + 0xffffffff ORDER BY id DESC"
)


def save(cursor: apsw.Cursor, grip: Grip, snapshot: Snapshot) -> None:
    """Keep a snapshot in place of the one before it, whose pages it takes.

    Raises:
        RunConflict: the run has another epoch now, and the transaction must be undone.
    """
    base = grip.key * NUMBERS
    data = packed(snapshot.data)
    total = record_sum(grip.crc, snapshot.seq, 0, "snapshot", data)
    cursor.execute(_OTHERS, (base,))
    cursor.execute(_INSERT, (base + snapshot.seq, data, total, grip.key, grip.epoch))
    if cursor.connection.changes() != 1:
        raise sqlite_runs.lost(cursor, grip)


def newest(cursor: apsw.Cursor, row: Row, first: int = 0) -> Snapshot | None:
    """The newest snapshot of a run that is whole, of record `first` or a later one.

    One that is damaged is passed over: it is only a cache.
    """
    crc = run_sum(row.key, row.run_id)
    cursor.execute(_NEWEST, (row.key * NUMBERS, first))
    for seq, data, total in cast("Iterator[tuple[int, bytes, int]]", cursor):
        if is_whole(total, crc, seq, 0, "snapshot", data):
            with contextlib.suppress(zlib.error):
                return Snapshot(seq, unpacked(data))
    return None


def packed(data: bytes) -> bytes:
    """A snapshot as it is kept.

    >>> packed(b'{"steps":1}')
    b'{"steps":1}'
    >>> len(packed(b'{"text":"%b"}' % (b"and so on " * 1000))) < 200
    True
    """
    if data.startswith(_PACKED) or (len(data) >= _SHORT and data.startswith(b"{")):
        return zlib.compress(data, _FASTEST)
    return data


def unpacked(data: bytes) -> bytes:
    """A snapshot from how it is kept.

    Raises:
        zlib.error: it was never kept so.
    """
    return zlib.decompress(data) if data.startswith(_PACKED) else data
