"""The tables of a SQLite store, and the way from each older format to the present one."""

# pyright: reportUnknownMemberType=false
# (apsw's stubs name `collections.abc.Buffer`, which Python 3.11 does not have.)
from __future__ import annotations

from typing import Final
from zlib import crc32

import apsw

APPLICATION_ID: Final = 0x666C6F77
"""The bytes `flow` in the file's header: how `file`, and we, tell that a database is ours."""

# A record's id is its run's key and its number in one integer. As the rowid it is the cheapest key SQLite has:
# a run's records lie side by side, and one of 1.5 kB takes half the bytes and time that it takes WITHOUT ROWID,
# whose rows above 1 kB spill to a page of their own.
_V1: Final = (
    """CREATE TABLE runs(
        key INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used twice: an old lease must not fit a new run
        run_id TEXT NOT NULL UNIQUE,
        graph TEXT NOT NULL,
        status TEXT NOT NULL,
        epoch INTEGER NOT NULL,
        owner TEXT,
        cancel INTEGER NOT NULL DEFAULT 0,
        known INTEGER NOT NULL,                 -- it has had at least the records below this number
        created REAL NOT NULL,
        updated REAL NOT NULL,
        parent INTEGER REFERENCES runs(key),
        parent_seq INTEGER NOT NULL,
        format INTEGER NOT NULL,
        sum INTEGER NOT NULL                    -- `line_sum` of all but the owner and what he is asked
    ) STRICT""",
    # From a random number on: nor must a lease on a run of a file that was removed fit a run of the next one.
    "INSERT INTO sqlite_sequence VALUES ('runs', abs(random()) % 1073741824)",
    "CREATE INDEX runs_by_graph ON runs(graph)",
    # By owner first, as each heartbeat asks for its own; who asks for a status goes through the few that there are.
    "CREATE INDEX runs_unfinished ON runs(owner, status) WHERE status <> 'completed'",
    "CREATE INDEX runs_forked ON runs(parent) WHERE parent IS NOT NULL",
    # One line for each process, not for each run: a heartbeat costs one row, however many runs it keeps alive.
    """CREATE TABLE owners(
        owner TEXT PRIMARY KEY,
        until REAL NOT NULL,                    -- seconds since 1970
        ticks REAL NOT NULL                     -- the same on the monotonic clock, for processes of the same boot
    ) STRICT, WITHOUT ROWID""",
    """CREATE TABLE records(
        id INTEGER PRIMARY KEY,
        run INTEGER GENERATED ALWAYS AS (id >> 32) VIRTUAL,
        seq INTEGER GENERATED ALWAYS AS (id & 0xffffffff) VIRTUAL,
        epoch INTEGER NOT NULL,
        kind TEXT NOT NULL,
        data BLOB NOT NULL,
        sum INTEGER NOT NULL
    ) STRICT""",
    """CREATE TABLE snapshots(
        id INTEGER PRIMARY KEY,
        run INTEGER GENERATED ALWAYS AS (id >> 32) VIRTUAL,
        seq INTEGER GENERATED ALWAYS AS (id & 0xffffffff) VIRTUAL,
        data BLOB NOT NULL,                     -- packed by zlib where it begins with its `x`
        sum INTEGER NOT NULL
    ) STRICT""",
)

MIGRATIONS: Final[dict[int, tuple[str, ...]]] = {1: _V1}
"""For each format, the statements that make it from the one before; format 0 is an empty file."""


def line_sum(*columns: float | str | None) -> int:
    """The checksum of the line of a run; connections that write know it as a function of SQL.

    Its columns are those that say what the run is and where it stands. Who holds it, and what he is asked, change
    by themselves, and nothing is believed because of them: the epoch tells.
    """
    return crc32(repr(columns).encode())


def newest() -> int:
    """The format that this version writes."""
    return max(MIGRATIONS)


def stored(connection: apsw.Connection) -> int:
    """The format of an open file."""
    return int(connection.pragma("user_version"))


def migrate(connection: apsw.Connection) -> None:
    """Bring a file to the newest format, in one transaction: whole, or not at all.

    Raises:
        apsw.Error: a step failed; the file has the format that it had.
    """
    if stored(connection) == newest():
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Asked again under the lock: another process may have done it in between.
        for version in range(stored(connection) + 1, newest() + 1):
            for statement in MIGRATIONS[version]:
                connection.execute(statement)
            connection.pragma("user_version", version)
        connection.pragma("application_id", APPLICATION_ID)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
