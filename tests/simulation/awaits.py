"""A call is cancelled at each of its awaits in turn, until it comes to its end without."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import get_args

from flowagent.stores import MemoryStore
from tests.simulation.case import NAMED, go, known
from tests.simulation.life import Life, Options, Tally
from tests.simulation.loop import Order
from tests.simulation.store import Weather
from tests.simulation.trouble import Trouble

SLOW = Weather(slow=1.0, longest=0.005)
"""Every operation of the store takes its time, so that a call can be cancelled in each of them."""


def every_await(subjects: Iterable[str] = tuple(NAMED), stride: int = 1) -> Iterable[Tally]:
    """What comes of cancelling a run of each graph at each await of the call (or at every so many).

    That is done in each order, and on either kind of loop.
    """
    for subject in subjects:
        for order in get_args(Order):
            for own_loop in (False, True):
                yield from _awaits(subject, order, stride, own_loop=own_loop)


def _awaits(subject: str, order: Order, stride: int, *, own_loop: bool) -> Iterable[Tally]:
    at = 0
    while True:
        trouble = Trouble("cancel", at)
        options = Options(order=order, own_loop=own_loop, weather=SLOW, trouble=trouble)
        found = known(subject)
        tally = go(Life(NAMED[subject], MemoryStore(), random.Random(at), found.reference), found, [options])
        tally.faults = [f"{subject}, {options}: {fault}" for fault in tally.faults]
        yield tally
        if tally.processes == 1:
            return
        at += stride
