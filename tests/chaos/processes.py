"""Processes that a campaign starts, tells what to do, stops and kills.

They are forked from a server that has one thread and no store open, as neither would survive a fork; that server has
imported what they need, so one costs a few milliseconds.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Final, Self

from flowagent.errors import FlowAgentError

PATIENCE: Final = 30.0
"""After so many seconds a process is said to hang. Much, as the machine may be busy with other things."""

_CONTEXT: Final = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.chaos.warm"])


class Worker:
    """A process that calls a function with its end of a pipe; killed when the block is left.

    Args:
        work: the function; what it returns, or the error it raises, is the last thing that is heard of it.
        arguments: what it is called with, after the pipe.
    """

    def __init__(self, work: Callable[..., object], *arguments: object) -> None:
        self._pipe, theirs = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(target=_live, args=(theirs, work, arguments), daemon=True)
        self._process.start()
        theirs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def pid(self) -> int:
        """Its number."""
        assert self._process.pid is not None, "it was started when it was made"
        return self._process.pid

    def hear(self, patience: float = PATIENCE) -> Any:
        """The next thing it says; None when it was killed.

        Raises:
            TimeoutError: it says nothing for so many seconds.
        """
        if not self._pipe.poll(patience):
            raise TimeoutError(f"process {self._process.pid} has said nothing for {patience:g} s")
        try:
            return self._pipe.recv()
        except (EOFError, ConnectionResetError):
            return None

    def heard(self) -> list[Any]:
        """All that it has said and nobody has heard yet."""
        words: list[Any] = []
        while self._pipe.poll():
            word = self.hear()
            if word is None:
                break
            words.append(word)
        return words

    def tell(self, word: object) -> None:
        """Say something to it."""
        self._pipe.send(word)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it still lives."""
        if self._process.is_alive() and self._process.pid is not None:
            with contextlib.suppress(ProcessLookupError):  # it has ended in this very moment, and was reaped elsewhere
                os.kill(self._process.pid, number)

    def end(self) -> None:
        """Kill it, and let go of all that it took."""
        self.kill()
        self._process.close()
        self._pipe.close()

    def kill(self) -> None:
        """Kill it, and wait until it is gone."""
        self.signal(signal.SIGKILL)
        self._process.join(PATIENCE)


def _live(pipe: Connection, work: Callable[..., object], arguments: tuple[object, ...]) -> None:
    logging.getLogger("flowagent").setLevel(logging.CRITICAL)  # Leases that cannot be renewed are what is asked for.
    try:
        pipe.send(work(pipe, *arguments))
    except FlowAgentError as error:
        pipe.send((type(error).__name__, str(error)))
    except BaseException:
        pipe.send(("bug", traceback.format_exc()))
