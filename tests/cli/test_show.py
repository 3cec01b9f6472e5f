"""`runs` and `show`: what a store tells without the code that made it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import CommandLine

NO_STORE = (
    "there is no store `.flowagent/runs.db`: no run was started in this directory, or it is kept in another --store"
)

SHOWN = """\
run `r` of graph `triage`: waiting
started DATE, last changed DATE, 5 records

  AT  done   classify  T s  -> by_queue  queue = "billing"
  AT  done   by_queue  T s  -> approve
  AT  asked  approve            Refund my invoice?

1 open question:
  approve: Refund my invoice?
    flowagent resume r --answer approve=approve
    flowagent resume r --answer approve=deny
"""

HANDLED = """\
run `b` of graph `book`: failed
started DATE, last changed DATE, 9 records

  AT  item    read[0]       T s  0
  AT  failed  read[1]       T s  attempt 1: ValueError: unreadable
  AT  done    read          T s  -> bind  pages = [0, {"index": 1, "kind": "ValueError"...
  AT  failed  bind          T s  attempt 1: OSError: no glue
  AT  done    mend@~(bind)  T s  -> chapter  said = "no glue"
  AT  opened  chapter                {"numbers": [0, 1]}
  AT  failed  chapter/turn  T s  attempt 1: RuntimeError: torn

1 task failed:
  chapter/turn: RuntimeError: torn

to go on:
  flowagent resume b
"""


def timeless(text: str) -> str:
    """Text with times replaced by words."""
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "DATE", text)
    text = re.sub(r"\d+\.\d{3} s", "T s", text)
    return re.sub(r"(?m)^ +\d+\.\d{3} ", "  AT ", text)


def test_show_tells_what_happened_without_the_code(cli: CommandLine, folder: Path) -> None:
    """Status, a timeline of steps, and open questions with the commands that answer them."""
    cli("run", "triage_flow:g", '{"text": "my invoice"}', "--run-id", "r")
    for file in folder.glob("*.py"):
        file.unlink()
    del sys.modules["triage_flow"]
    ended = cli("show", "r")
    assert (ended.code, timeless(ended.out), ended.err) == (0, SHOWN, "")


def test_show_tells_what_each_step_spent(cli: CommandLine) -> None:
    """Beside how long it took; for programs all of it."""
    cli("run", "spend_flow:g", "--run-id", "r")
    spent = {"requests": 1, "tool_calls": 1, "input": 200, "cost": "0.40"}
    assert [step["usage"] for step in cli("show", "r", "--json").document["steps"]] == [spent, {}, spent, {}]
    assert cli("show", "r").out.count(" s, 200 tokens, $0.40 ") == 2


def test_show_tells_the_same_as_json(cli: CommandLine) -> None:
    """Every step with what it wrote and where it led."""
    cli("run", "small_flow:g", '{"number": 21}', "--run-id", "r")
    document = cli("show", "r", "--json").document
    assert [document.pop(name)[:2] for name in ("started", "updated")] == ["20", "20"]
    (step,) = document.pop("steps")
    assert document == {
        "run_id": "r",
        "graph": "double",
        "status": "completed",
        "records": 3,
        "parent": None,
        "reason": "",
        "questions": [],
        "errors": [],
        "store": ".flowagent/runs.db",
    }
    del step["at"], step["seconds"]
    assert step == {
        "seq": 1,
        "kind": "done",
        "task": "double",
        "node": "double",
        "attempt": 1,
        "writes": {"number": {"kind": "set", "values": [42]}},
        "to": ["END"],
        "errors": [],
        "detail": None,
        "usage": {},
    }


def test_show_lists_only_the_failures_that_stand(cli: CommandLine) -> None:
    """Not those that an item's policy or a handler took care of; nested ones by their own task."""
    cli("run", "handled_flow:g", "--run-id", "b")
    assert timeless(cli("show", "b").out) == HANDLED


def test_show_forgets_failures_and_questions_that_are_over(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a retry that worked and an answer that was given, only the timeline tells of them."""
    cli("run", "triage_flow:g", '{"text": "boom"}', "--run-id", "f")
    monkeypatch.setenv("MENDED", "1")
    cli("resume", "f")
    cli("run", "triage_flow:g", '{"text": "invoice"}', "--run-id", "q")
    cli("resume", "q", "--answer", "approve=deny")
    for name in ("f", "q"):
        document = cli("show", name, "--json").document
        assert (document["status"], document["questions"], document["errors"]) == ("completed", [], [])


def test_show_with_the_graph_shows_the_state_and_a_picture(cli: CommandLine, folder: Path) -> None:
    """`--draw` finds the graph by itself; `--graph` alone shows the state."""
    cli("run", "small_flow:g", '{"number": 21}', "--run-id", "r")
    drawn = cli("show", "r", "--draw", "r.svg")
    assert (drawn.code, drawn.err) == (0, "saved r.svg\n")
    assert (folder / "r.svg").read_text().startswith("<?xml")
    assert drawn.out.endswith('\nstate:\n{\n  "number": 42\n}\n')
    assert cli("show", "r", "--graph", "small_flow.py:g", "--json").document["state"] == {"number": 42}


def test_show_of_an_unknown_run_or_picture_is_refused(cli: CommandLine) -> None:
    """Exit code 2 and what there is."""
    cli("run", "small_flow:g", "--run-id", "first")
    assert cli("show", "frist").err == (
        "error: there is no run `frist` in SQLite store `.flowagent/runs.db`; did you mean `first`?\n"
    )
    ended = cli("show", "first", "--draw", "first.jpg")
    assert (ended.code, ended.err) == (
        2,
        "error: cannot save `first.jpg`: the suffix `.jpg` is unknown; use one of .dot, .gv, .svg, .png, .mmd\n",
    )


def test_runs_are_listed_the_newest_first(cli: CommandLine) -> None:
    """One line each; columns stand below one another, wide names included."""
    cli("run", "small_flow:g", "--run-id", "\u5317\u4eac")
    cli("run", "triage_flow:g", '{"text": "invoice"}', "--run-id", "second")
    assert timeless(cli("runs").out) == (
        "RUN     GRAPH   STATUS     RECORDS  STARTED              UPDATED\n"
        "second  triage  waiting    5        DATE  DATE\n"
        "\u5317\u4eac    double  completed  3        DATE  DATE\n"
    )


def test_runs_can_be_chosen(cli: CommandLine) -> None:
    """By status and graph; a limit says that there are more."""
    for name in ("a", "b", "c"):
        cli("run", "small_flow:g", "--run-id", name)
    cli("run", "triage_flow:g", '{"text": "invoice"}', "--run-id", "w")

    def listed(*words: str) -> list[str]:
        return [run["run_id"] for run in cli("runs", "--json", *words).document]

    assert listed() == ["w", "c", "b", "a"]
    assert listed("--status", "waiting", "--status", "failed") == ["w"]
    assert listed("--graph", "double") == ["c", "b", "a"]
    limited = cli("runs", "--limit", "2", "--json")
    assert ([run["run_id"] for run in limited.document], limited.err) == (
        ["w", "c"],
        "there are more than 2; --limit N shows more\n",
    )
    assert cli("runs", "--status", "failed").out == "no such runs in `.flowagent/runs.db`\n"
    assert cli("runs", "--status", "done").err == (
        "error: --status done: a run is one of running, waiting, failed, cancelled, limit, interrupted, completed\n"
    )


@pytest.mark.parametrize("words", [["runs"], ["show", "r"], ["resume", "r"]])
def test_store_that_is_missing_foreign_or_damaged_is_told(cli: CommandLine, folder: Path, words: list[str]) -> None:
    """One message, exit code 2, and no file is made or changed."""
    missing = cli(*words)
    assert (missing.code, missing.err) == (
        2,
        f"error: {NO_STORE}\n",
    )
    assert not (folder / ".flowagent").exists()
    assert cli(*words, "--store", "no.db").err == "error: there is no store `no.db`: check --store\n"
    cli("run", "small_flow:g", "--store", "good.db")
    (folder / "cut.db").write_bytes((folder / "good.db").read_bytes()[:6000])
    (folder / "text.db").write_text("just text")
    for name, part in (("cut.db", "is damaged"), ("text.db", "is not a SQLite database")):
        before = (folder / name).read_bytes()
        ended = cli(*words, "--store", name)
        assert (ended.code, ended.out) == (2, "")
        assert part in ended.err
        assert ended.err.count("\n") == 1
        assert (folder / name).read_bytes() == before
