"""Which items of a map with `at_most` are under way, and which wait for their turn."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flowagent.core.scope import Task


@dataclass(slots=True)
class Slots:
    """The slots of one map. An item that is in neither list has no use for one: it waits for people, or failed.

    Args:
        at_most: how many there are.
        taken: the items that have one.
        waiting: the items that could go on if they had one, in the order of the items.
    """

    at_most: int
    taken: set[Task] = field(default_factory=set["Task"])
    waiting: list[Task] = field(default_factory=list["Task"])

    @property
    def is_full(self) -> bool:
        """Whether no slot is free."""
        return len(self.taken) >= self.at_most

    def take(self, item: Task) -> None:
        """Give an item a slot."""
        self.leave(item)
        self.taken.add(item)

    def wait(self, item: Task) -> None:
        """Have an item wait in its place."""
        at = self._place_of(item)
        if item not in self.waiting[at : at + 1]:
            self.waiting.insert(at, item)

    def leave(self, item: Task) -> None:
        """An item needs no slot any more."""
        self.taken.discard(item)
        at = self._place_of(item)
        if item in self.waiting[at : at + 1]:
            del self.waiting[at]

    def clear(self) -> None:
        """Forget who has a slot and who waits."""
        self.taken.clear()
        self.waiting.clear()

    def _place_of(self, item: Task) -> int:
        return bisect_left(self.waiting, item.index or 0, key=lambda one: one.index or 0)
