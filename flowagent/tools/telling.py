"""What a model is told when a call comes to nothing: text that it can act on, without secrets or tracebacks."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (It looks into users' arguments, whose types are only known when it runs.)
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pydantic_core import from_json, to_json

from flowagent.core.fields import cut, text_of
from flowagent.core.secret import MASK, scrubbed
from flowagent.errors import ToolError, ToolRetry
from flowagent.models.schemas import Json, kinds_of
from flowagent.tools.body import ArgumentsError
from flowagent.tools.names import nearest_first

_MOST: Final = 20
"""How many things that are wrong with arguments a model is told."""

_LONGEST: Final = 4000
"""The longest text of an exception that a model is told."""


def unknown(name: str, known: Sequence[str]) -> str:
    """There is no tool of that name."""
    if not known:
        return f"There is no tool `{name}`, and no other either: answer without tools."
    names = ", ".join(f"`{one}`" for one in nearest_first(name, known))
    return f"There is no tool `{name}`. There are, the nearest first: {names}. Call one of them, or answer without."


def invalid(name: str, error: ArgumentsError, schema: Json) -> str:
    """The arguments do not fit; the tool was not called."""
    told = [f"- {problem}" for problem in error.problems[:_MOST]]
    if len(error.problems) > _MOST:
        told.append(f"- and {len(error.problems) - _MOST} more of that kind")
    problems = "\n".join(told)
    return (
        f"The arguments of `{name}` do not fit, so it was not called:\n{problems}\n"
        f"Its parameters: {parameters(schema)}. Call it again with all of them right."
    )


def parameters(schema: Json) -> str:
    """The parameters of a tool in one line."""
    required = schema.get("required", ())
    told = [
        f"`{name}` ({' or '.join(_kinds(part, schema))}{'' if name in required else ', optional'})"
        for name, part in schema.get("properties", {}).items()
    ]
    return ", ".join(told) or "none"


def _kinds(part: Any, root: Json) -> list[str]:
    kinds = sorted(kinds_of(part, root))
    return kinds if len(kinds) < 7 else ["anything"]  # all kinds there are


def failed(name: str, error: Exception, secrets: Iterable[str]) -> str:
    """The tool has raised: its own words if it meant the model to hear them, else the kind of error and its text."""
    text = cut(scrubbed(text_of(error), secrets), _LONGEST)  # cut first, a part of a secret would be left
    match error:
        case ToolRetry():
            return f"`{name}` must be called in another way: {text}"
        case ToolError():
            return text or f"`{name}` failed."
        case ExceptionGroup():  # as of tools that do several things at once: what went wrong is inside
            return "\n".join(failed(name, one, secrets) for one in error.exceptions)
        case _:
            return f"`{name}` failed: {type(error).__name__}{': ' if text else ''}{text}"


def forbidden(name: str) -> str:
    """The tool is not allowed in this run."""
    return f"`{name}` is not allowed here, and was not called. Go on without it."


def denied(name: str, reason: str) -> str:
    """A person has denied the call."""
    because = f": {reason}" if reason else "."
    return f"The call of `{name}` was denied by the person in charge, and was not made{because}"


def question(name: str, shown: Mapping[str, Any], place: str, reason: str) -> str:
    """What is asked of who decides over a call."""
    why = f" ({reason.rstrip('.')})" if reason else ""
    return f"`{name}` is to be called with {to_json(shown).decode()} in `{place}`{why}. Approve, deny, answer or abort?"


def shown(arguments: Mapping[str, Any], secrets: Iterable[str]) -> dict[str, Any]:
    """Validated arguments as plain data that may be shown."""
    hidden = frozenset(secrets)
    return {name: MASK if name in hidden else _plain(value) for name, value in arguments.items()}


def _plain(value: Any) -> Any:
    """A validated argument as plain data; what has no JSON form is told by its type."""
    try:
        return from_json(to_json(value, inf_nan_mode="strings", bytes_mode="base64"))
    except ValueError:
        return f"<{type(value).__name__}>"
