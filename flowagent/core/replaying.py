"""The machine as it was after some of a run's records."""

from __future__ import annotations

from collections.abc import Sequence

from flowagent.core import journal
from flowagent.core.machine import Machine
from flowagent.core.records import Record
from flowagent.core.scope import Task
from flowagent.core.topology import Topology


def begun(topology: Topology, run_id: str, records: Sequence[Record]) -> Machine:
    """The machine as it was after the first record, which holds the input."""
    data = journal.started(run_id, records[0])
    machine = Machine(topology, topology.schema.load(journal.as_json(data["input"])))
    machine.begin()
    return machine


def replayed(topology: Topology, run_id: str, records: Sequence[Record]) -> Machine:
    """The machine as it was after the last of some records."""
    machine = begun(topology, run_id, records)
    journal.replay(machine, run_id, records[1:])
    return machine


def task_of(topology: Topology, run_id: str, records: Sequence[Record], name: str) -> Task | None:
    """A task as it was when it was first known, or None if the run never had it."""
    machine = begun(topology, run_id, records)
    for record in records[1:]:
        if name in machine.tasks:
            break
        journal.replay(machine, run_id, [record])
    return machine.tasks.get(name)
