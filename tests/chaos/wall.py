"""A wall clock that jumps, for one process. Its monotonic clock goes on as before, as it does in life."""

from __future__ import annotations

import time
from typing import Final

from flowagent.core.engine import Engine

DAY: Final = 86400.0

_REAL: Final = time.time


def jump(days: float) -> None:
    """Have this process's clock be so many days from the real one."""

    def shifted() -> float:
        return _REAL() + days * DAY

    time.time = shifted
    # The engine took its clock when it was defined.
    defaults = Engine.__init__.__kwdefaults__
    assert defaults is not None
    assert "clock" in defaults
    defaults["clock"] = shifted
