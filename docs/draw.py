"""Runs the code of the pages and draws their pictures: `.venv/bin/python docs/draw.py`.

All python blocks of a page are one program, run from top to bottom in an empty folder. A `text` block right behind a
python block is what it prints. A picture is declared above its image by a comment that holds an expression over that
program:

    <!-- picture: g.draw() -->
    ![The definition](pictures/poem.svg)

The expression gives a `Diagram`, which is kept as DOT text and as SVG. `tests/docs/test_docs.py` runs the same code and
holds the pages and the DOT to what comes out.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import linecache
import os
import re
import sys
import tempfile
import types
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from flowagent.render import Diagram

ROOT: Final = Path(__file__).resolve().parents[1]
PICTURES: Final = ROOT / "docs" / "pictures"

_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_PICTURE = re.compile(r"^<!-- picture: (?P<expression>.+?) -->\n!\[[^\]]+\]\((?P<file>[^)]+\.svg)\)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block of a page.

    Args:
        line: where its text begins, from 1.
        info: the words behind the opening fence, such as `python`.
        text: what is between the fences.
        follows: whether only blank lines are between it and the block before.
    """

    line: int
    info: str
    text: str
    follows: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a python block printed, and what the page says it prints (None: it says nothing)."""

    block: Block
    printed: str
    promised: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A page whose code was run: what it printed, and its pictures as diagrams by file name."""

    shown: tuple[Shown, ...]
    pictures: dict[str, Diagram]


def pages() -> list[Path]:
    """The README and all pages of this folder."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks_of(text: str) -> list[Block]:
    """The fenced blocks of a page, in its order."""
    found: list[Block] = []
    before = 0
    for match in _FENCE.finditer(text):
        found.append(
            Block(
                line=text.count("\n", 0, match.start("text")) + 1,
                info=match["info"].strip(),
                text=match["text"],
                follows=bool(found) and not text[before : match.start()].strip(),
            )
        )
        before = match.end()
    return found


def play(page: Path) -> Played:
    """Run the code of a page, in an empty folder.

    Raises:
        Exception: whatever the code raises; the traceback names the page and its line.
    """
    text = page.read_text(encoding="utf-8")
    blocks = blocks_of(text)
    drawn = list(_PICTURE.finditer(text))
    shown: list[Shown] = []
    pictures: dict[str, Diagram] = {}
    with _program(page) as program:
        for place, block in enumerate(blocks):
            if block.info != "python":
                continue
            while drawn and _line(text, drawn[0]) < block.line:
                _draw(program, drawn.pop(0), pictures)
            shown.append(Shown(block=block, printed=program.run(block), promised=_promised(blocks[place + 1 :])))
        for match in drawn:
            _draw(program, match, pictures)
    return Played(shown=tuple(shown), pictures=pictures)


def _promised(following: list[Block]) -> str | None:
    is_output = bool(following) and following[0].follows and following[0].info == "text"
    return following[0].text if is_output else None


def _line(text: str, match: re.Match[str]) -> int:
    return text.count("\n", 0, match.start()) + 1


def _draw(program: Program, match: re.Match[str], pictures: dict[str, Diagram]) -> None:
    pictures[Path(match["file"]).name] = program.value(match["expression"])


class Program:
    """The module that the blocks of one page share."""

    def __init__(self, page: Path, module: types.ModuleType) -> None:
        self._file = f"<{page.name}>"
        self._module = module
        self._lines: list[str] = []

    def run(self, block: Block) -> str:
        """Run a block; what it printed."""
        # Padded, so that tracebacks and `inspect.getsource` find the lines that the page has.
        self._lines += ["\n"] * (block.line - 1 - len(self._lines)) + block.text.splitlines(keepends=True)
        linecache.cache[self._file] = (len("".join(self._lines)), None, self._lines, self._file)
        code = compile("\n" * (block.line - 1) + block.text, self._file, "exec")
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(code, self._module.__dict__)  # noqa: S102  # our own pages
        return printed.getvalue()

    def value(self, expression: str) -> Diagram:
        """What an expression over the program gives: a diagram."""
        found: object = eval(expression, self._module.__dict__)  # noqa: S307  # our own pages
        assert isinstance(found, Diagram), f"{expression} in {self._file} is no diagram"
        return found


@contextlib.contextmanager
def _program(page: Path) -> Generator[Program]:
    module = types.ModuleType(f"page_{page.stem.lower()}")
    sys.modules[module.__name__] = module  # pydantic and `inspect` look for it there
    try:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            yield Program(page, module)
    finally:
        del sys.modules[module.__name__]


def mark(dot: str) -> str:
    """The line that says in an SVG file which DOT text it was drawn from."""
    return f"<!-- drawn from DOT {hashlib.blake2b(dot.encode(), digest_size=12).hexdigest()} -->\n"


def main() -> None:
    """Draw every picture of every page anew, and remove those that no page shows."""
    names: set[str] = set()
    for page in pages():
        for name, diagram in play(page).pictures.items():
            dot = diagram.dot()
            names |= {name, Path(name).with_suffix(".dot").name}
            svg = PICTURES / name
            if svg.exists() and svg.read_text(encoding="utf-8").endswith(mark(dot)):
                continue
            svg.with_suffix(".dot").write_text(dot, encoding="utf-8")
            svg.write_text(diagram.svg().rstrip() + "\n" + mark(dot), encoding="utf-8")
            print(f"drew {os.path.relpath(svg, ROOT)}")  # noqa: T201  # a script
    for file in PICTURES.iterdir():
        if file.name not in names:
            file.unlink()


if __name__ == "__main__":
    main()
