"""Where journals are kept. Import a store from here; SQLite is loaded when its store is first named."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from flowagent.stores.base import Lease, Store
from flowagent.stores.memory import MemoryStore, PrivateStore

if TYPE_CHECKING:
    from flowagent.stores.sqlite import SQLiteStore

__all__ = ["Lease", "MemoryStore", "PrivateStore", "SQLiteStore", "Store", "open_store"]


def open_store(value: Store | str | os.PathLike[str]) -> Store:
    """The store that `store=` names: a store itself, or a path, which means a SQLite file.

    The same path gives the same store again, so that naming it in every call costs nothing.

    Example:
        >>> open_store("runs.db").name
        'SQLite store `runs.db`'
    """
    if not isinstance(value, (str, os.PathLike)):
        if isinstance(value, type) or not hasattr(value, "request_cancel"):
            raise TypeError(f"store= takes a path or a store, such as MemoryStore(), not {value!r}")
        return value
    from flowagent.stores.sqlite import store_at  # noqa: PLC0415 - apsw is loaded when it is first needed

    return store_at(os.fspath(value))


def __getattr__(name: str) -> object:
    if name == "SQLiteStore":
        from flowagent.stores.sqlite import SQLiteStore  # noqa: PLC0415 - as above

        return SQLiteStore
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
