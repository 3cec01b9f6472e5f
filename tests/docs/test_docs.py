"""What the pages say is true.

Their code runs and prints what they show, their pictures are of that code, their links lead somewhere, and the commands
in them exist.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import importlib.util
import pkgutil
import re
import shlex
from functools import cache
from pathlib import Path

import pytest
import typer.main

import flowagent
from docs.draw import PICTURES, ROOT, Played, blocks_of, mark, pages, play
from flowagent.cli.app import app
from flowagent.errors import FlowAgentError

PAGES = pages()
MODULES = [found.name for found in pkgutil.walk_packages(flowagent.__path__, "flowagent.")]
FENCES = {"python", "text", "console", "json", "sql"}
SHELL = {"cp", "git", "kill", "pip", "python", "sqlite3"}

a_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
played = cache(play)


def commands() -> list[tuple[str, list[str]]]:
    """The shell commands of all pages, as words; a comment ends one, and a backslash at the end continues it."""
    found: list[tuple[str, list[str]]] = []
    for page in PAGES:
        for block in blocks_of(page.read_text(encoding="utf-8")):
            if block.info == "console":
                lines = block.text.replace("\\\n", " ").splitlines()
                found += [(page.name, shlex.split(line[2:], comments=True)) for line in lines if line.startswith("$ ")]
    return found


COMMANDS = commands()


# -- code ----------------------------------------------------------------------------------------------------------


@a_page
def test_the_code_of_a_page_runs_and_prints_what_the_page_shows(page: Path) -> None:
    for shown in played(page).shown:
        where = f"{page.name}:{shown.block.line}"
        assert shown.printed == (shown.promised or ""), f"{where} prints something else than the page says"


@a_page
def test_every_block_of_a_page_says_what_it_is_and_every_fence_is_closed(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    blocks = blocks_of(text)
    assert {block.info for block in blocks} <= FENCES, "a block that is not run, or of an unknown kind"
    assert len(re.findall(r"^\s*```", text, re.MULTILINE)) == 2 * len(blocks), "a fence is not closed, or is indented"


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_in_docstrings_are_right(module: str) -> None:
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    if ">>>" not in Path(spec.origin).read_text(encoding="utf-8"):
        return
    result = doctest.testmod(importlib.import_module(module), optionflags=doctest.ELLIPSIS)
    assert result.attempted > 0, "the examples are not where doctest looks for them"
    assert result.failed == 0


# -- pictures and links --------------------------------------------------------------------------------------------


@a_page
def test_the_pictures_of_a_page_are_of_its_code(page: Path) -> None:
    for name, diagram in played(page).pictures.items():
        dot = diagram.dot()
        assert (PICTURES / name).with_suffix(".dot").read_text(encoding="utf-8") == dot, f"{name}: run docs/draw.py"
        assert (PICTURES / name).read_text(encoding="utf-8").endswith(mark(dot)), f"{name}: run docs/draw.py"


def test_no_picture_is_left_over() -> None:
    shown = {name for page in PAGES for name in played(page).pictures}
    assert {file.name for file in PICTURES.glob("*.svg")} == shown
    assert {file.stem for file in PICTURES.glob("*.dot")} == {Path(name).stem for name in shown}


@a_page
def test_every_image_of_a_page_says_how_it_is_made_and_what_it_shows(page: Path) -> None:
    images = re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", prose_of(page))
    assert [Path(file).name for _, file in images] == list(played(page).pictures)
    assert all(words for words, _ in images)


@a_page
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose_of(page)):
        if target.startswith(("https://", "http://")):
            continue
        file, _, anchor = target.partition("#")
        there = (page.parent / file).resolve() if file else page
        assert there.exists(), f"{page.name} links to {target}"
        if anchor:
            assert anchor in anchors_of(there), f"{page.name} links to {target}"


@a_page
def test_every_file_that_a_page_names_in_code_type_exists(page: Path) -> None:
    for name in re.findall(r"`((?:tests|docs|examples|benchmarks|flowagent)/[\w./-]+)(?:::\w+)?`", prose_of(page)):
        assert (ROOT / name).exists(), f"{page.name} names {name}"


@a_page
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    for name, test in re.findall(r"`(tests/[\w./-]+)::(\w+)`", prose_of(page)):
        source = (ROOT / name).read_text(encoding="utf-8")
        found = {
            node.name
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        assert any(known.startswith(test) for known in found), f"{page.name} names {name}::{test}"


def prose_of(page: Path) -> str:
    """A page without its code blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings, as they are made of them where such pages are shown."""
    headings = re.findall(r"^#+ (.+)$", prose_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


# -- commands ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("page", "words"), COMMANDS, ids=lambda given: given if isinstance(given, str) else " ".join(given)
)
def test_every_command_of_a_page_exists(page: str, words: list[str]) -> None:
    match words:
        case ["make", *targets]:
            made = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
            assert {word for word in targets if "=" not in word} <= made
        case ["flowagent", *rest]:
            assert_understood(rest)
        case _:
            assert words[0] in SHELL or "=" in words[0], f"{page}: an unknown command"


def assert_understood(words: list[str]) -> None:
    """The command line knows the command and every option in it."""
    group = typer.main.get_command(app)
    known = dict(getattr(group, "commands", {}))
    if not words or words[0].startswith("-"):
        return
    assert words[0] in known
    options = {option for parameter in known[words[0]].params for option in parameter.opts} | {"--help", "--traceback"}
    assert {word.partition("=")[0] for word in words[1:] if word.startswith("--") and word != "--"} <= options


def test_the_page_of_the_command_line_has_each_command_with_each_option() -> None:
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    group = typer.main.get_command(app)
    for name, command in getattr(group, "commands", {}).items():
        section = re.search(rf"^## `flowagent {name}.*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
        assert section is not None, f"docs/cli.md has no section on `flowagent {name}`"
        for parameter in command.params:
            for option in parameter.opts:
                if option.startswith("--") and option != "--help":
                    assert f"`{option}" in section[0], f"docs/cli.md does not tell of `flowagent {name} {option}`"
    told = set(re.findall(r"^## `flowagent (\w+)", text, re.MULTILINE))
    assert told == set(getattr(group, "commands", {}))


def test_the_page_of_failures_has_every_error_and_every_status() -> None:
    errors = importlib.import_module("flowagent.errors")
    records = importlib.import_module("flowagent.core.records")
    text = (ROOT / "docs" / "failure.md").read_text(encoding="utf-8")
    names = [name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, FlowAgentError)]
    assert [name for name in names if f"`{name}`" not in text] == []
    assert [status for status in records.Status.__args__ if f"`{status}`" not in text] == []


def test_the_page_of_the_design_has_every_kind_of_record() -> None:
    records = importlib.import_module("flowagent.core.records")
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    assert [kind for kind in records.RecordKind.__args__ if f"`{kind}`" not in text] == []


def test_the_page_of_dependencies_has_each_and_no_other() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    listed = re.search(r"^dependencies = \[\n(.*?)^\]", project, re.MULTILINE | re.DOTALL)
    assert listed is not None
    extras = re.search(r"^\[project.optional-dependencies\]\n(.*?)^$", project, re.MULTILINE | re.DOTALL)
    assert extras is not None
    wanted = re.findall(r'^\s+"([\w-]+)', listed[1], re.MULTILINE) + re.findall(
        r'^[\w-]+ = \["([\w-]+)', extras[1], re.MULTILINE
    )
    text = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| `([\w-]+)` \|", text, re.MULTILINE)) == sorted(wanted)


# -- the reading of pages ------------------------------------------------------------------------------------------


def test_a_page_is_read_as_written(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1)\n```\n\n```text\n1\n```\n\nwords\n\n```text\n2\n```\n", encoding="utf-8")
    result: Played = play(page)
    assert [(one.block.line, one.printed, one.promised) for one in result.shown] == [(2, "1\n", "1\n")]


def test_an_error_in_a_page_names_the_page_and_the_line(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n```python\n1 / 0\n```\n", encoding="utf-8")
    with pytest.raises(ZeroDivisionError) as caught:
        play(page)
    assert caught.traceback[-1].path == "<page.md>"
    assert caught.traceback[-1].lineno == 3  # counted from 0
