"""`Recorder`: a model whose exchanges are written to a file."""

from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from datetime import UTC, datetime

from flowagent.errors import ModelError
from flowagent.models.around import Around
from flowagent.models.base import Model, ModelRequest, Reply, StreamPart
from flowagent.models.recordings import RecordedError, Recording, RecordingFile
from flowagent.models.redaction import Redact, redacted, redacted_data, redacted_request


class Recorder(Around):
    """A model whose exchanges are written to a file, a line of JSON for each, as it ends.

    Each line is appended in one write, so that several processes may record into one file. Nothing else is kept of an
    answer that was streamed than its reply. A file that only its owner can read is made if there is none.

    Args:
        model: who is asked.
        path: the file.
        redact: takes secrets out of each text before it is written; None writes everything as it is. What stands in
            HTTP headers, and under a name such as `api_key`, is masked unless it is None.
        now: the time of day.
        clock: seconds that only grow.

    Example:
        >>> from flowagent.models.scripted import Scripted
        >>> model = Recorder(Scripted("hello"), "exchanges.jsonl")

    See also `read_recordings`, which reads the file, and `Replay`, which answers from it.
    """

    def __init__(
        self,
        model: Model,
        path: str | os.PathLike[str],
        *,
        redact: Redact | None = redacted,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(model)
        self._file = RecordingFile(path)
        self._redact = redact
        self._now = now
        self._clock = clock

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart]:
        """Answer, telling parts as they come, and write the reply down before it is told.

        Raises:
            ModelError: the model could not; that is written down too.
            StoreError: the file could not be written.
        """
        start, at = self._clock(), self._now()
        ended = False
        try:
            async with aclosing(self._model.stream(request)) as parts:
                async for part in parts:
                    if isinstance(part, Reply):
                        ended = True
                        self._write(request, at, self._clock() - start, part)
                    yield part
        except BaseException as error:
            if not ended:  # Also one that was cancelled, or whose stream was left alone, was asked.
                self._write(request, at, self._clock() - start, error)
            raise

    def _write(self, request: ModelRequest, at: datetime, seconds: float, end: Reply | BaseException) -> None:
        # In the event loop and not in a thread: a stream that is left alone cannot wait for one, and it is one write.
        recording = _ended(end, Recording(at=at, model=self._model.name, request=request, seconds=seconds))
        data = recording.model_dump(mode="json")
        if self._redact is not None:
            data = {**redacted_data(data, self._redact), "request": redacted_request(data["request"], self._redact)}
        self._file.append(json.dumps(data, ensure_ascii=False))


def _ended(end: Reply | BaseException, asked: Recording) -> Recording:
    """The recording of an exchange with how it ended."""
    match end:
        case Reply(message=message, first_token=first_token, from_cache=from_cache):
            update = {"reply": message, "usage": end.usage, "first_token": first_token, "from_cache": from_cache}
        case ModelError():
            error = RecordedError(
                type=type(end).__name__,
                message=str(end),
                kind=end.kind,
                retryable=end.retryable,
                status=end.status,
                retry_after=end.retry_after,
                request_id=end.request_id,
                partial=end.partial,
            )
            update = {"error": error, "usage": end.usage}
        case _:
            update = {"error": RecordedError(type=type(end).__name__, message=str(end))}
    return asked.model_copy(update=update)
