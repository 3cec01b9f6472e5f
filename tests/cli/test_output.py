"""What is written, whatever the streams can take."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flowagent.cli import demo
from flowagent.cli.output import columns, counted, safe, short
from flowagent.cli.problems import CommandError
from flowagent.core.version import VERSION
from tests.cli.conftest import CommandLine


def test_control_characters_of_data_are_shown_not_obeyed() -> None:
    """Neither an escape sequence nor a turned reading direction reaches the terminal."""
    assert safe("a\x1b[31mb\x07\r\u202ec\n\td\x9b") == "a\\x1b[31mb\\x07\\r\\u202ec\n\td\\x9b"


def test_columns_stand_below_one_another() -> None:
    """Wide characters count twice."""
    assert columns([("a", "b", "c"), ("\u5317", "bb", "")]) == ["a   b   c", "\u5317  bb"]


def test_words_fit_their_number() -> None:
    """One is one."""
    assert (counted(1, "task"), counted(2, "task")) == ("1 task", "2 tasks")


def test_long_values_are_cut() -> None:
    """As JSON, on one line."""
    assert short({"a": [1, "\u5317"]}) == '{"a": [1, "\u5317"]}'
    assert short("x" * 100, 10) == '"xxxxxx...'


def test_version_and_help_are_told(cli: CommandLine) -> None:
    """Without any graph; no command at all is a usage error that shows the help."""
    assert cli("--version").out == f"flowagent {VERSION}\n"
    assert "Exit codes: 0 done, 1 failed, 2 usage" in cli("--help").out
    assert cli().code == 2
    unknown = cli("rnu")
    assert (unknown.code, unknown.out) == (2, "")


@pytest.fixture
def no_examples_imported() -> Iterator[None]:
    """The examples as if nobody had imported them yet; afterwards those that somebody had."""
    before = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] == "examples"}
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "examples"]:
        del sys.modules[name]
    sys.modules.update(before)


@pytest.mark.usefixtures("no_examples_imported")
def test_demo_plays_that_of_the_checkout(folder: Path) -> None:
    """With the options as they were given; its exit code is the command's."""
    package = folder / "examples" / "triage"
    package.mkdir(parents=True)
    for name in (folder / "examples", package):
        (name / "__init__.py").write_text("")
    (package / "demo.py").write_text("def main(argv):\n    return 0 if argv == ['--ask'] else 1\n")
    assert demo.play(["--ask"], root=folder) == 0
    assert demo.play([], root=folder) == 1


def test_demo_says_where_it_is_to_be_found(folder: Path) -> None:
    """An installed package has no examples."""
    with pytest.raises(CommandError, match="clone the repository of flowagent and type `make demo` there"):
        demo.play([], root=folder)


def test_demo_hands_on_what_it_is_given(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also options that only the demo knows."""
    given: list[list[str]] = []

    def play(arguments: list[str]) -> int:
        given.append(arguments)
        return 0

    monkeypatch.setattr(demo, "play", play)
    assert cli("demo", "--out", "here", "--ask", "--delay", "0").code == 0
    assert given == [["--out", "here", "--ask", "--delay", "0"]]
