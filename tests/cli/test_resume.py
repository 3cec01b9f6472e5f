"""`resume`: where it finds the graph, what it takes, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flowagent import Graph
from flowagent.cli.targets import load_graph
from tests.cli import flows
from tests.cli.conftest import CommandLine


def test_resume_finds_the_graph_and_deps_where_they_were(cli: CommandLine, folder: Path) -> None:
    """What `run` was told of code is remembered by graph, and nothing else."""
    cli("run", "deps_flow:g", "--deps", "deps_flow:near", "--steps", "1", "--run-id", "r")
    cli("run", "triage_flow:g", '{"text": "my secret invoice"}')
    remembered = (folder / ".flowagent" / "graphs.json").read_text()
    assert "secret" not in remembered
    assert "deps_flow:near" in remembered
    assert cli("resume", "r", "--json").document["state"] == {"seen": "made before"}


@pytest.mark.parametrize(
    ("remembered", "message"),
    [
        (
            None,
            (
                "run `r` is one of graph `triage`, and `.flowagent/graphs.json` does not know where that is: "
                "say it with --graph MODULE:GRAPH"
            ),
        ),
        (
            "{",
            "`.flowagent/graphs.json` is damaged: say where the graph is with --graph MODULE:GRAPH, or remove the file",
        ),
        (
            '{"graphs": {"triage": {"target": "gone.py:g"}}}',
            (
                "graph `triage` was last run as `gone.py:g`, and `gone.py`: there is no such file\n"
                "say where it is now with --graph MODULE:GRAPH"
            ),
        ),
    ],
)
def test_resume_says_when_the_graph_cannot_be_found(
    cli: CommandLine, folder: Path, remembered: str | None, message: str
) -> None:
    """And `--graph` is the way out."""
    cli("run", "triage_flow:g", '{"text": "invoice"}', "--run-id", "r")
    file = folder / ".flowagent" / "graphs.json"
    file.unlink()
    if remembered is not None:
        file.write_text(remembered)
    ended = cli("resume", "r", "--answer", "approve=deny")
    assert (ended.code, ended.out, ended.err) == (2, "", f"error: {message}\n")
    assert cli("resume", "r", "--answer", "approve=deny", "--graph", "triage_flow.py:g").code == 0


def test_commands_say_where_the_graph_is_when_it_cannot_be_remembered(cli: CommandLine, folder: Path) -> None:
    """A folder that cannot be written costs only that."""
    (folder / ".flowagent").write_text("a file in its place")
    words = ["run", "triage_flow:g", '{"text": "invoice"}', "--run-id", "r", "--store", "r.db"]
    last = cli(*words).out.splitlines()[-1]
    assert last == "    flowagent resume r --answer approve=deny --graph triage_flow:g --store r.db"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--answer", "approve"], "--answer approve: write --answer ID=VALUE"),
        (["--answer", "=deny"], "--answer =deny: write --answer ID=VALUE"),
        (["--answer", "approve=deny", "--answer", "approve=deny"], "--answer approve: answered twice"),
        (["--answer", "aprove=deny"], "there is no open question `aprove`; open are: `approve`"),
        (
            ["--answer", "approve=maybe"],
            "the answer to `approve` does not fit: Input should be 'approve' or 'deny' (got 'maybe')",
        ),
        (
            ["--retry", "approve=stale"],
            "--retry approve=stale: write TASK=fresh, which drops what the task's steps have recorded",
        ),
        (["--retry", "approve"], "--retry approve: write --retry TASK=fresh"),
        (
            ["--retry", "technical=fresh"],
            "run `r` has no unfinished task `technical`; unfinished are: `approve`",
        ),
        (
            ["--resolve", "text=hello"],
            (
                "--resolve text=hello: the value is no JSON: expected value at line 1 column 1; "
                "text is written as 'text=\"hello\"'"
            ),
        ),
        (["--resolve", 'text="hello"'], "resolve= names `text`, and no failed merge is about that"),
    ],
)
def test_resume_refuses_what_does_not_fit(cli: CommandLine, words: list[str], message: str) -> None:
    """Exit code 2; the stored run is as it was."""
    cli("run", "triage_flow:g", '{"text": "invoice"}', "--run-id", "r")
    before = cli("show", "r", "--json").document["steps"]
    ended = cli("resume", "r", *words)
    assert (ended.code, ended.out, ended.err) == (2, "", f"error: {message}\n")
    after = cli("show", "r", "--json").document
    assert (after["steps"], after["status"]) == (before, "waiting")


def test_resume_of_an_unknown_run_names_the_nearest(cli: CommandLine) -> None:
    """Exit code 2, and where it was looked for."""
    cli("run", "small_flow:g", "--run-id", "august-7")
    ended = cli("resume", "august")
    assert (ended.code, ended.err) == (
        2,
        "error: there is no run `august` in SQLite store `.flowagent/runs.db`; did you mean `august-7`?\n",
    )
    assert cli("resume", "x").err.endswith("; `flowagent runs` lists those it has\n")


def test_resume_after_the_graph_changed_needs_a_word(cli: CommandLine, folder: Path) -> None:
    """What changed is listed, with the command that goes on all the same."""
    cli("run", "triage_flow:g", '{"text": "invoice"}', "--run-id", "r")
    more = "\n\n@g.node\ndef log(t: Ticket) -> Update:\n    return None\n\n\ng.chain(START, log, END)\n"
    (folder / "changed.py").write_text(flows.TRIAGE + more)
    ended = cli("resume", "r", "--answer", "approve=deny", "--graph", "changed:g")
    assert ended.code == 2
    assert "`log`" in ended.err
    assert ended.err.endswith("here:\n  flowagent resume r --accept-changes\n")
    accepted = cli("resume", "r", "--answer", "approve=deny", "--graph", "changed:g", "--accept-changes")
    assert accepted.code == 0


def test_run_that_was_cancelled_is_resumed_on_purpose(cli: CommandLine) -> None:
    """`run` refuses it, `resume` goes on with it."""
    words = ["run", "triage_flow:g", '{"text": "invoice"}', "--run-id", "r"]
    cli(*words)
    graph: Graph[Any, Any] = load_graph("triage_flow:g")
    graph.cancel_sync("r", store=".flowagent/runs.db")
    refused = cli(*words)
    assert (refused.code, refused.err) == (2, "error: run `r` was cancelled; resume('r') goes on with it\n")
    assert cli("resume", "r").code == 3
