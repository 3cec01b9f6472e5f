"""Who holds a run: a name for this process that no other process, before or after, can have.

A name is `boot/namespace/pid/start`. Within one boot and one pid namespace a process that is gone is *proof* that
its runs can be taken over at once; about any other process nothing can be known but when its lease runs out.
"""

from __future__ import annotations

import functools
import os
import platform
import sys
from pathlib import Path
from typing import Final, NamedTuple

_HOST: Final = "host:"
"""Marks a name made without a boot id: it tells hosts apart, but not the boots of one host."""


class Owner(NamedTuple):
    """A process, as its name tells it."""

    boot: str
    namespace: str
    pid: int
    started: str

    @classmethod
    def parse(cls, name: str) -> Owner | None:
        """The owner of that name, or None when it is none of ours."""
        match name.rsplit("/", 3):
            case [boot, namespace, pid, started] if pid.isdecimal():
                return cls(boot, namespace, int(pid), started)
            case _:
                return None

    def __str__(self) -> str:
        return f"{self.boot}/{self.namespace}/{self.pid}/{self.started}"


def this_process() -> str:
    """The name of the running process; another one in a child made by fork."""
    return _name(os.getpid())


def describe(name: str) -> str:
    """The owner in words, for messages."""
    owner = Owner.parse(name)
    if owner is None:
        return f"`{name}`"
    here = owner.boot == _boot()
    return f"process {owner.pid}" if here else f"process {owner.pid} of another machine or container"


def same_clock(name: str) -> bool:
    """Whether the owner's monotonic clock is ours, so that a changed wall clock need not be feared."""
    owner = Owner.parse(name)
    return owner is not None and owner.boot == _boot() and not owner.boot.startswith(_HOST)


def is_dead(name: str) -> bool:
    """Whether the owner is known to be gone. False means alive, or not to be known from here."""
    owner = Owner.parse(name)
    if owner is None or (owner.boot, owner.namespace) != (_boot(), _namespace()):
        return False
    if owner.pid == os.getpid():
        return name != this_process()
    return _is_gone(owner)


def _is_gone(owner: Owner) -> bool:
    if sys.platform == "win32":
        # os.kill(pid, 0) would end the process there; only the lease can tell.
        return False
    try:
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # It is another user's: look on.
    except OverflowError:
        return True  # No process can have that number.
    stat = _stat(owner.pid)
    if stat is None:
        return False
    state, started = stat
    # A zombie runs nothing any more, it only waits for its parent; an equal pid with another start is a stranger.
    return state in "ZX" or started != owner.started


@functools.lru_cache(maxsize=1)
def _name(pid: int) -> str:
    stat = _stat(pid)
    return str(Owner(_boot(), _namespace(), pid, stat[1] if stat else "-"))


@functools.cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return _HOST + platform.node()


@functools.cache
def _namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink()).removeprefix("pid:[").removesuffix("]")
    except OSError:
        return "-"


def _stat(pid: int) -> tuple[str, str] | None:
    """State letter and start time (in ticks since boot) of a process; None when the system does not tell."""
    try:
        # The command's name stands in brackets and may itself hold brackets and spaces.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return fields[0].decode(), fields[19].decode()
    except (OSError, IndexError):
        return None
