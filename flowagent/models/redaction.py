"""Secrets are taken out of what is recorded: keys and tokens by their form, by their name, and by the environment."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, cast

Redact: TypeAlias = Callable[[str], str]
"""Takes secrets out of a text."""

MASK: Final = "[redacted]"

_WORDS = (
    r"authorization|api[_-]?key|apikey|access[_-]?key|private[_-]?key|secret|token|password|passwd|passphrase"
    r"|credentials?|cookie"
)

SECRET_NAMES: Final = re.compile(rf"(?i)(?:^|[_\-.\s])(?:{_WORDS})$")
"""Names whose values are secret, whole or at their end: `api_key`, `X-Auth-Token`, `db_password`."""

SECRET_PAIRS: Final = re.compile(rf'(?i)("(?:[^"\\]*[_\-.\s])?(?:{_WORDS})"\s*:\s*")((?:[^"\\]|\\.)+)')
"""Such a name with its value where JSON stands in a text, as arguments of tools do."""

SECRET_FORMS: Final = re.compile(
    r"""
      \b(?:sk|pk|rk)-(?=[\w-]*\d)[\w-]{8,}         # OpenAI, Anthropic and many others
    | \b(?:sk|rk|pk)_(?:live|test)_\w{8,}          # Stripe
    | \b(?:AKIA|ASIA)[0-9A-Z]{16}\b                # Amazon
    | \bAIza[\w-]{30,}                             # Google
    | \bgh[pousr]_\w{20,} | \bgithub_pat_\w{20,}  # GitHub
    | \bglpat-[\w-]{16,}                           # GitLab
    | \bxox[abeoprs]-[\w-]{10,}                    # Slack
    | \bhf_[A-Za-z0-9]{20,}                        # Hugging Face
    | \beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*            # JSON web tokens
    | -----BEGIN\ [A-Z\ ]*PRIVATE\ KEY-----[\s\S]*?(?:-----END\ [A-Z\ ]*PRIVATE\ KEY-----|$)
    | (?<=Bearer\ )[\w.~+/=-]{8,} | (?<=Basic\ )[A-Za-z0-9+/=]{8,}
    | (?<=://)[^\s/:@]+:[^\s/@]+(?=@)              # user and password in a URL
    """,
    re.VERBOSE,
)

SHORTEST: Final = 8
"""Values of the environment that are shorter than this are no secrets worth the name, and stand in too many texts."""


def redacted(text: str) -> str:
    """A text without secrets.

    Taken out are what has the form of a known kind of key or token, what stands as JSON under a name such as
    `password`, and the values of environment variables with such a name, also in base64. Other secrets are not known
    here: give the recorder a function of your own that takes them out and calls this one.

    Example:
        >>> redacted("the key sk-test-123456 is mine")
        'the key [redacted] is mine'
    """
    for value in _environment():
        text = text.replace(value, MASK)
    return SECRET_FORMS.sub(MASK, SECRET_PAIRS.sub(rf"\1{MASK}", text))


def redacted_data(data: Any, redact: Redact) -> Any:
    """JSON data without secrets: texts through `redact`, and no value whose name says that it is secret.

    Args:
        data: the data, which is not changed.
        redact: takes secrets out of a text.

    Example:
        >>> redacted_data({"headers": {"x-api-key": "abc"}, "n": [1, "plain"]}, redacted)
        {'headers': {'x-api-key': '[redacted]'}, 'n': [1, 'plain']}
    """
    match data:
        case str():
            return redact(data)
        case {"kind": "media", "data": str(), **rest}:  # Bytes in base64, in which a form may stand by chance.
            return {**redacted_data(rest, redact), "kind": "media", "data": data["data"]}
        case dict():
            return {name: _value(name, value, redact) for name, value in cast("dict[str, Any]", data).items()}
        case list():
            return [redacted_data(one, redact) for one in cast("list[Any]", data)]
        case _:
            return data


def redacted_request(data: dict[str, Any], redact: Redact) -> dict[str, Any]:
    """A `ModelRequest` as JSON data without secrets; of its HTTP headers only the names are left."""
    clean = cast("dict[str, Any]", redacted_data(data, redact))
    headers = clean.get("settings", {}).get("headers")
    if headers:
        clean["settings"] = {**clean["settings"], "headers": dict.fromkeys(headers, MASK)}
    return clean


def _value(name: str, value: Any, redact: Redact) -> Any:
    # Names of fields may be those of tokens that are counted, whose values are numbers; a secret is a text.
    if isinstance(value, str) and value and SECRET_NAMES.search(name):
        return MASK
    return redacted_data(value, redact)


def _environment(environment: Mapping[str, str] = os.environ) -> list[str]:
    """The secret values of the environment, longest first, each as it is and in base64."""
    secrets = {value for name, value in environment.items() if len(value) >= SHORTEST and SECRET_NAMES.search(name)}
    coded = {base64.b64encode(value.encode()).decode().rstrip("=") for value in secrets}
    return sorted(secrets | coded, key=len, reverse=True)
