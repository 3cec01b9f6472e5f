"""What is wrong with an agent, found when it is made."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import BaseModel, ConfigDict, InstanceOf, StrictInt, ValidationError

from flowagent.agents.deciding import AtLimit
from flowagent.agents.guards import Guard
from flowagent.agents.hooks import Hooks
from flowagent.agents.output import WantedMode
from flowagent.agents.prompt import DatePrecision, Example
from flowagent.core.fields import short
from flowagent.core.policies import Limits
from flowagent.core.signatures import takes_context
from flowagent.errors import GraphError, ModelError
from flowagent.models.base import Settings

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


class _Options(BaseModel):
    """The plain options of an agent, as they are held to their types."""

    model_config = ConfigDict(from_attributes=True, extra="forbid")

    name: str
    description: str
    role: str
    expected_output: str
    canary: str
    examples: Sequence[InstanceOf[Example]]
    stop_rule: str
    date: DatePrecision | None
    settings: Settings
    limits: InstanceOf[Limits]
    at_limit: AtLimit
    output_mode: WantedMode
    output_retries: StrictInt
    parallel_tools: StrictInt | None
    tool_errors: StrictInt
    max_result_tokens: StrictInt | None
    hooks: Sequence[InstanceOf[Hooks]]
    guards: Sequence[InstanceOf[Guard]]


def _misplaced(agent: Agent[Any, Any]) -> list[str]:
    """What stands where something of another kind is wanted; with that, nothing else can be looked at."""
    model: Any = agent.model
    faults = [] if isinstance(model, str) or callable(getattr(model, "stream", None)) else [f"model={model!r} is none"]
    if isinstance(model, type):
        faults = [f"model={model!r} is a class: give an object of it"]
    tools: Any = agent.tools
    if isinstance(tools, str) or not isinstance(tools, Sequence):
        faults.append(f"tools={tools!r} is no list")
    faults += [
        f"instructions: {one!r} is no text, and no function of the context"
        for one in cast("Sequence[Any]", agent.lines)
        if not isinstance(one, str) and not callable(one)
    ]
    try:
        _Options.model_validate(agent)
    except ValidationError as error:
        # Settings may hold headers with keys: what stands in them is not told.
        faults += [
            f"{'.'.join(map(str, one['loc']))}: {one['msg']}"
            + ("" if one["loc"][0] == "settings" else f" (got {short(one['input'])})")
            for one in error.errors(include_url=False, include_context=False)
        ]
    return faults


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
    return [*faults, *_instructions(agent)]


def _instructions(agent: Agent[Any, Any]) -> Iterator[str]:
    for one in agent.lines:
        try:
            if callable(one):
                inspect.signature(one).bind(None)
        except TypeError as error:
            yield f"instructions: {one!r} is called with the Context alone: {error}"
        except ValueError:  # builtins without a signature
            continue


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
