"""Eight graphs with work that leaves a trace outside, one for each way of going on."""

from __future__ import annotations

from typing import Final

from tests.kill.effects import Subject
from tests.kill.graphs.asking import nested, waiting
from tests.kill.graphs.branching import mapped, parallel
from tests.kill.graphs.looping import cycle
from tests.kill.graphs.mixing import mixed
from tests.kill.graphs.straight import router, sequence

SUBJECTS: Final[dict[str, Subject]] = {
    "sequence": sequence(),
    "router": router(),
    "parallel": parallel(),
    "cycle": cycle(),
    "map": mapped(),
    "nested": nested(),
    "waiting": waiting(),
    "mixed": mixed(),
}
