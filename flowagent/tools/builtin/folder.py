"""A folder that nothing leads out of: every path is walked part by part, and no link is ever followed.

On POSIX each step opens the next folder relative to the one before by its descriptor, with `O_NOFOLLOW`, so that
nobody can put a link in between the look and the use. Where the system has no such calls (Windows), each part is looked
at before it is used, which a process that changes the folder at the same moment could outrun.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from flowagent.errors import ToolError

BY_DESCRIPTOR: Final = {os.open, os.stat, os.mkdir, os.unlink, os.link} <= os.supports_dir_fd
"""Whether this system walks by descriptors."""

_NOFOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_NONBLOCK: Final = getattr(os, "O_NONBLOCK", 0)  # a pipe must not hold us before we see that it is one
_FOLDER: Final = getattr(os, "O_DIRECTORY", 0)
_BINARY: Final = getattr(os, "O_BINARY", 0)
_CLOEXEC: Final = getattr(os, "O_CLOEXEC", 0)
_DRIVE: Final = re.compile(r"[A-Za-z]:")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_DEVICES: Final = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])(?:\.|$)", re.IGNORECASE)
_LONGEST_NAME: Final = 255
_DEEPEST: Final = 64


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing in a folder.

    Args:
        path: below the base folder, its parts parted by `/`.
        kind: `file`, `folder`, `link` (which is never followed) or `other` (a device, a pipe, a socket).
        size: of a file, in bytes; else 0.
        modified: when a file was last changed, in seconds since 1970.
        mode: its permissions.
    """

    path: str
    kind: str
    size: int
    modified: float
    mode: int


@dataclass(frozen=True, slots=True)
class _Spot:
    """Where one name is, for the calls of `os`: in an open folder, or as a whole path where there are none."""

    path: str
    name: str
    folder: int | None

    def down(self, name: str) -> str:
        return name if self.folder is not None else os.path.join(self.name, name)  # noqa: PTH118


def parts_of(path: str) -> tuple[str, ...]:
    """The parts of a path below a base folder, the same on every system; the base itself has none.

    Raises:
        ToolError: it is absolute, leads up, or has a name that means something else on some system.
    """
    fault = _fault_of(path)
    parts = tuple(part for part in path.split("/") if part not in {"", "."})
    fault = fault or next((found for part in parts if (found := _fault_of_name(part))), "")
    if not fault and len(parts) > _DEEPEST:
        fault = f"it has more than {_DEEPEST} folders"
    if fault:
        shown = path if len(path) <= 100 else f"{path[:100]}..."
        raise ToolError(
            f"the path {shown!r} is refused: {fault}; give a path below the base folder, such as `sub/a.txt`"
        )
    return parts


def _fault_of(path: str) -> str:
    if not path:
        return "it is empty"
    if _CONTROL.search(path):
        return "it has a control character"
    if "\\" in path:
        return "folders are parted by `/`, and `\\` is in no name"
    if path.startswith("/"):
        return "it is absolute"
    if _DRIVE.match(path):
        return "it names a drive"
    if path.startswith("~"):
        return "`~` stands for no folder here"
    return ""


def _fault_of_name(name: str) -> str:
    if name == "..":
        return "`..` leads out of folders"
    if name != name.rstrip(". "):
        return f"the name `{name}` ends in a dot or a blank, which some systems drop"
    if _DEVICES.match(name):
        return f"`{name}` is a device on some systems"
    try:
        return f"the name `{name[:20]}...` is too long" if len(os.fsencode(name)) > _LONGEST_NAME else ""
    except UnicodeEncodeError:
        return "it has a character that no file name can have"


class Folder:
    """A folder of the program's choice, and all that may be done below it.

    Every method takes the parts of a path as `parts_of` gives them, and raises `ToolError` where a part is a link, or
    something else than it must be.

    Args:
        base: an existing folder; links that lead to it are followed once, now.
        by_descriptor: whether to walk by descriptors; for tests of the other way.
    """

    def __init__(self, base: str | os.PathLike[str], *, by_descriptor: bool = BY_DESCRIPTOR) -> None:
        self.base = os.path.realpath(base, strict=True)
        self._by_descriptor = by_descriptor
        if self.look(()).kind != "folder":
            raise NotADirectoryError(errno.ENOTDIR, "the base of file tools must be a folder", self.base)

    def look(self, parts: tuple[str, ...]) -> Entry:
        """What is there, without following it."""
        if not parts:
            return _entry(".", Path(self.base).stat())
        with self._within(parts[:-1]) as spot:
            return self._look(spot, parts[-1])

    def entries(self, parts: tuple[str, ...]) -> list[Entry]:
        """What is in a folder, by name."""
        with self._within(parts) as spot, os.scandir(spot.name if spot.folder is None else spot.folder) as found:
            names = sorted(one.name for one in found if not one.name.startswith(_TEMPORARY))
            return [self._look(spot, name) for name in names if self._is_there(spot, name)]

    def walk(self, parts: tuple[str, ...]) -> Iterator[Entry]:
        """Every entry below a folder, folders before what is in them; links are told and not followed."""
        for entry in self.entries(parts):
            yield entry
            inside = (*parts, entry.path.rpartition("/")[2])
            if entry.kind == "folder" and len(inside) <= _DEEPEST:
                yield from self.walk(inside)

    def read(self, parts: tuple[str, ...], limit: int) -> bytes:
        """The bytes of a file.

        Args:
            limit: the most bytes that it may have.
        """
        path = "/".join(parts)
        with self._within(parts[:-1]) as spot:
            self._must_be_file(self._look(spot, parts[-1]) if parts else self.look(parts))
            with self._telling(path):
                descriptor = os.open(
                    spot.down(parts[-1]), os.O_RDONLY | _NOFOLLOW | _NONBLOCK | _BINARY | _CLOEXEC, dir_fd=spot.folder
                )
        with os.fdopen(descriptor, "rb") as file:
            # Looked at again: what was a file a moment ago may have been replaced.
            self._must_be_file(_entry(path, os.fstat(descriptor)))
            data = file.read(limit + 1)
        if len(data) > limit:
            raise ToolError(f"`{path}` has more than {limit} bytes, the most that is read of a file")
        return data

    def write(self, parts: tuple[str, ...], data: bytes, *, replace: bool) -> bool:
        """Write a whole file at once: whoever reads it sees all of the old or all of the new.

        Folders that are missing are made.

        Args:
            replace: whether a file that is there is replaced.

        Returns:
            Whether a file was replaced.
        """
        self._make(parts[:-1])
        with self._within(parts[:-1]) as spot:
            there = self._look(spot, parts[-1]) if self._is_there(spot, parts[-1]) else None
            if there is not None:
                self._must_be_file(there)
            if there is not None and not replace:
                raise ToolError(
                    f"`{there.path}` is there already; say that it shall be replaced, or choose another name"
                )
            with self._telling("/".join(parts)):
                self._put(spot, parts[-1], data, there)
            return there is not None

    def delete(self, parts: tuple[str, ...]) -> None:
        """Remove a file, or a folder with nothing in it."""
        if not parts:
            raise ToolError("the base folder itself is not deleted")
        with self._within(parts[:-1]) as spot:
            there = self._look(spot, parts[-1])
            with self._telling(there.path):
                if there.kind == "folder":
                    os.rmdir(spot.down(parts[-1]), dir_fd=spot.folder)
                else:
                    self._must_be_file(there)
                    os.unlink(spot.down(parts[-1]), dir_fd=spot.folder)

    # -- walking -----------------------------------------------------------------------------------------------------

    @contextmanager
    def _within(self, parts: tuple[str, ...]) -> Generator[_Spot]:
        """The folder at a path, held open as long as the block runs."""
        if not self._by_descriptor:
            yield self._looked_through(parts)
            return
        flags = os.O_RDONLY | _FOLDER | _NOFOLLOW | _CLOEXEC
        held = os.open(self.base, flags)
        try:
            for depth, part in enumerate(parts, 1):
                with self._telling("/".join(parts[:depth])):
                    inner = os.open(part, flags, dir_fd=held)
                os.close(held)
                held = inner
            yield _Spot("/".join(parts), ".", held)
        finally:
            os.close(held)

    def _looked_through(self, parts: tuple[str, ...]) -> _Spot:
        spot = _Spot("", self.base, None)
        for part in parts:
            entry = self._look(spot, part)
            if entry.kind != "folder":
                raise ToolError(_no_folder(entry.path))
            spot = _Spot(entry.path, spot.down(part), None)
        if not _is_below(os.path.realpath(spot.name), self.base):  # a junction, which is no link for `stat`
            raise ToolError(f"`{spot.path}` leads out of the base folder")
        return spot

    def _look(self, spot: _Spot, name: str) -> Entry:
        path = f"{spot.path}/{name}" if spot.path else name
        with self._telling(path):
            return _entry(path, os.stat(spot.down(name), dir_fd=spot.folder, follow_symlinks=False))

    def _is_there(self, spot: _Spot, name: str) -> bool:
        try:
            os.stat(spot.down(name), dir_fd=spot.folder, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def _make(self, parts: tuple[str, ...]) -> None:
        for depth, part in enumerate(parts):
            with self._within(parts[:depth]) as spot, self._telling("/".join(parts[: depth + 1])):
                try:
                    os.mkdir(spot.down(part), dir_fd=spot.folder)
                except FileExistsError:
                    pass  # whatever it is: the next step looks at it

    def _put(self, spot: _Spot, name: str, data: bytes, there: Entry | None) -> None:
        temporary = spot.down(f"{_TEMPORARY}{secrets.token_hex(8)}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW | _BINARY | _CLOEXEC
        descriptor = os.open(temporary, flags, 0o666, dir_fd=spot.folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                if there is not None and hasattr(os, "fchmod"):
                    os.fchmod(descriptor, there.mode)
                os.fsync(descriptor)
            if there is None:  # a link is made only where nothing is: two that make one file at once do not both win
                _name_anew(spot, temporary, spot.down(name))
            else:
                os.replace(temporary, spot.down(name), src_dir_fd=spot.folder, dst_dir_fd=spot.folder)
        finally:
            try:
                os.unlink(temporary, dir_fd=spot.folder)
            except FileNotFoundError:
                pass  # it has its new name

    def _must_be_file(self, entry: Entry) -> None:
        match entry.kind:
            case "file":
                return
            case "folder":
                raise ToolError(f"`{entry.path}` is a folder, not a file")
            case "link":
                raise ToolError(f"`{entry.path}` is a link, and links are never followed")
            case _:
                raise ToolError(f"`{entry.path}` is no plain file but a device, a pipe or a socket")

    @contextmanager
    def _telling(self, path: str) -> Generator[None]:
        """What the system refuses, in words for a model, without where the base folder is."""
        try:
            yield
        except FileNotFoundError as error:
            raise ToolError(f"there is no `{path}`; list the folder to see what there is") from error
        except FileExistsError as error:
            raise ToolError(f"`{path}` is there already") from error
        except OSError as error:
            if error.errno in {errno.ENOTDIR, errno.ELOOP, errno.EMLINK}:
                raise ToolError(_no_folder(path)) from error
            raise ToolError(f"`{path}`: {os.strerror(error.errno) if error.errno else 'the system refuses'}") from error


_TEMPORARY: Final = ".flowagent-writing-"
_NO_LINKS: Final = {errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK}
_REPARSED: Final = {0xA000000C, 0xA0000003}
"""What Windows marks links and junctions with; it marks other things that are files, too."""


def _name_anew(spot: _Spot, temporary: str, name: str) -> None:
    try:
        os.link(temporary, name, src_dir_fd=spot.folder, dst_dir_fd=spot.folder)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        os.rename(temporary, name, src_dir_fd=spot.folder, dst_dir_fd=spot.folder)  # a disk without hard links


def _no_folder(path: str) -> str:
    return f"`{path}` is a link or no folder, and links are never followed"


def _is_below(path: str, base: str) -> bool:
    return os.path.commonpath([path, base]) == base


def _entry(path: str, found: os.stat_result) -> Entry:
    mode = found.st_mode
    if stat.S_ISLNK(mode) or getattr(found, "st_reparse_tag", 0) in _REPARSED:
        kind = "link"
    elif stat.S_ISDIR(mode):
        kind = "folder"
    else:
        kind = "file" if stat.S_ISREG(mode) else "other"
    return Entry(path, kind, found.st_size if kind == "file" else 0, found.st_mtime, stat.S_IMODE(mode))
