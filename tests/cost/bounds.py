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
    "loop": Cost(own=28, python=31, native=36),
    "loop, async": Cost(own=94, python=185, native=131),
    "history": Cost(own=40, python=44, native=54),
    "line": Cost(own=19, python=21, native=27),
    "map": Cost(own=52, python=81, native=50),
    "fork": Cost(own=85, python=117, native=108),
    "many runs": Cost(own=112, python=198, native=123),
    # and with a store: SQL statements, flushes, bytes that are kept and bytes that are written
    "loop, stored": Cost(own=62, python=66, native=80, statements=1.2, syncs=1.02, stored=250, written=5700),
    "loop, stored, fast": Cost(own=62, python=66, native=80, statements=1.2, syncs=0, stored=250, written=5700),
    "loop, async, stored": Cost(own=200, python=375, native=292, statements=2.2, syncs=2.03, stored=275, written=10300),
    "history, stored": Cost(own=75, python=81, native=102, statements=1.2, syncs=1.02, stored=580, written=6800),
    "map, stored": Cost(own=60, python=86, native=62, statements=1.2, syncs=0.05, stored=115, written=250),
    "fork, stored": Cost(own=91, python=123, native=126, statements=1.2, syncs=0.05, stored=270, written=720),
    "many runs, stored": Cost(own=215, python=340, native=235, statements=4, syncs=0.5, stored=390, written=5200),
}

KEPT_PER_BYTE: Final = 2.2
"""Bytes of the file for each byte that a step appends: the record, and what a packed snapshot takes of plain text."""

DEEP: Final = 1.05
"""What a step far into a run may cost, against one of the first."""
