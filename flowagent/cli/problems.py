"""What a command says when it cannot do its work: one message, one exit code, no traceback."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path
from typing import Final, Literal

ExitCode = Literal[0, 1, 2, 3, 4, 130]

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2
WAITING: Final = 3
LIMIT: Final = 4
INTERRUPTED: Final = 130

_OURS: Final = str(Path(__file__).resolve().parents[1])


class CommandError(Exception):
    """Ends a command with a message for people.

    Args:
        message: what happened, where, and what to do about it.
        code: `USAGE` when the command was refused and nothing was run, `FAILED` when a run went wrong.
    """

    def __init__(self, message: str, *, code: ExitCode = USAGE) -> None:
        self.code: ExitCode = code
        super().__init__(message)


def where(error: BaseException) -> traceback.FrameSummary | None:
    """The line of the user's own code that an exception comes from, if there is one.

    The last line that is neither ours nor of an installed package; what lies below it was called from there.
    """
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return traceback.FrameSummary(error.filename, error.lineno, "", line=error.text)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not _is_foreign(frame.filename):
            return frame
    return None


def _is_foreign(filename: str) -> bool:
    if filename.startswith("<"):
        return True
    installed = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return any(Path(filename).is_relative_to(place) for place in (_OURS, *installed))


def told(error: BaseException) -> str:
    """An exception as `Class: message`, and where in the user's code it was raised."""
    text = f"{type(error).__name__}: {_message(error)}".rstrip(": ")
    frame = where(error)
    if frame is None:
        return text
    line = f": `{frame.line.strip()}`" if frame.line else ""
    return f"{text}\n  at {shown(frame.filename)}:{frame.lineno}{line}"


def _message(error: BaseException) -> str:
    return error.msg if isinstance(error, SyntaxError) else str(error)


def shown(path: str | Path) -> str:
    """A path as short as it can be from here."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except (ValueError, OSError):  # elsewhere, or the current directory is gone
        return str(path)
