"""Where journals are kept. Import a store from here; what a store needs is loaded when it is first named."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Final

from flowagent.stores.base import Lease, Store
from flowagent.stores.memory import MemoryStore, PrivateStore

if TYPE_CHECKING:
    from flowagent.stores.encrypted import EncryptedStore, key_id, new_key
    from flowagent.stores.sqlite import SQLiteStore

__all__ = [
    "EncryptedStore",
    "Lease",
    "MemoryStore",
    "PrivateStore",
    "SQLiteStore",
    "Store",
    "key_id",
    "new_key",
    "open_store",
]

# apsw and cryptography are loaded by the first use of a store that needs them (P14).
_LATE: Final = {
    "SQLiteStore": "flowagent.stores.sqlite",
    "EncryptedStore": "flowagent.stores.encrypted",
    "key_id": "flowagent.stores.encrypted",
    "new_key": "flowagent.stores.encrypted",
}


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
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(_LATE[name]), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "cryptography":
            raise
        raise ModuleNotFoundError(
            f"{name} needs the package `cryptography`, which is an extra: pip install 'flowagent[encrypted]'",
            name=error.name,
        ) from error
