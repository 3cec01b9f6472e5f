"""Child processes of the store tests: small scripts that tell their parent how far they are, line by line."""

from __future__ import annotations

import asyncio
import signal
import sys
import textwrap
from pathlib import Path
from typing import Self

from tests.patience import PATIENCE

_ROOT = Path(__file__).parents[2]

_HEAD = """
import asyncio, os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell has the tests in the background
from flowagent.core.records import Record, Snapshot
from flowagent.errors import FlowAgentError, RunConflict, StoreError
from flowagent.stores import SQLiteStore

def say(*words):
    print(*words, flush=True)

def heard():
    return sys.stdin.readline()

path, arguments = sys.argv[1], sys.argv[2:]
"""


class Child:
    """A script in a process of its own; killed when the block is left."""

    def __init__(self, script: str, path: Path, *arguments: str) -> None:
        self._command = [sys.executable, "-W", "error", "-c", _HEAD + textwrap.dedent(script), str(path), *arguments]

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=_ROOT,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._process.returncode is None:
            self.signal(signal.SIGKILL)
        await self._process.communicate()

    @property
    def pid(self) -> int:
        return self._process.pid

    async def line(self) -> str:
        """The next line it says; its errors if it ends without saying one."""
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), PATIENCE)
        assert line, await self.errors()
        return line.decode().rstrip("\n")

    def tell(self, line: str = "go") -> None:
        """Let it go on from `heard()`."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def errors(self) -> str:
        """What it wrote to stderr, once it has ended."""
        assert self._process.stderr is not None
        return (await self._process.stderr.read()).decode()

    async def end(self) -> int:
        """Its exit code, once it has ended by itself."""
        return await asyncio.wait_for(self._process.wait(), PATIENCE)
