"""`new`: projects made of templates, each of which runs and is tested without a model (F21)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flowagent.cli import new
from flowagent.cli.new import catalogue
from tests.cli.conftest import CommandLine

ROOT = Path(__file__).parents[2]
NAMES = ["agent", "approval", "loop", "parallel", "router", "sequential", "team"]
FILES = ["flow.py", "test_flow.py", "README.md"]

# What each program is called with, and how often it is told yes.
CALLED = {
    "agent": (["What is this?"], ""),
    "approval": (["Write to Ann.", "--run-id", "r"], "y\n"),
    "loop": (["A note."], ""),
    "parallel": (["README.md"], ""),
    "router": (["It broke."], ""),
    "sequential": (["backups"], ""),
    "team": (["What is this?"], ""),
}
PROGRAM = """
import flow
from flowagent.agents import using
from flowagent.testing import TestModel
with using(TestModel()):
    flow.main()
"""


def python(folder: Path, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Python in a folder, without keys, without any real request, and with no plugin of pytest but what it brings."""
    keep = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    environment = keep | {
        "PYTHONPATH": str(ROOT),
        "PYTHONIOENCODING": "utf-8",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "FLOWAGENT_NO_REQUESTS": "1",
    }
    environment.pop("FLOWAGENT_MODEL", None)
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environment,
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def test_the_templates_are_listed_with_what_they_show(cli: CommandLine) -> None:
    ended = cli("new", "--list")
    assert (ended.code, ended.err) == (0, "")
    assert [line.split()[0] for line in ended.out.splitlines()] == NAMES
    assert cli("new").out == ended.out
    assert cli("new", "--list", "--json").document == catalogue()
    assert all(catalogue().values())


@pytest.mark.parametrize("name", NAMES)
def test_a_project_s_own_tests_pass_without_a_model(cli: CommandLine, folder: Path, name: str) -> None:
    """F21: each template runs offline and is tested."""
    assert cli("new", name, "made").code == 0
    done = python(folder / "made", "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider")
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_a_project_s_program_runs_to_its_end(cli: CommandLine, folder: Path, name: str) -> None:
    """With the model that tries every tool once, and a person who says yes."""
    cli("new", name, "made")
    words, stdin = CALLED[name]
    done = python(folder / "made", "-c", PROGRAM, *words, stdin=stdin)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip()


@pytest.mark.parametrize("name", NAMES)
def test_a_project_s_graph_is_sound(cli: CommandLine, folder: Path, name: str) -> None:
    cli("new", name, "made")
    if "graph" not in (folder / "made" / "flow.py").read_text(encoding="utf-8"):
        assert name == "agent"
        return
    ended = cli("check", "made/flow.py:graph", "--json")
    assert (ended.code, ended.document["faults"], ended.document["warnings"]) == (0, [], [])


def test_it_says_what_was_made_and_what_to_do_next(cli: CommandLine) -> None:
    ended = cli("new", "router", "desks")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == (
        "made `desks` of the template `router`: flow.py, test_flow.py, README.md\n"
        "  cd desks\n"
        "  python -m pytest    # offline, with scripted answers\n"
        "README.md tells how to ask anthropic:claude-haiku-4-5, and what to change.\n"
    )


def test_without_a_folder_it_is_that_of_the_template_s_name(cli: CommandLine, folder: Path) -> None:
    ended = cli("new", "loop", "--json")
    assert ended.document == {"template": "loop", "folder": "loop", "files": FILES}
    assert sorted(file.name for file in (folder / "loop").iterdir()) == sorted(FILES)


def test_a_project_asks_the_model_that_is_named(cli: CommandLine, folder: Path) -> None:
    assert cli("new", "agent", "--model", "ollama:qwen3").code == 0
    text = (folder / "agent" / "flow.py").read_text(encoding="utf-8")
    assert 'MODEL = os.environ.get("FLOWAGENT_MODEL", "ollama:qwen3")' in text
    assert new.MODEL not in text


def test_nothing_is_overwritten_and_what_is_beside_it_stays(cli: CommandLine, folder: Path) -> None:
    (folder / "mine").mkdir()
    (folder / "mine" / "README.md").write_text("mine", encoding="utf-8")
    ended = cli("new", "agent", "mine")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "error: `mine` has `README.md` already, and nothing is overwritten; name another folder\n"
    assert [file.name for file in (folder / "mine").iterdir()] == ["README.md"]
    (folder / "mine" / "README.md").rename(folder / "mine" / "notes.md")
    assert cli("new", "agent", "mine").code == 0
    assert (folder / "mine" / "notes.md").read_text(encoding="utf-8") == "mine"


def test_a_link_that_leads_nowhere_is_no_free_name(cli: CommandLine, folder: Path) -> None:
    (folder / "mine").mkdir()
    (folder / "mine" / "flow.py").symlink_to(folder / "elsewhere.py")
    assert cli("new", "agent", "mine").code == 2
    assert not (folder / "elsewhere.py").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["new", "agnet"],
            "error: there is no template `agnet`; did you mean `agent`?\nthere are "
            "`agent`, `approval`, `loop`, `parallel`, `router`, `sequential`, `team`\n",
        ),
        (["new", "agent", "small_flow.py"], "error: `small_flow.py` is a file; name a folder\n"),
        (["new", "agent", "small_flow.py/x"], "error: the project cannot be written to `small_flow.py/x`: "),
        (["new", "agent", "--model", "gpt-5.5"], "error: 'gpt-5.5' names no known provider; did you mean `openai:"),
        (["new", "agent", "--model", 'a:"b'], "error: --model 'a:\"b' is no name of a model\n"),
    ],
    ids=["template", "file", "below a file", "provider", "quotes"],
)
def test_what_cannot_be_made_is_refused_and_nothing_is_written(
    words: list[str], said: str, cli: CommandLine, folder: Path
) -> None:
    before = sorted(folder.rglob("*"))
    ended = cli(*words)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(said)
    assert sorted(folder.rglob("*")) == before
