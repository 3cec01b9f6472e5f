"""`Graph`: a definition, and the verbs that check, run, resume, watch and draw it."""

from __future__ import annotations

import importlib
import os
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypedDict, cast

from typing_extensions import TypeVar, Unpack

from flowagent.core.builder import Builder, DepsT, StateT
from flowagent.core.policies import Durability, Limits, OnFailure
from flowagent.core.run import Run
from flowagent.errors import FlowAgentError

if TYPE_CHECKING:
    import networkx as nx

    from flowagent.core.check import Checked
    from flowagent.core.listening import Listener
    from flowagent.core.runs import Options
    from flowagent.core.stored import Place
    from flowagent.core.topology import Topology
    from flowagent.core.watch import Watch
    from flowagent.render import Diagram
    from flowagent.stores.base import Store

T = TypeVar("T")

StoreLike: TypeAlias = "Store | str | os.PathLike[str]"


class RunOptions(TypedDict, total=False):
    """How a call runs things.

    Keys:
        store: a store, or a path, which means a SQLite file; by default the graph's, else one in memory.
        deps: what nodes get as `ctx.deps`.
        limits: how far this call may go; `Limits()` by default.
        on_failure: what a failed task does to the rest: `"finish"` (default), `"continue"` or `"cancel"`.
        durability: what is stored when: `"step"` (default), `"fast"` or `"exit"`.
        listeners: functions that are called with every event, and observers; see `listening`, which has all runs of a
            block heard.
    """

    store: StoreLike | None
    deps: Any
    limits: Limits
    on_failure: OnFailure
    durability: Durability
    listeners: Sequence[Listener]


class Graph(Builder[StateT, DepsT], Generic[StateT, DepsT]):
    """A workflow: nodes and edges over one typed state.

    There is no compile step: the first `check`, `run` or `draw` checks the definition, tells all its faults in one
    `GraphError`, and freezes it.

    Args:
        name: what it is called in stores, pictures and messages.
        state: its state, a pydantic model.
        deps: the type of what nodes get as `ctx.deps`, for type checkers.
        store: where its runs are kept, unless a call says otherwise.

    Raises:
        GraphError: an empty name, or a state that is no pydantic model.

    Example:
        >>> from flowagent import END, START, Graph, State, Update
        >>> class Count(State):
        ...     number: int
        >>> g = Graph("double", Count)
        >>> @g.node
        ... def double(state: Count) -> Update:
        ...     return {"number": state.number * 2}
        >>> g.chain(START, double, END)
        >>> g.run_sync(Count(number=21)).state
        Count(number=42)
    """

    def __init__(
        self, name: str, state: type[StateT], *, deps: type[DepsT] | None = None, store: StoreLike | None = None
    ) -> None:
        super().__init__(name, state)
        self.deps = deps
        self.store = store
        self._checked: Checked | None = None

    def __repr__(self) -> str:
        return f"Graph({self.name!r}, {self.state.__name__}, {len(self.nodes)} nodes)"

    # -- the definition --------------------------------------------------------------------------------------------

    def check(self) -> tuple[str, ...]:
        """Check the definition and freeze it.

        Returns:
            What is odd without being wrong, a line each.

        Raises:
            GraphError: all that is wrong, in this graph and those within.
        """
        return self.checked_inside(()).warnings

    def checked_inside(self, around: tuple[int, ...]) -> Checked:
        """The definition as tables; `around` are the graphs that it is nested in. For `check`."""
        if self._checked is None:
            check = importlib.import_module("flowagent.core.check")
            self._checked = cast("Checked", check.checked(self, self.state, inside=around))
            self.frozen = True
        return self._checked

    @property
    def topology(self) -> Topology:
        """The definition as tables, checked when first asked for."""
        return self.checked_inside(()).topology

    def to_networkx(self) -> nx.DiGraph[str]:
        """The checked definition as a networkx graph; edges have a `kind` and a `label`, nodes a `kind`."""
        networkx = importlib.import_module("networkx")  # takes long to load, and nothing else needs it
        shape = importlib.import_module("flowagent.core.shape")
        network: nx.DiGraph[str] = networkx.DiGraph()
        network.add_nodes_from(place.name for place in self.topology.places)
        for place in self.topology.places[2:]:
            network.nodes[place.name]["kind"] = shape.kind_of(place)
        for edge in self.topology.edges:
            network.add_edge(edge.tail, edge.head, kind=edge.kind, label=edge.label)
        return network

    def draw(self) -> Diagram:
        """A picture of the definition."""
        sketch = importlib.import_module("flowagent.core.sketch")
        render = importlib.import_module("flowagent.render")
        return cast("Diagram", render.Diagram(sketch.of_graph(self.topology)))

    def _repr_svg_(self) -> str:
        return self.draw().svg()

    # -- running ---------------------------------------------------------------------------------------------------

    async def run(
        self,
        state: StateT | Mapping[str, Any] | None = None,
        *,
        run_id: str | None = None,
        **options: Unpack[RunOptions],
    ) -> Run[StateT]:
        """Start a run, or go on with the one of that id.

        A known id whose run is completed or waiting is read and nothing is executed; one that failed or was
        interrupted is gone on with. So the same call can be made again after any crash.

        Args:
            state: the input, an instance of the state model or a mapping of its fields.
            run_id: the run's name in the store; made up by default.
            options: see `RunOptions`.

        Returns:
            The run; completed, waiting for answers, or stopped at a limit.

        Raises:
            GraphError: the definition is wrong, or it asks questions and no store was given.
            StateError: the input does not fit.
            RunFailed: a task failed; it carries the run.
            RunExists: the id belongs to another graph, or was started with another input.
            RunConflict: another process is advancing the run.
            StoreError: the store cannot save or load.
        """
        runs = _runs()
        return cast("Run[StateT]", await runs.start(self._place(options), state, run_id, _options(options)))

    def run_sync(
        self,
        state: StateT | Mapping[str, Any] | None = None,
        *,
        run_id: str | None = None,
        **options: Unpack[RunOptions],
    ) -> Run[StateT]:
        """`run` for scripts, threads and notebooks."""
        return _run_blocking(self.run(state, run_id=run_id, **options))

    async def resume(
        self,
        run: str | Run[StateT],
        *,
        answers: Mapping[str, Any] | None = None,
        retry: Mapping[str, Literal["fresh"]] | None = None,
        resolve: Mapping[str, Any] | None = None,
        accept_changes: bool = False,
        **options: Unpack[RunOptions],
    ) -> Run[StateT]:
        """Go on with a stored run: failed tasks are run again, and nothing that was recorded.

        Args:
            run: its id, or a `Run` (which knows its store).
            answers: by question id, or by a gate's name while it has one open question.
            retry: `{task: "fresh"}` drops what `ctx.step` recorded for an unfinished task.
            resolve: `{field: value}` for all failed merges about that field, `{task: {field: value}}` for one.
            accept_changes: go on although the graph has changed.
            options: see `RunOptions`.

        Returns:
            The run; completed, waiting for more answers, or stopped at a limit.

        Raises:
            RunNotFound: there is no such run; the text names the store.
            AnswerError: an answer that does not fit; nothing was changed.
            GraphChanged: the graph is not the one that it was started with.
            RunFailed: a task failed (again).
            RunConflict: another process is advancing the run.
        """
        run_id, place = self._of(run, options)
        return cast(
            "Run[StateT]",
            await _runs().resume(
                place,
                run_id,
                _options(options),
                addition=_addition(answers, retry, resolve),
                accept_changes=accept_changes,
            ),
        )

    def resume_sync(
        self,
        run: str | Run[StateT],
        *,
        answers: Mapping[str, Any] | None = None,
        retry: Mapping[str, Literal["fresh"]] | None = None,
        resolve: Mapping[str, Any] | None = None,
        accept_changes: bool = False,
        **options: Unpack[RunOptions],
    ) -> Run[StateT]:
        """`resume` for scripts, threads and notebooks."""
        work = self.resume(run, answers=answers, retry=retry, resolve=resolve, accept_changes=accept_changes, **options)
        return _run_blocking(work)

    async def load(self, run: str | Run[StateT], *, store: StoreLike | None = None) -> Run[StateT]:
        """Read a stored run; nothing is executed or changed.

        Raises:
            RunNotFound: there is no such run; the text names the store.
            StateError: its state does not fit today's model; `raw` and `problems` tell.
        """
        run_id, place = self._of(run, {"store": store})
        return cast("Run[StateT]", await _runs().load(place, run_id))

    def load_sync(self, run: str | Run[StateT], *, store: StoreLike | None = None) -> Run[StateT]:
        """`load` for scripts, threads and notebooks."""
        return _run_blocking(self.load(run, store=store))

    async def cancel(
        self, run: str | Run[StateT], *, store: StoreLike | None = None, timeout: float = 30.0
    ) -> Run[StateT]:
        """Cancel a run wherever it is under way; returns when it has stopped. `resume` goes on with it.

        Args:
            run: its id, or a `Run`.
            store: where it is.
            timeout: seconds to wait for another process to stop.

        Raises:
            RunNotFound: there is no such run.
            RunConflict: its owner did not stop in time.
        """
        run_id, place = self._of(run, {"store": store})
        return cast("Run[StateT]", await _runs().cancel(place, run_id, timeout=timeout))

    def cancel_sync(
        self, run: str | Run[StateT], *, store: StoreLike | None = None, timeout: float = 30.0
    ) -> Run[StateT]:
        """`cancel` for scripts, threads and notebooks."""
        return _run_blocking(self.cancel(run, store=store, timeout=timeout))

    def stream(
        self,
        state: StateT | Mapping[str, Any] | None = None,
        *,
        run_id: str | None = None,
        **options: Unpack[RunOptions],
    ) -> AbstractAsyncContextManager[Watch]:
        """`run`, watched: `async with g.stream(...) as events: async for event in events: ...`.

        `events.run` is the run when they are over. Leaving early stops it, resumable.
        """
        runs = _runs()
        place = self._place(options)

        async def work(listener: Any) -> Any:
            return await runs.start(place, state, run_id, _options(options, listener))

        return _watching(work)

    def stream_resume(
        self,
        run: str | Run[StateT],
        *,
        answers: Mapping[str, Any] | None = None,
        retry: Mapping[str, Literal["fresh"]] | None = None,
        resolve: Mapping[str, Any] | None = None,
        accept_changes: bool = False,
        **options: Unpack[RunOptions],
    ) -> AbstractAsyncContextManager[Watch]:
        """`resume`, watched; see `stream`."""
        runs = _runs()
        run_id, place = self._of(run, options)

        async def work(listener: Any) -> Any:
            return await runs.resume(
                place,
                run_id,
                _options(options, listener),
                addition=_addition(answers, retry, resolve),
                accept_changes=accept_changes,
            )

        return _watching(work)

    # -- where runs are kept ---------------------------------------------------------------------------------------

    def _place(self, options: RunOptions) -> Place:
        stores = importlib.import_module("flowagent.stores")
        given = options.get("store")
        given = self.store if given is None else given
        store = stores.PrivateStore() if given is None else stores.open_store(given)
        checked = self.checked_inside(())
        return cast(
            "Place",
            _runs().Place(
                topology=checked.topology, store=store, warnings=checked.warnings, on_purpose=given is not None
            ),
        )

    def _of(self, run: str | Run[StateT], options: RunOptions) -> tuple[str, Place]:
        if isinstance(run, Run):
            return run.run_id, self._place({"store": run.store, **_given(options)})
        if options.get("store") is None and self.store is None:
            raise FlowAgentError(
                f"where is run `{run}`? Pass store=, give the graph a store, or pass the Run in place of its id"
            )
        return run, self._place(options)


def _given(options: RunOptions) -> RunOptions:
    return cast("RunOptions", {name: value for name, value in options.items() if value is not None})


def _run_blocking(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end; asyncio is loaded when first used."""
    return cast("T", importlib.import_module("flowagent.core.loops").run_blocking(work))


def _runs() -> Any:
    """The verbs, loaded when first used: defining a graph needs no engine."""
    return importlib.import_module("flowagent.core.runs")


def _addition(
    answers: Mapping[str, Any] | None,
    retry: Mapping[str, str] | None = None,
    resolve: Mapping[str, Any] | None = None,
) -> Any:
    module = importlib.import_module("flowagent.core.resumption")
    return module.Addition(answers=answers or {}, retry=retry or {}, resolve=resolve or {})


def _options(given: RunOptions, *also: Listener) -> Options:
    wanted: dict[str, Any] = {name: value for name, value in given.items() if name != "store"}
    wanted["listeners"] = (*wanted.get("listeners", ()), *also)
    return cast("Options", _runs().Options(**wanted))


@asynccontextmanager
async def _watching(work: Any) -> AsyncGenerator[Watch]:
    watching = importlib.import_module("flowagent.core.watch")
    async with watching.watched(work) as watch:
        yield watch
