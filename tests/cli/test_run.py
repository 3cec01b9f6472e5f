"""`run`: what it does, says and returns; and the commands that it names, typed as they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flowagent.cli import define
from tests.cli import flows
from tests.cli.conftest import CommandLine

COMPLETED = """\
run `r` of graph `double`: completed

{
  "number": 42
}
"""

WAITING = """\
run `r` of graph `triage`: waiting for 1 answer

{
  "text": "my invoice",
  "queue": "billing",
  "notes": [],
  "verdict": null,
  "scan": ""
}

1 open question:
  approve: Refund my invoice?
    flowagent resume r --answer approve=approve
    flowagent resume r --answer approve=deny
"""

FAILED = """\
run `r` of graph `triage` starts
  start   classify
  done    classify  T s -> by_queue
  start   by_queue
  done    by_queue  T s -> technical
  start   technical
  failed  technical: ValueError: it went off

1 task failed:
  technical: ValueError: it went off
      at triage_flow.py:48: `raise ValueError("it went off")`
mend the cause, then go on from here with:
  flowagent resume r
"""


def timeless(text: str) -> str:
    """Text with durations replaced by `T`."""
    return re.sub(r"\d+\.\d{3}(?= s\b)", "T", text)


# -- how a run ends ----------------------------------------------------------------------------------------------------


def test_run_ends_by_saying_status_and_state(cli: CommandLine) -> None:
    """Exit code 0 when it is completed; progress is on stderr."""
    ended = cli("run", "small_flow:g", '{"number": 21}', "--run-id", "r")
    assert (ended.code, ended.out) == (0, COMPLETED)
    assert timeless(ended.err) == ("run `r` of graph `double` starts\n  start   double\n  done    double  T s -> END\n")


def test_run_that_waits_says_how_to_answer(cli: CommandLine) -> None:
    """Exit code 3, the questions, and for each answer the exact command; then that command completes it."""
    ended = cli("run", "triage_flow:g", '{"text": "my invoice"}', "--run-id", "r")
    assert (ended.code, ended.out) == (3, WAITING)
    answered = cli(*ended.out.splitlines()[-1].split()[1:])
    assert answered.code == 0
    assert '"billing \u5317 deny"' in answered.out


def test_run_that_fails_says_where_and_how_to_go_on(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 1, the error with the line of user code, the exact command to resume; which runs only what failed."""
    ended = cli("run", "triage_flow:g", '{"text": "boom"}', "--run-id", "r")
    assert (ended.code, timeless(ended.err)) == (1, FAILED)
    assert ended.out.startswith("run `r` of graph `triage`: failed\n\n{\n")
    monkeypatch.setenv("MENDED", "1")
    resumed = cli("resume", "r")
    assert resumed.code == 0
    assert timeless(resumed.err) == (
        "run `r` of graph `triage` goes on\n  start   technical, attempt 2\n  done    technical  T s -> END\n"
    )


def test_failed_run_shows_tracebacks_on_request(cli: CommandLine) -> None:
    """`--traceback` shows how the node came to fail."""
    words = ["run", "triage_flow:g", '{"text": "boom"}']
    assert "Traceback" not in cli(*words).err
    assert "Traceback (most recent call last):" in cli(*words, "--traceback").err


def test_run_stops_at_a_limit_and_says_how_to_go_on(cli: CommandLine) -> None:
    """Exit code 4; the command that it names goes on."""
    ended = cli("run", "triage_flow:g", '{"text": "hello"}', "--run-id", "r", "--steps", "1")
    assert ended.code == 4
    assert ended.err.endswith(": reached the limit of 1 steps; to go on:\n  flowagent resume r --steps 2\n")
    assert cli("resume", "r", "--steps", "2").code == 0


@pytest.mark.parametrize(
    ("limit", "higher"),
    [
        (["--requests", "1"], ["--requests", "2"]),
        (["--tool-calls", "1"], ["--tool-calls", "2"]),
        (["--tokens", "120"], ["--tokens", "400"]),
        (["--cost", "0.2"], ["--cost", "0.80"]),
    ],
)
def test_run_stops_when_so_much_is_spent(limit: list[str], higher: list[str], cli: CommandLine) -> None:
    """Exit code 4; what was spent is told, and the command that it names goes on with room for as much again."""
    ended = cli("run", "spend_flow:g", "--run-id", "r", *limit)
    assert ended.code == 4
    assert ended.err.splitlines()[-1] == f"  flowagent resume r {' '.join(higher)}"
    assert "\nspent: " in ended.out
    end = cli("resume", "r", *higher, "--json")
    assert (end.code, end.document["usage"]) == (
        0,
        {"requests": 2, "tool_calls": 2, "input": 400, "cost": "0.80"},
    )


def test_run_stops_after_so_many_seconds(cli: CommandLine) -> None:
    """Exit code 4, also when a node does not come back."""
    ended = cli("run", "triage_flow:g", '{"text": "slow"}', "--run-id", "r", "--seconds", "0.2")
    assert ended.code == 4
    assert ended.err.endswith("stopped: reached the limit of 0.2 s; to go on:\n  flowagent resume r\n")


def test_conflict_says_how_to_settle_it(cli: CommandLine) -> None:
    """A failed merge is settled by hand with `--resolve`."""
    ended = cli("run", "conflict_flow:g", "--run-id", "r")
    assert ended.code == 1
    assert "to settle a field by hand:\n  flowagent resume r --resolve FIELD=JSON\n" in ended.err
    resolved = cli("resume", "r", "--resolve", "number=7", "--json")
    assert (resolved.code, resolved.document["state"]) == (0, {"number": 7})


def test_known_run_is_gone_on_with_and_not_repeated(cli: CommandLine) -> None:
    """The same command again executes nothing and says so; another input is refused."""
    words = ["run", "small_flow:g", '{"number": 21}', "--run-id", "r"]
    cli(*words)
    again = cli(*words)
    assert (again.code, again.err) == (0, "")
    assert again.out == COMPLETED.replace("completed", "completed (before this; nothing was executed)")
    other = cli("run", "small_flow:g", '{"number": 22}', "--run-id", "r")
    assert (other.code, other.out) == (2, "")
    assert other.err.startswith("error: run `r` in SQLite store `.flowagent/runs.db` was started with another input")


def test_run_without_an_id_gets_one(cli: CommandLine) -> None:
    """Two runs are two runs."""
    first, second = cli("run", "small_flow:g", "--json").document, cli("run", "small_flow:g", "--json").document
    assert first["run_id"] != second["run_id"]


def test_policies_reach_the_engine(cli: CommandLine) -> None:
    """`--on-failure` and `--durability` are taken; anything else is a usage error."""
    ended = cli("run", "small_flow:g", "--on-failure", "continue", "--durability", "exit")
    assert ended.code == 0
    assert cli("run", "small_flow:g", "--on-failure", "ignore").code == 2


# -- as JSON -----------------------------------------------------------------------------------------------------------


def test_json_is_one_document(cli: CommandLine) -> None:
    """All that a program needs is in it."""
    ended = cli("run", "triage_flow:g", '{"text": "boom invoice", "scan": "aGk="}', "--run-id", "r", "--json")
    assert ended.code == 3
    assert ended.document == {
        "run_id": "r",
        "graph": "triage",
        "status": "waiting",
        "reason": "",
        "replayed": False,
        "state": {"text": "boom invoice", "queue": "billing", "notes": [], "verdict": None, "scan": "aGk="},
        "unmerged": [],
        "questions": [
            {
                "id": "approve",
                "task": "approve",
                "node": "approve",
                "name": "",
                "text": "Refund boom invoice?",
                "schema": {"enum": ["approve", "deny"], "type": "string"},
                "purpose": "ask",
            }
        ],
        "errors": [],
        "warnings": [],
        "usage": {},
        "store": ".flowagent/runs.db",
        "resume": "flowagent resume r",
    }


def test_json_of_a_failed_run_has_its_errors(cli: CommandLine) -> None:
    """The same document, exit code 1."""
    ended = cli("run", "triage_flow:g", '{"text": "boom"}', "--run-id", "r", "--json")
    assert ended.code == 1
    assert ended.document["errors"] == [
        {
            "graph": "triage",
            "node": "technical",
            "task": "technical",
            "attempt": 1,
            "kind": "ValueError",
            "message": "it went off",
        }
    ]


def test_json_writes_nothing_to_stdout_when_the_command_is_refused(cli: CommandLine) -> None:
    """The message is on stderr, the exit code says that nothing was run."""
    ended = cli("run", "small_flow:g", "{", "--json")
    assert (ended.code, ended.out) == (2, "")


# -- the input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["in.json", "@in.json", "-", '{"number": 21}', " {\n}"])
def test_input_comes_from_where_it_is_said(cli: CommandLine, folder: Path, given: str) -> None:
    """JSON, a file that exists, @FILE, or - for stdin; a byte-order mark is no part of it."""
    (folder / "in.json").write_bytes(b'\xef\xbb\xbf{"number": 21}')
    ended = cli("run", "small_flow:g", given, "--json", stdin=b'{"number": 21}')
    assert (ended.code, ended.document["state"]["number"]) == (0, 2 if given == " {\n}" else 42)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ('{"number": 1 2}', "the input is no JSON: expected `,` or `}` at line 1 column 14"),
        ("-", "the input from stdin is no JSON: EOF while parsing a value at line 1 column 0"),
        ("bad.json", "the input in `bad.json` is no JSON: key must be a string at line 2 column 1"),
        ("@bad.json", "the input in `bad.json` is no JSON: key must be a string at line 2 column 1"),
        ("@none.json", "the input `none.json` cannot be read: No such file or directory"),
        ("none.json", "the input `none.json` is neither JSON nor a file that exists"),
        ("[1, 2]", "the input must be a JSON object of the fields of `Count`, not a list"),
        ("null", "the input must be a JSON object of the fields of `Count`, not null"),
        (
            '{"number": "many"}',
            (
                "the input does not fit `Count`: number: Input should be a valid integer, unable to parse string as an "
                "integer (got 'many')"
            ),
        ),
    ],
)
def test_input_that_does_not_fit_is_refused(cli: CommandLine, folder: Path, given: str, message: str) -> None:
    """Where the JSON breaks or which field does not fit; exit code 2, and no run is stored."""
    (folder / "bad.json").write_text("{\n1}")
    ended = cli("run", "small_flow:g", given)
    assert (ended.code, ended.out, ended.err) == (2, "", f"error: {message}\n")
    assert cli("runs").code == 2


def test_unknown_field_of_the_input_gets_a_hint(cli: CommandLine) -> None:
    """Did you mean."""
    assert "`numbr` is no field of `Count`; did you mean `number`?" in cli("run", "small_flow:g", '{"numbr": 1}').err


# -- deps and stores ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "seen"),
    [
        ("deps_flow:Shop", "a shop"),
        ("deps_flow:make", "made by a function"),
        ("deps_flow.py:near", "made before"),
    ],
)
def test_deps_are_a_value_or_made(cli: CommandLine, target: str, seen: str) -> None:
    """An object is passed on; functions and classes are called."""
    assert cli("run", "deps_flow:g", "--deps", target, "--json").document["state"] == {"seen": seen}


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("deps_flow", "--deps deps_flow: which object of it? Write deps_flow:NAME"),
        (
            "deps_flow:Far",
            "--deps deps_flow:Far: it has to be callable without arguments (missing a required argument: 'name')",
        ),
        ("deps_flow:slowly", "--deps deps_flow:slowly: it is async; name a plain function, or an object"),
        (
            "deps_flow:broken",
            (
                "--deps deps_flow:broken: calling it failed: LookupError: no shop here\n"
                '  at deps_flow.py:30: `raise LookupError("no shop here")`'
            ),
        ),
        ("deps_flow:mak", "`deps_flow` has no `mak`; did you mean `make`?"),
    ],
)
def test_deps_that_cannot_be_made_are_explained(cli: CommandLine, target: str, message: str) -> None:
    """Nothing is run; exit code 2."""
    ended = cli("run", "deps_flow:g", "--deps", target)
    assert (ended.code, ended.out, ended.err.splitlines()[1:]) == (2, "", f"error: {message}".splitlines())


def test_deps_and_stores_that_are_passed_over_are_told(cli: CommandLine) -> None:
    """A graph that wants deps and gets none, or has a store that is not used: a note on stderr."""
    ended = cli("run", "deps_flow:g", "--json")
    assert ended.document["state"] == {"seen": "nobody"}
    assert ended.err.splitlines()[:2] == [
        "note: graph `sale` has a store of its own; this run is kept in `.flowagent/runs.db`",
        "note: graph `sale` wants deps (`Shop`) and gets None; --deps MODULE:OBJECT gives them",
    ]


def test_other_store_stands_in_every_command(cli: CommandLine, folder: Path) -> None:
    """The commands that are printed work as they are, names with spaces included."""
    ended = cli("run", "triage_flow:g", '{"text": "invoice"}', "--run-id", "a b", "--store", "my runs.db")
    assert ended.out.splitlines()[-1] == "    flowagent resume 'a b' --answer approve=deny --store 'my runs.db'"
    assert cli("resume", "a b", "--answer", "approve=deny", "--store", "my runs.db").code == 0
    assert (folder / "my runs.db").exists()


def test_run_id_may_begin_with_a_dash(cli: CommandLine) -> None:
    """The printed command keeps it from being taken for an option."""
    ended = cli("run", "triage_flow:g", '{"text": "invoice"}', "--run-id=-r")
    assert ended.out.splitlines()[-1] == "    flowagent resume --answer approve=deny -- -r"
    assert cli("resume", "--answer", "approve=deny", "--", "-r").code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--store", ""], "--store needs the path of a file, such as `runs.db`: runs in memory end with the command"),
        (["--run-id", ""], "--run-id may not be empty; leave it out to have one made up"),
        (["--steps", "0"], "Limits(steps=0): at least 1, or None for no limit"),
        (["--seconds", "0"], "Limits(seconds=0.0): more than 0, or None for no limit"),
        (["--requests", "0"], "Limits(requests=0): at least 1, or None for no limit"),
        (["--tool-calls", "0"], "Limits(tool_calls=0): at least 1, or None for no limit"),
        (["--tokens", "-1"], "Limits(tokens=-1): at least 1, or None for no limit"),
        (["--cost", "much"], "Limits(cost='much'): US dollars, more than 0, or None for no limit"),
        (
            ["--store", "text.db"],
            "SQLite store `text.db` cannot be used: `HERE/text.db` is not a SQLite database; use another path",
        ),
        (
            ["--store", "."],
            "SQLite store `.` cannot be used: `HERE` is a directory; give the path of a file in it, such as `runs.db`",
        ),
    ],
)
def test_run_that_cannot_be_stored_is_refused(cli: CommandLine, folder: Path, words: list[str], message: str) -> None:
    """Before anything is run; exit code 2."""
    (folder / "text.db").write_text("just text")
    ended = cli("run", "small_flow:g", *words)
    assert (ended.code, ended.out, ended.err) == (2, "", f"error: {message}\n".replace("HERE", str(folder)))


# -- rarer ends --------------------------------------------------------------------------------------------------------


def test_each_question_shows_what_may_be_answered(cli: CommandLine, folder: Path) -> None:
    """A type where there are no few choices; retry or abort for a call that must not be made twice."""
    (folder / "asking.py").write_text(flows.ASKING)
    ended = cli("run", "asking:g", "--run-id", "r")
    assert ended.code == 3
    said = ended.out.partition("\n2 open questions:\n")[2].splitlines()
    assert said[0] == "  measure?size: How many?"
    assert said[1] == "    flowagent resume r --answer 'measure?size=ANSWER'  (ANSWER: integer)"
    assert said[2].startswith("  pay?once: `pay` must not be called twice")
    assert said[3:] == [
        "    flowagent resume r --answer 'pay?once=retry'",
        "    flowagent resume r --answer 'pay?once=abort'",
        "  (one command may give several answers: repeat --answer)",
    ]
    answers = ("--answer", "measure?size=12", "--answer", 'pay?once={"result": {"paid": true}}')
    resumed = cli("resume", "r", *answers, "--json")
    assert (resumed.code, resumed.document["state"]) == (0, {"size": 12, "paid": True})


def test_run_that_is_torn_off_says_how_to_go_on(cli: CommandLine, folder: Path) -> None:
    """Another owner took it over: exit code 1, for it had begun; what was stored is intact."""
    (folder / "odd.py").write_text(flows.ODD)
    ended = cli("run", "odd:g", "--run-id", "r")
    assert (ended.code, ended.out) == (1, "")
    assert "error: this call no longer holds run `r`" in ended.err
    assert ended.err.endswith("\nwhat was stored is intact; go on with:\n  flowagent resume r\n")


def test_unexpected_error_is_one_message_too(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it is; with its place, how to see more, and exit code 1."""

    def odd(*_: object) -> int:
        return 1 // 0

    monkeypatch.setattr(define, "check", odd)
    ended = cli("check", "small_flow:g")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("error: ZeroDivisionError: integer division or modulo by zero\n  at ")
    assert ended.err.endswith(": `return 1 // 0`\n(--traceback shows all of it)\n")


def test_ctrl_c_before_anything_was_run_is_told(cli: CommandLine, folder: Path) -> None:
    """Exit code 130 and no traceback, in every command."""
    (folder / "stopped.py").write_text("raise KeyboardInterrupt\n")
    ended = cli("check", "stopped:g")
    assert (ended.code, ended.out, ended.err) == (130, "", "interrupted\n")
