"""Remembers in `.flowagent/graphs.json` where a graph was found, so that nobody has to say it again to resume.

It keeps names of code (`flow.py:graph`), never input, answers or deps. Losing the file loses a convenience; two
commands that write it at the same moment may lose one of two new lines.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from flowagent.cli.problems import CommandError

FOLDER: Final = Path(".flowagent")
FILE: Final = FOLDER / "graphs.json"


class Remembered(BaseModel):
    """Where a graph and its deps were found, as given on the command line."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    target: str
    deps: str | None = None


class _Memory(BaseModel):
    """The file: graphs by name."""

    graphs: dict[str, Remembered] = {}


def remember(graph: str, target: str, deps: str | None) -> bool:
    """Note where a graph is, for the directory that we are in; whether that worked."""
    entry = Remembered(target=target, deps=deps)
    try:
        memory = _read()
    except CommandError:
        memory = _Memory()  # it cannot be read, so nothing is lost
    if memory.graphs.get(graph) == entry:
        return True
    memory.graphs[graph] = entry
    draft = FOLDER / f".{uuid.uuid4().hex}"
    try:
        FOLDER.mkdir(mode=0o700, exist_ok=True)
        draft.write_text(memory.model_dump_json(indent=2) + "\n", encoding="utf-8")
        os.replace(draft, FILE)  # noqa: PTH105  # says that the old file goes
    except OSError:
        return False
    return True


def recall(graph: str) -> Remembered | None:
    """Where a graph was found the last time it was run from this directory.

    Raises:
        CommandError: the file cannot be read.
    """
    return _read().graphs.get(graph)


def _read() -> _Memory:
    try:
        return _Memory.model_validate_json(FILE.read_bytes())
    except FileNotFoundError:
        return _Memory()
    except (OSError, ValidationError) as error:
        what = "is damaged" if isinstance(error, ValidationError) else f"cannot be read ({error.strerror})"
        raise CommandError(
            f"`{FILE}` {what}: say where the graph is with --graph MODULE:GRAPH, or remove the file"
        ) from error
