"""When a request is made again, told to attempts that are written down."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from flowagent.core.usage import Usage
from flowagent.errors import ModelError, ModelErrorKind
from flowagent.models.base import Reply, StreamPart, TextDelta, Waiting
from flowagent.models.messages import AssistantMessage, Text
from flowagent.models.retrying import Retrying, retried

REPLY = Reply(message=AssistantMessage(parts=(Text(text="hi"),), usage=Usage(requests=1, input=3, output=2)))
LOST = Usage(requests=1, failed=1, unmeasured=1)


def failure(kind: ModelErrorKind = "overloaded", *, retry_after: float | None = None) -> ModelError:
    return ModelError("no", kind=kind, retryable=kind != "auth", retry_after=retry_after, usage=LOST)


class Attempts:
    """Attempts that tell what they were given, one list each; an error in a list is raised."""

    def __init__(self, *scripts: list[StreamPart | ModelError]) -> None:
        self.scripts = list(scripts)
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    async def attempt(self) -> AsyncGenerator[StreamPart]:
        for part in self.scripts.pop(0):
            if isinstance(part, ModelError):
                raise part
            yield part

    async def told(self, policy: Retrying, *, heard: bool = True) -> list[StreamPart]:
        return [part async for part in retried(self.attempt, policy, heard=heard, sleep=self.sleep)]


async def test_waits_grow_and_are_told_before_each_of_them() -> None:
    errors = [failure(), failure()]
    attempts = Attempts([errors[0]], [errors[1]], [REPLY])
    parts = await attempts.told(Retrying(backoff=1, jitter=0))
    assert attempts.slept == [1, 2]
    assert parts[:2] == [Waiting(1, errors[0]), Waiting(2, errors[1])]
    assert isinstance(parts[2], Reply)
    assert parts[2].usage == Usage(requests=3, failed=2, unmeasured=2, input=3, output=2)


async def test_what_will_not_pass_is_not_retried() -> None:
    attempts = Attempts([failure("auth")], [REPLY])
    with pytest.raises(ModelError) as caught:
        await attempts.told(Retrying())
    assert (str(caught.value), caught.value.usage) == ("no", LOST)


async def test_nothing_is_retried_once_a_part_was_heard() -> None:
    attempts = Attempts([TextDelta("h"), failure()], [REPLY])
    with pytest.raises(ModelError, match="no"):
        await attempts.told(Retrying())
    assert len(attempts.scripts) == 1


async def test_parts_that_nobody_hears_do_not_stand_in_the_way() -> None:
    error = failure()
    attempts = Attempts([TextDelta("h"), error], [REPLY])
    parts = await attempts.told(Retrying(backoff=0), heard=False)
    assert parts[1] == Waiting(0, error, restarted=False)


async def test_a_restart_is_told() -> None:
    error = failure()
    attempts = Attempts([TextDelta("h"), error], [TextDelta("hi"), REPLY])
    parts = await attempts.told(Retrying(backoff=0, after_first=True))
    assert parts == [TextDelta("h"), Waiting(0, error, restarted=True), TextDelta("hi"), parts[-1]]


async def test_a_wait_that_is_asked_for_is_kept_without_jitter() -> None:
    attempts = Attempts([failure(retry_after=7)], [REPLY])
    await attempts.told(Retrying(backoff=1, longest=2, jitter=1))
    assert attempts.slept == [7]


async def test_an_attempt_that_ends_without_a_reply_is_cut_off() -> None:
    with pytest.raises(ModelError) as caught:
        await Attempts([TextDelta("h")]).told(Retrying(attempts=1))
    assert caught.value.kind == "cut_off"


def test_waits_are_drawn_below_the_longest_and_never_overflow() -> None:
    policy = Retrying(backoff=0.5, longest=60, jitter=0.5)
    assert policy.delay(1, lambda: 0) == 0.5
    assert policy.delay(1, lambda: 1) == 0.25
    assert policy.delay(5000, lambda: 0) == 60


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"attempts": 0}, "at least 1"),
        ({"backoff": float("nan")}, "0 or more"),
        ({"longest": -1}, "0 or more"),
        ({"longest_wait": -1}, "0 or more"),
        ({"jitter": 1.5}, "from 0 to 1"),
    ],
)
def test_numbers_out_of_range_are_refused(options: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Retrying(**options)  # pyright: ignore[reportArgumentType]
