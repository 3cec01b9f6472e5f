"""A server program for as long as a `with` block lasts: started, waited for, and stopped for sure."""

from __future__ import annotations

import os
import re
import subprocess
import time
import urllib.request
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_LISTENING: Final = re.compile(r"listening on (http://127\.0\.0\.1:\d+)")


class NotServed(Exception):
    """The server ended or said nothing; the text holds the end of its log."""


@dataclass(frozen=True)
class Served:
    """A server that answers.

    Args:
        url: where it listens, without a path.
        log: what it wrote.
        pid: its process.
    """

    url: str
    log: Path
    pid: int

    def said(self, lines: int = 40) -> str:
        """The end of its log."""
        return _end_of(self.log, lines)


@contextmanager
def served(
    command: Sequence[str],
    *,
    log: Path,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    health: str = "/health",
    seconds: float = 60,
    patience: float = 5,
) -> Generator[Served]:
    """Start a server, wait until it answers, and stop it at the end.

    It chooses a free port itself and writes `listening on http://127.0.0.1:PORT`; so no two of them can want the same.
    It is expected to end when its standard input closes. That makes sure of its end even when this process is killed.

    Args:
        command: the program and its arguments.
        log: the file for what it writes.
        cwd: where it runs.
        environment: variables in addition to those of this process.
        health: a path that answers 200 when it can work.
        seconds: how long it may take to get there.
        patience: how many seconds it may take to end before it is made to.

    Raises:
        NotServed: it did not get there.
    """
    with log.open("wb") as written:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=written,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env={**os.environ, **(environment or {})},
        )
    try:
        yield Served(_ready(process, log, health, time.monotonic() + seconds), log, process.pid)
    finally:
        _stop(process, patience)


def _ready(process: subprocess.Popen[bytes], log: Path, health: str, deadline: float) -> str:
    """The address of a server, as soon as it answers."""
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise NotServed(f"the server ended with exit code {process.returncode}; its log ends so:\n{_end_of(log)}")
        found = _LISTENING.search(log.read_text("utf-8", "replace"))
        if found and _is_healthy(found[1] + health):
            return found[1]
        time.sleep(0.05)
    raise NotServed(f"the server did not answer in time; its log ends so:\n{_end_of(log)}")


def _is_healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return reply.status == 200
    except OSError:  # not yet, or not well: both are `OSError`s here
        return False


def _stop(process: subprocess.Popen[bytes], patience: float) -> None:
    """End a process: by its standard input, else by force."""
    assert process.stdin is not None
    process.stdin.close()
    for insist in (process.terminate, process.kill):
        try:
            process.wait(timeout=patience)
        except subprocess.TimeoutExpired:
            insist()
    process.wait()


def _end_of(log: Path, lines: int = 40) -> str:
    return "\n".join(log.read_text("utf-8", "replace").splitlines()[-lines:])
