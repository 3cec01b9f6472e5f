"""Damages one thing in a store at a time; what is read then is as it was, or an error that names the row.

python -m tests.fuzz rows --rounds 3000 --seed 7
python -m tests.fuzz rows --rounds 1 --seed 7 --from 123      one of its rounds again
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, get_args

import apsw

from flowagent.cli.problems import CommandError
from flowagent.core import forms
from flowagent.core.loops import run_blocking
from flowagent.core.records import RecordKind
from flowagent.errors import FlowAgentError
from flowagent.stores import SQLiteStore, Store
from tests.fuzz import golden
from tests.fuzz.damage import Damage, done_to
from tests.fuzz.facts import Facts, facts_of, history_of, picture_of, shown, state_of
from tests.fuzz.graphs import GRAPHS, RUNS, World, finish
from tests.fuzz.hook import HOOK
from tests.fuzz.sealing import seal
from tests.kill.sealing import OFTEN, Keys, sealed

MENDED: Final = 0.3
"""How often, when going on was refused, the store is mended and the run must then go on as if nothing had been."""
KEY_ENV: Final = "FLOWAGENT_FUZZ_KEYS"
LONGEST: Final = 20.0
"""Seconds within which a round must end: data must not make anybody wait, either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intact:
    """What an intact run gives.

    Args:
        seen: as it stands.
        ended: when it was brought to its end.
        calls: what was called for that.
        history: what its journal tells, by number of record.
        moments: how it stood after each record.
    """

    seen: Facts
    ended: Facts
    calls: Counter[str]
    history: Sequence[Facts]
    moments: Sequence[Facts]


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The golden store in one form: as it is, or encrypted.

    Args:
        file: the intact store.
        keys: what it is encrypted with; none if it is not.
    """

    file: Path
    keys: tuple[str, ...] = ()

    def open(self, path: Path) -> tuple[Store, SQLiteStore]:
        """A store of this form, and the one that is to be closed."""
        store = SQLiteStore(path)
        return sealed(store, self.keys), store

    @property
    def key_env(self) -> str | None:
        """The environment variable with its keys."""
        return KEY_ENV if self.keys else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What an attempt gave: facts, or an error."""

    facts: Facts | None = None
    error: Exception | None = None
    calls: Counter[str] | None = None


def attempted(attempt: Callable[[], Facts], world: World | None = None) -> Outcome:
    """Try something."""
    try:
        facts = attempt()
    except Exception as error:
        return Outcome(error=error, calls=Counter(world.calls if world else ()))
    return Outcome(facts=facts, calls=Counter(world.calls if world else ()))


class _Screen:
    """The command line, which shows what is in a file."""

    def __init__(self, path: Path, key_env: str | None) -> None:
        self._path = path
        self._key_env = key_env

    def show(self, name: str) -> Facts:
        shown(name, self._path, self._key_env)
        return {}


class Rounds:
    """The rounds of one seed; leave it to remove its files.

    Args:
        folder: an empty folder, in memory if possible.
        seed: what all rounds follow from.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        folder.mkdir(exist_ok=True)
        self._seed = seed
        # The golden one, for each that is made anew has other times and keys, and other bytes to be hit.
        plain = Form(file=golden.unpacked(golden.formats()[-1], folder / "intact.db"))
        secret = Form(file=folder / "encrypted.db", keys=_two_keys())
        shutil.copy(plain.file, secret.file)
        seal(secret.file, secret.keys)
        self._forms = (plain, secret)
        self._runs = tuple(golden.expected(golden.formats()[-1]))
        self._intact = {name: self._reference(name, plain) for name in self._runs}
        for name, intact in self._intact.items():
            assert self._reference(name, secret) == intact, f"encrypted, `{name}` is another run"
        for kind in get_args(RecordKind):
            # What is worked out when a kind is first read must not be taken for something that data caused.
            attempted(lambda kind=kind: forms.read(kind, b"{}"))
        self.tally: Counter[str] = Counter()

    def _reference(self, name: str, form: Form) -> Intact:
        path = self._folder / "reference.db"
        shutil.copy(form.file, path)
        store, opened = form.open(path)
        world = World()
        run = GRAPHS[RUNS[name].graph].load_sync(name, store=store)
        moments = [state_of(run.state_at(seq)) for seq in range(len(run.records))]
        history = history_of(run)["history"]
        picture_of(run)
        shown(name, path, form.key_env)
        seen, ended = facts_of(run), facts_of(finish(name, store, world))
        run_blocking(opened.close())
        path.unlink()
        return Intact(seen=seen, ended=ended, calls=Counter(world.calls), history=history, moments=moments)

    def play(self, number: int) -> list[str]:
        """What is wrong after one round."""
        chance = random.Random(f"{self._seed} {number}")
        path = self._folder / f"{number}.db"
        form = self._forms[chance.random() < OFTEN]
        shutil.copy(form.file, path)
        run = chance.choice(self._runs)
        began = time.monotonic()
        with HOOK.watching() as noticed:
            damage = done_to(path, chance, run)
            if form.keys:
                damage = replace(damage.of_encrypted(), text=f"encrypted; {damage.text}")
            faults = list(self._after(damage, form, path, chance))
        faults += [f"data caused {event}" for event in noticed]
        if time.monotonic() - began > LONGEST:
            faults.append(f"took {time.monotonic() - began:.0f} s")
        for file in self._folder.glob(f"{number}.db*"):
            file.unlink()
        self.tally["rounds"] += 1
        self.tally["rounds encrypted"] += bool(form.keys)
        again = f"python -m tests.fuzz rows --rounds 1 --seed {self._seed} --from {number}"
        return [f"round {number} ({run}; {damage.text}): {again}\n    {fault}" for fault in faults]

    def _after(self, damage: Damage, form: Form, path: Path, chance: random.Random) -> Iterator[str]:
        """Look at the run that was hit and at another, and go on with both."""
        store, opened = form.open(path)
        screen = _Screen(path, form.key_env)
        try:
            refused = yield from self._held(damage, damage.run, store, screen)
            other = chance.choice([name for name in self._runs if name != damage.run])
            if not damage.everywhere:
                intact = Damage(text="", run=other, errors=())
                yield from self._held(intact, other, store, screen)
            if refused and not damage.everywhere and chance.random() < MENDED:
                self.tally["mended"] += 1
                self._mend(path, form.file, damage.run)
                yield from self._ended(Damage(text="", run=damage.run, errors=()), damage.run, store)
        finally:
            run_blocking(opened.close())

    def _held(self, damage: Damage, name: str, store: Store, screen: _Screen) -> Iterator[str]:
        """Hold what is read of a run, and its end, against the intact one; gives whether going on was refused."""
        graph = GRAPHS[RUNS[name].graph]
        intact = self._intact[name]

        def tell() -> Facts:
            run = graph.load_sync(name, store=store)
            picture_of(run)
            return history_of(run)

        seen, told = attempted(lambda: facts_of(graph.load_sync(name, store=store))), attempted(tell)
        cut = damage.lost is not None and intact.seen["status"] == "interrupted"
        if damage.held and seen.facts and seen.facts["status"] == "running":
            seen.facts["status"] = "interrupted"
        if damage.everywhere and _has_lost_its_end(intact, seen, told):
            self.tally["lost what nothing tells of"] += 1
            damage = replace(damage, lost=0)
        else:
            yield from self._judged("loaded", damage, seen, _before(damage, intact) if cut else intact.seen)
            story = [step for step in intact.history if damage.lost is None or step["seq"] < damage.lost]
            yield from self._judged("told", damage, told, {"history": story})
        on_screen = attempted(lambda: screen.show(name))
        if not isinstance(on_screen.error, CommandError):
            # Asked for a run that is not there, it looks at the names of all, and may come upon another damage.
            yield from self._judged("shown", replace(damage, names=()), on_screen, {})
        return (yield from self._ended(damage, name, store))

    def _ended(self, damage: Damage, name: str, store: Store) -> Iterator[str]:
        intact = self._intact[name]
        world = World()
        ended = attempted(lambda: facts_of(finish(name, store, world)), world)
        yield from self._judged("ended", damage, ended, intact.ended)
        calls = ended.calls or Counter[str]()
        if not damage.forged and not _may_call(damage, calls, intact.calls, refused=ended.error is not None):
            yield f"called {dict(calls)}, and not {dict(intact.calls)}"
        return ended.error is not None

    def _judged(self, what: str, damage: Damage, outcome: Outcome, wanted: Facts) -> Iterator[str]:
        if outcome.error is None:
            self.tally[f"{what} as before"] += 1
            got = outcome.facts or {}
            other = {name: (value, got.get(name)) for name, value in wanted.items() if got.get(name) != value}
            if other and not damage.forged:
                yield f"{what}: another state: {other!s:.600}"
            return
        error = outcome.error
        self.tally[f"{what}: {type(error).__name__}"] += 1
        if damage.harmless or not isinstance(error, FlowAgentError) or not isinstance(error, damage.errors):
            yield f"{what}: {type(error).__name__}: {error}\n      from {_origin(error)}"
        if damage.names and not any(words in str(error) for words in damage.names):
            yield f"{what}: the error does not say {damage.names}: {error}"

    def _mend(self, path: Path, whole: Path, run: str) -> None:
        """Put the rows of a run back as they were."""
        connection = apsw.Connection(str(path))
        connection.pragma("foreign_keys", False)
        connection.execute("ATTACH ? AS intact", (str(whole),))
        (key,) = next(connection.execute("SELECT key FROM intact.runs WHERE run_id = ?", (run,)))
        connection.execute("BEGIN")
        for table, columns in (("records", "id, epoch, kind, data, sum"), ("snapshots", "id, data, sum")):
            span = f"SELECT {columns} FROM intact.{table} WHERE id >> 32 = {key}"
            connection.execute(f"DELETE FROM main.{table} WHERE id >> 32 = {key}")
            connection.execute(f"INSERT INTO main.{table}({columns}) {span}")
        connection.execute("DELETE FROM main.runs WHERE run_id = ? OR run_id = 'another' OR key = ?", (run, key))
        connection.execute(f"INSERT INTO main.runs SELECT * FROM intact.runs WHERE key = {key}")
        connection.execute("COMMIT")
        connection.close()


def _two_keys() -> tuple[str, ...]:
    """The keys of the encrypted store. They are always the same, and what it holds is not: nonces are random."""
    keys = Keys(random.Random("rows"), encrypted=True)
    keys.rotate()
    return tuple(keys.all)


def _has_lost_its_end(intact: Intact, seen: Outcome, told: Outcome) -> bool:
    """Whether a run whose process died stands where it stood some records before."""
    if seen.facts is None or told.facts is None or intact.seen["status"] != "interrupted":
        return False
    story: Sequence[Facts] = told.facts["history"]
    shorter = len(story) < len(intact.history) and intact.history[: len(story)] == story
    return shorter and seen.facts["state"] in intact.moments


def _may_call(damage: Damage, calls: Counter[str], intact: Counter[str], *, refused: bool) -> bool:
    """Whether what was called is right: nothing if going on was refused, else what it takes from an intact store."""
    if damage.everywhere and refused:
        return calls <= intact  # A bad page may be met when it is written to, and no sooner.
    if damage.lost is not None:
        return calls >= intact  # What was lost is run again.
    return calls == (Counter[str]() if refused else intact)


def _before(damage: Damage, intact: Intact) -> Facts:
    """A run whose process died has no more than its records: without the last ones, it stands where it stood."""
    assert damage.lost is not None
    return {"status": "interrupted", "state": intact.moments[damage.lost - 1]}


def _origin(error: BaseException) -> str:
    frames: list[str] = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append(f"{Path(code.co_filename).name}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    return " > ".join(frames[-4:])


def campaign(folder: Path, rounds: int, seed: int, first: int = 0) -> tuple[list[str], str]:
    """Play rounds; what went wrong, and the totals in one line."""
    os.environ[KEY_ENV] = " ".join(_two_keys())
    try:
        played = Rounds(folder, seed)
        faults = [fault for number in range(first, first + rounds) for fault in played.play(number)]
    finally:
        del os.environ[KEY_ENV]
    totals = ", ".join(f"{name} {count}" for name, count in sorted(played.tally.items()))
    shutil.rmtree(folder)
    return faults, totals
