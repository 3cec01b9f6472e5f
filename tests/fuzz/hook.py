"""Notices what data must never cause: that something is imported, compiled, unpickled or started."""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

FORBIDDEN: Final = frozenset(
    {
        *("import", "exec", "compile", "code.__new__", "marshal.loads", "pickle.find_class"),
        *("subprocess.Popen", "os.system", "os.exec", "os.fork", "os.posix_spawn", "ctypes.dlopen", "socket.connect"),
    }
)


class Hook:
    """Told every audit event of this process while it watches. An audit hook can never be removed: make one."""

    def __init__(self) -> None:
        self._noticed: list[str] | None = None
        sys.addaudithook(self._told)

    def _told(self, event: str, arguments: tuple[Any, ...]) -> None:
        noticed = self._noticed
        if noticed is not None and event in FORBIDDEN:
            frames = [f"{Path(one.filename).name}:{one.lineno} {one.name}" for one in traceback.extract_stack(limit=14)]
            noticed.append(f"{event} {arguments[:1]!s:.200} from {' > '.join(frames[:-1])}")

    @contextlib.contextmanager
    def watching(self) -> Generator[list[str]]:
        """What was noticed meanwhile."""
        self._noticed = noticed = []
        try:
            yield noticed
        finally:
            self._noticed = None


HOOK: Final = Hook()
