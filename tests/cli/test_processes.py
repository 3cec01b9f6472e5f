"""The command as a process: signals, pipes, terminals and encodings as they really are."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest
from pydantic_core import from_json

from tests.cli import flows

ROOT: Final = Path(__file__).parents[2]
COMMAND: Final = [sys.executable, "-m", "flowagent.cli"]

# Python starts with Ctrl-C ignored when its parent ignores it, as a shell does for what runs in the background.
INTERRUPTIBLE: Final = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from flowagent.cli import main
sys.exit(main(sys.argv[1:]))
"""

COMPLETED: Final = 'run `r` of graph `double`: completed\n\n{\n  "number": 42\n}\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two graphs."""
    (tmp_path / "triage_flow.py").write_text(flows.TRIAGE, encoding="utf-8")
    (tmp_path / "small_flow.py").write_text(flows.SMALL, encoding="utf-8")
    return tmp_path


def environment(**more: str) -> dict[str, str]:
    """Ours without what would colour or encode output, and with the package on the path."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONIOENCODING", "FORCE_COLOR")}
    return {**kept, "PYTHONPATH": str(ROOT), **more}


def typed(folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[bytes]:
    """What comes of a command line."""
    return subprocess.run([*COMMAND, *words], cwd=folder, env=environment(**more), capture_output=True, check=False)


def test_graph_is_run_answered_and_shown(folder: Path) -> None:
    """The main flow, in three processes that share nothing but the folder."""
    run = typed(folder, "run", "triage_flow:g", '{"text": "my invoice"}', "--run-id", "r")
    assert run.returncode == 3
    resumed = typed(folder, "resume", "r", "--answer", "approve=approve", "--json")
    assert resumed.returncode == 0
    assert from_json(resumed.stdout)["state"]["notes"] == ["billing \u5317 approve"]
    assert b"completed" in typed(folder, "show", "r").stdout


def test_ctrl_c_leaves_a_resumable_run(folder: Path) -> None:
    """Exit code 130, the exact command to go on, no traceback; and what was recorded is not run again."""
    words = ["run", "triage_flow:g", '{"text": "slow"}', "--run-id", "r", "--json"]
    child = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, *words],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stderr is not None
    assert child.stdout is not None
    said = b""
    while b"start   technical" not in said:
        line = child.stderr.readline()
        assert line, said
        said += line
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert (child.returncode, err.decode()) == (
        130,
        "\ninterrupted; run `r` is stored, go on with:\n  flowagent resume r\n",
    )
    document = from_json(out)
    assert (document["status"], document["resume"]) == ("interrupted", "flowagent resume r")
    resumed = typed(folder, "resume", "r", MENDED="1")
    assert resumed.returncode == 0
    assert b"classify" not in resumed.stderr


def test_json_is_alone_on_stdout(folder: Path) -> None:
    """What a node prints goes to stderr, and so does what its child processes print."""
    ended = typed(folder, "run", "triage_flow:g", '{"text": "loud"}', "--json", PYTHONIOENCODING="cp1252")
    assert ended.returncode == 0
    assert from_json(ended.stdout)["state"]["text"] == "loud"
    assert b"printed by a node" in ended.stderr
    assert b"printed by its child" in ended.stderr


def test_encoding_of_the_terminal_changes_no_outcome(folder: Path) -> None:
    """FA-094: exit codes are the same, text has replacements where need be, JSON is UTF-8."""
    given = '{"text": "invoice \U0001f916 \u5317\u4eac"}'
    waiting = typed(folder, "run", "triage_flow:g", given, "--run-id", "r", PYTHONIOENCODING="cp1252")
    assert waiting.returncode == 3
    assert b"Refund invoice ? ???" in waiting.stdout
    failed = typed(folder, "resume", "r", "--answer", "approve=\U0001f916", PYTHONIOENCODING="cp1252")
    assert failed.returncode == 2
    assert b"\\U0001f916" in failed.stderr
    done = typed(folder, "resume", "r", "--answer", "approve=deny", "--json", PYTHONIOENCODING="cp1252")
    assert (done.returncode, from_json(done.stdout)["state"]["text"]) == (0, "invoice \U0001f916 \u5317\u4eac")
    for words in (["runs"], ["show", "r"], ["check", "triage_flow:g"], ["draw", "triage_flow:g"]):
        assert typed(folder, *words, PYTHONIOENCODING="cp1252").returncode == 0


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_reader_that_goes_away_is_not_missed(folder: Path, more: list[str]) -> None:
    """`| head` closes the pipe: the run goes to its end, with its exit code and without a word about the pipe."""
    command = [*COMMAND, "run", "triage_flow:g", '{"text": "invoice"}', "--run-id", "r", *more]
    readable, writable = os.pipe()
    os.close(readable)
    try:
        ended = subprocess.run(
            command, cwd=folder, env=environment(), stdout=writable, stderr=subprocess.PIPE, check=False
        )
        assert ended.returncode == 3
        assert b"Error" not in ended.stderr
        both = subprocess.run(
            [*COMMAND, "resume", "r"], cwd=folder, env=environment(), stdout=writable, stderr=writable, check=False
        )
        assert both.returncode == 3
    finally:
        os.close(writable)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_full_disk_behind_stdout_is_told(folder: Path) -> None:
    """The run is done and stored; that it could not be told is a failure."""
    with Path("/dev/full").open("wb") as full:
        command = [*COMMAND, "run", "small_flow:g", "--run-id", "r", "--json"]
        ended = subprocess.run(command, cwd=folder, env=environment(), stdout=full, stderr=subprocess.PIPE, check=False)
    assert ended.returncode == 1
    assert ended.stderr.endswith(b"error: stdout cannot be written: No space left on device\n")
    assert typed(folder, "resume", "r").returncode == 0


@pytest.mark.skipif(os.name == "nt", reason="needs a shell that can close streams")
def test_closed_streams_change_no_outcome(folder: Path) -> None:
    """With stderr closed, progress goes nowhere, and not into stdout."""
    words = " ".join([*COMMAND, "run", "small_flow:g", "--json", "2>&-"])
    ended = subprocess.run(["sh", "-c", words], cwd=folder, env=environment(), stdout=subprocess.PIPE, check=False)
    assert (ended.returncode, from_json(ended.stdout)["state"]) == (0, {"number": 2})


@pytest.mark.skipif(os.name == "nt", reason="needs pseudo-terminals")
def test_terminal_shows_a_live_table(folder: Path) -> None:
    """In a real terminal the nodes are a table that is drawn anew; the cursor comes back at the end."""
    import pty

    ours, theirs = pty.openpty()
    words = ["run", "small_flow:g", '{"number": 21}', "--run-id", "r"]
    child = subprocess.Popen(
        [*COMMAND, *words],
        cwd=folder,
        env=environment(TERM="xterm", NO_COLOR="1", COLUMNS="80"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = read_all(ours)
    assert child.wait(timeout=60) == 0
    assert "\u2713  double" in shown
    assert shown.index("\x1b[?25l") < shown.index("\x1b[?25h")
    assert shown.replace("\r\n", "\n").endswith(COMPLETED)


def read_all(descriptor: int) -> str:
    """What a pseudo-terminal says until its other side is closed."""
    data, until = b"", time.monotonic() + 60
    while time.monotonic() < until:
        if select.select([descriptor], [], [], 1.0)[0]:
            try:
                part = os.read(descriptor, 65536)
            except OSError:  # how Linux says that the other side is closed
                break
            if not part:
                break
            data += part
    os.close(descriptor)
    return data.decode()


def test_command_loads_what_it_needs_when_it_needs_it() -> None:
    """Finding the command loads neither typer nor rich, nor a store, so that Ctrl-C finds it listening early."""
    probe = "import sys, flowagent.cli; print({'typer', 'rich', 'apsw', 'networkx'} & set(sys.modules) or 'light')"
    ended = subprocess.run([sys.executable, "-c", probe], env=environment(), capture_output=True, text=True, check=True)
    assert ended.stdout == "light\n"
