"""Exchanges with models as data, and the file in which they stand: a line of JSON for each."""

from __future__ import annotations

import os
import threading
from datetime import datetime
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from flowagent.core.usage import Usage
from flowagent.errors import ModelErrorKind, StoreError
from flowagent.models.base import ModelRequest
from flowagent.models.messages import AssistantMessage

BEGINNING: Final = b'{"at"'
"""How each line begins."""


class RecordedError(BaseModel):
    """How an exchange failed.

    Args:
        type: the class of the error.
        message: its text.
        kind: why, for a `ModelError`; None for whatever else ended it: a cancellation, or a stream left alone.
        retryable: see `ModelError`.
        status: see `ModelError`.
        retry_after: see `ModelError`.
        request_id: see `ModelError`.
        partial: see `ModelError`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: str
    message: str
    kind: ModelErrorKind | None = None
    retryable: bool = False
    status: int | None = None
    retry_after: float | None = None
    request_id: str = ""
    partial: str = ""


class Recording(BaseModel):
    """One exchange with a model, as it was written down.

    Args:
        at: when it was asked.
        model: who was asked, as `provider:model`.
        request: what it was told, without secrets.
        reply: what it answered; None if it failed.
        error: how it failed; None if it answered.
        usage: what it cost; None if that is not known.
        seconds: from the request to the end.
        first_token: seconds from the request to the first part of the reply; None if there was none.
        from_cache: whether the answer came from a cache.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    at: datetime
    model: str
    request: ModelRequest
    reply: AssistantMessage | None = None
    error: RecordedError | None = None
    usage: Usage | None = None
    seconds: float
    first_token: float | None = None
    from_cache: bool = False


class RecordingFile:
    """A file to which recordings are appended, each in one write; it is made when it is first needed."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._lock = threading.Lock()

    def append(self, line: str) -> None:
        """Appends a line.

        Raises:
            StoreError: the file could not be written.
        """
        try:
            with self._lock:
                self._append(line.encode())
        except OSError as error:
            raise StoreError(f"the recording could not be written to `{self._path}`: {error}") from error

    def _append(self, line: bytes) -> None:
        file = os.open(self._path, os.O_CREAT | os.O_APPEND | os.O_RDWR, 0o600)
        try:
            size = os.fstat(file).st_size
            torn = size > 0 and os.lseek(file, size - 1, os.SEEK_SET) >= 0 and os.read(file, 1) != b"\n"
            data = (b"\n" if torn else b"") + line + b"\n"
            if os.write(file, data) != len(data):
                raise OSError("only a part was written; is the disk full?")
        finally:
            os.close(file)


def read_recordings(path: str | os.PathLike[str]) -> list[Recording]:
    """The exchanges in a recorder's file, in the order in which they ended.

    A line that a dying process has left unfinished is left out.

    Raises:
        StoreError: the file cannot be read, or a line is no recording.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise StoreError(f"the recordings in `{os.fspath(path)}` cannot be read: {error}") from error
    numbered = enumerate(data.split(b"\n"), start=1)
    return [recording for number, line in numbered if line and (recording := _read(line, f"line {number} of `{path}`"))]


def _read(line: bytes, where: str) -> Recording | None:
    """The recording in a line, or None if the line is the beginning of one."""
    try:
        return Recording.model_validate_json(line)
    except ValidationError as error:
        is_ours = line[: len(BEGINNING)] == BEGINNING[: len(line)]
        if is_ours and error.errors()[0]["type"] == "json_invalid":
            return None
        raise StoreError(f"{where} is no recording of a model: {error}") from error
