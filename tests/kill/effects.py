"""What the nodes of the graphs do to the world: what each call did outside stands in a file, a line for each."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flowagent import Context, Graph, State
from flowagent.core.nodes import RouterNode

LONGEST_PAUSE = 0.004
"""Before and after each line, in seconds: enough for a kill to hit anywhere, little enough for many kills."""

PADDING = "." * 5000
"""Makes the journals of some graphs heavy enough for snapshots."""


def _go_on(_: str) -> None:
    pass


class Effects:
    """What nodes do to the world: lines `task key`, each written whole, in a file that outlives its writers.

    Args:
        path: the file.
        seed: the pauses around each line follow from it and the task, so that no two seeds have the same timing.
        longest: the longest pause.
        reach: is told before and after each line; it may end the process there.
    """

    def __init__(
        self, path: Path, seed: str, longest: float = LONGEST_PAUSE, reach: Callable[[str], None] = _go_on
    ) -> None:
        self._path = path
        self._seed = seed
        self._longest = longest
        self._reach = reach

    def work(self, ctx: Context[Effects, Any], part: str = "") -> None:
        """Do something: wait, leave a line, wait."""
        before, after = self._pauses(ctx, part)
        time.sleep(before)
        self.leave(ctx, part)
        time.sleep(after)

    async def work_beside(self, ctx: Context[Effects, Any], part: str = "") -> None:
        """`work` that lets others work meanwhile."""
        before, after = self._pauses(ctx, part)
        await asyncio.sleep(before)
        self.leave(ctx, part)
        await asyncio.sleep(after)

    def _pauses(self, ctx: Context[Effects, Any], part: str) -> tuple[float, float]:
        chance = random.Random(f"{self._seed} {ctx.task_id} {part}")
        return chance.random() * self._longest, chance.random() * self._longest

    def leave(self, ctx: Context[Effects, Any], part: str) -> None:
        """Leave the line of a call."""
        self._reach("node called")
        self._write(f"{ctx.task_id}{'#' if part else ''}{part} {ctx.key}\n".encode())
        self._reach("node returns")

    def _write(self, line: bytes) -> None:
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            written = os.write(handle, line)
        finally:
            os.close(handle)
        assert written == len(line), "the disk is full"

    def has_done(self, task: str) -> bool:
        """Whether a task has left its line: what a person looks up who is asked what became of a call."""
        return any(line.startswith(f"{task} ") for line in lines_of(self._path))

    def is_done_by_hand(self, run_id: str, task: str) -> bool:
        """Whether that person, who found nothing, does the work instead: half of them do."""
        if random.Random(f"{self._seed} {task} by hand").random() < 0.5:
            return False
        self._write(f"{task} {run_id}/{task}\n".encode())
        return True


def lines_of(path: Path) -> list[str]:
    """The lines of an effects file."""
    return path.read_text().splitlines() if path.exists() else []


def routers_of(graph: Graph[Any, Any]) -> frozenset[str]:
    """The names of a graph's routers."""
    return frozenset(name for name, node in graph.nodes.items() if isinstance(node, RouterNode))


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A graph to be killed.

    Args:
        graph: the graph.
        input: what it is started with.
        answers: what to answer the question of each task or node that asks.
        results: what each `once` task returns, for the person who says that its effect is there already.
    """

    graph: Graph[Any, Effects]
    input: State
    answers: Mapping[str, Any] = field(default_factory=dict[str, Any])
    results: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def answers_to(self, run: Any, effects: Effects) -> dict[str, Any]:
        """What a person answers to the open questions of a run, who looks first when asked what became of a call."""
        return {question.id: self._answer(run.run_id, question, effects) for question in run.questions}

    def _answer(self, run_id: str, question: Any, effects: Effects) -> Any:
        task = question.task
        if question.purpose != "once":
            return self.answers[task if task in self.answers else question.node]
        if effects.has_done(task) or effects.is_done_by_hand(run_id, task):
            return {"result": self.results[task]}
        return "retry"
