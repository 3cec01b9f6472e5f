"""Runs and resumes graphs: the one place of the command line that executes anything."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from flowagent.cli import kept, report, targets, values
from flowagent.cli.kept import DEFAULT_STORE
from flowagent.cli.output import Output
from flowagent.cli.problems import FAILED, INTERRUPTED, CommandError, ExitCode
from flowagent.cli.progress import Progress, progress_on
from flowagent.cli.remembered import FILE, recall, remember
from flowagent.cli.report import Way
from flowagent.cli.story import story_of
from flowagent.core.events import RunStarted
from flowagent.core.graph import Graph, RunOptions
from flowagent.core.loops import run_blocking, woken_by_ctrl_c
from flowagent.core.policies import Durability, Limits, OnFailure
from flowagent.core.run import Run
from flowagent.errors import FlowAgentError, GraphChanged, RunFailed
from flowagent.stores import Store

if TYPE_CHECKING:
    from flowagent.core.watch import Watch

Watching: TypeAlias = "Callable[[], AbstractAsyncContextManager[Watch]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What `run` and `resume` have in common; None means that it was not said."""

    store: str = DEFAULT_STORE
    key_env: str | None = None
    deps: str | None = None
    steps: int | None = None
    seconds: float | None = None
    requests: int | None = None
    tokens: int | None = None
    tool_calls: int | None = None
    cost: str | None = None
    on_failure: OnFailure | None = None
    durability: Durability | None = None
    progress: bool = True

    def options(self, store: Store, graph: Graph[Any, Any], output: Output) -> RunOptions:
        """As the engine takes them.

        Raises:
            CommandError: a limit below what can be, or deps that cannot be made.
        """
        options: RunOptions = {"store": store, "limits": self.limits()}
        if self.on_failure is not None:
            options["on_failure"] = self.on_failure
        if self.durability is not None:
            options["durability"] = self.durability
        if self.deps is not None:
            options["deps"] = targets.load_deps(self.deps)
        elif graph.deps is not None:
            name = getattr(graph.deps, "__name__", "something")
            output.tell(
                f"note: graph `{graph.name}` wants deps (`{name}`) and gets None; --deps MODULE:OBJECT gives them"
            )
        return options

    def limits(self) -> Limits:
        """How far the run may go.

        Raises:
            CommandError: a limit below what can be.
        """
        names = ("steps", "seconds", "requests", "tokens", "tool_calls", "cost")
        given: dict[str, Any] = {name: value for name in names if (value := getattr(self, name)) is not None}
        try:
            return Limits(**given)
        except ValueError as error:
            raise CommandError(str(error)) from error


# -- commands ----------------------------------------------------------------------------------------------------------


def run(target: str, given: str | None, run_id: str | None, settings: Settings, output: Output) -> ExitCode:
    """Start a run, or go on with the one of that id; tells how it stands."""
    if run_id == "":
        raise CommandError("--run-id may not be empty; leave it out to have one made up")
    with output.quiet():
        graph = targets.load_graph(target)
        graph.check()
    data = values.read_input(given, graph.topology.schema)
    if graph.store is not None:
        output.tell(f"note: graph `{graph.name}` has a store of its own; this run is kept in `{settings.store}`")
    with kept.opened(settings.store, make=True, key_env=settings.key_env) as store:
        with output.quiet():
            options = settings.options(store, graph, output)
        name = run_id if run_id is not None else uuid.uuid4().hex[:12]
        way = _way(name, graph, target, settings)
        return _followed(lambda: graph.stream(data, run_id=name, **options), graph, way, settings, output)


@dataclass(frozen=True, slots=True, kw_only=True)
class Additions:
    """What a resumption adds, as it was written."""

    answers: Sequence[str] = ()
    retry: Sequence[str] = ()
    resolve: Sequence[str] = ()
    accept_changes: bool = False


def resume(run_id: str, target: str | None, additions: Additions, settings: Settings, output: Output) -> ExitCode:
    """Go on with a stored run; tells how it stands then."""
    retry = values.read_retries(additions.retry)
    resolve = values.read_resolve(additions.resolve)
    with kept.opened(settings.store, key_env=settings.key_env) as store:
        info = kept.found(store, run_id)
        with output.quiet():
            graph, target, settings = located(run_id, info.graph, target, settings)
            graph.check()
            options = settings.options(store, graph, output)
        answers: Mapping[str, Any] = {}
        if additions.answers:
            # From the journal: the graph may have changed, which the engine will tell better than a failed load.
            story = story_of(info, run_blocking(store.read(run_id)))
            answers = values.read_answers(additions.answers, story.questions)
        way = _way(run_id, graph, target, settings)
        return _followed(
            lambda: graph.stream_resume(
                run_id,
                answers=answers,
                retry=retry,
                resolve=resolve,
                accept_changes=additions.accept_changes,
                **options,
            ),
            graph,
            way,
            settings,
            output,
        )


def located(run_id: str, graph: str, target: str | None, settings: Settings) -> tuple[Graph[Any, Any], str, Settings]:
    """The graph of a stored run: the one that was named, else where it was when it was last run from here.

    Raises:
        CommandError: nobody knows where it is, or it is not there any more.
    """
    if target is not None:
        return targets.load_graph(target), target, settings
    known = recall(graph)
    if known is None:
        raise CommandError(
            f"run `{run_id}` is one of graph `{graph}`, and `{FILE}` does not know where that is: "
            "say it with --graph MODULE:GRAPH"
        )
    try:
        found = targets.load_graph(known.target)
    except targets.UserCodeError:
        raise
    except CommandError as error:
        raise CommandError(
            f"graph `{graph}` was last run as `{known.target}`, and {error}\n"
            "say where it is now with --graph MODULE:GRAPH"
        ) from error
    return found, known.target, settings if settings.deps is not None else replace(settings, deps=known.deps)


def _way(run_id: str, graph: Graph[Any, Any], target: str, settings: Settings) -> Way:
    """How to speak of the run from now on; where its graph is need not be said if it could be noted."""
    noted = remember(graph.name, target, settings.deps)
    return Way(
        run_id=run_id,
        store=settings.store,
        key_env=settings.key_env,
        graph=None if noted else target,
        deps=None if noted else settings.deps,
    )


# -- watching ----------------------------------------------------------------------------------------------------------


def _followed(watching: Watching, graph: Graph[Any, Any], way: Way, settings: Settings, output: Output) -> ExitCode:
    """Execute, show progress, and tell how it ended."""
    watch = _Watch(progress_on(output, live=settings.progress))
    try:
        with output.quiet(), watch.progress:
            # Not run_blocking: on a loop of its own, sync nodes would run inline and hold up the progress.
            ended = asyncio.run(watch.follow(watching))
    except RunFailed as error:
        ended = error.run
    except KeyboardInterrupt:
        return _interrupted(watch, graph, way, output)
    except FlowAgentError as error:
        raise _refused(error, watch, way) from error
    report.tell(ended, way, output, limits=settings.limits())
    return report.CODES[ended.status]


def _refused(error: FlowAgentError, watch: _Watch, way: Way) -> CommandError:
    """Nothing was run, or the run was torn off (a full disk, another owner): what was recorded can be gone on with."""
    if watch.begun:
        more = f"\nwhat was stored is intact; go on with:\n  {way.command()}"
        return CommandError(f"{error}{more}", code=FAILED)
    if isinstance(error, GraphChanged):
        return CommandError(f"{error}; here:\n  {way.command('--accept-changes')}")
    return CommandError(str(error))


class _Watch:
    """Passes the events of a run on to the progress, and remembers whether it had begun."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.begun = False

    async def follow(self, watching: Watching) -> Run[Any]:
        """Execute to the end.

        Raises:
            FlowAgentError: whatever the run raises.
        """
        with woken_by_ctrl_c(asyncio.get_running_loop()):
            async with watching() as events:
                async for event in events:
                    self.begun = self.begun or isinstance(event, RunStarted)
                    self.progress.tell(event)
        return events.run


def _interrupted(watch: _Watch, graph: Graph[Any, Any], way: Way, output: Output) -> ExitCode:
    if not watch.begun:
        output.tell("interrupted before anything was run", style="yellow")
        return INTERRUPTED
    output.tell(f"\ninterrupted; run `{way.run_id}` is stored, go on with:\n  {way.command()}", style="yellow")
    if output.as_json:
        with kept.opened(way.store, key_env=way.key_env) as store:
            output.document(report.document(graph.load_sync(way.run_id, store=store), way))
    return INTERRUPTED
