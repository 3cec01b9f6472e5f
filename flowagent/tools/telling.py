"""What a model is told when a call comes to nothing: text that it can act on, without secrets or tracebacks."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from pydantic import Secret, SecretBytes, SecretStr
from pydantic_core import from_json, to_json

from flowagent.core.fields import text_of
from flowagent.core.secret import MASK, revealed
from flowagent.errors import ToolError, ToolRetry
from flowagent.tools.body import ArgumentsError, short_text
from flowagent.tools.names import nearest_first
from flowagent.tools.strict import Json, kinds_of

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
    problems = "\n".join(f"- {problem}" for problem in error.problems)
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
    return kinds if len(kinds) < 7 else ["anything"]  # noqa: PLR2004  # all kinds there are


def failed(name: str, error: Exception, secrets: Iterable[str]) -> str:
    """The tool has raised: its own words if it meant the model to hear them, else the kind of error and its text."""
    text = scrubbed(short_text(text_of(error), _LONGEST), secrets)
    match error:
        case ToolRetry():
            return f"`{name}` must be called in another way: {text}"
        case ToolError():
            return text or f"`{name}` failed."
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
    why = f" {reason}." if reason else ""
    return f"`{name}` is to be called with {to_json(shown).decode()} in `{place}`.{why} Approve, deny, answer or abort?"


def shown(arguments: Mapping[str, Any], secrets: Iterable[str]) -> dict[str, Any]:
    """Validated arguments as plain data that may be shown."""
    hidden = frozenset(secrets)
    return {name: MASK if name in hidden else to_plain(value, name) for name, value in arguments.items()}


def to_plain(value: Any, name: str) -> Any:
    """A validated argument as plain data; what has no JSON form is told by its type."""
    try:
        return _json(value)
    except ValueError:
        return f"<{type(value).__name__} {name}>"


def _json(value: Any) -> Any:
    return from_json(to_json(value, inf_nan_mode="strings", bytes_mode="base64"))


# -- secrets ---------------------------------------------------------------------------------------------------------


def secrets_in(value: Any) -> Iterator[str]:
    """The texts that secret values hide, wherever they are in arguments."""
    if isinstance(value, (SecretStr, SecretBytes, Secret)):
        plain: Any = revealed(value)
        yield from _texts(plain)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from secrets_in(item)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            yield from secrets_in(item)
    elif hasattr(value, "__dict__"):
        for item in vars(value).values():
            yield from secrets_in(item)


def _texts(plain: Any) -> Iterator[str]:
    if isinstance(plain, bytes):
        yield plain.decode(errors="backslashreplace")
    elif isinstance(plain, (str, int, float)):
        yield str(plain)
    elif isinstance(plain, Mapping):
        for item in plain.values():
            yield from _texts(item)
    elif isinstance(plain, (list, tuple)):
        for item in plain:
            yield from _texts(item)


def scrubbed(text: str, secrets: Iterable[str]) -> str:
    """A text with the mask in place of each secret, in clear, in base64 and as part of a URL."""
    for secret in sorted(set(secrets), key=len, reverse=True):
        if secret:
            for form in _forms(secret):
                text = text.replace(form, MASK)
    return text


def _forms(secret: str) -> tuple[str, ...]:
    data = secret.encode(errors="surrogatepass")
    plain, urlsafe = base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode()
    return (secret, plain, plain.rstrip("="), urlsafe, urlsafe.rstrip("="), quote(data, safe=""))
