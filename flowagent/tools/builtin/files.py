"""Files below one folder, for a model to read and, where the program allows it, to write."""

from __future__ import annotations

import codecs
import fnmatch
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final

from flowagent.errors import ToolError
from flowagent.tools.builtin.folder import BY_DESCRIPTOR, Entry, Folder, parts_of
from flowagent.tools.tool import Approval, Tool, tool

_BOMS: Final = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_LONGEST_LINE: Final = 300
"""The most characters that are shown of a line in which something was found."""


@dataclass(frozen=True, slots=True)
class FileInfo:
    """What is known of a file or folder.

    Args:
        path: below the base folder.
        kind: `file`, `folder`, `link` (never followed) or `other`.
        size: of a file, in bytes; else 0.
        modified: when it was last changed, in UTC.
    """

    path: str
    kind: str
    size: int
    modified: str


@dataclass(frozen=True, slots=True)
class Listing:
    """What is in a folder.

    Args:
        entries: by name.
        more: how many there are beyond those that are listed.
    """

    entries: tuple[FileInfo, ...]
    more: int = 0


@dataclass(frozen=True, slots=True)
class Hit:
    """A line in which a text was found.

    Args:
        path: the file, below the base folder.
        line: which line, from 1.
        text: the line, cut where it is long.
    """

    path: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Hits:
    """Where a text was found.

    Args:
        hits: by path and line.
        complete: whether these are all; if not, a narrower search tells more.
        skipped: files that were not looked into, as they are too large or no text.
    """

    hits: tuple[Hit, ...]
    complete: bool = True
    skipped: int = 0


class Files:
    """A toolkit for the files below one folder; nothing leads out of it, and no link is ever followed.

    A path is relative, its parts are parted by `/`, and the same paths are good on every system: absolute ones, `..`,
    drives, `~`, backslashes, control characters and the names of devices are refused. Only plain files are opened.

    Files are text: UTF-8, or UTF-16 that begins with its mark. What is neither is refused as binary. What is written is
    UTF-8, at once and whole, line ends as they are given.

    Args:
        base: an existing folder.
        writable: whether there are tools that write, append and delete.
        approval: whether a person decides over each call of those; or a function that says so, see `ToolOptions`.
        max_bytes: the most bytes of a file that is read or written.
        max_entries: the most entries of a listing, and the most hits of a search.
        by_descriptor: whether to walk by descriptors, where the system can; see `Folder`.

    Raises:
        OSError: there is no such folder.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as base:
        ...     files = Files(base, writable=True)
        ...     print(files.write_file("notes/today.txt", "buy milk"))
        ...     print(files.read_file("notes/today.txt"))
        wrote 8 bytes to the new file `notes/today.txt`
        buy milk
    """

    def __init__(
        self,
        base: str | os.PathLike[str],
        *,
        writable: bool = False,
        approval: Approval = False,
        max_bytes: int = 1_000_000,
        max_entries: int = 500,
        by_descriptor: bool = BY_DESCRIPTOR,
    ) -> None:
        self._folder = Folder(base, by_descriptor=by_descriptor)
        self._writable = writable
        self._approval: Approval = approval
        self._max_bytes = max_bytes
        self._max_entries = max_entries
        self._writing = threading.Lock()  # appending reads and writes: two of one program must not lose a text

    def __repr__(self) -> str:
        return f"Files({self._folder.base!r}, writable={self._writable})"

    def tools(self) -> tuple[Tool[..., Any], ...]:
        """What a model may call: those that read, and if the files are writable, those that change them."""
        reading = (self.list_files, self.read_file, self.search_files, self.file_info)
        writing = (self.write_file, self.append_file, self.delete_file) if self._writable else ()
        return (
            *(tool(one, tags=("files", "read-only")) for one in reading),
            *(tool(one, tags=("files",), approval=self._approval) for one in writing),
        )

    # -- reading -----------------------------------------------------------------------------------------------------

    def list_files(self, folder: str = ".", pattern: str = "*", recursive: bool = False) -> Listing:
        """List what is in a folder.

        Args:
            folder: below the base folder; `.` is the base itself.
            pattern: which names, with `*` and `?`, such as `*.md`.
            recursive: whether to list all that is below it, too.
        """
        parts = parts_of(folder)
        found = self._folder.walk(parts) if recursive else iter(self._folder.entries(parts))
        matching = (entry for entry in found if fnmatch.fnmatchcase(entry.path.rpartition("/")[2], pattern))
        entries = tuple(_info(entry) for entry in islice(matching, self._max_entries))
        return Listing(entries, sum(1 for _ in matching))

    def read_file(self, path: str, first_line: int = 1, max_lines: int | None = None) -> str:
        """Read a text file.

        Args:
            path: below the base folder.
            first_line: where to begin, from 1.
            max_lines: how many lines at most; left out, to the end.
        """
        text = self._text(path)
        if first_line < 1 or (max_lines is not None and max_lines < 1):
            raise ToolError("first_line and max_lines are whole numbers from 1")
        if first_line == 1 and max_lines is None:
            return text
        lines = text.splitlines(keepends=True)
        if first_line > max(len(lines), 1):
            raise ToolError(f"`{path}` has {len(lines)} lines; first_line={first_line} is behind its end")
        return "".join(lines[first_line - 1 : None if max_lines is None else first_line - 1 + max_lines])

    def search_files(self, text: str, folder: str = ".", pattern: str = "*", ignore_case: bool = True) -> Hits:
        """Find the lines of text files in which a text stands.

        Args:
            text: what to look for, character by character; it is no pattern.
            folder: where to look, with all that is below it.
            pattern: in files of which names, with `*` and `?`, such as `*.md`.
            ignore_case: whether upper and lower case are the same.
        """
        if not text or "\n" in text:
            raise ToolError("text= is what stands in one line: it must not be empty or have line ends")
        wanted = text.casefold() if ignore_case else text
        hits: list[Hit] = []
        skipped = 0
        for entry in self._files(parts_of(folder), pattern):
            try:
                content = self._text(entry.path)
            except ToolError:  # too large, binary, or gone meanwhile: the other files can be searched all the same
                skipped += 1
                continue
            hits += _hits(entry.path, content, wanted, ignore_case)
            if len(hits) > self._max_entries:
                return Hits(tuple(hits[: self._max_entries]), complete=False, skipped=skipped)
        return Hits(tuple(hits), skipped=skipped)

    def file_info(self, path: str) -> FileInfo:
        """Tell the kind, size and time of change of a file or folder.

        Args:
            path: below the base folder.
        """
        return _info(self._folder.look(parts_of(path)))

    # -- writing -----------------------------------------------------------------------------------------------------

    def write_file(self, path: str, content: str, replace: bool = False) -> str:
        """Write a text file, whole; folders that are missing are made.

        Args:
            path: below the base folder.
            content: all of the file's text.
            replace: whether a file that is there already is replaced.
        """
        with self._writing:
            data = self._encoded(path, content)
            replaced = self._folder.write(self._named(path), data, replace=replace)
        return f"wrote {len(data)} bytes to {'' if replaced else 'the new file '}`{path}`"

    def append_file(self, path: str, content: str) -> str:
        """Add text at the end of a text file that is there.

        Args:
            path: below the base folder.
            content: what to add, with its line ends.
        """
        with self._writing:
            data = self._encoded(path, self._text(path) + content)
            self._folder.write(self._named(path), data, replace=True)
        return f"`{path}` has {len(data)} bytes now"

    def delete_file(self, path: str) -> str:
        """Delete a file, or a folder with nothing in it.

        Args:
            path: below the base folder.
        """
        with self._writing:
            self._must_be_writable()
            self._folder.delete(parts_of(path))
        return f"deleted `{path}`"

    # -- what they share ---------------------------------------------------------------------------------------------

    def _named(self, path: str) -> tuple[str, ...]:
        self._must_be_writable()
        parts = parts_of(path)
        if not parts or path.endswith("/"):
            raise ToolError(f"`{path}` names a folder: give the path of a file, such as `sub/a.txt`")
        return parts

    def _must_be_writable(self) -> None:
        if not self._writable:
            raise ToolError("these files may be read only")

    def _encoded(self, path: str, content: str) -> bytes:
        try:
            data = content.encode()
        except UnicodeEncodeError as error:
            raise ToolError(
                f"the text for `{path}` has half of a character at {error.start}, which is no text"
            ) from error
        if len(data) > self._max_bytes:
            raise ToolError(f"`{path}` would have {len(data)} bytes, and {self._max_bytes} are the most")
        return data

    def _text(self, path: str) -> str:
        data = self._folder.read(parts_of(path), self._max_bytes)
        mark, encoding = next((bom for bom in _BOMS if data.startswith(bom[0])), (b"", "utf-8"))
        try:
            text = data[len(mark) :].decode(encoding)
        except UnicodeDecodeError as error:
            raise ToolError(f"`{path}` is no text in UTF-8 or UTF-16: byte {error.start} of {len(data)}") from error
        if "\x00" in text:
            raise ToolError(f"`{path}` is binary: it has a NUL character at {text.index(chr(0))}")
        return text

    def _files(self, parts: tuple[str, ...], pattern: str) -> Iterator[Entry]:
        if parts and (there := self._folder.look(parts)).kind == "file":
            yield there
            return
        for entry in self._folder.walk(parts):
            if entry.kind == "file" and fnmatch.fnmatchcase(entry.path.rpartition("/")[2], pattern):
                yield entry


def _hits(path: str, content: str, wanted: str, ignore_case: bool) -> list[Hit]:
    return [
        Hit(path, number, line[:_LONGEST_LINE])
        for number, line in enumerate(content.splitlines(), 1)
        if wanted in (line.casefold() if ignore_case else line)
    ]


def _info(entry: Entry) -> FileInfo:
    modified = datetime.fromtimestamp(entry.modified, UTC).isoformat(timespec="seconds")
    return FileInfo(entry.path, entry.kind, entry.size, modified)
