"""The tables of runs and of their owners: the statements on them, each as a plain function on a cursor.

Nothing here opens, commits or waits; nothing here changes a Python object.
"""

# pyright: reportUnknownMemberType=false
# (apsw's stubs name `collections.abc.Buffer`, which Python 3.11 does not have.)
from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, cast, get_args
from zlib import crc32

import apsw

from flowagent.core.records import RunInfo, Status
from flowagent.errors import StoreError
from flowagent.stores import owner, rules

NUMBERS: Final = 1 << 32
"""How many numbers a run has: a record's id is `key * NUMBERS + seq`."""

NO_RUN: Final = 0
"""A key that no run has: what a released lease points to."""

_STATUSES: Final = frozenset(get_args(Status))

_LAST: Final = "SELECT id & 0xffffffff FROM records WHERE id BETWEEN ?1 AND ?1 + 0xffffffff ORDER BY id DESC LIMIT 1"

_RUN: Final = """
    SELECT r.key, r.run_id, r.graph, r.status, r.epoch, r.owner, r.known, r.created, r.updated, p.run_id, r.parent,
        r.parent_seq, r.format, ifnull(o.until, 0.0), ifnull(o.ticks, 0.0)
    FROM runs r LEFT JOIN runs p ON p.key = r.parent LEFT JOIN owners o ON o.owner = r.owner"""


class Row(NamedTuple):
    """A run as its table tells it, with the lease of its owner."""

    key: int
    run_id: str
    graph: str
    status: Status
    epoch: int
    owner: str | None
    known: int
    created: float
    updated: float
    parent: str | None
    parent_key: int | None
    parent_seq: int
    format: int
    until: float
    ticks: float

    def is_held(self) -> bool:
        """Whether a process that may be alive holds it."""
        return self.owner is not None and _may_live(self.owner, self.until, self.ticks)


class Grip(NamedTuple):
    """What an owner must know to write to a run: `crc` is the checksum of its id, where those of its rows start."""

    store: str
    run_id: str
    key: int
    epoch: int
    crc: int


class Query(NamedTuple):
    """Which runs are asked for."""

    graph: str | None
    statuses: Sequence[Status]
    limit: int | None


# --------------------------------------------------------------------------------------------------------------- owners


def keep_alive(cursor: apsw.Cursor, me: str, ttl: float) -> None:
    """Say that a process lives, and will for `ttl` seconds unless it says so again."""
    cursor.execute(
        "INSERT INTO owners VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET until = excluded.until, ticks = excluded.ticks",
        (me, time.time() + ttl, time.monotonic() + ttl),
    )


def sign_in(cursor: apsw.Cursor, me: str, ttl: float) -> None:
    """Have the line of a process up to date before it takes hold of a run, and drop those of the dead."""
    keep_alive(cursor, me, ttl)
    cursor.execute(
        "SELECT owner, until, ticks FROM owners WHERE owner <> ? "
        "AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.owner = owners.owner)",
        (me,),
    )
    lines = cast("list[tuple[str, float, float]]", cursor.fetchall())
    # By the clock that the line is good by: a living process whose line is gone would have its next run stolen.
    cursor.executemany("DELETE FROM owners WHERE owner = ?", [line[:1] for line in lines if not _may_live(*line)])


def _may_live(name: str, until: float, ticks: float) -> bool:
    """Whether a process may be alive, as far as its name and its line tell."""
    if owner.is_dead(name):
        return False
    return ticks > time.monotonic() if owner.same_clock(name) else until > time.time()


def ask_to_cancel(cursor: apsw.Cursor, key: int) -> None:
    """Leave a request to cancel a run, for its owner to find at the next heartbeat."""
    cursor.execute("UPDATE runs SET cancel = 1 WHERE key = ?", (key,))


def asked_to_cancel(cursor: apsw.Cursor, me: str) -> list[int]:
    """The keys of the runs of an owner that somebody asked to cancel."""
    cursor.execute("SELECT key FROM runs WHERE owner = ? AND cancel <> 0", (me,))
    return [cast("int", key) for (key,) in cursor]


# ----------------------------------------------------------------------------------------------------------------- runs


def find(cursor: apsw.Cursor, store: str, run_id: str) -> Row:
    """The run of that id.

    Raises:
        RunNotFound: there is none.
    """
    for row in _rows(cursor.execute(f"{_RUN} WHERE r.run_id = ?", (run_id,)), store):
        return row
    raise rules.not_found(store, run_id)


def next_seq(cursor: apsw.Cursor, row: Row) -> int:
    """The number that the next record of a run will have."""
    for (seq,) in cursor.execute(_LAST, (row.key * NUMBERS,)):
        return cast("int", seq) + 1
    return row.parent_seq + 1


def info(cursor: apsw.Cursor, row: Row, *, held: bool) -> RunInfo:
    """What a run's line tells; `running` with nobody behind it is `interrupted`."""
    return RunInfo(
        run_id=row.run_id,
        graph=row.graph,
        status="interrupted" if row.status == "running" and not held else row.status,
        epoch=row.epoch,
        next_seq=next_seq(cursor, row),
        owner=row.owner,
        lease_until=row.until,
        created=row.created,
        updated=row.updated,
        parent=row.parent,
        parent_seq=row.parent_seq,
        format=row.format,
    )


def listed(connection: apsw.Connection, store: str, query: Query, is_held: Callable[[Row], bool]) -> list[RunInfo]:
    """The runs that fit, the newest first."""
    graph, statuses, limit = query
    stored = {"running" if status == "interrupted" else status for status in statuses}
    where: list[str] = []
    if graph is not None:
        where.append("r.graph = :graph")
    if stored:
        where.append("r.status IN (SELECT value FROM json_each(:statuses))")
        if "completed" not in stored:
            # So that the index of unfinished runs can serve, which stays small in a store of any size.
            where.append("r.status <> 'completed'")
    sql = _RUN + (" WHERE " + " AND ".join(where) if where else "") + " ORDER BY r.key DESC"
    found: list[RunInfo] = []
    cursor = connection.cursor()
    values = {"graph": graph, "statuses": _json_list(stored)}
    for row in _rows(connection.cursor().execute(sql, values), store):
        if limit is not None and len(found) >= limit:
            break
        run = info(cursor, row, held=is_held(row))
        if not statuses or run.status in statuses:
            found.append(run)
    return found


def claim(cursor: apsw.Cursor, store: str, row: Row, me: str) -> tuple[Grip, int]:
    """Make `me` the owner of a run that nobody holds; what is needed to hold it, and its next number."""
    seq = next_seq(cursor, row)
    cursor.execute(
        "UPDATE runs SET epoch = epoch + 1, owner = ?, status = 'running', cancel = 0, known = max(known, ?), "
        "updated = ? WHERE key = ?",
        (me, seq, time.time(), row.key),
    )
    return Grip(store, row.run_id, row.key, row.epoch + 1, crc32(row.run_id.encode())), seq


def release(cursor: apsw.Cursor, key: int, epoch: int, seq: int) -> None:
    """Let go of a run, if that epoch still holds it."""
    cursor.execute(
        "UPDATE runs SET owner = NULL, cancel = 0, known = max(known, ?) WHERE key = ? AND epoch = ?", (seq, key, epoch)
    )


def delete(cursor: apsw.Cursor, store: str, row: Row) -> None:
    """Remove a run that nobody holds, its rows first: an id is free when nothing of its run is left.

    Raises:
        RunConflict: another run shares its records.
    """
    cursor.execute("SELECT run_id FROM runs WHERE parent = ? ORDER BY run_id", (row.key,))
    children = [cast("str", child) for (child,) in cursor]
    if children:
        raise rules.shared(store, row.run_id, children)
    span = (row.key * NUMBERS,)
    cursor.execute("DELETE FROM records WHERE id BETWEEN ?1 AND ?1 + 0xffffffff", span)
    cursor.execute("DELETE FROM snapshots WHERE id BETWEEN ?1 AND ?1 + 0xffffffff", span)
    cursor.execute("DELETE FROM runs WHERE key = ?", (row.key,))


def _rows(cursor: Any, store: str) -> Iterator[Row]:
    for line in cursor:
        row = Row(*line)
        if row.status not in _STATUSES:
            raise StoreError(f"the line of run `{row.run_id}` in {store} is damaged; restore the store from a backup")
        yield row


def _json_list(values: Iterable[str]) -> str:
    return "[" + ",".join(f'"{value}"' for value in sorted(values)) + "]"
