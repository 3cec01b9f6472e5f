"""What callers may do with runs, in any order, held after each step against a model that is a dict and a loop."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import hypothesis
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from flowagent import Context, Graph, Limits, Run, State, Update, append
from flowagent.core.loops import run_blocking
from flowagent.core.records import Status
from flowagent.errors import AnswerError, FlowAgentError, RunExists, RunFailed, RunNotFound
from flowagent.stores import SQLiteStore
from tests.fuzz.search import searching, told

FOLDER: Final = Path("/dev/shm") if Path("/dev/shm").is_dir() else Path()
IDS: Final = ("a", "b/1", "ü '")
MOST: Final = 1000


# -- the graph -----------------------------------------------------------------------------------------------------


class Order(State):
    what: str
    verdict: str = ""
    log: Annotated[list[str], append] = []


@dataclass(slots=True)
class Shop:
    """What nodes find outside.

    Attributes:
        closed: whether `pay` fails.
        at: what to do when a task is called.
        calls: what was called.
    """

    closed: bool = False
    at: Mapping[str, Callable[[], None]] = field(default_factory=dict[str, Callable[[], None]])
    calls: list[str] = field(default_factory=list[str])

    def visit(self, ctx: Context[Shop, Order]) -> Update:
        self.calls.append(ctx.task_id)
        self.at.get(ctx.task_id, lambda: None)()
        if self.closed and ctx.task_id.startswith("pay"):
            raise OSError("closed")
        return {"log": [ctx.task_id]}


def shop(name: str = "shop") -> Graph[Order, Shop]:
    """A loop of two nodes and a gate, and a node after it that may fail."""
    g = Graph(name, Order, deps=Shop)

    @g.node
    def pick(o: Order, ctx: Context[Shop, Order]) -> Update:
        return ctx.deps.visit(ctx)

    @g.node
    async def pack(o: Order, ctx: Context[Shop, Order]) -> Update:
        return ctx.deps.visit(ctx)

    @g.node
    def pay(o: Order, ctx: Context[Shop, Order]) -> Update:
        return ctx.deps.visit(ctx)

    g.gate("ask", question="Send {what}?", into="verdict", schema=Literal["yes", "no"], to={"yes": pay, "no": pick})
    g.chain("START", pick, pack, "ask")
    g.chain(pay, "END")
    return g


GRAPH: Final = shop()
OTHER: Final = shop("another shop")


# -- the model -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Modelled:
    """A run as it should be."""

    what: str
    status: Status = "running"
    at: str = "pick"
    lap: int = 1
    verdict: str = ""
    log: list[str] = field(default_factory=list[str])
    done: list[str] = field(default_factory=list[str])
    counted: set[str] = field(default_factory=set[str])
    failed: bool = False

    def task(self) -> str:
        return f"{self.at}@{self.lap}"

    def go_on(self, limit: int, *, closed: bool, dies: str = "") -> list[str]:
        """Run as far as it goes; what is called for that."""
        calls: list[str] = []
        while self.at != "END":
            task = self.task()
            if task not in self.counted and len(self.counted) >= limit:
                self.status = "limit"
                return calls
            if task == dies:
                self.status = "interrupted"
                return calls
            self.counted.add(task)
            if self.at == "ask":
                self.status = "waiting"
                return calls
            calls.append(task)
            if self.at == "pay" and closed:
                self.status, self.failed = "failed", True
                return calls
            self.failed = False
            self.log.append(task)
            self._finish(task, {"pick": "pack", "pack": "ask", "pay": "END"}[self.at])
        self.status = "completed"
        return calls

    def answer(self, verdict: str) -> None:
        self.verdict = verdict
        self._finish(self.task(), "pay" if verdict == "yes" else "pick")
        self.lap += verdict == "no"

    def _finish(self, task: str, then: str) -> None:
        self.done.append(task)
        self.at = then

    def questions(self) -> list[str]:
        return [self.task()] if self.at == "ask" and self.task() in self.counted else []


def same(found: object, wanted: object) -> None:
    """Told in words: outside pytest an assertion says nothing."""
    assert found == wanted, f"found {found}, wanted {wanted}"


# -- what may be done ------------------------------------------------------------------------------------------------

ids = st.sampled_from(IDS)
words = st.sampled_from(["tea", "ink"])
limits = st.sampled_from([1, 2, 3, 4, 5, 7, MOST, MOST, MOST])
COUNTS: Final[Counter[str]] = Counter()


class Callers(RuleBasedStateMachine):
    """Whoever uses one store, and the model."""

    def __init__(self) -> None:
        super().__init__()
        self.runs: dict[str, Modelled] = {}
        self.closed = False
        self.copies = 0
        self.folder = FOLDER / f"flowagent-model-{id(self)}"
        self.folder.mkdir()
        self.path = self.folder / "0.db"
        self.store = SQLiteStore(self.path)
        COUNTS["histories"] += 1

    def teardown(self) -> None:
        run_blocking(self.store.close())
        shutil.rmtree(self.folder)

    def call(self, verb: Callable[..., Run[Order]], *given: Any, dies: str = "", **options: Any) -> Run[Order]:
        """Make a call; where a process is to die in the middle, what it leaves behind is what the next one finds."""
        COUNTS["calls"] += 1
        at = {dies: self._copy} if dies else {}
        self.desk = Shop(closed=self.closed, at=at)
        try:
            return verb(*given, store=self.store, deps=self.desk, **options)
        except RunFailed as failed:
            return failed.run

    def _copy(self) -> None:
        self.copies += 1
        for end in ("", "-wal"):
            source = Path(f"{self.path}{end}")
            if source.exists():
                shutil.copy(source, f"{self.folder}/{self.copies}.db{end}")

    def _die(self) -> None:
        COUNTS["deaths"] += 1
        run_blocking(self.store.close())
        self.path = self.folder / f"{self.copies}.db"
        self.store = SQLiteStore(self.path)

    def _agree(self, run: Run[Order], model: Modelled, calls: list[str]) -> None:
        same((run.status, self.desk.calls), (model.status, calls))

    # -- start, go on, die

    @rule(run=ids, what=words, limit=limits)
    def start(self, run: str, what: str, limit: int) -> None:
        """Starts a run, or makes the same call again; with another input that is an error."""
        model = self.runs.get(run)
        given = {"what": what}
        if model is not None and model.what != what:
            self._refused(RunExists, GRAPH.run_sync, given, run_id=run)
        elif model is not None and model.status == "cancelled":
            self._refused(FlowAgentError, GRAPH.run_sync, given, run_id=run)
        else:
            made = self.call(GRAPH.run_sync, given, run_id=run, limits=Limits(steps=limit))
            model = self.runs.setdefault(run, Modelled(what))
            stands = model.status in ("completed", "waiting")
            calls = [] if stands else model.go_on(limit, closed=self.closed)
            self._agree(made, model, calls)

    @rule(run=ids, limit=limits)
    def go_on(self, run: str, limit: int) -> None:
        if run not in self.runs:
            self._refused(RunNotFound, GRAPH.resume_sync, run)
            return
        model = self.runs[run]
        made = self.call(GRAPH.resume_sync, run, limits=Limits(steps=limit))
        calls = model.go_on(limit, closed=self.closed)
        self._agree(made, model, calls)

    @rule(run=ids)
    def step(self, run: str) -> None:
        """One more node, and no further."""
        if run in self.runs:
            self.go_on.__wrapped__(self, run, len(self.runs[run].counted) + 1)  # type: ignore[attr-defined]

    @rule(run=ids, what=words, at=st.sampled_from(["pick", "pack", "pay"]))
    def die(self, run: str, what: str, at: str) -> None:
        """The process dies while a task is called, if it comes so far."""
        model = self.runs.get(run)
        task = f"{at}@{1 if model is None else model.lap}"
        before = self.copies
        if model is None:
            self.call(GRAPH.run_sync, {"what": what}, run_id=run, dies=task)
        else:
            self.call(GRAPH.resume_sync, run, dies=task)
        model = self.runs.setdefault(run, Modelled(what))
        model.go_on(MOST, closed=self.closed, dies=task)
        assert (self.copies > before) == (model.status == "interrupted")
        if self.copies > before:
            self._die()

    @rule()
    def reopen(self) -> None:
        run_blocking(self.store.close())
        self.store = SQLiteStore(self.path)

    # -- answers

    @rule(run=ids, verdict=st.sampled_from(["yes", "no"]), by_name=st.booleans())
    def answer(self, run: str, verdict: str, by_name: bool) -> None:
        model = self.runs.get(run)
        if model is None or not model.questions():
            error = RunNotFound if model is None else AnswerError
            self._refused(error, GRAPH.resume_sync, run, answers={"ask": verdict})
            return
        name = "ask" if by_name else model.task()
        made = self.call(GRAPH.resume_sync, run, answers={name: verdict})
        model.answer(verdict)
        calls = model.go_on(MOST, closed=self.closed)
        self._agree(made, model, calls)

    @rule(run=ids, wrong=st.sampled_from([{"ask": "maybe"}, {"ask": 1}, {"nobody": "yes"}, {"ask@99": "yes"}]))
    def answer_wrongly(self, run: str, wrong: Mapping[str, Any]) -> None:
        error = AnswerError if run in self.runs else RunNotFound
        self._refused(error, GRAPH.resume_sync, run, answers=wrong)

    # -- cancel, delete, mistakes

    @rule(run=ids)
    def cancel(self, run: str) -> None:
        if run not in self.runs:
            self._refused(RunNotFound, GRAPH.cancel_sync, run, deps=None)
            return
        model = self.runs[run]
        made = GRAPH.cancel_sync(run, store=self.store)
        model.status = "completed" if model.status == "completed" else "cancelled"
        same(made.status, model.status)

    @rule(run=ids)
    def delete(self, run: str) -> None:
        if run in self.runs:
            run_blocking(self.store.delete(run))
            del self.runs[run]

    @precondition(lambda self: self.runs)
    @rule(data=st.data())
    def mistake_the_graph(self, data: st.DataObject) -> None:
        run = data.draw(st.sampled_from(sorted(self.runs)))
        self._refused(RunExists, OTHER.run_sync, {"what": "tea"}, run_id=run)
        self._refused(RunExists, OTHER.resume_sync, run)

    @rule(closed=st.booleans())
    def close_or_open(self, closed: bool) -> None:
        self.closed = closed

    def _refused(self, error: type[FlowAgentError], verb: Callable[..., Any], *given: Any, **options: Any) -> None:
        """A call is refused and calls nothing."""
        COUNTS["refusals"] += 1
        desk = Shop()
        options = {"deps": desk, **options}
        if options["deps"] is None:
            del options["deps"]
        try:
            verb(*given, store=self.store, **options)
        except error:
            pass
        else:
            raise AssertionError(f"{verb} was not refused")
        assert desk.calls == []

    # -- what must be true after each

    @invariant()
    def all_agree(self) -> None:
        listed = {info.run_id: info.status for info in run_blocking(self.store.runs())}
        same(listed, {name: model.status for name, model in self.runs.items()})
        for name, model in self.runs.items():
            run = GRAPH.load_sync(name, store=self.store)
            same(run.status, model.status)
            same(run.state, Order(what=model.what, verdict=model.verdict, log=model.log))
            same([question.id for question in run.questions], model.questions())
            same([step.task for step in run.history if step.kind == "done"], model.done)
            same([error.node for error in run.errors], ["pay"] if model.failed else [])


def campaign(folder: Path, rounds: int, seed: int, first: int = 0) -> tuple[list[str], str]:
    """Play histories of 40 steps; what went wrong, and the totals in one line."""
    folder.rmdir()
    return played(rounds, seed, steps=40)


def played(rounds: int, seed: int, steps: int) -> tuple[list[str], str]:
    """Play histories."""
    COUNTS.clear()
    seeded = hypothesis.seed(seed)(type("Seeded", (Callers,), {}))
    faults: list[str] = []
    try:
        run_state_machine_as_test(seeded, settings=searching(rounds, stateful_step_count=steps))
    except Exception as error:
        faults = list(told(error))
    return faults, ", ".join(f"{name} {count}" for name, count in sorted(COUNTS.items()))
