"""`check` and `draw`: definitions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli import flows
from tests.cli.conftest import CommandLine

FAULT = "edge `double` -> `nowhere`: there is no node `nowhere`"


def test_check_says_that_a_graph_is_sound(cli: CommandLine) -> None:
    """No faults: one line, exit code 0."""
    ended = cli("check", "small_flow:g")
    assert (ended.code, ended.out, ended.err) == (0, "graph `double`: no faults (1 node, 2 edges)\n", "")


def test_check_lists_the_faults_of_a_graph(cli: CommandLine) -> None:
    """Faults are the result, so they are on stdout; exit code 1."""
    ended = cli("check", "faulty_flow.py:g")
    assert (ended.code, ended.out, ended.err) == (1, f"graph `faulty`: 1 fault\n  fault: {FAULT}\n", "")


def test_check_lists_faults_that_are_raised_while_the_graph_is_made(cli: CommandLine, folder: Path) -> None:
    """A definition that cannot even be written down is faulty too, not a failed import."""
    (folder / "same.py").write_text(flows.SMALL + "g.node(double)\n")
    ended = cli("check", "same:g", "--json")
    assert (ended.code, ended.err) == (1, "")
    assert ended.document["faults"]
    assert ended.document["ok"] is False


def test_check_says_the_same_as_json(cli: CommandLine) -> None:
    """One document on stdout, with the same exit codes."""
    sound, faulty = cli("check", "small_flow:g", "--json"), cli("check", "faulty_flow:g", "--json")
    assert (sound.code, sound.document) == (0, {"graph": "double", "ok": True, "faults": [], "warnings": []})
    assert (faulty.code, faulty.document) == (1, {"graph": "faulty", "ok": False, "faults": [FAULT], "warnings": []})


def test_check_shows_what_is_odd(cli: CommandLine) -> None:
    """Warnings are told and fail nothing."""
    ended = cli("check", "conflict_flow:g")
    assert ended.code == 0
    assert ended.out.startswith("graph `conflict`: no faults (3 nodes, 5 edges)\n  warning: ")


@pytest.mark.parametrize(("form", "begins"), [("dot", "digraph "), ("mmd", "---\ntitle: "), ("svg", "<?xml ")])
def test_draw_writes_text_formats_to_stdout(cli: CommandLine, form: str, begins: str) -> None:
    """Without -o the picture is stdout."""
    ended = cli("draw", "small_flow:g", "--format", form)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith(begins)
    assert "double" in ended.out


def test_draw_writes_dot_when_nothing_is_said(cli: CommandLine) -> None:
    """The default format of stdout is DOT."""
    assert cli("draw", "small_flow:g").out == cli("draw", "small_flow:g", "--format", "dot").out


@pytest.mark.parametrize(
    ("name", "words", "begins"),
    [
        ("a.svg", [], b"<?xml"),
        ("a.png", [], b"\x89PNG"),
        ("a.dot", [], b"digraph"),
        ("a.gv", [], b"digraph"),
        ("a.mmd", [], b"---"),
        ("a.txt", ["--format", "mmd"], b"---"),
        ("a.SVG", ["--format", "svg"], b"<?xml"),
    ],
)
def test_draw_writes_the_format_that_the_file_says(
    cli: CommandLine, folder: Path, name: str, words: list[str], begins: bytes
) -> None:
    """The suffix decides, unless --format does; where it was saved is told on stderr."""
    ended = cli("draw", "small_flow:g", "-o", name, *words)
    assert (ended.code, ended.out, ended.err) == (0, "", f"saved {name}\n")
    assert (folder / name).read_bytes().startswith(begins)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--format", "png"], "a PNG needs a file: add -o FILE.png"),
        (
            ["-o", "a.jpg"],
            "-o a.jpg: which format? Use one of .svg, .png, .dot, .gv, .mmd, or say it with --format",
        ),
        (["-o", "no/a.svg"], "cannot save `no/a.svg`: there is no folder `no`; make it first"),
        (
            ["-o", "no/a.txt", "--format", "dot"],
            "cannot save `no/a.txt`: [Errno 2] No such file or directory: 'no/a.txt'",
        ),
    ],
)
def test_draw_refuses_what_it_cannot_write(cli: CommandLine, words: list[str], message: str) -> None:
    """One message and exit code 2."""
    ended = cli("draw", "small_flow:g", *words)
    assert (ended.code, ended.out, ended.err) == (2, "", f"error: {message}\n")


def test_draw_refuses_a_faulty_graph(cli: CommandLine) -> None:
    """There is no picture of what is no graph; all faults are told."""
    ended = cli("draw", "faulty_flow:g")
    assert (ended.code, ended.out, ended.err) == (2, "", f"error: 1 fault in graph `faulty`:\n  - {FAULT}\n")
