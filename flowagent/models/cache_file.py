"""Answers of models in a SQLite file. It is loaded when a cache in a file is first made, as it imports apsw."""

# pyright: reportUnknownMemberType=false
# (apsw's stubs name `collections.abc.Buffer`, which Python 3.11 does not have.)
from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import apsw

from flowagent.errors import StoreError

ResultT = TypeVar("ResultT")

MARK: Final = 0x666C6361
"""The application id of a file of answers: `flca`."""

VERSION: Final = 1

BUSY_TIMEOUT: Final = 10_000
"""Milliseconds to wait for another process's write."""

# SQLite's own journal and no WAL: one small write an answer needs no more, and there are no further files.
SCHEMA: Final = f"""
CREATE TABLE reply(key TEXT PRIMARY KEY, at REAL NOT NULL, reply TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX reply_by_time ON reply(at);
PRAGMA application_id = {MARK};
PRAGMA user_version = {VERSION};
"""


class ReplyFile:
    """Answers by key, in a SQLite file that several threads and processes may use.

    Args:
        path: the file; it is made when it is first needed, and only its owner can read it.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._lock = threading.Lock()
        self._connection: apsw.Connection | None = None

    async def find(self, key: str, *, since: float) -> str | None:
        """The answer of that key that was kept at `since` or later.

        Raises:
            StoreError: the file could not be read, or is no cache of answers.
        """
        return await asyncio.to_thread(self._work, lambda connection: _find(connection, key, since))

    async def keep(self, key: str, reply: str, *, at: float, since: float) -> None:
        """Keeps an answer, and drops those from before `since`.

        Raises:
            StoreError: the file could not be written, or is no cache of answers.
        """
        await asyncio.to_thread(self._work, lambda connection: _keep(connection, (key, at, reply), since))

    def _work(self, work: Callable[[apsw.Connection], ResultT]) -> ResultT:
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = self._opened()
                return work(self._connection)
            except (apsw.Error, OSError) as error:
                raise StoreError(
                    f"the cache of answers `{self._path}` failed: {error}; "
                    "it can be deleted, and is made anew by the next answer"
                ) from error

    def _opened(self) -> apsw.Connection:
        os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
        connection = apsw.Connection(os.fspath(self._path))
        try:
            connection.set_busy_timeout(BUSY_TIMEOUT)
            self._check(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check(self, connection: apsw.Connection) -> None:
        """Makes the tables in an empty file, and refuses one that is another's."""
        connection.execute("BEGIN IMMEDIATE")  # Two processes may have found it empty.
        try:
            tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
            mark, version = connection.pragma("application_id"), connection.pragma("user_version")
            if (tables, mark) == (0, 0):
                connection.execute(SCHEMA)
            elif (mark, version) != (MARK, VERSION):
                raise StoreError(
                    f"`{self._path}` is another program's database, or a cache of another version of flowagent; "
                    "give a path where there is nothing yet"
                )
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise


def _find(connection: apsw.Connection, key: str, since: float) -> str | None:
    row = connection.execute("SELECT reply FROM reply WHERE key = ? AND at >= ?", (key, since)).fetchone()
    return None if row is None else str(row[0])


def _keep(connection: apsw.Connection, row: tuple[str, float, str], since: float) -> None:
    with connection:
        connection.execute("DELETE FROM reply WHERE at < ?", (since,))
        connection.execute("INSERT OR REPLACE INTO reply(key, at, reply) VALUES (?, ?, ?)", row)
