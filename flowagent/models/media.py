"""What images, sounds and documents a model reads, and how their bytes are written down."""

from __future__ import annotations

import base64
from fnmatch import fnmatchcase

from flowagent.errors import ModelError
from flowagent.models.base import ModelRequest, Profile
from flowagent.models.messages import AssistantMessage, Media, Message, Text


def check_media(request: ModelRequest, profile: Profile, model: str) -> None:
    """Refuse media that the model does not read, before anything is sent.

    Raises:
        ModelError: names each part, the model and what it reads (`unsupported`).
    """
    faults = [
        f"message {place}: {_fault(part, profile)}"
        for place, message in enumerate(request.messages)
        for part in _media(message)
        if _fault(part, profile)
    ]
    if faults:
        read = ", ".join(profile.media) or "text alone"
        lines = "\n".join(f"  - {fault}" for fault in faults)
        raise ModelError(
            f"{model} cannot be sent these parts:\n{lines}\nIt reads {read}.", kind="unsupported", model=model
        )


def _media(message: Message) -> list[Media]:
    if isinstance(message, AssistantMessage):
        return []
    contents = [message.parts] if message.role == "user" else [result.content for result in message.results]
    return [part for content in contents for part in content if not isinstance(part, Text)]


def _fault(part: Media, profile: Profile) -> str:
    label = f"{part.media_type} {part.name!r}" if part.name else part.media_type
    if not any(fnmatchcase(part.media_type, pattern) for pattern in profile.media):
        return f"{label} is of a type that it does not read"
    if (part.data is None) == (part.url is None):
        return f"{label} needs either `data` or `url`"
    if part.media_type.startswith("text/"):
        return _text_fault(part, label)
    return ""


def _text_fault(part: Media, label: str) -> str:
    if part.data is None:
        return f"{label} is text behind a URL, which no provider fetches; give it as `data`"
    try:
        part.data.decode()
    except UnicodeDecodeError:
        return f"{label} is no UTF-8"
    return ""


def unsendable(part: Media, model: str) -> ModelError:
    """The error for a part that the profile allows and the provider's interface has no form for."""
    shape = "a URL" if part.data is None else "bytes"
    return ModelError(
        f"{model} was not asked: its interface has no form for {part.media_type} given as {shape}",
        kind="unsupported",
        model=model,
    )


def base64_of(part: Media) -> str:
    """The bytes in base64."""
    return base64.b64encode(part.data or b"").decode()


def data_url(part: Media) -> str:
    """Where the part is: its own URL, or one that holds its bytes."""
    return part.url or f"data:{part.media_type};base64,{base64_of(part)}"


def inline_text(part: Media) -> str:
    """A text file as text, under its name."""
    text = (part.data or b"").decode()
    return f"{part.name}:\n{text}" if part.name else text
