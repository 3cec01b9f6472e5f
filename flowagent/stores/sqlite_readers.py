"""The connections of one process that only read one database file, each on a thread, each in one view of the file."""

# pyright: reportUnknownMemberType=false
# (apsw's stubs name `collections.abc.Buffer`, which Python 3.11 does not have.)
from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

import apsw

from flowagent.errors import StoreError
from flowagent.stores import sqlite_file, sqlite_schema
from flowagent.stores.sqlite_file import Place, identity
from flowagent.stores.threads import Call, Threads

T = TypeVar("T")

_MOST: Final = 4


class Read(NamedTuple, Generic[T]):
    """Something to be read.

    Args:
        work: called inside a transaction.
        absent: called instead when there is no file yet. (Reading makes none.)
        outdated: called when the file has an older format; brings it up to date.
    """

    work: Callable[[apsw.Connection], T]
    absent: Callable[[], T]
    outdated: Callable[[], None]


class Readers:
    """A few connections that only read, opened when they are needed.

    Args:
        place: the file.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._path = str(place.path)
        self._threads = Threads("flowagent-reader", most=_MOST)
        self._idle: list[tuple[object, apsw.Connection]] = []
        self._closings = 0

    async def read(self, read: Read[T]) -> T:
        """What `read.work` gives on a connection, on a thread.

        Raises:
            StoreError: the file could not be read.
        """
        return await self._threads.do(Call(lambda: self.read_here(read)))

    def idle(self) -> Sequence[apsw.Connection]:
        """The connections that nobody reads from now."""
        return [connection for _, connection in self._idle]

    def close(self) -> None:
        """Close what is idle now, and the others when they have been read from."""
        self._threads.stop()
        self._closings += 1
        self._take_idle(mark=None)

    def read_here(self, read: Read[T]) -> T:
        """What `read.work` gives on a connection, on the calling thread.

        Raises:
            StoreError: the file could not be read.
        """
        with self._connected(read) as connection:
            if connection is None:
                return read.absent()
            connection.execute("BEGIN")
            try:
                return read.work(connection)
            finally:
                if connection.in_transaction:  # An error may have ended it, and is the one to tell.
                    connection.execute("ROLLBACK")

    @contextlib.contextmanager
    def _connected(self, read: Read[T]) -> Generator[apsw.Connection | None]:
        # A connection serves as long as its file has that path, and nobody closed the store.
        closings = self._closings
        mark = (identity(self._path), closings)
        connection = self._take_idle(mark) or self._open(read)
        good = True
        try:
            with sqlite_file.telling(self._place):
                yield connection
        except StoreError:
            good = False
            raise
        finally:
            if connection is not None:
                if good and self._closings == closings:
                    self._idle.append((mark, connection))
                else:
                    sqlite_file.close(connection)

    def _take_idle(self, mark: object) -> apsw.Connection | None:
        while True:
            try:
                opened, connection = self._idle.pop()
            except IndexError:
                return None
            if opened == mark:
                return connection
            sqlite_file.close(connection)

    def _open(self, read: Read[T]) -> apsw.Connection | None:
        connection = sqlite_file.open_reader(self._place)
        if connection is None:
            return None
        try:
            with sqlite_file.telling(self._place):
                is_outdated = sqlite_schema.stored(connection) != sqlite_schema.newest()
            if is_outdated:
                read.outdated()
        except StoreError:
            sqlite_file.close(connection)
            raise
        return connection
