"""`MODULE:GRAPH` and `FILE.py:GRAPH`: what they name, and what is said when they name nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from flowagent.cli.targets import FORM, Target, load_graph, parsed
from tests.cli import flows
from tests.cli.conftest import CommandLine


@pytest.mark.parametrize(
    ("text", "target"),
    [
        (r"C:\proj\flow.py:graph", Target(r"C:\proj\flow.py", "graph", True)),
        ("C:/proj/flow.py:graph", Target("C:/proj/flow.py", "graph", True)),
        (r"C:\proj\flow.py", Target(r"C:\proj\flow.py", "", True)),
        ("pkg.mod:graph", Target("pkg.mod", "graph", False)),
        ("./flow.py:graph", Target("./flow.py", "graph", True)),
        ("flow.py", Target("flow.py", "", True)),
        ("pkg.mod:Desk.graph", Target("pkg.mod", "Desk.graph", False)),
        ("c:graph", Target("c", "graph", False)),
        (":graph", Target("", "graph", False)),
    ],
)
def test_target_is_taken_apart_at_its_last_colon(text: str, target: Target) -> None:
    """FA-093: path and attribute are right, and the colon of a drive is no separator."""
    assert parsed(text) == target


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("small_flow", "`small_flow` names no graph; it has `small_flow:g`"),
        ("small_flow.py", "`small_flow.py` names no graph; it has `small_flow.py:g`"),
        ("small_flow:gg", "`small_flow` has no `gg`; did you mean `g`?"),
        ("small_flow:other", "`small_flow` has no `other`; it has `small_flow:g`"),
        ("small_flow:Count", "`small_flow:Count` is a class, not a Graph; it has `small_flow:g`"),
        ("small_flow:double", "`small_flow:double` is a `function`, not a Graph; it has `small_flow:g`"),
        ("empty:g", "`empty` has no `g`; it has no graphs"),
        ("smal_flow:g", "there is no module `smal_flow`; did you mean `small_flow`?"),
        ("smal_flow.py:g", "`smal_flow.py`: there is no such file; did you mean `small_flow.py`?"),
        (".:g", f"`.` is neither a module nor a Python file; write {FORM}"),
        ("./:g", "`./`: is a directory"),
        (":g", f"`:g` names no module; write {FORM}"),
        ("small_flow.g:g", "there is no module `small_flow.g`; did you mean `small_flow`?"),
        ("no.such:g", "there is no module `no.such` (no `no`); it is looked for in HERE and where Python does"),
        (
            "divides:g",
            "importing `divides` failed: ZeroDivisionError: division by zero\n  at divides.py:2: `return 1 / 0`",
        ),
        (
            "divides.py:g",
            "importing `divides.py` failed: ZeroDivisionError: division by zero\n  at divides.py:2: `return 1 / 0`",
        ),
        (
            "broken.py:g",
            "importing `broken.py` failed: SyntaxError: '(' was never closed\n  at broken.py:2: `x = (`",
        ),
        (
            "needs:g",
            "importing `needs` failed: ModuleNotFoundError: No module named 'nil'\n  at needs.py:1: `import nil`",
        ),
        (
            "leaves:g",
            "importing `leaves` failed: SystemExit: bye\n  at leaves.py:2: `sys.exit('bye')`",
        ),
    ],
)
def test_target_that_names_no_graph_is_explained(cli: CommandLine, folder: Path, target: str, message: str) -> None:
    """One message on stderr, no traceback, exit code 2; an error in user code is shown with its own line."""
    (folder / "empty.py").write_text("")
    (folder / "divides.py").write_text("def one():\n    return 1 / 0\none()\n")
    (folder / "broken.py").write_text("y = 1\nx = (\n")
    (folder / "needs.py").write_text("import nil\n")
    (folder / "leaves.py").write_text("import sys\nsys.exit('bye')\n")
    ended = cli("check", target)
    assert (ended.code, ended.out, ended.err) == (2, "", f"error: {message.replace('HERE', str(folder))}\n")


def test_traceback_is_shown_on_request_wherever_it_is_asked_for(cli: CommandLine, folder: Path) -> None:
    """`--traceback` may stand behind the command too, and adds the whole traceback to the message."""
    (folder / "divides.py").write_text("1 / 0\n")
    for words in (["--traceback", "check", "divides:g"], ["check", "divides:g", "--traceback"]):
        ended = cli(*words)
        assert ended.code == 2
        assert ended.err.startswith("Traceback (most recent call last):\n")
        assert ended.err.endswith("ZeroDivisionError: division by zero\n  at divides.py:1: `1 / 0`\n")
    assert "Traceback" not in cli("check", "divides:g").err


def test_file_of_a_package_is_imported_as_its_module(folder: Path) -> None:
    """A file that imports its neighbours by the package's name works as it does in the package."""
    package = folder / "elsewhere" / "shop"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "names.py").write_text("NAME = 'from the neighbour'\n")
    source = flows.SMALL.replace('"double"', "NAME")
    (package / "flow.py").write_text(f"from shop.names import NAME\nfrom .names import NAME as same\n{source}")
    assert load_graph("elsewhere/shop/flow.py:g").name == "from the neighbour"
    assert load_graph("elsewhere/shop/flow.py:g") is load_graph("elsewhere/shop/flow.py:g")


def test_file_may_be_called_like_a_module_of_python(folder: Path) -> None:
    """A file `json.py` is loaded from the path, and does not take the place of Python's own."""
    known = sys.modules["json"]
    (folder / "json.py").write_text(flows.SMALL)
    assert load_graph("json.py:g").name == "double"
    assert sys.modules["json"] is known


def test_failed_import_can_be_tried_again(folder: Path) -> None:
    """A file that failed to import is forgotten, so that it is read anew once it is mended."""
    file = folder / "mended.py"
    file.write_text("1 / 0\n")
    with pytest.raises(Exception, match="division by zero"):
        load_graph("mended.py:g")
    file.write_text(flows.SMALL)
    assert load_graph("mended.py:g").name == "double"
