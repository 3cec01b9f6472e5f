"""Why a run stops, in words that tell what to do about it."""

from __future__ import annotations

import importlib
from typing import Final

from flowagent.core.policies import Limits
from flowagent.core.scope import Task

CANCELLED: Final = "somebody asked to cancel it"


def steps_used_up(limits: Limits, task: Task) -> str:
    """There is no step left for a task."""
    return f"reached the limit of {limits.steps} steps{_cycle_around(task)}"


def seconds_used_up(limits: Limits) -> str:
    """The working time of the call is over."""
    return f"reached the limit of {limits.seconds:g} s"


def no_room(refusal: str, task: Task) -> str:
    """The limits left no room for what a task wanted to spend; `refusal` says which and why."""
    return f"{refusal}, at node `{task.place.name}` (task `{task.id}`){_cycle_around(task)}"


def _cycle_around(task: Task) -> str:
    """The cycle that a task's node stands in, for people who have to find out why it goes round; else nothing."""
    analysis = importlib.import_module("flowagent.core.analysis")  # which a run needs for nothing else
    around: tuple[str, ...] = analysis.cycle_around(task.scope.topology, task.place.name)
    return f" in the cycle of {', '.join(f'`{name}`' for name in around)}" if around else ""
