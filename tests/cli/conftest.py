"""Runs command lines in this process, in a folder of their own."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import from_json

from flowagent.cli import main
from tests.cli import flows


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The JSON document that is all of stdout."""
        return from_json(self.out)


class CommandLine:
    """Types commands."""

    def __call__(self, *words: str, stdin: bytes = b"") -> Ended:
        streams = sys.stdin, sys.stdout, sys.stderr
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
        sys.stdin, sys.stdout, sys.stderr = io.TextIOWrapper(io.BytesIO(stdin)), out, err
        try:
            code = main(words)
        finally:
            sys.stdin, sys.stdout, sys.stderr = streams
        return Ended(code, _written_to(out), _written_to(err))


def _written_to(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder that we are in; what is imported from it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if file.startswith(f"{tmp_path}{os.sep}"):
            del sys.modules[name]


@pytest.fixture
def cli(folder: Path) -> CommandLine:
    """Types commands in a folder with a few files."""
    for name in ("triage", "small", "spend", "faulty", "conflict", "deps", "handled"):
        (folder / f"{name}_flow.py").write_text(getattr(flows, name.upper()), encoding="utf-8")
    return CommandLine()
