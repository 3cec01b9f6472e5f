"""Lists runs and shows one, from the store alone: the user's code is loaded only for a picture or the state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, cast, get_args

from flowagent.cli import define, launch, report
from flowagent.cli.kept import found, opened
from flowagent.cli.output import Output, columns, counted, readable, short
from flowagent.cli.problems import DONE, CommandError, ExitCode
from flowagent.cli.report import Way
from flowagent.cli.story import Story, story_of
from flowagent.core.figures import spent
from flowagent.core.history import Step
from flowagent.core.loops import run_blocking
from flowagent.core.records import RunInfo, Status
from flowagent.core.run import Run
from flowagent.stores import Store

STATUSES: Final[tuple[Status, ...]] = get_args(Status)

# -- all runs ----------------------------------------------------------------------------------------------------------


def runs(store: str, statuses: Sequence[str], graph: str | None, limit: int, output: Output) -> ExitCode:
    """List the runs of a store, the newest first.

    Raises:
        CommandError: a status that no run can have.
    """
    for status in statuses:
        if status not in STATUSES:
            raise CommandError(f"--status {status}: a run is one of {', '.join(STATUSES)}")
    wanted = cast("Sequence[Status]", statuses)
    with opened(store) as opened_store:
        listed = run_blocking(opened_store.runs(graph=graph, statuses=wanted, limit=limit + 1))
    shown, more = listed[:limit], len(listed) > limit
    if output.as_json:
        output.document([_summary(info) for info in shown])
    elif not shown:
        output.say(f"no such runs in `{store}`" if statuses or graph else f"no runs in `{store}`")
    else:
        _table(shown, output)
    if more:
        output.tell(f"there are more than {limit}; --limit N shows more")
    return DONE


def _table(shown: Sequence[RunInfo], output: Output) -> None:
    rows = [("RUN", "GRAPH", "STATUS", "RECORDS", "STARTED", "UPDATED")]
    rows += [
        (info.run_id, info.graph, info.status, str(info.next_seq), _local(info.created), _local(info.updated))
        for info in shown
    ]
    lines = columns(rows)
    output.say(lines[0], style="bold")
    for info, line in zip(shown, lines[1:], strict=True):
        output.say(line, style="" if info.status == "completed" else report.STYLES[info.status])


def _summary(info: RunInfo) -> dict[str, Any]:
    return {
        "run_id": info.run_id,
        "graph": info.graph,
        "status": info.status,
        "records": info.next_seq,
        "started": _utc(info.created),
        "updated": _utc(info.updated),
        "parent": info.parent,
    }


def _local(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _utc(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


# -- one run -----------------------------------------------------------------------------------------------------------


def show(way: Way, file: str | None, output: Output) -> ExitCode:
    """Tell what happened in a run; with its graph, also its state and picture."""
    run_id, target, store = way.run_id, way.graph, way.store
    with opened(store, key_env=way.key_env) as opened_store:
        info = found(opened_store, run_id)
        story = story_of(info, run_blocking(opened_store.read(run_id)))
        loaded = _loaded(story, target, opened_store, output) if target is not None or file is not None else None
        if output.as_json:
            output.document(_document(story, loaded, store))
        else:
            _tell(story, loaded, replace(way, graph=None), output)
        if loaded is not None and file is not None:
            define.save(loaded.draw(), file, None, output)
    return DONE


def _loaded(story: Story, target: str | None, store: Store, output: Output) -> Run[Any]:
    info = story.info
    with output.quiet():
        graph, _, _ = launch.located(info.run_id, info.graph, target, launch.Settings())
        return graph.load_sync(info.run_id, store=store)


# -- for programs ------------------------------------------------------------------------------------------------------


def _document(story: Story, loaded: Run[Any] | None, store: str) -> dict[str, Any]:
    return {
        **_summary(story.info),
        "reason": story.reason,
        "steps": [_plain_step(step) for step in story.steps],
        "questions": [question.plain() for question in story.questions],
        "errors": [{"task": step.task, "node": step.node, "errors": list(step.errors)} for step in story.errors],
        "store": store,
    } | ({} if loaded is None else {"state": report.plain_state(loaded)})


def _plain_step(step: Step) -> dict[str, Any]:
    return {
        "seq": step.seq,
        "kind": step.kind,
        "task": step.task,
        "node": step.node,
        "attempt": step.attempt,
        "at": _utc(step.at),
        "seconds": step.seconds,
        "writes": {name: {"kind": kind, "values": values} for name, (kind, values) in step.writes.items()},
        "to": list(step.to),
        "errors": list(step.errors),
        "detail": step.detail,
        "usage": step.usage.plain(),
    }


# -- for people --------------------------------------------------------------------------------------------------------


def _tell(story: Story, loaded: Run[Any] | None, way: Way, output: Output) -> None:
    info = story.info
    report.headline(output, info.run_id, info.graph, info.status, because=f" ({story.reason})" if story.reason else "")
    output.say(
        f"started {_local(info.created)}, last changed {_local(info.updated)}, {counted(info.next_seq, 'record')}"
    )
    output.say("")
    for line in (
        columns([_line(step, story.begun) for step in story.steps]) if story.steps else ["nothing was recorded"]
    ):
        output.say(line)
    if loaded is not None:
        output.say("\nstate:")
        output.say(readable(report.plain_state(loaded)))
    if story.errors:
        output.say(f"\n{counted(len(story.errors), 'task')} failed:")
    for step in story.errors:
        output.say(f"  {step.task}: {'; '.join(step.errors)}", style="red")
    if story.questions:
        report.tell_questions(output, story.questions, way)
    elif info.status not in ("completed", "running"):
        output.say(f"\nto go on:\n  {way.command()}")


def _line(step: Step, begun: float) -> tuple[str, ...]:
    """A step: when, what, which task, how long, and what came of it."""
    took = ", ".join([f"{step.seconds:.3f} s", *spent(step.usage)]) if step.kind in ("done", "item", "failed") else ""
    return (f"{step.at - begun:9.3f}", step.kind, step.task, took, _outcome(step))


def _outcome(step: Step) -> str:
    if step.kind == "failed":
        again = "" if step.final else " (tried again)"
        return f"attempt {step.attempt}: {'; '.join(step.errors)}".replace("\n", " ") + again
    if step.kind == "asked":
        return str(step.detail).replace("\n", " ")
    if step.kind in ("answered", "item", "opened"):
        return short(step.detail)
    written = ", ".join(f"{name} {_written(*write)}" for name, write in step.writes.items())
    to = f"-> {', '.join(step.to)}" if step.to else ""
    return "  ".join(part for part in (to, written) if part)


def _written(kind: str, values: Sequence[Any]) -> str:
    """`= value` for one that was set, `+ delta` for what a reducer adds."""
    sign = {"set": "=", "replace": ":="}.get(kind, "+")
    return f"{sign} {short(values[0] if len(values) == 1 else list(values), 40)}"
