"""Threads that serve event loops: calls go in from any loop, results go back to the loop they came from.

All are daemons and started when first needed: a store that nobody closed must never keep a program from ending.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Generic, TypeVar, cast

T = TypeVar("T")

_BATCH: Final = 512
_BATCH_BYTES: Final = 1024 * 1024
_GATHERED: Final = 64
"""How many jobs of one turn of a loop are handed over together: a turn of ten thousand runs is long, and they wait."""


class Job(ABC, Generic[T]):
    """Something that a thread is asked to do; it ends with a value or an error.

    Attributes:
        error: why it failed, once it has.
    """

    # Set here, for one is made at every step, and most of them end as they began.
    error: BaseException | None = None
    _value: T | None = None
    _future: asyncio.Future[None] | None = None
    _is_told: bool = False

    @property
    def size(self) -> int:
        """About how many bytes it writes."""
        return 0

    @abstractmethod
    def __call__(self) -> None:
        """Do it, alone."""

    def succeed(self, value: T) -> None:
        """Note the value."""
        self._value = value

    def fail(self, error: BaseException) -> None:
        """Note the error; a value that was noted before is none."""
        self.error = error
        self._value = None

    def result(self) -> T:
        """The value, or the error raised; given once, so that a job that lingers somewhere keeps nothing alive."""
        value, error = self._value, self.error
        self._value, self.error = None, None
        if error is None:
            return cast("T", value)
        try:
            raise error
        finally:
            del error  # It refers to this frame.

    def expect(self) -> None:
        """Have the running loop told when it is done."""
        self._future = asyncio.get_running_loop().create_future()

    async def outcome(self) -> T:
        """Wait for the outcome. Cancellation is raised when it is there, not before: the caller must know it."""
        assert self._future is not None, "nobody was to be told: a bug in flowagent"
        try:
            await self._future
        except asyncio.CancelledError:
            # The future is spent; another one takes its place. (All of this happens on its loop, and so in turn.)
            while not self._is_told:
                self.expect()
                with contextlib.suppress(asyncio.CancelledError):  # Asked again; it is raised all the same.
                    await self._future
            self._value, self.error = None, None
            raise
        return self.result()

    def tell(self) -> None:
        """Let the loop that waits know that it is done; called on that loop."""
        self._is_told = True
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The loop that waits."""
        return None if self._future is None else self._future.get_loop()


class Call(Job[T]):
    """A plain function as a job."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function

    def __call__(self) -> None:
        """Call the function and keep what comes of it."""
        try:
            self.succeed(self._function())
        except BaseException as error:  # noqa: BLE001 - it is raised where the outcome is awaited
            self.fail(error)


class Threads:
    """A few daemon threads on one queue.

    Args:
        name: what the threads are called in a debugger.
        most: how many there may be.
        together: does several jobs at once, if that is cheaper than one after another. It must not refer to
            the owner of the threads: an idle thread keeps nothing alive but its queue.
    """

    def __init__(
        self, name: str, *, most: int, together: Callable[[Sequence[Job[object]]], None] | None = None
    ) -> None:
        self._name = name
        self._most = most
        self._together = together
        self._lock = threading.Lock()
        self._queue: queue.SimpleQueue[Job[object] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._gathered: dict[asyncio.AbstractEventLoop, list[Job[Any]]] = {}

    def __del__(self) -> None:
        """Let idle threads go when nobody can ask them for anything any more."""
        for _ in self._threads:
            self._queue.put(None)

    def do(self, job: Job[T], *, gathers: bool = False) -> Awaitable[T]:
        """Have a job done, and wait for its outcome; see `Job.outcome`.

        Args:
            job: what is to be done.
            gathers: whether it may wait for the others of this turn of the loop. A thread that has begun with the first
                of them would fight the loop for the interpreter, and do in many parts what it can do in one.
        """
        job.expect()
        loop = job.loop
        if not gathers or loop is None:
            self._hand_over([job])
        elif (gathered := self._gathered.get(loop)) is not None:
            gathered.append(job)
            if len(gathered) == _GATHERED:
                self._hand_over(gathered)
                gathered.clear()
        else:
            for gone in [other for other in self._gathered if other.is_closed()]:
                del self._gathered[gone]  # it closed in the middle of its turn: nobody waits there any more
            self._gathered[loop] = [job]
            loop.call_soon(self._hand_over_gathered, loop)
        return job.outcome()

    def _hand_over_gathered(self, loop: asyncio.AbstractEventLoop) -> None:
        self._hand_over(self._gathered.pop(loop))

    def _hand_over(self, jobs: Sequence[Job[Any]]) -> None:
        with self._lock:
            for job in jobs:
                self._queue.put(job)
            if len(self._threads) < self._most:
                self._start()

    def stop(self) -> Sequence[threading.Thread]:
        """Have the threads, which are returned, end when they have done what is queued. New ones start by use."""
        with self._lock:
            threads, self._threads = self._threads, []
            for _ in threads:
                self._queue.put(None)
            self._queue = queue.SimpleQueue()
        return threads

    def _start(self) -> None:
        serve = _serve_one if self._together is None else _serve_many
        arguments = (self._queue, self._together)
        thread = threading.Thread(target=serve, args=arguments, name=self._name, daemon=True)
        self._threads.append(thread)
        thread.start()


def _serve_one(jobs: queue.SimpleQueue[Job[object] | None], _: object) -> None:
    while (job := jobs.get()) is not None:
        job()
        _tell([job])
        del job


def _serve_many(jobs: queue.SimpleQueue[Job[object] | None], together: Callable[[Sequence[Job[object]]], None]) -> None:
    while (first := jobs.get()) is not None:
        batch, ended = _drain(jobs, first)
        try:
            together(batch)
        except BaseException as error:  # noqa: BLE001 - a bug, perhaps: but nobody may wait for ever because of it
            for job in batch:
                job.fail(error)
        _tell(batch)
        del first, batch
        if ended:
            return


def _drain(jobs: queue.SimpleQueue[Job[object] | None], first: Job[object]) -> tuple[list[Job[object]], bool]:
    """What is there by now, within reason. There is no timer: a batch gathers while the one before is written."""
    batch = [first]
    size = first.size
    while len(batch) < _BATCH and size < _BATCH_BYTES:
        try:
            job = jobs.get_nowait()
        except queue.Empty:
            break
        if job is None:
            return batch, True
        batch.append(job)
        size += job.size
    return batch, False


def _tell(jobs: Sequence[Job[object]]) -> None:
    """Wake each loop once, whatever number of its jobs are done."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Job[object]]] = {}
    for job in jobs:
        if job.loop is not None:
            by_loop.setdefault(job.loop, []).append(job)
    for loop, done in by_loop.items():
        try:
            loop.call_soon_threadsafe(_tell_here, done)
        except RuntimeError:
            continue  # The loop is closed: nobody waits there any more.


def _tell_here(jobs: Sequence[Job[object]]) -> None:
    for job in jobs:
        job.tell()
