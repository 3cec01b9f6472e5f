"""Shows what a run is doing while it does it: a table of its nodes in a terminal, else a line for each event."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Protocol, Self, assert_never

from rich.console import Console, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from flowagent.cli.output import Output, counted, safe, short
from flowagent.core.events import (
    Asked,
    Emitted,
    Event,
    ModelAsked,
    ModelCalled,
    ModelFailed,
    ModelWaits,
    OfModel,
    RunEnded,
    RunStarted,
    TaskDone,
    TaskFailed,
    TaskStarted,
    TextDelta,
    ToolEnded,
    ToolStarted,
    Warned,
)
from flowagent.core.figures import spent
from flowagent.core.usage import NO_USAGE, Usage


class Progress(Protocol):
    """Something that is told what happens, and begins and ends with a run."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...

    def tell(self, event: Event) -> None:
        """Show an event."""
        ...


def progress_on(output: Output, *, live: bool) -> Progress:
    """The right kind of progress for where stderr goes."""
    console = output.err
    if live and console.is_terminal and console.file.isatty() and not console.is_dumb_terminal:
        return Board(output)
    return Lines(output)


# -- lines -------------------------------------------------------------------------------------------------------------


class Lines:
    """A line on stderr for each event."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    def tell(self, event: Event) -> None:
        """Write an event's line."""
        line = line_of(event)
        if line is not None:
            self._output.tell(line)


def line_of(event: Event) -> str | None:
    """An event in one line; None for those that the end of the command tells anyway."""
    match event:
        case RunStarted():
            return f"run `{event.run_id}` of graph `{event.graph}` {'goes on' if event.resumed else 'starts'}"
        case TaskStarted():
            return f"  start   {event.task_id}{_tries(event.attempt)}"
        case TaskDone():
            return f"  done    {event.task_id}  {event.seconds:.3f} s{_cost(event.usage)}{_going(event.to)}"
        case TaskFailed():
            again = "" if event.retry_in is None else f"; again in {event.retry_in:.1f} s"
            return f"  failed  {event.task_id}{_tries(event.attempt)}: {_reasons(event)}{again}"
        case Asked():
            return f"  asks    {event.question.id}: {event.question.text}"
        case Emitted() | Warned():
            return f"  {_said(event)}"
        case RunEnded():
            return None
        case _:
            return _of_model(event)


def _of_model(event: OfModel) -> str | None:
    """What models and tools do; text comes in pieces that are no lines, and stands in the state when it is whole."""
    match event:
        case TextDelta() | ModelAsked():
            return None
        case ModelCalled():
            cost = _cost(event.usage)
            return f"  model   {event.task_id}: {event.model} answered in {event.seconds:.2f} s{cost} ({event.finish})"
        case ModelFailed():
            cost = _cost(event.usage)
            return f"  model   {event.task_id}: {event.model} failed in {event.seconds:.2f} s{cost} ({event.kind})"
        case ModelWaits():
            return f"  waits   {event.task_id}: {event.model} ({event.kind}: {event.message}), {event.seconds:.1f} s"
        case ToolStarted():
            return f"  calls   {event.task_id}: {event.tool} {short(event.arguments)}"
        case ToolEnded():
            failed = " failed" if event.is_error else ""
            return f"  tool    {event.task_id}: {event.tool}{failed} in {event.seconds:.2f} s: {short(event.text)}"
        case _:
            assert_never(event)


def _cost(usage: Usage) -> str:
    return "".join(f", {part}" for part in spent(usage))


def _tries(attempt: int) -> str:
    return "" if attempt == 1 else f", attempt {attempt}"


def _going(to: tuple[str, ...]) -> str:
    return f" -> {', '.join(to)}" if to else ""


def _reasons(event: TaskFailed) -> str:
    return "; ".join(f"{failure.kind}: {failure.message}" for failure in event.failures)


def _said(event: Emitted | Warned) -> str:
    if isinstance(event, Warned):
        return f"warns   {event.task_id}: {event.text}"
    if event.name == "log":
        return f"log     {event.task_id}: {event.data}"
    return f"emits   {event.task_id}: {event.name} {short(event.data)}"


# -- a table -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Row:
    """What one node has done so far; a map counts its items apart."""

    running: dict[str, float] = field(default_factory=dict[str, float])
    done: int = 0
    items: int = 0
    failed: int = 0
    retries: int = 0
    asking: int = 0
    seconds: float = 0.0
    usage: Usage = NO_USAGE


class Board:
    """A table in the terminal with one row for each node that has begun; it stays as long as the graph, not the run."""

    def __init__(self, output: Output) -> None:
        self._console: Console = output.err
        self.rows: dict[tuple[str, ...], Row] = {}
        self._plain = not output.err.encoding.lower().startswith("utf")
        self._spinner = Spinner("line" if self._plain else "dots", style="cyan")
        # What nodes print goes above the table, unless stdout is a file or a pipe: then it belongs there.
        self._live = Live(
            console=self._console,
            get_renderable=self._table,
            refresh_per_second=8,
            redirect_stdout=output.out.is_terminal and not output.as_json,
            vertical_overflow="ellipsis",
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._live.stop()

    def tell(self, event: Event) -> None:
        """Count an event; what a node says is written above the table."""
        if isinstance(event, (RunStarted, RunEnded)):
            return
        if isinstance(event, (Emitted, Warned)):
            self._live.console.print(Text(safe(_said(event)), "yellow" if isinstance(event, Warned) else ""))
            return
        if not isinstance(event, (TaskStarted, TaskDone, TaskFailed, Asked)):
            return  # what a node does inside stands in its row when it is done
        self._count(self.rows.setdefault((*event.path, event.node), Row()), event)

    def _count(self, row: Row, event: TaskStarted | TaskDone | TaskFailed | Asked) -> None:
        if isinstance(event, TaskStarted):
            row.running[event.task_id] = time.monotonic()
            return
        row.running.pop(event.task_id, None)
        if not isinstance(event, Asked):
            row.usage += event.usage
        match event:
            case TaskDone():
                is_item = event.task_id.endswith("]")  # brackets in names are escaped in ids
                row.items += is_item
                row.done += not is_item
                row.seconds += event.seconds
            case TaskFailed():
                row.retries += event.retry_in is not None
                row.failed += event.retry_in is None
            case Asked():
                row.asking += 1
            case _:
                assert_never(event)

    def _table(self) -> RenderableType:
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        for path, row in list(self.rows.items()):  # the refreshing thread reads while rows are added
            mark, style = self._mark(row)
            name = Text("  " * (len(path) - 1) + safe(path[-1]), style)
            table.add_row(mark, name, Text(facts_of(row), style if row.failed or row.asking else "dim"))
        return table

    def _mark(self, row: Row) -> tuple[RenderableType, str]:
        if row.running:
            return self._spinner, "cyan"
        if row.failed:
            return Text("x" if self._plain else "✗", "red"), "red"
        if row.asking:
            return Text("?", "yellow"), "yellow"
        return Text("+" if self._plain else "✓", "green"), ""


def facts_of(row: Row) -> str:
    """What a row says after the name."""
    facts: list[str] = []
    if begun := list(row.running.values()):
        several = f"{len(begun)} " if len(begun) > 1 else ""
        facts.append(f"{several}running, {time.monotonic() - min(begun):.0f} s")
    if row.items:
        facts.append(counted(row.items, "item"))
    if row.done > 1:
        facts.append(f"{row.done} times")
    if row.done or row.items:
        facts.append(f"{row.seconds:.2f} s")
    facts.extend(spent(row.usage))
    if row.retries:
        facts.append("1 retry" if row.retries == 1 else f"{row.retries} retries")
    if row.failed:
        facts.append(f"{row.failed} failed")
    if row.asking:
        facts.append(counted(row.asking, "question"))
    return ", ".join(facts)
