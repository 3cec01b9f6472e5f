"""The one table of what a step may cost; `python -m tests.cost` prints it beside what is counted today.

Each bound stands some 10 % above what was counted on Python 3.11, 3.12 and 3.13, which differ by less than that. When
the code gets cheaper, make them tighter; one that has to be widened is a step that got dearer, and needs a reason.
"""

from __future__ import annotations

from typing import Final

from tests.cost.measure import Cost

# What each count is says `Cost`. The loops count a lap: a node and the router that leads back to it.
BOUNDS: Final = {
    # calls of functions: of ours, of any in Python, of any in C
    "loop": Cost(own=28, python=32, native=35),
    "loop, async": Cost(own=30, python=37, native=37),
    "history": Cost(own=37, python=42, native=51),
    "line": Cost(own=19, python=22, native=26),
    "map": Cost(own=56, python=78, native=46),
    "fork": Cost(own=83, python=110, native=103),
    "many runs": Cost(own=51, python=65, native=59),
    # and with a store: SQL statements, flushes, bytes that are kept and bytes that are written
    "loop, stored": Cost(own=56, python=60, native=77, statements=1.2, syncs=1.02, stored=250, written=5700),
    "loop, stored, fast": Cost(own=56, python=60, native=77, statements=1.2, syncs=0, stored=250, written=5700),
    "loop, async, stored": Cost(own=86, python=130, native=131, statements=1.2, syncs=1.02, stored=275, written=5800),
    "history, stored": Cost(own=67, python=75, native=102, statements=1.2, syncs=1.02, stored=580, written=6800),
    "map, stored": Cost(own=60, python=83, native=62, statements=1.2, syncs=0.05, stored=115, written=250),
    # (a snapshot of all branches falls into the second half)
    "fork, stored": Cost(own=122, python=149, native=140, statements=1.2, syncs=0.05, stored=270, written=820),
    "many runs, stored": Cost(own=113, python=152, native=133, statements=3.4, syncs=0.1, stored=430, written=3800),
}

KEPT_PER_BYTE: Final = 2.2
"""Bytes of the file for each byte that a step appends: the record, and what a packed snapshot takes of plain text."""

DEEP: Final = 1.05
"""What a step far into a run may cost, against one of the first."""
