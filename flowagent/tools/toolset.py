"""Toolsets: sources of tools that are only known when they are asked, and what can be made of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

from flowagent.errors import ToolDefinitionError
from flowagent.tools.names import nearest_first
from flowagent.tools.tool import Approval, Tool


@runtime_checkable
class Toolset(Protocol):
    """A source of tools, such as a server."""

    @property
    def name(self) -> str:
        """What it is called in messages."""
        ...

    async def load(self) -> Sequence[Tool[..., Any]]:
        """Its tools, in an order that stays. Opens what must be open for them; may be called again."""
        ...

    async def close(self) -> None:
        """Close what was opened; may be called again."""
        ...


@dataclass(frozen=True, slots=True)
class _Changed:
    """A toolset whose tools are changed on the way."""

    inner: Toolset
    change: Callable[[Sequence[Tool[..., Any]]], Sequence[Tool[..., Any]]] = field(repr=False)

    @property
    def name(self) -> str:
        return self.inner.name

    async def load(self) -> Sequence[Tool[..., Any]]:
        return self.change(await self.inner.load())

    async def close(self) -> None:
        await self.inner.close()


@dataclass(frozen=True, slots=True)
class Fixed:
    """A toolset of tools that are known; for the combinators, which take toolsets.

    Example:
        >>> prefixed(Fixed("math", [Tool.from_schema(name="plus", parameters={})]), "math_").name
        'math'
    """

    name: str
    tools: Sequence[Tool[..., Any]]

    async def load(self) -> Sequence[Tool[..., Any]]:
        """The tools."""
        return self.tools

    async def close(self) -> None:
        """Nothing is open."""


def prefixed(toolset: Toolset, prefix: str) -> Toolset:
    """The same tools, with a text before each name, so that two sources do not clash."""
    return _Changed(toolset, lambda tools: [replace(one, name=f"{prefix}{one.name}") for one in tools])


def filtered(toolset: Toolset, keep: Callable[[Tool[..., Any]], bool]) -> Toolset:
    """Only the tools that are wanted, as in `lambda tool: "read" in tool.tags`."""
    return _Changed(toolset, lambda tools: [one for one in tools if keep(one)])


def renamed(toolset: Toolset, names: Mapping[str, str]) -> Toolset:
    """The same tools, some under other names.

    Args:
        toolset: whose.
        names: the new name by the old one; loading raises `ToolDefinitionError` for one that does not exist.
    """

    def change(tools: Sequence[Tool[..., Any]]) -> Sequence[Tool[..., Any]]:
        known = [one.name for one in tools]
        missing = [
            f"there is no tool `{old}` to rename; there are: {', '.join(nearest_first(old, known)) or 'none'}"
            for old in names
            if old not in known
        ]
        if missing:
            raise ToolDefinitionError(f"toolset `{toolset.name}`", missing)
        return [replace(one, name=names.get(one.name, one.name)) for one in tools]

    return _Changed(toolset, change)


def approved(
    toolset: Toolset, approval: Approval = True, *, only: Callable[[Tool[..., Any]], bool] | None = None
) -> Toolset:
    """The same tools, with a person to decide over each call.

    Args:
        toolset: whose.
        approval: see `ToolOptions`.
        only: which of them; all if not given.
    """
    return _Changed(
        toolset,
        lambda tools: [replace(one, approval=approval) if only is None or only(one) else one for one in tools],
    )
