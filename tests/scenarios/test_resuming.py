"""What resuming asks of a store: one call that takes hold and reads, and never more than it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, cast

import apsw
import pytest

from flowagent import END, START, Graph, Limits, State, Update
from flowagent.core.loops import run_blocking
from flowagent.errors import AnswerError, GraphChanged, RunConflict
from flowagent.stores import MemoryStore, SQLiteStore, Store
from flowagent.stores.base import Lease


class Count(State):
    count: int = 0
    limit: int = 0
    answer: str = ""


def loop(before_step: Callable[[], object] = lambda: None) -> Graph[Count]:
    g = Graph("loop", Count)

    @g.node
    def step(state: Count) -> Update:
        before_step()
        return {"count": state.count + 1}

    @g.router
    def onward(state: Count) -> Literal["step", "END"]:
        return "step" if state.count < state.limit else "END"

    g.chain(START, step, onward)
    return g


def idle(state: Count) -> Update:
    return None


def asking() -> Graph[Count]:
    g = Graph("asking", Count)
    g.gate("ask", question="well?", into="answer")
    g.chain(START, "ask", END)
    return g


class Noting:
    """A store that notes the calls of its methods."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)

        def call(*args: Any, **options: Any) -> Any:
            self.calls.append(name)
            return found(*args, **options)

        return call if callable(found) else found


def noting(store: Store) -> tuple[Store, list[str]]:
    """A store, and the names of its methods that will have been called."""
    noted = Noting(store)
    return cast("Store", noted), noted.calls


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "runs.db")


def test_a_store_is_asked_once_before_the_first_step(store: Store) -> None:
    """One call takes hold of the run and gives what is needed to go on."""
    loop().run_sync({"limit": 30}, store=store, run_id="r", limits=Limits(steps=10))
    (asked, calls), before = noting(store), list[list[str]]()
    run = loop(lambda: before.append([*calls])).resume_sync("r", store=asked)
    assert (run.status, run.state.count) == ("completed", 30)
    assert before[0] == ["resume"]


@pytest.fixture
def statements() -> Iterator[list[str]]:
    """What any connection that is opened from now on executes."""
    executed: list[str] = []

    def note(_cursor: object, sql: str, _bindings: object) -> bool:
        executed.append(sql.strip())
        return True

    def trace(connection: apsw.Connection) -> None:
        connection.exec_trace = note

    apsw.connection_hooks.append(trace)
    yield executed
    apsw.connection_hooks.remove(trace)


@pytest.mark.parametrize("steps", [20, 2000])
def test_a_run_is_resumed_by_a_dozen_statements(tmp_path: Path, statements: list[str], steps: int) -> None:
    """All in one transaction, however long the run is; what opening the file takes is another matter."""
    store, before = SQLiteStore(tmp_path / "runs.db"), list[str]()
    loop().run_sync({"limit": steps + 1}, store=store, run_id="r", limits=Limits(steps=steps))
    run_blocking(store.close())
    statements.clear()
    run = loop(lambda: before.extend(statements)).resume_sync("r", store=store, limits=Limits(steps=steps + 1))
    assert run.state.count == steps + 1
    verbs = [sql.split()[0] for sql in before if not sql.lower().startswith("pragma")]
    assert (verbs.count("BEGIN"), verbs.count("COMMIT")) == (1, 1)
    assert len(verbs) <= 13, verbs


def test_an_answer_is_looked_at_before_anything_is_changed(store: Store) -> None:
    """A wrong one changes neither epoch nor time; a right one is read once and told under the lease."""
    asking().run_sync(store=store, run_id="r")
    info = run_blocking(store.info("r"))
    with pytest.raises(AnswerError):
        asking().resume_sync("r", store=store, answers={"nobody": "x"})
    assert run_blocking(store.info("r")) == info
    asked, calls = noting(store)
    assert asking().resume_sync("r", store=asked, answers={"ask": "yes"}).state.answer == "yes"
    assert calls[:3] == ["past", "resume", "append"]


def test_a_completed_run_is_only_read(store: Store) -> None:
    """Resuming it gives it again; its info stays as it was."""
    loop().run_sync({"limit": 3}, store=store, run_id="r")
    info = run_blocking(store.info("r"))
    asked, calls = noting(store)
    run = loop().resume_sync("r", store=asked)
    assert (run.status, run.replayed, run.state.count) == ("completed", True, 3)
    assert calls == ["resume"]
    assert run_blocking(store.info("r")) == info


def test_very_many_records_are_read_in_parts(store: Store) -> None:
    """A run of thousands of records without a snapshot goes on with all of them."""
    run = loop().run_sync({"limit": 2500}, store=store, run_id="r", durability="exit", limits=Limits(steps=2000))
    assert (run.status, run_blocking(store.snapshot("r")), len(run.records) > 2000) == ("limit", None, True)
    assert loop().load_sync("r", store=store).state.count == 2000
    assert loop().resume_sync("r", store=store, limits=Limits(steps=3000)).state.count == 2500


def test_a_run_that_is_held_is_told_or_given_if_nothing_is_left_to_do(store: Store) -> None:
    """`RunConflict` while it goes on; when all is done, its holder need not have said so."""
    loop().run_sync({"limit": 3}, store=store, run_id="r", limits=Limits(steps=2))
    records = run_blocking(store.read("r"))
    lease = run_blocking(store.claim("r"))
    with pytest.raises(RunConflict, match="is being advanced"):
        loop().resume_sync("r", store=store)
    run_blocking(store.release(lease))
    loop().resume_sync("r", store=store)
    done = run_blocking(store.read("r"))[len(records) :]
    twin = run_blocking(store.create("twin", "loop", [*records, *done[:-1]]))
    run = loop().resume_sync("twin", store=store)
    assert (run.status, run.replayed, run.state.count) == ("completed", True, 3)
    with pytest.raises(AnswerError, match="is completed"):
        loop().resume_sync("twin", store=store, answers={"x": "y"})
    assert run_blocking(store.info("twin")).status == "running"
    run_blocking(store.release(twin))


def test_a_run_that_was_completed_goes_on_in_a_graph_that_has_grown(store: Store) -> None:
    """What was added beside what was done is done, if the changes are accepted; else the run stays as it was."""

    def graph(*names: str) -> Graph[Count]:
        g = Graph("growing", Count)
        for name in names:
            g.node(idle, name=name)
            g.chain(START, name, END)
        return g

    graph("a").run_sync(store=store, run_id="r")
    with pytest.raises(GraphChanged):
        graph("a", "b").resume_sync("r", store=store)
    assert run_blocking(store.info("r")).status == "completed"
    run = graph("a", "b").resume_sync("r", store=store, accept_changes=True)
    assert [step.node for step in run.history if step.kind == "done"] == ["a", "b"]
    assert (run.status, run_blocking(store.info("r")).status) == ("completed", "completed")


def test_a_graph_that_changed_leaves_the_run_as_it_stood(store: Store) -> None:
    """No record, the same status, and nobody holds it."""
    loop().run_sync({"limit": 9}, store=store, run_id="r", limits=Limits(steps=4))
    before = run_blocking(store.info("r"))
    other = Graph("loop", Count)
    other.node(idle, name="other")
    other.chain(START, "other", END)
    with pytest.raises(GraphChanged):
        other.resume_sync("r", store=store)
    after = run_blocking(store.info("r"))
    assert (after.status, after.next_seq, after.owner) == (before.status, before.next_seq, None)
    assert isinstance(run_blocking(store.claim("r")), Lease)
