"""Guardrails: code that looks at what is asked, at a tool's call or at an answer, and may end the agent there.

They block: nothing is spent and no tool is run before the input was looked at, unless one is declared to look on
beside the first request.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from pydantic_core import to_json

from flowagent.core.context import Context
from flowagent.core.signatures import takes_context

Check: TypeAlias = Callable[..., Any]
"""A function of what is looked at and, if wanted, the `Context`; what it returns is why it is refused, or None (also
`True` for fine and `False` for refused)."""


@dataclass(frozen=True, slots=True)
class Guard:
    """One guardrail.

    Args:
        check: what looks.
        on: what it looks at: the `input` message, the `output` as its type, or a `tool` call.
        beside: for input only: whether it looks on beside the first request, which then may be paid for in vain.
        name: what it is called in messages.
    """

    check: Check
    on: Literal["input", "output", "tool"]
    beside: bool = False
    name: str = ""

    @property
    def title(self) -> str:
        """Its name, by default its function's."""
        return self.name or getattr(self.check, "__name__", type(self.check).__name__)


@dataclass(frozen=True, slots=True)
class Blocked:
    """A guardrail refuses.

    Args:
        guard: its name.
        reason: why.
    """

    guard: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """The guardrails of an agent, by where they stand."""

    before: tuple[Guard, ...] = ()
    beside: tuple[Guard, ...] = ()
    tool: tuple[Guard, ...] = ()
    after: tuple[Guard, ...] = ()


def sorted_guards(guards: Sequence[Guard], canary: str) -> Guards:
    """Guardrails by where they stand; a canary makes one more."""
    after = [guard for guard in guards if guard.on == "output"]
    if canary:
        after.append(Guard(_without(canary), "output", name="canary"))
    return Guards(
        before=tuple(guard for guard in guards if guard.on == "input" and not guard.beside),
        beside=tuple(guard for guard in guards if guard.on == "input" and guard.beside),
        tool=tuple(guard for guard in guards if guard.on == "tool"),
        after=tuple(after),
    )


async def guard_all(guards: Sequence[Guard], ctx: Context[Any, Any], given: Any) -> Blocked | None:
    """What the first guardrail that refuses says; None if none does."""
    for guard in guards:
        said = guard.check(given, ctx) if takes_context(guard.check) else guard.check(given)
        said = await said if inspect.isawaitable(said) else said
        if said is not None and said is not True:
            return Blocked(guard.title, "refused" if said is False else str(said))
    return None


def _without(canary: str) -> Check:
    def leaks(output: Any) -> str | None:
        text = output if isinstance(output, str) else to_json(output, fallback=str).decode()
        return "the answer gives the instructions away" if canary in text else None

    return leaks
