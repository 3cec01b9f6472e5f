"""Saves an answer to a file whose name is checked when the agent is made, and hands on the name as it became."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pydantic_core import to_json

from flowagent.agents.template import Template
from flowagent.core.context import Context
from flowagent.tools.builtin.files import Files

_KNOWN: Final = {"agent": str, "run_id": str, "task_id": str, "date": str}


@dataclass(frozen=True, slots=True)
class SaveTo:
    """Where an agent's answer is saved.

    Args:
        name: the file's name below `base`; may hold `{agent}`, `{run_id}`, `{task_id}` and `{date}`.
        base: the folder that nothing is written outside of.

    Example:
        >>> SaveTo("reports/{run_id}.md").faults()
        []
    """

    name: str
    base: str | Path = "."

    def faults(self) -> list[str]:
        """What is wrong with its name."""
        return [f"save_to: {fault}" for fault in Template(self.name).faults(_KNOWN)]


async def save(saving: SaveTo | None, agent: str, value: Any, ctx: Context[Any, Any]) -> str:
    """Write an answer, once, and give the name of the file.

    Args:
        saving: where to, or None for nowhere.
        agent: the agent's name.
        value: the answer: text as it is, anything else as JSON.
        ctx: of the node that gives the answer.

    Raises:
        ToolError: the name leads out of the base folder, or the file cannot be written.
    """
    if saving is None:
        return ""
    names = {"agent": agent, "run_id": ctx.run_id, "task_id": ctx.task_id, "date": f"{datetime.now(UTC):%Y-%m-%d}"}
    name = Template(saving.name).filled({key: _plain(one) for key, one in names.items()})
    text = value if isinstance(value, str) else to_json(value, indent=2).decode()
    return await ctx.step("save", _write, str(saving.base), name, text)


async def _write(base: str, name: str, text: str) -> str:
    def write() -> str:
        Path(base).mkdir(parents=True, exist_ok=True)
        Files(base, writable=True).write_file(name, text, replace=True)
        return name

    return await asyncio.to_thread(write)


def _plain(name: str) -> str:
    """A name that is one part of a path."""
    return "".join(char if char.isalnum() or char in "-_." else "_" for char in name).strip(".") or "_"


def as_saving(given: SaveTo | str | None) -> SaveTo | None:
    """What was given for `save_to=`."""
    return SaveTo(given) if isinstance(given, str) else given
