"""Faults of the memory that the processes of a SQLite file share: its locks, and the index of the log in it.

SQLite reaches it by system calls that a file layer does not see, but which it lets us replace. They are replaced for
the whole process, and act on one file. Not together with a file layer in Python: an error that such a layer raises is
pending while SQLite cleans up, and no Python code may run then. Linux only, as elsewhere a process cannot look up which
file a number stands for.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

import apsw

Call = Literal["fcntl", "mmap"]

AVAILABLE: Final = sys.platform == "linux"

_FCNTL: Final = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, use_errno=True)
_MMAP: Final = ctypes.CFUNCTYPE(
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_ssize_t,
    use_errno=True,
)


@contextmanager
def failing(path: Path, refuses: Callable[[Call], int]) -> Generator[None]:
    """Have the shared memory of a database fail.

    Args:
        path: the database file.
        refuses: asked before each lock and each mapping; the error number that it is to fail with, or 0.
    """
    shared = f"{path}-shm"
    system = apsw.VFS(f"system-{path}", "unix")
    lock_it = _FCNTL(system.xGetSystemCall("fcntl") or 0)
    map_it = _MMAP(system.xGetSystemCall("mmap") or 0)

    def refused(handle: int, call: Call) -> int:
        return refuses(call) if _path_of(handle) == shared else 0

    def lock(handle: int, command: int, argument: int | None) -> int:
        # Giving a lock back cannot fail, as there is nothing to wait for and nothing to allocate.
        takes = command == fcntl.F_SETLK and ctypes.c_short.from_address(argument or 0).value != fcntl.F_UNLCK
        number = refused(handle, "fcntl") if takes else 0
        if number:
            ctypes.set_errno(number)
            return -1
        return lock_it(handle, command, argument)

    def mapped(address: int | None, size: int, protection: int, flags: int, handle: int, offset: int) -> int | None:
        number = refused(handle, "mmap")
        if number:
            ctypes.set_errno(number)
            return -1
        return map_it(address, size, protection, flags, handle, offset)

    replaced = {"fcntl": _FCNTL(lock), "mmap": _MMAP(mapped)}
    for name, function in replaced.items():
        system.xSetSystemCall(name, ctypes.cast(function, ctypes.c_void_p).value or 0)
    try:
        yield
    finally:
        for name in replaced:
            system.xSetSystemCall(name, 0)


def _path_of(handle: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{handle}")  # noqa: PTH115 - a name of the kernel's, not a path to follow
    except OSError:
        return ""


BUSY: Final = errno.EAGAIN
BROKEN: Final = errno.EIO
NO_MEMORY: Final = errno.ENOMEM
