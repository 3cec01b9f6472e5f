"""A document pipeline over real files: it maps over the files of this repository and writes an index of them.

    python examples/documents.py                        index this repository
    python examples/documents.py FOLDER --out INDEX.md  index something else
    python examples/documents.py --spoil                add a file that nobody can read, and see what happens

    START -> find_files -> [read_page, once for each file]
                |             |-> add_up --------.
                |             |-> check_links ---|-> write_index -> END
                |             `-> rank ----------'

Every file is one item of a map. A file that cannot be read is collected as an `ItemError` in its place and listed
in the index; the others go on. With `--store FILE --run-id ID` the run is kept: kill it, give the same command
again, and no file that was read is read twice.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Final, Literal
from urllib.parse import unquote

from pydantic import BaseModel, ConfigDict

from flowagent import END, START, Graph, ItemError, State, Update

HERE: Final = Path(__file__).resolve().parent.parent
KINDS: Final[dict[str, Literal["document", "source"]]] = {
    ".md": "document",
    ".rst": "document",
    ".py": "source",
    ".toml": "source",
}
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)(?: \"[^\"]*\")?\)")
_DEFINITION = re.compile(r"^(?:class|(?:async )?def) (\w+)", re.MULTILINE)


class Page(BaseModel):
    """What was found in one file. `names` are headings of documents, classes and functions of sources."""

    model_config = ConfigDict(frozen=True)

    path: str
    kind: Literal["document", "source"]
    lines: int
    words: int
    names: tuple[str, ...] = ()
    links: tuple[str, ...] = ()


class BrokenLink(BaseModel):
    """A relative link that leads nowhere."""

    model_config = ConfigDict(frozen=True)

    page: str
    target: str


class Library(State):
    """The whole pipeline: folders in, an index out."""

    folders: list[str]
    files: list[str] = []
    pages: list[Page | ItemError] = []
    totals: dict[str, int] = {}
    longest: list[str] = []
    broken: list[BrokenLink] = []
    index: str = ""


library = Graph("documents", Library)


@library.node
def find_files(lib: Library) -> Update:
    """Lists the files below the folders, hidden ones and other people's packages left out."""
    return {"files": [path.as_posix() for folder in lib.folders for path in files_below(Path(folder))]}


def files_below(folder: Path) -> list[Path]:
    """The documents and sources below a folder, in order."""
    return sorted(path for path in folder.rglob("*") if path.suffix in KINDS and not _is_foreign(path, folder))


def _is_foreign(path: Path, folder: Path) -> bool:
    parts = path.relative_to(folder).parts
    return path.is_dir() or any(part.startswith(".") or part in {"node_modules", "build", "dist"} for part in parts)


@library.map(over="files", into="pages", on_item_error="collect", at_most=8)
def read_page(file: str) -> Page:
    """Reads one file and counts. Whatever goes wrong here is collected as an `ItemError`."""
    return page_of(file, Path(file).read_text(encoding="utf-8"))


def page_of(file: str, text: str) -> Page:
    """What is in a file of that name and text."""
    path = PurePosixPath(file)
    prose = _FENCE.sub("", text) if path.suffix == ".md" else text
    return Page(
        path=file,
        kind=KINDS[path.suffix],
        lines=len(text.splitlines()),
        words=len(text.split()),
        names=tuple((_DEFINITION if path.suffix == ".py" else _HEADING).findall(prose)),
        links=tuple(found["target"] for found in _LINK.finditer(prose)) if path.suffix == ".md" else (),
    )


def read_ones(pages: Sequence[Page | ItemError]) -> list[Page]:
    """The files that could be read."""
    return [page for page in pages if isinstance(page, Page)]


@library.node
def add_up(lib: Library) -> Update:
    """Sums over all files."""
    pages = read_ones(lib.pages)
    return {
        "totals": {
            "files": len(pages),
            "lines": sum(page.lines for page in pages),
            "words": sum(page.words for page in pages),
            "headings": sum(len(page.names) for page in pages if page.kind == "document"),
            "definitions": sum(len(page.names) for page in pages if page.kind == "source"),
        }
    }


@library.node
def check_links(lib: Library) -> Update:
    """Follows every relative link."""
    return {
        "broken": [
            BrokenLink(page=page.path, target=link)
            for page in read_ones(lib.pages)
            for link in page.links
            if is_relative(link) and not (Path(page.path).parent / unquote(link.partition("#")[0])).exists()
        ]
    }


def is_relative(link: str) -> bool:
    """Whether a link leads to another file beside this one."""
    return not re.match(r"[a-z][a-z0-9+.-]*:|#|/", link, re.IGNORECASE)


@library.node
def rank(lib: Library) -> Update:
    """Finds the five longest files."""
    pages = sorted(read_ones(lib.pages), key=lambda page: (-page.words, page.path))
    return {"longest": [page.path for page in pages[:5]]}


@library.node
def write_index(lib: Library) -> Update:
    """Reduces everything to one page of markdown."""
    return {"index": markdown(lib)}


def markdown(lib: Library) -> str:
    """The index: sums, the longest files, broken links, unreadable files, and a line for each file."""
    broken = [f"- `{link.target}` in {link.page}" for link in lib.broken]
    unread = [
        f"- {file}: {page.message}"
        for file, page in zip(lib.files, lib.pages, strict=True)
        if isinstance(page, ItemError)
    ]
    return "\n".join(
        [
            "# Index",
            "",
            ", ".join(f"{count} {name}" for name, count in lib.totals.items()),
            *_section("Longest", [f"- {path}" for path in lib.longest]),
            *_section("Broken links", broken),
            *_section("Could not be read", unread),
            *_section("Files", [_line(page) for page in read_ones(lib.pages)]),
            "",
        ]
    )


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return ["", f"## {title}", "", *(lines or ["none"])]


def _line(page: Page) -> str:
    names = ", ".join(page.names[:6]) + (", ..." if len(page.names) > 6 else "")
    return f"- {page.path} ({page.lines} lines){': ' if names else ''}{names}"


library.chain(START, find_files, read_page)
for reading in (add_up, check_links, rank):
    library.chain(read_page, reading, write_index)
library.chain(write_index, END)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the pipeline and says what it found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", nargs="?", type=Path, default=HERE, help="default: this repository")
    parser.add_argument("--out", metavar="FILE", type=Path, help="write the index here instead of printing its head")
    parser.add_argument("--spoil", action="store_true", help="add a file that is not UTF-8, from a temporary folder")
    parser.add_argument("--store", metavar="FILE", help="keep the run in this SQLite file")
    parser.add_argument("--run-id", metavar="ID", help="start this run, or go on with it")
    parser.add_argument("--draw", metavar="FILE", type=Path, help="draw the run")
    args = parser.parse_args(argv)
    if args.spoil and args.run_id:
        parser.error("--spoil makes a new folder each time, which is another input: leave out --run-id")
    with tempfile.TemporaryDirectory() as spoiled:
        folders = [args.folder.as_posix()]
        if args.spoil:
            (Path(spoiled) / "spoiled.md").write_bytes(b"# A page in Latin-1\n\nna\xefve caf\xe9\n")
            folders.append(Path(spoiled).as_posix())
        run = library.run_sync(Library(folders=folders), store=args.store, run_id=args.run_id)
    if args.draw:
        run.draw().save(args.draw)
    if args.out:
        args.out.write_text(run.state.index, encoding="utf-8")
    print(args.out or run.state.index.partition("## Files")[0].rstrip())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
