"""The state of a graph that is not over, read off its live and ended tokens."""

from __future__ import annotations

from collections.abc import Iterable

from flowagent.core.commits import Commit, common_dominator, fold_order, meet
from flowagent.core.scope import Scope, Task
from flowagent.core.writes import Values, Write, Writes
from flowagent.errors import ConflictError


def folded_ends(scope: Scope, tasks: Iterable[Task]) -> tuple[Values, tuple[str, ...]]:
    """The fold of all live and ended tokens of a graph; fields in conflict keep their common dominator's value."""
    ends = fold_order(tails_of(scope, tasks) or [scope.start])
    unmerged: list[str] = []
    settled: Writes = {}
    while True:
        try:
            _, values, _ = meet(scope.topology.schema, ends, settled)
        except ConflictError as error:
            unmerged.append(error.field)
            old = common_dominator(ends).values[error.field]
            settled = {**settled, error.field: Write("set", [old], [])}
        else:
            return values, tuple(unmerged)


def tails_of(scope: Scope, tasks: Iterable[Task]) -> list[Commit]:
    """The commits that the live and ended tokens of a graph come from."""
    tails = [arrow.tail for task in tasks if task.scope is scope and task.index is None for arrow in task.arrows]
    tails += [arrow.tail for arrows in scope.groups.values() for arrow in arrows]
    tails += [arrow.tail for arrow in scope.ended]
    return list(dict.fromkeys(tails))
