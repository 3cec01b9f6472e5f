"""`Toolbox`: the tools that an agent has, from wherever they come; `Loaded`: the same, ready to be called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

from flowagent.core.context import Context
from flowagent.errors import ToolDefinitionError
from flowagent.models.base import ToolSpec
from flowagent.models.messages import ToolCall
from flowagent.tools import running, telling
from flowagent.tools.linting import lint
from flowagent.tools.names import likeness, wire_name
from flowagent.tools.outcome import ToolOutcome
from flowagent.tools.registry import Registry
from flowagent.tools.running import Running
from flowagent.tools.tool import Tool, as_tool
from flowagent.tools.toolset import Toolset


@runtime_checkable
class Toolkit(Protocol):
    """An object with several tools."""

    def tools(self) -> Sequence[ToolSource]:
        """Its tools, and what tools can be made of."""
        ...


@runtime_checkable
class Executable(Protocol):
    """An object that is a tool itself: its class may have state, and what it does stands in `execute`."""

    @property
    def execute(self) -> Callable[..., Any]:
        """What is called."""
        ...


ToolSource: TypeAlias = "Tool[..., Any] | Callable[..., Any] | Executable | Toolkit | Toolset | str"
"""What tools can come from: a tool, what one can be made of, a toolkit, a toolset, or a name in a registry."""


class Toolbox:
    """The tools that an agent has.

    Making one never raises for what is wrong with it: `faults` tells all of it at once, and `load` refuses.

    Args:
        sources: where the tools come from, in the order in which a model is told of them.
        registry: where names are looked up.
        reserved: names that the tools must not have, such as those of whoever uses the toolbox.
        running: how calls are made.

    Example:
        >>> def plus(a: int, b: int) -> int:
        ...     '''Add two numbers.'''
        ...     return a + b
        >>> Toolbox([plus]).faults(), Toolbox([plus, plus]).faults() == []
        ([], False)
    """

    def __init__(
        self,
        sources: Sequence[ToolSource] = (),
        *,
        registry: Registry | None = None,
        reserved: Iterable[str] = (),
        running: Running | None = None,
    ) -> None:
        self._reserved = frozenset(reserved)
        self._running = running or Running()
        self._parts: list[tuple[Tool[..., Any], ...] | Toolset] = []
        self._faults: list[str] = []
        for source in sources:
            self._take(source, registry)

    @property
    def tools(self) -> tuple[Tool[..., Any], ...]:
        """The tools that are known without asking a toolset."""
        return tuple(one for part in self._parts if isinstance(part, tuple) for one in part)

    @property
    def toolsets(self) -> tuple[Toolset, ...]:
        """The sources whose tools are only known when they are asked."""
        return tuple(part for part in self._parts if not isinstance(part, tuple))

    def faults(self) -> list[str]:
        """All that is wrong, as far as it is known before toolsets are asked; none if it can be used."""
        return [*self._faults, *_faults(self.tools, self._reserved)]

    def lint(self) -> list[str]:
        """What is allowed, and yet likely to make a model call the wrong tool, or a tool wrongly."""
        return lint(self.tools)

    async def load(self) -> Loaded:
        """Ask the toolsets, and check all tools together.

        Raises:
            ToolDefinitionError: something is wrong; all of it is listed.
        """
        if self._faults:
            raise ToolDefinitionError("the tools", self.faults())
        tools: list[Tool[..., Any]] = []
        for part in self._parts:
            tools += part if isinstance(part, tuple) else [_of(part, one) for one in await part.load()]
        faults = _faults(tools, self._reserved)
        if faults:
            raise ToolDefinitionError("the tools", faults)
        return Loaded(tuple(tools), self._running)

    async def close(self) -> None:
        """Close the toolsets. All of them are closed, whatever one raises."""
        errors: list[Exception] = []
        for toolset in self.toolsets:
            try:
                await toolset.close()
            except Exception as error:  # noqa: BLE001  # raised below, when the others are closed
                errors.append(error)
        if errors:
            raise ExceptionGroup("toolsets could not be closed", errors)

    def _take(self, source: object, registry: Registry | None) -> None:
        """Take what a source has; what is wrong with it is kept for `faults`."""
        try:
            if _is_toolset(source):
                self._parts.append(cast("Toolset", source))
            elif isinstance(source, str):
                self._parts.append((_registered(source, registry),))
            elif _is_toolkit(source):
                for one in cast("Toolkit", source).tools():
                    self._take(one, registry)
            else:
                self._parts.append((as_tool(source),))
        except ToolDefinitionError as error:
            self._faults += [f"{error.what}: {fault}" for fault in error.faults]


def _is_toolset(source: object) -> bool:
    """Whether a source has to be asked. A tool has neither method, and a class is only asked when it is made."""
    return not isinstance(source, (type, Tool)) and all(
        callable(getattr(source, one, None)) for one in ("load", "close")
    )


def _is_toolkit(source: object) -> bool:
    """Whether a source lists its tools. What has them as plain data, as an agent may, is something else."""
    return not isinstance(source, (type, Tool)) and callable(getattr(source, "tools", None))


def _registered(name: str, registry: Registry | None) -> Tool[..., Any]:
    if registry is None:
        raise ToolDefinitionError(f"tool {name!r}", ["it is only a name: pass the registry= that it stands in"])
    return registry.find(name)


def _of(toolset: Toolset, one: Tool[..., Any]) -> Tool[..., Any]:
    """A tool of a toolset, which says so."""
    label = f"toolset `{toolset.name}`"
    return one if label in one.origin else replace(one, origin=f"{label}, {one.origin}" if one.origin else label)


def _faults(tools: Sequence[Tool[..., Any]], reserved: frozenset[str]) -> list[str]:
    """What is wrong with tools together."""
    return [*_without_body(tools), *_clashes(tools), *_taken(tools, reserved)]


def _without_body(tools: Sequence[Tool[..., Any]]) -> Iterator[str]:
    for one in tools:
        if one.receiver:
            yield f"tool `{one.name}` ({one.origin}) is a method of a class: take it from an object"
        elif not one.body.runs and not one.external:
            yield f"tool `{one.name}` ({one.origin}) is only declared: give it a call=, or say external=True"


def _clashes(tools: Sequence[Tool[..., Any]]) -> Iterator[str]:
    """Names that a model would take for each other. The last must never win in silence."""
    known: dict[str, Tool[..., Any]] = {}
    for one in tools:
        other = known.setdefault(likeness(one.name), one)
        if other is not one:
            what = "the same name" if other.name == one.name else "names that are too much alike"
            yield (
                f"tools `{other.name}` ({other.origin}) and `{one.name}` ({one.origin}) have {what}: rename one with "
                "tool(..., name=...), or put a prefix before a toolset with prefixed(...)"
            )


def _taken(tools: Sequence[Tool[..., Any]], reserved: frozenset[str]) -> Iterator[str]:
    names = {likeness(name): name for name in reserved}
    for one in tools:
        if (name := names.get(likeness(one.name))) is not None:
            yield f"tool `{one.name}` ({one.origin}) has the reserved name `{name}`: rename it with tool(..., name=...)"


@dataclass(frozen=True, slots=True)
class Loaded:
    """Tools that are ready to be called.

    Args:
        tools: in the order in which a model is told of them.
        running: how calls are made.
    """

    tools: tuple[Tool[..., Any], ...]
    running: Running = field(default_factory=Running)

    def specs(self, ctx: Context[Any, Any] | None) -> tuple[ToolSpec, ...]:
        """What a model is told of them.

        Args:
            ctx: of the run, for tools that are not allowed to everybody; None leaves out none.
        """
        return tuple(_spec(one) for one in self.tools if ctx is None or _is_allowed(one, ctx))

    def find(self, name: str) -> Tool[..., Any] | None:
        """The tool that a model means by a name, which may have `-` in place of `_` or the other way round."""
        return next((one for one in self.tools if likeness(one.name) == likeness(name)), None)

    async def run(self, call: ToolCall, ctx: Context[Any, Any]) -> ToolOutcome:
        """Make a call. What goes wrong is told to the model.

        Args:
            call: as the model wrote it; of a reply that is complete. One that was cut off must not be run.
            ctx: of the node that makes the call.

        Raises:
            ToolFatal: the tool says that the run must not go on, or who was asked for approval does.
        """
        found = self.find(call.name)
        if found is None:
            return running.uncalled(call, ctx, telling.unknown(call.name, self.names(ctx)))
        return await running.run(found, call, ctx, self.running)

    def names(self, ctx: Context[Any, Any] | None = None) -> list[str]:
        """The names that providers are given, of the tools that are allowed."""
        return [wire_name(one.name) for one in self.tools if ctx is None or _is_allowed(one, ctx)]

    def batches(self, calls: Sequence[ToolCall]) -> tuple[tuple[ToolCall, ...], ...]:
        """Calls in batches: those of one may run side by side, and each batch after the one before.

        A call of a `sequential` tool stands alone. The order of the calls is kept.
        """
        made: list[list[ToolCall]] = []
        closed = True
        for call in calls:
            found = self.find(call.name)
            alone = found is not None and found.sequential
            if closed or alone:
                made.append([])
            made[-1].append(call)
            closed = alone
        return tuple(map(tuple, made))


def _is_allowed(one: Tool[..., Any], ctx: Context[Any, Any]) -> bool:
    return one.allowed is None or one.allowed(ctx)


def _spec(one: Tool[..., Any]) -> ToolSpec:
    return ToolSpec(
        name=wire_name(one.name),
        description=one.description,
        parameters=one.parameters,
        strict=one.strict,
        returns=one.returns,
        secrets=tuple(sorted(one.body.secrets)),
    )
