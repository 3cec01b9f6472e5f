"""Opens the store that a command speaks of, and finds runs in it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from flowagent.cli.problems import CommandError
from flowagent.cli.remembered import FOLDER
from flowagent.core.loops import run_blocking
from flowagent.core.records import RunInfo
from flowagent.errors import RunNotFound, StoreError
from flowagent.stores import Store, open_store

DEFAULT_STORE: Final = str(FOLDER / "runs.db")

_SEARCHED: Final = 200


@contextlib.contextmanager
def opened(path: str, *, make: bool = False, key_env: str | None = None) -> Generator[Store]:
    """A store, closed again at the end.

    Args:
        path: its file.
        make: whether a file that is not there will be made.
        key_env: the environment variable with the keys, if the store is encrypted.

    Raises:
        CommandError: there is no such file, or no key.
    """
    if not path or path == ":memory:":
        raise CommandError("--store needs the path of a file, such as `runs.db`: runs in memory end with the command")
    if not make and not Path(path).expanduser().exists():
        what = "no run was started in this directory, or it is kept in another --store" if path == DEFAULT_STORE else ""
        raise CommandError(f"there is no store `{path}`: {what or 'check --store'}")
    store = open_store(path)
    if key_env is not None:
        store = _encrypted(store, key_env)
    try:
        yield store
    finally:
        run_blocking(store.close())


def _encrypted(store: Store, variable: str) -> Store:
    """The store, encrypted by the keys in an environment variable: they stand in no command and no history of them."""
    from flowagent.stores import EncryptedStore  # noqa: PLC0415  # cryptography is loaded when it is needed (P14)

    keys = os.environ.get(variable, "").replace(",", " ").split()
    if not keys:
        raise CommandError(
            f"--key-env {variable}: there is no key in that environment variable; flowagent.stores.new_key() makes one"
        )
    try:
        return EncryptedStore(store, keys)
    except StoreError as error:
        raise CommandError(f"--key-env {variable}: {error}") from error


def found(store: Store, run_id: str) -> RunInfo:
    """What the store knows of a run.

    Raises:
        CommandError: there is no such run; names the nearest.
    """
    try:
        return run_blocking(store.info(run_id))
    except RunNotFound:
        known = [info.run_id for info in run_blocking(store.runs(limit=_SEARCHED))]
        begun = [name for name in known if name.startswith(run_id)][:1]
        near = begun or get_close_matches(run_id, known, n=1)
        hint = f"did you mean `{near[0]}`?" if near else "`flowagent runs` lists those it has"
        raise CommandError(f"there is no run `{run_id}` in {store.name}; {hint}") from None
