"""What is simulated: graphs and trouble drawn by a seed, and how the end is held against an undisturbed run."""

from __future__ import annotations

import json
import random
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_args

from flowagent import Graph, Run
from flowagent.core.loops import run_blocking
from flowagent.core.policies import OnFailure
from flowagent.stores import EncryptedStore, MemoryStore, SQLiteStore, Store
from tests.kill.checks import Reference
from tests.kill.effects import Subject, routers_of
from tests.kill.graphs import SUBJECTS
from tests.simulation.alone import ALONE
from tests.simulation.generated import generated
from tests.simulation.life import RUN, Life, Options, Tally
from tests.simulation.loop import Order
from tests.simulation.store import Weather
from tests.simulation.trouble import drawn

NAMED: Final = {**SUBJECTS, "alone": ALONE}
"""The eight graphs that are killed, and one whose nodes must be told what they are, which nobody does there."""
TROUBLED: Final = 6
"""So many processes at most have trouble; those after them have none."""
MOST: Final = 40
"""So many processes must be enough."""
MEMORY: Final = Path("/dev/shm")
"""A place in memory for files, where there is one: no disk is to be waited for."""


@dataclass(frozen=True, slots=True)
class Undisturbed:
    """A run to which nothing happened."""

    run: Run[Any]
    reference: Reference


def undisturbed(subject: Subject) -> Undisturbed | None:
    """Run a graph with no trouble at all; None if it takes too long."""
    life = Life(subject, MemoryStore(), random.Random(0), None)
    while not life.process(Options(on_failure="continue")):
        if life.status() == "limit" or life.tally.processes == MOST:
            return None
    run, journal = life.finished()
    assert not life.ledger.faults, life.ledger.faults
    routers = frozenset(name for graph in _graphs(subject.graph) for name in routers_of(graph))
    reference = Reference(
        store=Path(),
        neighbour=journal,
        journal=journal,
        calls=[f"{call} {RUN}" for call in life.witness.calls],
        seconds=0.0,
        routers=routers,
        once=frozenset(subject.results),
    )
    return Undisturbed(run, reference)


def _graphs(graph: Any) -> list[Any]:
    inner = [getattr(node, "child", getattr(node, "body", None)) for node in graph.nodes.values()]
    return [graph, *(one for child in inner if isinstance(child, Graph) for one in _graphs(child))]


_KNOWN: dict[str, Undisturbed] = {}


def drawn_subject(chance: random.Random) -> tuple[Subject, Undisturbed]:
    """One of the nine graphs, or a generated one."""
    if chance.random() < 0.4:
        name = chance.choice(list(NAMED))
        return NAMED[name], known(name)
    while True:
        subject = generated(chance)
        found = undisturbed(subject)
        if found is not None:
            return subject, found


def known(name: str) -> Undisturbed:
    """The undisturbed run of one of the nine graphs."""
    if name not in _KNOWN:
        found = undisturbed(NAMED[name])
        assert found is not None, "none of the nine takes too long"
        _KNOWN[name] = found
    return _KNOWN[name]


def played(seed: int) -> Tally:
    """What comes of one seed."""
    chance = random.Random(seed)
    subject, found = drawn_subject(chance)
    with tempfile.TemporaryDirectory(prefix="flowagent-sim-", dir=MEMORY if MEMORY.is_dir() else None) as folder:
        inner = _drawn_store(chance, Path(folder))
        options = [_drawn_options(chance) for _ in range(chance.randrange(1, TROUBLED + 1))]
        tally = go(Life(subject, inner, chance, found.reference), found, options)
        run_blocking(inner.close())
    tally.faults = [f"seed {seed} (python -m tests.simulation --seed {seed}): {fault}" for fault in tally.faults]
    return tally


def _drawn_store(chance: random.Random, folder: Path) -> Store:
    store = SQLiteStore(folder / "runs.db") if chance.random() < 0.25 else MemoryStore()
    return EncryptedStore(store, [bytes(32)]) if chance.random() < 0.1 else store


def _drawn_options(chance: random.Random) -> Options:
    return Options(
        order=chance.choice(get_args(Order)),
        own_loop=chance.random() < 0.5,
        on_failure=chance.choice(get_args(OnFailure)),
        durability=chance.choice(("step", "step", "fast", "exit")),
        weather=_drawn_weather(chance),
        trouble=drawn(chance),
    )


def _drawn_weather(chance: random.Random) -> Weather:
    if chance.random() < 0.4:
        return Weather(slow=0.5)
    failing, taken, held = (chance.choice((0.0, 0.02, 0.1)) for _ in range(3))
    return Weather(failing, taken, held, slow=chance.random(), longest=chance.choice((0.002, 0.05)))


def go(life: Life, found: Undisturbed, options: Sequence[Options]) -> Tally:
    """Advance a run by processes of which the first are as said, and hold its end against an undisturbed run's."""
    faults = life.ledger.faults
    for number in range(MOST):
        trouble = options[number] if number < len(options) else Options(on_failure="continue")
        if life.process(trouble) or faults:
            break
    else:
        faults.append(f"{MOST} processes were not enough")
    if not faults:
        run, journal = life.finished()
        if run.state != found.run.state:
            faults.append(f"the state is {run.state!r}, not {found.run.state!r}")
        if journal.needs != found.reference.journal.needs:
            faults.append(f"the parents are {journal.needs}, not {found.reference.journal.needs}")
        done, should = _steps(run), _steps(found.run)
        faults += [f"the history has, and should not: {step}" for step in (done - should).elements()]
        faults += [f"the history lacks: {step}" for step in (should - done).elements()]
    return life.told()


def _steps(run: Run[Any]) -> Counter[str]:
    """What was done, but for when, in which order and at which attempt."""
    return Counter(
        json.dumps([step.kind, step.task, _sorted(step.writes), step.to], sort_keys=True)
        for step in run.history
        if step.kind in ("done", "item", "opened", "resolved")
    )


def _sorted(writes: Any) -> Any:
    """Writes with the members of the one set of the generated state in order."""
    return {
        name: (kind, [sorted(value) if name == "seen" else value for value in values])
        for name, (kind, values) in writes.items()
    }
