"""Definitions with names, fields, labels, questions and docs that were not made for it, in structures of all kinds.

Each is refused by a typed error, or runs to an end within its limits; then what is stored is read back in another
store, and the pictures of definition and run are laid out by a real program.
"""

from __future__ import annotations

import functools
import itertools
import random
import shutil
import subprocess
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import hypothesis
from hypothesis import given
from hypothesis import strategies as st
from pydantic import create_model

from flowagent import Goto, Graph, Limits, State, Update, add, append
from flowagent.core.loops import run_blocking
from flowagent.errors import FlowAgentError, RunFailed
from flowagent.render.image import layouters
from flowagent.stores import SQLiteStore
from tests.fuzz.facts import facts_of, history_of
from tests.fuzz.search import searching, told
from tests.render.drawn import read_svg
from tests.render.hostile import hostile

LONGEST: Final = 60
PURE_SHARE: Final = 0.03
"""How often the pure-Python layouter must draw too: it takes a second."""

MORE: Final = (
    *("START", "END", "a@1", "a/b", "a[0]", "h~(a)", "%40", "%", "@", "/", "[", "]", "(", ")", "~", "a" * 5000, "  a "),
    *(
        "</td></tr>",
        "<script>alert(1)</script>",
        "$(true)",
        "`true`",
        "; rm x",
        "--",
        "-Tsvg",
        "..",
        "../../x",
        "{a}",
        "{",
    ),
    *(
        "{0}",
        "{a.b}",
        "{a[0]}",
        "{a!r}",
        "{a:>99999999}",
        "%s%n",
        "' OR 1=1 --",
        "null",
        "true",
        "0",
        "é" * 300,
        "\u202egpj",
    ),
)
names = st.one_of(hostile, st.sampled_from(MORE), st.sampled_from("abcde"))


def _may_be(name: str) -> bool:
    """Whether a name may be one, for most of the names must be, or little would ever be run."""
    return name not in ("", "START", "END") and not any("\ud800" <= one <= "\udfff" for one in name)


good = names.filter(_may_be)
mostly_good = st.integers(0, 15).flatmap(lambda number: names if number == 15 else good)
Kind = Literal["node", "jump", "router", "map", "graph", "gate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One node of a plan."""

    name: str
    kind: Kind
    field: int
    doc: str
    tag: str
    targets: tuple[int, ...]
    labels: tuple[str, ...]
    each: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A definition to be: names, and a structure in which a target may be a node that is not there."""

    graph: str
    fields: tuple[tuple[str, str], ...]
    nodes: tuple[Planned, ...]
    edges: tuple[tuple[int, int], ...]
    run_id: str
    answer: str


_numbers = st.integers(0, 7)
_ends = st.integers(-1, 7)
_fields = st.one_of(
    names, st.sampled_from(["a", "items", "größe", "节点", "x y", "a.b", 'a"b', "</td>", "class", "{a}"])
)
_nodes = st.builds(
    Planned,
    name=mostly_good,
    kind=st.sampled_from(["node", "node", "node", "jump", "router", "map", "graph", "gate"]),
    field=_numbers,
    doc=mostly_good,
    tag=mostly_good,
    targets=st.lists(_numbers, min_size=1, max_size=3).map(tuple),
    labels=st.lists(names, min_size=3, max_size=3).map(tuple),
    each=st.booleans(),
)
plans = st.builds(
    Plan,
    graph=mostly_good,
    fields=st.lists(
        st.tuples(_fields, st.sampled_from(["int", "add", "append", "text"])),
        min_size=1,
        max_size=4,
        unique_by=lambda one: one[0],
    ).map(tuple),
    nodes=st.lists(_nodes, min_size=1, max_size=6, unique_by=lambda one: one.name).map(tuple),
    edges=st.one_of(st.just(()), st.lists(st.tuples(_ends, _ends), max_size=2).map(tuple)),
    run_id=mostly_good,
    answer=names,
)
TYPES: Final[dict[str, tuple[Any, Any, Any]]] = {
    "int": (int, 0, 1),
    "add": (Annotated[int, add], 0, 1),
    "append": (Annotated[list[str], append], [], ["</td>"]),
    "text": (str, "", '"'),
}


class Unfit(Exception):
    """A state model that pydantic itself refuses: nothing of ours."""


def state_of(plan: Plan) -> type[State]:
    """The state model of a plan; it always has a list to map over."""
    fields: dict[str, Any] = {name: TYPES[kind][:2] for name, kind in plan.fields}
    fields["items"] = (list[str], ["a", '"'])
    fields["out"] = (list[str], [])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return create_model("Hostile", __base__=State, **fields)
        except Exception as error:
            raise Unfit from error


def built(plan: Plan, state: type[State]) -> Graph[Any, Any]:
    """The graph of a plan: a chain with the plan's edges between, and its ways out."""
    g: Graph[Any, Any] = Graph(plan.graph, state)
    ends = ["START", *(one.name for one in plan.nodes), "END"]

    def end(number: int) -> str:
        return "nowhere" if number < 0 else ends[min(number, len(ends) - 1)]

    for at, one in enumerate(plan.nodes):
        _declare(g, plan, one, [end(target) for target in one.targets], after=ends[at + 2])
    fixed = {one.name for one in plan.nodes if one.kind in ("node", "map", "graph")} | {"START"}
    for tail, head in itertools.pairwise(ends):
        if tail in fixed:
            g.edge(tail, head)
    for tail, head in plan.edges:
        if end(tail) in fixed:
            g.edge(end(tail), end(head))
    return g


def _declare(g: Graph[Any, Any], plan: Plan, one: Planned, targets: Sequence[str], after: str) -> None:
    name, kind = plan.fields[one.field % len(plan.fields)]
    options: dict[str, Any] = {"doc": one.doc, "tags": (one.tag,)}
    calls = [0]

    def choose(known: Sequence[str]) -> str:
        calls[0] += 1
        return known[calls[0] % len(known)]

    def write(state: Any) -> Update:
        return {name: TYPES[kind][2]}

    match one.kind:
        case "node":
            join: dict[str, Any] = {"join": "each"} if one.each else {}
            g.node(write, name=one.name, **join, **options)
        case "jump":
            ways = [*targets, after]

            def jump(state: Any) -> Goto:
                return Goto(choose(ways), write(state))

            g.node(jump, name=one.name, to=ways, **options)
        case "router":
            labels = dict(zip(one.labels, [*targets, after], strict=False)) | {"on": after}

            def route(state: Any) -> str:
                return choose(list(labels))

            g.router(route, name=one.name, to=labels, **options)
        case "map":

            def shout(item: str) -> str:
                return f"{item}!"

            g.map(shout, over="items", into="out", name=one.name, **options)
        case "graph":
            inner: Graph[Any, Any] = Graph(one.doc or "inner", g.state)
            inner.node(write, name=one.tag or "inside")
            inner.chain("START", one.tag or "inside", "END")
            g.node(inner, name=one.name)
        case "gate":
            to = {one.labels[0]: after, one.labels[1]: targets[0], "on": after}
            g.gate(one.name, question=one.doc, schema=str, to=to, doc=one.tag)


class Trial:
    """Tries one definition.

    Args:
        folder: for its files.
        number: which one it is.
        chance: whether the slow layouter is asked too.
    """

    def __init__(self, folder: Path, number: int, chance: random.Random) -> None:
        self._path = folder / f"{number}.db"
        self._chance = chance

    def tried(self, plan: Plan) -> str:
        """How far it came.

        Raises:
            AssertionError: something is wrong.
        """
        try:
            state = state_of(plan)
        except Unfit:
            return "no model"
        try:
            graph = built(plan, state)
            graph.check()
        except FlowAgentError:
            return "refused"
        self._laid_out(graph.draw().dot())
        store = SQLiteStore(self._path)
        try:
            return self._run(graph, plan, store)
        finally:
            run_blocking(store.close())
            for file in self._path.parent.glob(f"{self._path.name}*"):
                file.unlink()

    def _run(self, graph: Graph[Any, Any], plan: Plan, store: SQLiteStore) -> str:
        limits = Limits(steps=30, seconds=20)

        def calmly(call: Callable[[], Any]) -> Any:
            try:
                return call()
            except RunFailed as failed:
                return failed.run

        try:
            run = calmly(lambda: graph.run_sync({}, store=store, run_id=plan.run_id, limits=limits))
        except FlowAgentError:
            return "not started"
        for _ in range(5):
            if run.status != "waiting":
                break
            answers = {question.id: "on" for question in run.questions}
            run = calmly(functools.partial(graph.resume_sync, run, answers=answers, limits=limits))
        assert run.status in ("completed", "failed", "limit", "waiting"), run.status
        run_blocking(store.close())
        again = graph.load_sync(plan.run_id, store=SQLiteStore(self._path))
        assert facts_of(again) == facts_of(run), "what was stored is read as something else"
        assert history_of(again) == history_of(run)
        self._laid_out(again.draw(times=False).dot())
        return str(run.status)

    def _laid_out(self, dot: str) -> None:
        programs = list(layouters())
        slow = programs[1:] if self._chance.random() < PURE_SHARE else []
        for program in [programs[0], *slow]:
            done = subprocess.run(
                [program, "-Tsvg"], input=dot.encode(), capture_output=True, timeout=LONGEST, check=False
            )
            assert done.returncode == 0, f"{program}: {done.returncode}: {done.stderr.decode()[:300]}"
            assert b"rror" not in done.stderr, f"{program}: {done.stderr.decode()[:300]}"
            assert read_svg(done.stdout.decode()).boxes >= 2


def campaign(folder: Path, rounds: int, seed: int, first: int = 0) -> tuple[list[str], str]:
    """Try definitions; what went wrong, and the totals in one line."""
    folder.mkdir(exist_ok=True)
    counts: Counter[str] = Counter()
    chance = random.Random(seed)

    @hypothesis.seed(seed)
    @searching(rounds)
    @given(plans)
    def tried(plan: Plan) -> None:
        counts["definitions"] += 1
        counts[Trial(folder, counts["definitions"], chance).tried(plan)] += 1

    faults: list[str] = []
    try:
        tried()
    except Exception as error:
        faults = list(told(error))
    shutil.rmtree(folder)
    return faults, ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
