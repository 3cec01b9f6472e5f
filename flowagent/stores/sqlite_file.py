"""Opening a SQLite file: what is refused, how it is set up, and how SQLite's errors are told.

Nothing is written to a file before it is known to be ours or empty.
"""

# pyright: reportUnknownMemberType=false
# (apsw's stubs name `collections.abc.Buffer`, which Python 3.11 does not have.)
from __future__ import annotations

import contextlib
import functools
import os
import stat
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import apsw

from flowagent.errors import StoreError
from flowagent.stores import sqlite_schema

_HEADER: Final = b"SQLite format 3\0"

_HEADER_SIZE: Final = 100

_MARK: Final = slice(68, 72)
"""Where in the header the application id stands: https://sqlite.org/fileformat2.html"""

_JOURNAL: Final = bytes.fromhex("d9d505f920a163d7")

_NETWORK: Final = {
    "9p",
    "afs",
    "beegfs",
    "ceph",
    "cifs",
    "glusterfs",
    "gpfs",
    "lustre",
    "ncpfs",
    "nfs",
    "nfs4",
    "smb2",
    "smb3",
    "smbfs",
} | {f"fuse.{name}" for name in ("ceph", "gcsfuse", "glusterfs", "rclone", "s3fs", "sshfs")}

_MOUNTS: Final = Path("/proc/self/mountinfo")

_LOG_PAGES: Final = 400
"""How long the log gets before it is moved into the file: 1.6 MiB. Whoever opens the file after a crash has to read and
sum all of it first, which takes 1 ms, and for SQLite's default of 1000 pages 2.5; each move costs two flushes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A database file and how to open it.

    Args:
        path: the file, all links followed.
        label: what to call its store in messages.
        busy_timeout: how long to wait for another process's write, in seconds.
        vfs: the SQLite file layer to go through; None is the system's.
    """

    path: Path
    label: str
    busy_timeout: float
    vfs: str | None


def open_writer(place: Place, *, make: bool) -> apsw.Connection:
    """Open the file for writing; `make` it if there is none.

    Raises:
        StoreError: it is not ours, damaged, newer, read-only, or where SQLite is not safe; it was not touched.
    """
    _check_library()
    with telling(place):
        _check_place(place)
        if make:
            _make(place)
        elif is_absent(place):
            raise _refused(place, "is gone: it was removed while it was in use, and what it held with it")
        empty = _is_empty(place)
        connection = apsw.Connection(str(place.path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=place.vfs)
        try:
            if connection.readonly("main"):
                raise _refused(place, "is read-only; make it and its directory writable, or use another path")
            _configure(connection, place)
            _refuse_newer(place, sqlite_schema.stored(connection))
            connection.create_scalar_function("line_sum", sqlite_schema.line_sum)
            _set_up(connection, place, empty=empty)
            sqlite_schema.migrate(connection)
        except BaseException:
            close(connection)
            raise
    return connection


def open_reader(place: Place) -> apsw.Connection | None:
    """Open the file for reading alone; None when there is nothing in it yet.

    Raises:
        StoreError: it is not ours, damaged or newer.
    """
    _check_library()
    with telling(place):
        if is_absent(place):
            return None
        _check_file(place, writing=False)
        if _is_empty(place):
            return None
        # Not SQLITE_OPEN_READONLY: the last such connection to close could not remove the log, and would leave it.
        connection = apsw.Connection(str(place.path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=place.vfs)
        try:
            _configure(connection, place)
            _refuse_newer(place, sqlite_schema.stored(connection))
            connection.pragma("query_only", "ON")
            # Only the one connection that writes may also checkpoint.
            connection.wal_autocheckpoint(0)
        except BaseException:
            close(connection)
            raise
    return connection


def close(connection: apsw.Connection) -> None:
    """Close a connection whatever the disk says: what was committed is safe, and the rest is not to be kept."""
    with contextlib.suppress(apsw.Error):
        connection.close(True)


class telling:  # noqa: N801 - reads as a word in `with telling(place):`
    """Turns the errors of SQLite and the system into `StoreError`s that name the store, cause and remedy."""

    __slots__ = ("_place",)

    def __init__(self, place: Place) -> None:
        self._place = place

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, apsw.Error):
            raise told(self._place, error)
        if isinstance(error, OSError):
            raise _refused(self._place, f"cannot be reached: {error.strerror}; use a path that you may use") from error


def is_absent(place: Place) -> bool:
    """Whether there is no file; one that we may not look at is not absent."""
    try:
        place.path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def identity(path: str) -> tuple[int, int] | None:
    """Which file has that path now."""
    try:
        status = os.stat(path)  # noqa: PTH116 - asked at every commit, and Path.stat costs twice as much
    except OSError:
        return None
    return status.st_dev, status.st_ino


def told(place: Place, error: apsw.Error) -> StoreError:
    """The `StoreError` for an error of SQLite."""
    teller = StoreError(f"{place.label} {_cause(place, error)} (SQLite: {error})")
    teller.__cause__ = error
    return teller


def _cause(place: Place, error: apsw.Error) -> str:
    match error:
        case apsw.BusyError() | apsw.LockedError() | apsw.ProtocolError():
            return (
                f"stayed locked by another process for {place.busy_timeout:g} s; find what keeps a transaction open "
                "on it, or raise busy_timeout="
            )
        case apsw.FullError():
            return "could not save: the disk is full; free some space and go on"
        case apsw.IOError():
            return "could not save or load: the disk reported an error; check the disk and its free space, and go on"
        case apsw.CorruptError() | apsw.NotADBError():
            return "is damaged; restore it from a backup, or rescue what is left with `sqlite3 FILE .recover`"
        case apsw.ReadOnlyError() | apsw.PermissionsError() | apsw.CantOpenError():
            return (
                "cannot be opened; its file and directory must be writable, for the files that SQLite keeps beside it"
            )
        case apsw.NoMemError():
            return "could not save or load: the system has no memory left; free some memory and go on"
        case apsw.TooBigError():
            return "cannot keep a record of over 1 GB; keep large data elsewhere and store where it is"
        case _:
            return "could not save or load; nothing is known to be wrong with the file, so make the call again"


def _refused(place: Place, why: str) -> StoreError:
    return StoreError(f"{place.label} cannot be used: `{place.path}` {why}")


def _check_library() -> None:
    version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    fixed = version >= (3, 51, 3) or (3, 50, 7) <= version < (3, 51) or (3, 44, 6) <= version < (3, 45)
    if not fixed:
        raise StoreError(
            f"SQLite {apsw.sqlite_lib_version()} can lose commits when two connections write at once (its WAL-reset "
            "bug, fixed in 3.51.3); install a newer one with `pip install -U apsw`"
        )


def _check_place(place: Place) -> None:
    directory = place.path.parent
    if not is_absent(place):
        _check_file(place, writing=True)
    elif not directory.is_dir():
        return  # To be made, or told about when that fails.
    if not os.access(directory, os.W_OK | os.X_OK):
        raise _refused(place, "is in a directory that cannot be written to; SQLite keeps files of its own beside it")
    kind = _file_system(_MOUNTS, directory, directory.stat().st_dev)
    if kind in _NETWORK:
        raise _refused(
            place, f"is on a network file system ({kind}), where SQLite's locks do not hold; use a local disk"
        )


def _check_file(place: Place, *, writing: bool) -> None:
    if place.path.is_dir():
        raise _refused(place, "is a directory; give the path of a file in it, such as `runs.db`")
    if not stat.S_ISREG(place.path.stat().st_mode):
        raise _refused(place, "is not a regular file; give the path of a file on a local disk")
    if writing and not os.access(place.path, os.W_OK):
        raise _refused(place, "is read-only; make it writable, or use another path")


@functools.lru_cache(maxsize=64)
def _file_system(mounts: Path, directory: Path, _device: int) -> str | None:
    """The kind of file system a directory is on, where the system tells; asked again when its device is another."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    found: tuple[int, str] = (-1, "")
    for line in lines:
        left, _, right = line.partition(" - ")
        point = left.split(" ")[4].replace("\\040", " ")
        # The longest mount point wins, and of two on one point the later one.
        if len(point) >= found[0] and f"{directory}/".startswith(point.rstrip("/") + "/"):
            found = (len(point), right.split(" ")[0])
    return found[1] or None


def _make(place: Place) -> None:
    """Make the file, for its owner's eyes only, and the directories it is in."""
    missing = [parent for parent in place.path.parents if not parent.exists()]
    try:
        for directory in reversed(missing):
            directory.mkdir(mode=0o700, exist_ok=True)
            _sync_directory(directory.parent)
        os.close(os.open(place.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        _sync_directory(place.path.parent)
    except FileExistsError:
        return


def _sync_directory(directory: Path) -> None:
    """Make a new name in a directory survive a power cut."""
    if sys.platform == "win32":
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _header(place: Place) -> bytes:
    """The start of a file, nothing if it has no bytes; one with bytes that are not SQLite's is refused."""
    with place.path.open("rb") as file:
        header = file.read(_HEADER_SIZE)
    # Of a file that was being made when the power failed, the start may not have reached the disk: it is zeros then.
    is_unwritten = not any(header[: len(_HEADER)]) and _was_being_made(place)
    if header and not header.startswith(_HEADER) and not is_unwritten:
        raise _refused(place, "is not a SQLite database; use another path")
    return header


def _is_empty(place: Place) -> bool:
    """Whether a database has nothing in it; one with something in it that is not ours is refused."""
    header = _header(place)
    if not header:
        return True
    if header[_MARK] == sqlite_schema.APPLICATION_ID.to_bytes(4, "big"):
        # Ours for good, and so it has tables. It may be opened at once: to look into it first would have SQLite go
        # through the whole log twice, if whoever wrote to it last was killed.
        return False
    try:
        # Read-only in earnest, so that nothing is mended in a file that is not ours.
        return _looked_into(place, apsw.SQLITE_OPEN_READONLY)
    except apsw.ReadOnlyError:
        if not _was_being_made(place):
            raise
        # Whoever made it was killed meanwhile. What it had begun is taken back, and then there is no table in it.
        return _looked_into(place, apsw.SQLITE_OPEN_READWRITE)


def _looked_into(place: Place, flags: int) -> bool:
    connection = apsw.Connection(str(place.path), flags=flags, vfs=place.vfs)
    try:
        connection.set_busy_timeout(int(place.busy_timeout * 1000))
        return _inspect(connection, place)
    finally:
        close(connection)


def _was_being_made(place: Place) -> bool:
    """Whether a transaction was cut off before which the file had no table: at most the one page that lists them.

    Or before its journal had as much as its first word whole: then there is nothing in it that could be taken back.
    """
    try:
        with Path(f"{place.path}-journal").open("rb") as journal:
            header = journal.read(20)
    except OSError:
        return False
    # Magic number, number of records, a nonce, and how many pages the file had: https://sqlite.org/fileformat2.html
    return not header.startswith(_JOURNAL) or int.from_bytes(header[16:20], "big") <= 1


def _inspect(connection: apsw.Connection, place: Place) -> bool:
    # In one transaction: another process may be making the file just now.
    connection.execute("BEGIN")
    try:
        mark = connection.pragma("application_id")
        tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
        version = sqlite_schema.stored(connection)
    finally:
        if connection.in_transaction:  # An error may have ended it, and is the one to tell.
            connection.execute("COMMIT")
    if mark == 0 and tables == 0 and version == 0:
        return True  # Somebody, perhaps we, was interrupted before the first table was made.
    if mark != sqlite_schema.APPLICATION_ID:
        raise _refused(place, "is the database of another program; use another path")
    _refuse_newer(place, version)
    return False


def _refuse_newer(place: Place, version: int) -> None:
    if version > sqlite_schema.newest():
        raise _refused(
            place,
            f"was written by a newer flowagent (format {version}, this one knows {sqlite_schema.newest()}); "
            "upgrade flowagent",
        )


def _configure(connection: apsw.Connection, place: Place) -> None:
    """What holds for every connection, and is kept in none of the file's bytes."""
    connection.set_busy_timeout(int(place.busy_timeout * 1000))
    for name, value in (
        ("foreign_keys", "ON"),
        ("temp_store", "MEMORY"),
        ("cache_size", -16000),
        ("cell_size_check", "ON"),
        ("trusted_schema", "OFF"),
    ):
        connection.pragma(name, value)


def _set_up(connection: apsw.Connection, place: Place, *, empty: bool) -> None:
    """What holds for the connection that writes."""
    if empty:
        # Must come before anything is written, the switch to WAL included.
        connection.pragma("auto_vacuum", "INCREMENTAL")
    mode = _switch_to_wal(connection, place)
    if mode != "wal":
        raise _refused(place, f"cannot be kept in WAL mode (SQLite says `{mode}`); use a local disk")
    connection.pragma("synchronous", "FULL")
    connection.pragma("journal_size_limit", 16 * 1024 * 1024)
    connection.wal_autocheckpoint(_LOG_PAGES)
    if sys.platform == "darwin":
        # There, a plain fsync leaves the bytes in the drive's cache.
        connection.pragma("fullfsync", "ON")
        connection.pragma("checkpoint_fullfsync", "ON")


def _switch_to_wal(connection: apsw.Connection, place: Place) -> str:
    # SQLite does not wait for locks while it switches, so two processes that make one file together must.
    deadline = time.monotonic() + place.busy_timeout
    while True:
        try:
            return str(connection.pragma("journal_mode", "WAL"))
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.005)
