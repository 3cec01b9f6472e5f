from __future__ import annotations

import importlib.metadata
import os
import shutil
import sysconfig
from pathlib import Path

import pytest

from flowagent.errors import DrawError
from flowagent.render import Diagram
from flowagent.render.image import layout, layouters
from tests.render.drawn import read_svg
from tests.render.pictures import box, picture

posix_only = pytest.mark.skipif(os.name != "posix", reason="the stand-in for `dot` is a shell script")


def _program(folder: Path, body: str) -> Path:
    folder.mkdir()
    program = folder / "dot"
    program.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    program.chmod(0o755)
    return program


def _without_graphviz_pure(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    def not_found(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    def nowhere(name: str) -> str:
        return str(folder)

    monkeypatch.setattr(importlib.metadata, "files", not_found)
    monkeypatch.setattr(sysconfig, "get_path", nowhere)


def test_each_layouter_draws_svg_and_png(layouter: str):
    """Both layouters make both formats, and the one that was meant did it."""
    svg = layout("digraph { a -> b }", "svg").decode()
    assert ("graphviz-pure" in svg) == (layouter == "graphviz-pure")
    assert read_svg(svg).boxes == 2
    assert layout("digraph { a -> b }", "png").startswith(b"\x89PNG\r\n")


def test_graphviz_pure_is_found_without_a_path(no_system_dot: None):
    """The program of `graphviz-pure` is found where pip put it, also when no folder of it is on the PATH."""
    (found,) = layouters()
    assert Path(found).stem == "graphviz-pure"


def test_without_any_layouter_only_layout_fails(no_system_dot: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """FA-089: Without Graphviz the text forms work, and the others say what to install."""
    _without_graphviz_pure(monkeypatch, tmp_path)
    diagram = Diagram(picture(box("a")))
    assert "digraph" in diagram.dot()
    assert "flowchart" in diagram.mermaid()
    with pytest.raises(DrawError, match=r"no program to lay out .* as SVG .*apt-get install graphviz.*pip install"):
        diagram.svg()


@posix_only
def test_a_folder_with_a_space_is_no_obstacle(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """FA-089: `dot` in a folder such as `Program Files` just works."""
    pure = list(layouters())[-1]
    program = _program(tmp_path / "Program Files", f'exec "{pure}" "$@"')
    monkeypatch.setenv("PATH", str(program.parent))
    assert next(layouters()) == str(program)
    assert read_svg(layout("digraph { a }", "svg").decode()).boxes == 1


@posix_only
@pytest.mark.parametrize("body", ["exit 3", "echo this is no picture", "echo hi >&2", "kill -SEGV $$"])
def test_a_broken_dot_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: str):
    """When the system's `dot` fails or writes something else, `graphviz-pure` draws the picture."""
    monkeypatch.setenv("PATH", str(_program(tmp_path / "bin", body).parent))
    assert "graphviz-pure" in layout("digraph { a }", "svg").decode()


@posix_only
def test_a_dot_that_cannot_be_started_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """A `dot` that is no program, such as one for another machine, does not stop the drawing."""
    program = _program(tmp_path / "bin", "")
    program.write_bytes(b"\x7fELF nonsense")
    monkeypatch.setenv("PATH", str(program.parent))
    assert "graphviz-pure" in layout("digraph { a }", "svg").decode()


@posix_only
def test_when_nobody_can_draw_it_all_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """If every layouter fails, the error says what each of them said, and what to install."""
    program = _program(tmp_path / "bin", "echo boom >&2; exit 1")
    monkeypatch.setenv("PATH", str(program.parent))
    with pytest.raises(DrawError) as caught:
        layout("digraph {", "png")
    told = str(caught.value)
    assert f"{program}: exit code 1: boom" in told
    assert "graphviz-pure: exit code 1: " in told
    assert "syntax error" in told
    assert "pip install graphviz-pure" in told


@posix_only
def test_a_layout_that_never_ends_is_stopped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """A layouter has a time limit; the error names it."""
    sleep = shutil.which("sleep")
    program = _program(tmp_path / "bin", f"exec {sleep} 60")
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setattr("flowagent.render.image.LONGEST_LAYOUT", 0.1)
    _without_graphviz_pure(monkeypatch, tmp_path)
    with pytest.raises(DrawError, match=r"not done within 0\.1 s"):
        layout("digraph { a }", "svg")
