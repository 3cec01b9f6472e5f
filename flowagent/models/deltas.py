"""A complete message told in pieces, for models that have their answers whole: scripted, recorded, cached."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, repeat

from flowagent.models.base import CallDelta, StreamPart, TextDelta, ThinkingDelta
from flowagent.models.messages import AssistantMessage, Opaque, Text, Thinking, ToolCall

Chunk = int | Sequence[int]
"""How many characters a piece has: one number for all, or the sizes of the first pieces, of which the last goes on."""


def deltas(message: AssistantMessage, chunk: Chunk) -> Iterator[StreamPart]:
    """A message in pieces, as a provider streams it.

    Args:
        message: the whole.
        chunk: how many characters each piece has; at least 1.

    Yields:
        Pieces that make up its text, its thoughts and its calls. A call whose arguments are empty is told in one piece.

    Raises:
        ValueError: a size is below 1, or none is given.
    """
    number = 0
    for part in message.parts:
        match part:
            case Text(text=text):
                yield from (TextDelta(piece) for piece in _pieces(text, chunk))
            case Thinking(text=text):
                yield from (ThinkingDelta(piece) for piece in _pieces(text, chunk))
            case ToolCall(id=id_, name=name, arguments=arguments):
                yield from (CallDelta(number, id_, name, piece) for piece in _pieces(arguments, chunk) or [""])
                number += 1
            case Opaque():
                pass


def checked_chunk(chunk: Chunk) -> Chunk:
    """The sizes as they are, if they are such.

    Raises:
        ValueError: a size is below 1, or none is given.
    """
    sizes = [chunk] if isinstance(chunk, int) else list(chunk)
    if not sizes or min(sizes) < 1:
        raise ValueError(
            f"`chunk` is {chunk!r}; give how many characters a piece has, 1 or more, or several such sizes"
        )
    return chunk


def _pieces(text: str, chunk: Chunk) -> list[str]:
    sizes = repeat(chunk) if isinstance(chunk, int) else chain(chunk, repeat(chunk[-1]))
    pieces: list[str] = []
    start = 0
    while start < len(text):
        size = next(sizes)
        pieces.append(text[start : start + size])
        start += size
    return pieces
