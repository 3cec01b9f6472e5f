"""What can happen to the rows of a store, one thing at a time.

Damage is done by plain SQL (or to the bytes of the file), as no code of flowagent would do it. What a checksum
protects stays as it was, so all of it must be noticed; only what is *forged* gets checksums that fit.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, cast

import apsw

from flowagent.errors import FlowAgentError, RunConflict, RunNotFound, StoreError
from flowagent.stores import sqlite_runs
from flowagent.stores.sqlite_runs import NUMBERS
from tests.fuzz.changes import CHANGES, OF_ANY_BYTES

HUGE: Final = (2**31, 2**32, 2**53 + 1, 2**63 - 1, -(2**63), -1, 0)
_COLUMNS: Final = "id, epoch, kind, data, sum"
_KINDS: Final = (
    *("started", "opened", "done", "item", "failed", "asked", "answered", "memo", "attempted", "resolved", "retried"),
    *("ended", "cancelled", "", "import", "DONE"),
)
_STATUSES: Final = ("running", "waiting", "failed", "cancelled", "limit", "interrupted", "completed", "", "done")


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """What was done.

    Args:
        text: in words.
        run: the run whose rows it hit.
        names: what an error must say one of: the run, and the row where there is one.
        errors: what may be raised because of it.
        harmless: whether nothing may be raised, as what was hit is only a cache.
        lost: the first number that is missing at the end, where nothing tells that there ever was more.
        held: whether it may now seem that a process is advancing the run.
        everywhere: whether other runs may be hit as well.
        forged: whether its checksums fit, so that another state may come of it.
        cached: whether what is forged is a snapshot.
    """

    text: str
    run: str
    names: tuple[str, ...] = ()
    errors: tuple[type[FlowAgentError], ...] = (StoreError,)
    harmless: bool = False
    lost: int | None = None
    held: bool = False
    everywhere: bool = False
    forged: bool = False
    cached: bool = False

    def of_encrypted(self) -> Damage:
        """What the same may do to an encrypted store: nobody without the key makes a row that fits."""
        if not self.forged:
            return self
        return replace(self, forged=False, errors=(StoreError,), harmless=self.cached)


class Rows:
    """The rows of a store, open for damage.

    Args:
        connection: to the file.
        chance: what is drawn.
        run: the run to be hit.
    """

    def __init__(self, connection: apsw.Connection, chance: random.Random, run: str) -> None:
        self.connection = connection
        self.chance = chance
        self.run = run
        self.key, self.known = cast(
            "tuple[int, int]", next(connection.execute("SELECT key, known FROM runs WHERE run_id = ?", (run,)))
        )
        self.base = self.key * NUMBERS

    def ids(self, table: str = "records", key: int | None = None) -> list[int]:
        base = self.base if key is None else key * NUMBERS
        sql = f"SELECT id FROM {table} WHERE id BETWEEN ?1 AND ?1 + 0xffffffff ORDER BY id"
        return [row[0] for row in self.connection.execute(sql, (base,))]

    def other_key(self) -> int:
        keys = [row[0] for row in self.connection.execute("SELECT key FROM runs WHERE key <> ?", (self.key,))]
        return self.chance.choice(keys)

    def data(self, at: int, table: str = "records") -> bytes:
        return cast("bytes", self.connection.execute(f"SELECT data FROM {table} WHERE id = ?", (at,)).get)

    def set(self, at: int, column: str, value: object, table: str = "records") -> None:
        self.connection.execute(f"UPDATE {table} SET {column} = ? WHERE id = ?", (cast("Any", value), at))

    def record(self, text: str, *ids: int, lost: int | None = None) -> Damage:
        names = tuple(f"record {at & 0xFFFFFFFF} of run `{self.run}`" for at in ids)
        return Damage(text=text, run=self.run, names=names, lost=lost)


def _changed(rows: Rows, at: int, table: str) -> str:
    """Change the bytes of a row; what was done."""
    before = rows.data(at, table)
    changes = CHANGES if before.startswith(b"{") else OF_ANY_BYTES
    for _ in range(100):
        change = rows.chance.choice(changes)
        after = change(rows.chance, before)
        if after != before:
            rows.set(at, "data", after, table)
            return f"{table} {at & 0xFFFFFFFF}: {change.__name__[1:]}"
    raise AssertionError("a hundred changes changed nothing")


# -- records -----------------------------------------------------------------------------------------------------------


def content(rows: Rows) -> Damage:
    at = rows.chance.choice(rows.ids())
    return rows.record(_changed(rows, at, "records"), at)


def column(rows: Rows) -> Damage:
    at = rows.chance.choice(rows.ids())
    name = rows.chance.choice(("epoch", "kind", "sum"))
    before = rows.connection.execute(f"SELECT {name} FROM records WHERE id = ?", (at,)).get
    value: object = rows.chance.choice([one for one in (_KINDS if name == "kind" else HUGE) if one != before])
    rows.set(at, name, value)
    return rows.record(f"record {at & 0xFFFFFFFF}: {name} = {value!r}", at)


def not_text(rows: Rows) -> Damage:
    at = rows.chance.choice(rows.ids())
    rows.connection.execute("UPDATE records SET kind = CAST(x'ff00fe' AS TEXT) WHERE id = ?", (at,))
    return rows.record(f"record {at & 0xFFFFFFFF}: kind is no UTF-8", at)


def swap(rows: Rows) -> Damage:
    one, other = sorted(rows.chance.sample(rows.ids(), 2))
    if rows.chance.random() < 0.5:
        for source, target in ((one, rows.base + NUMBERS - 1), (other, one), (rows.base + NUMBERS - 1, other)):
            rows.set(source, "id", target)
        return rows.record(f"records {one & 0xFFFFFFFF} and {other & 0xFFFFFFFF} swapped", one, other)
    data = rows.data(one), rows.data(other)
    rows.set(one, "data", data[1])
    rows.set(other, "data", data[0])
    return rows.record(f"data of records {one & 0xFFFFFFFF} and {other & 0xFFFFFFFF} swapped", one, other)


def duplicate(rows: Rows) -> Damage:
    ids = rows.ids()
    at = rows.chance.choice(ids)
    new = ids[-1] + 1 if rows.chance.random() < 0.7 else rows.chance.choice([one for one in ids if one != at])
    rows.connection.execute(
        f"INSERT OR REPLACE INTO records({_COLUMNS}) SELECT ?, epoch, kind, data, sum FROM records WHERE id = ?",
        (new, at),
    )
    return rows.record(f"record {at & 0xFFFFFFFF} once more as {new & 0xFFFFFFFF}", new)


def foreign(rows: Rows) -> Damage:
    """A record of another run, of the same number where it has one, in the place of one of this run's."""
    at = rows.chance.choice(rows.ids())
    others = rows.ids(key=rows.other_key())
    source = others[min(at - rows.base, len(others) - 1)]
    rows.connection.execute(
        f"INSERT OR REPLACE INTO records({_COLUMNS}) SELECT ?, epoch, kind, data, sum FROM records WHERE id = ?",
        (at, source),
    )
    return rows.record(f"record {at & 0xFFFFFFFF} is another run's", at)


def moved(rows: Rows) -> Damage:
    """All records from some number on are one further; or one is, far away."""
    ids = rows.ids()
    at = rows.chance.choice(ids)
    if rows.chance.random() < 0.5:
        rows.set(at, "id", at + rows.chance.choice((1 << 20, 1 << 31)))
        return Damage(text=f"record {at & 0xFFFFFFFF} is far away", run=rows.run, names=(f"of run `{rows.run}`",))
    for one in reversed([one for one in ids if one >= at]):
        rows.set(one, "id", one + 1)
    text = f"records from {at & 0xFFFFFFFF} on are one further"
    return Damage(text=text, run=rows.run, names=(f"of run `{rows.run}`",))


def deleted(rows: Rows) -> Damage:
    ids = rows.ids()
    first = rows.chance.randrange(len(ids))
    last = first if rows.chance.random() < 0.5 else rows.chance.randrange(first, len(ids))
    for at in ids[first : last + 1]:
        rows.connection.execute("DELETE FROM records WHERE id = ?", (at,))
    at_end = last == len(ids) - 1 and first >= rows.known
    lost = first if at_end and not [one for one in rows.ids("snapshots") if one >= ids[first]] else None
    return rows.record(f"records {first} to {last} deleted", *ids[first : last + 1], lost=lost)


# -- snapshots ---------------------------------------------------------------------------------------------------------


def snapshot(rows: Rows) -> Damage:
    """A snapshot is only a cache: whatever happens to it, the records tell the story."""
    ids = rows.ids("snapshots")
    if not ids:
        return content(rows)
    at = rows.chance.choice(ids)
    match rows.chance.randrange(5):
        case 0:
            rows.connection.execute("DELETE FROM snapshots WHERE id = ?", (at,))
            text = "deleted"
        case 1:
            rows.set(at, "sum", rows.chance.choice(HUGE), "snapshots")
            text = "another sum"
        case 2:
            ahead = rows.chance.choice((1, 5, 100, 1 << 31))
            rows.connection.execute("DELETE FROM snapshots WHERE id = ?", (at + ahead,))
            rows.set(at, "id", at + ahead, "snapshots")
            text = f"moved by {ahead}"
        case 3:
            others = [one for key in [rows.other_key()] for one in rows.ids("snapshots", key)] or ids
            rows.connection.execute(
                "UPDATE snapshots SET (data, sum) = (SELECT data, sum FROM snapshots WHERE id = ?) WHERE id = ?",
                (rows.chance.choice(others), at),
            )
            text = "another's"
        case _:
            text = _changed(rows, at, "snapshots")
    return Damage(text=f"snapshot {at & 0xFFFFFFFF}: {text}", run=rows.run, harmless=True)


# -- lines of runs -----------------------------------------------------------------------------------------------------


def line(rows: Rows) -> Damage:
    """One column of a run's line is another."""
    name = rows.chance.choice(
        ("status", "graph", "epoch", "known", "created", "updated", "parent", "parent_seq", "format", "sum")
    )
    before = rows.connection.execute(f"SELECT {name} FROM runs WHERE key = ?", (rows.key,)).get
    choices: dict[str, Sequence[object]] = {
        "status": _STATUSES,
        "graph": ("loop", "trip", "mail", "case", "quarrel", "", "x"),
        "created": (0.0, -1.0, 1e308, float("inf"), 1.5),
        "updated": (0.0, -1.0, 1e308, float("-inf"), 1.5),
        "parent": (rows.other_key(), rows.key),
        "format": (0, -1, 2, 99, 2**63 - 1),
    }
    near = (before + 1, before - 1) if isinstance(before, int) else ()
    value = rows.chance.choice([one for one in (*choices.get(name, HUGE), *near) if one != before])
    rows.connection.execute(f"UPDATE runs SET {name} = ? WHERE key = ?", (cast("Any", value), rows.key))
    return Damage(text=f"runs: {name} = {value!r} (was {before!r})", run=rows.run, names=(f"`{rows.run}`",))


def renamed(rows: Rows) -> Damage:
    """A run has another's key, or a name of its own; or its line is gone."""
    both = (StoreError, RunNotFound)
    match rows.chance.randrange(4):
        case 0:
            rows.connection.execute("UPDATE runs SET run_id = 'another' WHERE key = ?", (rows.key,))
            text = "renamed"
        case 1:
            rows.connection.execute("DELETE FROM runs WHERE key = ?", (rows.key,))
            text = "its line deleted"
        case 2:
            rows.connection.execute("UPDATE runs SET key = key + 1000 WHERE key = ?", (rows.key,))
            text = "another key"
        case _:
            rows.connection.execute("UPDATE runs SET run_id = CAST(x'ff00' AS TEXT) WHERE key = ?", (rows.key,))
            text = "its name no UTF-8"
    return Damage(text=f"runs: {text}", run=rows.run, names=(f"`{rows.run}`",), errors=both)


def exchanged(rows: Rows) -> Damage:
    """Two runs have each other's names, or keys."""
    other = rows.other_key()
    name = rows.connection.execute("SELECT run_id FROM runs WHERE key = ?", (other,)).get
    if rows.chance.random() < 0.5:
        for key, new in ((rows.key, "between"), (other, rows.run), (rows.key, name)):
            rows.connection.execute("UPDATE runs SET run_id = ? WHERE key = ?", (cast("str", new), key))
        return Damage(text=f"runs: names of {rows.run} and {name} exchanged", run=rows.run, everywhere=True)
    for key, new in ((rows.key, 1), (other, rows.key), (1, other)):
        rows.connection.execute("UPDATE runs SET key = ? WHERE key = ?", (new, key))
    return Damage(text=f"runs: keys of {rows.run} and {name} exchanged", run=rows.run, everywhere=True)


def owner(rows: Rows) -> Damage:
    """Who holds a run is no part of what it is: the worst that can come of it is that nobody may go on with it."""
    names = ("nobody", "x", "/", "a/b/1/2", "a/b/99999999999999999999/2", "boot/ns/-1/0", "\0", "host:x/-/1/-")
    name = rows.chance.choice(names)
    rows.connection.execute(
        "UPDATE runs SET owner = ?, cancel = ? WHERE key = ?", (name, rows.chance.choice(HUGE), rows.key)
    )
    if rows.chance.random() < 0.5:
        rows.connection.execute(
            "INSERT OR REPLACE INTO owners VALUES (?, ?, ?)",
            (name, rows.chance.choice((1e300, 0.0, -1.0, float("inf"))), 1e300),
        )
    errors = (StoreError, RunConflict)
    return Damage(text=f"runs: owner {name!r}", run=rows.run, names=(f"`{rows.run}`",), errors=errors, held=True)


# -- forged ------------------------------------------------------------------------------------------------------------


def forged(rows: Rows) -> Damage:
    """A row that nobody wrote, with a checksum that fits."""
    ids = rows.ids("snapshots")
    table = "snapshots" if ids and rows.chance.random() < 0.4 else "records"
    at = rows.chance.choice(ids if table == "snapshots" else rows.ids())
    if table == "records" and rows.chance.random() < 0.2:
        kind = rows.chance.choice(_KINDS)
        rows.set(at, "kind", kind)
        text = f"record {at & 0xFFFFFFFF}: kind {kind!r}"
    else:
        text = _changed(rows, at, table)
    fit(rows, at, table)
    cached = table == "snapshots"
    return Damage(text=f"forged {text}", run=rows.run, errors=(FlowAgentError,), forged=True, cached=cached)


def fit(rows: Rows, at: int, table: str) -> None:
    """Give a row a checksum that fits."""
    epoch, kind = 0, "snapshot"
    if table == "records":
        epoch, kind = cast(
            "tuple[int, str]", next(rows.connection.execute("SELECT epoch, kind FROM records WHERE id = ?", (at,)))
        )
    start = sqlite_runs.run_sum(rows.key, rows.run)
    rows.set(at, "sum", sqlite_runs.record_sum(start, at & 0xFFFFFFFF, epoch, kind, rows.data(at, table)), table)


# -- the file ----------------------------------------------------------------------------------------------------------


def of_file(path: Path, chance: random.Random, run: str) -> Damage:
    """Bytes of the file are others; nobody can say what that hits, and much of it hits nothing."""
    data = bytearray(path.read_bytes())
    size = 4096
    pages = len(data) // size
    match chance.randrange(6):
        case 0 | 1:
            at = chance.randrange(len(data))
            data[at] ^= 1 << chance.randrange(8)
            text = f"bit flipped in byte {at}"
        case 2:
            for _ in range(20):
                data[chance.randrange(len(data))] = chance.randrange(256)
            text = "20 bytes"
        case 3:
            page = chance.randrange(pages)
            data[page * size : (page + 1) * size] = bytes(size)
            text = f"page {page} zeroed"
        case 4:
            one, other = chance.sample(range(pages), 2)
            data[one * size : (one + 1) * size], data[other * size : (other + 1) * size] = (
                data[other * size : (other + 1) * size],
                data[one * size : (one + 1) * size],
            )
            text = f"pages {one} and {other} swapped"
        case _:
            length = chance.randrange(len(data))
            del data[length:]
            text = f"cut to {length} bytes"
    path.write_bytes(data)
    errors = (StoreError, RunNotFound, RunConflict)
    return Damage(text=f"file: {text}", run=run, errors=errors, everywhere=True)


KINDS: Final[Sequence[Callable[[Rows], Damage]]] = (
    *(content, content, content, column, not_text, swap, duplicate, foreign, moved, deleted, deleted),
    *(snapshot, snapshot, line, line, line, renamed, exchanged, owner, forged, forged, forged),
)
FILE_SHARE: Final = 0.15
"""How often it is the file that is damaged, not a row."""


def done_to(path: Path, chance: random.Random, run: str) -> Damage:
    """Do one thing to a store."""
    if chance.random() < FILE_SHARE:
        return of_file(path, chance, run)
    connection = apsw.Connection(str(path))
    connection.pragma("foreign_keys", False)
    try:
        connection.execute("BEGIN")
        damage = chance.choice(KINDS)(Rows(connection, chance, run))
        connection.execute("COMMIT")
    finally:
        connection.close()
    return damage
