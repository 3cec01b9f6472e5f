"""`Replay`: a model that answers what was recorded."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import AsyncGenerator, Iterable, Iterator
from typing import Any, cast

from flowagent.errors import ModelError
from flowagent.models.base import ModelRequest, Profile, Reply, StreamPart, drained
from flowagent.models.deltas import Chunk, checked_chunk, deltas
from flowagent.models.fingerprint import fingerprint, told
from flowagent.models.program import ANYTHING, DEFAULT_CHUNK
from flowagent.models.recordings import Recording, read_recordings
from flowagent.models.redaction import Redact, redacted, redacted_request
from flowagent.models.scripted import UnexpectedRequest


class Replay:
    """A model that answers what was recorded, each request with the answer to an equal one.

    Requests are equal if all that a model is told is, after secrets were taken out of both; who was asked does not
    matter. An exchange is used once, and equal ones in the order in which they were recorded, failed ones included.

    Args:
        source: the file of a `Recorder`, or recordings.
        redact: takes secrets out of what is asked; what the recorder used.
        name: who it is, as `provider:model`; the model that was recorded, if it was a single one.
        profile: what it accepts; everything, if not given.
        chunk: how many characters a streamed piece has.

    Raises:
        StoreError: the file cannot be read.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | Iterable[Recording],
        *,
        redact: Redact | None = redacted,
        name: str = "",
        profile: Profile = ANYTHING,
        chunk: Chunk = DEFAULT_CHUNK,
    ) -> None:
        recordings = read_recordings(source) if isinstance(source, (str, os.PathLike)) else list(source)
        self._redact = redact
        self._entries = [
            _Entry(one, self._told(one.request)) for one in recordings if one.reply or (one.error and one.error.kind)
        ]
        models = {one.model for one in recordings}
        self._name = name or (models.pop() if len(models) == 1 else "replay:recorded")
        self._profile = profile
        self._chunk = checked_chunk(chunk)
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """Who it is, as `provider:model`."""
        return self._name

    @property
    def profile(self) -> Profile:
        """What it accepts."""
        return self._profile

    async def request(self, request: ModelRequest) -> Reply:
        """Answer as recorded.

        Raises:
            ModelError: as recorded.
            UnexpectedRequest: it was not recorded, or not so often; tells the first difference to the nearest one.
        """
        return await drained(self.stream(request))

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart]:
        """Answer as recorded, telling parts; the last one is the `Reply`.

        Raises:
            ModelError: as recorded.
            UnexpectedRequest: it was not recorded, or not so often; tells the first difference to the nearest one.
        """
        recording = self._take(request)
        if recording.reply is None:
            raise _error(recording)
        reply = Reply(
            message=recording.reply,
            seconds=recording.seconds,
            first_token=recording.first_token,
            from_cache=recording.from_cache,
        )
        for part in deltas(reply.message, self._chunk):
            yield part
        yield reply

    def assert_used_up(self) -> None:
        """Checks that every recorded exchange was asked for.

        Raises:
            AssertionError: some were not; they are listed.
        """
        with self._lock:
            left = [f"  - {number}: {entry}" for number, entry in enumerate(self._entries, 1) if not entry.used]
        if left:
            count = "1 recorded exchange was" if len(left) == 1 else f"{len(left)} recorded exchanges were"
            raise AssertionError("\n".join([f"{count} not asked for:", *left]))

    def _take(self, request: ModelRequest) -> Recording:
        asked = self._told(request)
        key = fingerprint(asked)
        with self._lock:
            equal = [entry for entry in self._entries if entry.key == key]
            entry = next((one for one in equal if not one.used), None)
            if entry is None:
                raise UnexpectedRequest(self._unknown(asked, len(equal)), request)
            entry.used = True
        return entry.recording

    def _told(self, request: ModelRequest) -> dict[str, Any]:
        data = told(request)
        return data if self._redact is None else redacted_request(data, self._redact)

    def _unknown(self, asked: dict[str, Any], equal: int) -> str:
        if equal:
            times = "once" if equal == 1 else f"{equal} times"
            return f"`{self._name}` was recorded with this request {times}, and it is asked for once more"
        if not self._entries:
            return f"nothing was recorded that `{self._name}` could answer with"
        nearest = max(self._entries, key=lambda entry: (_in_common(entry.told, asked), not entry.used))
        number = self._entries.index(nearest) + 1
        return (
            f"`{self._name}` was not recorded with this request. The nearest is exchange {number} of "
            f"{len(self._entries)}; the first difference is {_difference(nearest.told, asked)}"
        )


class _Entry:
    """A recording, what was told in it, and whether it was used."""

    def __init__(self, recording: Recording, told: dict[str, Any]) -> None:
        self.recording = recording
        self.told = told
        self.key = fingerprint(told)
        self.used = False

    def __str__(self) -> str:
        said = [*_leaves(self.told.get("messages", []), "")]
        return f"{self.recording.model}, {self.recording.at:%Y-%m-%d %H:%M:%S}, ending in {said[-1][1] if said else ''}"


def _error(recording: Recording) -> ModelError:
    """The error that was recorded."""
    error = recording.error
    assert error is not None and error.kind is not None
    return ModelError(
        error.message,
        kind=error.kind,
        retryable=error.retryable,
        model=recording.model,
        status=error.status,
        retry_after=error.retry_after,
        request_id=error.request_id,
        partial=error.partial,
        usage=recording.usage,
    )


def _leaves(data: Any, path: str) -> Iterator[tuple[str, str]]:
    """The single values in JSON data, each with its place, in order."""
    match data:
        case dict() if data:
            for name, value in cast("dict[str, Any]", data).items():
                yield from _leaves(value, f"{path}.{name}" if path else name)
        case list() if data:
            for number, value in enumerate(cast("list[Any]", data)):
                yield from _leaves(value, f"{path}[{number}]")
        case _:
            yield path, json.dumps(data, ensure_ascii=False)


def _in_common(recorded: dict[str, Any], asked: dict[str, Any]) -> int:
    """How many values two requests share, each at its place."""
    return len(set(_leaves(recorded, "")) & set(_leaves(asked, "")))


def _difference(recorded: dict[str, Any], asked: dict[str, Any]) -> str:
    """Where two requests first differ, and how."""
    before, now = dict(_leaves(recorded, "")), dict(_leaves(asked, ""))
    place = next(place for place in {**before, **now} if before.get(place) != now.get(place))
    return f"at `{place}`: recorded {before.get(place, 'nothing')}, asked {now.get(place, 'nothing')}"
