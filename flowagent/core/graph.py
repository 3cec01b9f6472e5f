"""`Graph`: a definition, and the verbs that run, resume, watch and draw it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel

from flowagent.core.builder import Builder, DepsT, StateT

if TYPE_CHECKING:
    import networkx as nx

    from flowagent.core.check import Checked
    from flowagent.core.topology import Topology


class Graph(Builder[StateT, DepsT]):
    """A workflow: nodes and edges over one typed state."""

    def __init__(self, name: str, state: type[StateT], *, deps: type[DepsT] | None = None, store: Any = None) -> None:
        super().__init__(name, state)
        self.deps = deps
        self.store = store
        self._checked: Checked | None = None

    def check(self) -> tuple[str, ...]:
        self.checked_inside(())
        self._freeze()
        return cast("Checked", self._checked).warnings

    def checked_inside(self, around: tuple[int, ...]) -> Checked:
        if self._checked is None:
            checker = importlib.import_module("flowagent.core.check")
            self._checked = cast("Checked", checker.checked(self, self.state, inside=around))
        return self._checked

    def _freeze(self) -> None:
        self.frozen = True

    @property
    def topology(self) -> Topology:
        if self._checked is None:
            self.check()
        return cast("Checked", self._checked).topology
