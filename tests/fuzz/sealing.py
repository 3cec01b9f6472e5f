"""A store whose runs are encrypted in place, each row as an `EncryptedStore` would have written it."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Sequence
from pathlib import Path

import apsw

from flowagent.stores import EncryptedStore, SQLiteStore
from tests.fuzz.damage import Rows, fit

_NUMBER = 0xFFFFFFFF


def seal(path: Path, keys: Sequence[str]) -> None:
    """Encrypt all runs of a file, by turns with each of the keys, as if they had been changed in between."""
    ciphers = [EncryptedStore(SQLiteStore(path), [key]) for key in keys]
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        connection.execute("BEGIN")
        for (run_id,) in list(connection.execute("SELECT run_id FROM runs")):
            rows = Rows(connection, random.Random(0), str(run_id))
            for at in rows.ids():
                kind = str(connection.execute("SELECT kind FROM records WHERE id = ?", (at,)).get)
                _seal(rows, at, "records", kind, ciphers)
            for at in rows.ids("snapshots"):
                _seal(rows, at, "snapshots", "snapshot", ciphers)
        connection.execute("COMMIT")


def _seal(rows: Rows, at: int, table: str, kind: str, ciphers: Sequence[EncryptedStore]) -> None:
    seq = at & _NUMBER
    cipher = ciphers[seq % len(ciphers)]
    rows.set(at, "data", cipher._closed(rows.run, kind, seq, rows.data(at, table)), table)
    fit(rows, at, table)
