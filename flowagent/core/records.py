"""The lines of a run's journal, and what a store must know of them.

A store sees a record as (number, kind, JSON bytes) and never looks inside. What the JSON of each kind holds is
written and read in `journal.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

FORMAT: Final = 1
"""The version of the record format, written into every run; a store refuses runs of a newer one."""

RecordKind = Literal[
    "started",
    "opened",
    "done",
    "item",
    "failed",
    "asked",
    "answered",
    "memo",
    "attempted",
    "resolved",
    "retried",
    "ended",
]

Status = Literal["running", "waiting", "failed", "cancelled", "limit", "interrupted", "completed"]
"""Where a run stands. A store keeps every one but `interrupted`, which is `running` with no process behind it."""


class Record(NamedTuple):
    """One line of a journal: `seq` counts from 0 without gaps, `data` is a JSON object in UTF-8."""

    seq: int
    kind: RecordKind
    data: bytes


class Snapshot(NamedTuple):
    """The machine's position after record `seq`, as a JSON object in UTF-8. A cache: losing one is harmless."""

    seq: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """What a store knows of a run without reading its journal.

    Args:
        run_id: the run's name, unique in the store.
        graph: the name of the graph.
        status: where it stands; `running` with a dead owner is reported as `interrupted`.
        epoch: how many owners it has had; a writer with an older epoch is refused.
        next_seq: the number that the next record will have.
        owner: who holds it now (see `stores.owner`), or None.
        lease_until: until when, in seconds since 1970.
        created: when it was started, in seconds since 1970.
        updated: when its status last changed, in seconds since 1970.
        parent: the run whose first records this one shares, or None. (For forks.)
        parent_seq: the last record that it shares, or -1.
        format: the version of the record format that it was written in.
    """

    run_id: str
    graph: str
    status: Status
    epoch: int
    next_seq: int
    owner: str | None
    lease_until: float
    created: float
    updated: float
    parent: str | None = None
    parent_seq: int = -1
    format: int = FORMAT


class Past(NamedTuple):
    """What a store keeps of a run, seen at one moment: as much as is needed to go on with it.

    Attributes:
        info: what is known of the run.
        first: its first record, which says how it was started.
        snapshot: the newest one, or None.
        records: those after the snapshot, or after the first record if there is none. Where they are very many, only
            the next ones: a store need not keep others waiting while it reads, and the rest can be read afterwards.
    """

    info: RunInfo
    first: Record
    snapshot: Snapshot | None
    records: list[Record]
