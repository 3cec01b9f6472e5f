"""Reads an attachment and says in one sentence what is in it. What cannot be read raises, and says why."""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections import Counter
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from io import StringIO
from pathlib import Path, PurePath
from typing import cast

_LOG_LEVEL = re.compile(r"\b(DEBUG|INFO|WARN|ERROR)\b")
_RAISED = re.compile(r"^(?P<kind>[\w.]+): (?P<text>.*)$", re.MULTILINE)
_FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d+)', re.MULTILINE)


class UnreadableError(Exception):
    """An attachment of a kind that nobody here can read."""


def summarise(folder: Path, name: str) -> str:
    """What the file `name` in `folder` holds.

    Raises:
        UnreadableError: no reader for files of this kind.
        OSError, EOFError, ValueError: the file is missing, cut off or damaged.
    """
    path = folder / PurePath(name).name
    data = path.read_bytes()
    if path.suffix == ".gz":
        data, path = gzip.decompress(data), path.with_suffix("")
    reader = _READERS.get(path.suffix)
    if reader is None:
        raise UnreadableError(f"no reader for {path.suffix or 'nameless'} files")
    return reader(data.decode())


def summarise_csv(text: str) -> str:
    """Rows and columns; and whether the lines of an invoice add up to its total."""
    rows = list(csv.DictReader(StringIO(text)))
    columns = list(rows[0]) if rows else []
    summary = f"{len(rows)} rows with {', '.join(columns)}"
    if "amount" not in columns:
        return summary
    amounts = {row[columns[0]]: _amount(row["amount"]) for row in rows}
    total = amounts.pop("Total", None)
    lines = sum(amounts.values(), Decimal(0))
    if total is None or total == lines:
        return f"{summary}; the lines add up to {lines}"
    return f"{summary}; the total says {total}, the lines add up to {lines}"


def _amount(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise ValueError(f"`{text}` is not an amount") from error


def summarise_log(text: str) -> str:
    """Lines by level, and the last exception with the place that raised it."""
    levels = Counter(_LOG_LEVEL.findall(text))
    counts = [f"{levels[level]} {level.lower()}" for level in ("ERROR", "WARN", "INFO", "DEBUG") if levels[level]]
    summary = f"{', '.join(counts)} lines"
    trace = text.rpartition("Traceback (most recent call last):")[2]
    frames, raised = _FRAME.findall(trace), _RAISED.search(trace)
    if not frames or raised is None:
        return summary
    file, line = frames[-1]
    return f"{summary}; {raised['kind']}: {raised['text']} at {file}:{line}"


def summarise_json(text: str) -> str:
    """The settings, flattened to `a.b = value`."""
    return ", ".join(f"{path} = {value}" for path, value in _leaves(json.loads(text), ""))


def _leaves(value: object, path: str) -> list[tuple[str, object]]:
    if not isinstance(value, dict):
        return [(path, value)]
    fields = cast("dict[str, object]", value)
    return [leaf for key, inner in fields.items() for leaf in _leaves(inner, f"{path}.{key}".lstrip("."))]


_READERS: dict[str, Callable[[str], str]] = {
    ".csv": summarise_csv,
    ".log": summarise_log,
    ".json": summarise_json,
}
