"""What is wrong with an agent, found when it is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from flowagent.core.policies import Limits
from flowagent.errors import GraphError, ModelError

if TYPE_CHECKING:
    from flowagent.agents.agent import Agent

_SEVERAL: Final = ("tools", "checks", "guards", "hooks", "examples")
_LEAST: Final = {"output_retries": 0, "tool_errors": 1, "parallel_tools": 1, "max_result_tokens": 1}


def faults_of(agent: Agent[Any, Any]) -> list[str]:
    """All that is wrong with an agent, a line each."""
    if faults := _lists(agent):
        return faults  # nothing else could be looked at
    return [
        *_told(lambda: agent.opened),
        *_limits(agent.limits),
        *_numbers(agent),
        *([] if agent.saving is None else agent.saving.faults()),
        *agent.toolbox.faults(),
        *_told(lambda: agent.delegates),
    ]


def _lists(agent: Agent[Any, Any]) -> list[str]:
    """Options that take several things and were given one, or a text, whose characters would be taken for them."""
    given: dict[str, object] = {name: getattr(agent, name) for name in _SEVERAL}
    return [
        f"{name}= takes a list, such as {name}=[{_named(value)}]"
        for name, value in given.items()
        if isinstance(value, str) or not isinstance(value, Sequence)
    ]


def _named(value: object) -> str:
    if isinstance(value, str):
        return repr(value)
    return str(getattr(value, "__name__", f"{type(value).__name__}(...)"))


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
