"""Which database files this process has open: one `Database` for each, whatever number of stores name it."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from typing import Final

from flowagent.stores.sqlite_database import Database
from flowagent.stores.sqlite_file import Place


class _Shared:
    """The databases of this process that somebody uses."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._databases: weakref.WeakValueDictionary[tuple[str, str | None], Database] = weakref.WeakValueDictionary()

    def get(self, place: Place, ttl: float) -> Database:
        with self._lock:
            key = (str(place.path), place.vfs)
            database = self._databases.get(key)
            if database is None or database.pid != os.getpid():
                self._databases[key] = database = Database(place, ttl)
            else:
                database.stretch(place.busy_timeout, ttl)
            return database

    def leave(self) -> None:
        for database in list(self._databases.values()):
            database.leave()

    def after_fork(self) -> None:
        databases = list(self._databases.values())
        # A thread of the parent's may have held the lock: it does not exist here.
        self._lock = threading.Lock()
        self._databases = weakref.WeakValueDictionary()
        for database in databases:
            database.abandon()


_SHARED: Final = _Shared()
atexit.register(_SHARED.leave)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_SHARED.after_fork)


def shared(place: Place, ttl: float) -> Database:
    """The database of that path in this process. Asked for with several times to wait, it keeps to the longest."""
    return _SHARED.get(place, ttl)
