"""Values of generated types, written by a node or given as input: they come back as they were, or are refused.

Back means: to the next node, and to whoever loads the run from another store, with types, order and private data; and
what was stored is, once read, written as the same bytes. Refused means: by a typed error, with nothing of it stored.
"""

from __future__ import annotations

import json
import shutil
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import hypothesis
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    TypeAdapter,
    create_model,
)

from flowagent import Context, Graph, Run, State, Update, append, last, merge, union
from flowagent.core.frozen import same
from flowagent.core.loops import run_blocking
from flowagent.errors import FlowAgentError, GraphError, RunFailed, RunNotFound, StateError
from flowagent.stores import SQLiteStore
from tests.fuzz.kinds import Typed, typed
from tests.fuzz.search import searching, told

REDUCERS: Final = {list: append, dict: merge, set: union, frozenset: union}


@dataclass(frozen=True)
class Case:
    """A type, a value of it, and the way that it takes."""

    kind: Any
    value: Any
    by: Literal["input", "node", "model", "reducer"]


def _case(one: Typed, by: Literal["input", "node", "model", "reducer"]) -> Case:
    return Case(one[0], one[1], by)


cases = st.builds(_case, typed, st.sampled_from(["input", "node", "node", "model", "reducer"]))


@dataclass
class Seen:
    """What the next node was given."""

    values: list[Any] = field(default_factory=list[Any])


class Trial:
    """Tries one value."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def tried(self, case: Case) -> str:
        """What became of it.

        Raises:
            AssertionError: it came back as something else, or was refused too late.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            store = SQLiteStore(self._path)
            try:
                return self._run(case, store)
            finally:
                run_blocking(store.close())
                for file in self._path.parent.glob(f"{self._path.name}*"):
                    file.unlink()

    def _run(self, case: Case, store: SQLiteStore) -> str:
        graph, given = self._graph(case)
        seen = Seen()
        try:
            graph.check()
        except GraphError:
            return "refused: type"
        try:
            run = graph.run_sync(given, store=store, run_id="r", deps=seen)
        except RunFailed as failed:
            self._is_refused(failed, store)
            return "refused: by the node"
        except StateError:
            assert self._is_absent(store), "an input was refused after it was stored"
            return "refused: input"
        self._is_back(case, graph, run, seen)
        return "came back"

    def _graph(self, case: Case) -> tuple[Graph[Any, Seen], Any]:
        kind, value = case.kind, case.value
        reducer = REDUCERS.get(getattr(kind, "__origin__", kind), last) if case.by == "reducer" else None
        if reducer is not None and reducer is not last:
            declared: Any = (Annotated[kind, reducer], getattr(kind, "__origin__", kind)())
        elif reducer is not None:
            declared = (Annotated[kind | None if kind is not Any else Any, reducer], None)
        else:
            declared = (kind, ...) if case.by == "input" else (kind | None if kind is not Any else Any, None)
        model = create_model("Values", __base__=State, value=declared)
        g: Graph[Any, Seen] = Graph("values", model, deps=Seen)

        def write(state: Any) -> Any:
            if case.by == "input":
                return None
            return state.model_copy(update={"value": value}) if case.by == "model" else {"value": value}

        def read(state: Any, ctx: Context[Seen, Any]) -> Update:
            ctx.deps.values.append(state.value)
            return None

        g.node(write, name="write")
        g.node(read, name="read")
        g.chain("START", "write", "read", "END")
        return g, {"value": value} if case.by == "input" else {}

    def _is_refused(self, failed: RunFailed, store: SQLiteStore) -> None:
        (error,) = failed.errors
        assert error.node == "write", f"another node failed: {error}"
        assert isinstance(error.__cause__, FlowAgentError), f"no typed error: {error.__cause__!r}"
        records = run_blocking(store.read("r"))
        assert [record.kind for record in records] == ["started", "failed", "ended"], "something of it was stored"

    def _is_absent(self, store: SQLiteStore) -> bool:
        try:
            run_blocking(store.info("r"))
        except RunNotFound:
            return True
        return False

    def _is_back(self, case: Case, graph: Graph[Any, Seen], run: Run[Any], seen: Seen) -> None:
        written = _validated(case)
        run_blocking(run.store.close())
        loaded = graph.load_sync("r", store=SQLiteStore(self._path))
        (live,) = seen.values
        back = loaded.state.value
        assert same(live, back), f"a live run saw {live!r}, a loaded one has {back!r}"
        assert same(run.state.value, back), f"the run has {run.state.value!r}, loaded it has {back!r}"
        alike = same(written, back) or same(written, back, widen=True)
        assert alike, f"{written!r} came back as {back!r}"
        codec = graph.topology.schema.fields["value"].value
        once = codec.encode(back).decode()
        again = codec.encode(codec.decode(once)).decode()
        assert _ordered(case, once) == _ordered(case, again), f"{once} is written anew as {again}"
        self._is_stable(loaded, codec, case)

    def _is_stable(self, loaded: Run[Any], codec: Any, case: Case) -> None:
        """What stands in the journal is what is written when it is read and written again."""
        if case.by == "reducer":
            return
        if case.by == "input":
            stored = json.loads(loaded.records[0].data)["input"]["value"]
        else:
            kind, (stored,) = json.loads(loaded.records[1].data)["writes"].get("value", ["set", [None]])
            assert kind == "set"
        text = json.dumps(stored)
        again = codec.encode(codec.decode(text)).decode()
        assert _ordered(case, text) == _ordered(case, again), f"stored {text}, written again {again}"


def _ordered(case: Case, text: str) -> str:
    """JSON in one form; the members of sets stand in the order in which they lie in memory, which tells nothing."""
    content = json.loads(text)
    return json.dumps(_sorted(content) if "set[" in str(case.kind) else content)


def _sorted(content: Any) -> Any:
    return sorted(map(_sorted, content), key=json.dumps) if isinstance(content, list) else content


def _validated(case: Case) -> Any:
    """What the declared type makes of a value; the write is that."""
    return TypeAdapter(case.kind, config=None).validate_python(case.value)


def campaign(folder: Path, rounds: int, seed: int, first: int = 0) -> tuple[list[str], str]:
    """Try values; what went wrong, and the totals in one line."""
    folder.mkdir(exist_ok=True)
    counts: Counter[str] = Counter()

    @hypothesis.seed(seed)
    @searching(rounds, report_multiple_bugs=False)
    @given(cases)
    def tried(case: Case) -> None:
        counts["values"] += 1
        counts[Trial(folder / f"{counts['values']}.db").tried(case)] += 1

    faults: list[str] = []
    try:
        tried()
    except Exception as error:
        faults = list(told(error))
    shutil.rmtree(folder)
    return faults, ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
