from __future__ import annotations

import pytest

from flowagent.errors import ToolDefinitionError
from flowagent.tools.tool import Tool, tool
from flowagent.tools.toolbox import Toolbox
from flowagent.tools.toolset import Fixed, Toolset, approved, filtered, prefixed, renamed


def read(path: str) -> str:
    """Read a file."""
    return path


def write(path: str) -> str:
    """Write a file."""
    return path


TOOLS = Fixed("files", [tool(read, tags=("safe",)), tool(write)])


async def names(toolset: Toolset) -> list[str]:
    """The names of the tools of a toolset."""
    return [one.name for one in await toolset.load()]


async def test_a_prefix_stands_before_each_name() -> None:
    assert await names(prefixed(TOOLS, "disk_")) == ["disk_read", "disk_write"]


async def test_only_wanted_tools_are_kept() -> None:
    assert await names(filtered(TOOLS, lambda one: "safe" in one.tags)) == ["read"]


async def test_tools_get_other_names() -> None:
    assert await names(renamed(TOOLS, {"read": "open"})) == ["open", "write"]


async def test_renaming_what_is_not_there_is_told() -> None:
    with pytest.raises(ToolDefinitionError, match="there is no tool `wriet` to rename; there are: write, read"):
        await renamed(TOOLS, {"wriet": "save"}).load()


async def test_calls_of_a_toolset_can_be_put_under_approval() -> None:
    assert [one.approval for one in await approved(TOOLS).load()] == [True, True]
    some = approved(TOOLS, only=lambda one: "safe" not in one.tags)
    assert [one.approval for one in await some.load()] == [False, True]


async def test_what_was_made_of_a_toolset_can_be_changed_further_and_is_closed_with_it() -> None:
    log: list[str] = []

    class Server:
        name = "server"

        async def load(self) -> list[Tool[..., str]]:
            log.append("load")
            return [tool(read)]

        async def close(self) -> None:
            log.append("close")

    box = Toolbox([approved(prefixed(Server(), "a_")), prefixed(TOOLS, "b_")])
    loaded = await box.load()
    await box.close()
    assert [(one.name, one.approval) for one in loaded.tools] == [
        ("a_read", True),
        ("b_read", False),
        ("b_write", False),
    ]
    assert (log, [one.name for one in box.toolsets]) == (["load", "close"], ["server", "files"])
