"""`Registry`: tools that are shared by name, so that agents can be written as data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flowagent.errors import ToolDefinitionError
from flowagent.tools.names import nearest_first
from flowagent.tools.tool import Tool, as_tool


class Registry:
    """Tools by name, with namespaces and versions: `search`, `web.search`, `web.search@2`.

    A name without version means the newest, which is the greatest number, or else the last that was added.

    Example:
        >>> registry = Registry()
        >>> def plus(a: int, b: int) -> int:
        ...     return a + b
        >>> added = registry.add(plus, namespace="math", version=1)
        >>> registry.find("math.plus") is registry.find("math.plus@1")
        True
    """

    def __init__(self) -> None:
        self._tools: dict[str, dict[str, Tool[..., Any]]] = {}

    def add(
        self, one: Tool[..., Any] | Callable[..., Any], *, namespace: str = "", version: int | str = ""
    ) -> Tool[..., Any]:
        """Add a tool.

        Args:
            one: a tool, or what one can be made of.
            namespace: put before its name, with a dot.
            version: which one it is.

        Returns:
            The tool.

        Raises:
            ToolDefinitionError: the name is taken in that version; both origins are named.
        """
        made = as_tool(one)
        full = f"{namespace}.{made.name}" if namespace else made.name
        versions = self._tools.setdefault(full, {})
        if (known := versions.get(str(version))) is not None:
            label = f"{full}@{version}" if version != "" else full
            raise ToolDefinitionError(
                "registry", [f"`{label}` from {made.origin} is there already, from {known.origin}: give it a version"]
            )
        versions[str(version)] = made
        return made

    def find(self, name: str) -> Tool[..., Any]:
        """The tool of a name.

        Raises:
            ToolDefinitionError: there is none; the nearest names are told.
        """
        found, fault = self._look_up(name)
        if found is None:
            raise ToolDefinitionError("registry", [fault])
        return found

    def find_all(self, names: Iterable[str]) -> tuple[Tool[..., Any], ...]:
        """The tools of several names, in order.

        Raises:
            ToolDefinitionError: some do not exist; all of them are listed.
        """
        looked = [self._look_up(name) for name in names]
        faults = [fault for found, fault in looked if found is None]
        if faults:
            raise ToolDefinitionError("registry", faults)
        return tuple(found for found, _ in looked if found is not None)

    def names(self) -> tuple[str, ...]:
        """All names, with their versions, in the order in which they were added."""
        return tuple(
            f"{full}@{version}" if version else full for full, versions in self._tools.items() for version in versions
        )

    def _look_up(self, name: str) -> tuple[Tool[..., Any] | None, str]:
        full, at, version = name.rpartition("@")
        versions = self._tools.get(full if at else name)
        if versions is None:
            near = nearest_first(name, self.names())[:3]
            hint = f"; did you mean {', '.join(f'`{one}`' for one in near)}?" if near else "; it is empty"
            return None, f"there is no tool `{name}`{hint}"
        if not at:
            return versions[_newest(list(versions))], ""
        if version not in versions:
            known = ", ".join(f"`{one}`" for one in versions if one) or "none"
            return None, f"there is no version `{version}` of `{full}`; there are: {known}"
        return versions[version], ""


def _newest(versions: list[str]) -> str:
    numbered = [one for one in versions if one.isdecimal()]
    return max(numbered, key=int) if numbered else versions[-1]
