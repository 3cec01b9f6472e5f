from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flowagent.errors import DrawError
from flowagent.render import Diagram
from tests.render.drawn import read_svg
from tests.render.pictures import box, picture, rich, rich_run


def test_each_suffix_is_a_form(tmp_path: Path):
    """A picture is saved in the form that the suffix names, in either case, and the path is given back."""
    diagram = Diagram(rich_run())
    for name, content in {
        "a.dot": diagram.dot().encode(),
        "a.gv": diagram.dot().encode(),
        "a.mmd": diagram.mermaid().encode(),
        "a.SVG": diagram.svg().encode(),
        "a.png": diagram.png(),
    }.items():
        assert diagram.save(str(tmp_path / name)) == tmp_path / name
        assert (tmp_path / name).read_bytes() == content


@pytest.mark.parametrize(("name", "why"), [("a.pdf", "the suffix `.pdf` is unknown"), ("a", "it has no suffix")])
def test_an_unknown_suffix_is_told_the_known_ones(tmp_path: Path, name: str, why: str):
    """A suffix that is no form is refused with the list of those that are."""
    with pytest.raises(DrawError, match=rf"{why}; use one of \.dot, \.gv, \.svg, \.png, \.mmd"):
        Diagram(rich()).save(tmp_path / name)


def test_a_missing_folder_is_named(tmp_path: Path):
    """A picture is not saved into a folder that is not there; the error names the folder."""
    with pytest.raises(DrawError, match=r"there is no folder `.*nowhere`; make it first"):
        Diagram(rich()).save(tmp_path / "nowhere" / "a.dot")


@pytest.mark.parametrize("name", ["folder.dot", "nul\x00.dot"])
def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, name: str):
    """A path that is a folder or no path at all is a DrawError, and nothing is left behind."""
    (tmp_path / "folder.dot").mkdir()
    with pytest.raises(DrawError, match="cannot save"):
        Diagram(rich()).save(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["folder.dot"]


def test_a_file_is_replaced_as_a_whole(tmp_path: Path):
    """The new picture takes the place of the old one, with the usual permissions and no draft left."""
    target = tmp_path / "a.dot"
    target.write_text("old", encoding="utf-8")
    other = tmp_path / "other.txt"
    other.write_text("", encoding="utf-8")
    Diagram(picture()).save(target)
    assert target.read_text(encoding="utf-8") == Diagram(picture()).dot()
    assert target.stat().st_mode == other.stat().st_mode
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.dot", "other.txt"]


def test_a_notebook_shows_the_svg():
    """A notebook asks for SVG and gets it."""
    assert read_svg(Diagram(rich())._repr_svg_()).clusters == 2


def test_a_diagram_is_short_as_text():
    """Printing a diagram says what it shows."""
    assert str(Diagram(rich())) == "<Diagram of 'triage'>"
    assert repr(Diagram(rich_run())) == "<Diagram of 'triage', run 't-1', waiting>"


def test_times_can_be_left_out():
    """Without times no form has a duration."""
    diagram = Diagram(rich_run(), times=False)
    for text in (diagram.dot(), diagram.mermaid(), diagram.svg()):
        assert "12.3 s" not in text
        assert "1 min" not in text
    assert "12.3 s" in Diagram(rich_run()).svg()


_NAME = "Zoë 节点 🤖"
_SAVES = f"""
import sys
from flowagent.render import Diagram
from tests.render.pictures import box, picture
Diagram(picture(box({_NAME!a}))).save(sys.argv[1])
"""


@pytest.mark.parametrize("suffix", [".dot", ".mmd", ".svg"])
def test_files_are_utf8_under_every_locale(tmp_path: Path, suffix: str):
    """FA-086: The file is UTF-8 and the same bytes under every locale."""
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    target = tmp_path / f"a{suffix}"
    # The folder of this checkout is not in the way of the child: it imports from where this process does.
    environment = {**os.environ, **plain, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    subprocess.run([sys.executable, "-c", _SAVES, str(target)], env=environment, check=True, timeout=60)
    expected = Diagram(picture(box(_NAME))).save(tmp_path / f"b{suffix}")
    assert target.read_bytes() == expected.read_bytes()
    assert _NAME in target.read_text(encoding="utf-8")


def test_the_root_does_not_load_the_renderer():
    """P14: Importing the core's picture data loads neither the renderer nor the `graphviz` package."""
    check = "import sys, flowagent.core.picture; assert not {'graphviz', 'flowagent.render'} & set(sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    subprocess.run([sys.executable, "-c", check], env=environment, check=True, timeout=60)
