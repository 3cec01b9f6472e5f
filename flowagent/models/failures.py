"""Errors of the providers' packages, classified by what can be done about them.

The kind is decided by the provider's own word for the error first and by the HTTP status after: an error within a
stream comes with status 200, and a used-up quota with the same 429 as a rate limit that passes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, Final, Literal, cast

from flowagent.core.usage import Usage
from flowagent.errors import ModelError, ModelErrorKind

Manner = Literal["answered", "connection", "timeout", "garbled"]
"""How a request failed: by an error that the provider sent (as the answer or within a stream), by a connection that was
not made or broke, by the clock, or by an answer that cannot be read."""

RETRYABLE: Final[frozenset[ModelErrorKind]] = frozenset(
    {"rate_limit", "overloaded", "timeout", "connection", "cut_off", "server"}
)

_WORDS: Final[Mapping[str, ModelErrorKind]] = {
    "insufficient_quota": "quota",
    "billing_error": "quota",
    "billing_hard_limit_reached": "quota",
    "billing_not_active": "quota",
    "rate_limit_error": "rate_limit",
    "rate_limit_exceeded": "rate_limit",
    "overloaded_error": "overloaded",
    "server_is_overloaded": "overloaded",
    "slow_down": "overloaded",
    "authentication_error": "auth",
    "permission_error": "auth",
    "invalid_api_key": "auth",
    "not_found_error": "not_found",
    "model_not_found": "not_found",
    "context_length_exceeded": "context_exceeded",
    "exceed_context_size_error": "context_exceeded",
    "request_too_large": "context_exceeded",
    "string_above_max_length": "context_exceeded",
    "timeout_error": "timeout",
    "content_filter": "refused",
    "content_policy_violation": "refused",
    "image_content_policy_violation": "refused",
    "bio_policy": "refused",
    "cyber_policy": "refused",
    "misalignment_policy_violation": "refused",
    "invalid_prompt": "refused",
    "invalid_request_error": "bad_request",
    "api_error": "server",
    "server_error": "server",
}
_STATUSES: Final[Mapping[int, ModelErrorKind]] = {
    401: "auth",
    402: "quota",
    403: "auth",
    404: "not_found",
    408: "timeout",
    409: "server",
    413: "context_exceeded",
    425: "server",
    429: "rate_limit",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",
}
_TOO_LONG: Final = re.compile(
    r"prompt is too long|maximum context length|context (window|length|size)|exceeds? .{0,40}context", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What is known of a failed request, in no package's words.

    Args:
        manner: how it failed.
        text: what the provider or the package says.
        status: the HTTP status, or None.
        words: the provider's own words for the error, most telling first.
        param: the field of the request that it names, or "".
        headers: the headers of the answer, in lower case.
        request_id: the provider's id of the request.
    """

    manner: Manner
    text: str
    status: int | None = None
    words: tuple[str, ...] = ()
    param: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    request_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was asked, as far as an error should tell it.

    Args:
        model: who was asked, as `provider:model`.
        settings: the provider's field for each setting that was sent, such as `max_tokens` to `max_output_tokens`.
        scrub: removes secrets from a text.
    """

    model: str
    settings: Mapping[str, str]
    scrub: Callable[[str], str]


class Failed(Exception):
    """Raised by whoever reads a stream when an event says that the reply failed.

    Attributes:
        body: what the provider says, as the packages' errors have it.
        param: the field of the request that it names, or "".
    """

    def __init__(self, message: str, *, code: str = "", param: str = "") -> None:
        self.body = {"message": message, "code": code}
        self.param = param
        super().__init__(message)


def kind_of(fault: Fault) -> ModelErrorKind:
    """The kind of a failure."""
    match fault.manner:
        case "connection":
            return "connection"
        case "timeout":
            return "timeout"
        case "garbled":
            return "server"
        case "answered":
            return _answered_kind(fault)


def _answered_kind(fault: Fault) -> ModelErrorKind:
    kinds: list[ModelErrorKind] = [_WORDS[word] for word in fault.words if word in _WORDS]
    kind: ModelErrorKind | None = next((known for known in kinds if known not in ("bad_request", "server")), None)
    if kind is not None:
        return kind
    status = fault.status or 0
    if (status in (400, 422) or "bad_request" in kinds) and _TOO_LONG.search(fault.text):
        return "context_exceeded"
    if status in _STATUSES:
        return _STATUSES[status]
    if kinds:
        return kinds[0]
    # Without a word and a telling status (200: within a stream), only what is the request's own fault is final.
    return "bad_request" if 400 <= status < 500 else "server"


def told(
    fault: Fault, asked: Asked, *, begun: bool = False, partial: str = "", usage: Usage | None = None
) -> ModelError:
    """The error that is raised for a failure.

    Args:
        fault: what is known of it.
        asked: what was asked.
        begun: whether the answer had begun.
        partial: the text that had come.
        usage: what the request is known to have cost.
    """
    kind = kind_of(fault)
    if begun and kind == "connection":
        kind = "cut_off"
    text = f"{asked.model}: {_LEADS[kind]}: {fault.text}" if fault.text else f"{asked.model}: {_LEADS[kind]}"
    if kind == "bad_request":
        text += _named_setting(fault, asked)
    return ModelError(
        asked.scrub(text),
        kind=kind,
        retryable=_retryable(kind, fault),
        model=asked.model,
        status=fault.status,
        retry_after=retry_after(fault.headers),
        request_id=fault.request_id,
        partial=partial,
        usage=usage,
    )


_LEADS: Final[Mapping[ModelErrorKind, str]] = {
    "rate_limit": "too many requests",
    "quota": "the quota is used up or the bill not paid",
    "overloaded": "the provider is overloaded",
    "timeout": "no answer in time",
    "connection": "no connection",
    "cut_off": "the stream broke off before the reply was complete",
    "auth": "the key is missing, wrong or not allowed to do this",
    "not_found": "no such model or address",
    "bad_request": "the request was refused",
    "context_exceeded": "the request is longer than the model can read; shorten or compact the conversation",
    "refused": "the provider refuses this content",
    "unsupported": "not supported",
    "forbidden": "forbidden",
    "server": "an error within the provider",
}


def _retryable(kind: ModelErrorKind, fault: Fault) -> bool:
    match fault.headers.get("x-should-retry"):
        case "true":
            return kind != "quota"
        case "false":
            return False
        case _:
            return kind in RETRYABLE


def _named_setting(fault: Fault, asked: Asked) -> str:
    """The remedy when the provider names a setting that was sent."""
    for name, sent in asked.settings.items():
        words = {name, sent, sent.rpartition(".")[2]}
        if fault.param in words or any(re.search(rf"(?<![\w.]){re.escape(word)}(?!\w)", fault.text) for word in words):
            return f"\nThe provider names the setting {name!r}: change it or leave it out of `settings`"
    return ""


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that an answer asks to wait, or None."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None or not value:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


# -- the packages' errors --------------------------------------------------------------------------------------------


def fault_of(
    error: Exception, *, timeouts: tuple[type[Exception], ...], connections: tuple[type[Exception], ...]
) -> Fault:
    """What an exception of a provider's package says; both packages have the same attributes.

    Args:
        error: what was raised.
        timeouts: the package's classes for time-outs.
        connections: its classes, and those of its HTTP client, for connections that fail.
    """
    if isinstance(error, timeouts):
        return Fault(manner="timeout", text=_text(error))
    if isinstance(error, connections):
        return Fault(manner="connection", text=_text(error.__cause__ or error))
    if isinstance(error, ValueError):  # JSON or UTF-8 that is none; its text may hold all of the answer
        return Fault(manner="garbled", text=f"what it sent cannot be read ({type(error).__name__})")
    response: Any = getattr(error, "response", None)
    headers = {} if response is None else {key.lower(): value for key, value in response.headers.items()}
    status: int | None = getattr(error, "status_code", None)
    return Fault(
        manner="answered",
        text=_message(error),
        status=200 if status is None else status,
        words=_words(error),
        param=str(getattr(error, "param", None) or ""),
        headers=headers,
        request_id=str(getattr(error, "request_id", None) or headers.get("x-request-id") or ""),
    )


def _text(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _body(error: Exception) -> dict[str, Any]:
    """The error object in the answer's body, which stands at its top or under `error`."""
    body: Any = getattr(error, "body", None)
    if not isinstance(body, dict):
        return {}
    inner: Any = cast("dict[str, Any]", body).get("error", body)
    return cast("dict[str, Any]", inner) if isinstance(inner, dict) else {"message": str(inner)}


def _message(error: Exception) -> str:
    message = _body(error).get("message")
    return message if isinstance(message, str) and message else _text(error)


def _words(error: Exception) -> tuple[str, ...]:
    body = _body(error)
    found = (getattr(error, "error_code", None), body.get("code"), body.get("type"), getattr(error, "type", None))
    return tuple(word for word in found if isinstance(word, str))
