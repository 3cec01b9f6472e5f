"""The table of records: the statements on them, each as a plain function on a cursor.

Nothing here opens, commits or waits; nothing here changes a Python object.
"""

# pyright: reportUnknownMemberType=false
# (apsw's stubs name `collections.abc.Buffer`, which Python 3.11 does not have.)
from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast
from zlib import crc32

import apsw

from flowagent.core.records import FORMAT, Past, Record, RecordKind, Status
from flowagent.core.writes import tupled
from flowagent.stores import rules, sqlite_runs, sqlite_snapshots
from flowagent.stores.sqlite_runs import NUMBERS, Grip, Row, is_whole, run_sum

_INSERT: Final = (
    "INSERT INTO records(id, epoch, kind, data, sum) SELECT ?1, ?2, ?3, ?4, ?5 FROM runs WHERE key = ?6 AND epoch = ?2"
)
_INSERT_TWO: Final = f"{_INSERT} UNION ALL SELECT ?7, ?2, ?8, ?9, ?10 FROM runs WHERE key = ?6 AND epoch = ?2"
MOST_AT_ONCE: Final = 2
"""How many records one statement inserts, and so one transaction of its own: a node's, and its router's."""


_LAST: Final = (
    "SELECT id & 0xffffffff, epoch, kind, data, sum FROM records WHERE id BETWEEN ?1 AND ?1 + 0xffffffff "
    "ORDER BY id DESC LIMIT 1"
)

_AT_ONCE: Final = 1000
"""How many records are read at most while others wait to write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Birth:
    """A run to be made."""

    run_id: str
    graph: str
    records: Sequence[Record]
    parent: str | None
    parent_seq: int


def create(cursor: apsw.Cursor, store: str, birth: Birth, me: str) -> tuple[Grip, int]:
    """Make a run with its first records, held by `me`; what is needed to hold it, and its next number.

    Raises:
        RunExists: the id is taken.
        RunNotFound: there is no such parent.
        RunConflict, StoreError: the records are not numbered on from the parent's.
    """
    rules.check_run_id(birth.run_id)
    for _ in cursor.execute("SELECT 1 FROM runs WHERE run_id = ?", (birth.run_id,)):
        raise rules.exists(store, birth.run_id)
    trunk = None if birth.parent is None else sqlite_runs.find(cursor, store, birth.parent)
    if trunk is not None:
        rules.check_parent(birth.run_id, trunk.run_id, birth.parent_seq, next_seq(cursor, store, trunk))
    parent_seq = -1 if trunk is None else birth.parent_seq
    after = parent_seq + 1 + len(birth.records)
    now = time.time()
    cursor.execute(
        "INSERT INTO runs(run_id, graph, status, epoch, known, created, updated, parent, parent_seq, format, sum, owner"
        ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, line_sum(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10), ?11) "
        "RETURNING key",
        (birth.run_id, birth.graph, "running", 1, after, now, now, trunk and trunk.key, parent_seq, FORMAT, me),
    )
    key = cast("int", cursor.get)
    grip = Grip(store, birth.run_id, key, 1, run_sum(key, birth.run_id))
    insert(cursor, grip, birth.records, parent_seq + 1)
    return grip, after


RecordRow: TypeAlias = tuple[int, int, str, bytes, int, int]
"""What `_INSERT` is given."""


def insert(cursor: apsw.Cursor, grip: Grip, records: Iterable[Record], first: int) -> None:
    """Insert records numbered from `first`, if the run still has the grip's epoch.

    Raises:
        RunConflict: it has not, or a number is taken.
        StoreError: a number was left out.
    """
    rows = rows_of(grip, records, first)
    connection = cursor.connection
    before = connection.total_changes()
    try:
        if len(rows) == MOST_AT_ONCE:
            one, (second, _, kind, data, total, _) = rows
            cursor.execute(_INSERT_TWO, (*one, second, kind, data, total))
        else:
            cursor.executemany(_INSERT, rows)
    except apsw.ConstraintError as error:
        inserted = connection.total_changes() - before
        taken = _first_taken(cursor, [row[0] for row in rows[inserted:]]) - grip.key * NUMBERS
        raise rules.misnumbered(grip.run_id, taken, taken + 1) from error
    if connection.total_changes() - before != len(rows):
        raise sqlite_runs.lost(cursor, grip)


def _first_taken(cursor: apsw.Cursor, ids: Sequence[int]) -> int:
    cursor.execute("SELECT ifnull(min(id), ?1) FROM records WHERE id BETWEEN ?1 AND ?2", (ids[0], ids[-1]))
    return cast("int", cursor.get)


def rows_of(grip: Grip, records: Iterable[Record], first: int) -> list[RecordRow]:
    """The rows of records numbered from `first`.

    Raises:
        RunConflict, StoreError: they are numbered otherwise.
    """
    _, run_id, key, epoch, crc = grip
    seq, base = first, key * NUMBERS
    rows: list[RecordRow] = []
    for number, kind, data in records:
        if number != seq:
            raise rules.misnumbered(run_id, number, seq)
        total = crc32(data, crc32(f"/{seq}/{epoch}/{kind}/".encode(), crc))  # `record_sum`, without a call at each step
        rows.append((base + seq, epoch, kind, data, total, key))
        seq += 1
    return rows


def insert_rows(cursor: apsw.Cursor, rows: Sequence[RecordRow]) -> bool:
    """Insert rows, of one run or of many; whether each run still had the epoch that its rows name."""
    connection = cursor.connection
    before = connection.total_changes()
    cursor.executemany(_INSERT, rows)
    return connection.total_changes() - before == len(rows)


def set_status(cursor: apsw.Cursor, grip: Grip, status: Status, after: int) -> None:
    """Note a run's status and that it has the records below `after`.

    Raises:
        RunConflict: the run has another epoch now.
    """
    cursor.execute(
        "UPDATE runs SET status = ?1, updated = ?2, known = ?3, sum = line_sum(run_id, graph, ?1, epoch, ?3, "
        "created, ?2, parent, parent_seq, format) WHERE key = ?4 AND epoch = ?5",
        (status, time.time(), after, grip.key, grip.epoch),
    )
    if cursor.connection.changes() != 1:
        raise sqlite_runs.lost(cursor, grip)


def undo(cursor: apsw.Cursor, grip: Grip, seq: int, status: Status) -> None:
    """Remove what an append left from number `seq` on whose commit failed, in case it landed all the same.

    Raises:
        RunConflict: the run has another epoch now, and that owner may have built on it.
    """
    set_status(cursor, grip, status, seq)
    span = (grip.key * NUMBERS, seq)
    cursor.execute("DELETE FROM records WHERE id BETWEEN ?1 + ?2 AND ?1 + 0xffffffff", span)
    cursor.execute("DELETE FROM snapshots WHERE id BETWEEN ?1 + ?2 AND ?1 + 0xffffffff", span)


def next_seq(cursor: apsw.Cursor, store: str, row: Row) -> int:
    """The number that the next record of a run will have.

    Raises:
        StoreError: it has had more records than there are, or the last of them is damaged.
    """
    found = row.parent_seq + 1
    try:
        for seq, *content, total in cast("Iterable[Any]", cursor.execute(_LAST, (row.key * NUMBERS,))):
            found = seq + 1
            if not is_whole(total, run_sum(row.key, row.run_id), seq, *content):
                raise rules.damaged(store, row.run_id, seq, "is damaged (its checksum does not fit)")
    except UnicodeDecodeError as error:
        seq = sqlite_runs.last_number(cursor, row.key)
        assert seq is not None, "its kind was just read; this is a bug in flowagent"
        raise rules.damaged(store, row.run_id, seq, "is damaged (its kind is no text)") from error
    # Both are stored together: a snapshot of a record that is not there tells that the record was lost.
    if found < row.known or sqlite_snapshots.newest(cursor, row, first=found) is not None:
        raise rules.damaged(store, row.run_id, found, "is missing")
    return found


def read(cursor: apsw.Cursor, store: str, row: Row, after: int, upto: int | None) -> list[Record]:
    """The records of a run above number `after` and not above `upto`, those of its ancestors first.

    Raises:
        StoreError: one is missing or damaged.
    """
    rules.check_format(store, row.run_id, row.format)
    records: list[Record] = []
    for part, until in reversed(_lineage(cursor, store, row, after)):
        first = max(after, part.parent_seq) + 1
        if upto is None or first <= upto:
            records += _checked(cursor, store, part, first, until, upto)
    return records


def past(cursor: apsw.Cursor, store: str, row: Row, seq: int, *, held: bool) -> Past:
    """What is needed to go on with a run whose next number is `seq`.

    Raises:
        StoreError: a record is missing or damaged.
    """
    first = read(cursor, store, row, -1, 0)
    if not first:
        raise rules.damaged(store, row.run_id, 0, "is missing")
    snapshot = sqlite_snapshots.newest(cursor, row)
    after = 0 if snapshot is None else snapshot.seq
    records = read(cursor, store, row, after, after + _AT_ONCE)
    return Past(sqlite_runs.info(row, seq, held=held), first[0], snapshot, records)


def _lineage(cursor: apsw.Cursor, store: str, row: Row, after: int) -> list[tuple[Row, int]]:
    """A run and its ancestors, each with the last number that is read of it (a large one for all there are)."""
    parts = [(row, NUMBERS - 1)]
    until = NUMBERS - 1
    while row.parent is not None and row.parent_seq > after:
        until = min(until, row.parent_seq)
        row = sqlite_runs.find(cursor, store, row.parent)
        parts.append((row, until))
    return parts


def _checked(cursor: apsw.Cursor, store: str, row: Row, first: int, until: int, upto: int | None) -> list[Record]:
    crc = run_sum(row.key, row.run_id)
    base = row.key * NUMBERS
    expected = first
    records: list[Record] = []
    cursor.execute(
        "SELECT id - ?1, epoch, kind, data, sum FROM records WHERE id BETWEEN ?1 + ?2 AND ?1 + ?3 ORDER BY id",
        (base, first, until if upto is None else min(until, upto)),
    )
    try:
        for seq, epoch, kind, data, total in cast("Iterator[tuple[int, int, RecordKind, bytes, int]]", cursor):
            if seq != expected:
                raise rules.damaged(store, row.run_id, expected, "is missing")
            if not is_whole(total, crc, seq, epoch, kind, data):
                raise rules.damaged(store, row.run_id, seq, "is damaged (its checksum does not fit)")
            records.append(tupled(Record, (seq, kind, data)))
            expected += 1
    except UnicodeDecodeError as error:
        raise rules.damaged(store, row.run_id, expected, "is damaged (its kind is no text)") from error
    # All that a fork shares was there when it was made; of its own records a run knows only how many it had once.
    wanted = row.known if until == NUMBERS - 1 else until + 1
    if expected < (wanted if upto is None else min(wanted, upto + 1)):
        raise rules.damaged(store, row.run_id, expected, "is missing")
    return records
