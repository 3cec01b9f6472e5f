"""What is shown of a run while it goes on."""

from __future__ import annotations

import io
import re
import sys
from decimal import Decimal
from typing import Any

import pytest

from flowagent.cli.output import Output
from flowagent.cli.progress import Board, Lines, Row, facts_of, line_of, progress_on
from flowagent.core.events import (
    Asked,
    Emitted,
    Event,
    ModelAsked,
    ModelCalled,
    ModelFailed,
    ModelWaits,
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
from flowagent.core.facts import Failure, Question
from flowagent.core.usage import Usage

FAILURE = Failure(graph="g", node="n", task="n", attempt=1, kind="ValueError", message="no")
QUESTION = Question(id="ask", task="ask", node="ask", name="", text="Really?")


def event(kind: Any, /, task: str = "n", path: tuple[str, ...] = (), attempt: int = 1, **facts: Any) -> Event:
    """An event of a task."""
    of_task = {"task_id": task, "node": task.partition("[")[0], "path": path, "attempt": attempt}
    return kind(run_id="r", number=0, time=0.0, **of_task, **facts)


SPENT = Usage(requests=2, input=1000, output=234, cost=Decimal("0.012"))
OF_MODEL = [
    event(ModelAsked, model="m", asked=None),
    event(TextDelta, text="Hel"),
    event(ModelWaits, model="m", seconds=2.0, kind="overloaded", message="busy", restarted=False),
    event(ModelCalled, model="m", request=1, usage=SPENT, seconds=1.5, first_token=0.2, finish="stop"),
    event(ModelFailed, model="m", asked=None, kind="auth", message="no", usage=SPENT, seconds=0.5),
    event(ToolStarted, tool="add", call_id="1", arguments='{"a": 1}'),
    event(ToolEnded, tool="add", call_id="1", is_error=False, text="2", seconds=0.25),
    event(ToolEnded, tool="add", call_id="2", is_error=True, text="no number", seconds=0.25),
]

EVENTS = [
    RunStarted(run_id="r", number=0, time=0.0, graph="g", resumed=True),
    event(TaskStarted),
    event(TaskStarted, attempt=2),
    event(TaskFailed, failures=(FAILURE,), retry_in=0.5),
    event(TaskFailed, failures=(FAILURE,), retry_in=None, attempt=2),
    event(TaskDone, update={}, to=("a", "b"), seconds=0.25),
    event(TaskDone, update={}, to=(), seconds=0.25),
    event(Asked, question=QUESTION),
    event(Emitted, name="log", data="half way"),
    event(Emitted, name="share", data={"of": 0.5}),
    event(Warned, text="odd"),
    RunEnded(run_id="r", number=9, time=0.0, status="waiting"),
]


def test_each_event_is_a_line() -> None:
    """All of what can be told, in words; the end of a run is told by the command."""
    assert [line_of(one) for one in EVENTS] == [
        "run `r` of graph `g` goes on",
        "  start   n",
        "  start   n, attempt 2",
        "  failed  n: ValueError: no; again in 0.5 s",
        "  failed  n, attempt 2: ValueError: no",
        "  done    n  0.250 s -> a, b",
        "  done    n  0.250 s",
        "  asks    ask: Really?",
        "  log     n: half way",
        '  emits   n: share {"of": 0.5}',
        "  warns   n: odd",
        None,
    ]


class Terminal(io.TextIOWrapper):
    """A stream that says it is a terminal."""

    def __init__(self, encoding: str) -> None:
        super().__init__(io.BytesIO(), encoding=encoding, errors="replace", write_through=True)

    def isatty(self) -> bool:
        return True

    def text(self) -> str:
        self.seek(0)
        return self.read()


def output_on(stream: io.TextIOBase, monkeypatch: pytest.MonkeyPatch) -> Output:
    """Output whose stderr is that stream, in a plain terminal."""
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    return Output()


def test_what_models_and_tools_do_is_a_line_each() -> None:
    """Text that comes in pieces is none: it is whole when the node is done."""
    assert [line_of(one) for one in (*OF_MODEL, event(TaskDone, update={}, to=(), seconds=1.0, usage=SPENT))] == [
        None,
        None,
        "  waits   n: m (overloaded: busy), 2.0 s",
        "  model   n: m answered in 1.50 s, 1,234 tokens, $0.012 (stop)",
        "  model   n: m failed in 0.50 s, 1,234 tokens, $0.012 (auth)",
        '  calls   n: add "{\\"a\\": 1}"',
        '  tool    n: add in 0.25 s: "2"',
        '  tool    n: add failed in 0.25 s: "no number"',
        "  done    n  1.000 s, 1,234 tokens, $0.012",
    ]


def test_a_row_tells_what_its_node_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Failed attempts included; what models and tools do in between makes no rows."""
    board = Board(output_on(Terminal("utf-8"), monkeypatch))
    for one in (*OF_MODEL, event(TaskFailed, failures=(FAILURE,), retry_in=0.5, usage=SPENT)):
        board.tell(one)
    board.tell(event(TaskDone, update={}, to=(), seconds=1.0, usage=SPENT))
    assert {path: facts_of(row) for path, row in board.rows.items()} == {
        ("n",): "1.00 s, 2,468 tokens, $0.024, 1 retry"
    }


@pytest.mark.parametrize(("encoding", "mark"), [("utf-8", "\u2717"), ("ascii", "x")])
def test_terminal_shows_a_table_of_nodes(encoding: str, mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row for each node, nested ones indented; what nodes say goes above; ASCII where need be."""
    terminal = Terminal(encoding)
    board = progress_on(output_on(terminal, monkeypatch), live=True)
    assert isinstance(board, Board)
    with board:
        for one in EVENTS:
            board.tell(one)
        for task in ("m[0]", "m[1]", "m"):
            board.tell(event(TaskStarted, task, ("outer",)))
            board.tell(event(TaskDone, task, ("outer",), update={}, to=(), seconds=0.5))
        board.tell(event(TaskStarted, "late"))
    text = terminal.text()
    assert "log     n: half way" in text
    final = [line.rstrip() for line in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text).splitlines()][-3:]
    assert final[0] == f"{mark}  n     2 times, 0.50 s, 1 retry, 1 failed, 1 question"
    assert final[1].endswith("m   2 items, 1.50 s")
    assert final[2].endswith("late  running, 0 s")


def test_row_tells_what_it_counts() -> None:
    """Several at once, and how long the longest of them has been running."""
    assert facts_of(Row()) == ""
    assert facts_of(Row(retries=2, done=1, seconds=1.0)) == "1.00 s, 2 retries"
    assert facts_of(Row(running={"a": float("inf"), "b": float("inf")})).startswith("2 running, ")


@pytest.mark.parametrize("how", ["dumb", "piped", "unwanted"])
def test_lines_are_written_where_a_table_cannot_be(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a dumb terminal, into a pipe (even if colours are forced), and with `--no-progress`."""
    output = output_on(io.StringIO() if how == "piped" else Terminal("utf-8"), monkeypatch)
    monkeypatch.setenv("FORCE_COLOR", "1")
    if how == "dumb":
        monkeypatch.setenv("TERM", "dumb")
    assert isinstance(progress_on(output, live=how != "unwanted"), Lines)
