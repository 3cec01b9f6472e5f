"""Where a command writes: data and results to stdout, progress and errors to stderr.

Nothing that is written here can change what a command does: text that the stream cannot encode is replaced, a
reader that went away is not missed, and control characters in data never reach the terminal.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import traceback
from collections.abc import Generator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final, TextIO

from pydantic_core import to_jsonable_python
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from flowagent.cli.problems import FAILED, CommandError
from flowagent.core.terminal import safe

wants_tracebacks: Final[ContextVar[bool]] = ContextVar("flowagent_tracebacks", default=False)
"""Whether `--traceback` was given."""


class _Console(Console):
    """A console that does not end the program when its reader goes away."""

    def on_broken_pipe(self) -> None:
        """Write the rest into nothing."""
        _abandon(self.file)


class Output:
    """The two streams of a command, as they were when it began.

    Args:
        as_json: whether stdout is for one JSON document only.
    """

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self._stdout = sys.stdout
        self.out = _console(sys.stdout)
        self.err = _console(sys.stderr)

    def say(self, text: str = "", *, style: str = "") -> None:
        """Write a line for people to stdout; with `as_json`, nothing."""
        if not self.as_json:
            _line(self.out, text, style)

    def tell(self, text: str, *, style: str = "") -> None:
        """Write a line for people to stderr."""
        _line(self.err, text, style)

    def trace(self, error: BaseException) -> None:
        """With `--traceback`, write the whole of an exception to stderr."""
        if wants_tracebacks.get():
            self.tell("".join(traceback.format_exception(error)))

    def document(self, data: Any) -> None:
        """Write a JSON document to stdout, in UTF-8 whatever the terminal speaks."""
        # A lone surrogate (from a file name, say) becomes the JSON escape of itself.
        self.data(readable(data).encode("utf-8", "backslashreplace") + b"\n")

    def data(self, data: bytes) -> None:
        """Write bytes to stdout as they are."""
        binary: io.BufferedIOBase | None = getattr(self._stdout, "buffer", None)
        try:
            if binary is None:
                self._stdout.write(data.decode("utf-8", "replace"))
            else:
                self._stdout.flush()
                binary.write(data)
                binary.flush()
            self._stdout.flush()
        except OSError as error:
            _give_up(self._stdout, error)

    @contextlib.contextmanager
    def quiet(self) -> Generator[None]:
        """With `as_json`, send to stderr what user code prints to stdout, child processes included."""
        if not self.as_json:
            yield
            return
        with contextlib.redirect_stdout(sys.stderr), _descriptor_redirected():
            yield


def _console(stream: TextIO) -> Console:
    return _Console(file=stream, highlight=False, markup=False, emoji=False, soft_wrap=True)


def _line(console: Console, text: str, style: str) -> None:
    try:
        console.print(Text(safe(text), style), soft_wrap=True)
    except OSError as error:
        _give_up(console.file, error)


def _give_up(stream: Any, error: OSError) -> None:
    """A reader that is gone is not missed, nor is anything that cannot be told on stderr; a full disk is told there."""
    _abandon(stream)
    if stream is not sys.stderr and not isinstance(error, BrokenPipeError):
        raise CommandError(f"stdout cannot be written: {error.strerror}", code=FAILED) from error


def _abandon(stream: Any) -> None:
    """Let a stream whose reader is gone write into nothing, also when Python flushes it at the end."""
    with contextlib.suppress(OSError, ValueError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, stream.fileno())
        os.close(nothing)


@contextlib.contextmanager
def _descriptor_redirected() -> Generator[None]:
    try:
        kept = os.dup(1)
    except OSError:  # stdout is closed
        yield
        return
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def prepare_streams() -> None:
    """Let neither a closed stream nor a character that it cannot show end the program."""
    # They are None when they were closed before the program began.
    sys.stdout = sys.stdout or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # stays open to the end
    sys.stderr = sys.stderr or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # likewise
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace" if stream is sys.stderr else "replace")


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines whose columns stand below one another, wide characters included."""
    cleaned = [[safe(cell) for cell in row] for row in rows]
    widths = [max(cell_len(cell) for cell in column) for column in zip(*cleaned, strict=True)]
    return [
        "  ".join(cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cleaned
    ]


def readable(data: Any) -> str:
    """Data as JSON on several lines."""
    plain = to_jsonable_python(data, inf_nan_mode="strings", fallback=str)
    return json.dumps(plain, ensure_ascii=False, indent=2, allow_nan=False)


def counted(number: int, noun: str) -> str:
    """A number and its noun, as in "1 answer" and "2 answers"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def short(value: Any, longest: int = 60) -> str:
    """A value as JSON on one line, cut when it is long."""
    text = json.dumps(to_jsonable_python(value, fallback=str), ensure_ascii=False)
    return text if len(text) <= longest else text[: longest - 3] + "..."
