"""Canaries in every place of a run: with encryption none is on the disk, and none that is marked is ever shown."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import from_json, to_json

from flowagent import Run
from flowagent.errors import AnswerError, RunFailed
from flowagent.stores import EncryptedStore, MemoryStore, SQLiteStore, Store, new_key
from tests.secrets import vault
from tests.secrets.vault import canary, spellings
from tests.tracing.collected import Collected

ROOT = Path(__file__).parents[2]
OPEN = ("plain", "error")
"""What the graph does not say is secret: a field of its own, and what its own code raises."""

SECRET = [kind for kind in vault.KINDS if kind not in OPEN]


def found(kinds: Iterable[str], data: bytes) -> list[str]:
    """The kinds of canaries that are in some bytes."""
    return [kind for kind in kinds if any(spelling in data for spelling in spellings(kind))]


def on_disk(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file())


def pictures(run: Run[Any]) -> str:
    diagram = run.draw()
    laid_out = diagram.svg() if run.status == "failed" else ""  # of the same text, and slow
    return diagram.dot() + diagram.mermaid() + laid_out


class Life:
    """A run from its start to its end: it fails twice, waits twice, is answered wrongly, and is looked at each time.

    It is traced, with all content that a trace may have.
    """

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = store
        self.shown: list[str] = []
        self._env = monkeypatch
        self._traced = Collected()

    def show(self, *things: object) -> None:
        self.shown += [f"{thing!r} {thing}" for thing in things]

    async def step(self, answers: dict[str, Any] | None = None, *, how: str = "") -> None:
        """Start the run or go on with it, and look at all that there is to see."""
        self._env.setenv("VAULT", how)
        verb = vault.g.stream_resume if answers is not None else vault.g.stream
        options: dict[str, Any] = {"answers": answers} if answers is not None else {}
        given: Any = "r" if answers is not None else vault.input_of()
        options |= {} if answers is not None else {"run_id": "r"}
        tracing = self._traced.tracing(content=True)
        try:
            async with verb(given, store=self.store, listeners=[tracing], **options) as events:
                async for event in events:
                    self.show(event)
        except (RunFailed, AnswerError) as error:
            self.show(error, *getattr(error, "errors", ()), *getattr(error, "problems", ()), vars(error))
            self.shown.append("".join(traceback.format_exception(error)))
        run = await vault.g.load("r", store=self.store)
        # `run.records` is the journal as it is stored; a history, a picture and a repr are what is shown of it.
        history = await asyncio.to_thread(lambda: run.history)
        self.show(run, run.state, history, run.questions, run.errors)
        self.shown.append(await asyncio.to_thread(pictures, run))

    async def live(self) -> None:
        await self.step(how="wrong type")
        await self.step({}, how="raises")
        await self.step({})
        await self.step({"pin": {canary("rewritten"): 1}})
        await self.step({"pin": canary("pin")})
        await self.step({"ask?more": [canary("mangled")]})
        await self.step({"ask?more": canary("asked")})
        assert (await vault.g.load("r", store=self.store)).status == "completed"
        spans = self._traced.spans
        assert {"log_in", "spread", "nested", "ask"} <= {name for span in spans for name in span.name.split()}
        self.shown += [span.to_json() for span in spans]
        self._traced.close()


async def test_no_canary_is_on_the_disk_and_no_marked_one_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """With encryption: none in database, log or shared memory; none of a secret in anything that can be looked at."""
    caplog.set_level(logging.DEBUG)
    life = Life(EncryptedStore(SQLiteStore(tmp_path / "runs.db"), [new_key()]), monkeypatch)
    await life.live()
    files = await asyncio.to_thread(os.listdir, tmp_path)
    disk = await asyncio.to_thread(on_disk, tmp_path)
    await life.store.close()
    disk += await asyncio.to_thread(on_disk, tmp_path)
    captured = capfd.readouterr()
    shown = "\n".join([*life.shown, caplog.text, captured.out, captured.err]).encode()
    assert sorted(files) == ["runs.db", "runs.db-shm", "runs.db-wal"]
    assert (found(vault.KINDS, disk), found(SECRET, shown)) == ([], [])
    assert b"**********" in shown
    assert found(OPEN, shown) == [*OPEN]  # so what is there to be seen was looked at


async def test_the_search_finds_what_is_not_encrypted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same run with a disk that claims to keep secrets: the canaries of all kinds that are stored are found."""
    store = SQLiteStore(tmp_path / "runs.db")
    monkeypatch.setattr(SQLiteStore, "keeps_secrets", True, raising=False)
    await Life(store, monkeypatch).live()
    await store.close()
    stored = {"password", "token", "seal", "part", "result", "memo", "pin", "asked", "child", "plain", "error"}
    assert set(found(vault.KINDS, await asyncio.to_thread(on_disk, tmp_path))) == stored


async def test_the_values_reach_every_node_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph's own assertions hold, and the caller gets each secret as it was, from the journal too."""
    store = MemoryStore()
    await Life(store, monkeypatch).live()
    state = (await vault.g.load("r", store=store)).state
    assert (state.password.get_secret_value(), state.token) == (canary("password"), canary("token"))
    assert state.seal.get_secret_value() == canary("seal").encode()
    assert (state.pin, state.results) == (canary("pin"), [canary("result")] * 2)
    assert (state.made.get_secret_value(), state.asked.get_secret_value()) == (canary("child"), canary("asked"))


# -- the command line --------------------------------------------------------------------------------------------------


class Typed:
    """Commands of a process each, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said = b""
        self.key = new_key()

    def __call__(self, *words: str, how: str = "", stdin: bytes = b"") -> int:
        environment = {**os.environ, "VAULT": how, "PYTHONPATH": str(ROOT), "KEYS": f"{self.key} {new_key()}"}
        done = subprocess.run(
            [sys.executable, "-m", "flowagent.cli", *words],
            cwd=self.folder,
            env=environment,
            input=stdin,
            capture_output=True,
            check=False,
        )
        self.said += done.stdout + done.stderr
        return done.returncode


def test_the_command_line_shows_and_stores_no_secret(tmp_path: Path) -> None:
    """Run, fail, show, resume, answer wrongly and rightly, draw: nothing secret in what is said or written."""
    typed = Typed(tmp_path)
    graph, keys = ("--graph", "tests.secrets.vault:g"), ("--key-env", "KEYS")
    ran = ("run", "tests.secrets.vault:g", "-", "--run-id", "r", *keys)
    codes = [
        typed("--traceback", *ran, how="wrong type", stdin=to_json(vault.input_of())),
        typed("resume", "r", *keys, "--traceback", how="wrong type"),
        typed("resume", "r", *keys),
        typed("show", "r", *graph, *keys, "--draw", "r.svg"),
        typed("resume", "r", *keys, "--answer", f"pin={canary('pin')}"),
        typed("show", "r", *graph, *keys, "--json"),
        typed("resume", "r", *keys, "--answer", f"ask?more={canary('asked')}", "--json"),
        typed("show", "r", *graph, *keys, "--draw", "r.dot"),
        typed("show", "r", *keys, "--json"),
        typed("runs"),
    ]
    assert codes == [1, 1, 3, 0, 3, 0, 0, 0, 0, 0]
    assert found(SECRET, typed.said + on_disk(tmp_path)) == []
    assert found(["plain"], typed.said) == ["plain"]


def test_without_its_key_the_command_line_says_what_to_do(tmp_path: Path) -> None:
    """A store that is not said to be encrypted, a variable that is not there, a key that is not the right one."""
    typed = Typed(tmp_path)
    given = to_json(vault.input_of())
    assert typed("run", "tests.secrets.vault:g", "-", "--run-id", "r", stdin=given) == 2
    assert b"field `password` of `Vault`" in typed.said
    assert typed("run", "tests.secrets.vault:g", "-", "--run-id", "r", "--key-env", "KEYS", stdin=given) == 3
    typed.said = b""
    assert typed("show", "r") == 2
    assert (
        b"is encrypted: read it through EncryptedStore(store, keys=[...]), on the command line with --key-env"
        in typed.said
    )
    assert typed("show", "r", "--key-env", "NOBODY") == 2
    assert b"--key-env NOBODY: there is no key in that environment variable" in typed.said
    typed.key = new_key()
    assert typed("show", "r", "--key-env", "KEYS") == 2
    assert b"which is none of the keys that were given" in typed.said


def test_the_commands_that_go_on_name_the_variable(tmp_path: Path) -> None:
    """What the command line offers to type next works: it names the variable, and never a key."""
    typed = Typed(tmp_path)
    typed(
        "run",
        "tests.secrets.vault:g",
        "-",
        "--run-id",
        "r",
        "--key-env",
        "KEYS",
        "--json",
        stdin=to_json(vault.input_of()),
    )
    document = from_json(typed.said[typed.said.index(b"{") : typed.said.rindex(b"}") + 1])
    assert document["resume"] == "flowagent resume r --key-env KEYS"
    assert typed.key.encode() not in typed.said
