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

from flowagent.core.records import FORMAT, RunInfo, Status
from flowagent.stores import owner, rules
from flowagent.stores.sqlite_schema import line_sum

NUMBERS: Final = 1 << 32
"""How many numbers a run has: a record's id is `key * NUMBERS + seq`."""

NO_RUN: Final = 0
"""A key that no run has: what a released lease points to."""

_STATUSES: Final = frozenset(get_args(Status))

_LAST_NUMBER: Final = (
    "SELECT id & 0xffffffff FROM records WHERE id BETWEEN ?1 AND ?1 + 0xffffffff ORDER BY id DESC LIMIT 1"
)

_RUN: Final = """
    SELECT r.key, r.run_id, r.graph, r.status, r.epoch, r.owner, r.known, r.created, r.updated, p.run_id, r.parent,
        r.parent_seq, r.format, r.sum, ifnull(o.until, 0.0), ifnull(o.ticks, 0.0)
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
    sum: int
    until: float
    ticks: float

    def is_whole(self) -> bool:
        """Whether its checksum fits; then its values have the types that they should have, too."""
        if type(self.format) is int and self.format > FORMAT:
            return True  # How a newer version seals it is not known here; whoever wants to use it is told of that.
        line = (self.run_id, self.graph, self.status, self.epoch, self.known, self.created, self.updated)
        return self.sum == line_sum(*line, self.parent_key, self.parent_seq, self.format)

    def is_held(self) -> bool:
        """Whether a process that may be alive holds it."""
        return self.owner is not None and _may_live(self.owner, self.until, self.ticks)


class Grip(NamedTuple):
    """What an owner must know to write to a run: `crc` is its `run_sum`, where the checksums of its rows start."""

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


def run_sum(key: int, run_id: str) -> int:
    """Where the checksums of a run's rows start. Keys begin at random: a row of another file's run does not fit."""
    return crc32(f"{key}/{run_id}".encode())


def record_sum(crc: int, seq: int, epoch: int, kind: str, data: bytes) -> int:
    """The checksum of a record: it fails for other bytes, and for the right bytes in another place."""
    return crc32(data, crc32(f"/{seq}/{epoch}/{kind}/".encode(), crc))


def is_whole(total: object, crc: int, seq: int, epoch: int, kind: str, data: object) -> bool:
    """Whether the checksum of a stored record fits it."""
    # Columns have their types by what is written through SQLite, not by what a bad disk makes of it.
    # (`record_sum`, written out: this is asked of every record that is read.)
    return type(data) is bytes and total == crc32(data, crc32(f"/{seq}/{epoch}/{kind}/".encode(), crc))


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
        "AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.owner = owners.owner AND status <> 'completed')",
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
    cursor.execute("SELECT key FROM runs WHERE owner = ? AND cancel <> 0 AND status <> 'completed'", (me,))
    return [cast("int", key) for (key,) in cursor]


# ----------------------------------------------------------------------------------------------------------------- runs


def find(cursor: apsw.Cursor, store: str, run_id: str) -> Row:
    """The run of that id.

    Raises:
        RunNotFound: there is none.
        StoreError: its line is damaged.
    """
    for row in _rows(cursor.execute(f"{_RUN} WHERE r.run_id = ?", (run_id,)), store):
        if row.run_id != run_id:  # The index that led here is damaged.
            raise rules.damaged_line(store, run_id)
        return row
    raise rules.not_found(store, run_id)


def info(row: Row, seq: int, *, held: bool) -> RunInfo:
    """What a run's line tells, and its next number; `running` with nobody behind it is `interrupted`."""
    return RunInfo(
        run_id=row.run_id,
        graph=row.graph,
        status="interrupted" if row.status == "running" and not held else row.status,
        epoch=row.epoch,
        next_seq=seq,
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
        # Taken as it is: one damaged run must not keep the others from being listed.
        last = last_number(cursor, row.key)
        run = info(row, (row.parent_seq if last is None else last) + 1, held=is_held(row))
        if not statuses or run.status in statuses:
            found.append(run)
    return found


def last_number(cursor: apsw.Cursor, key: int) -> int | None:
    """The number of the last record that a run has of its own, or None."""
    return cast("int | None", cursor.execute(_LAST_NUMBER, (key * NUMBERS,)).get)


def claim(cursor: apsw.Cursor, store: str, row: Row, seq: int, me: str) -> Grip:
    """Make `me` the owner of a run that nobody holds, whose next number is `seq`; what is needed to hold it."""
    cursor.execute(
        "UPDATE runs SET epoch = epoch + 1, owner = ?1, status = 'running', cancel = 0, known = ?2, updated = ?3, "
        "sum = line_sum(run_id, graph, 'running', epoch + 1, ?2, created, ?3, parent, parent_seq, format) "
        "WHERE key = ?4",
        (me, seq, time.time(), row.key),
    )
    return Grip(store, row.run_id, row.key, row.epoch + 1, run_sum(row.key, row.run_id))


def release(cursor: apsw.Cursor, key: int, epoch: int, seq: int) -> None:
    """Let go of a run, if that epoch still holds it."""
    cursor.execute(
        "UPDATE runs SET owner = NULL, cancel = 0, known = max(known, ?1), sum = line_sum(run_id, graph, status, "
        "epoch, max(known, ?1), created, updated, parent, parent_seq, format) WHERE key = ?2 AND epoch = ?3",
        (seq, key, epoch),
    )


def lost(cursor: apsw.Cursor, grip: Grip) -> Exception:
    """Why a run cannot be written to any more."""
    if grip.key == NO_RUN:
        return rules.taken_over(grip.store, grip.run_id, grip.epoch, "it was released")
    for epoch, holder in cursor.execute("SELECT epoch, owner FROM runs WHERE key = ?", (grip.key,)):
        by = f", held by {owner.describe(cast('str', holder))}" if holder else ""
        return rules.taken_over(grip.store, grip.run_id, grip.epoch, f"it is {epoch} now{by}")
    return rules.taken_over(grip.store, grip.run_id, grip.epoch, "the run was deleted")


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
    try:
        for line in cursor:
            row = Row(*line)
            if row.status not in _STATUSES or not row.is_whole():
                raise rules.damaged_line(store, row.run_id)
            yield row
    except UnicodeDecodeError as error:
        raise rules.damaged_line(store, "(its text is not UTF-8)") from error


def _json_list(values: Iterable[str]) -> str:
    return "[" + ",".join(f'"{value}"' for value in sorted(values)) + "]"
