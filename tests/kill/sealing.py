"""Stores that are encrypted, with another key in each process that uses them."""

from __future__ import annotations

import base64
import random
from collections.abc import Sequence

from flowagent.stores import EncryptedStore, Store

OFTEN = 0.25
"""How likely a store is encrypted where that is drawn."""


def sealed(store: Store, keys: Sequence[str]) -> Store:
    """A store that encrypts with the first key and knows all of them; without any, the store as it is."""
    return EncryptedStore(store, keys) if keys else store


class Keys:
    """The keys of a run's store, the newest first; none if it is not encrypted.

    Args:
        chance: what they are drawn from, so that a case that is played again has the same.
        encrypted: whether there are any.
    """

    def __init__(self, chance: random.Random, *, encrypted: bool) -> None:
        self._chance = chance
        self.all: list[str] = []
        if encrypted:
            self._add()

    def rotate(self) -> None:
        """A process begins: it has a key of its own, which it writes with, and those of all before it to read."""
        if self.all:
            self._add()

    def _add(self) -> None:
        self.all.insert(0, base64.urlsafe_b64encode(self._chance.randbytes(32)).decode())
