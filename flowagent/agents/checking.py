"""What is wrong with an agent, found when it is made."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from flowagent.agents.guards import Guard
from flowagent.agents.hooks import Hooks
from flowagent.core.policies import Limits
from flowagent.core.signatures import takes_context
from flowagent.errors import GraphError, ModelError

if TYPE_CHECKING:
    from flowagent.agents.agent import Agent

_LEAST: Final = {"output_retries": 0, "tool_errors": 1, "parallel_tools": 1, "max_result_tokens": 1}


def faults_of(agent: Agent[Any, Any]) -> list[str]:
    """All that is wrong with an agent, a line each."""
    if misplaced := _misplaced(agent):
        return misplaced
    return [
        *([] if agent.name.strip() else ["name: it needs one that is not empty"]),
        *_output(agent),
        *_callbacks(agent),
        *_told(lambda: agent.opened),
        *_limits(agent.limits),
        *_numbers(agent),
        *([] if agent.saving is None else agent.saving.faults()),
        *agent.toolbox.faults(),
        *_told(lambda: agent.delegates),
    ]


def _misplaced(agent: Agent[Any, Any]) -> list[str]:
    """What stands where something of another kind is wanted; with that, nothing else can be looked at."""
    hooks: Sequence[Any] = agent.hooks
    guards: Sequence[Any] = agent.guards
    return [
        *(f"hooks: {one!r} is no object of a class of `Hooks`" for one in hooks if not isinstance(one, Hooks)),
        *(f"guards: {one!r} is no `Guard`" for one in guards if not isinstance(one, Guard)),
    ]


def _output(agent: Agent[Any, Any]) -> list[str]:
    """What is wrong with the type of the answer. Any error of pydantic's says it: it has many, and some from users."""
    wanted: Any = agent.output
    if isinstance(wanted, str) or inspect.isroutine(wanted):
        return [f"output={wanted!r} is no type"]
    try:
        assert agent.shape
    except Exception as error:  # noqa: BLE001  # told as a fault
        first, *_ = str(error).splitlines() or [""]
        return [f"output={wanted!r} cannot be the type of an answer: {type(error).__name__}: {first}"]
    return []


def _callbacks(agent: Agent[Any, Any]) -> list[str]:
    """What cannot be called as it will be."""
    looked_at = [(f"guard `{one.title}`", one.check, f"the {one.on}") for one in agent.guards]
    looked_at += [(f"check {one!r}", one, "the answer") for one in agent.checks]
    faults: list[str] = []
    for what, call, takes in looked_at:
        try:
            takes_context(call, takes)
        except TypeError as error:
            faults.append(f"{what} {error}")
    return faults


def _told(make: Callable[[], object]) -> list[str]:
    """What making a part of it says is wrong."""
    try:
        make()
    except ModelError as error:
        return [str(error)]
    except GraphError as error:
        return list(error.faults)
    return []


def _limits(limits: Limits) -> list[str]:
    """Limits that only a run has: silently not to hold them would be worse than to refuse them."""
    given = [name for name in ("steps", "seconds") if getattr(limits, name) != getattr(Limits(), name)]
    return [f"limits: `{name}` is a limit of a run, not of an agent: pass run(limits=Limits(...))" for name in given]


def _numbers(agent: Agent[Any, Any]) -> list[str]:
    given = {name: getattr(agent, name) for name in _LEAST}
    return [
        f"{name}={value!r}: at least {_LEAST[name]}"
        for name, value in given.items()
        if value is not None and value < _LEAST[name]
    ]
