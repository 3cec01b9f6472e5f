"""Traces of graphs: one tree for each call, whatever runs beside what, on which thread and in which process."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from opentelemetry import trace

from flowagent import END, START, Context, Graph, Retry, RunOptions, State, Update, append
from flowagent.errors import RunFailed
from flowagent.stores import MemoryStore
from flowagent.tracing import listening
from tests.patience import PATIENCE
from tests.tracing.collected import Collected, told, visit


class Pages(State):
    urls: list[str] = []
    texts: list[str] = []
    seen: Annotated[list[str], append] = []
    laps: int = 0


def spanning(collected: Collected, name: str) -> Any:
    """Make a span of the user's own, as code in nodes does."""
    return collected.tracers.get_tracer("mine").start_as_current_span(name)


def research(collected: Collected) -> Graph[Pages, object]:
    """A fork to three sync nodes, which run in threads, and a nested graph; then a loop and a map."""
    inner: Graph[Pages, object] = Graph("deep", Pages)
    together = threading.Barrier(3)

    async def dig(state: Pages) -> Update:
        with spanning(collected, "digging"):
            await asyncio.sleep(0)
        return {"seen": ["dig"]}

    inner.chain(START, inner.node(dig), END)
    g: Graph[Pages, object] = Graph("research", Pages)

    def branch(name: str) -> Any:
        def work(state: Pages) -> Update:
            together.wait(PATIENCE)
            with spanning(collected, f"in {name}"):
                return {"seen": [name]}

        return g.node(work, name=name)

    @g.node
    async def fork(state: Pages) -> Update:
        return None

    @g.node
    def lap(state: Pages) -> Update:
        return {"laps": state.laps + 1}

    @g.router
    def again(state: Pages) -> Literal["lap", "read"]:
        return "lap" if state.laps < 2 else "read"

    @g.map(over="urls", into="texts")
    def read(url: str) -> str:
        with spanning(collected, f"fetch {url}"):
            return url.upper()

    g.edge(START, fork)
    for one in (branch("a"), branch("b"), branch("c"), g.node(inner, name="nested")):
        g.chain(fork, one, lap)
    g.chain(lap, again)
    g.chain(read, END)
    return g


WHOLE = [
    "invoke_workflow research",
    "  node a",
    "    in a",
    "  node again",
    "  node again @2",
    "  node b",
    "    in b",
    "  node c",
    "    in c",
    "  node fork",
    "  node lap",
    "  node lap @2",
    "  node nested",
    "    node dig",
    "      digging",
    "  node read @2",
    "    node read @2 [0]",
    "      fetch x",
    "    node read @2 [1]",
    "      fetch y",
]


async def test_a_run_is_one_tree_across_tasks_threads_graphs_maps_and_laps(collected: Collected) -> None:
    """FA-118: nodes in threads keep their parent, and each lap of a loop is a span of its own with its number."""
    await research(collected).run({"urls": ["x", "y"]}, listeners=[collected.tracing()])
    assert collected.trees(visit) == WHOLE


def test_a_run_from_sync_code_has_the_same_tree(collected: Collected) -> None:
    """FA-118: where sync nodes run on the loop's own thread they have their parents, too."""
    research(collected).run_sync({"urls": ["x", "y"]}, listeners=[collected.tracing()])
    assert collected.trees(visit) == WHOLE


def line(*nodes: Any) -> Graph[Pages, object]:
    """A line of nodes."""
    g: Graph[Pages, object] = Graph("line", Pages)
    g.chain(START, *[g.node(fn) for fn in nodes], END)
    return g


def first(state: Pages) -> Update:
    return {"seen": ["first"]}


async def test_a_resumed_call_is_a_trace_that_is_linked_to_the_first(collected: Collected) -> None:
    """FA-118: resumed once or twice, each part has a tree of its own with a link to where the run began."""
    broken = True

    def second(state: Pages) -> Update:
        if broken:
            raise ValueError("not yet")
        return {"seen": ["second"]}

    g, store = line(first, second), MemoryStore()
    how: RunOptions = {"store": store, "listeners": [collected.tracing()]}
    for _ in range(2):
        with pytest.raises(RunFailed):
            await g.run({}, run_id="r", **how)
    broken = False
    await g.resume("r", **how)
    assert collected.trees() == [
        "invoke_workflow line",
        "  node first",
        "  node second",
        "invoke_workflow line",
        "  node second",
        "invoke_workflow line",
        "  node second",
    ]
    begun, *resumed = [span for span in collected.spans if span.parent is None]
    here = begun.context
    assert here is not None
    links = [[(link.context.trace_id, link.context.span_id) for link in span.links] for span in (begun, *resumed)]
    assert links == [[], [(here.trace_id, here.span_id)], [(here.trace_id, here.span_id)]]
    assert len({span.context.trace_id for span in (begun, *resumed) if span.context}) == 3
    facts = [told(span, "flowagent.run.resumed", "flowagent.run.status", "error.type") for span in (begun, *resumed)]
    assert facts == [
        {"flowagent.run.resumed": False, "flowagent.run.status": "failed", "error.type": "RunFailed"},
        {"flowagent.run.resumed": True, "flowagent.run.status": "failed", "error.type": "RunFailed"},
        {"flowagent.run.resumed": True, "flowagent.run.status": "completed", "error.type": None},
    ]


KILLED = """
import os, sys
from opentelemetry.sdk.trace import TracerProvider
from flowagent import END, START, Graph, State
from flowagent.tracing import Tracing

class Nothing(State):
    number: int = 0

g = Graph("line", Nothing)

@g.node
def first(state):
    return None

@g.node
def second(state):
    from opentelemetry import trace
    around = trace.get_current_span().parent
    print(f"{around.trace_id:032x} {around.span_id:016x}", flush=True)
    os.kill(os.getpid(), 9)

g.chain(START, first, second, END)
g.run_sync({}, run_id="r", store=sys.argv[1], listeners=[Tracing(tracer_provider=TracerProvider())])
"""


class Nothing(State):
    number: int = 0


async def test_a_run_that_another_process_began_is_linked_to_its_trace(collected: Collected, tmp_path: Path) -> None:
    """Though that process was killed: where its trace is stands in the journal from the start."""
    path = str(tmp_path / "runs.db")
    script = [sys.executable, "-c", KILLED, path]
    killed = await asyncio.to_thread(subprocess.run, script, capture_output=True, text=True, check=False)
    assert killed.returncode == -9, killed.stderr

    def idle(state: Nothing) -> Update:
        return None

    g: Graph[Nothing, object] = Graph("line", Nothing)
    g.node(idle, name="first")
    g.node(idle, name="second")
    g.chain(START, "first", "second", END)
    await g.resume("r", store=path, listeners=[collected.tracing()])
    (link,) = collected.named("invoke_workflow line").links
    assert f"{link.context.trace_id:032x} {link.context.span_id:016x}" == killed.stdout.strip()
    assert link.context.is_remote


async def test_a_graph_that_goes_on_in_a_resumed_run_has_its_span_again(collected: Collected) -> None:
    """What is inside it has a parent there, and is not cut off from the rest of the trace."""
    broken = True

    def dig(state: Pages) -> Update:
        if broken:
            raise ValueError("not yet")
        return {"seen": ["dig"]}

    inner: Graph[Pages, object] = Graph("deep", Pages)
    inner.chain(START, inner.node(first), inner.node(dig), END)
    middle: Graph[Pages, object] = Graph("middle", Pages)
    middle.chain(START, middle.node(inner, name="within"), END)
    g: Graph[Pages, object] = Graph("outer", Pages)
    g.chain(START, g.node(middle, name="nested"), END)
    store = MemoryStore()
    with pytest.raises(RunFailed):
        await g.run({}, run_id="r", store=store)
    broken = False
    await g.resume("r", store=store, listeners=[collected.tracing()])
    assert collected.trees() == [
        "invoke_workflow outer",
        "  node nested",
        "    node within",
        "      node dig",
    ]
    assert collected.named("node within").attributes == {
        "flowagent.run.id": "r",
        "flowagent.task.id": "nested/within",
        "flowagent.node.name": "within",
        "flowagent.node.path": ("nested",),
        "flowagent.graph.name": "deep",
        "flowagent.visit": "1",
        "flowagent.attempt": 1,
        "flowagent.task.ending": "done",
    }


async def test_the_caller_s_span_is_the_parent_and_is_current_again_afterwards(collected: Collected) -> None:
    """A run that a request of a server makes is part of that request's trace; what comes after it is not of the run."""
    with spanning(collected, "request") as around:
        await line(first).run({}, listeners=[collected.tracing()])
        assert trace.get_current_span() is around
    assert collected.trees() == ["request", "  invoke_workflow line", "    node first"]


async def test_runs_that_nodes_start_are_traced_in_a_listening_block(collected: Collected) -> None:
    """Their span stands below that of the node; with `listeners=` only the run itself is heard."""
    child = line(first)

    async def outer(state: Pages) -> Update:
        await child.run({})
        return None

    with listening(collected.tracing()):
        await line(outer).run({})
    await line(outer).run({}, listeners=[collected.tracing()])
    assert collected.trees() == [
        "invoke_workflow line",
        "  node outer",
        "    invoke_workflow line",
        "      node first",
        "invoke_workflow line",
        "  node outer",
    ]


async def test_one_tracing_that_is_given_twice_traces_once(collected: Collected) -> None:
    """By the block and by the call."""
    tracing = collected.tracing()
    with listening(tracing):
        await line(first).run({}, listeners=[tracing])
    assert collected.trees() == ["invoke_workflow line", "  node first"]


async def test_each_attempt_is_a_span_and_failed_ones_say_with_what(collected: Collected) -> None:
    """The text of an error may quote anything, so it is shown with the content only."""
    attempts: list[int] = []

    def flaky(state: Pages, ctx: Context[object, Pages]) -> Update:
        attempts.append(ctx.attempt)
        if ctx.attempt < 3:
            raise ConnectionError(f"key sk-test-12345678, attempt {ctx.attempt}")
        return None

    g: Graph[Pages, object] = Graph("g", Pages)
    g.chain(START, g.node(flaky, retry=Retry(attempts=3, backoff=0)), END)
    for content in (False, True):
        await g.run({}, listeners=[collected.tracing(content=content)])
    spans = [span for span in collected.spans if span.name == "node flaky"]
    facts = [
        (
            (span.attributes or {}).get("flowagent.attempt"),
            (span.attributes or {}).get("error.type"),
            span.status.status_code.name,
            span.status.description,
        )
        for span in spans
    ]
    assert facts == [
        (1, "ConnectionError", "ERROR", None),
        (2, "ConnectionError", "ERROR", None),
        (3, None, "UNSET", None),
        (1, "ConnectionError", "ERROR", "key [redacted], attempt 1"),
        (2, "ConnectionError", "ERROR", "key [redacted], attempt 2"),
        (3, None, "UNSET", None),
    ]


async def test_what_is_cut_short_is_ended_nevertheless(collected: Collected) -> None:
    """A call that is cancelled ends all its spans, those of what it held from the inside out."""
    begun = asyncio.Event()

    async def wait(state: Pages) -> Update:
        begun.set()
        await asyncio.Event().wait()

    inner: Graph[Pages, object] = Graph("deep", Pages)
    inner.chain(START, inner.node(wait), END)
    g: Graph[Pages, object] = Graph("outer", Pages)
    g.chain(START, g.node(inner, name="nested"), END)
    work = asyncio.ensure_future(g.run({}, listeners=[collected.tracing()]))
    await begun.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert collected.trees() == ["invoke_workflow outer", "  node nested", "    node wait"]
    endings = {span.name: (span.attributes or {}).get("flowagent.task.ending") for span in collected.spans}
    assert endings == {"invoke_workflow outer": None, "node nested": "stopped", "node wait": "stopped"}
    assert (collected.named("invoke_workflow outer").attributes or {})["error.type"] == "CancelledError"


async def test_a_task_that_asks_says_so_and_goes_on_in_the_next_trace(collected: Collected) -> None:
    """Its span ends with the question, and does not last as long as a person thinks."""
    g: Graph[Pages, object] = Graph("g", Pages)
    g.gate("ok", question="Shall it?", to={"yes": END})
    g.edge(START, "ok")
    how: RunOptions = {"store": MemoryStore(), "listeners": [collected.tracing()]}
    run = await g.run({}, run_id="r", **how)
    await g.resume(run, answers={"ok": "yes"}, listeners=[collected.tracing()])
    facts = [
        told(span, "flowagent.task.ending", "flowagent.question.id")
        for span in collected.spans
        if span.name == "node ok"
    ]
    assert facts == [
        {"flowagent.task.ending": "asked", "flowagent.question.id": "ok"},
        {"flowagent.task.ending": "done", "flowagent.question.id": None},
    ]


async def test_two_calls_of_one_run_at_a_time_keep_their_spans_apart(collected: Collected) -> None:
    """The second is refused, as the first is advancing the run; the first one's tree is whole."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def wait(state: Pages) -> Update:
        begun.set()
        await go_on.wait()

    g, store, tracing = line(wait, first), MemoryStore(), collected.tracing()
    work = asyncio.ensure_future(g.run({}, run_id="r", store=store, listeners=[tracing]))
    await begun.wait()
    with pytest.raises(Exception, match="r"):
        await g.resume("r", store=store, listeners=[tracing])
    go_on.set()
    await work
    assert collected.trees() == ["invoke_workflow line", "  node first", "  node wait", "invoke_workflow line"]
    assert [(span.attributes or {}).get("error.type") for span in collected.spans if span.parent is None] == [
        None,
        "RunConflict",
    ]


async def test_without_a_provider_nothing_is_kept_with_the_run() -> None:
    """OpenTelemetry's API alone makes spans that go nowhere, so there is nothing to link to."""
    from flowagent.tracing import Tracing

    run = await line(first).run({}, run_id="r", store=MemoryStore(), listeners=[Tracing()])
    assert b"carried" not in run.records[0].data


MISSING = """
import sys
sys.modules["opentelemetry"] = None
from flowagent.tracing import Audit, Tracing
try:
    Tracing()
except ModuleNotFoundError as error:
    print(error)
"""


def test_the_extra_that_is_missing_is_named() -> None:
    """The error says what to install; an audit log needs no OpenTelemetry."""
    done = subprocess.run([sys.executable, "-c", MISSING], capture_output=True, text=True, check=True)
    assert done.stdout == (
        "tracing needs the package `opentelemetry-api`, which is an extra: pip install 'flowagent[otel]'\n"
    )


def test_another_package_that_is_missing_is_told_as_it_is(tmp_path: Path) -> None:
    """An OpenTelemetry that is there and broken is not said to be missing."""
    package = tmp_path / "opentelemetry"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "trace.py").write_text("import no_such_package\n")
    script = "from flowagent.tracing import Tracing\nTracing()\n"
    where = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, env=where)
    assert done.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'no_such_package'"


def test_a_long_map_costs_as_much_for_each_item(collected: Collected) -> None:
    """Ending the span of an item does not look at those of all others."""

    async def read(url: str) -> str:
        await asyncio.sleep(0)
        return url

    g: Graph[Pages, object] = Graph("g", Pages)
    g.map(read, over="urls", into="texts")
    g.chain(START, "read", END)
    began = time.process_time()
    g.run_sync({"urls": ["x"] * 2000}, listeners=[collected.tracing()])
    assert len(collected.spans) == 2002
    assert time.process_time() - began < 30
